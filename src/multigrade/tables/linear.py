"""Grade 1 of a table: linear in the encoded columns, solved for each member, its ridge chosen on the folds.

With features X, weights w and the derivative l' of the loss in the scores, whose second derivative is at most c,

    B <- B - (c X'WX / sum w + ridge)^-1 (X'W l'(X B) / sum w + ridge B)

lowers the loss at every step (Boehning and Lindsay, 1988), and for the squared loss the first step is the solution.
One eigendecomposition of X'WX for each member serves all ridges; they are tried from strong to weak, each starting
where the last one ended, until the loss on the folds has risen twice.

Several sets of columns are tried so, each with the ridge that suits it. The grade is their mixture with the least loss
on the folds: on few rows no set of columns is surely the best, and a mean errs less than a choice.

Each member may read columns of its own beside the shared ones (codes), and may be kept from some of these (a mask).
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .losses import Loss, SquaredError

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


class Inputs(NamedTuple):
    """What the members read: columns that they share, columns of their own, and which of the shared ones they see."""

    shared: np.ndarray  # (N, d)
    own: np.ndarray | None = None  # (N, M, e)
    mask: np.ndarray | None = None  # (M, d); None for all

    def times(self, weight: np.ndarray) -> np.ndarray:
        """(N, M, s), for weights (M, d + e, s) that are 0 where the mask is."""
        num_members, _, num_outputs = weight.shape
        flat = np.ascontiguousarray(weight[:, : self.shared.shape[1]].swapaxes(0, 1))
        product = (self.shared @ flat.reshape(len(flat), -1)).reshape(-1, num_members, num_outputs)
        return product if self.own is None else product + _each(self.own, weight[:, self.shared.shape[1] :])


def _each(own: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Each member's own rows (N, M, e) times its own weights (M, e, s): (N, M, s)."""
    return (own.swapaxes(0, 1) @ weight).swapaxes(0, 1)


