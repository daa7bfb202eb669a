"""The page: one HTML file with style, script, figures and pictures inside, which opens offline and asks for nothing.

A content security policy in the page forbids all network and all scripts but its own two, by their hashes: whatever a
record says, it can only ever be text.
"""
# ruff: noqa: RUF001  (signs that readers see)

import base64
import datetime
import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import NamedTuple

from ..files import atomic_path, check_place
from ..lab import catalogue
from ..lab.claims import Verdict, verdicts
from ..lab.claims.ledger import Status
from ..lab.progress import duration
from ..lab.store import Store
from ..version import __version__
from . import parts, provenance
from .blocks import Figure
from .figures import figures
from .gather import Cell, Gathered, Gatherer
from .html import Html, island, tag, text
from .others import others
from .tables import tables
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
STATUSES = {
    Status.HOLDS: "hold",
    Status.FAILS: "do not hold",
    Status.NOT_REACHED: "not reached with our settings",
    Status.NOT_COMPARABLE: "not comparable",
    Status.NOT_RUN: "not run",
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


def title(store: Store) -> str:
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
    cells, papers = gathered.cells, gathered.of_the_paper
    found = verdicts([cell.saved for cell in cells])
    drawn = [others(cells), *figures(papers), *theorems(papers)]
    body = [
        tag("a", "Skip to the report", href="#summary", class_="skip"),
        _navigation(drawn),
        tag(
            "main",
            _summary(gathered, found, title, progress),
            [_section(name, papers, drawn) for name in _sections(drawn)],
            _absent(drawn),
            _ledger(found, {cell.key: cell.saved.job.label for cell in cells}),
            _cells(cells),
        ),
        island(_used(gathered, drawn), id="pictures"),
    ]
    return _assemble(title, text(body))


def _assemble(title: str, body: Html) -> str:
    from plotly.offline import get_plotlyjs

    templates = files("multigrade.report").joinpath("templates")
    script = templates.joinpath("page.js").read_text(encoding="utf-8")
    library = get_plotlyjs()  # begins with its licence, MIT
    hashes = " ".join(f"'sha256-{_hash(each)}'" for each in (library, script))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return Template(templates.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        title=text(title), policy=policy, css=templates.joinpath("page.css").read_text(encoding="utf-8"), body=body,
        plotly=library, script=script,
    )  # fmt: skip


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _used(gathered: Gathered, drawn: Sequence[Figure]) -> dict[str, str]:
    """Only pictures that some figure shows."""
    blocks = [block for figure in drawn for block in figure.blocks]
    digests = {plate.shown.digest: None for block in blocks for plate in (*block.plates, *block.gallery)}
    return {digest: gathered.pictures[digest] for digest in digests}


def _navigation(drawn: Sequence[Figure]) -> Html:
    links = {"summary": "Summary", **_sections(drawn), "claims": "Claims", "cells": "Runs"}
    items = [
        tag("li", tag("a", name, href=f"#{anchor}"), _figure_links(anchor, drawn)) for anchor, name in links.items()
    ]
    return tag(
        "nav", tag("strong", "multigrade report"), tag("ul", items),
        tag("button", "Dark colours", type="button", id="theme"), aria_label="sections",
    )  # fmt: skip


def _sections(drawn: Sequence[Figure]) -> dict[str, str]:
    """Those that there is something of."""
    return {name: title for name, title in SECTIONS.items() if any(f.section == name and f.blocks for f in drawn)}


def _figure_links(section: str, drawn: Sequence[Figure]) -> Html | None:
    """The numbers of a section's figures that there is something of."""
    numbered = [f for f in drawn if f.section == section and f.blocks and f.name.startswith("Figure ")]
    links = [tag("a", f.name.removeprefix("Figure "), href=f"#{f.id}", aria_label=f.name) for f in numbered]
    return tag("small", "Figures ", [(link, " ") for link in links]) if links else None


# ---- summary -----------------------------------------------------------------------------------------------------


def _summary(gathered: Gathered, found: Sequence[Verdict], title: str, progress: Progress | None) -> Html:
    now = datetime.datetime.now(datetime.UTC).strftime("%d %B %Y, %H:%M UTC")
    counts = Counter(verdict.status for verdict in found)
    tiles = [
        tag("a", tag("b", f"{parts.SIGNS[status][0]} {counts[status]}", class_=parts.SIGNS[status][1]),
            tag("span", f"claims: {STATUSES[status]}"), class_="tile", href="#claims",
            data_status_link=str(status))
        for status in Status
    ]  # fmt: skip
    return tag(
        "section", tag("h1", title), tag("p", f"Written on {now} from saved results alone.", class_="soft"),
        _progress(progress), _warnings(gathered), tag("div", tiles, class_="tiles"), _facts(gathered.cells),
        _overview(gathered.cells, found) if gathered.of_the_paper or progress else None, id="summary",
    )  # fmt: skip


def _progress(progress: Progress | None) -> Html | None:
    if progress is None:
        return None
    sentence = f"Under way: {progress.done} of {progress.total} jobs are done. "
    live = tag("label", tag("input", type="checkbox", id="live", checked=True), " load this page again every 30 s")
    return tag("div", tag("p", sentence, tag("span", live, class_="live")), class_="notice")


def _warnings(gathered: Gathered) -> list[Html]:
    jobs, sentences = [cell.saved.job for cell in gathered.cells], []
    quick = sum(provenance.recipe(job) == "quick" for job in jobs)
    if quick:
        sentences.append(
            f"{quick} of {len(jobs)} results are quick runs: small and short, to see that everything works. "
            "They decide no claim."
        )
    stand_ins = sorted({str(job.settings.get("image", "own")) for job in jobs if job.settings.get("stand_in")})
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
    return [tag("div", tag("p", sentence), class_="notice") for sentence in sentences]


def _facts(cells: Sequence[Cell]) -> Html | None:
    if not cells:
        return None
    infos = [cell.saved.info for cell in cells]
    seconds = sum(info.get("seconds", 0) for info in infos)
    finished = sorted(info["finished"] for info in infos if info.get("finished"))
    without = {"baseline": "simple methods"}
    recipes = Counter(provenance.recipe(job := c.saved.job) or without.get(job.kind, "beside the paper") for c in cells)
    facts = {
        "Results": f"{len(cells)}: " + ", ".join(f"{number} {name}" for name, number in recipes.items()),
        "Work": f"{duration(seconds)} of jobs in all",
        "Finished": f"{finished[0][:16]} to {finished[-1][:16]}".replace("T", " ") + " UTC" if finished else "",
        "Machine": _several(f"{i['processor']}, {i['cores']} cores" for i in infos if i.get("processor")),
        "System": _several(i["system"] for i in infos if i.get("system")),
        "Versions": _several(", ".join(f"{k} {v}" for k, v in i.get("versions", {}).items()) for i in infos),
        "Report": f"multigrade {__version__}",
    }  # fmt: skip
    pairs = [(tag("dt", name), tag("dd", value)) for name, value in facts.items() if value]
    return tag("dl", [text(pair) for pair in pairs], class_="facts")


def _several(values) -> str:
    counts = Counter(values)
    return "; ".join(f"{value} ({number} results)" if len(counts) > 1 else value for value, number in counts.items())


def _overview(cells: Sequence[Cell], found: Sequence[Verdict]) -> Html:
    """Every item of the paper: what was run for it, and what became of its claims."""
    heads = ("item", "what", "in the paper", "results", "work", *(parts.SIGNS[status][0] for status in Status))
    titles = (*[None] * 5, *(str(status) for status in Status))
    head = tag(
        "tr",
        [tag("th", name, scope="col", title=word, aria_label=word) for name, word in zip(heads, titles, strict=True)],
    )
    rows = [_item_row(item, cells, found) for item in catalogue.items()]
    return tag("div", tag("table", tag("thead", head), tag("tbody", rows)), class_="scroll", tabindex=0, role="region",
               aria_label="items")  # fmt: skip


def _item_row(item: catalogue.Item, cells: Sequence[Cell], found: Sequence[Verdict]) -> Html:
    of_item = [cell for cell in cells if catalogue.is_of(item, cell.saved.job)]  # shared jobs in each of their items
    counts = Counter(verdict.status for verdict in found if _item_of(verdict.claim.id) == item.name)
    found_marks = {mark for cell in of_item for mark in provenance.marks(cell.saved.job)}
    marks = [mark for mark in ("fast", "best", "quick", "stand-in picture") if mark in found_marks]
    work = duration(sum(cell.saved.info.get("seconds", 0) for cell in of_item)) if of_item else "–"
    return tag(
        "tr", tag("td", tag("code", item.name)), tag("td", item.title, " ", parts.marks(marks)),
        tag("td", item.place), tag("td", len(of_item) or "–", class_="number"), tag("td", work, class_="number"),
        [tag("td", counts[status] or "·", class_=f"number {parts.SIGNS[status][1]}") for status in Status],
    )  # fmt: skip


def _item_of(claim: str) -> str:
    name = claim.partition("/")[0]
    if name == "theorem":
        return "convex" if claim == "theorem/3" else "theory"
    return name


# ---- sections ----------------------------------------------------------------------------------------------------


def _section(name: str, cells: Sequence[Cell], drawn: Sequence[Figure]) -> Html:
    shown = [figure for figure in drawn if figure.section == name and figure.blocks]
    table = next((each for each in tables(cells) if each.id == TABLES.get(name)), None)
    explanation = tag("p", EXPLAINED[name], class_="soft") if name in EXPLAINED else None
    return tag(
        "section", tag("h2", SECTIONS[name]), explanation, [parts.table(table), _legend()] if table else None,
        [parts.figure(figure) for figure in shown], id=name,
    )  # fmt: skip


def _legend() -> Html:
    return tag(
        "p", tag("small", "★ best of all that was run on this picture at this size. Against the paper's number, where "
        "the picture is the paper's and whole: ▲ higher, ▼ lower, ≈ within 0.5 dB (MGDL) or 1 dB (SGDL). † another "
        "picture stands in: not comparable with the paper. A number leads to its run."),
    )  # fmt: skip


def _absent(drawn: Sequence[Figure]) -> Html | None:
    """Figures that there is nothing of, and the commands that would make them."""
    by_item: dict[str, list[str]] = {}
    for figure in drawn:
        if figure.item and not figure.blocks:
            by_item.setdefault(figure.item, []).append(figure.name)
    if not by_item:
        return None
    rows = [
        tag("tr", tag("td", ", ".join(names)), tag("td", tag("code", f"multigrade reproduce {item}")))
        for item, names in by_item.items()
    ]
    body = tag("div", tag("table", tag("tbody", rows)), class_="scroll")
    return tag("section", tag("h2", "Not run yet"), body, id="absent")


def _ledger(found: Sequence[Verdict], labels: Mapping[str, str]) -> Html:
    options = [
        tag("option", "all verdicts", value=""),
        *(tag("option", str(status), value=str(status)) for status in Status),
    ]
    filters = tag(
        "div", tag("label", "Show ", tag("select", options, id="status")),
        tag("label", "with the words ", tag("input", type="search", id="words")),
        tag("span", "", id="count", class_="soft", role="status"), class_="filters",
    )  # fmt: skip
    heads = [tag("th", head, scope="col") for head in ("verdict", "claim", "found", "decided by")]
    rows = [parts.claim_row(verdict, labels) for verdict in found]
    body = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="ledger")
    note = (
        "Every number and statement of the paper that a record can decide. ~ not comparable: the runs at hand are not "
        "the paper's (quick, a stand-in picture, other training, fewer epochs); what they say is shown all the same."
    )
    return tag("section", tag("h2", "Claims"), tag("p", note), filters, tag("div", body, class_="scroll"), id="claims")


def _cells(cells: Sequence[Cell]) -> Html:
    groups: Mapping[str, list[Cell]] = {}
    for cell in sorted(cells, key=lambda cell: (provenance.rank(cell.saved.job), cell.saved.job.label)):
        groups.setdefault(cell.saved.job.item, []).append(cell)
    made = [
        tag("details", tag("summary", f"{item}: {len(group)} results"),
            tag("div", [parts.cell(cell) for cell in group], class_="inside"), class_="group")
        for item, group in sorted(groups.items())
    ]  # fmt: skip
    note = (
        "Every result with its exact configuration and the command that makes it again; IMAGES is the folder of the "
        "paper's images."
    )
    return tag("section", tag("h2", "Runs"), tag("p", note), made, id="cells")
