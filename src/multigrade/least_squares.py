"""The output layer of a grade as the solution of its least-squares problem, in float64.

A network is linear in its output layer: with features Phi (N, p), targets Y (N, s) and weights w,

    C, c  minimise  sum_n w_n ||y_n - phi_n C - c||^2 + ridge ||C||^2        (the intercept c is not penalised).

The rows are reduced block by block to the triangle R of a QR factorisation of sqrt(w) [1, Phi, Y], whose first column
centres the others. The Gram matrix is never formed: it would square the condition number and lose half of the digits.
Memory is that of one block and of R. The singular value decomposition of R then solves the problem for every ridge at
once, and gives the leave-one-out error of each in closed form (Allen's PRESS): the error at row n of a fit without it
is the error of the fit divided by 1 - h_n, where h_n is the row's leverage.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dtpqrt  # pyright: ignore[reportAttributeAccessIssue]

Rows = np.ndarray | Callable[[int, int], np.ndarray]  # all rows, or a function that gives rows start to stop
ROWS_PER_BLOCK = 4096  # in memory at a time
# Ridges that "auto" chooses from, as squares of singular values relative to the largest; 0 is added.
RELATIVE_RIDGES = tuple(10.0 ** (-0.5 * k) for k in range(60, -1, -1))
# "auto" takes the largest ridge whose error is within this part of the smallest error: its coefficients are smaller.
TOLERANCE = 0.001
# Ridges of ``solve_blocks``, as squares of singular values relative to the largest: rounding, and a larger one.
ROUNDING_RIDGES = (1e-28, 1e-18)


@dataclasses.dataclass(frozen=True)
class LinearFit:
    """phi -> phi C + c, and how well it does.

    Parameters
    ----------
    coefficients, intercept : arrays (p, s), (s,)
        C and c.
    ridge : float
        The one that was given or chosen.
    leave_one_out : float
        Root mean square error over rows and outputs of fits that did not see the row, weighted as the rows are; NaN
        where it was not asked for.
    rank : int
        Number of singular values that are above rounding.
    ridges, tried : arrays
        The ridges that were tried, and the leave-one-out error of each.
    scales : int
        Which of the given scales were taken.
    solver : internal
        What ``corrected`` solves with.
    """

    coefficients: np.ndarray
    intercept: np.ndarray
    ridge: float
    leave_one_out: float
    rank: int
    ridges: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0))
    tried: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0))
    scales: int = 0
    solver: "_Solver | None" = dataclasses.field(default=None, repr=False)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        return np.asarray(features, np.float64) @ self.coefficients + self.intercept

    def corrected(self, features: np.ndarray, residual: np.ndarray, weights=None) -> "LinearFit":
        """This fit after a step of refinement, where ``residual`` = y - (what is predicted) at the same rows.

        It takes away what rounding has left, at the price of two products (corrected semi-normal equations), and
        nothing else: without rounding the residual of this fit leaves it as it is.
        """
        assert self.solver is not None
        coefficients, intercept = self.solver.correction(features, residual, weights)
        return dataclasses.replace(
            self, coefficients=self.coefficients + coefficients, intercept=self.intercept + intercept
        )


def solve_least_squares(
    features: Rows,
    targets,
    *,
    ridge: float | Sequence[float] | str = "auto",
    weights=None,
    intercept: bool = True,
    scales=None,
    largest: float = math.inf,
    leave_one_out: bool = True,
    rows_per_block: int = ROWS_PER_BLOCK,
) -> LinearFit:
    """The output layer that minimises sum_n w_n ||y_n - phi_n C - c||^2 + ridge ||C / scales||^2.

    Parameters
    ----------
    features : array (N, p), or function
        The features, or a function that gives those of rows ``start`` to ``stop``, so that not all need be in memory
        (it is called twice for each block where the leave-one-out error is asked for).
    targets : array (N,) or (N, s)
        Several outputs share the ridge.
    ridge : float, sequence of float, or "auto"
        The ridge; or several, of which the one with the smallest leave-one-out error is taken; "auto" tries 0 and 61
        between 1e-30 and 1 times the square of the largest singular value, and takes the largest whose error is within
        0.1 % of the smallest. Ridge 0 gives the shortest solution.
    weights : array (N,), optional
        Not negative. A weight of 2 is a row that stands there twice (but one that is left out takes both along).
    intercept : bool
        Without it c is 0.
    scales : array (p,) or (k, p), optional
        How large the coefficient of each feature is expected to be; 1 if not given. Of several the one with the
        smallest leave-one-out error is taken.
    largest : float
        With several ridges, those are not taken whose coefficients are larger than this (unless all are): large ones
        that cancel each other lose digits when the model is evaluated.
    leave_one_out : bool
        Whether to compute the leave-one-out error of a single given ridge.
    rows_per_block : int
        Rows that are reduced at a time; at least 4 p are taken.

    Returns
    -------
    LinearFit

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 50)
    >>> fit = solve_least_squares(np.stack([x, x**2], axis=1), 3 * x**2 - x + 2, ridge=0.0)
    >>> [round(float(c), 9) for c in (*fit.coefficients[:, 0], *fit.intercept)]
    [-1.0, 3.0, 2.0]
    """
    rows, y, w = _checked(features, targets, weights)
    ridges = _ridges(ridge)
    triangle = reduce_rows(rows, y, w, intercept=intercept, rows_per_block=rows_per_block)
    choices = _scales(scales, triangle.factor.shape[1])
    is_choice = len(choices) > 1 or ridges is None or len(ridges) > 1
    fits = (
        _solve(triangle, choice, rows, y, w, ridges, largest, is_choice or leave_one_out, rows_per_block)
        for choice in choices
    )
    best, number = min(zip(fits, range(len(choices)), strict=True), key=lambda pair: pair[0].leave_one_out)
    return dataclasses.replace(best, scales=number)


def _solve(triangle: "Triangle", scales: np.ndarray, rows, y, w, ridges, largest, leave_one_out, rows_per_block):
    svd, is_given = _Decomposition.of(triangle, scales, len(y)), ridges is not None
    ridges = svd.values[0] ** 2 * np.array([0.0, *RELATIVE_RIDGES]) if ridges is None else ridges
    tried = np.full(len(ridges), np.nan)
    if leave_one_out:
        tried = _leave_one_out(svd, triangle, rows, y, w, ridges, rows_per_block)
    best = _best(svd, ridges, tried, largest, 0.0 if is_given else TOLERANCE) if len(ridges) > 1 else 0
    solver = _Solver(triangle, svd, float(ridges[best]))
    coefficients = svd.solve(solver.ridge)
    return LinearFit(
        coefficients, triangle.intercept(coefficients), solver.ridge, float(tried[best]), svd.rank, ridges, tried,
        solver=solver,
    )  # fmt: skip


def _best(svd: "_Decomposition", ridges: np.ndarray, tried: np.ndarray, largest: float, tolerance: float) -> int:
    sizes = np.array([np.abs(svd.solve(ridge)).max(initial=0.0) for ridge in ridges]) if largest < math.inf else 0.0
    errors = np.where(sizes <= largest, tried, np.inf)
    errors = errors if np.isfinite(errors).any() else tried
    return int(np.nonzero(errors <= (1 + tolerance) * errors.min())[0][-1])


@dataclasses.dataclass(frozen=True)
class Triangle:
    """R of sqrt(w) [Phi, Y] = Q R with columns centred: ``factor`` belongs to Phi, ``rotated`` = Q' Y."""

    factor: np.ndarray  # (r, p)
    rotated: np.ndarray  # (r, s)
    feature_means: np.ndarray  # (p,), 0 without an intercept
    target_means: np.ndarray  # (s,)
    has_intercept: bool
    rounding: float  # what rounding leaves of features that do not vary

    def intercept(self, coefficients: np.ndarray) -> np.ndarray:
        return self.target_means - self.feature_means @ coefficients


