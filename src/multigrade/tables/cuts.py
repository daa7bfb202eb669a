"""Cuts: thresholds at which the targets jump, as trees find them, each member by its own rows.

A member looks for the cuts one after the other: the one that lowers the squares of what is left over most is taken, and
half of what it explains is taken away. A few rounds give the places of most jumps; how high they are, the linear grade
solves for, and networks read them as inputs. All cuts of all members stand in the encoding, and a member reads those
that it found itself: no member has used the rows that judge it.
"""

from typing import NamedTuple

import numpy as np

from .encoding import MOST_CUTS, Encoding
from .linear import FoldRows

NUM_ROUNDS = 24
OF_MEMBER = 16  # cuts, at most
CANDIDATES = 512  # of all columns together, about
MOST_PER_COLUMN, LEAST_PER_COLUMN = 63, 7
MOST_ROWS = 4096  # that are looked at
HALF = 0.5  # of what a cut explains is taken away


class Cuts(NamedTuple):
    """Columns and thresholds of all cuts, and which of them each member reads, (M, cuts)."""

    columns: np.ndarray
    thresholds: np.ndarray
    is_read: np.ndarray


def find_cuts(encoding: Encoding, X: np.ndarray, rows: FoldRows, bias: np.ndarray) -> Cuts | None:
    """The cuts of the columns of numbers; None where there are none."""
    stride = -(-len(X) // MOST_ROWS)
    values, folds = encoding.values(X[::stride]), rows.folds[::stride]
    targets = np.asarray(rows.targets[::stride], np.float32)
    most = int(np.clip(CANDIDATES // max(values.shape[1], 1), LEAST_PER_COLUMN, MOST_PER_COLUMN))
    columns, thresholds = [], []
    for place, column in enumerate(encoding.columns):
        distinct = np.unique(values[:, place])
        if len(distinct) > most:
            distinct = np.unique(np.quantile(values[:, place], np.linspace(0, 1, most + 2)[1:-1], method="lower"))
            following = np.searchsorted(np.sort(values[:, place]), distinct, side="right")
            after = np.sort(values[:, place])[np.minimum(following, len(values) - 1)]
        else:
            distinct, after = distinct[:-1], distinct[1:]
        thresholds.append(distinct + (after - distinct) / 2)
        columns.append(np.full(len(distinct), column))
    if not columns:
        return None
    columns, thresholds = np.concatenate(columns), np.concatenate(thresholds)
    place = np.searchsorted(encoding.columns, columns)
    is_right = (values[:, place] > thresholds).astype(np.float32)
    left_over = -rows.loss.slope(np.broadcast_to(bias, targets.shape).astype(np.float32), targets)
    found = np.zeros((rows.num_members, len(columns)))
    for member, worth in enumerate(found):
        weights = (rows.weights[::stride] * (folds != member)).astype(np.float32)
        weights /= weights.sum()
        mean = weights @ is_right
        variance = mean * (1 - mean)
        is_use = variance > 1e-3
        left = left_over - weights @ left_over
        noise = 4 * np.sum(weights**2)  # twice the standard error, squared, in units of the variance
        for _ in range(NUM_ROUNDS):
            weighted = weights[:, None] * left
            slope = is_right.T @ weighted - mean[:, None] * weighted.sum(axis=0)
            gains = np.where(is_use, np.sum(slope**2, axis=1) / np.maximum(variance, 1e-3), 0)
            best = int(np.argmax(gains))
            if gains[best] <= noise * np.sum(weights @ left**2):
                break
            worth[best] += gains[best]
            step = HALF * slope[best] / variance[best]
            left = left - (is_right[:, best] - mean[best])[:, None] * step
        worth[np.argsort(-worth)[OF_MEMBER:]] = 0
    used = np.asarray(found.any(axis=0))
    used[np.argsort(-found.sum(axis=0), kind="stable")[MOST_CUTS:]] = False
    return Cuts(columns[used], thresholds[used], found[:, used] > 0) if used.any() else None
