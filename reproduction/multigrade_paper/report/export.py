"""Figures for print: PNG, SVG and PDF files of the same charts and pictures that the page shows, by matplotlib.

A file says in its corner what keeps its runs from being the paper's, so that it cannot be taken for more than it is.
"""

import base64
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure as Canvas
from PIL import Image

from multigrade.files import atomic_path

from .blocks import Block, Plate
from .charts import Chart, Line
from .figures import figures
from .gather import Gathered
from .others import others
from .theorems import theorems

FORMATS = ("png", "svg", "pdf")
WIDTH = 6.75  # inches: two columns of a page
CHART_HEIGHT = 2.3  # inches
MOST_PICTURES = 6  # in a row
FULL_ERROR = 0.2  # of 0..1 is drawn in full colour
# Told apart without colours too: Okabe and Ito's palette, with markers and dashes.
COLOURS = {
    "sgdl": "#d55e00", "mgdl": "#0072b2", "msdl": "#aa4499", "target": "#999999", "smallest": "#0072b2",
    "largest": "#d55e00", "grade1": "#e69f00", "grade2": "#009e73", "grade3": "#cc79a7",
}  # fmt: skip
MARKERS = {"sgdl": "s", "mgdl": "o", "msdl": "D", "target": "."}
STYLE = {
    "font.size": 8, "axes.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 0.9,
    "legend.frameon": False, "legend.fontsize": 7, "axes.titlesize": 8, "axes.grid": True, "grid.linewidth": 0.3,
    "grid.alpha": 0.6, "pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "multigrade", "savefig.dpi": 300,
}  # fmt: skip


def write_figures(gathered: Gathered, folder: str | os.PathLike) -> list[Path]:
    """Every block of every figure that there is something of, in all formats; the folder is made, its parent not."""
    folder = check_folder(folder)
    folder.mkdir(exist_ok=True)
    written, papers = [], gathered.of_the_paper
    with rc_context(STYLE):
        for figure in (others(gathered.cells), *figures(papers), *theorems(papers)):
            for block in figure.blocks:
                written += _save(_draw(block, gathered.pictures), folder / block.id)
    return written


def check_folder(folder: str | os.PathLike) -> Path:
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"the folder of figures must be a folder; {folder} is a file")
    if not folder.absolute().parent.is_dir():
        raise ValueError(f"the folder of {folder} does not exist; create it first")
    return folder


def _save(canvas: Canvas, stem: Path) -> list[Path]:
    paths = [stem.with_suffix(f".{form}") for form in FORMATS]
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    canvas.draw_without_rendering()
    canvas.set_layout_engine("none")  # laid out once, for all formats
    for path, form in zip(paths, FORMATS, strict=True):
        with atomic_path(path) as temporary:
            canvas.savefig(temporary, format=form, metadata=dates.get(form))
    return paths


