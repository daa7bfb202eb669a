"""Arnoldi on an operator that is not symmetric: the outermost or leftmost eigenvalues, with what they are worth.

Four hazards, and what is done about each:

- Units. Entries of an optimiser's state live on other scales than parameters (Adam's second moments are squares of
  gradients, 1e-12 or so). The Jacobian of a step then has entries of 1e8 beside others of 1e-8, and by its residual
  *every* number is within 1e-8 of an eigenvalue. So the operator is balanced first: D A D^-1, with a diagonal D of
  powers of 2 that makes rows and columns alike in size, found from products with random signs (Chen and Demmel,
  Balancing sparse matrices for computing eigenvalues, Linear Algebra Appl. 309, 2000). The eigenvalues are the same.
- Crowds. Late in a run dozens of eigenvalues lie within 1e-3 of each other, just outside 1. A Krylov space of 40
  vectors, restarted, never tells them apart; one of 300 does, so the space grows as long as there is memory for it.
  Then it is restarted by Krylov-Schur (Stewart, A Krylov-Schur algorithm for large eigenproblems, SIAM J. Matrix Anal.
  Appl. 23, 2002).
- Conditioning. An error e in the matrix moves an eigenvalue by ``condition`` * e, by a root of e where it is defective.
  A small residual alone proves nothing: in such a crowd residuals of 1e-6 belong to numbers that are wrong by 5e-4.
  What counts as converged is therefore residual * condition, the condition within the Krylov space.
- Repeated eigenvalues. A Krylov space holds one copy. The invariant subspace that was found is therefore grown from a
  new vector and searched for more. The search is short (``NUM_CHECKS``, then ``MAX_CHECKS`` steps):
  copies of a number that stands apart are found, those inside a crowd may be missed.
"""

from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from .lanczos import NUM_CHECKS, Operator

NUM_BALANCINGS = 5  # Chen and Demmel's choice
FIRST_ROOM, GROWTH = 32, 1.2  # vectors at the first look for convergence, and how many times more at each one after it
MAX_ROOM, MAX_ENTRIES = 600, 2**26  # vectors of a Krylov space, and numbers in it (512 MB), before a restart
MAX_CHECKS = 100  # steps that are spent on telling a copy from a Ritz value that overshoots
EPSILON = float(np.finfo(np.float64).eps)
ENDS = {"outermost": np.abs, "leftmost": lambda values: -np.real(values)}


class Transposable(Operator, Protocol):
    is_held: np.ndarray

    def transpose(self, v: np.ndarray) -> np.ndarray: ...


class Leading(NamedTuple):
    """Eigenvalues from the outside in, ||A x - value x|| for unit x, and condition numbers."""

    values: np.ndarray
    residuals: np.ndarray
    conditions: np.ndarray

    def is_converged(self, tolerance: float) -> np.ndarray:
        """Whether each is known to ``tolerance`` of the largest; of a defective one the residual alone is asked for."""
        scale = np.max(np.abs(self.values), initial=0)
        errors = self.residuals * self.conditions
        return (errors <= tolerance * scale) | (self.residuals <= 100 * EPSILON * scale)

    def part(self, chosen: np.ndarray) -> "Leading":
        return Leading(*(array[chosen] for array in self))


class Balanced:
    """D A D^-1 on the entries that are not held, with rows and columns of about equal size; ``scale`` is D's diagonal.

    D = I if A is symmetric.
    """

    def __init__(self, operator: Transposable):
        self.operator, self.free = operator, np.flatnonzero(~operator.is_held)
        self.size, self.scale = len(self.free), np.ones(len(self.free))
        random = np.random.default_rng(5)
        for _ in range(NUM_BALANCINGS):
            signs = random.choice([-1.0, 1.0], self.size)
            rows = np.abs(self(signs))
            columns = np.abs(self._on_free(operator.transpose, self.scale * signs) / self.scale)
            both = (rows > 0) & (columns > 0)
            self.scale[both] *= 2.0 ** np.round(np.log2(columns[both] / rows[both]) / 2)

    def __call__(self, v: np.ndarray) -> np.ndarray:
        return self.scale * self._on_free(self.operator, np.asarray(v).reshape(-1) / self.scale)

    def _on_free(self, product, v: np.ndarray) -> np.ndarray:
        whole = np.zeros(len(self.operator.is_held))
        whole[self.free] = v
        return product(whole)[self.free]


