"""Folds of a table's rows, and what may be concluded from them.

Member k of a fit leaves out fold k. Arrays of held-out rows are (R, M, ...): column k has the rows of fold k, padded in
front by rows of weight 0.
"""

import jax
import numpy as np
from jax import Array

# Rows are padded to the next of these numbers, beyond the last to its multiples: tables share compiled programs. The
# first of each pair is for the rows that train, the second for those that a member leaves out.
ROW_SIZES = ((2048, 256), (4096, 512), (16384, 2048), (65536, 8192), (262144, 32768))


def assign_folds(
    targets: np.ndarray, num_folds: int, random: np.random.Generator, groups: np.ndarray | None = None
) -> np.ndarray:
    """A fold for each row, at random, such that all folds have about the same targets (or classes).

    Rows of one group, where groups are given, are in one fold; the largest groups are dealt out first.
    """
    if groups is not None:
        _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        fold_of, filled = np.empty(len(sizes), int), np.zeros(num_folds)
        order = random.permutation(len(sizes))
        for index in order[np.argsort(-sizes[order], kind="stable")]:
            fold_of[index] = np.argmin(filled)
            filled[fold_of[index]] += sizes[index]
        return fold_of[group]
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


def padded(array: np.ndarray, *, is_held: bool) -> Array:
    """Rows of 0 in front, up to the next of few sizes: the last row is then never one of weight 0."""
    sizes = [pair[is_held] for pair in ROW_SIZES]
    size = next((size for size in sizes if len(array) <= size), -(-len(array) // sizes[-1]) * sizes[-1])
    missing = size - len(array)
    return jax.device_put(np.pad(np.asarray(array, np.float32), [(missing, 0)] + [(0, 0)] * (array.ndim - 1)))


def is_surely_positive(gains: np.ndarray, weights: np.ndarray, num_errors: float = 1.0) -> bool:
    """Whether the sum of weighted gains is above so many of its standard errors."""
    weights = np.asarray(weights, np.float64)
    used = weights > 0
    gains, weights = gains[used] / weights[used], weights[used]
    mean = np.average(gains, weights=weights)
    variance = np.average((gains - mean) ** 2, weights=weights)
    return bool(mean > num_errors * np.sqrt(variance * np.sum(weights**2)) / np.sum(weights))
