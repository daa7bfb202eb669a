"""Figures of gradient descent: learning rates, eigenvalues along training, predictions of synthetic data."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import catalogue
from ..claims.reconstruction import title
from .blocks import Block, firsts, loss_chart, select, variants
from .charts import Chart, Line, spectrum_chart
from .gather import Cell
from .reconstructions import plates

# ---- learning rates ----------------------------------------------------------------------------------------------


def rates(cells: Sequence[Cell], methods: Sequence[str]) -> list[Block]:
    places = {f"Setting {number}": {"setting": number} for number in (1, 2)}
    return _rate_blocks(cells, "synthetic sweep", methods, places, "train_loss", "training loss")


def image_rates(cells: Sequence[Cell]) -> list[Block]:
    places = {title(image): {"image": image} for image in catalogue.SWEEP_IMAGES}
    return _rate_blocks(cells, "image sweep", ("SGDL", "MGDL"), places, "test_psnr", "testing PSNR (dB)")


def _rate_blocks(cells, config: str, methods: Sequence[str], places, metric: str, label: str) -> list[Block]:
    """A chart for each of the places, titles with their settings, that there are runs of."""
    found = [cell for cell in select(cells, config=config) if cell.setup.method in methods]
    name = f"{label[0].upper()}{label[1:].removesuffix(' (dB)')} at each rate"
    blocks = []
    for group in variants(found):
        parts = {heading: select(group, **where) for heading, where in places.items()}
        charts = [_rate_chart(heading, part, methods, metric, label) for heading, part in parts.items() if part]
        blocks.append(Block("", f"{name}{_without(group, methods)}", tuple(group), tuple(charts)))
    return blocks


def _without(group: Sequence[Cell], methods: Sequence[str]) -> str:
    missing = [method for method in methods if not select(group, method=method)]
    return f" ({' and '.join(missing)} not run)" if missing else ""


def _rate_chart(name: str, cells: list[Cell], methods: Sequence[str], metric: str, label: str) -> Chart:
    lines, lost = [], []
    for method in methods:
        runs = select(cells, method=method)
        rates = sorted({cell.setup.learning_rate for cell in runs})
        values = [_at_rate(select(runs, learning_rate=rate), metric) for rate in rates]
        if rates:
            y = np.array([np.nan if value is None else value for value in values])
            lines.append(Line(method, method.lower(), np.array(rates), y, has_markers=True))
        lost += [
            (rate, method.lower(), f"{method} at {rate:g}: diverged, no number")
            for rate, value in zip(rates, values, strict=True)
            if value is None
        ]
    levels = ()
    if metric == "test_psnr" and (constant := cells[0].metrics.get("constant_psnr")) is not None:
        levels = ((constant, f"constant image {constant:.2f} dB"),)
    return Chart(
        name, "learning rate η", label, tuple(lines), log_x=True, log_y=metric == "train_loss", lost=tuple(lost),
        levels=levels,
    )  # fmt: skip


def _at_rate(runs: Sequence[Cell], metric: str) -> float | None:
    """The mean over seeds; None where one diverged."""
    values = [cell.metrics.get(metric) for cell in runs]
    if any(value is None or cell.metrics.get("is_diverged") for value, cell in zip(values, runs, strict=True)):
        return None
    return float(np.mean([value for value in values if value is not None]))


# ---- spectra and predictions -------------------------------------------------------------------------------------


def spectra(cells: Sequence[Cell], config: str, methods: Sequence[str] = ("SGDL", "MGDL"), **where: Any) -> list[Block]:
    found = [cell for cell in select(cells, config=config, **where) if cell.setup.method in methods]
    return [_spectrum_block(group, methods) for group in variants(found)]


def _spectrum_block(group: list[Cell], methods: Sequence[str]) -> Block:
    runs = firsts(group)
    charts = []
    for cell in runs:
        heading = f"{cell.setup.method}, η = {cell.setup.learning_rate:g}"
        chart = spectrum_chart(cell.saved.result.records, heading)
        charts += [chart] if chart else []
    charts.append(loss_chart("Training loss", runs))
    pictures = plates(runs, []) if runs[0].setup.image else ()
    name = f"Eigenvalues and loss along training{_without(group, methods)}"
    return Block("", name, tuple(runs), tuple(charts), pictures)


def predictions(cells: Sequence[Cell], methods: Sequence[str]) -> list[Block]:
    found = [
        cell for cell in select(cells, config="synthetic spectrum")
        if cell.setup.method in methods and "stages" in cell.saved.result.arrays
    ]  # fmt: skip
    blocks = []
    for group in variants(found):
        charts, used = [], []
        for number in (1, 2):
            runs = firsts(select(group, setting=number))
            charts += [prediction_chart(cell, f"Setting {number}, {cell.setup.method}") for cell in runs]
            used += runs
        blocks.append(Block("", f"Target and predictions{_without(group, methods)}", tuple(used), tuple(charts)))
    return blocks


def prediction_chart(cell: Cell, name: str) -> Chart:
    arrays = cell.saved.result.arrays
    stages = arrays["stages"]
    lines = [Line("target", "target", arrays["x"], arrays["target"])]
    lines += [
        Line(f"grades 1 to {k + 1}" if k else "grade 1", f"grade{k + 1}", arrays["x"], stage)
        for k, stage in enumerate(stages[:-1])
    ]
    method = str(cell.setup.method or cell.saved.job.label)
    lines.append(Line(f"{method}, all grades" if len(stages) > 1 else method, method.lower(), arrays["x"], stages[-1]))
    loss = cell.metrics.get("test_loss")
    return Chart(name if loss is None else f"{name}: test loss {loss:.2g}", "x", "g(x)", tuple(lines))
