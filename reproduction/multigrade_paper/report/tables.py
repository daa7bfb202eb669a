"""Tables 1-3 with our columns: the paper's numbers, every recipe that was run, and simple methods on the same pictures.

A number is held against the paper's only where that means something: the paper's own picture, whole, and not a quick
run. On one picture, all that was run on it is comparable, and the best of it is starred whoever it is.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import catalogue
from ..claims.measures import has_diverged
from ..claims.reconstruction import NUMBER, PAPER, title
from . import provenance
from .blocks import select
from .gather import Cell


@dataclasses.dataclass(frozen=True)
class Entry:
    """A number (dB) with the run it is from; ``against`` is the paper's, where they may be compared."""

    value: float | None = None
    small: str = ""
    against: float | None = None
    tolerance: float = 0.0
    key: str = ""
    is_best: bool = False
    is_stand_in: bool = False
    note: str = ""

    @property
    def sign(self) -> str:
        """▲ above the paper's number, ▼ below it, ≈ as near as we ask; nothing where there is nothing to compare."""
        if self.value is None or self.against is None:
            return ""
        difference = self.value - self.against
        return "≈" if abs(difference) <= self.tolerance else "▲" if difference > 0 else "▼"


@dataclasses.dataclass(frozen=True)
class Group:
    """Columns that belong together: a recipe, or simple methods."""

    name: str
    columns: tuple[str, ...]
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    id: str
    name: str
    caption: str
    heads: tuple[str, ...]
    groups: tuple[Group, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[Entry, ...]], ...]

    @property
    def firsts(self) -> set[int]:
        """The columns at which a group begins."""
        return {sum(len(group.columns) for group in self.groups[:k]) for k in range(len(self.groups))}


METHODS = ("SGDL", "MGDL")
EXACT = 100.0  # dB: beyond it rounding is measured, not learning; the best recipe puts the known pixels back
NAMES = {"paper": "paper recipe", "fast": "fast", "best": "best", "quick": "quick"}


def tables(cells: Sequence[Cell]) -> list[Table]:
    """The three of them; a table of which nothing was run has the paper's columns alone."""
    regression = [({"task": "regress", "image": image}, (title(image),)) for image in catalogue.REGRESSION_IMAGES]
    return [
        _table("1", "PSNR of image regression on all pixels (dB); of the training pixels below it.", ("image",),
               regression, cells),
        _table("2", "PSNR of denoising (dB).", ("image", "noise"),
               _levels("denoise", "noise", catalogue.NOISE_LEVELS), cells),
        _table("3", "PSNR of deblurring (dB); the noise is 3.", ("image", "blur"),
               _levels("deblur", "blur", catalogue.BLUR_LEVELS), cells),
    ]  # fmt: skip


def _levels(task: str, kind: str, levels: Sequence[int]) -> list[tuple[dict[str, Any], tuple[str, ...]]]:
    return [
        ({"task": task, "image": image, kind: level}, (title(image), str(level)))
        for image in catalogue.RESTORATION_IMAGES
        for level in levels
    ]


def _table(number: str, caption: str, heads: tuple[str, ...], places, cells: Sequence[Cell]) -> Table:
    task = places[0][0]["task"]
    runs = [cell for cell in select(cells, task=task) if cell.saved.job.kind in ("regression", "restoration")]
    simple = select(cells, task=task, kind="baseline")
    ours, inputs = _columns(runs), sorted({_input(cell) for cell in simple})
    names = list(dict.fromkeys(name for cell in simple for name in cell.metrics["methods"]))
    has_input = any("input_psnr" in cell.metrics for cell in simple)
    columns = (("input", *names) if has_input else tuple(names)) if simple else ()
    groups = [Group("paper", METHODS), *(Group(name, METHODS, note) for name, note, _ in ours)]
    groups += [
        Group("simple methods" + f" at {size} pixels" * (size > 0), columns, f"noise seed {draw}" if draw else "")
        for size, draw in inputs
    ]
    rows = []
    for where, head in places:
        entries = [_printed(where, method) for method in METHODS]
        entries += [_run(select(part, **where, method=method), where) for _, _, part in ours for method in METHODS]
        for each in inputs:
            entries += _simple([cell for cell in select(simple, **where) if _input(cell) == each], columns)
        rows.append((head, tuple(_starred(entries, cells))))
    return Table(f"table-{number}", f"Table {number}", caption, heads, tuple(groups), tuple(rows))


