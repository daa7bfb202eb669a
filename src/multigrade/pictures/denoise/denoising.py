"""Denoising without training on the picture: what the noise is like, then the estimate for such noise.

white       ``estimates`` of decorrelated channels, mixed so that Stein's estimate of the error is least.
brighter    where the variance follows brightness as a x + b, the same after a transform that makes it constant
            (Anscombe's, for a Poisson mixed with a normal distribution).
camera      ``photo_estimate``, with the noise that a camera leaves (``noise.camera``).
none        the picture as it is.
impulses    pixels with salt and pepper are filled in by plug and play; what noise the others have is removed then.

Where there is no time for any of these, a pixel is moved towards the mean around it (``locally_smoothed``).

Where values were cut off at black and white, the estimate is put back at the end (``clipping``).
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
from scipy.ndimage import uniform_filter

from ..colour import decorrelated, recorrelated
from ..inverse.plug_and_play import plug_and_play
from ..noise.camera import CameraNoise, camera_noise
from ..noise.clipping import clipped_level, is_clipped, unclipped
from ..noise.impulses import lost_pixels, without
from ..noise.level import estimate_noise
from ..noise.quiet import variance_line, white_level
from ..operators import Mask
from ..progress import OutOfTime, Progress, is_over, part_of, unheard
from ..tiles import tiled
from .estimates import STEP, estimates
from .photo import photo_estimate
from .risk import least_risk, random_signs

MANY_CLIPPED = 0.005  # share of the pixels from which on Stein's estimate says nothing
LEAST_CLIPPED = 32  # pixels on a side, from which on the level is read off clipped blocks
LARGE = 4_000_000  # pixels, from which on time is saved: no probe
AROUND = 5  # pixels on a side of what a mean is taken over, where there is no time for more
SURE_ENOUGH = 0.04  # standard error of the estimated square error, as a share of it: three times it is half a dB


@dataclasses.dataclass(frozen=True)
class Noise:
    """What is known of the noise in a picture.

    Parameters
    ----------
    kind : "none", "white", "brighter", "camera" or "impulses".
    sigma : standard deviation of a pixel, on the unit scale; of all channels together.
    was_estimated : whether ``sigma`` comes from the picture.
    clipped : (h, w), true where a channel is at an end of the scale.
    line : (a, b) of the variance a x + b of a channel, for "brighter".
    camera : by brightness, channel and scale, for "camera".
    lost, rest : (h, w), true where a pixel has salt or pepper, and the noise of the others, for "impulses".
    """

    kind: str
    sigma: float
    was_estimated: bool
    clipped: np.ndarray
    line: tuple[float, float] | None = None
    camera: CameraNoise | None = None
    lost: np.ndarray | None = None
    rest: "Noise | None" = None

    def times(self, strength: float) -> "Noise":
        """Noise that is so many times as strong; of a level that is assumed, unless nothing changes."""
        if strength == 1:
            return self
        line, camera = self.line, self.camera
        return dataclasses.replace(
            self, sigma=strength * self.sigma, was_estimated=True, rest=self.rest and self.rest.times(strength),
            line=line and (strength**2 * line[0], strength**2 * line[1]),
            camera=camera and camera._replace(energies=strength**2 * camera.energies, sigma=strength * camera.sigma),
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Denoised:
    """Images (channels, h, w) by name, the last the best; the noise; the estimated mean square error of the last, None
    where nothing honest can be said; and whether there was no time for all of it."""

    images: dict[str, np.ndarray]
    noise: Noise
    risk: float | None = None
    is_cut_short: bool = False


def describe_noise(observed: np.ndarray, sigma: float | None = None) -> Noise:
    """Of a picture (channels, h, w); white, if its level is given."""
    clipped = is_clipped(observed)
    if sigma is not None:
        return Noise("white", sigma, False, clipped)
    if (lost := lost_pixels(observed)) is not None:
        rest = describe_noise(without(observed, lost))
        return Noise("impulses", rest.sigma, True, clipped, lost=lost, rest=rest)
    if (camera := camera_noise(observed)) is not None:
        if not camera.is_there:
            return Noise("none", 0.0, True, clipped)
        if not camera.is_white:
            return Noise("camera", camera.sigma, True, clipped, camera=camera)
    channels = decorrelated(observed)
    if (level := white_level(channels, clipped)) is None:
        level = estimate_noise(observed) / 255
        if level and clipped.any() and min(clipped.shape) >= LEAST_CLIPPED:  # 0 is a drawing
            level = clipped_level(observed)
        return Noise("white" if level else "none", level, True, clipped)
    line = variance_line(channels, clipped)
    if line is None:
        return Noise("white", level, True, clipped)
    slope, offset = line[0] * (3**0.5 if len(channels) == 3 else 1), line[1]  # brightness is a sum over root 3
    spread = float(np.sqrt(max(slope * observed.mean() + offset, 0)))
    return Noise("brighter", spread, True, clipped, line=(slope, offset))


def denoised(observed: np.ndarray, noise: Noise, progress: Progress = unheard) -> Denoised:
    """The estimate for this kind of noise.

    Parameters
    ----------
    observed : (channels, h, w) on the unit scale, float32.
    noise : from ``describe_noise``.
    progress : called with the share that is done. Once it raises ``OutOfTime``, the tiles that are left are only
        smoothed locally. There is no mixture if there was no time for the probe.
    """
    if noise.lost is not None and noise.rest is not None:
        known = Mask(jnp.asarray(~noise.lost, jnp.float32))
        start = without(observed, noise.lost)
        filled = plug_and_play(observed, known, 0.0, start, progress=part_of(progress, 0, 0.5))
        filled = np.where(noise.lost, filled, observed)
        found = denoised(filled, noise.rest, part_of(progress, 0.5, 1))
        return Denoised({"filled in": filled, **found.images}, noise, is_cut_short=found.is_cut_short)
    if noise.sigma == 0:
        return Denoised({"as it is": observed}, noise, risk=None)
    if noise.camera is not None:
        camera = noise.camera
        image = tiled(
            lambda part, progress: photo_estimate(part, camera, progress), decorrelated(observed),
            progress=progress, otherwise=lambda part: locally_smoothed(part, noise.sigma),
        )  # fmt: skip
        return Denoised({"non-local": recorrelated(image)}, noise, is_cut_short=is_over(progress, 1))
    if noise.line is not None:
        return _after_transform(observed, noise, progress)
    return _white(observed, noise, progress)


def _white(observed: np.ndarray, noise: Noise, progress: Progress) -> Denoised:
    channels, sigma = decorrelated(observed), np.float32(noise.sigma)
    is_large = observed[0].size > LARGE
    found = estimates(
        channels, sigma, progress=progress if is_large else part_of(progress, 0, 0.5),
        otherwise=lambda part: locally_smoothed(part, sigma),
    )  # fmt: skip
    names = "non-local", *(f"learned {i}" for i in range(1, len(found) - 1)), "coarser scales"
    images = dict(zip(names, found, strict=True))
    if (is_cut_short := is_over(progress, 1 if is_large else 0.5)) or is_large:
        return Denoised(_shown(images, noise), noise, is_cut_short=is_cut_short)
    signs = random_signs(channels.shape)
    step = np.float32(STEP * sigma)
    try:
        moved = estimates(channels + step * signs, sigma, progress=part_of(progress, 0.5, 1))
    except OutOfTime:
        return Denoised(_shown(images, noise), noise, is_cut_short=True)
    slopes = (moved - found) / step
    divergences = [float(np.mean(slope * signs, dtype=np.float64)) for slope in slopes]
    weights = least_risk(list(found), divergences, channels, float(sigma))
    images["mixture"], moved = (np.tensordot(weights.astype(np.float32), each, axes=1) for each in (found, moved))
    risk = _risk(images["mixture"], (moved - images["mixture"]) / step, signs, observed, noise)
    return Denoised(_shown(images, noise), noise, risk)


def _risk(image: np.ndarray, slope: np.ndarray, signs: np.ndarray, observed: np.ndarray, noise: Noise) -> float | None:
    """Stein's estimate of the mean square error of what is seen of the decorrelated ``image``, between black and white.

    What is cut off does not move. An error of the level by 2 % would move the estimate by a dB: it must be given.
    The noise must not be clipped, and the picture large enough for the mean square of the noise to be its variance.
    """
    if noise.was_estimated or noise.clipped.mean() > MANY_CLIPPED:
        return None
    image, slope, signs = recorrelated(image), recorrelated(slope), recorrelated(signs)
    divergence = np.mean(np.where((image > 0) & (image < 1), slope, 0) * signs, dtype=np.float64)
    apart = np.mean((np.clip(image, 0, 1) - observed) ** 2, dtype=np.float64)
    risk = float(apart + noise.sigma**2 * (2 * divergence - 1))
    doubt = noise.sigma**2 * np.sqrt(2 / observed.size)
    return risk if SURE_ENOUGH * risk > doubt else None


def _shown(images: dict[str, np.ndarray], noise: Noise) -> dict[str, np.ndarray]:
    """In red, green and blue, with blacks and whites put back."""
    shown = {name: recorrelated(image) for name, image in images.items()}
    if not noise.clipped.any():
        return shown
    return {name: unclipped(image, noise.sigma) for name, image in shown.items()}


def locally_smoothed(observed: np.ndarray, sigma: float) -> np.ndarray:
    """m + max(v - s^2, 0) / v (f - m), with m and v mean and variance of f around a pixel (Lee 1980)."""
    mean = uniform_filter(observed, (0, AROUND, AROUND))
    variance = np.maximum(uniform_filter(observed**2, (0, AROUND, AROUND)) - mean**2, np.float32(1e-12))
    return mean + np.maximum(variance - np.float32(sigma**2), 0) / variance * (observed - mean)


def _after_transform(observed: np.ndarray, noise: Noise, progress: Progress) -> Denoised:
    """With z = 2/a sqrt(a x + 3/8 a^2 + b), of noise 1, and back by x = a z^2 / 4 - a / 8 - b / a."""
    assert noise.line is not None
    slope, offset = noise.line
    inside = np.maximum(slope * observed + 0.375 * slope**2 + offset, 0)
    scale = slope / 2 / np.sqrt(max(slope + offset, slope))  # white is about 1, as elsewhere
    transformed = (2 / slope * scale * np.sqrt(inside)).astype(np.float32)
    nowhere = np.zeros_like(noise.clipped)
    found = _white(transformed, Noise("white", float(scale), True, nowhere), progress)

    def back(image: np.ndarray) -> np.ndarray:
        z = np.maximum(image, 0) / scale
        return (slope * z**2 / 4 - slope / 8 - offset / slope).astype(np.float32)

    shown = {name: back(image) for name, image in found.images.items()}
    return Denoised(shown, noise, is_cut_short=found.is_cut_short)
