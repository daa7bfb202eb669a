"""What surrounds a pixel: the inputs of the best recipe for denoising, and how they move with the pixel's own value.

A pixel's inputs are noisy values around it at five scales, and values around it of six minimisers (``minimisers``),
all less a mixture of the minimisers at the pixel, and that mixture itself. Each image is seen through a window, a grid
of (2 radius + 1)^2 places. How the noisy values move with f_p is known, for they are linear in f; how the minimisers
move comes from a probe.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.ndimage import gaussian_filter, gaussian_filter1d

from .risk import Minimiser, least_risk, probed_minimisers, random_signs

SCALES = ((1, 3, 0.0), (2, 2, 1.0), (4, 2, 2.0), (8, 2, 4.0), (16, 1, 8.0))  # spacing, radius, blur of noisy values
MARGIN = 16  # pixels beyond the border, reflected: the largest spacing times its radius
FAR = 64  # pixels from here on no blur above reaches


class Window(NamedTuple):
    """An image (channels, h, w) and the places at which it is seen around a pixel.

    ``blur`` is that of the noisy values; None for a minimiser, whose ``slope`` along the probe says how it moves.
    """

    image: np.ndarray
    slope: np.ndarray
    spacing: int
    radius: int
    blur: float | None

    @property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns relative to the pixel."""
        reach = self.spacing * np.arange(-self.radius, self.radius + 1)
        rows, columns = np.meshgrid(reach, reach, indexing="ij")
        return rows.ravel(), columns.ravel()

    @property
    def is_known(self) -> np.ndarray:
        """(places,) whether it is known how the value there moves with the pixel's own."""
        return np.full(len(self.places[0]), self.blur is not None)

    def known_slopes(self, size: int, offsets: np.ndarray) -> np.ndarray:
        """(size, offsets): how the blurred line moves at each offset from a pixel with that pixel's own value; 0 where
        it is not known. Beyond the ends the line is reflected, and near them a pixel meets itself."""
        if self.blur is None:
            return np.zeros((size, len(offsets)))
        short = min(size, 2 * FAR + 1)  # whatever is far from both ends is like its middle
        response = np.eye(short) if self.blur == 0 else gaussian_filter1d(np.eye(short), self.blur, axis=0)
        places = np.pad(np.arange(short), MARGIN, mode="symmetric")[np.arange(short)[:, None] + MARGIN + offsets]
        slopes = response[places, np.arange(short)[:, None]]
        pixels = np.arange(size)
        return slopes[np.where(pixels < FAR, pixels, np.maximum(pixels - size + short, min(FAR, short - 1)))]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Surroundings:
    """Inputs of any pixels, and how they move with the pixel's own noisy value, gathered from padded images."""

    values: Array  # all images, padded, flat
    slopes: Array  # of the same size: (z(f + t b) - z(f)) / t for the minimisers
    places: Array  # (pixels,) of the pixels in the first image
    signs: Array  # (pixels,) b
    offsets: Array  # (inputs,) from the pixel's place in the first image
    is_known: Array  # (inputs,) whether the input's slope is the product of the next two
    row_slopes: Array  # (h, inputs)
    column_slopes: Array  # (w, inputs)
    centres: Array  # (minimisers,) offsets of the pixel in them
    mixture: Array  # (minimisers,) weights of least estimated risk

    @jax.jit
    def __call__(self, pixels: Array) -> tuple[Array, Array]:
        z, dz = self.mixed(pixels)
        places = self.places[pixels, None] + self.offsets
        height, width = len(self.row_slopes), len(self.column_slopes)
        known = self.row_slopes[pixels // width % height] * self.column_slopes[pixels % width]
        slopes = jnp.where(self.is_known, known, self.slopes[places] * self.signs[pixels, None])
        x, dx = self.values[places] - z[:, None], slopes - dz[:, None]
        return jnp.concatenate([x, z[:, None]], axis=1), jnp.concatenate([dx, dz[:, None]], axis=1)

    @jax.jit
    def mixed(self, pixels: Array) -> tuple[Array, Array]:
        """The minimisers' mixture, which the grades improve upon, and how it moves."""
        places = self.places[pixels, None] + self.centres
        return self.values[places] @ self.mixture, self.slopes[places] @ self.mixture * self.signs[pixels]

    @property
    def num_inputs(self) -> int:
        return len(self.offsets) + 1


def surroundings(observed: np.ndarray, noise: float, minimisers: Sequence[Minimiser] = ()) -> Surroundings:
    """Of every pixel and channel of ``observed`` (channels, h, w), with this noise on the unit scale.

    ``minimisers`` are other estimates in their place, probed along ``random_signs`` of the same shape.
    """
    signs = random_signs(observed.shape)
    minimisers = list(minimisers) or probed_minimisers(observed, noise, signs)
    divergences = [float(np.mean(each.slope * signs, dtype=np.float64)) for each in minimisers]
    mixture = least_risk([each.image for each in minimisers], divergences, observed, noise)
    noisy = [
        Window(gaussian_filter(observed, (0, blur, blur)), observed, spacing, radius, blur)
        for spacing, radius, blur in SCALES
    ]
    windows = noisy + [Window(each.image, each.slope, 1, each.radius, None) for each in minimisers]
    return gathered(windows, len(noisy), signs, mixture)


def gathered(windows: list[Window], first_minimiser: int, signs: np.ndarray, mixture: np.ndarray) -> Surroundings:
    """The windows' images laid out one after the other, so that an input is one offset."""
    channels, height, width = signs.shape
    line = width + 2 * MARGIN
    padded_size = channels * (height + 2 * MARGIN) * line
    places = [window.places for window in windows]
    offsets = [k * padded_size + rows * line + columns for k, (rows, columns) in enumerate(places)]
    pairs = list(zip(windows, places, strict=True))
    pixels = (np.arange(height) + MARGIN)[:, None] * line + np.arange(width) + MARGIN
    pixels = np.arange(channels)[:, None, None] * (padded_size // channels) + pixels
    minimisers = jnp.arange(first_minimiser, len(windows), dtype=jnp.int32)
    return Surroundings(
        values=jnp.asarray(np.concatenate([_padded(window.image) for window in windows]), jnp.float32),
        slopes=jnp.asarray(np.concatenate([_padded(window.slope) for window in windows]), jnp.float32),
        places=jnp.asarray(pixels.ravel(), jnp.int32),
        signs=jnp.asarray(signs.ravel()),
        offsets=jnp.asarray(np.concatenate(offsets), jnp.int32),
        is_known=jnp.asarray(np.concatenate([window.is_known for window in windows])),
        row_slopes=_joined([window.known_slopes(height, rows) for window, (rows, _) in pairs]),
        column_slopes=_joined([window.known_slopes(width, columns) for window, (_, columns) in pairs]),
        centres=minimisers * padded_size,
        mixture=jnp.asarray(mixture, jnp.float32),
    )


def _joined(slopes: list[np.ndarray]) -> Array:
    return jnp.asarray(np.concatenate(slopes, axis=1), jnp.float32)


def _padded(image: np.ndarray) -> np.ndarray:
    return np.pad(image, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN)), mode="symmetric").ravel()