def _input(cell: Cell) -> tuple[int, int]:
    """What a picture was made into: its side (0: the whole) and the draw of the noise (0 where there is none)."""
    return cell.setup.size or 0, (cell.setup.noise_seed or 0) if cell.setup.noise else 0


def _columns(runs: Sequence[Cell]) -> list[tuple[str, str, list[Cell]]]:
    """Name, note and runs of each recipe; runs of one recipe with other changed settings are columns of their own."""
    groups: dict[tuple, list[Cell]] = {}
    for cell in sorted(runs, key=lambda cell: provenance.rank(cell.saved.job)):
        groups.setdefault(provenance.variant(cell.saved.job)[:2], []).append(cell)
    found = []
    for (recipe, _), part in groups.items():
        words = [mark for mark in provenance.marks(part[0].saved.job) if mark not in (recipe, "stand-in picture")]
        found.append((NAMES.get(recipe, recipe), ", ".join(words), part))
    return found


def printed(where: Mapping[str, Any], method: str) -> tuple[float, str] | None:
    """The paper's number for a cell, and what stands below it."""
    task, image = where["task"], where["image"]
    if task == "regress":
        known = PAPER["regression"].get(image, {}).get(method)
        return (known["test"], f"training {known['train']:.2f}") if known else None
    level = str(where["noise"] if task == "denoise" else where["blur"])
    known = PAPER[task].get(image, {}).get(method, {}).get(level)
    return (known, "") if known is not None else None


def _printed(where: Mapping[str, Any], method: str) -> Entry:
    known = printed(where, method)
    return Entry(*known) if known else Entry()


def _run(runs: Sequence[Cell], where: Mapping[str, Any]) -> Entry:
    """The mean over seeds, linked to the first one's run."""
    if not runs:
        return Entry()
    runs = sorted(runs, key=lambda cell: (bool(cell.setup.stand_in), cell.setup.seed))
    runs = [cell for cell in runs if cell.saved.job.data == runs[0].saved.job.data]  # seeds, not other pictures
    job = runs[0].saved.job
    values = [None if has_diverged([cell.saved]) else cell.metrics.get("test_psnr") for cell in runs]
    is_stand_in = bool(job.setup.stand_in)
    finite = [float(value) for value in values if value is not None]
    if len(finite) < len(values):
        return Entry(key=job.key, is_stand_in=is_stand_in, note="diverged")
    small = _training([cell.metrics.get("train_psnr") for cell in runs])
    small += [f"{len(finite)} seeds, {min(finite):.2f} to {max(finite):.2f}"] if len(finite) > 1 else []
    known = printed(where, job.setup.method) if provenance.is_comparable(job) else None
    return Entry(
        float(np.mean(finite)), ", ".join(small), known[0] if known else None, NUMBER[job.setup.method], job.key,
        is_stand_in=is_stand_in,
    )  # fmt: skip


def _training(values: Sequence[float | None]) -> list[str]:
    finite = [value for value in values if value is not None]
    if not finite or len(finite) < len(values):
        return []
    return [f"training {np.mean(finite):.2f}" if min(finite) < EXACT else "training pixels kept"]


def _simple(found: Sequence[Cell], columns: Sequence[str]) -> list[Entry]:
    if not found:
        return [Entry()] * len(columns)
    cell = min(found, key=lambda cell: bool(cell.setup.stand_in))
    values = {"input": cell.metrics.get("input_psnr"), **cell.metrics["methods"]}
    is_stand_in = bool(cell.setup.stand_in)
    return [Entry(values.get(name), key=cell.key, is_stand_in=is_stand_in) for name in columns]


def _starred(entries: Sequence[Entry], cells: Sequence[Cell]) -> list[Entry]:
    """The best of all entries on the same picture at the same size, with the same noise, is marked."""
    by_key, best = {cell.key: cell for cell in cells}, {}
    pictures = [_picture(by_key[entry.key]) if entry.key and entry.value is not None else None for entry in entries]
    for entry, picture in zip(entries, pictures, strict=True):
        if picture is not None:
            best[picture] = max(entry.value, best.get(picture, -np.inf))
    return [
        dataclasses.replace(entry, is_best=picture is not None and entry.value == best[picture])
        for entry, picture in zip(entries, pictures, strict=True)
    ]


def _picture(cell: Cell) -> tuple:
    return cell.saved.job.data, *_input(cell)
