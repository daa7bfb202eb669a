"""A store that is small enough for a repository: the same jobs and metrics, records thinned, no pictures.

    write(Store("runs"), Store("evidence"))

A thinned record keeps some hundred rows of a run's thousands: equally spaced ones, the lowest and the highest between
them, and those around the middle of the run. What rules measure over all rows, the upward moves of a loss, comes as a
column of sums (``claims.measures.cumulated_rises``), so that a thinned store gives the verdicts of the full one.
Pictures are left out: most are made from test images that are not ours to give away.
"""

import dataclasses
import hashlib
from collections.abc import Iterator

import numpy as np

from multigrade.curvature.frequencies import METRIC
from multigrade.training.record import RunRecord

from .catalogue import is_ours
from .claims.measures import COUNT, RISES, cumulated_rises
from .job import Result, Saved
from .store import Store

WHOLE = 640  # rows of a record that is kept whole
STRETCHES = 100  # equal stretches of a long run; steps that rules name are their ends
POINTS = 256  # of other arrays, such as predictions
KEPT_COLUMNS = ("step", "train_loss", "psnr")
OF_DESCENT, OF_MAPS = ("smallest", "largest"), ("left_real", "left_imag", "radius", "ratio", "held")
KEPT_SPECTRUM = ("step", *OF_DESCENT, *OF_MAPS, "learning_rate", "converged")
KEPT_INFO = ("finished", "processor", "cores", "seconds", "threads")


def write(full: Store, small: Store) -> Iterator[Saved]:
    """Thin all results of the paper's recipe that ``small`` does not have yet; yields those that were written."""
    for saved in full.all():
        if is_paper(saved) and saved.job.key not in small:
            result = thinned(saved.result)
            kept = {name: saved.info[name] for name in KEPT_INFO if name in saved.info}
            small.save(
                saved.job, result, {**kept, "host": "", "system": "", "full_result": _digest(full, saved.job.key)}
            )
            yield saved


def is_paper(saved: Saved) -> bool:
    """Whether a result is of the catalogue, by the paper's recipe."""
    return is_ours(saved.job) and saved.job.setup.recipe in ("", "paper")


def thinned(result: Result) -> Result:
    """The result without pictures, its records and arrays with fewer rows."""
    arrays = {name: _fewer(array) for name, array in result.arrays.items()}
    return Result(result.metrics, tuple(_thin(record) for record in result.records), arrays)


def _thin(record: RunRecord) -> RunRecord:
    rows = _rows(record)
    is_kept = lambda name: name in KEPT_COLUMNS or name.startswith(METRIC)  # noqa: E731
    columns = {name: column[rows] for name, column in record.columns.items() if is_kept(name)}
    for name in ("train_loss", "psnr"):
        if name in record.columns:
            heights, counts = cumulated_rises(record, name)
            columns |= {RISES.format(name): heights[rows], COUNT: np.asarray(counts[rows], np.int32)}
    observations = {}
    if "spectrum" in record.observations:
        seen = record.observations["spectrum"]
        observations["spectrum"] = {name: _narrow(seen[name]) for name in KEPT_SPECTRUM if name in seen}
    return dataclasses.replace(record, columns=columns, observations=observations)


def _rows(record: RunRecord) -> np.ndarray:
    """Which rows are kept: every k-th, the extremes between them, those around the middle step, the last."""
    num, loss = len(record.steps), record.train_loss
    if num <= WHOLE:
        return np.arange(num)
    stride = 100 if num >= 5000 else max(num // STRETCHES, 1)
    starts = np.arange(0, num, stride)
    kept = {0, num - 1, *starts}
    for first in starts:
        kept |= {int(first + extreme(loss[first : first + stride])) for extreme in (np.argmin, np.argmax)}
    middle = int(np.searchsorted(record.steps, 0.5 * record.num_steps))
    kept |= {row for row in (middle - 1, middle, middle + 1) if 0 <= row < num}
    return np.array(sorted(int(row) for row in kept))


def _narrow(array: np.ndarray) -> np.ndarray:
    """Eigenvalues are known to five digits; single precision has seven."""
    return array.astype(np.float32) if array.ndim == 2 else array


def _fewer(array: np.ndarray) -> np.ndarray:
    stride = max(array.shape[-1] // POINTS, 1) if array.ndim else 1
    return array[..., ::stride] if stride > 1 else array


def _digest(store: Store, key: str) -> str:
    """Of the full result's own description, which names the checksums of all its files."""
    return hashlib.sha256((store.path / key / "result.json").read_bytes()).hexdigest()
