"""Runs that belong to no item of the catalogue, the demo's among them: curves, predictions and pictures as they are."""

from collections.abc import Sequence

from .. import catalogue
from .blocks import Block, Figure, loss_chart
from .descents import prediction_chart
from .gather import Cell
from .reconstructions import plates, reconstruction_chart

# What runs of one block may differ in.
DIFFERENT = ("method", "structure", "learning_rate", "seed")


def others(cells: Sequence[Cell]) -> Figure:
    """One block for each data set."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        if not catalogue.is_ours(cell.saved.job):
            same = {k: str(v) for k, v in sorted(cell.settings.items()) if k not in DIFFERENT}
            groups.setdefault(f"{cell.saved.job.item} {cell.saved.job.kind} {same}", []).append(cell)
    blocks = [_block(f"others-{index + 1}", group) for index, group in enumerate(groups.values())]
    return Figure("beside", "", "others", "", "", tuple(blocks))


def _block(name: str, group: list[Cell]) -> Block:
    runs = sorted((cell for cell in group if cell.saved.result.records), key=_method, reverse=True)  # SGDL, then MGDL
    title = _title(group[0])
    charts = [prediction_chart(cell, _method(cell)) for cell in runs if "stages" in cell.saved.result.arrays]
    if runs and runs[0].setup.task:
        charts.append(reconstruction_chart(title, runs, []))
    elif runs:
        charts.append(loss_chart("Training loss", runs))
    return Block(name, title, tuple(group), tuple(charts), plates(group, []))


def _method(cell: Cell) -> str:
    return str(cell.setup.method or cell.saved.job.kind)


def _title(cell: Cell) -> str:
    setup = cell.setup
    parts = [f"setting {setup.setting}"] if setup.setting else []
    parts += [str(name) for name in (setup.task, setup.image) if name]
    parts += [f"{name} {level}" for name, level in (("noise", setup.noise), ("blur", setup.blur)) if level]
    return f"{cell.saved.job.item}: {', '.join(parts) or cell.saved.job.kind}"