def solve_linear(inputs: Inputs, rows: FoldRows, start: np.ndarray, families: Sequence[np.ndarray]) -> Linear:
    """Linear maps of the inputs that add to the scores ``start``, (s,) or (N, M, s).

    Each of the ``families`` of shared columns is tried alone, and mixtures of them; own columns belong to all. A loss
    of unbounded curvature has none.
    """
    problem = _Problem(inputs, rows, start)
    best = np.zeros((problem.width, rows.num_members, rows.targets.shape[1]), np.float32)
    first = least = problem.fold_loss(problem.held_scores(best))
    if rows.loss.curvature is not None:
        ends = [
            min(problem.path(family), key=lambda end: end.loss)
            for family in families
            if len(family) or inputs.own is not None
        ]
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
    """Coefficients are (d + e, M, s) here: the shared columns' part of all members is then one product."""

    def __init__(self, inputs: Inputs, rows: FoldRows, start: np.ndarray):
        self.loss, self.num_members = rows.loss, rows.num_members
        order = np.argsort(rows.folds, kind="stable")  # rows of a fold stand together
        self.x = np.asarray(inputs.shared, np.float32)[order]
        self.num_shared = self.x.shape[1]
        self.own = None if inputs.own is None else inputs.own[order, : rows.num_members]
        self.width = self.num_shared + (0 if self.own is None else self.own.shape[2])
        self.mask = None if inputs.mask is None else inputs.mask[: rows.num_members]
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
        shared = coefficients[: self.num_shared]
        product = (self.x @ shared.reshape(len(shared), -1)).reshape(len(self.x), *coefficients.shape[1:]) + self.start
        if self.own is not None:
            product = product + _each(self.own, coefficients[self.num_shared :].swapaxes(0, 1))
        return product

    def held_scores(self, coefficients: np.ndarray) -> np.ndarray:
        """What each row's own member, which has not seen it, gives: (rows left out by a member, s)."""
        parts = []
        for k, fold in enumerate(self.folds):
            part = self.x[fold] @ coefficients[: self.num_shared, k] + self.start[fold, k]
            parts.append(part if self.own is None else part + self.own[fold, k] @ coefficients[self.num_shared :, k])
        return np.concatenate(parts)

    def fold_loss(self, held_scores: np.ndarray) -> float:
        weights = self.weights[: self.num_held].astype(np.float64)
        losses = self.loss.value(held_scores, self.targets[: self.num_held])
        return float(np.sum(weights * losses) / max(np.sum(weights), 1e-12))

    def train_loss(self, coefficients: np.ndarray) -> float:
        losses = self.loss.value(self.scores(coefficients), self.targets[:, None])
        return float(np.sum(self.train * losses) / max(np.sum(self.train, dtype=np.float64), 1e-12))

    def path(self, family: np.ndarray) -> Iterator[_End]:
        """The end of each ridge, for the shared columns of one family and the own ones."""
        part = np.concatenate([family, np.arange(self.num_shared, self.width)])
        values, vectors = self._spectrum(part)
        values = np.maximum(values, 0) * self.loss.curvature
        coefficients = np.zeros((self.width, self.num_members, self.targets.shape[-1]), np.float32)
        last, num_worse = np.inf, 0
        for ridge in RIDGES:
            for _ in range(1 if isinstance(self.loss, SquaredError) else NUM_ITERATIONS):
                coefficients = self._improved(coefficients, part, ridge, values, vectors)
            held_scores = self.held_scores(coefficients)
            value = self.fold_loss(held_scores)
            yield _End(value, coefficients, held_scores)
            num_worse = num_worse + 1 if value >= last else 0
            if num_worse == 2:
                return
            last = value

    def _rows_of(self, member: int, part: np.ndarray) -> np.ndarray:
        """What a member reads of these columns, (N, r); 0 where it is kept from them."""
        family = part[part < self.num_shared]
        x = self.x[:, family] if self.mask is None else self.x[:, family] * self.mask[member, family]
        return x if self.own is None else np.concatenate([x, self.own[:, member]], axis=1)

    def _spectrum(self, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues (M, r) and vectors (M, d, r) of X'WX / sum w of each member.

        Where rows are fewer than columns, those of W^1/2 XX'W^1/2 give all that are not 0, and no step leaves the space
        of the rows.
        """
        if len(self.x) >= len(part):
            return np.linalg.eigh(self._grams(part))
        spectra = []
        for member in range(self.num_members):
            x = self._rows_of(member, part).astype(np.float64)
            roots = np.sqrt(self.train[:, member, None] / self.totals[member], dtype=np.float64)
            values, vectors = np.linalg.eigh(roots * (x @ x.T) * roots.T)
            is_spanned = values > 1e-10 * max(values[-1], 1e-300)
            lengths = np.sqrt(np.where(is_spanned, values, np.inf))
            spectra.append((np.where(is_spanned, values, 0), x.T @ (roots * vectors) / lengths))
        values, vectors = map(np.stack, zip(*spectra, strict=True))
        return values, vectors

    def _grams(self, part: np.ndarray) -> np.ndarray:
        """X'WX / sum w of each member, (M, r, r): that of all rows less that of its fold."""
        if self.own is not None:
            each = [self._rows_of(member, part) for member in range(self.num_members)]
            grams = [x.T @ (self.train[:, member, None] * x) for member, x in enumerate(each)]
            return np.stack(grams).astype(np.float64) / self.totals[:, None, None]
        x = self.x[:, part]
        weighted = self.weights[:, None] * x
        folds = np.stack([x[fold].T @ weighted[fold] for fold in self.folds])
        grams = (x.T @ weighted - folds).astype(np.float64) / self.totals[:, None, None]
        return grams if self.mask is None else grams * self.mask[:, part, None] * self.mask[:, None, part]

    def _improved(self, coefficients, part: np.ndarray, ridge: float, values, vectors) -> np.ndarray:
        slope = self.loss.slope(self.scores(coefficients), self.targets[:, None])
        slope = slope * (self.train / self.totals)[:, :, None]
        family = part[part < self.num_shared]
        gradient = (self.x[:, family].T @ slope.reshape(len(slope), -1)).reshape(-1, *coefficients.shape[1:])
        if self.mask is not None:
            gradient = gradient * self.mask[:, family].T[:, :, None]
        if self.own is not None:
            of_own = self.own.transpose(1, 2, 0) @ slope.swapaxes(0, 1)  # (M, e, s)
            gradient = np.concatenate([gradient, of_own.swapaxes(0, 1)])
        gradient = gradient + np.float32(ridge) * coefficients[part]
        turned = vectors.swapaxes(1, 2) @ gradient.swapaxes(0, 1) / (values + ridge)[:, :, None]
        moved = coefficients.copy()
        moved[part] -= (vectors @ turned).swapaxes(0, 1).astype(np.float32)
        return moved
