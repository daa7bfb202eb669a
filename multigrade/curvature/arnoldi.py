"""Arnoldi on an operator that is not symmetric: the outermost or leftmost eigenvalues, with what they are worth.

Three hazards, and what is done about each:

- Units. Entries of an optimiser's state live on other scales than parameters (Adam's second moments are squares of
  gradients, 1e-12 or so). The Jacobian of a step then has entries of 1e8 beside others of 1e-8, and by its residual
  *every* number is within 1e-8 of an eigenvalue. So the operator is balanced first: D A D^-1, with a diagonal D of
  powers of 2 that makes rows and columns alike in size, found from products with random signs (Chen and Demmel,
  Balancing sparse matrices for computing eigenvalues, Linear Algebra Appl. 309, 2000). The eigenvalues are the same.
- Repeated eigenvalues. A Krylov space holds one copy. What was found is set aside, an invariant subspace Q, and the
  rest (I - QQ') A (I - QQ') is searched for more, as in ``lanczos``.
- Defective or nearly defective ones. An error e in the matrix moves an eigenvalue by ``condition`` * e (by a root of e
  where it is defective), so conditions are returned beside residuals. They are those within the subspace found.
"""

from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs
from threadpoolctl import threadpool_limits

from .lanczos import NUM_CHECKS, start_vector

NUM_BALANCINGS = 5  # Chen and Demmel's choice
ENDS = {"outermost": ("LM", np.abs), "leftmost": ("SR", lambda values: -np.real(values))}


class Transposable(Protocol):
    size: int

    def __call__(self, v: np.ndarray) -> np.ndarray: ...
    def transpose(self, v: np.ndarray) -> np.ndarray: ...


class Leading(NamedTuple):
    """Eigenvalues from the outside in, ||A x - value x|| for unit x, and condition numbers.

    ``basis`` has orthonormal columns that span the invariant subspace.
    """

    values: np.ndarray
    residuals: np.ndarray
    conditions: np.ndarray
    basis: np.ndarray


class Balanced:
    """D A D^-1, with rows and columns of about equal size; ``scale`` is the diagonal of D. D = I if A is symmetric."""

    def __init__(self, operator: Transposable):
        self.operator, self.size, self.scale = operator, operator.size, np.ones(operator.size)
        random = np.random.default_rng(5)
        for _ in range(NUM_BALANCINGS):
            signs = random.choice([-1.0, 1.0], self.size)
            rows, columns = np.abs(self(signs)), np.abs(operator.transpose(self.scale * signs) / self.scale)
            both = (rows > 0) & (columns > 0)
            self.scale[both] *= 2.0 ** np.round(np.log2(columns[both] / rows[both]) / 2)

    def __call__(self, v: np.ndarray) -> np.ndarray:
        return self.scale * self.operator(np.asarray(v).reshape(-1) / self.scale)


class Linear(LinearOperator):
    """A function of flat vectors, for ARPACK."""

    def __init__(self, product, size: int):
        super().__init__(np.float64, (size, size))
        self.product = product

    def _matvec(self, x):
        return self.product(x.reshape(-1))


class _Rest:
    """(I - QQ') A (I - QQ')."""

    def __init__(self, operator, basis: np.ndarray):
        self.operator, self.basis, self.size = operator, basis, operator.size

    def __call__(self, v: np.ndarray) -> np.ndarray:
        return self._outside(self.operator(self._outside(np.asarray(v).reshape(-1))))

    def _outside(self, v: np.ndarray) -> np.ndarray:
        return v - self.basis @ (self.basis.T @ v)


