"""Figures 4-14: curves and pictures of regression, denoising and deblurring."""

from collections.abc import Mapping, Sequence
from typing import Any

from .. import catalogue
from ..claims.reconstruction import PAPER, title
from . import provenance
from .blocks import Block, Plate, firsts, loss_chart, select, variants
from .charts import Chart
from .gather import Cell, Shown


def reconstruction(cells: Sequence[Cell], task: str, image: str, **level: int) -> list[Block]:
    """One block for each recipe: the curve of both methods and a viewer for everything that was made of the picture."""
    kind = "regression" if task == "regress" else "restoration"
    found = select(cells, kind=kind, task=task, image=image, **level)
    simple = select(cells, kind="baseline", task=task, image=image, **level)
    name = ", ".join([title(image), *(f"{key} {value}" for key, value in level.items())])
    return [_reconstruction_block(name, group, simple) for group in variants(found)]


def _reconstruction_block(name: str, group: list[Cell], simple: list[Cell]) -> Block:
    runs, like = firsts(group), group[0]
    same = {name: like.settings[name] for name in ("size", "noise_seed") if name in like.settings}
    beside = [cell for cell in select(simple, **same) if cell.saved.job.data == like.saved.job.data]
    return Block("", name, (*runs, *beside), (reconstruction_chart(name, runs, beside),), plates(runs, beside))


def reconstruction_chart(name: str, runs: Sequence[Cell], simple: Sequence[Cell]) -> Chart:
    """PSNR against epochs where it was recorded (Figures 8-14), the training loss elsewhere (Figures 5, 6)."""
    has_psnr = all("psnr" in record.columns for cell in runs for record in cell.saved.result.records)
    column = "psnr" if has_psnr and runs[0].setup.task != "regress" else "train_loss"
    levels = ()
    if column == "psnr":
        methods = [item for cell in simple for item in cell.metrics["methods"].items()]
        levels = tuple((value, f"{method} {value:.2f} dB") for method, value in methods)
    label = "PSNR (dB)" if column == "psnr" else "training loss"
    return loss_chart(f"{name}: {label}", runs, column, levels)


def plates(runs: Sequence[Cell], simple: Sequence[Cell]) -> tuple[Plate, ...]:
    """Input and reference once; grades but the last, snapshots and results by method; then the simple methods."""
    found = [
        _plate(cell, name, shown)
        for cell in runs
        for name, shown in cell.pictures.items()
        if not (name.startswith("grade ") and shown == cell.pictures.get("result"))
    ]
    for cell in simple:
        methods = cell.metrics["methods"].items()
        found += [Plate(_with_psnr(name, psnr), cell.pictures[name]) for name, psnr in methods if name in cell.pictures]
    return tuple({plate.name: plate for plate in found}.values())


def _plate(cell: Cell, name: str, shown: Shown) -> Plate:
    method, metrics = str(cell.setup.method or cell.saved.job.label), cell.metrics
    if name == "reference":
        return Plate(name, shown, "reference")
    if name == "input":
        return Plate(_with_psnr(name, _input_psnr(cell)), shown, "input")
    if name == "result":
        return Plate(_with_psnr(method, metrics.get("test_psnr")), shown, "result")
    kind, _, number = name.partition(" ")
    if kind == "grade" and number.isdigit():
        grades = metrics.get("grades_test_psnr")
        psnr = grades[int(number) - 1] if isinstance(grades, list) and 0 < int(number) <= len(grades) else None
    else:
        snapshots = metrics.get("snapshots")
        psnr = snapshots.get(number) if isinstance(snapshots, Mapping) else None
    return Plate(_with_psnr(f"{method}, {name}", psnr), shown)


def _input_psnr(cell: Cell) -> float | None:
    given = cell.metrics.get("input")
    return given.get("psnr") if isinstance(given, Mapping) else cell.metrics.get("input_psnr")


def _with_psnr(label: str, value: Any) -> str:
    """Of someone's own job the metric may be missing, or anything."""
    return f"{label}, {value:.2f} dB" if isinstance(value, int | float) else label


def clean(cells: Sequence[Cell]) -> list[Block]:
    order = [*catalogue.SWEEP_IMAGES[:1], *catalogue.REGRESSION_IMAGES]
    with_picture = [cell for cell in cells if "reference" in cell.pictures and cell.setup.image in order]
    blocks = []
    for group in variants(with_picture):
        largest: dict[str, Cell] = {}
        for cell in group:
            name, area = cell.setup.image, cell.pictures["reference"].height
            if name not in largest or area > largest[name].pictures["reference"].height:
                largest[name] = cell
        chosen = [largest[name] for name in order if name in largest]
        plates = tuple(Plate(title(cell.setup.image), cell.pictures["reference"]) for cell in chosen)
        # Several groups would show the same pictures; one for those of the paper, one for stand-ins.
        if not any({p.shown.digest for p in plates} <= {p.shown.digest for p in b.gallery} for b in blocks):
            blocks.append(Block("", "The pictures of these runs", tuple(chosen), gallery=plates))
    return blocks[:2]


def degraded(cells: Sequence[Cell], task: str) -> list[Block]:
    kind, levels = ("noise", catalogue.NOISE_LEVELS) if task == "denoise" else ("blur", catalogue.BLUR_LEVELS)
    found = [cell for cell in select(cells, kind="baseline", task=task) if "input" in cell.pictures]
    blocks = []
    for image in catalogue.RESTORATION_IMAGES:
        printed = dict(zip(levels, PAPER["degraded"][task][image], strict=True))
        for group in variants(select(found, image=image)):
            ordered = sorted(group, key=lambda cell: cell.settings[kind])
            plates = []
            for cell in ordered:
                level = cell.settings[kind]
                is_same = level in printed and provenance.is_comparable(cell.saved.job)
                paper = f" (paper {printed[level]:.2f})" if is_same else ""
                name = f"{kind} {level}: {cell.metrics['input_psnr']:.2f} dB{paper}"
                plates.append(Plate(name, cell.pictures["input"]))
            blocks.append(Block("", title(image), tuple(ordered), gallery=tuple(plates)))
    return blocks
