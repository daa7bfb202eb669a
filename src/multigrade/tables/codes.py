"""Codes: categories with many levels, and columns of numbers whose values are names (of a patient, of a firm).

A level is read as what its targets are like, in the units of the scores, shrunken to 0 where its rows are few:

    marginal   link((sum y + a m) / (n + a)) - link(m), m the mean of all targets
    left over  sum(-l') / (sum(l'') + a h), one step of Newton's method for the level after what the columns explain,
               h the mean of l''; for the squared error the shrunken mean of the residuals

Member k reads row n from the rows that are neither in n's fold nor in fold k: no row's target is among its inputs, and
none of the rows that judge the member. New rows are read from all training rows. A column of numbers is a code if what
is left over by its levels surely lowers the loss on the folds, by two standard errors; a category always is.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from .encoding import Encoding, find_levels
from .folds import is_surely_positive
from .linear import FoldRows

MIN_LEVELS = 17  # of a category that is a code, too
SHRINKAGES = (0.3, 1.0, 3.0, 10.0, 30.0)  # rows that a level is shrunken by; the folds choose
ROWS_PER_LEVEL = 1.5  # at least, on average
MOST_STATISTICS = 64  # of all codes, with which marginal ones are read


class Codes(NamedTuple):
    """Known levels of all codes, what is known of them, and what members read of the training rows."""

    columns: np.ndarray
    values: np.ndarray
    statistics: np.ndarray  # (levels, statistics)
    own: np.ndarray  # (N, M, statistics of all codes, padded)

    def of(self, encoding: Encoding) -> Encoding:
        """The encoding with these codes."""
        return dataclasses.replace(
            encoding, code_columns=self.columns, code_values=self.values, code_statistics=self.statistics
        )


def fit_codes(
    X: np.ndarray, is_category: np.ndarray, encoding: Encoding, rows: FoldRows, scores: np.ndarray
) -> Codes | None:
    """The codes among the columns of X, after scores (N, M, s) of all other columns; None where there are none."""
    rows = rows._replace(weights=rows.weights / np.mean(rows.weights))
    slopes = -_honest(rows, rows.loss.slope(scores, np.asarray(rows.targets, np.float32)[:, None]))
    steepness = _honest(rows, rows.loss.steepness(scores))
    unit, mean = (np.average(part, axis=0, weights=rows.weights) for part in (steepness, rows.targets))

    def left_over(slope, total, shrinkage):
        return slope / (np.maximum(total, 0) + shrinkage * unit)

    def marginal(total, count, shrinkage):
        shrinkage = max(shrinkage, 1.0)  # or the logarithm of a share of 0 would be asked for
        level = (np.maximum(total, 0) if rows.loss.link(mean) is not mean else total) + shrinkage * mean
        return rows.loss.link(level / (np.maximum(count, 0) + shrinkage)) - rows.loss.link(mean)

    is_held = rows.folds < rows.num_members
    before = scores[is_held, rows.folds[is_held]]
    targets, weights = np.asarray(rows.targets[is_held], np.float32), rows.weights[is_held]
    start_losses = rows.loss.value(before, targets)
    found = []
    for column in np.flatnonzero(_can_be_codes(X, is_category, encoding)):
        levels = np.unique(np.where(np.isnan(X[:, column]), -np.inf, X[:, column]))
        place, _ = find_levels(X[:, column], levels)
        newton = [_sums(rows, place, len(levels), part) for part in (slopes, steepness)]
        away = [part.sum(axis=0)[place] - part[rows.folds, place] for part in newton]
        gains = []
        for shrinkage in SHRINKAGES:
            after = (before + left_over(*away, shrinkage=shrinkage)[is_held]).astype(np.float32)
            gains.append(weights * (start_losses - rows.loss.value(after, targets)))
        best = int(np.argmax([gain.sum() for gain in gains]))
        if is_category[column] or is_surely_positive(gains[best], weights, 2.0):
            found.append((column, levels, place, newton, SHRINKAGES[best]))
    if not found:
        return None
    with_marginal = 2 * len(mean) * len(found) <= MOST_STATISTICS
    own, columns, values, statistics = [], [], [], []
    for column, levels, place, newton, shrinkage in found:
        read = [(left_over, newton)]
        if with_marginal:
            parts = (rows.targets, np.ones_like(rows.targets))
            read.append((marginal, [_sums(rows, place, len(levels), part) for part in parts]))
        of_levels = []
        for statistic, sums in read:
            whole = statistic(*(part.sum(axis=0) for part in sums), shrinkage=shrinkage)
            size = np.maximum(np.sqrt(np.average(np.square(whole[place]), axis=0, weights=rows.weights)), 1e-6)
            own.append(statistic(*(_left_out(part, place, rows) for part in sums), shrinkage=shrinkage) / size)
            of_levels.append(whole / size)
        columns.append(np.full(len(levels), column))
        values.append(levels)
        statistics.append(np.hstack(of_levels))
    own = np.concatenate(own, axis=2).astype(np.float32)
    own = np.pad(own, [(0, 0), (0, 0), (0, -own.shape[2] % 8)])  # as Encoding.num_codes says
    return Codes(np.concatenate(columns), np.concatenate(values), np.concatenate(statistics), own)


def _can_be_codes(X: np.ndarray, is_category: np.ndarray, encoding: Encoding) -> np.ndarray:
    """Columns whose levels are more than the encoding tells apart, and fewer than rows."""
    can_be = np.zeros(X.shape[1], bool)
    for column in np.flatnonzero(is_category):
        can_be[column] = len(np.unique(X[~np.isnan(X[:, column]), column])) >= MIN_LEVELS
    for column in encoding.columns:
        num_levels = len(np.unique(X[:, column], equal_nan=True))
        num_bins = np.count_nonzero(encoding.bin_columns == column)
        can_be[column] = num_bins + 1 < num_levels <= len(X) / ROWS_PER_LEVEL
    return can_be


def _honest(rows: FoldRows, of_members: np.ndarray) -> np.ndarray:
    """(N, s) of (N, M, s): of the member that left the row out, or the mean where none did."""
    index = np.minimum(rows.folds, rows.num_members - 1)
    own = of_members[np.arange(len(index)), index].astype(np.float64)
    is_held = (rows.folds < rows.num_members)[:, None]
    return np.where(is_held, own, of_members.mean(axis=1, dtype=np.float64))


def _sums(rows: FoldRows, place: np.ndarray, num_levels: int, values: np.ndarray) -> np.ndarray:
    """Weighted sums by fold and level, (folds, levels, s)."""
    num_folds = max(int(rows.folds.max()) + 1, rows.num_members)
    index = rows.folds * num_levels + place
    sums = [np.bincount(index, rows.weights * value, num_folds * num_levels) for value in values.T]
    return np.stack(sums, axis=1).reshape(num_folds, num_levels, -1)


def _left_out(sums: np.ndarray, place: np.ndarray, rows: FoldRows) -> np.ndarray:
    """(N, M, s): over the rows that are neither in the row's own fold nor in the member's."""
    members = np.arange(rows.num_members)
    of_member = np.where((rows.folds[:, None] == members)[..., None], 0, sums[members, place[:, None]])
    return (sums.sum(axis=0)[place] - sums[rows.folds, place])[:, None] - of_member
