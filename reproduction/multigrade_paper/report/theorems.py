"""Charts of the theorems: descent inside and outside its rate, the linearised iteration, a grade's convex optimum."""
# ruff: noqa: RUF001  (signs that readers see)

from collections.abc import Sequence

import numpy as np

from .blocks import Block, Figure, select, variants
from .charts import Chart, Line, thin
from .gather import Cell

SMALLEST = 1e-30  # distances below it are not drawn: the page holds single precision
TITLES = {
    1: "Theorem 1: descent of one network at a rate in (0, 2/α)",
    2: "Theorem 2: descent of a grade at a rate in (0, 2/α)",
    4: "Theorem 4: the linearised iteration converges",
    5: "Theorem 5: descent and its linearisation meet",
}


def theorems(cells: Sequence[Cell]) -> list[Figure]:
    return [
        Figure("theory", "Theorems 1, 2, 4 and 5", "theorems", "Measured on small smooth networks in float64.",
               "theory", _blocks(cells, "theory", "Losses and distances")),
        Figure("convex", "Theorem 3", "theorems",
               "A two-layer ReLU grade as a convex program, and gradient descent on the same objective.", "convex",
               _blocks(cells, "convex", "Fit and objective")),
    ]  # fmt: skip


def _blocks(cells: Sequence[Cell], kind: str, heading: str) -> tuple[Block, ...]:
    found = [cell for cell in select(cells, kind=kind) if cell.saved.result.arrays]
    blocks = []
    for index, group in enumerate(variants(found), 1):
        ordered = tuple(sorted(group, key=lambda cell: (cell.setup.theorem, cell.setup.setting)))
        charts = tuple(chart for cell in ordered for chart in _charts(cell))
        blocks.append(Block(f"{kind}-{index}", heading, ordered, charts))
    return tuple(blocks)


def _charts(cell: Cell) -> tuple[Chart, ...]:
    if cell.saved.job.kind == "convex":
        return _fit(cell), _objective(cell)
    return (_descent(cell) if cell.setup.theorem < 3 else _linearised(cell),)


def _line(name: str, role: str, values: np.ndarray) -> Line:
    return Line(name, role, *thin(np.arange(len(values)), values))


def _descent(cell: Cell) -> Chart:
    arrays, metrics = cell.saved.result.arrays, cell.metrics
    share = metrics["rate"] / metrics["limit"]
    lines = (
        _line(f"at {share:.2g} of 2/α", "mgdl", arrays["losses"]),
        _line("at 1.1 times 2/α", "sgdl", _finite(arrays["outside_losses"])),
    )
    return Chart(TITLES[cell.setup.theorem], "steps", "loss", lines, log_y=True)


def _finite(values: np.ndarray) -> np.ndarray:
    """Losses beyond any axis, and those that are no numbers, as gaps."""
    return np.where(np.isfinite(values) & (np.abs(values) < 1e12), values, np.nan)


def _linearised(cell: Cell) -> Chart:
    arrays, every = cell.saved.result.arrays, int(cell.saved.result.arrays["every"])
    named = (("errors", "descent to the minimum", "mgdl"), ("linearised_errors", "linearisation to it", "msdl"),
             ("distances", "descent to its linearisation", "sgdl"))  # fmt: skip
    lines = tuple(
        Line(name, role, every * np.arange(len(arrays[key])), np.where(arrays[key] >= SMALLEST, arrays[key], np.nan))
        for key, name, role in named
    )
    return Chart(TITLES[cell.setup.theorem], "steps", f"distance, down to {SMALLEST:g}", lines, log_y=True)


def _fit(cell: Cell) -> Chart:
    arrays = cell.saved.result.arrays
    lines = (
        Line("targets", "target", arrays["points"], arrays["targets"], has_markers=True),
        Line("convex optimum", "mgdl", arrays["grid"], arrays["optimum"]),
        Line("gradient descent", "sgdl", arrays["grid"], arrays["descent"]),
    )
    neurons = cell.metrics["neurons"]
    return Chart(f"Setting {cell.setup.setting}: {neurons} neurons at the optimum", "x", "g(x)", lines)


def _objective(cell: Cell) -> Chart:
    (record,), optimum = cell.saved.result.records, cell.metrics["objective"]
    lines = (Line("gradient descent", "sgdl", *thin(record.steps, record.train_loss)),)
    levels = ((optimum, f"global optimum {optimum:.4g}"),)
    title = f"Setting {cell.setup.setting}: objective, gap of the certificate {cell.metrics['gap']:.1e}"
    return Chart(title, "steps", "objective", lines, log_y=True, levels=levels)
