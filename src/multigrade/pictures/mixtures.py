"""Mixtures: weights that are not negative and sum to 1."""

import numpy as np
from scipy.optimize import nnls


def mixture(images: list[np.ndarray], truth: np.ndarray) -> np.ndarray:
    """Weights with which flat ``images`` come closest to ``truth``."""
    values = np.stack([np.ravel(image) for image in images], axis=1).astype(np.float64)
    return simplex_least_squares(values, np.float64(np.ravel(truth)))


def simplex_quadratic(products: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """argmin_w w'Mw + 2 c'w, M positive semidefinite."""
    lower = np.linalg.cholesky(products + 1e-12 * np.eye(len(products)))
    return simplex_least_squares(lower.T, -np.linalg.solve(lower, linear))


def simplex_least_squares(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """argmin_w ||matrix w - right||."""
    heavy = 1e3 * np.sqrt(np.sum(matrix**2) / matrix.shape[1])  # makes the sum 1
    weights = nnls(np.vstack([matrix, np.full(matrix.shape[1], heavy)]), np.append(right, heavy))[0]
    return weights / weights.sum()
