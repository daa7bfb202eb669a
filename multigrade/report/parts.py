"""Pieces of the page: tables, charts, viewers, cells. Text becomes HTML here and nowhere else, always escaped."""
# ruff: noqa: RUF001  (signs that readers see)

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..lab.claims import Verdict
from ..lab.claims.ledger import Status
from ..lab.progress import duration
from . import provenance
from .blocks import Block, Figure, Plate
from .charts import Chart, Line
from .gather import Cell
from .html import Html, island, tag, text
from .tables import Entry, Table

SIGNS = {
    Status.HOLDS: ("✓", "holds"),
    Status.FAILS: ("✗", "fails"),
    Status.NOT_REACHED: ("≈", "incomparable"),
    Status.NOT_COMPARABLE: ("~", "incomparable"),
    Status.NOT_RUN: ("○", "notrun"),
}


def marks(words: Sequence[str]) -> Html:
    return text([tag("span", word, class_="mark") for word in words])


def link(cell_key: str, label: Any) -> Html:
    return tag("a", label, href=f"#cell-{cell_key}")


# ---- tables ------------------------------------------------------------------------------------------------------


def table(table: Table) -> Html:
    groups = [
        tag("th", group.name, tag("small", group.note) if group.note else None, colspan=len(group.columns),
            scope="colgroup", class_="first")
        for group in table.groups
        if group.columns
    ]  # fmt: skip
    names = [
        tag("th", name, scope="col", class_="number first" if index == 0 else "number")
        for group in table.groups
        for index, name in enumerate(group.columns)
    ]
    heads = [tag("th", head, rowspan=2, scope="col") for head in table.heads]
    firsts = {sum(len(group.columns) for group in table.groups[:k]) for k in range(len(table.groups))}
    rows = [
        tag(
            "tr",
            [tag("th", head, scope="row") for head in row_heads],
            [_entry(entry, index in firsts) for index, entry in enumerate(entries)],
        )
        for row_heads, entries in table.rows
    ]
    body = [tag("thead", tag("tr", heads, groups), tag("tr", names)), tag("tbody", rows)]
    caption = tag("caption", f"{table.name}. {table.caption}")
    return tag("div", tag("table", caption, body), class_="scroll", tabindex=0, role="region", aria_label=table.name)


def _entry(entry: Entry, is_first: bool) -> Html:
    kind = "number first" if is_first else "number"
    if entry.value is None:
        return tag("td", link(entry.key, entry.note) if entry.key else "–", class_=kind)
    value = f"{entry.value:.2f}"
    shown = [link(entry.key, value) if entry.key else value]
    if entry.is_stand_in:
        shown.append(tag("sup", "†"))
    if entry.is_best:
        shown = ["★ ", tag("b", shown)]
    if entry.sign and entry.against is not None:
        word = {"▲": "holds", "▼": "fails", "≈": "notrun"}[entry.sign]
        difference = f" {entry.sign}{entry.value - entry.against:+.2f}"
        shown.append(tag("span", difference, class_=f"sign {word}"))
    return tag("td", shown, tag("small", entry.small) if entry.small else None, class_=kind)


# ---- figures -----------------------------------------------------------------------------------------------------


def figure(figure: Figure) -> Html:
    """Of many blocks the first is open; those beside the paper are few."""
    heading = tag("h3", tag("a", figure.name, href=f"#{figure.id}"), f". {figure.caption}") if figure.name else None
    blocks = [_block(block, is_open=index == 0 or not figure.name) for index, block in enumerate(figure.blocks)]
    return tag("section", heading, blocks, id=figure.id, class_="figure")


def _block(block: Block, *, is_open: bool) -> Html:
    shown = [_chart(chart) for chart in block.charts] + ([_viewer(block.plates)] if block.plates else [])
    is_pair = len(block.charts) == 1 and block.plates
    inside = tag("div", shown, class_="charts with-viewer" if is_pair else "charts")
    if block.gallery:
        inside = tag("div", [_gallery(plate) for plate in block.gallery], class_="gallery")
    summary = tag("summary", block.title, " ", marks(block.marks))
    return tag(
        "details",
        summary,
        tag("div", inside, _sources(block.cells), class_="inside"),
        class_="block",
        id=block.id,
        open=is_open,
    )


def _sources(cells: Sequence[Cell]) -> Html:
    """Links to the runs; many of them folded away."""
    ordered = sorted(cells, key=lambda cell: cell.saved.job.label)
    links = _joined([link(cell.key, cell.saved.job.label) for cell in ordered])
    if len(cells) <= 4:
        return tag("p", tag("small", "From: ", links))
    return tag("details", tag("summary", tag("small", f"From {len(cells)} runs")), tag("p", tag("small", links)))


