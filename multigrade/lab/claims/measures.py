"""What rules read off saved results: means over seeds, and how restless a curve is."""

from collections.abc import Sequence

import numpy as np

from ...training.record import RunRecord
from ..job import Saved

# A loss oscillates if it rises by this much per record, on average; our choice. 0.05 dB are 1.2 %.
OSCILLATES = 0.05


def mean(cell: Sequence[Saved], metric: str) -> float | None:
    """The mean of a metric over seeds; None if one of them has none (a run that diverged, say)."""
    values = [float(value) for saved in cell if (value := saved.result.metrics.get(metric)) is not None]
    return float(np.mean(values)) if len(values) == len(cell) else None


def spread(cell: Sequence[Saved], metric: str) -> dict[str, float]:
    """Smallest and largest over seeds, where there are several."""
    values = [saved.result.metrics[metric] for saved in cell if saved.result.metrics.get(metric) is not None]
    return {f"{metric} min": min(values), f"{metric} max": max(values)} if len(values) > 1 else {}


def rises(record: RunRecord, column: str = "train_loss", *, first: float = 0.0, last: float = np.inf) -> float:
    """Mean rise of a loss, or fall of a PSNR, per record, in dB, between two steps (shares of the run if below 1)."""
    steps = record.steps
    bounds = [bound * record.num_steps if bound <= 1 else bound for bound in (first, last)]
    values = np.asarray(record.columns[column], np.float64)[(steps >= bounds[0]) & (steps <= bounds[1])]
    if len(values) < 2:
        return 0.0
    decibel = -values if column == "psnr" else 10 * np.log10(np.maximum(values, 1e-300))
    return float(np.mean(np.maximum(np.diff(decibel), 0)))


def restlessness(cell: Sequence[Saved], column: str = "train_loss", *, grades: slice = slice(None), **span) -> float:
    """``rises`` of the chosen grades, averaged; over seeds too."""
    return float(np.mean([rises(record, column, **span) for saved in cell for record in saved.result.records[grades]]))


def eigenvalues(cell: Sequence[Saved], end: str, *, after: int = 0) -> np.ndarray:
    """(looks, num): the recorded smallest or largest eigenvalues of I - eta H, outside in, all grades and seeds.

    Step 0 says nothing about training and is left out.
    """
    rows = []
    for saved in cell:
        for record in saved.result.records:
            seen = record.observations["spectrum"]
            rows.append(seen[end][seen["step"] > after])
    return np.concatenate(rows)


def by_rate(cell: Sequence[Saved], metric: str) -> dict[float, float | None]:
    """The mean of a metric over seeds at each rate, rates rising; None where a run diverged."""
    rates = sorted({saved.job.settings["learning_rate"] for saved in cell})
    at = {rate: [saved for saved in cell if saved.job.settings["learning_rate"] == rate] for rate in rates}
    is_diverged = {rate: any(saved.result.metrics["is_diverged"] for saved in runs) for rate, runs in at.items()}
    return {rate: None if is_diverged[rate] else mean(runs, metric) for rate, runs in at.items()}


def named(label: str, values: dict[float, float | None]) -> dict[str, float | None]:
    """Numbers by rate, for a verdict."""
    return {f"{label} at {rate:g}": value for rate, value in values.items()}
