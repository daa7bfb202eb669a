"""Eigenvalues of H and of the iteration matrix I - eta H, without ever forming either (Section 6).

Extreme eigenvalues come from ARPACK (implicitly restarted Lanczos) over Hessian-vector products, both ends in one
run; small problems are solved densely. Whatever did not converge is NaN, with a sentence that says so.
"""

import dataclasses
import warnings

import jax
import numpy as np
from scipy.sparse.linalg import LinearOperator

from .lanczos import Ends, Pairs, check_finite, find_ends
from .products import HessianOperator, Loss, Operator, as_operator, as_written, check_params, num_parameters

# Up to here a dense Hessian and eigh take less time than Lanczos, and see every copy of a repeated eigenvalue.
DENSE_SIZE = 256
DENSE_IF_REPEATED = 2048  # and up to here when eigenvalues turn out to be repeated


class NotConverged(UserWarning):
    """A number could not be computed to its tolerance; NaN stands in its place."""


@dataclasses.dataclass(frozen=True)
class ExtremeEigenvalues:
    """The smallest and the largest eigenvalues of H, each list from the outside in.

    Parameters
    ----------
    smallest, largest : (num,), NaN where the tolerance was not reached
    smallest_residuals, largest_residuals : ||H v - lambda v||; an eigenvalue of H lies within that distance
    converged : whether none is NaN
    sentence : what was found, or what to do
    num_products : how many products with H were made
    vectors : rows (none from a dense solution), which warm-start the next call along a trajectory
    """

    smallest: np.ndarray
    largest: np.ndarray
    smallest_residuals: np.ndarray
    largest_residuals: np.ndarray
    converged: bool
    sentence: str
    num_products: int
    vectors: np.ndarray = dataclasses.field(repr=False)

    @property
    def norm(self) -> float:
        """||H||, the largest eigenvalue in absolute value."""
        return float(np.maximum(abs(self.smallest[0]), abs(self.largest[0])))  # NaN if either was not found


@dataclasses.dataclass(frozen=True)
class IterationSpectrum:
    """Eigenvalues 1 - eta lambda of the iteration matrix A = I - eta H, each list from the outside in.

    Gradient descent contracts along an eigenvector whose eigenvalue is in (-1, 1), oscillates and grows below -1, and
    drifts away from a saddle or a ridge above 1.

    Parameters
    ----------
    learning_rate : eta
    hessian : the eigenvalues of H that they come from
    """

    learning_rate: float
    hessian: ExtremeEigenvalues

    @property
    def smallest(self) -> np.ndarray:
        """The smallest eigenvalues of A, which belong to the largest of H."""
        return 1 - self.learning_rate * self.hessian.largest

    @property
    def largest(self) -> np.ndarray:
        """The largest eigenvalues of A."""
        return 1 - self.learning_rate * self.hessian.smallest

    @property
    def edge(self) -> float:
        """The smallest eigenvalue: at -1 descent begins to oscillate."""
        return float(self.smallest[0])

    @property
    def norm(self) -> float:
        """||I - eta H||, of which tau is the supremum over a trajectory."""
        return float(np.maximum(abs(self.smallest[0]), abs(self.largest[0])))  # NaN if either was not found

    @property
    def is_oscillating(self) -> bool:
        """Whether the smallest eigenvalue is at or below -1, that is eta >= 2 / lambda_max."""
        return self.edge <= -1


def extreme_eigenvalues(
    loss: Loss | LinearOperator,
    params=None,
    num: int = 10,
    *,
    tolerance: float = 1e-5,
    start: np.ndarray | None = None,
    num_lanczos: int | None = None,
    max_restarts: int = 200,
) -> ExtremeEigenvalues:
    """The ``num`` smallest and ``num`` largest eigenvalues of H, with residuals at most ``tolerance`` ||H||.

    The error of an eigenvalue is at most its residual, and about its square over the gap to the next: the default
    gives nine digits or so.

    Parameters
    ----------
    loss : from parameters to a number, any JAX function; or an operator, such as a ``HessianOperator``
    params : the pytree of arrays at which H is taken; None for an operator
    num : how many at each end
    tolerance : largest residual, relative to ||H||
    start : ``vectors`` of an earlier call, near whose eigenvalues the search begins
    num_lanczos : vectors of length M that are kept; five for every two eigenvalues if None
    max_restarts : restarts of Lanczos; what was not found by then is NaN

    Returns
    -------
    ExtremeEigenvalues
        Both ends with residuals, and ``converged``.
    """
    _check(_size(loss, params), num, tolerance, max_restarts, num_lanczos)
    options = {"tolerance": tolerance, "num_lanczos": num_lanczos, "max_restarts": max_restarts}
    return _extreme(loss, params, num, start=start, **options)


