"""The page: one HTML file with style, script, figures and pictures inside, which opens offline and asks for nothing.

``templates/`` says how it looks, this file what it says. Jinja escapes whatever is put in. A content security policy in
the page forbids all network and all scripts but the page's own two, by their hashes. So whatever a record says, it can
only ever be text.
"""
# ruff: noqa: RUF001  (signs that readers see)

import base64
import datetime
import functools
import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from multigrade.files import atomic_path, check_place
from multigrade.training.record import RunRecord
from multigrade.version import __version__

from .. import catalogue
from ..claims import Verdict, verdicts
from ..claims.ledger import Status
from ..evidence import Evidence
from ..progress import duration
from ..store import Store
from . import provenance
from .blocks import Figure
from .charts import data, described
from .figures import figures
from .gather import Cell, Gathered, Gatherer
from .others import others
from .tables import Table, tables
from .theorems import theorems

SECTIONS = {
    "others": "Runs beside the paper",
    "regression": "Image regression",
    "denoising": "Denoising",
    "deblurring": "Deblurring",
    "rates": "Learning rates",
    "spectra": "Eigenvalues along training",
    "theorems": "Theorems",
}
SIGNS = {
    Status.HOLDS: ("✓", "holds"),
    Status.CONSTRUCTED: ("✓", "incomparable"),
    Status.FAILS: ("✗", "fails"),
    Status.ROUNDING: ("⚄", "incomparable"),
    Status.OTHER_DRAWS: ("≈", "incomparable"),
    Status.NOT_REACHED: ("≈", "incomparable"),
    Status.NOT_COMPARABLE: ("~", "incomparable"),
    Status.NOT_RUN: ("○", "notrun"),
}
TABLES = {"regression": "table-1", "denoising": "table-2", "deblurring": "table-3"}
EXPLAINED = {
    "rates": "A cross at the top marks a rate at which a run diverged and has no number (NaN).",
    "spectra": "I − ηH is what one step of gradient descent multiplies errors by. Eigenvalues in the green band "
    "(−1, 1) mean steady descent; below −1, oscillation. The slider moves through the epochs; the narrow panel "
    "shows the eigenvalues at that moment, by index from the outside in.",
}


class Progress(NamedTuple):
    """A catalogue under way: jobs done, and jobs in all."""

    done: int
    total: int


