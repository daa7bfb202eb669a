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
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..training.objectives import Loss, Squared
from .row_losses import row_losses, row_slopes

RIDGES = 10.0 ** np.arange(1.0, -5.5, -0.5)  # that are tried; our choice
NUM_ITERATIONS = 8  # of Newton's method for losses that are not squares
NUM_SHARES = 4  # shares of the parts are multiples of 1 / this; our choice


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
    first = least = problem.fold_loss(problem.held_scores(best))
    if rows.loss.curvature is not None:
        ends = [min(problem.path(part), key=lambda end: end.loss) for part in columns if part.stop > part.start]
        for shares in _mixtures(len(ends)):
            value = problem.fold_loss(_weighted(shares, [end.held_scores for end in ends]))
            if value < least:
                least, best = value, _weighted(shares, [end.coefficients for end in ends])
    return Linear(np.ascontiguousarray(best.swapaxes(0, 1)), first, least, problem.train_loss(best))


def _weighted(shares: Sequence[float], arrays: list[np.ndarray]) -> np.ndarray:
    return sum((np.float32(a) * array for a, array in zip(shares, arrays, strict=True)), np.zeros_like(arrays[0]))


def _mixtures(num: int) -> list[tuple[float, ...]]:
    """Shares in steps of 1 / NUM_SHARES that sum to 1."""
    steps = itertools.product(range(NUM_SHARES + 1), repeat=num)
    return [tuple(step / NUM_SHARES for step in taken) for taken in steps if sum(taken) == NUM_SHARES]


class _End(NamedTuple):
    """Where a ridge ends: the loss on the folds, the coefficients, and the scores of the rows left out."""

    loss: float
    coefficients: np.ndarray
    held_scores: np.ndarray


class _Problem:
    """Coefficients are (d, M, s) here: X B of all members is then one product."""

    def __init__(self, inputs: np.ndarray, rows: FoldRows, start: np.ndarray):
        self.loss, self.num_members = rows.loss, rows.num_members
        order = np.argsort(rows.folds, kind="stable")  # rows of a fold stand together
        self.x = np.asarray(inputs, np.float32)[order]
        self.targets = np.asarray(rows.targets, np.float32)[order]
        start = np.asarray(start, np.float32)
        self.start = np.broadcast_to(start, (len(order), rows.num_members, start.shape[-1]))
        self.start = self.start[order] if start.ndim == 3 else self.start
        self.weights = np.asarray(rows.weights / np.mean(rows.weights), np.float32)[order]
        ends = np.searchsorted(rows.folds[order], np.arange(rows.num_members + 1))
        self.folds = [slice(*pair) for pair in itertools.pairwise(ends)]
        self.num_held = ends[-1]  # the folds of further numbers are left out by nobody
        self.train = np.repeat(self.weights[:, None], rows.num_members, axis=1)
        for member, fold in enumerate(self.folds):
            self.train[fold, member] = 0
        self.totals = np.maximum(self.train.sum(axis=0, dtype=np.float64), 1e-12).astype(np.float32)

    def scores(self, coefficients: np.ndarray) -> np.ndarray:
        """(N, M, s)"""
        product = self.x @ coefficients.reshape(len(coefficients), -1)
        return product.reshape(len(self.x), *coefficients.shape[1:]) + self.start

    def held_scores(self, coefficients: np.ndarray) -> np.ndarray:
        """What each row's own member, which has not seen it, gives: (rows left out by a member, s)."""
        parts = [self.x[fold] @ coefficients[:, k] + self.start[fold, k] for k, fold in enumerate(self.folds)]
        return np.concatenate(parts)

    def fold_loss(self, held_scores: np.ndarray) -> float:
        weights = self.weights[: self.num_held].astype(np.float64)
        losses = row_losses(self.loss, held_scores, self.targets[: self.num_held])
        return float(np.sum(weights * losses) / max(np.sum(weights), 1e-12))

    def train_loss(self, coefficients: np.ndarray) -> float:
        losses = row_losses(self.loss, self.scores(coefficients), self.targets[:, None])
        return float(np.sum(self.train * losses) / max(np.sum(self.train, dtype=np.float64), 1e-12))

    def path(self, part: slice) -> Iterator[_End]:
        """The end of each ridge, columns outside ``part`` left out."""
        values, vectors = self._spectrum(part)
        values = np.maximum(values, 0) * self.loss.curvature
        coefficients = np.zeros((self.x.shape[1], self.num_members, self.targets.shape[-1]), np.float32)
        last, num_worse = np.inf, 0
        for ridge in RIDGES:
            for _ in range(1 if isinstance(self.loss, Squared) else NUM_ITERATIONS):
                coefficients = self._improved(coefficients, part, ridge, values, vectors)
            held_scores = self.held_scores(coefficients)
            value = self.fold_loss(held_scores)
            yield _End(value, coefficients, held_scores)
            num_worse = num_worse + 1 if value >= last else 0
            if num_worse == 2:
                return
            last = value

    def _spectrum(self, part: slice) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues (M, r) and vectors (M, d, r) of X'WX / sum w of each member.

        Where rows are fewer than columns, those of W^1/2 XX'W^1/2 give all that are not 0, and no step leaves the space
        of the rows.
        """
        x = self.x[:, part]
        if len(x) >= x.shape[1]:
            return np.linalg.eigh(self._grams(x))
        x = x.astype(np.float64)
        roots = np.sqrt(self.train / self.totals, dtype=np.float64).T[:, :, None]  # (M, N, 1)
        values, vectors = np.linalg.eigh(roots * (x @ x.T) * roots.swapaxes(1, 2))
        is_spanned = values > 1e-10 * values[:, -1:]
        lengths = np.sqrt(np.where(is_spanned, values, np.inf))
        return np.where(is_spanned, values, 0), x.T @ (roots * vectors) / lengths[:, None]

    def _grams(self, x: np.ndarray) -> np.ndarray:
        """X'WX / sum w of each member, (M, d, d): that of all rows less that of its fold."""
        weighted = self.weights[:, None] * x
        folds = np.stack([x[fold].T @ weighted[fold] for fold in self.folds])
        return (x.T @ weighted - folds).astype(np.float64) / self.totals[:, None, None]

    def _improved(self, coefficients, part: slice, ridge: float, values, vectors) -> np.ndarray:
        slope = row_slopes(self.loss, self.scores(coefficients), self.targets[:, None])
        slope = slope * (self.train / self.totals)[:, :, None]
        gradient = self.x[:, part].T @ slope.reshape(len(slope), -1)
        gradient = gradient.reshape(-1, *coefficients.shape[1:]) + np.float32(ridge) * coefficients[part]
        turned = vectors.swapaxes(1, 2) @ gradient.swapaxes(0, 1) / (values + ridge)[:, :, None]
        moved = coefficients.copy()
        moved[part] -= (vectors @ turned).swapaxes(0, 1).astype(np.float32)
        return moved