def _draw(block: Block, pictures: Mapping[str, str]) -> Canvas:
    """Charts above, two to a row; pictures below, up to six to a row."""
    shown, height = _pictures(block, pictures), {}
    if block.charts:
        height["charts"] = -(-len(block.charts) // 2) * CHART_HEIGHT
    if shown:
        columns = min(len(shown), MOST_PICTURES)
        height["pictures"] = -(-len(shown) // columns) * (WIDTH / max(columns, 4) + 0.3)
    canvas = Canvas(figsize=(WIDTH, sum(height.values()) + 0.3), layout="constrained")
    parts: Any = canvas.subfigures(len(height), 1, height_ratios=list(height.values()), squeeze=False)[:, 0]
    for name, part in zip(height, parts, strict=True):
        if name == "charts":
            for chart, ax in zip(block.charts, _axes(part, len(block.charts), 2), strict=True):
                _chart(ax, chart)
        else:
            for (label, pixels, options), ax in zip(shown, _axes(part, len(shown), MOST_PICTURES), strict=True):
                ax.imshow(pixels, interpolation="nearest", **options)
                ax.set_title(label.replace(", ", "\n", 1), fontsize=7)
                ax.axis("off")
    if block.marks:
        canvas.supxlabel(", ".join(block.marks), fontsize=6, style="italic", x=0.99, ha="right")
    return canvas


def _axes(part, num: int, columns: int) -> list:
    """``num`` axes, so many to a row; what is left of the last row stays empty."""
    axes = part.subplots(-(-num // columns), min(num, columns), squeeze=False).ravel()
    for ax in axes[num:]:
        ax.remove()
    return list(axes[:num])


# ---- charts ------------------------------------------------------------------------------------------------------


def _chart(ax, chart: Chart) -> None:
    for line in chart.lines:
        _line(ax, line)
    for index, (value, name) in enumerate(chart.levels):
        ax.axhline(value, color="0.4", linewidth=0.7, linestyle=("--", ":", "-.", (0, (8, 3)))[index % 4], label=name)
    for start, name in chart.grades:
        ax.axvline(start, color="0.5", linewidth=0.5, linestyle=":")
        ax.annotate(name, (start, 0), xycoords=("data", "axes fraction"), xytext=(1.5, 2), textcoords="offset points",
                    fontsize=6, color="0.35")  # fmt: skip
    if chart.band:
        ax.axhspan(-1, 1, color="#009e73", alpha=0.12, linewidth=0)
    for role in dict.fromkeys(role for _, role, _ in chart.lost):
        places = [x for x, of, _ in chart.lost if of == role]
        heights = [0.97 if role == "sgdl" else 0.9] * len(places)
        ax.plot(places, heights, "x", color=COLOURS.get(role, "0.2"), transform=ax.get_xaxis_transform(), clip_on=False,
                label=f"{role.upper()} diverged (NaN)")  # fmt: skip
    ax.set(title=chart.title, xlabel=chart.x_label, ylabel=chart.y_label)
    ax.set_xscale("log" if chart.log_x else "linear")
    ax.set_yscale("log" if chart.log_y else "linear")
    ax.legend(loc="best")


def _line(ax, line: Line) -> None:
    is_points = line.role == "target" and line.has_markers
    ax.plot(
        line.x, line.y, color=COLOURS.get(line.role, "0.2"), label=line.name if line.is_legend else None,
        marker=MARKERS.get(line.role, "o") if line.has_markers else None, markersize=3,
        linestyle="none" if is_points else "-", linewidth=2.5 if line.role == "target" else None,
        alpha=1.0 if line.is_legend else 0.45,
    )  # fmt: skip


# ---- pictures ----------------------------------------------------------------------------------------------------


def _pictures(block: Block, pictures: Mapping[str, str]) -> list[tuple[str, np.ndarray, dict]]:
    """Input, results, reference and the error of the last result; of a gallery, all."""
    grey = {"cmap": "gray", "vmin": 0, "vmax": 1}
    if block.gallery:
        return [(plate.name.replace(" (", ", ("), _pixels(plate, pictures), grey) for plate in block.gallery]
    chosen = [plate for role in ("input", "result", "reference") for plate in block.plates if plate.role == role]
    shown = [(plate.name, _pixels(plate, pictures), grey) for plate in chosen]
    results, references = ([p for p in chosen if p.role == role] for role in ("result", "reference"))
    if results and references:
        error = np.abs(_pixels(results[-1], pictures) - _pixels(references[0], pictures))
        error = error.mean(axis=2) if error.ndim == 3 else error
        name = f"|error| of {results[-1].name.partition(',')[0]}, 0 to {FULL_ERROR}"
        shown.append((name, error, {"cmap": "magma", "vmin": 0, "vmax": FULL_ERROR}))
    return shown


def _pixels(plate: Plate, pictures: Mapping[str, str]) -> np.ndarray:
    content = base64.b64decode(pictures[plate.shown.digest].partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)), np.float64) / 255