def write_page(
    store: Store,
    path: str | os.PathLike,
    *,
    gatherer: Gatherer | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write the page of a store, whole or not at all. A ``gatherer`` that is kept reads each result once only."""
    gathered = (gatherer or Gatherer()).read(store)
    return save(build(gathered, title=title(store), progress=progress), path)


def title(store: Store | Evidence) -> str:
    return f"multigrade: {store.path.name}"


def save(page: str, path: str | os.PathLike) -> Path:
    path = check_output(path)
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path


def check_output(path: str | os.PathLike) -> Path:
    """The path, or ValueError: not an HTML file, no such folder, no permission."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"the report must end in .html; got {path.name!r}")
    check_place(path)
    return path


def build(gathered: Gathered, *, title: str, progress: Progress | None = None) -> str:
    """The page as text."""
    from plotly.offline import get_plotlyjs

    cells, papers = gathered.cells, gathered.of_the_paper
    found = verdicts([cell.saved for cell in cells])
    drawn = [others(cells), *figures(papers), *theorems(papers)]
    sections = _sections(papers, drawn)
    links = {"summary": "Summary", **{each.id: each.title for each in sections}, "claims": "Claims", "cells": "Runs"}
    labels = {cell.key: cell.saved.job.label for cell in cells}
    library, script = get_plotlyjs(), _templates().get_template("page.js").render()  # plotly's licence, MIT, is within
    return _templates().get_template("page.html").render(
        title=title, hashes=[_hash(library), _hash(script)], plotly=library, script=script, links=links,
        numbered={anchor: _numbered(anchor, drawn) for anchor in links},
        now=datetime.datetime.now(datetime.UTC).strftime("%d %B %Y, %H:%M UTC"), progress=progress,
        warnings=_warnings(gathered), signs=SIGNS, facts=_facts(cells),
        counts=Counter(verdict.status for verdict in found), sections=sections, absent=_absent(drawn),
        items=[_item(item, cells, found) for item in catalogue.items()] if papers or progress else [],
        ledger=[(verdict, [(key, labels[key]) for key in verdict.keys]) for verdict in found],
        groups=_groups(cells), pictures=_used(gathered, drawn),
    )  # fmt: skip


@functools.cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("multigrade_paper.report"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"described": described, "data": data, "short": short}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _used(gathered: Gathered, drawn: Sequence[Figure]) -> dict[str, str]:
    """Only pictures that some figure shows."""
    blocks = [block for figure in drawn for block in figure.blocks]
    digests = {plate.shown.digest: None for block in blocks for plate in (*block.plates, *block.gallery)}
    return {digest: gathered.pictures[digest] for digest in digests}


def _numbered(section: str, drawn: Sequence[Figure]) -> list[Figure]:
    """A section's figures that have a number in the paper, and that there is something of."""
    return [f for f in drawn if f.section == section and f.blocks and f.name.startswith("Figure ")]


# ---- summary -----------------------------------------------------------------------------------------------------


def _warnings(gathered: Gathered) -> list[str]:
    jobs, sentences = [cell.saved.job for cell in gathered.cells], []
    quick = sum(job.setup.recipe == "quick" for job in jobs)
    if quick:
        sentences.append(
            f"{quick} of {len(jobs)} results are quick runs: small and short, to see that everything works. "
            "They decide no claim."
        )
    stand_ins = sorted({str(job.setup.image or "own") for job in jobs if job.setup.stand_in})
    if stand_ins:
        names = ", ".join(name.replace("_", " ") for name in stand_ins)
        sentences.append(
            f"Other pictures stand in for the paper's ({names}). Their numbers cannot be compared with the paper's and "
            "are marked †."
        )
    if gathered.damaged:
        more = f"; and {len(gathered.damaged) - 3} more" if len(gathered.damaged) > 3 else ""
        sentences.append(f"Left out: {'; '.join(list(gathered.damaged.values())[:3])}{more}.")
    if not jobs:
        sentences.append("There is no result in this store yet.")
    return sentences


def _facts(cells: Sequence[Cell]) -> dict[str, str]:
    if not cells:
        return {}
    infos = [cell.saved.info for cell in cells]
    seconds = sum(info.get("seconds", 0) for info in infos)
    finished = sorted(info["finished"] for info in infos if info.get("finished"))
    without = {"baseline": "simple methods"}
    recipes = Counter((job := c.saved.job).setup.recipe or without.get(job.kind, "beside the paper") for c in cells)
    return {
        "Results": f"{len(cells)}: " + ", ".join(f"{number} {name}" for name, number in recipes.items()),
        "Work": f"{duration(seconds)} of jobs in all",
        "Finished": f"{finished[0][:16]} to {finished[-1][:16]}".replace("T", " ") + " UTC" if finished else "",
        "Machine": _several(f"{i['processor']}, {i['cores']} cores" for i in infos if i.get("processor")),
        "System": _several(i["system"] for i in infos if i.get("system")),
        "Versions": _several(", ".join(f"{k} {v}" for k, v in i.get("versions", {}).items()) for i in infos),
        "Report": f"multigrade {__version__}",
    }  # fmt: skip


def _several(values) -> str:
    counts = Counter(values)
    return "; ".join(f"{value} ({number} results)" if len(counts) > 1 else value for value, number in counts.items())


class ItemRow(NamedTuple):
    """An item of the paper: what was run for it, and what became of its claims."""

    name: str
    title: str
    place: str
    marks: list[str]
    num_results: int
    work: str
    counts: Counter


def _item(item: catalogue.Item, cells: Sequence[Cell], found: Sequence[Verdict]) -> ItemRow:
    of_item = [cell for cell in cells if catalogue.is_of(item, cell.saved.job)]  # shared jobs in each of their items
    counts = Counter(verdict.status for verdict in found if _item_of(verdict.claim.id) == item.name)
    found_marks = {mark for cell in of_item for mark in provenance.marks(cell.saved.job)}
    marks = [mark for mark in ("fast", "best", "quick", "stand-in picture") if mark in found_marks]
    work = duration(sum(cell.saved.info.get("seconds", 0) for cell in of_item)) if of_item else ""
    return ItemRow(item.name, item.title, item.place, marks, len(of_item), work, counts)


def _item_of(claim: str) -> str:
    name = claim.partition("/")[0]
    if name == "theorem":
        return "convex" if claim == "theorem/3" else "theory"
    return name


# ---- sections ----------------------------------------------------------------------------------------------------


class Section(NamedTuple):
    id: str
    title: str
    explanation: str
    table: Table | None
    figures: list[Figure]


def _sections(cells: Sequence[Cell], drawn: Sequence[Figure]) -> list[Section]:
    """Those that there is something of."""
    by_id = {table.id: table for table in tables(cells)}
    shown = {name: [figure for figure in drawn if figure.section == name and figure.blocks] for name in SECTIONS}
    return [
        Section(name, SECTIONS[name], EXPLAINED.get(name, ""), by_id.get(TABLES.get(name, "")), figures)
        for name, figures in shown.items()
        if figures
    ]


def _absent(drawn: Sequence[Figure]) -> dict[str, list[str]]:
    """Figures that there is nothing of, by the item that would make them."""
    by_item: dict[str, list[str]] = {}
    for figure in drawn:
        if figure.item and not figure.blocks:
            by_item.setdefault(figure.item, []).append(figure.name)
    return by_item


# ---- runs --------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """One run: the command that makes it again, how it ended, its numbers, its whole configuration."""

    key: str
    label: str
    marks: list[str]
    command: str
    records: Sequence[RunRecord]
    facts: Mapping[str, Any]
    configuration: str


def _groups(cells: Sequence[Cell]) -> list[tuple[str, list[Run]]]:
    """The runs of each item, nearest to the paper first."""
    groups: dict[str, list[Run]] = {}
    for cell in sorted(cells, key=lambda cell: (provenance.rank(cell.saved.job), cell.saved.job.label)):
        groups.setdefault(cell.saved.job.item, []).append(_run(cell))
    return sorted(groups.items())


def _run(cell: Cell) -> Run:
    job, info = cell.saved.job, cell.saved.info
    facts = {name: short(value) for name, value in cell.metrics.items() if isinstance(value, (int, float, str))}
    facts |= {"finished": info.get("finished"), "took": duration(info["seconds"]) if "seconds" in info else None}
    facts["processor"] = info.get("processor")
    configuration = json.dumps({"kind": job.kind, **job.settings, "data": job.data}, indent=1)
    records = cell.saved.result.records
    return Run(cell.key, job.label, provenance.marks(job), provenance.command(job), records, facts, configuration)


def short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "none" if value is None else str(value)
