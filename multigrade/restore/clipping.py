"""Noise that was cut off at black and white: E[clip(x + noise)] is not x near the ends of the scale.

A mean over clipped values, which is what an estimate is, lies above a black x and below a white one. For noise of
standard deviation s it is m(x) = E min(max(x + s n, 0), 1), n standard normal, which rises with x and so is undone.
"""

import numpy as np
from scipy.special import ndtr

NUM_POINTS = 2001  # of the table from clipped means back to means


def is_clipped(observed: np.ndarray) -> np.ndarray:
    """(h, w): where a channel of (channels, h, w) is at an end of the scale; nowhere if values lie beyond the ends."""
    if observed.min() < 0 or observed.max() > 1:
        return np.zeros(observed.shape[1:], bool)
    return ((observed == 0) | (observed == 1)).any(axis=0)


def clipped_mean(x: np.ndarray, noise: float) -> np.ndarray:
    """m(x)."""

    def above_zero(x):  # E max(x + s n, 0)
        return x * ndtr(x / noise) + noise * np.exp(-0.5 * (x / noise) ** 2) / np.sqrt(2 * np.pi)

    return above_zero(x) - above_zero(x - 1)


def unclipped(image: np.ndarray, noise: float) -> np.ndarray:
    """The x in [0, 1] with m(x) = ``image``, or the nearest there is."""
    x = np.linspace(0, 1, NUM_POINTS)
    return np.interp(image, clipped_mean(x, noise), x).astype(image.dtype)
