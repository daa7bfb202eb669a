"""A tracked spectrum: what it says, how often it left (-1, 1) and whether the loss rose meanwhile; and its file."""

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..files import read_arrays, telling_damage, write_arrays
from ..training.record import RunRecord, records_from_arrays, records_to_arrays


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


def summarise_spectrum(records: Sequence[RunRecord], *, name: str = "spectrum") -> list[GradeSummary]:
    """One summary for each grade's record; ``name`` is that of the observer."""
    return [_summarise(index, record, name) for index, record in enumerate(records)]


def _summarise(grade: int, record: RunRecord, name: str) -> GradeSummary:
    seen = spectrum_of(record, name)
    smallest, largest = seen["smallest"], seen["largest"]
    losses = record.train_loss
    return GradeSummary(
        grade,
        len(smallest),
        int(np.count_nonzero(seen["converged"] == 0)),
        int(np.count_nonzero(smallest[:, 0] <= -1)),
        int(np.count_nonzero(largest[:, 0] > 1 + 1e-6)),
        float(np.mean(smallest <= -1)),
        int(np.max(np.count_nonzero(smallest <= -1, axis=1))),
        float(np.fmin.reduce(smallest, axis=None)),  # NaN where nothing was found
        float(np.fmax.reduce(largest, axis=None)),
        float(np.mean(np.diff(losses) > 1e-3 * losses[:-1])) if len(losses) > 1 else 0.0,
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
    """Records and description of a run written by ``save_spectrum``."""
    arrays, description, _ = read_arrays(path, "spectrum")
    with telling_damage(path, "spectrum"):
        return records_from_arrays(arrays, description.pop("records")), description