def _joined(parts: Sequence[Html]) -> list:
    return [piece for index, part in enumerate(parts) for piece in ((", ", part) if index else (part,))]


def _chart(chart: Chart) -> Html:
    log = None
    if chart.can_be_log:
        log = tag("button", "log scale", type="button", class_="log", aria_pressed=str(chart.log_y).lower())
    scrub = None
    if chart.spectra is not None:
        last = len(chart.spectra.at) - 1
        slider = tag("input", type="range", min=0, max=last, value=last, step=1)
        scrub = tag("label", "Through the epochs", slider, tag("output", "", aria_live="polite"), class_="scrub")
    plot = tag("div", class_="plot", role="img", aria_label=_described(chart))
    return tag("figure", tag("figcaption", chart.title, log), plot, scrub, island(_data(chart)), class_="chart")


def _described(chart: Chart) -> str:
    """The chart in words, for who cannot see it."""
    parts = []
    for line in chart.lines:
        finite = line.y[np.isfinite(line.y)]
        if line.is_legend and len(finite):
            parts.append(f"{line.name} from {finite[0]:.3g} to {finite[-1]:.3g}")
    parts += [sentence for _, _, sentence in chart.lost]
    return f"{chart.title}: {chart.y_label} against {chart.x_label}. " + "; ".join(parts)


