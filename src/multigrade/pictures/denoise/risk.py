"""Minimisers of the variational objective of one noisy image, how they move with it, and their best mixture.

How the minimiser z moves at a pixel with that pixel's noisy value is found from one random probe b of signs,

    dz_p/df_p ~ b_p (z(f + t b) - z(f))_p / t,

right on average. The mixture is the one of least estimated risk (Stein's estimate, see ``estimated_risk``).
"""

from typing import NamedTuple

import numpy as np

from ..inverse.strengths import EDGE, PROBE, for_denoising
from ..inverse.variational import solve
from ..operators import Identity
from ..simplex import simplex_quadratic

# Order of differences, lambda over the chosen one, lambda / beta, radius of what is seen around the pixel; our choice.
MINIMISERS = (
    (1, 0.55, EDGE, 1), (1, 1.0, EDGE, 2), (1, 1.8, EDGE, 1),
    (2, 0.25, EDGE / 4, 1), (2, 0.5, EDGE / 4, 2), (2, 1.0, EDGE / 4, 1),
)  # fmt: skip
ITERATIONS = 40  # of ADMM; our choice


class Minimiser(NamedTuple):
    """One of them, (channels, h, w), with its difference quotient along the probe, and the radius it is seen at."""

    image: np.ndarray
    slope: np.ndarray
    radius: int


def random_signs(shape: tuple[int, ...]) -> np.ndarray:
    """The probe."""
    return np.random.default_rng(2**32 + 1).choice(np.float32([-1, 1]), shape)


def probed_minimisers(observed: np.ndarray, noise: float, signs: np.ndarray) -> list[Minimiser]:
    """First and second differences, each with a weak, a middling and a strong lambda."""
    step, weight = np.float32(PROBE * noise), for_denoising(observed, noise).weight

    def minimiser(order: int, factor: float, edge: float, radius: int) -> Minimiser:
        strengths = factor * weight, factor * weight / edge
        image, moved = (
            solve(f, Identity(), *strengths, order=order, iterations=ITERATIONS)
            for f in (observed, observed + step * signs)
        )
        return Minimiser(image, (moved - image) / step, radius)

    return [minimiser(*row) for row in MINIMISERS]


def least_risk(images: list[np.ndarray], divergences: list[float], observed: np.ndarray, noise: float) -> np.ndarray:
    """Weights, none negative and of sum 1, whose mixture of ``images`` has the least of Stein's estimate.

    That is w'Mw + 2 s^2 d'w, with M the mean products of what the images leave of ``observed`` and d their mean slopes.
    """
    apart = np.stack([np.ravel(image - observed) for image in images]).astype(np.float64)
    return simplex_quadratic(apart @ apart.T / observed.size, noise**2 * np.asarray(divergences))