def triangle_of(matrix: np.ndarray) -> np.ndarray:
    """R of matrix = Q R, with as many rows as there are columns at most."""
    return np.asarray(np.linalg.qr(matrix, mode="r"))


def reduce_blocks(blocks: Iterable[np.ndarray]) -> np.ndarray:
    """R of all blocks of rows on top of each other, with no more of them in memory than a few times R."""
    waiting: list[np.ndarray] = []
    is_reduced = False
    for block in blocks:
        waiting.append(block)
        is_reduced = sum(map(len, waiting)) >= 4 * block.shape[1]
        if is_reduced:
            waiting = [triangle_of(np.concatenate(waiting))]
    return waiting[0] if is_reduced else triangle_of(np.concatenate(waiting))


def solve_ridge(reduced: np.ndarray, num_outputs: int, ridge: float) -> np.ndarray:
    """C that minimises ||Phi C - Y||^2 + ridge ||C||^2 for a positive ridge, where ``reduced`` is R of [Phi, Y].

    The rows sqrt(ridge) 1 are rotated into R by a routine that knows both to be triangular: a small part of the time of
    a singular value decomposition, for thousands of features.
    """
    size, num_features = reduced.shape[1], reduced.shape[1] - num_outputs
    upper = np.zeros((size, size), order="F")
    upper[: len(reduced)] = reduced
    damping = np.diag(np.r_[np.full(num_features, math.sqrt(ridge)), np.zeros(num_outputs)])
    upper, *_ = dtpqrt(size, min(64, size), upper, np.asfortranarray(damping), True, True)
    return scipy.linalg.solve_triangular(upper[:num_features, :num_features], upper[:num_features, num_features:])


