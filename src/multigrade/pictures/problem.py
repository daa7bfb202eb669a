"""What is known and what is sought (``Problem``), and how to train (``Options``)."""

import dataclasses
import os
from collections.abc import Sequence

import numpy as np

from ..networks import Network
from ..training.grades import check_memory
from ..training.observers import Observer
from .operators import Operator

METHODS = ("mgdl", "sgdl")
RECIPE_NAMES = ("best", "networks", "paper")
MOST = 1_000  # grades, and layers of each
MOST_STRENGTH = 10
LEAST_SIGMA = 0.01  # on the 0..255 scale; less is no noise, and derivatives from probes that small drown in rounding


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """f = A x + noise: an observation, what happened to the picture, and what is known of the noise.

    Images are (channels, h, w), float32, 0 black and 1 white.

    Parameters
    ----------
    task : str
        "regress", "denoise", "deblur", "inpaint", "upsample" or "invert".
    observed : ndarray
        f. An image, except for "invert", where it may have any shape.
    operator : Operator
        A.
    shape : tuple of int
        Of the image that is sought, (channels, h, w).
    noise_sigma : float
        Standard deviation of the noise, on the 0..255 scale.
    noise_was_estimated : bool
    mask : ndarray or None
        (h, w), true where the pixel is known; None where all are.
    reference : ndarray or None
        The clean image, for records of PSNR. No recipe learns from it.
    is_grey : bool
        Whether the result is (h, w), or (h, w, channels).
    """

    task: str
    observed: np.ndarray
    operator: Operator
    shape: tuple[int, int, int]
    noise_sigma: float = 0.0
    noise_was_estimated: bool = False
    mask: np.ndarray | None = None
    reference: np.ndarray | None = None
    is_grey: bool = True

    @property
    def noise(self) -> float:
        """Standard deviation of the noise on the unit scale."""
        return self.noise_sigma / 255

    @property
    def is_noisy(self) -> bool:
        return self.noise_sigma >= LEAST_SIGMA

    @property
    def size(self) -> tuple[int, int]:
        """(h, w) of the image that is sought."""
        return self.shape[1:]


@dataclasses.dataclass(frozen=True)
class Options:
    """How to train; None takes the recipe's value.

    Parameters
    ----------
    method : str
        "mgdl", grades, or "sgdl", one deep network.
    recipe : str, optional
        "best", "networks" or "paper". None takes the first of best and networks that the task has and that can do what
        the other options ask for; ``Restored.recipe`` names it.
    grades, layers, width : int, optional
        Number of grades; hidden layers of each grade (mgdl) or in all (sgdl); neurons of each.
    steps : int, optional
        Of the optimiser, per grade.
    learning_rate : float, optional
    weight, beta : float, optional
        lambda, the weight of total variation, and beta, that of its coupling (Appendix C).
    strength : float
        How many times as strong as it was found, or given, noise is taken to be by recipe best for denoising: less
        keeps more texture, more leaves less noise.
    seed : int
    time_limit : float, optional
        Seconds of training.
    observers : sequence
        What watches the training (``multigrade.training``).
    checkpoint : path, optional
        A file from which an interrupted run continues.
    """

    method: str = "mgdl"
    recipe: str | None = None
    grades: int | None = None
    layers: int | None = None
    width: int | None = None
    steps: int | None = None
    learning_rate: float | None = None
    weight: float | None = None
    beta: float | None = None
    strength: float = 1.0
    seed: int = 0
    time_limit: float | None = None
    observers: Sequence[Observer] = ()
    checkpoint: str | os.PathLike | None = None

    def __post_init__(self):
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {self.method!r}")
        if self.recipe not in (None, *RECIPE_NAMES):
            raise ValueError(f"recipe must be one of {', '.join(RECIPE_NAMES)}; got {self.recipe!r}")
        for name, lowest in (("grades", 1), ("layers", 1), ("width", 1), ("steps", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise ValueError(f"{name} must be at least {lowest}; got {value!r}")
            if name in ("grades", "layers") and value is not None and value > MOST:
                raise ValueError(f"{name} must be at most {MOST}; got {value!r}")
        if self.width is not None:  # before any work; more than two layers need more still
            check_memory([Network((2, *(self.width,) * min(self.layers or 2, 2), 1))])
        if self.seed >= 2**32:
            raise ValueError(f"seed must be below 2**32; got {self.seed!r}")
        if self.method == "sgdl" and self.grades not in (None, 1):
            raise ValueError(f"grades must be 1 with method sgdl; got {self.grades}")
        for name in ("learning_rate", "beta", "time_limit"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a positive number; got {value!r}")
        if not 0 <= self.strength <= MOST_STRENGTH:
            raise ValueError(f"strength must be a number from 0 to {MOST_STRENGTH}; got {self.strength!r}")
        if self.weight is not None and not (np.isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"lambda must be at least 0; got {self.weight!r}")

    @property
    def has_strengths(self) -> bool:
        return (self.weight, self.beta) != (None, None)

    @property
    def asks_for_grades(self) -> bool:
        """Whether anything is said of grades and their training."""
        asked = (self.grades, self.layers, self.width, self.steps, self.learning_rate)
        return any(value is not None for value in asked) or self.method == "sgdl"

    def num_grades(self, default: int) -> int:
        """How many grades to train at most, where the recipe has ``default``."""
        return (self.grades or default) if self.method == "mgdl" else 1
