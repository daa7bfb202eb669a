"""Colours made uncorrelated: brightness and two differences, by an orthonormal matrix that keeps white noise white."""

import numpy as np

# Rows: the mean of red, green and blue; red less blue; green less the mean of red and blue. Each of length 1.
OPPONENT = np.array([[1, 1, 1], [1, 0, -1], [-1, 2, -1]]) / np.sqrt([[3], [2], [6]])


def decorrelated(image: np.ndarray) -> np.ndarray:
    """(channels, h, w) of red, green, blue -> brightness and two differences; one channel is left as it is."""
    return _turned(OPPONENT, image)


def recorrelated(image: np.ndarray) -> np.ndarray:
    """The inverse of ``decorrelated``."""
    return _turned(OPPONENT.T, image)


def _turned(matrix: np.ndarray, image: np.ndarray) -> np.ndarray:
    if len(image) != len(matrix):
        return image
    return np.tensordot(matrix.astype(image.dtype), image, axes=1)
