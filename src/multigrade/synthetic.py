"""The paper's synthetic regression problems: g(x) = sum_j sin(2 pi kappa_j x + phi_j) on [0, 1] (Section 5)."""

from typing import NamedTuple

import numpy as np

from . import draws

# Recorded by the paper's authors; the "5,5" printed for setting 1 is 5.5.
KAPPA = {1: (1.0, 5.5, 10.0), 2: (1.0, 8.25, 15.5, 22.75, 30.0)}
PHI = {
    1: (6.0652933, 1.9772031, 3.9774444),
    2: (3.6096928, 0.6263458, 2.4702985, 5.618288, 3.7483382),
}
NUM_TRAINING = 1024  # points, Section 5
NUM_VALIDATION = 1024  # recorded; the paper says 1000
NUM_TEST = 10_000
# Learning rates of descent in the paper's eigenvalue runs, by setting and method (Figures 2, 16, 25, 26).
RATES = {
    ("1", "SGDL"): 0.08, ("1", "MGDL"): 0.06, ("1", "MSDL"): 0.004,
    ("2", "SGDL"): 0.005, ("2", "MGDL"): 0.2, ("2", "MSDL"): 0.006,
}  # fmt: skip


class SyntheticData(NamedTuple):
    x_train: np.ndarray  # (1024, 1), equally spaced, ends included
    y_train: np.ndarray
    x_validation: np.ndarray  # (1024, 1), uniform
    y_validation: np.ndarray
    x_test: np.ndarray  # (10000, 1), equally spaced
    y_test: np.ndarray


def target(number: int, x: np.ndarray) -> np.ndarray:
    """g(x) of setting 1 or 2."""
    if number not in KAPPA:
        raise ValueError(f"setting must be 1 or 2; got {number!r}")
    waves = [np.sin(2 * np.pi * kappa * x + phi) for kappa, phi in zip(KAPPA[number], PHI[number], strict=True)]
    return np.sum(waves, axis=0)


def setting(number: int, *, seed: int = 0) -> SyntheticData:
    """Training, validation and test data of setting 1 or 2, float32.

    ``seed`` draws the validation points; those of seed 0 are the authors'.
    """
    uniform = draws.uniform(draws.VALIDATION_KEY + seed, (1, NUM_VALIDATION))[0].astype(np.float64)
    points = (np.linspace(0, 1, NUM_TRAINING), uniform, np.linspace(0, 1, NUM_TEST))
    arrays = [a.astype(np.float32)[:, None] for x in points for a in (x, target(number, x))]
    return SyntheticData(*arrays)


def training_points(number: int, num: int) -> tuple[np.ndarray, np.ndarray]:
    """``num`` of the training points of setting 1 or 2, spread equally, and their targets."""
    if not 1 <= num <= NUM_TRAINING:
        raise ValueError(f"points must be between 1 and {NUM_TRAINING}, which a setting has; got {num}")
    data = setting(number)
    rows = np.round(np.linspace(0, NUM_TRAINING - 1, num)).astype(int)
    return data.x_train[rows], data.y_train[rows]
