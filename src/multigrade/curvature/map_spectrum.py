"""Eigenvalues of the step that is really taken, for any optimiser.

    spectrum = map_spectrum(loss, params, optax.adam(1e-3), state)
    spectrum.values              # complex, by falling modulus; outside the unit circle: nearby runs separate
    spectrum.num_oscillating     # outside, and not on the positive real axis

J, the Jacobian of the step, is not normal: its eigenvalues say what happens in the long run, not what a few steps do.
"""

import dataclasses

import numpy as np

from .arnoldi import ENDS, Leading, dense_leading, find_leading, in_order
from .lanczos import find_ends
from .maps import IterationMap, optimiser_map
from .products import Loss
from .spectrum import DENSE_SIZE

ROUNDING = 1e-6  # how far outside the unit circle counts as outside
MAX_PRODUCTS = 3000  # of Arnoldi with J
DEFECTIVE = 1e5  # an eigenvalue with such a condition number is known to half of the digits or so


@dataclasses.dataclass(frozen=True)
class MapSpectrum:
    """Leading eigenvalues of J, from the outside in.

    Parameters
    ----------
    values : complex, by falling modulus (or by rising real part, if asked for); NaN where not converged
    residuals : ||J x - value x|| for unit vectors x, after balancing
    conditions : an error e in J moves the eigenvalue by about condition * e; huge for a defective one
    converged : whether residual * condition is within the tolerance for all of them
    sentence : what was found and what was not, in words
    num_products : how many products with J were made
    size, num_held : entries of z, and how many of them are held as they have no derivative
    """

    values: np.ndarray
    residuals: np.ndarray
    conditions: np.ndarray
    converged: bool
    sentence: str
    num_products: int
    size: int
    num_held: int

    @property
    def radius(self) -> float:
        """The largest modulus that was found: above 1, nearby runs separate."""
        return float(np.max(np.abs(self.values)))  # NaN if one was not found

    @property
    def is_oscillating(self) -> np.ndarray:
        """For each eigenvalue, whether it is outside and turns: complex, or negative as below -1 in plain descent."""
        return is_oscillating(self.values)

    @property
    def num_oscillating(self) -> int:
        """How many are oscillating."""
        return int(np.count_nonzero(self.is_oscillating))


def is_oscillating(values: np.ndarray) -> np.ndarray:
    """Whether eigenvalues of a step are outside the unit circle, by more than rounding, and off the positive axis."""
    turns = (np.real(values) < 0) | (np.abs(np.imag(values)) > ROUNDING)
    return (np.abs(values) > 1 + ROUNDING) & turns


def map_spectrum(
    loss: Loss,
    params,
    optimiser,
    state=None,
    num: int = 10,
    *,
    learning_rate: float | None = None,
    end: str = "outermost",
    tolerance: float = 1e-6,
    max_products: int = MAX_PRODUCTS,
) -> MapSpectrum:
    """The ``num`` leading eigenvalues of the Jacobian of one step of ``optimiser`` at (params, state).

    Parameters
    ----------
    loss : from parameters to a number; any JAX function
    params : the pytree of arrays at which the step is taken
    optimiser : a name ("gd", "momentum", "adam", "muon") or any optax transformation
    state : the optimiser's state at this point; that of its start if None
    num : how many eigenvalues
    learning_rate : multiplies the updates; that of the name, or 1 for an optax transformation, if None
    end : "outermost" (largest modulus) or "leftmost" (smallest real part)
    tolerance : for errors, estimated as residual * condition, relative to the largest modulus
    max_products : products with J; what has not converged by then is NaN

    Returns
    -------
    MapSpectrum
        Complex values by falling modulus, residuals, ``converged`` and a sentence.

    Examples
    --------
    >>> import jax.numpy as jnp, optax
    >>> found = map_spectrum(lambda w: w @ w, jnp.ones(2), optax.sgd(0.1, momentum=0.5), num=4)
    >>> abs(found.values).round(6).tolist()  # the roots of z^2 - 1.3 z + 0.5, twice
    [0.707107, 0.707107, 0.707107, 0.707107]
    """
    try:
        operator = optimiser_map(loss, params, optimiser, state, learning_rate=learning_rate)
    except FloatingPointError as error:
        none = np.full(num, np.nan)
        return MapSpectrum(none + 0j, none, none, False, str(error), 0, 0, 0)
    return spectrum_of_map(operator, num, end=end, tolerance=tolerance, max_products=max_products)


