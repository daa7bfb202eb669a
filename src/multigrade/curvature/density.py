"""The density of the spectrum of H by stochastic Lanczos quadrature.

For a random vector v with v_i = +-1, v' f(H) v / M estimates trace f(H) / M; m steps of Lanczos from v give the Gauss
quadrature of v' f(H) v, exact for polynomials of degree 2m - 1. Averaged over probes, the nodes and weights are the
spectral measure of H: its extremes, its bulk at zero, how much of it is negative.
"""

import dataclasses

import numpy as np

from .lanczos import check_finite, gauss_quadrature
from .products import HessianOperator, Loss


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

    def fraction_below(self, value: float) -> float:
        """Estimated fraction of the eigenvalues below ``value``; by more than rounding, so that those at 0 are not."""
        rounding = 1e-10 * np.max(np.abs(self.nodes))
        return self.mean(lambda nodes: nodes < value - rounding)

    def density(self, grid: np.ndarray, width: float) -> np.ndarray:
        """The measure smoothed by a Gaussian of standard deviation ``width``, at the points of ``grid``."""
        if not width > 0:
            raise ValueError(f"width must be positive; got {width!r}")
        distance = (np.asarray(grid, np.float64)[:, None] - self.nodes.reshape(-1)) / width
        kernel = np.exp(-(distance**2) / 2) / (width * np.sqrt(2 * np.pi))
        return kernel @ self.weights.reshape(-1)


def spectral_density(
    loss: Loss, params, *, num_probes: int = 10, num_steps: int = 60, seed: int = 0
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
    operator, random = HessianOperator(loss, params), np.random.default_rng(seed)
    check_finite(operator(np.ones(operator.size)))
    steps = min(num_steps, operator.size)
    nodes, weights = np.zeros((num_probes, steps)), np.zeros((num_probes, steps))
    for probe in range(num_probes):
        values, heights = gauss_quadrature(operator, random.choice([-1.0, 1.0], operator.size), steps)
        nodes[probe, : len(values)], weights[probe, : len(values)] = values, heights
    return SpectralDensity(nodes, weights / num_probes, operator.size)