@threadpool_limits.wrap(limits=1, user_api="blas")
def find_leading(
    operator, num: int, *, end: str = "outermost", tolerance: float, start: np.ndarray | None, max_restarts: int
) -> Leading:
    """The ``num`` outermost (by modulus) or leftmost (by real part) eigenvalues, as far as they were found."""
    which, rank = ENDS[end]

    def arnoldi(matrix, wanted: int, start) -> np.ndarray:
        """A basis of the eigenvectors that ARPACK finds."""
        kept = min(matrix.size, max(2 * wanted + 1, 40))
        linear, v0 = Linear(matrix, matrix.size), start_vector(matrix.size, start)
        try:
            vectors = eigs(linear, wanted, which=which, ncv=kept, v0=v0, maxiter=max_restarts, tol=tolerance / 10)[1]
        except ArpackNoConvergence as failure:
            vectors = failure.eigenvectors
        return np.concatenate([np.real(vectors), np.imag(vectors)], axis=1)

    found = _rayleigh(operator, _orthonormal(arnoldi(operator, num, start)), rank)
    for _ in range(2 * num):
        if len(found.values) < num:  # not all converged: copies are not the question
            break
        edge = rank(found.values)[num - 1]
        rest = _Rest(operator, found.basis)
        if not rank(_ritz_values(rest)).max() > edge + 2 * tolerance * np.abs(found.values[0]):
            break
        more = _orthonormal(np.concatenate([found.basis, arnoldi(rest, 1, None)], axis=1))
        longer = _rayleigh(operator, more, rank)
        if rank(longer.values)[num - 1] <= edge + tolerance * np.abs(found.values[0]):
            break  # Ritz values of such operators may overshoot; there was nothing
        found = longer
    return found


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    """An orthonormal basis of what the columns span, the earlier ones first."""
    if not columns.shape[1]:
        return columns
    q, r, _ = cast(Any, scipy.linalg.qr(columns, mode="economic", pivoting=True))
    size = np.abs(np.diag(r))
    return q[:, size > 1e-10 * size[0]]


def _rayleigh(operator, basis: np.ndarray, rank) -> Leading:
    """Eigenvalues of Q'AQ, and how far each is from being one of A."""
    if not basis.shape[1]:
        return Leading(np.zeros(0, complex), np.zeros(0), np.zeros(0), basis)
    images = np.stack([operator(column) for column in basis.T], axis=1)
    values, conditions, right = _eigenvalues(basis.T @ images)
    residuals = np.linalg.norm(images @ right - basis @ (right * values), axis=0)
    order = in_order(values, rank)
    return Leading(values[order], residuals[order], conditions[order], basis)


def in_order(values: np.ndarray, rank) -> np.ndarray:
    """Outside in; of a complex pair the one above the real axis first."""
    return np.lexsort([-np.imag(values), np.round(-rank(values), 12)])


def _ritz_values(operator) -> np.ndarray:
    """Eigenvalues of a few steps of Arnoldi from a random vector."""
    v = np.random.default_rng(2).standard_normal(operator.size)
    num_steps = min(NUM_CHECKS, operator.size)
    basis, upper = np.zeros((num_steps + 1, operator.size)), np.zeros((num_steps + 1, num_steps))
    basis[0] = v / np.linalg.norm(v)
    for step in range(num_steps):
        image = operator(basis[step])
        for _ in range(2):  # twice is enough
            part = basis[: step + 1] @ image
            upper[: step + 1, step] += part
            image = image - basis[: step + 1].T @ part
        upper[step + 1, step] = np.linalg.norm(image)
        if upper[step + 1, step] <= 1e-12 * np.abs(upper).max():
            return np.linalg.eigvals(upper[: step + 1, : step + 1])
        basis[step + 1] = image / upper[step + 1, step]
    return np.linalg.eigvals(upper[:num_steps])


def _eigenvalues(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues, their condition numbers 1 / |y'x| for unit left and right eigenvectors y and x, and the x."""
    values, left, right = cast(Any, scipy.linalg.eig(matrix, left=True, right=True))
    overlap = np.abs(np.sum(np.conj(left) * right, axis=0))
    return values, 1 / np.maximum(overlap, np.finfo(float).tiny), right


def dense_leading(matrix: np.ndarray, rank) -> Leading:
    """All eigenvalues of a small matrix by LAPACK, which is backward stable: residuals are rounding."""
    values, conditions, _ = _eigenvalues(matrix)
    order = in_order(values, rank)
    return Leading(values[order], np.zeros(len(values)), conditions[order], np.zeros((len(matrix), 0)))
