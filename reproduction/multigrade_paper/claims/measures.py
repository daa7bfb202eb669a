"""What rules read off saved results: means over seeds, and how restless a curve is."""

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from multigrade.training.record import Outcome, RunRecord

from .. import recipes
from ..job import Saved
from .ledger import Cells

# A loss oscillates if it rises by this much per record, on average; our choice. 0.05 dB are 1.2 %.
OSCILLATES = 0.05
SLIGHTLY = 0.005  # dB per record of a loss that oscillates slightly
# Columns of a thinned record: all rises up to a record, and its number in the full one.
RISES, COUNT = "{} rises", "count"


def mean(cell: Sequence[Saved], metric: str) -> float | None:
    """The mean of a metric over seeds; None if one of them has none. A run that diverged has no PSNR."""
    if metric.endswith("psnr") and has_diverged(cell):
        return None
    values = [float(value) for saved in cell if (value := saved.result.metrics.get(metric)) is not None]
    return float(np.mean(values)) if len(values) == len(cell) else None


def spread(cell: Sequence[Saved], metric: str) -> dict[str, float]:
    """Smallest and largest over seeds, where there are several."""
    values = [saved.result.metrics[metric] for saved in cell if saved.result.metrics.get(metric) is not None]
    return {f"{metric} min": min(values), f"{metric} max": max(values)} if len(values) > 1 else {}


def rises(record: RunRecord, column: str = "train_loss", *, first: float = 0.0, last: float = np.inf) -> float:
    """Mean rise of a loss, or fall of a PSNR, per record, in dB, between two steps (shares of the run if below 1)."""
    bounds = [bound * record.num_steps if bound <= 1 else bound for bound in (first, last)]
    inside = np.flatnonzero((record.steps >= bounds[0]) & (record.steps <= bounds[1]))
    if len(inside) < 2:
        return 0.0
    heights, counts = sum_rises(record, column)
    start, end = inside[0], inside[-1]
    return float((heights[end] - heights[start]) / (counts[end] - counts[start]))


def sum_rises(record: RunRecord, column: str) -> tuple[np.ndarray, np.ndarray]:
    """All upward moves (dB) up to each record, and how many records came before it.

    A thinned record (``evidence.thin``) brings both with it.
    """
    if RISES.format(column) in record.columns:
        return record.columns[RISES.format(column)], record.columns[COUNT]
    values = np.asarray(record.columns[column], np.float64)
    decibel = -values if column == "psnr" else 10 * np.log10(np.maximum(values, 1e-300))
    moves = np.maximum(np.diff(decibel), 0) if len(decibel) else decibel
    return np.concatenate([[0.0], np.cumsum(moves)])[: len(values)], np.arange(len(values))


def restlessness(cell: Sequence[Saved], column: str = "train_loss", *, grades: slice = slice(None), **span) -> float:
    """``rises`` of the chosen grades, averaged; over seeds too. NaN if a run has none of these grades."""
    records = [saved.result.records[grades] for saved in cell]
    found = [rises(record, column, **span) for of_seed in records for record in of_seed]
    return float(np.mean(found)) if all(records) else np.nan


def ends_restless(cells: Cells) -> bool:
    """Whether the loss of a run rises often enough for rounding to decide where it ends."""
    return any(restlessness([saved]) >= SLIGHTLY for cell in cells.values() for saved in cell if saved.result.records)


def has_diverged(cell: Sequence[Saved]) -> bool:
    """Whether a grade of a seed did; its record ends before, and may look calm."""
    return any(record.outcome is Outcome.DIVERGED for saved in cell for record in saved.result.records)


def eigenvalues(
    cell: Sequence[Saved], end: str, *, index: int = 0, after: int = 0, until: float = np.inf
) -> np.ndarray:
    """(looks, num): the recorded smallest or largest eigenvalues of I - eta H, outside in, all grades and seeds.

    Step 0 says nothing about training and is left out, and so are looks that did not find the one with this index.
    """
    rows = []
    for saved in cell:
        for record in saved.result.records:
            seen = record.observations["spectrum"]
            rows.append(seen[end][(seen["step"] > after) & (seen["step"] <= until)])
    found = np.concatenate(rows)
    return found[~np.isnan(found[:, index])] if found.shape[1] > index else found[:0]


def counts_near(cell: Sequence[Saved], bound: float, *, after: int = 0, until: float = np.inf) -> np.ndarray:
    """How many of the recorded smallest eigenvalues of I - eta H are at or below the bound, look by look."""
    return np.count_nonzero(eigenvalues(cell, "smallest", after=after, until=until) <= bound, axis=1)


def windows(cell: Sequence[Saved]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(rises, smallest, largest) of each record, between one look at the spectrum and the next.

    The loss's rises per record (n,), and the eigenvalues at both looks (n, 2, num); looks that did not find all of
    them are left out.
    """
    for record in (record for saved in cell for record in saved.result.records):
        seen = record.observations["spectrum"]
        is_sound = np.isfinite(seen["smallest"]).all(1) & np.isfinite(seen["largest"]).all(1)
        looks = np.flatnonzero(is_sound)
        if len(looks) > 1:
            spans = itertools.pairwise(seen["step"][looks])
            restless = np.array([rises(record, first=first, last=last) for first, last in spans])
            smallest, largest = (np.stack([seen[end][looks[:-1]], seen[end][looks[1:]]], axis=1)
                                 for end in ("smallest", "largest"))  # fmt: skip
            yield restless, smallest, largest


def by_rate(cell: Sequence[Saved], metric: str) -> dict[float, float | None]:
    """The mean of a metric over seeds at each rate, rates rising; None where a run diverged."""
    rates = sorted({saved.job.setup.learning_rate for saved in cell})
    at = {rate: [saved for saved in cell if saved.job.setup.learning_rate == rate] for rate in rates}
    is_diverged = {rate: any(saved.result.metrics["is_diverged"] for saved in runs) for rate, runs in at.items()}
    return {rate: None if is_diverged[rate] else mean(runs, metric) for rate, runs in at.items()}


def shared_rates(cells: Cells, metric: str) -> tuple[dict[str, dict[float, float | None]], str]:
    """``by_rate`` of every role at the rates that all were run at; how many of the recipe's, if some are missing."""
    values = {name: by_rate(cell, metric) for name, cell in cells.items()}
    shared = set.intersection(*(set(each) for each in values.values()))
    missing = missing_rates(next(iter(cells.values())), shared)
    return {name: {rate: each[rate] for rate in sorted(shared)} for name, each in values.items()}, missing


def missing_rates(cell: Sequence[Saved], run: Collection[float], low: float = 0.0, high: float = np.inf) -> str:
    """How many of the recipe's rates in [low, high] were run, if some are missing."""
    setup = cell[0].job.setup
    config = "image sweep" if setup.image else "synthetic sweep"
    grid = {rate for rate in dataclasses.asdict(recipes.CONFIGS[config][setup.recipe])["rates"]
            if low <= rate <= high}  # fmt: skip
    return "" if grid <= set(run) else f"{len(grid & set(run))} of {len(grid)} rates were run"


def named(label: str, values: dict[float, float | None]) -> dict[str, float | None]:
    """Numbers by rate, for a verdict."""
    return {f"{label} at {rate:g}": value for rate, value in values.items()}
