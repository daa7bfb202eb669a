"""How strong the prior should be, from the observation alone: no ground truth, one rule for all images.

Denoising: the lambda whose minimiser has the smallest estimated risk. For f = x + noise of variance s^2 and an estimate
z(f) of x, Stein's unbiased estimate of the mean square error is

    SURE = mean (z - f)^2 + 2 s^2 mean_p dz_p/df_p - s^2,

its divergence found from one random probe (Ramani, Blu and Unser 2008).

Blurred or incomplete observations: the prior variance of the differences that makes the observation most likely, when
both differences and noise are taken as Gaussian and the operator as diagonal in the DCT basis; lambda/beta is then the
size of difference from which on an edge is an edge.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..operators import Identity, Operator
from ..problem import Options
from .variational import DIFFERENCES, dct, solve

EDGE = 0.012  # lambda / beta in denoising: the recorded winner's 0.01, and best on our free pictures, too
CANDIDATES = (0.3, 0.4, 0.55, 0.75, 1.0, 1.4)  # of lambda, in units of the noise
LEAST_NOISE = 0.5 / 255  # what rounding to eight bits leaves is more than nothing
BLUR_EDGE, BLUR_FACTOR = 0.04, 2.0  # best on our free pictures (camera, coffee, chelsea, astronaut; blur 3 and 5)
OTHER_RULE, OTHER_LEAST = 0.04, 1e-4  # of lambda without a better rule, per unit of noise; our choice
LARGEST_JUDGED = 1024  # pixels on a side
PROBE = 0.1  # size of the probe, in units of the noise


class Strengths(NamedTuple):
    weight: float  # lambda
    beta: float

    def unless_given(self, options: Options) -> "Strengths":
        """The caller's, where there are any."""
        weight = self.weight if options.weight is None else options.weight
        return Strengths(weight, self.beta if options.beta is None else options.beta)


def choose_strengths(observed: np.ndarray, operator: Operator, noise: float) -> Strengths:
    """lambda and beta for an observation with this noise, on the unit scale.

    Where the operator is diagonal in the DCT basis, by its eigenvalues: all 1 means denoising.
    """
    noise = max(noise, LEAST_NOISE)
    spectrum = operator.eigenvalues((observed.shape[-2], observed.shape[-1]))
    if spectrum is None:
        weight = max(OTHER_RULE * noise, OTHER_LEAST)
        return Strengths(weight, weight / EDGE)
    if (spectrum == 1).all():
        return for_denoising(observed, noise)
    beta = BLUR_FACTOR * noise**2 / prior_variance(observed, spectrum, noise)
    return Strengths(BLUR_EDGE * beta, beta)


def for_denoising(observed: np.ndarray, noise: float, *, iterations: int = 25) -> Strengths:
    """lambda of least estimated risk among multiples of the noise (unit scale), beta = lambda / EDGE.

    Of a large image the middle is judged: a million pixels say enough.
    """
    top, left = (max(n - LARGEST_JUDGED, 0) // 2 for n in observed.shape[-2:])
    observed = observed[..., top : top + LARGEST_JUDGED, left : left + LARGEST_JUDGED]
    probe = np.random.default_rng(0).choice(np.float32([-1, 1]), observed.shape)

    def denoised(image, factor):
        weight = factor * noise
        return solve(image, Identity(), weight, weight / EDGE, iterations=iterations)

    risks = [_sure(observed, lambda image, k=k: denoised(image, k), noise, probe) for k in CANDIDATES]
    weight = noise * _lowest(CANDIDATES, risks)
    return Strengths(weight, weight / EDGE)


def _sure(observed: np.ndarray, estimate: Callable, noise: float, probe: np.ndarray) -> float:
    step = np.float32(PROBE * noise)
    image = estimate(observed)
    divergence = np.mean(probe * (estimate(observed + step * probe) - image)) / step
    return float(np.mean((image - observed) ** 2) + 2 * noise**2 * divergence - noise**2)


def _lowest(places: Sequence[float], values: Sequence[float]) -> float:
    """Where a parabola through the lowest value and its neighbours, on the log scale, has its minimum."""
    best = int(np.clip(np.argmin(values), 1, len(places) - 2))
    x, y = np.log(places[best - 1 : best + 2]), values[best - 1 : best + 2]
    a, b, _ = np.polyfit(x - x[1], y, 2)
    shift = -b / (2 * a) if a > 0 else x[int(np.argmin(y))] - x[1]
    return float(np.exp(x[1] + np.clip(shift, x[0] - x[1], x[2] - x[1])))


def prior_variance(observed: np.ndarray, spectrum: np.ndarray, noise: float) -> float:
    """v that makes f most likely if its DCT coefficients have variance E^2 v / L + s^2.

    E are the eigenvalues of the operator (``spectrum``), L those of B'B.
    """
    coefficients = dct(np.asarray(observed, np.float64)) ** 2
    powers = spectrum**2 / np.maximum(DIFFERENCES.normal_eigenvalues(observed.shape[-2:]), 1e-12)
    powers.flat[0] = 0  # the mean of the image is free

    def misfit(v):
        variance = v * powers + noise**2
        return float(np.sum(coefficients / variance + np.log(variance)))

    grid = np.geomspace(1e-7, 1, 29)
    return _lowest(grid, [misfit(v) for v in grid])
