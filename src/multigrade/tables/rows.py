"""Rows of a table on their way to a network: merged, their moments, and padded to sizes that tables share."""

import numpy as np

GAP = -1e300  # in the place of a gap while rows are compared; numbers end at 1e150
SMALLEST = 1e-300  # smaller deviations are none
# Rows are padded to one of few sizes (weight 0), so that folds of a cross-validation share a compiled program; not
# those that random batches are drawn from.
ROW_SIZES = (64, 128, 256, 512)


def rows_with_weight(X, targets, weights, groups=None):
    """Those of positive weight."""
    is_used = weights > 0
    if not is_used.any():
        raise ValueError("sample_weight must be positive for one training row at least; all are zero")
    return X[is_used], targets[is_used], weights[is_used], None if groups is None else groups[is_used]


def merge_equal_rows(X, targets, weights, groups=None):
    """Equal rows (of one group) as one row with the sum of their weights, in sorted order.

    The objective is the same, and a fit then depends neither on the order of the rows nor on whether a row is
    repeated or weighted, to the last bit.
    """
    numbers = np.where(np.isnan(X), GAP, X)  # gaps are equal
    parts = [numbers, targets] if groups is None else [numbers, targets, groups[:, None]]
    rows, inverse = np.unique(np.hstack(parts), axis=0, return_inverse=True)
    summed = np.bincount(inverse.ravel(), weights, minlength=len(rows))
    num = X.shape[1]
    X = np.where(rows[:, :num] == GAP, np.nan, rows[:, :num])
    return X, rows[:, num : num + targets.shape[1]], summed, None if groups is None else rows[:, -1]


def weighted_moments(columns: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column."""
    mean = np.average(columns, axis=0, weights=weights)
    # A power of two rounds nothing, and keeps the squares of tiny numbers above 0.
    largest = np.abs(columns - mean).max(axis=0, initial=0)
    unit = 2.0 ** np.floor(np.log2(np.maximum(largest, SMALLEST)))
    return mean, unit * np.sqrt(np.average(((columns - mean) / unit) ** 2, axis=0, weights=weights))


def pad_rows(array: np.ndarray) -> np.ndarray:
    """Zero rows up to the next of ROW_SIZES, beyond the last to the next multiple of it."""
    num_rows = len(array)
    size = next((s for s in ROW_SIZES if num_rows <= s), -(-num_rows // ROW_SIZES[-1]) * ROW_SIZES[-1])
    return np.pad(array, [(0, size - num_rows)] + [(0, 0)] * (array.ndim - 1))
