"""The paper's picture of a run: eigenvalues of the step above, the loss beneath, one column per run."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..extras import require
from ..training.record import RunRecord, starts
from .tracking import spectrum_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def spectrum_figure(runs: Mapping[str, Sequence[RunRecord]], *, name: str = "spectrum") -> "Figure":
    """Smallest eigenvalues solid, largest dashed, the band (-1, 1) shaded, the loss beneath, grades side by side.

    Parameters
    ----------
    runs : titles, and the records of the grades of each run
    name : that of the ``SpectrumObserver``

    Returns
    -------
    Figure
        Of Matplotlib.
    """
    require("plots")
    from matplotlib.figure import Figure

    if not runs:
        raise ValueError("runs must hold at least one run; got none")
    figure = Figure(figsize=(1.5 + 5 * len(runs), 6.5), layout="constrained")
    axes = figure.subplots(2, len(runs), sharex="col", sharey="row", squeeze=False, height_ratios=(3, 2))
    for (title, records), (above, beneath) in zip(runs.items(), axes.T, strict=True):
        above.set_title(title)
        _draw_eigenvalues(above, records, name)
        _draw_loss(beneath, records)
        beneath.set_xlabel("steps")
    is_plain = all("smallest" in spectrum_of(record, name) for records in runs.values() for record in records)
    axes[0, 0].set_ylabel(r"eigenvalues of $I - \eta H$" if is_plain else "eigenvalues of the step")
    axes[1, 0].set_ylabel("training loss")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw_eigenvalues(axes, records: Sequence[RunRecord], name: str) -> None:
    from matplotlib import colormaps

    axes.axhspan(-1, 1, color="tab:green", alpha=0.12, linewidth=0, label="steady: (-1, 1)")
    for grade, (start, record) in enumerate(zip(starts(records), records, strict=True)):
        seen = spectrum_of(record, name)
        steps = start + np.asarray(seen["step"])
        if "radius" in seen:
            _draw_step(axes, steps, seen, has_labels=grade == 0)
            continue
        shades = colormaps["viridis"](np.linspace(0, 0.85, seen["smallest"].shape[1]))
        for kind, style in (("largest", "--"), ("smallest", "-")):
            for index in reversed(range(len(shades))):
                label = f"{kind} (dark: outermost)" if grade == 0 and index == 0 else None
                marker = "." if len(steps) < 4 else None
                values = seen[kind][:, index]
                axes.plot(steps, values, style, color=shades[index], linewidth=1.1, marker=marker, label=label)
    _draw_boundaries(axes, records)


def _draw_step(axes, steps: np.ndarray, seen, *, has_labels: bool) -> None:
    """An optimiser's own map: the leftmost real part, the largest modulus, and what a frozen preconditioner says."""
    curves = {
        "smallest real part": (seen["left_real"][:, 0], "-", "C0"),
        "largest modulus": (seen["radius"], "--", "C3"),
        "smallest, preconditioner frozen": (1 - 2 * seen["ratio"], ":", "0.3"),
    }
    for label, (values, style, colour) in curves.items():
        axes.plot(steps, values, style, color=colour, linewidth=1.1, label=label if has_labels else None)


def _draw_loss(axes, records: Sequence[RunRecord]) -> None:
    for grade, (start, record) in enumerate(zip(starts(records), records, strict=True)):
        axes.semilogy(start + record.steps, record.train_loss, color=f"C{grade}", linewidth=0.7)
        if len(records) > 1:
            middle = start + record.num_steps / 2
            axes.annotate(
                f"grade {grade + 1}", (middle, 1), (0, -4), xycoords=axes.get_xaxis_transform(),
                textcoords="offset points", ha="center", va="top", fontsize="small", color=f"C{grade}",
            )  # fmt: skip
    axes.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4))
    _draw_boundaries(axes, records)


def _draw_boundaries(axes, records: Sequence[RunRecord]) -> None:
    for start in starts(records)[1:]:
        axes.axvline(start, color="0.4", linewidth=0.8, linestyle=":")
