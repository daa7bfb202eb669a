"""What figures are made of: blocks of charts and pictures, and the choice of the runs that may be drawn together.

Runs of one recipe are drawn together and never mixed with another's; where several are saved, the one nearest to the
paper comes first. With several seeds, curves and pictures are the first one's.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from . import provenance
from .charts import Chart, Line, boundaries, curve, ends
from .gather import Cell, Shown

METHODS = ("SGDL", "MSDL", "MGDL")
Grades = tuple[tuple[float, str], ...]
Lost = tuple[tuple[float, str, str], ...]


@dataclasses.dataclass(frozen=True)
class Plate:
    """A picture to choose in a viewer, or of a gallery; ``role`` is "input", "result", "reference" or nothing."""

    name: str
    shown: Shown
    role: str = ""


@dataclasses.dataclass(frozen=True)
class Block:
    """What one group of runs shows: charts, pictures for a viewer, or pictures side by side."""

    id: str
    title: str
    cells: tuple[Cell, ...]
    charts: tuple[Chart, ...] = ()
    plates: tuple[Plate, ...] = ()
    gallery: tuple[Plate, ...] = ()

    @property
    def marks(self) -> list[str]:
        return list(dict.fromkeys(mark for cell in self.cells for mark in provenance.marks(cell.saved.job)))


@dataclasses.dataclass(frozen=True)
class Figure:
    """``item`` is the catalogue's entry that makes it; no blocks: it was not run."""

    id: str
    name: str
    section: str
    caption: str
    item: str
    blocks: tuple[Block, ...]


def select(cells: Iterable[Cell], **where: Any) -> list[Cell]:
    """Cells whose kind and settings have these values."""

    def value(cell: Cell, name: str):
        return cell.saved.job.kind if name == "kind" else cell.settings.get(name)

    return [cell for cell in cells if all(value(cell, name) == wanted for name, wanted in where.items())]


def variants(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Groups of runs that may be drawn together, nearest to the paper first."""
    groups: dict[tuple, list[Cell]] = {}
    for cell in sorted(cells, key=lambda cell: provenance.rank(cell.saved.job)):
        groups.setdefault(provenance.variant(cell.saved.job), []).append(cell)
    return list(groups.values())


def firsts(cells: Sequence[Cell]) -> list[Cell]:
    """The first seed of each method, in the order of ``METHODS``."""
    found: dict[str, Cell] = {}
    for cell in sorted(cells, key=lambda cell: cell.settings.get("seed", 0)):
        found.setdefault(cell.settings["method"], cell)
    return [found[method] for method in METHODS if method in found]


def method_lines(runs: Sequence[Cell], column: str) -> tuple[tuple[Line, ...], Grades, Lost]:
    """A column of each run, where grades begin, and where runs were lost."""
    lines, grades, lost = [], (), []
    for cell in runs:
        method, records = str(cell.settings.get("method", cell.saved.job.label)), cell.saved.result.records
        line = curve(records, column, method, method.lower())
        lines += [line] if line else []
        lost += ends(records, method.lower())
        grades = boundaries(records) or grades
    return tuple(lines), grades, tuple(lost)
