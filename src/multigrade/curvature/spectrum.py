"""Eigenvalues of H and of the iteration matrix I - eta H, without ever forming either (Section 6).

Extreme eigenvalues come from ARPACK (implicitly restarted Lanczos) over Hessian-vector products, both ends in one
run; small problems are solved densely. Whatever did not converge is NaN, with a sentence that says so.
"""

import dataclasses
import warnings
from collections.abc import Mapping

import jax
import numpy as np
from jax.tree_util import Partial

from .lanczos import Ends, Pairs, check_finite, find_ends
from .products import HessianOperator, Loss, as_pytree, dense_hessian, num_parameters

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
    smallest, largest : (num,)
    hessian : the eigenvalues of H that they come from
    """

    learning_rate: float
    smallest: np.ndarray
    largest: np.ndarray
    hessian: ExtremeEigenvalues

    @property
    def norm(self) -> float:
        """||I - eta H||, of which tau is the supremum over a trajectory."""
        return float(np.maximum(abs(self.smallest[0]), abs(self.largest[0])))  # NaN if either was not found

    @property
    def is_oscillating(self) -> bool:
        """Whether the smallest eigenvalue is at or below -1, that is eta >= 2 / lambda_max."""
        return bool(self.smallest[0] <= -1)


def extreme_eigenvalues(
    loss: Loss,
    params,
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
    loss : from parameters to a number; any JAX function
    params : the pytree of arrays at which H is taken
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
    _check(params, num, tolerance, max_restarts, num_lanczos)
    options = {"tolerance": tolerance, "num_lanczos": num_lanczos, "max_restarts": max_restarts}
    return _extreme(loss, params, num, start=start, **options)


def block_eigenvalues(loss: Loss, params, num: int = 10, *, depth: int = 1, **options) -> dict[str, ExtremeEigenvalues]:
    """The extreme eigenvalues of the diagonal blocks of H, one block for each subtree at ``depth`` of the parameters.

    By path in the parameters: for a network 1 gives its layers, 2 its weights and biases; for a list of grades 1 gives
    the grades. Blocks with fewer than ``num`` parameters give all they have.

    Parameters
    ----------
    loss : from parameters to a number; any JAX function
    params : the pytree of arrays at which H is taken
    num : how many at each end
    depth : of the subtrees
    **options : those of ``extreme_eigenvalues``

    Returns
    -------
    dict
        ``ExtremeEigenvalues`` by path.
    """
    blocks = block_losses(loss, params, depth)
    return {
        name: extreme_eigenvalues(block_loss, leaves, min(num, num_parameters(leaves)), **options)
        for name, (block_loss, leaves) in blocks.items()
    }


def iteration_spectrum(loss: Loss, params, learning_rate: float, num: int = 10, **options) -> IterationSpectrum:
    """The extreme eigenvalues of I - eta H; ``options`` are those of ``extreme_eigenvalues``.

    Parameters
    ----------
    loss : from parameters to a number; any JAX function
    params : the pytree of arrays at which H is taken
    learning_rate : eta
    num : how many at each end
    **options : those of ``extreme_eigenvalues``

    Returns
    -------
    IterationSpectrum
        Both ends, of I - eta H.
    """
    return iteration_spectrum_of(extreme_eigenvalues(loss, params, num, **options), learning_rate)


def iteration_spectrum_of(hessian: ExtremeEigenvalues, learning_rate: float) -> IterationSpectrum:
    """The same from eigenvalues of H that are already there: lambda -> 1 - eta lambda turns the order round."""
    if not learning_rate >= 0:
        raise ValueError(f"learning_rate must be at least 0; got {learning_rate!r}")
    smallest, largest = 1 - learning_rate * hessian.largest, 1 - learning_rate * hessian.smallest
    return IterationSpectrum(float(learning_rate), smallest, largest, hessian)


def largest_eigenvalue(
    loss: Loss, params, *, tolerance: float = 1e-5, start: np.ndarray | None = None
) -> ExtremeEigenvalues:
    """lambda_max of H alone, as ``ExtremeEigenvalues`` of which only ``largest`` counts.

    Parameters
    ----------
    loss : from parameters to a number; any JAX function
    params : the pytree of arrays at which H is taken
    tolerance : largest residual, relative to ||H||
    start : vectors of an earlier call

    Returns
    -------
    ExtremeEigenvalues
        With one eigenvalue in ``largest``.
    """
    _check(params, 1, tolerance, 1)
    return _extreme(
        loss, params, 1, only_high=True, tolerance=tolerance, start=start, num_lanczos=None, max_restarts=200
    )


def sharpness(loss: Loss, params, *, tolerance: float = 1e-5) -> float:
    """lambda_max, the largest eigenvalue of H; NaN and a ``NotConverged`` warning if it was not found.

    Parameters
    ----------
    loss : from parameters to a number; any JAX function
    params : the pytree of arrays at which H is taken
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


