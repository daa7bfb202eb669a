"""What figures are made of: blocks of charts and pictures, and the choice of the runs that may be drawn together.

Runs of one recipe are drawn together and never mixed with another's; where several are saved, the one nearest to the
paper comes first. With several seeds, curves and pictures are the first one's.
"""
# ruff: noqa: RUF001  (signs that readers see)

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from . import provenance
from .charts import Chart, boundaries, curve, ends
from .gather import Cell, Shown

METHODS = ("SGDL", "MSDL", "MGDL")
ROLES = ("input", "result", "reference")
Levels = tuple[tuple[float, str], ...]


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

    @property
    def sources(self) -> list[tuple[str, str]]:
        """Keys and names of the runs, by name."""
        return sorted(((cell.key, cell.saved.job.label) for cell in self.cells), key=lambda pair: pair[1])

    @property
    def viewer(self) -> "Viewer":
        """The input is on the left at first, the last result (MGDL's, where SGDL's is there too) on the right."""
        places = {role: [k for k, plate in enumerate(self.plates) if plate.role == role] for role in ROLES}
        results = places["result"] or [len(self.plates) - 1]
        left = (places["input"] or results)[0]
        reference = next((plate.shown.digest for plate in self.plates if plate.role == "reference"), "")
        return Viewer(self.plates, left, results[-1], reference)


@dataclasses.dataclass(frozen=True)
class Viewer:
    """Pictures to compare two by two, those that are shown first, and the digest of the truth, if it is there."""

    plates: tuple[Plate, ...]
    left: int
    right: int
    reference: str

    @property
    def stills(self) -> list[Plate]:
        """For paper: input, results and reference."""
        return [plate for role in ROLES for plate in self.plates if plate.role == role]

    @property
    def size(self) -> str:
        largest = max(self.plates, key=lambda plate: plate.shown.height).shown
        whole = f"{largest.width} × {largest.height} pixels"
        return f"The middle of {whole} is shown." if largest.is_cropped else f"{whole}."


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
    for cell in sorted(cells, key=lambda cell: cell.setup.seed):
        found.setdefault(cell.setup.method, cell)
    return [found[method] for method in METHODS if method in found]


def loss_chart(name: str, runs: Sequence[Cell], column: str = "train_loss", levels: Levels = ()) -> Chart:
    """The training loss, or the column psnr, of each run; where grades begin, and where runs were lost."""
    lines, grades, lost = [], (), []
    for cell in runs:
        method, records = str(cell.setup.method or cell.saved.job.label), cell.saved.result.records
        line = curve(records, column, method, method.lower())
        lines += [line] if line else []
        lost += ends(records, method.lower())
        grades = boundaries(records) or grades
    label = "PSNR (dB)" if column == "psnr" else "training loss"
    return Chart(
        name, "epochs, grade after grade", label, tuple(lines), log_y=column != "psnr", grades=grades, levels=levels,
        lost=tuple(lost),
    )  # fmt: skip
