"""Lanczos on a symmetric operator given by its products: ARPACK for the ends of the spectrum, Gauss quadrature for all.

A Krylov space grown from one vector holds one copy of a repeated eigenvalue, and networks do repeat eigenvalues: hidden
units that are active on the same samples are interchangeable. So what ARPACK returns, converged to any tolerance, may
lack copies. ``find_ends`` looks for them in the complement of what was found, one by one, until a look of a few steps
(``NUM_CHECKS``) sees none; so short a look may miss a copy where eigenvalues lie dense at the end of a large spectrum.
"""

from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from threadpoolctl import threadpool_limits

START_NOISE = 0.01  # share of a warm start that is random, so that new eigenvectors can come in
NUM_CHECKS = 20  # Lanczos steps spent on looking for copies
TINY = 1e-9  # ARPACK takes eigenvalues below eps^(2/3) = 4e-11 for zero: H is divided by ||H|| where that is near it


class Operator(Protocol):
    size: int

    def __call__(self, v: np.ndarray) -> np.ndarray: ...


class Pairs(NamedTuple):
    """Eigenvalues and eigenvectors (rows), ascending."""

    values: np.ndarray
    vectors: np.ndarray


class Ends(NamedTuple):
    """The two ends of a spectrum, each ascending, as far as they were found."""

    low: Pairs
    high: Pairs
    norm: float = 0.0  # at most ||H||, where only one end was looked for


class _Shifted(LinearOperator):
    """H - shift I, with the eigenvalues of the vectors in ``found`` (orthonormal rows) moved to ``parked``.

    ARPACK measures residuals against each eigenvalue, so those near zero would never converge. Shifted by about half
    of ||H||, both ends of the spectrum are far from zero, and the tolerance is one of ||H||.
    """

    def __init__(self, operator: Operator, shift: float, found: np.ndarray | None = None, parked: float = 0.0):
        super().__init__(np.float64, (operator.size, operator.size))
        self.operator, self.shift, self.found, self.parked = operator, shift, found, parked

    def _matvec(self, x):
        x = x.reshape(-1)
        if self.found is None:
            return self.operator(x) - self.shift * x
        inside = self.found.T @ (self.found @ x)
        outside = x - inside
        image = self.operator(outside) - self.shift * outside
        return image - self.found.T @ (self.found @ image) + (self.parked - self.shift) * inside


class _Scaled(NamedTuple):
    """H / norm."""

    operator: Operator
    norm: float

    @property
    def size(self) -> int:
        return self.operator.size

    def __call__(self, v: np.ndarray) -> np.ndarray:
        return self.operator(v) / self.norm


