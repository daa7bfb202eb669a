"""Which grades to keep, and how much of each, when the clean image is not known.

A judge gives an image (channels, h, w) a number, the lower the better, and says what is ``enough``. Grades are trained
until one is no better than the one before, or good enough.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from scipy.ndimage import gaussian_filter

from ...model import MultiGrade
from ...training import Fit
from ..inverse.variational import dct
from ..mixtures import simplex_quadratic
from ..operators import Operator

EXTRA_NOISE = 0.15  # added to the observation to judge the grades by, in units of the noise that is there
LEAST_SHOWN = 0.02  # of a frequency, by a blur, for the observation to say something of it


class Judge(Protocol):
    """Gives an image (channels, h, w) a number, the lower the better; no better one is needed than ``enough``."""

    def __call__(self, image: np.ndarray) -> float: ...

    @property
    def enough(self) -> float: ...


class SecondLook(NamedTuple):
    """Judges images by their square error, without a reference.

    The grades are trained on f + t s e, whose noise is uncorrelated, hence, being Gaussian, independent of that of
    f - s e / t, and the square distance to the latter is the error and a constant (Pang and others 2021). The constant
    is left out, and e is paired with the image less a smooth one, which changes no expectation and calms the estimate.
    """

    observed: np.ndarray
    extra: np.ndarray  # e
    noise: float
    enough: float = 0.0

    def __call__(self, image: np.ndarray) -> float:
        return float(np.mean((image - self.observed) ** 2) - self.noise**2 + 2 * self.correlation(image))

    def correlation(self, image: np.ndarray) -> float:
        """Estimate of the mean product of the noise in f and the image."""
        return self.noise / EXTRA_NOISE * float(np.mean(self._products(image)))

    def doubt(self, image: np.ndarray) -> float:
        """Standard error of the estimate, nearly all of which is that of the correlation."""
        products = self._products(image)
        return 2 * self.noise / EXTRA_NOISE * float(np.std(products)) / products.size**0.5

    def _products(self, image: np.ndarray) -> np.ndarray:
        return self.extra * (image - gaussian_filter(self.observed, (0, 2, 2)))


class Unexplained(NamedTuple):
    """Judges images by what they leave of a blurred observation where the blur lets something through.

    Noise is all that should be left: grades that go further learn noise that the minimiser has amplified.
    """

    observed: np.ndarray
    operator: Operator  # diagonal in the DCT basis
    noise: float

    def __call__(self, image: np.ndarray) -> float:
        left = dct(self.observed - np.asarray(self.operator.forward(jnp.asarray(image, jnp.float32))))
        return float(np.mean(left[:, self.operator.diagonal(image.shape) > LEAST_SHOWN] ** 2))

    @property
    def enough(self) -> float:
        return self.noise**2


class Missed(NamedTuple):
    """Judges images by their square error at pixels that no grade has learned from."""

    truth: np.ndarray
    held_out: np.ndarray
    enough: float = 0.0

    def __call__(self, image: np.ndarray) -> float:
        missed = (image - self.truth).reshape(len(image), -1)[:, self.held_out]
        return float(np.mean(missed**2, dtype=np.float64))


def mixed(fit: Fit, stages, judge: SecondLook) -> tuple[Fit, list]:
    """As much of every grade as makes the estimated error least.

    Among the mixtures of the stages with weights that are not negative and sum to 1: grade k counts as much as all
    stages from k on together. The estimate is a quadratic form in the weights, w'Mw + 2 c'w.
    """
    apart = np.stack([np.ravel(stage - judge.observed) for stage in np.asarray(stages, np.float64)])
    quadratic, linear = apart @ apart.T / apart.shape[1], np.array([judge.correlation(stage) for stage in stages])
    shares = np.cumsum(simplex_quadratic(quadratic, linear)[::-1])[::-1]
    count = int(np.sum(shares > 0))
    grades = [
        dataclasses.replace(grade, scale=grade.scale * np.float32(share))
        for grade, share in zip(fit.model.grades[:count], shares, strict=False)
    ]
    added = np.diff(stages[:count], axis=0, prepend=np.zeros_like(stages[:1]))
    mixed = np.cumsum(shares[:count, None, None, None] * added, axis=0)
    return dataclasses.replace(fit, model=MultiGrade(tuple(grades))), list(mixed)


def least(fit: Fit, stages, judge: Callable[[np.ndarray], float]) -> tuple[Fit, list]:
    """The grades and stages up to the one that the judge finds best; the records of all stay."""
    count = int(np.argmin([judge(stage) for stage in stages])) + 1
    return dataclasses.replace(fit, model=MultiGrade(fit.model.grades[:count])), list(stages[:count])


def estimated_psnr(error: float, doubt: float = 0.0) -> float | None:
    """None where the estimate of the mean square error is not above twice its standard error."""
    return float(-10 * np.log10(error)) if error > 2 * doubt else None
