"""A tracked spectrum: what it says, how often it left (-1, 1) and whether the loss rose meanwhile; and its file."""

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..files import read_arrays, telling_damage, write_arrays
from ..training.record import RunRecord, records_from_arrays, records_to_arrays
from .map_spectrum import ROUNDING, is_oscillating


class GradeSummary(NamedTuple):
    """One grade, from its record. ``num_looks`` spectra were taken; "below" is <= -1, "above" is > 1."""

    grade: int
    num_looks: int
    num_unconverged: int
    num_below: int  # looks at which the smallest eigenvalue of I - eta H was at or below -1
    num_above: int  # looks at which the largest was above 1, by more than rounding
    share_below: float  # of all recorded smallest eigenvalues, ten at each look
    most_below: int  # at one look
    smallest: float
    largest: float
    loss_rises: float  # share of the recorded losses that are above the one before, by more than 0.1 %
    final_loss: float

    @property
    def sentence(self) -> str:
        return (
            f"grade {self.grade + 1}: smallest eigenvalue at or below -1 in {self.num_below} of {self.num_looks} "
            f"spectra (lowest {self.smallest:.3f}; up to {self.most_below} eigenvalues at once, "
            f"{100 * self.share_below:.0f} % of those recorded), largest above 1 in {self.num_above} "
            f"(highest {self.largest:.3f}); the loss rose at {100 * self.loss_rises:.1f} % of its records and ended at "
            f"{self.final_loss:.3g}"
            + (f"; {self.num_unconverged} of the spectra did not converge" if self.num_unconverged else "")
        )


class StepSummary(NamedTuple):
    """One grade trained by another optimiser than plain descent; its spectra are those of its own step."""

    grade: int
    num_looks: int
    num_unconverged: int
    num_outside: int  # looks at which an eigenvalue was outside the unit circle
    num_oscillating: int  # looks at which one of these was not on the positive real axis
    most_oscillating: int  # at one look
    radius: float  # the largest modulus
    leftmost: float  # the smallest real part
    median_ratio: float  # of lambda_max(P^-1 H) / threshold, second half of the looks; NaN where there is none (Muon)
    loss_rises: float
    final_loss: float

    @property
    def sentence(self) -> str:
        ratio = f"largest eigenvalue of P^-1 H at {self.median_ratio:.2f} of the threshold (median, second half); "
        return (
            f"grade {self.grade + 1}: an eigenvalue of the step outside the unit circle in {self.num_outside} of "
            f"{self.num_looks} spectra (largest modulus {self.radius:.3f}), oscillating in {self.num_oscillating} "
            f"(up to {self.most_oscillating} at once, leftmost {self.leftmost:.3f}); "
            f"{'' if np.isnan(self.median_ratio) else ratio}the loss rose at "
            f"{100 * self.loss_rises:.1f} % of its records and ended at {self.final_loss:.3g}"
            + (f"; {self.num_unconverged} of the spectra did not converge" if self.num_unconverged else "")
        )


def summarise_spectrum(
    records: Sequence[RunRecord], *, name: str = "spectrum"
) -> list[GradeSummary] | list[StepSummary]:
    """One summary for each grade's record.

    Parameters
    ----------
    records : of the grades of a run that a ``SpectrumObserver`` has seen
    name : the name of the observer

    Returns
    -------
    list
        ``GradeSummary`` for gradient descent, ``StepSummary`` for other optimisers.
    """
    if any("radius" in spectrum_of(record, name) for record in records):
        return [_summarise_step(index, record, name) for index, record in enumerate(records)]
    return [_summarise(index, record, name) for index, record in enumerate(records)]


def loss_rises(losses: np.ndarray) -> float:
    """The share of recorded losses that are above the one before, by more than 0.1 %."""
    return float(np.mean(np.diff(losses) > 1e-3 * losses[:-1])) if len(losses) > 1 else 0.0


def num_oscillating(seen) -> np.ndarray:
    """At each look, how many of the recorded leftmost eigenvalues of a step are outside the unit circle and turn."""
    return np.count_nonzero(is_oscillating(seen["left_real"] + 1j * seen["left_imag"]), axis=1)


def _summarise_step(grade: int, record: RunRecord, name: str) -> StepSummary:
    seen = spectrum_of(record, name)
    outside, oscillating = seen["radius"] > 1 + ROUNDING, num_oscillating(seen)
    late = seen["ratio"][len(seen["ratio"]) // 2 :]
    return StepSummary(
        grade,
        len(outside),
        int(np.count_nonzero(seen["converged"] == 0)),
        int(np.count_nonzero(outside)),
        int(np.count_nonzero(oscillating)),
        int(np.max(oscillating)),
        float(np.fmax.reduce(seen["radius"])),  # NaN where nothing was found
        float(np.fmin.reduce(seen["left_real"], axis=None)),
        float(np.nanmedian(late)) if np.isfinite(late).any() else float("nan"),
        loss_rises(record.train_loss),
        float(record.train_loss[-1]) if len(record.train_loss) else np.nan,
    )


def _summarise(grade: int, record: RunRecord, name: str) -> GradeSummary:
    seen = spectrum_of(record, name)
    smallest, largest = seen["smallest"], seen["largest"]
    losses = record.train_loss
    return GradeSummary(
        grade,
        len(smallest),
        int(np.count_nonzero(seen["converged"] == 0)),
        int(np.count_nonzero(smallest[:, 0] <= -1)),
        int(np.count_nonzero(largest[:, 0] > 1 + ROUNDING)),
        float(np.mean(smallest <= -1)),
        int(np.max(np.count_nonzero(smallest <= -1, axis=1))),
        float(np.fmin.reduce(smallest, axis=None)),  # NaN where nothing was found
        float(np.fmax.reduce(largest, axis=None)),
        loss_rises(losses),
        float(losses[-1]) if len(losses) else np.nan,
    )


def spectrum_of(record: RunRecord, name: str = "spectrum"):
    """What ``SpectrumObserver`` recorded."""
    if name not in record.observations:
        raise ValueError(f"the record holds no spectrum under {name!r}; train with a SpectrumObserver")
    return record.observations[name]


def save_spectrum(path: str | os.PathLike, records: Sequence[RunRecord], description: dict) -> None:
    """Write the records of a run and a JSON description of it as one safetensors file."""
    arrays, ends = records_to_arrays(records)
    write_arrays(path, "spectrum", arrays, {"records": ends, **description})


def load_spectrum(path: str | os.PathLike) -> tuple[tuple[RunRecord, ...], dict]:
    """Records and description of a run written by ``save_spectrum``.

    Parameters
    ----------
    path : the file

    Returns
    -------
    tuple
        The records of the grades, and the description.
    """
    arrays, description, _ = read_arrays(path, "spectrum")
    with telling_damage(path, "spectrum"):
        return records_from_arrays(arrays, description.pop("records")), description