def block_eigenvalues(loss: Loss, params, num: int = 10, *, depth: int = 1, **options) -> dict[str, ExtremeEigenvalues]:
    """The extreme eigenvalues of the diagonal blocks of H, one block for each subtree at ``depth`` of the parameters.

    By path in the parameters, counted from where they first fork: for a network or a module 1 gives its layers, 2 its
    weights and biases; for a list of grades 1 gives the grades. Blocks with fewer than ``num`` parameters give all they
    have.

    Parameters
    ----------
    loss : from parameters to a number, any JAX function; or an operator, such as a ``HessianOperator``
    params : the pytree of arrays at which H is taken; None for an operator
    num : how many at each end
    depth : of the subtrees
    **options : those of ``extreme_eigenvalues``

    Returns
    -------
    dict
        ``ExtremeEigenvalues`` by path.
    """
    if depth < 1:
        raise ValueError(f"depth must be at least 1; got {depth!r}")
    paths, structure = jax.tree_util.tree_flatten_with_path(params)
    fork = 0  # a module that holds nothing but a list of layers forks at the list
    while len({path[: fork + 1] for path, _ in paths}) == 1 and len(paths) > 1:
        fork += 1
    groups: dict[str, list[int]] = {}
    for index, (path, _) in enumerate(paths):
        groups.setdefault(jax.tree_util.keystr(path[: fork + depth]), []).append(index)

    def of_block(indices: list[int]) -> ExtremeEigenvalues:
        def block_loss(block):
            replaced = dict(zip(indices, block, strict=True))
            leaves = [replaced.get(index, leaf) for index, (_, leaf) in enumerate(paths)]
            return as_written(loss)(jax.tree.unflatten(structure, leaves))

        block = [paths[index][1] for index in indices]
        return extreme_eigenvalues(block_loss, block, min(num, num_parameters(block)), **options)

    return {name: of_block(indices) for name, indices in groups.items()}


def iteration_spectrum(
    loss: Loss | LinearOperator, params, learning_rate: float, num: int = 10, **options
) -> IterationSpectrum:
    """The extreme eigenvalues of I - eta H; ``options`` are those of ``extreme_eigenvalues``.

    Parameters
    ----------
    loss : from parameters to a number, any JAX function; or an operator, such as a ``HessianOperator``
    params : the pytree of arrays at which H is taken; None for an operator
    learning_rate : eta
    num : how many at each end
    **options : those of ``extreme_eigenvalues``

    Returns
    -------
    IterationSpectrum
        Both ends, of I - eta H.
    """
    if not learning_rate >= 0:
        raise ValueError(f"learning_rate must be at least 0; got {learning_rate!r}")
    return IterationSpectrum(float(learning_rate), extreme_eigenvalues(loss, params, num, **options))


def largest_eigenvalue(
    loss: Loss | LinearOperator, params=None, *, tolerance: float = 1e-5, start: np.ndarray | None = None
) -> ExtremeEigenvalues:
    """lambda_max of H alone, as ``ExtremeEigenvalues`` of which only ``largest`` counts.

    Parameters
    ----------
    loss : from parameters to a number, any JAX function; or an operator, such as a ``HessianOperator``
    params : the pytree of arrays at which H is taken; None for an operator
    tolerance : largest residual, relative to ||H||
    start : vectors of an earlier call

    Returns
    -------
    ExtremeEigenvalues
        With one eigenvalue in ``largest``.
    """
    _check(_size(loss, params), 1, tolerance, 1)
    return _extreme(
        loss, params, 1, only_high=True, tolerance=tolerance, start=start, num_lanczos=None, max_restarts=200
    )


def sharpness(loss: Loss | LinearOperator, params=None, *, tolerance: float = 1e-5) -> float:
    """lambda_max, the largest eigenvalue of H; NaN and a ``NotConverged`` warning if it was not found.

    Parameters
    ----------
    loss : from parameters to a number, any JAX function; or an operator, such as a ``HessianOperator``
    params : the pytree of arrays at which H is taken; None for an operator
    tolerance : largest residual, relative to ||H||

    Returns
    -------
    float
        lambda_max.
    """
    found = largest_eigenvalue(loss, params, tolerance=tolerance)
    if not found.converged:
        warnings.warn(found.sentence, NotConverged, stacklevel=2)
    return float(found.largest[0])