def solve_blocks(
    blocks: Iterable[np.ndarray], is_usable: Callable[[np.ndarray], bool], ridges: Sequence[float] = ROUNDING_RIDGES
) -> tuple[np.ndarray, float]:
    """c that minimises ||Phi c - y||^2 + ridge ||c||^2, for blocks of rows [Phi, y]; and ||Phi c - y||.

    The ridge is the first of ``ridges``, which are relative to the square of the largest singular value, with usable
    coefficients (large ones would cancel each other, and digits be lost); or the last.
    """
    reduced = reduce_blocks(blocks)
    factor, right = reduced[:, :-1], reduced[:, -1]
    largest = _largest_singular_value(factor) ** 2
    coefficients = np.zeros(len(right))
    for ridge in ridges:
        coefficients = solve_ridge(reduced, 1, ridge * largest)[:, 0]
        if is_usable(coefficients):
            break
    return coefficients, float(np.linalg.norm(factor @ coefficients - right))


def _largest_singular_value(matrix: np.ndarray) -> float:
    vector = np.ones(matrix.shape[1])
    for _ in range(8):
        vector = matrix.T @ (matrix @ (vector / np.linalg.norm(vector)))
    return float(np.sqrt(np.linalg.norm(vector)))


def reduce_rows(
    rows: Callable[[int, int], np.ndarray],
    targets: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    intercept: bool = True,
    rows_per_block: int = ROWS_PER_BLOCK,
) -> Triangle:
    """The triangle of all rows, block by block. ``rows(start, stop)`` are features, ``targets`` is (N, s)."""
    num_rows, num_outputs = targets.shape

    def blocks():
        start, step = 0, rows_per_block
        while start < num_rows:
            part = slice(start, min(start + step, num_rows))
            phi = rows(part.start, part.stop)
            block = np.hstack([np.ones((len(phi), int(intercept))), phi, targets[part]])
            start, step = part.stop, max(rows_per_block, 4 * block.shape[1])
            yield block if weights is None else block * np.sqrt(weights[part, None])

    total = reduce_blocks(blocks())
    means = total[0, 1:] / total[0, 0] if intercept else np.zeros(total.shape[1])
    centred = total[intercept:, intercept:]
    num_features = centred.shape[1] - num_outputs
    norm = np.sqrt(np.max(np.sum(total[:, intercept : intercept + num_features] ** 2, axis=0), initial=0.0))
    return Triangle(
        centred[:, :num_features], centred[:, num_features:], means[:num_features], means[num_features:],
        intercept, float(8 * np.finfo(float).eps * norm),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Decomposition:
    """R diag(scales) = U S V', cut off where singular values are rounding errors; ``right`` is diag(scales) V."""

    values: np.ndarray  # (r,), at least one
    right: np.ndarray  # (p, r)
    rotated: np.ndarray  # U' Q' Y, (r, s)

    @staticmethod
    def of(triangle: Triangle, scales: np.ndarray, num_rows: int) -> "_Decomposition":
        left, values, right = _svd(triangle.factor * scales)
        relative = np.finfo(float).eps * max(num_rows, len(scales))
        kept = values > max(relative * np.max(values, initial=0.0), triangle.rounding * np.max(scales, initial=0.0))
        rotated = left.T @ triangle.rotated
        if not kept.any():  # no feature varies: the intercept is all there is
            return _Decomposition(np.ones(1), np.zeros((len(scales), 1)), np.zeros((1, rotated.shape[1])))
        return _Decomposition(values[kept], scales[:, None] * right[kept].T, rotated[kept])

    @property
    def rank(self) -> int:
        return len(self.values) if self.right.any() else 0

    def solve(self, ridge: float) -> np.ndarray:
        return self.right @ (self.rotated * (self.values / (self.values**2 + ridge))[:, None])


@dataclasses.dataclass(frozen=True)
class _Solver:
    """What solves again for other targets: C = V (S^2 + ridge)^-1 V' Phi' W y, on centred features."""

    triangle: Triangle
    svd: _Decomposition
    ridge: float

    def correction(self, features, residual, weights) -> tuple[np.ndarray, np.ndarray]:
        w = np.ones(len(residual)) if weights is None else np.asarray(weights, np.float64)
        mean = (w @ residual) / w.sum() if self.triangle.has_intercept else np.zeros(residual.shape[1])
        centred = w[:, None] * (residual - mean)
        moments = self.svd.right.T @ (features.T @ centred - np.outer(self.triangle.feature_means, centred.sum(axis=0)))
        # What is left of the normal equations: Phi' W r - ridge C, which is 0 but for rounding.
        damping = (self.svd.values**2 + self.ridge)[:, None]
        moments -= self.ridge * self.svd.rotated * self.svd.values[:, None] / damping
        coefficients = self.svd.right @ (moments / damping)
        return coefficients, mean - self.triangle.feature_means @ coefficients


def _svd(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U, S, V'. Divide and conquer now and then does not converge on matrices of low rank; the slower QR sweeps do."""
    try:
        return scipy.linalg.svd(matrix, full_matrices=False, check_finite=False)
    except np.linalg.LinAlgError:
        return scipy.linalg.svd(matrix, full_matrices=False, check_finite=False, lapack_driver="gesvd")


def _leave_one_out(
    svd: _Decomposition, triangle: Triangle, rows, y, w, ridges: np.ndarray, rows_per_block: int
) -> np.ndarray:
    """Root mean square of (y_n - fit_n) / (1 - h_n) for each ridge; infinite where a row determines its own fit."""
    # U = sqrt(w) (Phi - means) V / S, and h_n = w_n / sum w + sum_j u_nj^2 s_j^2 / (s_j^2 + ridge).
    shrink = (svd.values**2)[:, None] / ((svd.values**2)[:, None] + ridges)  # (r, ridges)
    weights = np.ones(len(y)) if w is None else w
    base = weights / weights.sum() if triangle.has_intercept else np.zeros(len(y))
    squares = np.zeros(len(ridges))
    step = max(rows_per_block, 4 * svd.right.shape[0])
    for start in range(0, len(y), step):
        part = slice(start, min(start + step, len(y)))
        root = np.sqrt(weights[part, None])
        left = root * ((rows(part.start, part.stop) - triangle.feature_means) @ svd.right) / svd.values
        leverage = base[part, None] + left**2 @ shrink
        slack = np.maximum(1 - leverage, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            for output in range(y.shape[1]):
                centred = root * (y[part, output, None] - triangle.target_means[output])
                error = (centred - left @ (svd.rotated[:, output, None] * shrink)) / slack
                error = np.where(slack > 1e-10, error, np.where(root > 0, np.inf, 0))
                squares += np.sum(error**2, axis=0)
    return np.sqrt(squares / (weights.sum() * y.shape[1]))


def _ridges(ridge) -> np.ndarray | None:
    if isinstance(ridge, str):
        if ridge != "auto":
            raise ValueError(f"ridge must be a number, a sequence of numbers or 'auto'; got {ridge!r}")
        return None
    ridges = np.atleast_1d(np.asarray(ridge, np.float64))
    if ridges.ndim != 1 or not len(ridges) or not (np.isfinite(ridges) & (ridges >= 0)).all():
        raise ValueError(f"ridge must be finite and at least 0; got {ridge!r}")
    return ridges


def _scales(scales, num_features: int) -> np.ndarray:
    choices = np.ones((1, num_features)) if scales is None else np.atleast_2d(np.asarray(scales, np.float64))
    if choices.ndim != 2 or choices.shape[1] != num_features or not (np.isfinite(choices) & (choices > 0)).all():
        raise ValueError(f"scales must be positive numbers, one for each of {num_features} features; got {scales!r}")
    return choices


def _checked(features, targets, weights):
    y = np.asarray(targets, np.float64)
    y = y[:, None] if y.ndim == 1 else y
    if callable(features):
        rows = features
    else:
        phi = np.asarray(features, np.float64)
        if phi.ndim != 2 or len(phi) != len(y):
            raise ValueError(f"features must have shape ({len(y)}, p), as there are {len(y)} targets; got {phi.shape}")
        if not np.isfinite(phi).all():
            raise ValueError("features must be finite; got NaN or infinity")
        rows = lambda start, stop: phi[start:stop]  # noqa: E731
    if y.ndim != 2 or not y.size or not np.isfinite(y).all():
        raise ValueError(f"targets must be finite numbers of shape (N,) or (N, s), N at least 1; got shape {y.shape}")
    return rows, y, checked_weights(weights, len(y))


def checked_weights(weights, num_rows: int, name: str = "weights") -> np.ndarray | None:
    """One number for each row, none negative and not all 0; or None."""
    if weights is None:
        return None
    w = np.asarray(weights, np.float64)
    if w.shape != (num_rows,) or not (np.isfinite(w) & (w >= 0)).all() or not w.any():
        raise ValueError(f"{name} must be {num_rows} finite numbers, none negative and not all 0; got shape {w.shape}")
    return w
