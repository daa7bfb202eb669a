"""The density of the spectrum of H by stochastic Lanczos quadrature.

For a random vector v with v_i = +-1, v' f(H) v / M estimates trace f(H) / M; m steps of Lanczos from v give the Gauss
quadrature of v' f(H) v, exact for polynomials of degree 2m - 1. Averaged over probes, the nodes and weights are the
spectral measure of H: its extremes, its bulk at zero, how much of it is negative.

    density = spectral_density(loss, params)
    density.fraction_below(0.0), density.fraction_interval(0.0)      # an estimate, and how far it can be off
"""

import dataclasses

import numpy as np
from scipy.sparse.linalg import LinearOperator
from scipy.special import stdtrit

from .lanczos import check_finite, gauss_quadrature
from .products import Loss, as_operator


@dataclasses.dataclass(frozen=True)
class SpectralDensity:
    """The spectral measure (1/M) sum_i delta(lambda_i).

    Parameters
    ----------
    nodes : (probes, steps)
    weights : of the nodes; they sum to 1
    num_parameters : M
    """

    nodes: np.ndarray
    weights: np.ndarray
    num_parameters: int

    def mean(self, function) -> float:
        """Estimate of (1/M) trace f(H), for f on arrays."""
        return float(np.sum(self.weights * function(self.nodes)))

    def mean_interval(self, function) -> tuple[float, float]:
        """95 % bounds of the same by the spread of the probes, for f that the quadrature resolves (polynomials)."""
        each = len(self.weights) * np.sum(self.weights * function(self.nodes), axis=1)
        return mean_interval(each, each)

    def fraction_below(self, value: float) -> float:
        """Estimated fraction of the eigenvalues below ``value``; by more than rounding, so that those at 0 are not."""
        return self.mean(lambda nodes: nodes < value - self._rounding)

    def fraction_interval(self, value: float) -> tuple[float, float]:
        """95 % bounds of the same: what the quadrature leaves open, and the spread of the probes.

        Between two nodes the measure of a probe may differ from its quadrature's by the weights of both (the theorem of
        Chebyshev, Markov and Stieltjes). Where much weight is close to ``value`` the bounds are wide; take more steps.
        """
        bounds = []
        for nodes, weights in zip(self.nodes, len(self.weights) * self.weights, strict=True):
            order = np.argsort(nodes[weights > 0])
            nodes, weights = nodes[weights > 0][order], weights[weights > 0][order]
            sums, below = np.append(0, np.cumsum(weights)), int(np.sum(nodes < value - self._rounding))
            is_exact = len(nodes) < self.nodes.shape[1] or len(nodes) == self.num_parameters
            around = (below, below) if is_exact else (max(below - 1, 0), min(below + 1, len(nodes)))
            bounds.append([sums[around[0]], sums[around[1]]])
        return mean_interval(*np.array(bounds).T)

    @property
    def _rounding(self) -> float:
        return 1e-10 * np.max(np.abs(self.nodes))

    def density(self, grid: np.ndarray, width: float) -> np.ndarray:
        """The measure smoothed by a Gaussian of standard deviation ``width``, at the points of ``grid``."""
        if not width > 0:
            raise ValueError(f"width must be positive; got {width!r}")
        distance = (np.asarray(grid, np.float64)[:, None] - self.nodes.reshape(-1)) / width
        kernel = np.exp(-(distance**2) / 2) / (width * np.sqrt(2 * np.pi))
        return kernel @ self.weights.reshape(-1)


def mean_interval(lows: np.ndarray, highs: np.ndarray) -> tuple[float, float]:
    """From the lower ends' mean to the upper ends', with 95 % bounds by Student's t on either side; all if one."""
    if len(lows) < 2:
        return -np.inf, np.inf
    wide = stdtrit(len(lows) - 1, 0.975) / np.sqrt(len(lows))
    return float(np.mean(lows) - wide * np.std(lows, ddof=1)), float(np.mean(highs) + wide * np.std(highs, ddof=1))


def spectral_density(
    loss: Loss | LinearOperator, params=None, *, num_probes: int = 10, num_steps: int = 60, seed: int = 0
) -> SpectralDensity:
    """The spectral measure of H from ``num_probes`` random vectors and ``num_steps`` products for each.

    Parameters
    ----------
    loss : from parameters to a number; any JAX function
    params : the pytree of arrays at which H is taken
    num_probes : random vectors
    num_steps : products for each of them
    seed : of the vectors

    Returns
    -------
    SpectralDensity
        Eigenvalues with their weights; its ``density`` smooths them.
    """
    for name, value in (("num_probes", num_probes), ("num_steps", num_steps)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1; got {value!r}")
    operator, random = as_operator(loss, params), np.random.default_rng(seed)
    check_finite(operator(np.ones(operator.size)))
    steps = min(num_steps, operator.size)
    nodes, weights = np.zeros((num_probes, steps)), np.zeros((num_probes, steps))
    for probe in range(num_probes):
        values, heights = gauss_quadrature(operator, random.choice([-1.0, 1.0], operator.size), steps)
        nodes[probe, : len(values)], weights[probe, : len(values)] = values, heights
    return SpectralDensity(nodes, weights / num_probes, operator.size)
