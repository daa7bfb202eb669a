"""Noise that was cut off at black and white: E[clip(x + noise)] is not x near the ends of the scale.

A mean over clipped values, which is what an estimate is, lies above a black x and below a white one. For noise of
standard deviation s it is m(x) = E min(max(x + s n, 0), 1), n standard normal, which rises with x and so is undone.
Clipped values also vary less, by v(x) < s^2, from which the level of the noise is found.
"""

import numpy as np
from scipy.special import ndtr

NUM_POINTS = 2001  # of the table from clipped means back to means
BLOCK = 8  # pixels on a side of what a mean and a variance are taken of
MEDIAN = (1 - 2 / (9 * (BLOCK // 2) ** 2)) ** 3  # of the mean of so many squares of standard normal numbers
MOST, HALVINGS = 1.0, 20  # noise that is looked for, between 0 and this, and how closely


def is_clipped(observed: np.ndarray) -> np.ndarray:
    """(h, w): where a channel of (channels, h, w) is at an end of the scale; nowhere if values lie beyond the ends."""
    if observed.min() < 0 or observed.max() > 1:
        return np.zeros(observed.shape[1:], bool)
    return ((observed == 0) | (observed == 1)).any(axis=0)


def clipped_mean(x: np.ndarray, noise: float) -> np.ndarray:
    """m(x)."""
    return _above_zero(x, noise)[0] - _above_zero(x - 1, noise)[0]


def clipped_variance(x: np.ndarray, noise: float) -> np.ndarray:
    """v(x) = E min(max(x + s n, 0), 1)^2 - m(x)^2."""
    (first, squares), (beyond, squares_beyond) = _above_zero(x, noise), _above_zero(x - 1, noise)
    return squares - squares_beyond - 2 * beyond - (first - beyond) ** 2


def _above_zero(x: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """E y and E y^2 of y = max(x + s n, 0)."""
    inside, density = ndtr(x / noise), noise * np.exp(-0.5 * (x / noise) ** 2) / np.sqrt(2 * np.pi)
    return x * inside + density, (x**2 + noise**2) * inside + x * density


def clipped_level(observed: np.ndarray) -> float:
    """s of an image (channels, h, w) clipped nearly everywhere, on the unit scale.

    It makes the variance in half of all small blocks more than v at their mean. The variance is that of the finest
    diagonal Haar coefficients, to which fine texture counts as noise.
    """
    channels, height, width = observed.shape
    rows, columns = height // BLOCK, width // BLOCK
    cut = observed[:, : rows * BLOCK, : columns * BLOCK].astype(np.float64)
    detail = (cut[:, ::2, ::2] - cut[:, ::2, 1::2] - cut[:, 1::2, ::2] + cut[:, 1::2, 1::2]) / 2
    means, variances = (
        each.reshape(channels, rows, each.shape[1] // rows, columns, -1).mean(axis=(2, 4)).ravel()
        for each in (cut, detail**2)
    )
    usable = variances > 0
    means, variances, x = means[usable], variances[usable], np.linspace(0, 1, NUM_POINTS)
    low, high = 0.0, MOST
    for _ in range(HALVINGS):
        noise = (low + high) / 2
        expected = np.interp(means, clipped_mean(x, noise), clipped_variance(x, noise))
        low, high = (noise, high) if np.median(variances / expected) > MEDIAN else (low, noise)
    return (low + high) / 2


def unclipped(image: np.ndarray, noise: float) -> np.ndarray:
    """The x in [0, 1] with m(x) = ``image``, or the nearest there is."""
    x = np.linspace(0, 1, NUM_POINTS)
    return np.interp(image, clipped_mean(x, noise), x).astype(image.dtype)