# One thread for BLAS: its vectors are short, and its own threads would wait for the cores that XLA's keep busy.
@threadpool_limits.wrap(limits=1, user_api="blas")
def find_ends(
    operator: Operator, num: int, *, only_high: bool, start, num_lanczos, maxiter: int, tol: float, max_copies: int
) -> Ends | None:
    """The ``num`` smallest and largest eigenpairs, fewer where they did not converge; ``only_high``: the largest.

    None if more than ``max_copies`` copies of repeated eigenvalues would have to be looked for. FloatingPointError if
    the operator is not finite.
    """
    none, norm = Pairs(np.zeros(0), np.zeros((0, operator.size))), _norm(operator)
    if norm == 0:  # then H is 0, and any vectors are its eigenvectors
        low, high = (Pairs(np.zeros(num), vectors) for vectors in np.eye(2 * num, operator.size).reshape(2, num, -1))
        return Ends(none if only_high else low, high)
    if norm < TINY:
        options = {"start": start, "num_lanczos": num_lanczos, "maxiter": maxiter, "tol": tol, "max_copies": max_copies}
        return _times(find_ends(_Scaled(operator, norm), num, only_high=only_high, **options), norm)
    shift = norm / 2

    def lanczos(which, wanted, *, matrix=None, room=1, start=None) -> Pairs:
        matrix, v0 = matrix or _Shifted(operator, shift), start_vector(operator.size, start)
        kept = min(operator.size, room * (num_lanczos or max(5 * wanted // 2, 20)))
        try:
            values, vectors = eigsh(matrix, wanted, which=which, ncv=kept, v0=v0, maxiter=maxiter, tol=tol)
        except ArpackNoConvergence as failure:
            values, vectors = failure.eigenvalues, failure.eigenvectors
        order = np.argsort(values)
        return Pairs(values[order] + shift, vectors.T[order])

    if only_high:
        high = lanczos("LA", num, start=start)
        return Ends(none, high if len(high.values) else lanczos("LA", num, room=2), 2 * shift)
    both = lanczos("BE", 2 * num, start=start)
    ends = Ends(Pairs(*(a[:num] for a in both)), Pairs(*(a[num:] for a in both)))
    if len(both.values) < 2 * num:  # once more, each end by itself and with twice the room
        ends = Ends(lanczos("SA", num, room=2), lanczos("LA", num, room=2))
        if min(len(ends.low.values), len(ends.high.values)) < num:
            return ends
    for _ in range(max_copies + 1):
        found = np.concatenate([ends.low.vectors, ends.high.vectors])  # orthonormal: each round is orthogonal to it
        rest = _Shifted(operator, shift, found, parked=(ends.low.values[-1] + ends.high.values[0]) / 2)
        has_lower, has_higher = _has_more(rest, ends, tol)
        if not has_lower and not has_higher:
            return ends
        if has_lower:
            ends = ends._replace(low=_merge(ends.low, lanczos("SA", 1, matrix=rest), slice(None, num)))
        if has_higher:
            ends = ends._replace(high=_merge(ends.high, lanczos("LA", 1, matrix=rest), slice(-num, None)))
    return None


def _times(ends: Ends | None, norm: float) -> Ends | None:
    if ends is None:
        return None
    low, high = (pairs._replace(values=norm * pairs.values) for pairs in (ends.low, ends.high))
    return Ends(low, high, norm * ends.norm)


def _has_more(rest: _Shifted, ends: Ends, tol: float) -> tuple[bool, bool]:
    """Whether the rest has eigenvalues beyond the inner edge of either end; Ritz values never overshoot."""
    v = np.random.default_rng(2).standard_normal(rest.operator.size)
    ritz = gauss_quadrature(rest._matvec, v, min(NUM_CHECKS, len(v)))[0] + rest.shift
    slack = 2 * tol * max(abs(ends.low.values[0]), abs(ends.high.values[-1]))
    return bool(ritz[0] < ends.low.values[-1] - slack), bool(ritz[-1] > ends.high.values[0] + slack)


def _merge(end: Pairs, more: Pairs, kept: slice) -> Pairs:
    values, vectors = np.concatenate([end.values, more.values]), np.concatenate([end.vectors, more.vectors])
    order = np.argsort(values)[kept]
    return Pairs(values[order], vectors[order])


def _norm(operator: Operator) -> float:
    """About ||H||, and never more; 0 only if H is, or rounds to it."""
    v, norm = np.random.default_rng(0).standard_normal(operator.size), 0.0
    for _ in range(3):  # roughly is enough
        v = operator(v / np.linalg.norm(v))
        check_finite(v)
        norm = max(norm, float(np.linalg.norm(v)))
        if np.linalg.norm(v) == 0:
            break
    return norm


def check_finite(entries: np.ndarray) -> None:
    """FloatingPointError if H, or a product with it, is not finite: LAPACK and ARPACK would fail on it."""
    if not np.isfinite(entries).all():
        raise FloatingPointError(
            "the Hessian is not finite, and its eigenvalues are NaN; look at the loss and at params"
        )


def start_vector(size: int, vectors: np.ndarray | None) -> np.ndarray:
    noise = np.random.default_rng(1).standard_normal(size)
    if vectors is None or not len(vectors):
        return noise
    if vectors.shape[1] != size:
        raise ValueError(f"start must hold vectors of length {size}; got {vectors.shape[1]}")
    return np.sum(vectors, axis=0) / np.sqrt(len(vectors)) + START_NOISE * noise / np.linalg.norm(noise)


def gauss_quadrature(product, v: np.ndarray, num_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights with v' f(H) v / v'v = sum w_i f(t_i), exact for polynomials f of degree 2 ``num_steps`` - 1.

    Every vector is orthogonalised against all earlier ones.
    """
    basis = np.zeros((num_steps, len(v)))
    basis[0] = v / np.linalg.norm(v)
    diagonal, off_diagonal = [], []
    for step in range(num_steps):
        image = product(basis[step])
        diagonal.append(basis[step] @ image)
        for _ in range(2):  # twice is enough
            image = image - basis[: step + 1].T @ (basis[: step + 1] @ image)
        norm = np.linalg.norm(image)
        scale = np.max(np.abs(diagonal)) + np.max(off_diagonal, initial=0.0)
        if step + 1 == num_steps or norm <= 1e-12 * scale:  # v lies in an invariant subspace: the quadrature is exact
            break
        off_diagonal.append(norm)
        basis[step + 1] = image / norm
    values, vectors = eigh_tridiagonal(np.array(diagonal), np.array(off_diagonal))
    return values, vectors[0] ** 2
