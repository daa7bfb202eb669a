"""Grade 1 of a table: linear in the encoded columns, solved for each member, its ridge chosen on the folds.

With features X, weights w and the derivative l' of the loss in the scores, whose second derivative is at most c,

    B <- B - (c X'WX / sum w + ridge)^-1 (X'W l'(X B) / sum w + ridge B)

lowers the loss at every step (Boehning and Lindsay, 1988), and for the squared loss the first step is the solution.
One eigendecomposition of X'WX for each member serves all ridges; they are tried from strong to weak, each starting
where the last one ended, until the loss on the folds has risen twice.

Several sets of columns are tried so, each with the ridge that suits it. The grade is their mixture with the least loss
on the folds: on few rows no set of columns is surely the best, and a mean errs less than a choice.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..objectives import Loss, Squared

RIDGES = 10.0 ** np.arange(1.0, -5.5, -0.5)
NUM_ITERATIONS = 8
NUM_SHARES = 4


class FoldRows(NamedTuple):
    """What is fitted, by whom: member k of ``num_members`` leaves out the rows of fold k."""

    targets: np.ndarray  # (N, s)
    weights: np.ndarray  # (N,)
    folds: np.ndarray  # (N,)
    loss: Loss
    num_members: int


class Linear(NamedTuple):
    """Linear maps of the members, the loss on the folds without and with them, and on the other rows with them."""

    weight: np.ndarray  # (M, d, s)
    start_loss: float
    fold_loss: float
    train_loss: float


def solve_linear(inputs: np.ndarray, rows: FoldRows, start: np.ndarray, columns: Sequence[slice]) -> Linear:
    """Linear maps of the inputs (N, d) that add to the scores ``start``, (s,) or (N, M, s).

    Each of the slices of ``columns`` is tried alone, and mixtures of them. A loss of unbounded curvature has none.
    """
    problem = _Problem(inputs, rows, start)
    best = np.zeros((inputs.shape[1], rows.num_members, rows.targets.shape[1]), np.float32)
    first = least = problem.fold_loss(best)
    if rows.loss.curvature is not None:
        ends = [min(problem.path(part), key=lambda end: end[0])[1] for part in columns if part.stop > part.start]
        for shares in _mixtures(len(ends)):
            mixture = sum((np.float32(a) * end for a, end in zip(shares, ends, strict=True) if a), np.zeros_like(best))
            value = problem.fold_loss(mixture)
            if value < least:
                least, best = value, mixture
    train_loss = problem.mean_loss(best, problem.train)
    return Linear(np.ascontiguousarray(best.swapaxes(0, 1)), first, least, train_loss)


def _mixtures(num: int) -> list[tuple[float, ...]]:
    """Shares in steps of 1 / NUM_SHARES that sum to 1."""
    steps = itertools.product(range(NUM_SHARES + 1), repeat=num)
    return [tuple(step / NUM_SHARES for step in taken) for taken in steps if sum(taken) == NUM_SHARES]


class _Problem:
    """Coefficients are (d, M, s) here: X B of all members is then one product."""

    def __init__(self, inputs: np.ndarray, rows: FoldRows, start: np.ndarray):
        self.x, self.loss, self.num_members = np.asarray(inputs, np.float32), rows.loss, rows.num_members
        self.start = np.asarray(start, np.float32)
        self.targets = np.asarray(rows.targets[:, None], np.float32)
        weights = np.asarray(rows.weights / np.mean(rows.weights), np.float64)
        own = rows.folds[:, None] == np.arange(rows.num_members)
        self.held = np.where(own, weights[:, None], 0)
        self.train = (weights[:, None] - self.held).astype(np.float32)
        self.totals = np.maximum(self.train.sum(axis=0, dtype=np.float64), 1e-12).astype(np.float32)

    def scores(self, coefficients: np.ndarray) -> np.ndarray:
        """(N, M, s)"""
        product = self.x @ coefficients.reshape(len(coefficients), -1)
        return product.reshape(len(self.x), *coefficients.shape[1:]) + self.start

    def fold_loss(self, coefficients: np.ndarray) -> float:
        return self.mean_loss(coefficients, self.held)

    def mean_loss(self, coefficients: np.ndarray, weights: np.ndarray) -> float:
        losses = np.asarray(
            _losses(self.loss, self.scores(np.ascontiguousarray(coefficients)), self.targets), np.float64
        )
        return float(np.sum(weights * losses) / max(np.sum(weights), 1e-12))

    def path(self, part: slice):
        """(loss on the folds, coefficients) for each ridge, columns outside ``part`` left out."""
        values, vectors = np.linalg.eigh(self._grams(part))
        values = np.maximum(values, 0) * self.loss.curvature
        coefficients = np.zeros((self.x.shape[1], self.num_members, self.targets.shape[-1]), np.float32)
        last, num_worse = np.inf, 0
        for ridge in RIDGES:
            for _ in range(1 if isinstance(self.loss, Squared) else NUM_ITERATIONS):
                coefficients = self._improved(coefficients, part, ridge, values, vectors)
            value = self.fold_loss(coefficients)
            yield value, coefficients
            num_worse = num_worse + 1 if value >= last else 0
            if num_worse == 2:
                return
            last = value

    def _grams(self, part: slice) -> np.ndarray:
        """X'WX / sum w of each member, (M, d, d): that of all rows less that of its fold."""
        x = self.x[:, part]
        weights = (self.train + self.held).max(axis=1, keepdims=True).astype(np.float32)
        whole = x.T @ (weights * x)
        folds = []
        for member in range(self.num_members):
            rows = self.held[:, member] > 0
            folds.append(x[rows].T @ (weights[rows] * x[rows]))
        return (whole - np.stack(folds)).astype(np.float64) / self.totals[:, None, None]

    def _improved(self, coefficients, part: slice, ridge: float, values, vectors) -> np.ndarray:
        slope = np.asarray(_slope(self.loss, self.scores(coefficients), self.targets))
        slope = slope * (self.train / self.totals)[:, :, None]
        gradient = self.x[:, part].T @ slope.reshape(len(slope), -1)
        gradient = gradient.reshape(-1, *coefficients.shape[1:]) + np.float32(ridge) * coefficients[part]
        turned = vectors.swapaxes(1, 2) @ gradient.swapaxes(0, 1) / (values + ridge)[:, :, None]
        moved = coefficients.copy()
        moved[part] -= (vectors @ turned).swapaxes(0, 1).astype(np.float32)
        return moved


@jax.jit
def _slope(loss: Loss, scores, targets):
    return jax.grad(lambda s: jnp.sum(loss(s, targets)))(scores)


@jax.jit
def _losses(loss: Loss, scores, targets):
    return loss(scores, targets)
