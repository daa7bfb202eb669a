"""Rules that ask what goes with what: rank correlations over windows of a run, with their intervals.

A window lies between two looks at the spectrum. Neighbouring windows are alike, so the interval comes from resampling
blocks of neighbours (moving-block bootstrap), not single windows.
"""

from collections.abc import Callable

import numpy as np
from scipy.stats import rankdata

from .ledger import Cells, Finding
from .measures import windows
from .spectral_rules import NEAR, UNSEEN

CLOSE = 0.5  # "closely linked": a rank correlation that may be this large
RESAMPLES, SEED = 2000, 0  # of the bootstrap
FEWEST = 10  # windows; our choice


def rank_correlation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Spearman's rho along the last axis; NaN where one of them is constant."""
    x, y = (rankdata(values, axis=-1) for values in (x, y))
    x, y = (values - values.mean(-1, keepdims=True) for values in (x, y))
    with np.errstate(invalid="ignore", divide="ignore"):
        return (x * y).sum(-1) / np.sqrt((x**2).sum(-1) * (y**2).sum(-1))


def resampled(num: int) -> np.ndarray:
    """(RESAMPLES, about num) rows of indices into a series, in blocks of sqrt(num) neighbours."""
    length = max(int(num**0.5), 1)
    starts = np.random.default_rng(SEED).integers(0, num - length + 1, (RESAMPLES, -(-num // length)))
    return (starts[..., None] + np.arange(length)).reshape(RESAMPLES, -1)


def interval(statistic: Callable[[np.ndarray], np.ndarray], num: int) -> tuple[float, float]:
    """The middle 95 % of a statistic over resampled rows of windows; NaN if it never has a value."""
    found = statistic(resampled(num))
    found = found[np.isfinite(found)]
    return tuple(np.quantile(found, [0.025, 0.975])) if len(found) else (np.nan, np.nan)


def goes_with_the_number(cells: Cells) -> Finding:
    """The loss's rises are rank-correlated with how many eigenvalues are near or below -1."""
    (cell,) = cells.values()
    found = [(restless, np.count_nonzero(smallest <= NEAR, axis=2).mean(1)) for restless, smallest, _ in windows(cell)]
    if not found or sum(len(restless) for restless, _ in found) < FEWEST:
        return UNSEEN
    restless, count = (np.concatenate(each) for each in zip(*found, strict=True))
    rho = float(rank_correlation(restless, count))
    low, high = interval(lambda rows: rank_correlation(restless[rows], count[rows]), len(count))
    if np.isnan([rho, low]).any():
        return Finding(None, f"the number of eigenvalues below {NEAR} never changes", {})
    holds = True if low > 0 and high >= CLOSE else False if high < CLOSE else None
    told = f"rank correlation {rho:.2f}, between {low:.2f} and {high:.2f}, over {len(count)} windows"
    return Finding(holds, told, {"correlation": rho, "low": low, "high": high})


def smallest_matters_more(cells: Cells) -> Finding:
    """The loss's rises are more closely rank-correlated with the smallest eigenvalue than with the largest."""
    found = [part for cell in cells.values() for part in windows(cell)]
    if not found or sum(len(restless) for restless, _, _ in found) < FEWEST:
        return UNSEEN
    restless = np.concatenate([part[0] for part in found])
    small, large = (np.concatenate([part[k][..., 0].mean(1) for part in found]) for k in (1, 2))

    def difference(rows):
        return np.abs(rank_correlation(restless[rows], small[rows])) - np.abs(
            rank_correlation(restless[rows], large[rows])
        )

    ours = [float(rank_correlation(restless, end)) for end in (small, large)]
    low, high = interval(difference, len(restless))
    if np.isnan([*ours, low]).any():
        return Finding(None, "the loss or an end of the spectrum never changes", {})
    holds = True if low > 0 else False if high < 0 else None
    told = f"rank correlation {ours[0]:.2f} with the smallest, {ours[1]:.2f} with the largest; "
    told += f"difference in size between {low:.2f} and {high:.2f}"
    return Finding(holds, told, {"smallest": ours[0], "largest": ours[1], "low": low, "high": high})
