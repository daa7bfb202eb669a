"""Error per frequency band: which frequencies a network has learned, and when (spectral bias).

    e(x) = sum_k c_k prod_j cos(pi k_j t_j),   t = (x - lowest) / length in [0, 1]^d,   frequency |k| / (2 length)

The cosine series belongs to the even extension of e, which has no jump at the ends as the periodic one would. On a
regular grid the c_k are a discrete cosine transform, and the energies of all bands add up to the mean square
(Parseval). On scattered points they are a least-squares fit of as many terms as the points carry (``oversampling``).

    frequency_errors(x, prediction - y, target=y).relative        # one number per band, 1 where nothing is learned
    fit_grades(structure, x, y, ..., metrics=frequency_metrics(x, y))   # the same along a run, at every record
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from ..extras import require
from ..training.record import RunRecord, starts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OVERSAMPLING = 2.0  # scattered points for each term of the series
METRIC = "relative error at frequencies "


@dataclasses.dataclass(frozen=True)
class FrequencyErrors:
    """Energy of an error by bands of frequency.

    Parameters
    ----------
    edges : of the bands, (bands + 1,), in cycles per unit of the inputs
    energies : mean square of the error's part in each band
    target_energies : the same of the target; NaN without one
    """

    edges: np.ndarray
    energies: np.ndarray
    target_energies: np.ndarray

    @property
    def relative(self) -> np.ndarray:
        """||error|| / ||target|| in each band; NaN where the target has nothing."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.sqrt(self.energies / self.target_energies)
        return np.where(self.target_energies > 0, ratio, np.nan)


def frequency_errors(points, error, target=None, *, bands: int | Sequence[float] = 8) -> FrequencyErrors:
    """The error's energy in bands of frequency.

    Parameters
    ----------
    points : (N, 1) or (N, 2), a regular grid in any order or scattered
    error : (N,) or (N, outputs), prediction minus target
    target : like ``error``, for relative errors
    bands : how many bands of equal width up to the highest frequency, or their edges in cycles per unit

    Returns
    -------
    FrequencyErrors
        Energies by band, and relative ones where there is a target.

    Examples
    --------
    >>> x = (np.arange(100)[:, None] + 0.5) / 100
    >>> frequency_errors(x, np.cos(2 * np.pi * 5 * x), bands=[0, 4, 6, 50]).energies.round(6).tolist()
    [0.0, 0.5, 0.0]
    """
    points, error = _rows("points", points), _rows("error", error, len(points))
    basis, frequencies = _basis(points)
    edges = _edges(bands, frequencies)

    def energies(values: np.ndarray) -> np.ndarray:
        squares = np.sum((basis @ values) ** 2, axis=1)
        return np.array([squares[inside].sum() for inside in _inside(edges, frequencies)])

    targets = np.full(len(edges) - 1, np.nan) if target is None else energies(_rows("target", target, len(points)))
    return FrequencyErrors(edges, energies(error), targets)


def frequency_metrics(points, targets, *, bands: int | Sequence[float] = 8) -> dict[str, Callable]:
    """Metrics for ``fit_grades``: the relative error of the sum of all grades so far, one for each band.

    Bands in which the targets have less than a millionth of their energy are left out.

    Parameters
    ----------
    points : (N, 1) or (N, 2)
    targets : (N,) or (N, outputs)
    bands : how many bands of equal width, or their edges in cycles per unit

    Returns
    -------
    dict
        Functions of the parameters by the name of their band, for ``Regression(metrics=)``.
    """
    points, targets = _rows("points", points), _rows("targets", targets, len(np.asarray(points)))
    basis, frequencies = _basis(points)
    edges = _edges(bands, frequencies)
    total, metrics = np.sum((basis @ targets) ** 2), {}
    for (low, high), inside in zip(pairwise(edges), _inside(edges, frequencies), strict=True):
        if not inside.any() or np.sum((basis[inside] @ targets) ** 2) <= 1e-6 * total:
            continue
        metrics[f"{METRIC}{low:g} to {high:g}"] = Partial(_relative, jnp.asarray(basis[inside], jnp.float32))
    return metrics


def _relative(basis, prediction, targets):
    return jnp.linalg.norm(basis @ (prediction - targets)) / jnp.linalg.norm(basis @ targets)