def _data(chart: Chart) -> dict[str, Any]:
    made = {name: getattr(chart, name) for name in ("x_label", "y_label", "log_x", "log_y", "grades", "levels", "band")}
    made |= {"lines": [_line(line) for line in chart.lines], "lost": chart.lost, "spectra": None}
    seen = chart.spectra
    if seen is not None:
        arrays = {name: _floats(getattr(seen, name)) for name in ("at", "step", "grade", "values", "loss")}
        made["spectra"] = {**arrays, "num": seen.values.shape[1] // 2}
    return made


def _line(line: Line) -> dict[str, Any]:
    fields = {name: getattr(line, name) for name in ("name", "role", "has_markers", "is_legend")}
    return {**fields, "x": _floats(line.x), "y": _floats(line.y)}


def _floats(values: np.ndarray) -> str:
    return base64.b64encode(np.asarray(values, "<f4").tobytes()).decode()


# ---- pictures ----------------------------------------------------------------------------------------------------


def _gallery(plate: Plate) -> Html:
    shown = tag("img", data_picture=plate.shown.digest, alt=plate.name, width=128, height=128)
    return tag("figure", shown, tag("figcaption", plate.name))


def _viewer(plates: Sequence[Plate]) -> Html:
    """Two pictures under one divider; which ones, and whether as pictures or as errors, is the reader's choice."""
    reference = next((plate.shown for plate in plates if plate.role == "reference"), None)
    results = [index for index, plate in enumerate(plates) if plate.role == "result"] or [len(plates) - 1]
    left = next((index for index, plate in enumerate(plates) if plate.role == "input"), results[0])
    right = results[-1]  # MGDL's, where there is SGDL's too
    selects = [
        tag("label", side, tag("select", [_option(p, k == chosen) for k, p in enumerate(plates)]))
        for side, chosen in (("left", left), ("right", right))
    ]
    error = tag("label", tag("input", type="checkbox", class_="error", disabled=reference is None), "error map")
    scale = tag("small", "error 0 ", tag("span", class_="legend", style=_HEAT), " 0.2 of the range", class_="scale")
    zoom = tag(
        "label", "zoom", tag("input", type="range", class_="zoom", min=1, max=8, step=0.5, value=1), class_="wide"
    )
    split = tag("input", type="range", class_="split", min=0, max=100, step=1, value=50, aria_label="divider")
    sheet = tag("div", tag("canvas"), tag("canvas"), tag("div", class_="edge"), class_="sheet")
    stage = tag("div", sheet, class_="stage", tabindex=0, role="img", aria_label="two pictures under a divider")
    return tag(
        "div", tag("div", selects, class_="row"), stage, tag("div", split, class_="under"),
        tag("div", error, zoom, class_="row under"), tag("p", _cropped(plates), " ", scale),
        tag("p", class_="note", role="status"), _stills(plates), class_="viewer",
        data_reference=reference and reference.digest,
    )  # fmt: skip


def _stills(plates: Sequence[Plate]) -> Html:
    """For paper, where nothing slides: input, results and reference side by side."""
    chosen = [plate for role in ("input", "result", "reference") for plate in plates if plate.role == role]
    return tag("div", [_gallery(plate) for plate in chosen], class_="gallery stills", aria_hidden="true")


_HEAT = "background: linear-gradient(90deg, #000004, #51127c, #b73779, #fc8961, #fcfdbf)"


def _option(plate: Plate, is_chosen: bool) -> Html:
    return tag("option", plate.name, value=plate.shown.digest, selected=is_chosen)


def _cropped(plates: Sequence[Plate]) -> Html | None:
    largest = max(plates, key=lambda plate: plate.shown.height).shown
    whole = f"{largest.width} × {largest.height} pixels"
    return tag("small", f"The middle of {whole} is shown." if largest.is_cropped else f"{whole}.")


# ---- claims ------------------------------------------------------------------------------------------------------


def status(status: Status) -> Html:
    sign, kind = SIGNS[status]
    return tag("span", f"{sign} {status}", class_=kind)


def claim_row(verdict: Verdict, labels: Mapping[str, str]) -> Html:
    """``labels`` are the names of runs by their keys."""
    claim = verdict.claim
    simple = ", ".join(f"{name} {value:.2f}" for name, value in verdict.baselines.items())
    runs = _joined([link(key, labels[key]) for key in verdict.keys])
    if len(verdict.keys) > 2:
        runs = tag("details", tag("summary", f"{len(verdict.keys)} runs"), runs)
    numbers = ", ".join(f"{name} {_short(value)}" for name, value in verdict.numbers.items())
    how = tag(
        "details", tag("summary", "how it is judged"), tag("div", "Asked: ", claim.tolerance, "."),
        tag("div", claim.note) if claim.note else None, tag("div", "Numbers: ", numbers) if numbers else None,
        tag("div", tag("code", claim.id)),
    )  # fmt: skip
    return tag(
        "tr", tag("td", status(verdict.status)), tag("td", claim.statement, tag("small", claim.place)),
        tag("td", verdict.sentence, tag("small", "simple methods: ", simple) if simple else None, how),
        tag("td", runs, " ", marks([verdict.recipe] if verdict.recipe not in (None, "paper") else [])),
        id=f"claim-{claim.id.replace('/', '-')}", data_status=str(verdict.status),
    )  # fmt: skip


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "none" if value is None else str(value)


# ---- cells -------------------------------------------------------------------------------------------------------


def cell(cell: Cell) -> Html:
    """One run: the command that makes it again, how it ended, its numbers, its whole configuration."""
    job, info = cell.saved.job, cell.saved.info
    summary = tag("summary", job.label, " ", marks(provenance.marks(job)), tag("small", cell.key[:8]))
    line = provenance.command(job)
    command = tag("div", tag("pre", line), tag("button", "Copy", type="button"), class_="copy") if line else None
    facts = {name: _short(value) for name, value in cell.metrics.items() if isinstance(value, (int, float, str))}
    facts |= {"finished": info.get("finished"), "took": duration(info["seconds"]) if "seconds" in info else None}
    facts["processor"] = info.get("processor")
    configuration = json.dumps({"kind": job.kind, **job.settings, "data": job.data}, indent=1)
    inside = [command, _records(cell), _facts(facts), tag("pre", configuration, aria_label="configuration")]
    return tag("details", summary, tag("div", inside, class_="inside"), class_="cell", id=f"cell-{cell.key}")


def _records(cell: Cell) -> Html | None:
    if not cell.saved.result.records:
        return None
    heads = tag("tr", [tag("th", head, scope="col") for head in ("grade", "steps", "seconds", "loss", "ended")])
    rows = [
        tag("tr", tag("td", k + 1), tag("td", f"{record.num_steps:,}", class_="number"),
            tag("td", f"{record.seconds:.1f}", class_="number"),
            tag("td", _short(float(record.train_loss[-1])) if len(record.train_loss) else "–", class_="number"),
            tag("td", str(record.outcome), tag("small", record.sentence) if record.sentence else None))
        for k, record in enumerate(cell.saved.result.records)
    ]  # fmt: skip
    return tag("div", tag("table", tag("thead", heads), tag("tbody", rows)), class_="scroll")


def _facts(facts: Mapping[str, Any]) -> Html:
    pairs = [(tag("dt", name.replace("_", " ")), tag("dd", value)) for name, value in facts.items() if value]
    return tag("dl", [text(pair) for pair in pairs], class_="facts")
