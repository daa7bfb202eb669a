"""Stein's estimate of the error of a mixture of images, and the random signs by which its slopes are found."""

import numpy as np

from ..mixtures import simplex_quadratic


def random_signs(shape: tuple[int, ...]) -> np.ndarray:
    """The probe b: an estimate z moves at a pixel with that pixel's noisy value by b_p (z(f + t b) - z(f))_p / t, right
    on average."""
    return np.random.default_rng(2**32 + 1).choice(np.float32([-1, 1]), shape)


def least_risk(images: list[np.ndarray], divergences: list[float], observed: np.ndarray, noise: float) -> np.ndarray:
    """Weights, none negative and of sum 1, whose mixture of ``images`` has the least of Stein's estimate.

    That is w'Mw + 2 s^2 d'w, with M the mean products of what the images leave of ``observed`` and d their mean slopes.
    """
    apart = np.stack([np.ravel(image - observed) for image in images]).astype(np.float64)
    return simplex_quadratic(apart @ apart.T / observed.size, noise**2 * np.asarray(divergences))