class Krylov:
    """A V = V H + v h': V the first ``num`` rows of ``basis``, v the next; H those of ``upper``, h' the next.

    It grows vector by vector and serves both ends of a spectrum.
    """

    def __init__(self, operator: Operator, basis=None, upper=None, residual=None):
        """A new space; or one around an invariant subspace, A Q = Q ``upper`` but for a ``residual`` row, and grown
        from a new vector."""
        self.operator, self._random = operator, np.random.default_rng(1)
        self.num = 0 if basis is None else len(basis)
        self.room = min(operator.size, MAX_ROOM, max(FIRST_ROOM, MAX_ENTRIES // operator.size))
        self.basis, self.upper = np.empty((self.room + 1, operator.size)), np.zeros((self.room + 1, self.room))
        self.residual = np.zeros(0) if residual is None else residual
        if basis is not None:
            self.basis[: self.num], self.upper[: self.num, : self.num] = basis, upper
        self.basis[self.num] = self._new(self.num)

    def _new(self, num: int) -> np.ndarray:
        """A random unit vector that is orthogonal to the first ``num``; 0 where these are all."""
        v = self._random.standard_normal(self.operator.size)
        if num == self.operator.size:
            return 0 * v
        for _ in range(2):
            v -= (self.basis[:num] @ v) @ self.basis[:num]
        return v / np.linalg.norm(v)

    def grow(self, num: int) -> int:
        """Arnoldi's steps until there are ``num`` vectors; returns how many these were."""
        start = self.num
        for step in range(self.num, num):
            image, known = self.operator(self.basis[step]), self.basis[: step + 1]
            for _ in range(2):  # twice is enough, and once is not: most of a step is I, which cancels
                part = known @ image
                self.upper[: step + 1, step] += part
                image -= part @ known
            length = np.linalg.norm(image)
            is_over = length <= 10 * EPSILON * np.linalg.norm(self.upper[: step + 1, step])  # V is invariant
            self.upper[step + 1, step] = 0 if is_over else length
            self.basis[step + 1] = self._new(step + 1) if is_over else image / length
        self.num = max(start, num)
        return self.num - start

    def restart(self, rank, num: int) -> None:
        """Keep the Schur vectors of the first ``num`` Ritz values by rank."""
        kept, basis, upper, last = self._schur(rank, num)
        self.basis[:kept], self.basis[kept], self.upper[:] = basis, self.basis[self.num], 0
        self.upper[:kept, :kept], self.upper[kept, :kept], self.num = upper, last, kept

    def fresh(self, rank, num: int) -> "Krylov":
        """The invariant subspace of the first ``num`` Ritz values, to be grown from a vector orthogonal to it."""
        _, basis, upper, last = self._schur(rank, num)
        return Krylov(self.operator, basis, upper, last)

    def _schur(self, rank, num: int):
        """How many vectors that takes (one more where a pair would be split), they, and their rows of H and h."""
        inner, last = self.upper[: self.num, : self.num], self.upper[self.num, : self.num]
        edge = np.sort(rank(np.linalg.eigvals(inner)))[-num]
        edge -= 1e-9 * abs(edge)
        options = {"output": "real", "sort": lambda re, im: rank(complex(re, im)) >= edge}
        schur, turn, kept = cast(Any, scipy.linalg.schur(inner, **options))
        return kept, turn[:, :kept].T @ self.basis[: self.num], schur[:kept, :kept], last @ turn[:, :kept]

    def ritz(self, rank) -> Leading:
        """All Ritz values by rank."""
        values, vectors, conditions = _eigenvalues(self.upper[: self.num, : self.num])
        floor = EPSILON * np.max(np.abs(values), initial=0)
        last, earlier = self.upper[self.num, : self.num] @ vectors, self.residual @ vectors[: len(self.residual)]
        residuals = np.maximum(np.hypot(np.abs(last), np.abs(earlier)), floor)
        return Leading(values, residuals, conditions).part(in_order(values, rank))


@threadpool_limits.wrap(limits=1, user_api="blas")
def find_leading(krylov: Krylov, num: int, *, end="outermost", tolerance: float, max_products: int) -> Leading:
    """The ``num`` outermost (by modulus) or leftmost (by real part) eigenvalues, converged or not."""
    rank, wanted = ENDS[end], min(num, krylov.operator.size)
    num_products = krylov.grow(min(max(FIRST_ROOM, 2 * wanted), krylov.room))
    while True:
        found = krylov.ritz(rank)
        if found.is_converged(tolerance)[:wanted].all():
            if wanted == 1:  # a copy would change nothing
                return found.part(np.arange(1))
            return _with_copies(krylov, found.part(np.arange(wanted)), rank, tolerance)
        if num_products >= max_products or krylov.num == krylov.operator.size:
            return found.part(np.arange(wanted))
        if krylov.num == krylov.room:
            krylov.restart(rank, (krylov.room + wanted) // 2)
        left = max_products - num_products
        num_products += krylov.grow(min(int(GROWTH * krylov.num) + 1, krylov.room, krylov.num + left))


def _with_copies(krylov: Krylov, found: Leading, rank, tolerance: float) -> Leading:
    """The same number of eigenvalues, with copies in the place of what lies further inside."""
    wanted = np.arange(len(found.values))
    while krylov.num < krylov.operator.size:
        krylov = krylov.fresh(rank, len(wanted))
        edge, start = rank(found.values)[-1] + 2 * tolerance * np.abs(found.values[0]), krylov.num
        num_beyond = np.count_nonzero(rank(found.values) > edge)
        for num_steps in (NUM_CHECKS, MAX_CHECKS):
            krylov.grow(min(start + num_steps, krylov.room))
            more = krylov.ritz(rank)
            if np.count_nonzero(rank(more.values) > edge) <= num_beyond:
                return found
        more = more.part(more.is_converged(tolerance))  # the others overshoot
        if np.count_nonzero(rank(more.values) > edge) <= num_beyond:
            return found
        found = more.part(wanted)
    return found


def in_order(values: np.ndarray, rank) -> np.ndarray:
    """Outside in; of a complex pair the one above the real axis first."""
    return np.lexsort([-np.imag(values), np.round(-rank(values), 12)])


def _eigenvalues(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues, unit eigenvectors (columns) and the condition numbers 1 / |y'x|, y and x unit, left and right."""
    values, right = np.linalg.eig(matrix)
    try:
        with np.errstate(over="ignore"):  # infinite for one that is defective
            return values, right, np.linalg.norm(np.linalg.inv(right), axis=1)
    except np.linalg.LinAlgError:  # to the last bit
        return values, right, np.full(len(values), np.inf)


def dense_leading(matrix: np.ndarray, rank) -> Leading:
    """All eigenvalues of a small matrix by LAPACK, which is backward stable: residuals are rounding."""
    values, _, conditions = _eigenvalues(matrix)
    order = in_order(values, rank)
    return Leading(values[order], np.zeros(len(values)), conditions[order])
