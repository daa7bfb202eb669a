"""Folds of a table's rows, and what may be concluded from them.

Member k of a fit leaves out fold k. Arrays of held-out rows are (R, M, ...): column k has the rows of fold k, padded in
front by rows of weight 0.
"""

import jax
import numpy as np
from jax import Array

# Rows are padded to powers of two up to the last of these, beyond to its multiples: tables share compiled programs.
MIN_ROWS, MAX_ROWS = 128, 4096


def assign_folds(targets: np.ndarray, num_folds: int, random: np.random.Generator) -> np.ndarray:
    """A fold for each row, at random, such that all folds have about the same targets (or classes)."""
    by_target = targets[:, 0] if targets.shape[1] == 1 else targets.argmax(axis=1)
    order = random.permutation(len(targets))
    order = order[np.argsort(by_target[order], kind="stable")]
    folds = np.empty(len(targets), int)
    for start in range(0, len(targets), num_folds):
        block = order[start : start + num_folds]
        folds[block] = random.permutation(num_folds)[: len(block)]
    return folds


def held_rows(folds: np.ndarray, num_members: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the rows that each member leaves out, (R, M), and where there is one."""
    rows = [np.flatnonzero(folds == member) for member in range(num_members)]
    length = max(map(len, rows))
    index = np.stack([np.pad(r, (0, length - len(r))) for r in rows], axis=1)
    return index, np.arange(length)[:, None] < [len(r) for r in rows]


def num_rows_padded(num_rows: int) -> int:
    if num_rows > MAX_ROWS:
        return -(-num_rows // MAX_ROWS) * MAX_ROWS
    return max(MIN_ROWS, 1 << (num_rows - 1).bit_length())


def padded(array: np.ndarray) -> Array:
    """Rows of 0 in front, up to the next of few sizes: the last row is then never one of weight 0."""
    missing = num_rows_padded(len(array)) - len(array)
    return jax.device_put(np.pad(np.asarray(array, np.float32), [(missing, 0)] + [(0, 0)] * (array.ndim - 1)))


def is_surely_positive(gains: np.ndarray, weights: np.ndarray) -> bool:
    """Whether the sum of weighted gains is above its standard error."""
    weights = np.asarray(weights, np.float64)
    used = weights > 0
    gains, weights = gains[used] / weights[used], weights[used]
    mean = np.average(gains, weights=weights)
    variance = np.average((gains - mean) ** 2, weights=weights)
    return bool(mean > np.sqrt(variance * np.sum(weights**2)) / np.sum(weights))