def stable_learning_rate(loss: Loss, params, *, tolerance: float = 1e-6) -> float:
    """2 / lambda_max: above it gradient descent oscillates along the sharpest direction at ``params``.

    Infinite where no direction curves upwards; NaN, with a ``NotConverged`` warning, if lambda_max was not found.

    Parameters
    ----------
    loss : from parameters to a number; any JAX function
    params : the pytree of arrays at which H is taken
    tolerance : of lambda_max, relative to ||H||

    Returns
    -------
    float
        The rate.
    """
    largest = sharpness(loss, params, tolerance=tolerance)
    return float("inf") if largest <= 0 else 2 / largest


def _check(params, num, tolerance, max_restarts, num_lanczos=None):
    size = num_parameters(params)
    if not 1 <= num <= size:
        raise ValueError(f"num must be between 1 and the number of parameters ({size}); got {num!r}")
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance must be between 0 and 1; got {tolerance!r}")
    if max_restarts < 1:
        raise ValueError(f"max_restarts must be at least 1; got {max_restarts!r}")
    if num_lanczos is not None and num_lanczos <= 2 * num:
        raise ValueError(f"num_lanczos must be above 2 num = {2 * num}; got {num_lanczos!r}")


def _extreme(loss, params, num, **options) -> ExtremeEigenvalues:
    try:
        return _extreme_finite(loss, params, num, **options)
    except FloatingPointError as error:
        none, vectors = np.full(num, np.nan), np.zeros((0, num_parameters(params)))
        return ExtremeEigenvalues(none, none, none, none, False, str(error), 0, vectors)


def _extreme_finite(loss, params, num, *, only_high=False, tolerance, start, num_lanczos, max_restarts):
    size = num_parameters(params)
    if size <= max(DENSE_SIZE, 8 * num):
        return _extreme_dense(loss, params, num)
    operator = HessianOperator(loss, params)
    # ARPACK estimates residuals; they are measured below, and half of the tolerance leaves room for the difference.
    options = {"num_lanczos": num_lanczos, "maxiter": max_restarts, "tol": tolerance / 2}
    is_small = size <= DENSE_IF_REPEATED
    ends = find_ends(operator, num, only_high=only_high, start=start, max_copies=0 if is_small else 4 * num, **options)
    if ends is None and is_small:
        return _extreme_dense(loss, params, num)
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
    num_missing = int(np.count_nonzero(np.isnan(asked)))
    sentence = _sentence(num_missing, len(asked), tolerance, operator.num_products, only_high)
    vectors = np.concatenate([low.vectors, high.vectors])
    return ExtremeEigenvalues(
        smallest[0], largest[0], smallest[1], largest[1], num_missing == 0, sentence, operator.num_products, vectors
    )


def _sentence(num_missing, num_asked, tolerance, num_products, has_tolerance_alone) -> str:
    if not num_missing:
        return f"{num_asked} eigenvalues converged after {num_products} Hessian-vector products"
    others = "" if has_tolerance_alone else ", or raise num_lanczos or max_restarts of extreme_eigenvalues"
    return (
        f"{num_missing} of {num_asked} eigenvalues did not converge to {tolerance:g} ||H|| within {num_products} "
        f"Hessian-vector products and are NaN; loosen tolerance{others}"
    )


def _extreme_dense(loss, params, num) -> ExtremeEigenvalues:
    hessian = dense_hessian(loss, params)
    check_finite(hessian)
    values = np.linalg.eigvalsh(hessian)
    sentence = f"all {len(values)} eigenvalues were computed from the dense Hessian"
    # LAPACK is backward stable: its residuals are rounding, far below any tolerance worth asking for.
    zero, none = np.zeros(num), np.zeros((0, len(values)))
    return ExtremeEigenvalues(values[:num], values[::-1][:num], zero, zero, True, sentence, len(values), none)


@dataclasses.dataclass(frozen=True)
class _BlockLoss:
    """The loss as a function of some leaves of the parameters; equal for equal indices, so that it compiles once."""

    indices: tuple[int, ...]

    def __call__(self, loss, params, block):
        leaves, structure = jax.tree.flatten(params)
        for index, leaf in zip(self.indices, block, strict=True):
            leaves[index] = leaf
        return loss(jax.tree.unflatten(structure, leaves))


def block_losses(loss: Loss, params, depth: int) -> Mapping[str, tuple[Loss, list]]:
    """For every subtree at ``depth`` of the parameters, by path: the loss as a function of its leaves, and those."""
    if depth < 1:
        raise ValueError(f"depth must be at least 1; got {depth!r}")
    paths = jax.tree_util.tree_flatten_with_path(params)[0]
    groups: dict[str, list[int]] = {}
    for index, (path, _) in enumerate(paths):
        groups.setdefault(jax.tree_util.keystr(path[:depth]), []).append(index)
    return {
        name: (Partial(_BlockLoss(tuple(indices)), as_pytree(loss), params), [paths[i][1] for i in indices])
        for name, indices in groups.items()
    }
