# ruff: noqa: E402
"""The before/after figure: input, every grade, result, reference and where the error is."""

import dataclasses
import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..extras import require

require("plots")  # before its modules

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..files import atomic_path
from .metrics import psnr

FIGURE_FORMATS = (".png", ".pdf", ".svg")
_COLUMNS = 4  # panels in a row
_PANEL_INCHES = 2.6  # on a side
_FULL_ERROR = 0.2  # the error map is white where an intensity is off by this much or more


@dataclasses.dataclass(frozen=True, eq=False)
class Panel:
    """One image of the figure.

    Parameters
    ----------
    title : what stands above it
    image : (h, w) or (h, w, 3) on the unit scale
    """

    title: str
    image: np.ndarray


def comparison_figure(panels: Sequence[Panel], path: str | os.PathLike, *, reference: np.ndarray | None = None) -> None:
    """Draw the panels in order and, given a clean reference, their PSNR, the reference and an error map of the last.

    Parameters
    ----------
    panels : the images, the result last
    path : where to; .png, .pdf or .svg
    reference : the clean picture, if there is one

    Returns
    -------
    None
        The file is there, whole.
    """
    path = Path(path)
    if path.suffix.lower() not in FIGURE_FORMATS:
        raise ValueError(f"the figure must end in {', '.join(FIGURE_FORMATS)}; got {path.name!r}")
    if not panels:
        raise ValueError("panels must hold at least one image")
    drawings = [(_title(panel, reference), np.clip(panel.image, 0, 1), {}) for panel in panels]
    if reference is not None:
        error = np.abs(np.asarray(panels[-1].image, np.float64) - reference)
        error = error.mean(-1) if error.ndim == 3 else error
        drawings.append(("reference", np.clip(reference, 0, 1), {}))
        drawings.append((f"|{panels[-1].title} - reference|", error, {"cmap": "magma", "vmin": 0, "vmax": _FULL_ERROR}))
    figure = _draw(drawings)
    with atomic_path(path) as temporary:
        # Tight, because a title of two lines or the colour bar may reach beyond a single row.
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150, bbox_inches="tight")


def _title(panel: Panel, reference: np.ndarray | None) -> str:
    # An observation of another size, as in upsampling, has no PSNR; that of the reference itself says nothing.
    if reference is None or panel.image.shape != reference.shape or math.isinf(found := psnr(panel.image, reference)):
        return panel.title
    return f"{panel.title}\n{found:.2f} dB"


def _draw(drawings: list[tuple[str, np.ndarray, dict]]) -> Figure:
    columns = min(_COLUMNS, len(drawings))
    rows = math.ceil(len(drawings) / columns)
    height, width = drawings[0][1].shape[:2]
    tall = min(max(height / width, 0.4), 2.5)
    size = (_PANEL_INCHES * columns, (_PANEL_INCHES * tall + 0.55) * rows)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    for number, (title, image, style) in enumerate(drawings, start=1):
        axes = figure.add_subplot(rows, columns, number)
        shown = axes.imshow(image, interpolation="nearest", **({"cmap": "gray", "vmin": 0, "vmax": 1} | style))
        axes.set_title(title, fontsize=9)
        axes.set_axis_off()
        if style:
            below = axes.inset_axes((0.1, -0.08, 0.8, 0.04))  # beside the panel it would push the columns apart
            bar = figure.colorbar(shown, cax=below, orientation="horizontal", extend="max")
            bar.ax.tick_params(labelsize=7)
    return figure
