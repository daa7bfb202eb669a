"""Denoising without training on the picture: what the noise is like, then the estimate for such noise.

white       ``estimates`` of decorrelated channels, mixed so that Stein's estimate of the error is least.
brighter    where the variance follows brightness as a x + b, the same after a transform that makes it constant
            (Anscombe's, for a Poisson mixed with a normal distribution).
correlated  ``correlated_estimate``.

Where values were cut off at black and white, the estimate is put back at the end (``clipping``).
"""

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from .clipping import is_clipped, unclipped
from .colour import decorrelated, recorrelated
from .correlated import correlated_estimate
from .estimates import STEP, estimates
from .minimisers import least_risk, random_signs
from .noise import estimate_noise
from .noise_model import NoiseModel, noise_model, total, variance_line
from .tiles import tiled

MANY_CLIPPED = 0.005  # share of the pixels from which on Stein's estimate says nothing
LARGE = 4_000_000  # pixels, from which on time is saved: no probe
SURE_ENOUGH = 0.06  # standard error of the estimated square error, as a share of it: a quarter of a dB

Told = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class Noise:
    """What is known of the noise in a picture.

    Parameters
    ----------
    kind : "white", "brighter" or "correlated".
    sigma : standard deviation of a pixel, on the unit scale; of all channels together.
    was_estimated : whether ``sigma`` comes from the picture.
    clipped : (h, w), true where a channel is at an end of the scale.
    line : (a, b) of the variance a x + b of a channel, for "brighter".
    model : the bands, for "correlated".
    """

    kind: str
    sigma: float
    was_estimated: bool
    clipped: np.ndarray
    line: tuple[float, float] | None = None
    model: NoiseModel | None = None


@dataclasses.dataclass(frozen=True)
class Denoised:
    """Images (channels, h, w) by name, the last the best; the noise; the estimated mean square error of the last, None
    where nothing honest can be said; and, for white noise, each decorrelated image with how it moves."""

    images: dict[str, np.ndarray]
    noise: Noise
    risk: float | None = None
    moving: tuple[tuple[np.ndarray, np.ndarray], ...] = ()


def describe_noise(observed: np.ndarray, sigma: float | None = None) -> Noise:
    """Of a picture (channels, h, w); white, if its level is given."""
    clipped = is_clipped(observed)
    if sigma is not None:
        return Noise("white", sigma, False, clipped)
    channels = decorrelated(observed)
    model = noise_model(channels, clipped)
    if model is None:
        return Noise("white", estimate_noise(observed) / 255, True, clipped)
    if not model.is_white:
        everything = np.sqrt(np.mean([total(bands) for bands in model.bands]))
        return Noise("correlated", float(everything), True, clipped, model=model)
    line = variance_line(channels, clipped)
    if line is None:
        return Noise("white", model.sigma, True, clipped)
    slope, offset = line[0] * (3**0.5 if len(channels) == 3 else 1), line[1]  # brightness is a sum over root 3
    spread = float(np.sqrt(max(slope * observed.mean() + offset, 0)))
    return Noise("brighter", spread, True, clipped, line=(slope, offset))


def denoised(
    observed: np.ndarray, noise: Noise, told: Told = lambda done, count: None, until: float | None = None
) -> Denoised:
    """The estimate for this kind of noise.

    Parameters
    ----------
    observed : (channels, h, w) on the unit scale, float32.
    noise : from ``describe_noise``.
    told : called with the number of parts that are done, and of all.
    until : the moment of ``time.monotonic`` from which on no probe is begun. Without a probe there is no mixture.
    """
    if noise.sigma == 0:
        return Denoised({"as it is": observed}, noise, risk=None)
    if noise.kind == "correlated":
        model = noise.model
        assert model is not None
        image = tiled(lambda part: correlated_estimate(part, model), decorrelated(observed), told=told)
        return Denoised({"non-local": recorrelated(image)}, noise)
    if noise.line is not None:
        return _after_transform(observed, noise, told, until)
    return _white(observed, noise, told, until)


def _white(observed: np.ndarray, noise: Noise, told: Told, until: float | None) -> Denoised:
    channels, sigma = decorrelated(observed), np.float32(noise.sigma)
    is_large = observed[0].size > LARGE
    found = estimates(channels, sigma, told=lambda done, count: told(done, count if is_large else 2 * count))
    images = dict(zip(("non-local", *(f"learned {i}" for i in range(1, len(found)))), found, strict=True))
    if is_large or (until is not None and time.monotonic() > until):
        return Denoised(_shown(images, noise), noise)
    signs = random_signs(channels.shape)
    step = np.float32(STEP * sigma)
    moved = estimates(channels + step * signs, sigma, told=lambda done, count: told(count + done, 2 * count))
    slopes = (moved - found) / step
    divergences = [float(np.mean(slope * signs, dtype=np.float64)) for slope in slopes]
    weights = least_risk(list(found), divergences, channels, float(sigma))
    images["mixture"] = np.tensordot(weights.astype(np.float32), found, axes=1)
    risk = _risk(images["mixture"], float(weights @ divergences), channels, noise)
    return Denoised(_shown(images, noise), noise, risk, tuple(zip(found, slopes, strict=True)))


def _risk(image: np.ndarray, divergence: float, observed: np.ndarray, noise: Noise) -> float | None:
    """Stein's estimate of the mean square error. An error of the level by 2 % would move it by a dB: it must be given.

    The noise must not be clipped, and the picture large enough for the mean square of the noise to be its variance.
    """
    if noise.was_estimated or noise.clipped.mean() > MANY_CLIPPED:
        return None
    apart = np.mean((image - observed) ** 2, dtype=np.float64)
    risk = float(apart + noise.sigma**2 * (2 * divergence - 1))
    doubt = noise.sigma**2 * np.sqrt(2 / observed.size)
    return risk if SURE_ENOUGH * risk > doubt else None


def _shown(images: dict[str, np.ndarray], noise: Noise) -> dict[str, np.ndarray]:
    """In red, green and blue, with blacks and whites put back."""
    return {name: _put_back(recorrelated(image), noise) for name, image in images.items()}


def _put_back(image: np.ndarray, noise: Noise) -> np.ndarray:
    return unclipped(image, noise.sigma) if noise.clipped.any() else image


def _after_transform(observed: np.ndarray, noise: Noise, told: Told, until: float | None) -> Denoised:
    """With z = 2/a sqrt(a x + 3/8 a^2 + b), of noise 1, and back by x = a z^2 / 4 - a / 8 - b / a."""
    assert noise.line is not None
    slope, offset = noise.line
    inside = np.maximum(slope * observed + 0.375 * slope**2 + offset, 0)
    scale = slope / 2 / np.sqrt(max(slope + offset, slope))  # white is about 1, as elsewhere
    transformed = (2 / slope * scale * np.sqrt(inside)).astype(np.float32)
    nowhere = np.zeros_like(noise.clipped)
    found = _white(transformed, Noise("white", float(scale), True, nowhere), told, until)

    def back(image: np.ndarray) -> np.ndarray:
        z = np.maximum(image, 0) / scale
        return (slope * z**2 / 4 - slope / 8 - offset / slope).astype(np.float32)

    return Denoised({name: back(image) for name, image in found.images.items()}, noise)