def stable_learning_rate(loss: Loss | LinearOperator, params=None, *, tolerance: float = 1e-6) -> float:
    """2 / lambda_max: above it gradient descent oscillates along the sharpest direction at ``params``.

    Infinite where no direction curves upwards; NaN, with a ``NotConverged`` warning, if lambda_max was not found.

    Parameters
    ----------
    loss : from parameters to a number, any JAX function; or an operator, such as a ``HessianOperator``
    params : the pytree of arrays at which H is taken; None for an operator
    tolerance : of lambda_max, relative to ||H||

    Returns
    -------
    float
        The rate.
    """
    largest = sharpness(loss, params, tolerance=tolerance)
    return float("inf") if largest <= 0 else 2 / largest


def _check(size: int, num, tolerance, max_restarts, num_lanczos=None):
    if not 1 <= num <= size:
        raise ValueError(f"num must be between 1 and the number of parameters ({size}); got {num!r}")
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance must be between 0 and 1; got {tolerance!r}")
    if max_restarts < 1:
        raise ValueError(f"max_restarts must be at least 1; got {max_restarts!r}")
    if num_lanczos is not None and num_lanczos <= 2 * num:
        raise ValueError(f"num_lanczos must be above 2 num = {2 * num}; got {num_lanczos!r}")


def _size(loss, params) -> int:
    if isinstance(loss, LinearOperator):
        return loss.shape[0]
    check_params(params)
    return num_parameters(params)


def _extreme(loss, params, num, **options) -> ExtremeEigenvalues:
    try:
        return _extreme_finite(as_operator(loss, params), num, **options)
    except FloatingPointError as error:
        none, vectors = np.full(num, np.nan), np.zeros((0, _size(loss, params)))
        return ExtremeEigenvalues(none, none, none, none, False, str(error), 0, vectors)


def _extreme_finite(operator: Operator, num, *, only_high=False, tolerance, start, num_lanczos, max_restarts):
    if isinstance(operator, HessianOperator) and not np.isfinite(operator.value):
        raise FloatingPointError(f"the loss is {operator.value} at params, and eigenvalues there are NaN")
    size, before, ends = operator.size, operator.num_products, None
    can_be_dense = size <= DENSE_IF_REPEATED
    if size > max(DENSE_SIZE, 8 * num):
        # ARPACK estimates residuals; they are measured below, and half of the tolerance leaves room for the difference.
        options = {"num_lanczos": num_lanczos, "maxiter": max_restarts, "tol": tolerance / 2}
        copies = 0 if can_be_dense else 4 * num
        ends = find_ends(operator, num, only_high=only_high, start=start, max_copies=copies, **options)
    else:
        can_be_dense = True
    if ends is None and can_be_dense:
        return _extreme_dense(operator, num)
    none = Pairs(np.zeros(0), np.zeros((0, size)))
    low, high, norm = ends or Ends(none, none)
    scale = np.max(np.abs(np.concatenate([low.values, high.values])), initial=norm)

    def finish(values, vectors):
        value, residual = np.full(num, np.nan), np.full(num, np.nan)
        for i, (x, v) in enumerate(zip(values, vectors, strict=True)):
            residual[i] = np.linalg.norm(operator(v) - x * v)
            value[i] = x if residual[i] <= tolerance * scale else np.nan
        return value, residual

    smallest, largest = finish(*low), finish(high.values[::-1], high.vectors[::-1])
    asked = largest[0] if only_high else np.concatenate([smallest[0], largest[0]])
    num_missing, num_products = int(np.count_nonzero(np.isnan(asked))), operator.num_products - before
    sentence = f"{len(asked)} eigenvalues converged after {num_products} products"
    if num_missing:
        others = "" if only_high else ", or raise num_lanczos or max_restarts of extreme_eigenvalues"
        sentence = (
            f"{num_missing} of {len(asked)} eigenvalues did not converge to {tolerance:g} ||H|| within {num_products} "
            f"products and are NaN; loosen tolerance{others}"
        )
    vectors = np.concatenate([low.vectors, high.vectors])
    return ExtremeEigenvalues(
        smallest[0], largest[0], smallest[1], largest[1], num_missing == 0, sentence, num_products, vectors
    )


def _extreme_dense(operator: Operator, num) -> ExtremeEigenvalues:
    matrix = operator.dense()
    check_finite(matrix)
    values = np.linalg.eigvalsh(matrix)
    sentence = f"all {len(values)} eigenvalues were computed from the dense matrix"
    # LAPACK is backward stable: its residuals are rounding, far below any tolerance worth asking for.
    zero, none = np.zeros(num), np.zeros((0, len(values)))
    return ExtremeEigenvalues(values[:num], values[::-1][:num], zero, zero, True, sentence, len(values), none)