def _rows(name: str, array, length: int | None = None) -> np.ndarray:
    array = np.asarray(array, np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or (length is not None and len(array) != length):
        wanted = "(N, 1) or (N, 2)" if length is None else f"({length},) or ({length}, outputs)"
        raise ValueError(f"{name} must have shape {wanted}; got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; got NaN or infinity")
    if length is None and array.shape[1] not in (1, 2):
        raise ValueError(f"{name} must have one or two columns; got {array.shape[1]}")
    return array


def _edges(bands, frequencies: np.ndarray) -> np.ndarray:
    if isinstance(bands, int):
        if bands < 1:
            raise ValueError(f"bands must be at least 1; got {bands!r}")
        return np.linspace(0, frequencies.max(), bands + 1)
    edges = np.asarray(bands, np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise ValueError(f"bands must be a number, or two or more rising edges; got {bands!r}")
    return edges


def _inside(edges: np.ndarray, frequencies: np.ndarray) -> list[np.ndarray]:
    """For each band, which terms are in it; the last one has its upper edge, and rounding decides nothing."""
    slack = 1e-9 * edges[-1]
    last = len(edges) - 2
    return [
        (frequencies >= low - slack) & (frequencies < high + (slack if index == last else -slack))
        for index, (low, high) in enumerate(pairwise(edges))
    ]


def _basis(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A matrix (terms, N) that takes values to coefficients of orthonormal cosines, and the terms' frequencies."""
    axes = [np.unique(np.round(column, 9)) for column in points.T]
    is_grid = np.prod([len(axis) for axis in axes]) == len(points) and all(
        len(axis) > 1 and np.ptp(np.diff(axis)) <= 1e-5 * np.diff(axis).mean() for axis in axes
    )
    if is_grid:  # points are the middles of cells
        steps = np.array([np.diff(axis).mean() for axis in axes])
        lengths, lowest = steps * [len(axis) for axis in axes], [axis[0] for axis in axes] - steps / 2
        numbers = [len(axis) for axis in axes]
    else:
        lowest, lengths = points.min(axis=0), np.ptp(points, axis=0)
        if not (lengths > 0).all():
            raise ValueError("points must differ in every coordinate")
        numbers = [max(int((len(points) / OVERSAMPLING) ** (1 / points.shape[1])), 1)] * points.shape[1]
    terms = np.stack(np.meshgrid(*map(np.arange, numbers), indexing="ij"), axis=-1).reshape(-1, points.shape[1])
    places = (points - lowest) / lengths
    cosines = np.ones((len(terms), len(points)))
    for column, place in zip(terms.T, places.T, strict=True):
        cosines *= np.where(column > 0, np.sqrt(2), 1)[:, None] * np.cos(np.pi * np.outer(column, place))
    frequencies = np.linalg.norm(terms / (2 * lengths), axis=1)
    return (cosines / len(points) if is_grid else np.linalg.pinv(cosines.T, rcond=1e-6)), frequencies


def frequency_figure(runs: Mapping[str, Sequence[RunRecord]]) -> "Figure":
    """Relative error by frequency (up) and training step (right) as colour; one panel per run, grades side by side.

    Parameters
    ----------
    runs : titles, and the records of the grades of each run, trained with ``frequency_metrics``

    Returns
    -------
    Figure
        Of Matplotlib.
    """
    require("plots")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.5 + 4 * len(runs), 3.6), layout="constrained")
    panels = figure.subplots(1, len(runs), sharey=True, squeeze=False)[0]
    image = None
    for (title, records), axes in zip(runs.items(), panels, strict=True):
        names = [name for name in records[0].columns if name.startswith(METRIC)]
        if not names:
            raise ValueError(f"the records of {title!r} hold no errors by frequency; train with frequency_metrics")
        bands = np.array([name.removeprefix(METRIC).split(" to ") for name in names], float)
        for record, start in zip(records, starts(records), strict=True):
            errors = np.stack([record.columns[name] for name in names])
            for row, (low, high) in zip(errors, bands, strict=True):
                image = axes.pcolormesh(
                    start + record.steps, [low, high], np.log10(row[None, :-1]), vmin=-3, vmax=0, cmap="viridis_r"
                )
        for boundary in starts(records)[1:]:
            axes.axvline(boundary, color="0.2", linewidth=0.8, linestyle=":")
        axes.set_title(title)
        axes.set_xlabel("steps")
        axes.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4))
    panels[0].set_ylabel("frequency (cycles per unit)")
    if image is not None:
        figure.colorbar(image, ax=list(panels), label="log10 relative error (0: nothing learned)")
    return figure