def spectrum_of_map(
    operator: IterationMap, num: int = 10, *, end="outermost", tolerance=1e-6, max_products=MAX_PRODUCTS
) -> MapSpectrum:
    """The ``num`` leading eigenvalues of a map that ``optimiser_map`` or ``auxiliary_map`` has made.

    The map keeps its Krylov space, so that asking for its other end takes few products more.

    Parameters
    ----------
    operator : the map
    num : how many eigenvalues
    end : "outermost" or "leftmost"
    tolerance : for errors, relative to the largest modulus
    max_products : products with J; what has not converged by then is NaN

    Returns
    -------
    MapSpectrum
        As of ``map_spectrum``.
    """
    if not 1 <= num <= operator.size:
        raise ValueError(f"num must be between 1 and the size of the map ({operator.size}); got {num!r}")
    if end not in ENDS:
        raise ValueError(f"end must be one of {', '.join(ENDS)}; got {end!r}")
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance must be between 0 and 1; got {tolerance!r}")
    before = operator.num_products
    options = {"end": end, "tolerance": tolerance, "max_products": max_products}
    if operator.size <= max(DENSE_SIZE, 4 * num):
        found = dense_leading(operator.dense(), ENDS[end])
    elif operator.is_symmetric:
        found = _symmetric(operator, num, **options)
    else:
        found = find_leading(operator.krylov, num, **options)
    return _judged(operator, found, num, tolerance, operator.num_products - before)


def _symmetric(operator: IterationMap, num: int, *, end, tolerance, max_products) -> Leading:
    """Both ends by Lanczos, as for I - eta H, and of these the outermost."""
    maxiter = max(max_products // 30, 1)  # a restart of ARPACK takes about so many products
    options = {"num_lanczos": None, "maxiter": maxiter, "tol": tolerance / 2, "max_copies": 4 * num}
    ends = find_ends(operator, num, only_high=False, start=None, **options)
    if ends is None:
        return Leading(np.zeros(0, complex), np.zeros(0), np.zeros(0))
    values = np.concatenate([ends.low.values, ends.high.values])
    vectors = np.concatenate([ends.low.vectors, ends.high.vectors])
    order = in_order(values + 0j, ENDS[end])[:num]
    residuals = [np.linalg.norm(operator(v) - x * v) for x, v in zip(values[order], vectors[order], strict=True)]
    return Leading(values[order] + 0j, np.array(residuals), np.ones(len(order)))


def _judged(operator: IterationMap, found: Leading, num: int, tolerance: float, num_products: int) -> MapSpectrum:
    """NaN for whatever did not converge, and a sentence."""

    def padded(array, filler):
        return np.concatenate([array[:num], np.full(max(num - len(array), 0), filler)])

    values, residuals = padded(found.values, complex(np.nan, np.nan)), padded(found.residuals, np.nan)
    conditions = padded(found.conditions, np.nan)
    is_good = padded(found.is_converged(tolerance), False).astype(bool)
    missing, held = int(np.count_nonzero(~is_good)), operator.num_held
    unsure = int(np.count_nonzero(is_good & (conditions > DEFECTIVE)))
    parts = [
        f"{num - missing} of {num} eigenvalues of a map on {operator.size} entries converged in {num_products} products"
    ]
    if missing:
        parts.append(
            f"{missing} did not, to {tolerance:g} of the largest, and are NaN: raise max_products or tolerance"
        )
    if unsure:
        parts.append(f"{unsure} are defective or nearly so, and known to half of the digits or so")
    if held:
        parts.append(f"{held} entries are held, as the step has no derivative there (neurons that sleep)")
    return MapSpectrum(
        np.where(is_good, values, complex(np.nan, np.nan)), residuals, conditions, missing == 0, "; ".join(parts),
        num_products, operator.size, held,
    )  # fmt: skip
