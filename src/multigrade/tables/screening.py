"""Idle columns: which columns of a wide table each member reads.

A member looks at its own rows alone: correlations z of what is left over with every output of the encoding, in units
of their standard error. A column is read where one of its outputs passes the largest |z| that the same residuals have
when they are dealt out to the rows at random, over all columns (the median of some deals). The size of what is left
over is looked at as well: two columns whose product matters show there. Columns that pass are solved for, and the rest
is looked at again.

The folds decide whether the columns so found do better than all of them. As no member has used the rows that judge it,
neither the decision nor a later loss on the folds is flattered by the choice.
"""

from typing import NamedTuple

import numpy as np

from .encoding import Encoding
from .linear import FoldRows, Inputs, Linear, solve_linear

MIN_COLUMNS = 16  # of a table that is screened
NUM_ROUNDS = 3
NUM_DEALS = 9


class Screened(NamedTuple):
    """Which columns of the table each member reads, (M, columns), and how well they do."""

    columns: np.ndarray
    linear: Linear


def screen_columns(
    encoding: Encoding, encoded: np.ndarray, rows: FoldRows, bias: np.ndarray, random: np.random.Generator
) -> Screened | None:
    """The columns that members read, with the loss of grade 1 on them; None where there are none."""
    column_of = encoding.column_of_outputs()
    used = column_of >= 0
    x, column_of = encoded[:, : len(used)][:, used], column_of[used]
    found = np.zeros((rows.num_members, int(column_of.max(initial=0)) + 1), bool)
    scores = np.broadcast_to(bias, (len(x), rows.num_members, len(bias)))
    best = None
    for _ in range(NUM_ROUNDS):
        largest = _largest(x, rows, scores, random)
        passed = np.zeros_like(found)
        for member, z in enumerate(largest):
            passed[member, column_of[z > 1]] = True
        if not np.any(passed & ~found) or not found.size:
            break
        found |= passed
        outputs = np.zeros((rows.num_members, encoded.shape[1]), bool)
        outputs[:, np.flatnonzero(used)] = found[:, column_of]
        inputs = Inputs(encoded, mask=outputs)
        some = np.flatnonzero(outputs.any(axis=0))
        families = [np.intersect1d(family, some) for family in encoding.families().values()]
        linear = solve_linear(inputs, rows, bias, families)
        if best is not None and linear.fold_loss > best.linear.fold_loss:
            break
        best = Screened(found.copy(), linear)
        scores = inputs.times(linear.weight) + bias
    return best


def _largest(x: np.ndarray, rows: FoldRows, scores: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """|z| of each output for each member, in units of the largest one that is due to chance: (M, d)."""
    slopes = rows.loss.slope(scores.astype(np.float32), np.asarray(rows.targets, np.float32)[:, None])  # (N, M, s)
    deals = [random.permutation(len(x)) for _ in range(NUM_DEALS)]
    z = np.zeros((rows.num_members, x.shape[1]))
    squares = np.square(x)
    for member in range(rows.num_members):
        weights = (rows.weights * (rows.folds != member)).astype(np.float32)
        weights /= weights.sum()
        left = np.concatenate([slopes[:, member], np.abs(slopes[:, member])], axis=1)
        left = left - weights @ left
        deviation = np.sqrt(weights @ np.square(left))
        left = np.where(deviation > 1e-3, left / np.maximum(deviation, 1e-3), 0)  # of two classes all may be as large
        spread = np.sqrt(np.maximum(weights @ squares - np.square(weights @ x), 1e-12))
        centred_by = weights @ x
        train = np.flatnonzero(weights)
        deal = [train[np.argsort(np.argsort(d[train]))] for d in deals]  # of the member's rows among themselves
        all_left = np.concatenate([left[train], *(left[d] for d in deal)], axis=1) * weights[train, None]
        products = (x[train].T @ all_left - np.outer(centred_by, all_left.sum(axis=0))) / spread[:, None]
        products = np.abs(products).reshape(len(spread), 1 + NUM_DEALS, -1)
        by_chance = np.median(products[:, 1:].max(axis=0), axis=0)  # for each kind of residual
        z[member] = (products[:, 0] / np.maximum(by_chance, 1e-12)).max(axis=1)
    return z
