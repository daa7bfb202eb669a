"""The ``best`` recipe for deblurring: what the minimiser misses, learned from smaller copies of it.

A smaller copy of the minimiser z is as sharp, for its size, as the image that is sought. Copies are blurred, made noisy
and restored as the observation was; the grades learn what z misses of a copy, and then do it to z.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

from ..operators import Operator
from .interpolation import orientations
from .strengths import Strengths
from .variational import solve

COPIES = (1.15, 1.7)  # how much smaller, in units of the root of the blur; our choice
LEAST_COPY = 32  # pixels on a side
# lambda and beta over the chosen ones, radius of what is seen around the pixel; the first is improved upon.
BLUR_MINIMISERS = ((1.0, 1.0, 3), (0.4, 0.4, 1), (3.0, 3.0, 1), (0.125, 1.0, 2))
MOST_ROWS = 2**20  # pixels that are learned from at most, so that memory is bounded


class Blurred(NamedTuple):
    """An observation (channels, h, w) and minimisers of it: what the inputs of a pixel are taken from."""

    observed: np.ndarray
    minimisers: tuple[np.ndarray, ...]
    spacing: int

    @classmethod
    def of(cls, observed: np.ndarray, operator: Operator, strengths: Strengths) -> "Blurred":
        images = tuple(
            solve(observed, operator, weight * strengths.weight, beta * strengths.beta)
            for weight, beta, _ in BLUR_MINIMISERS
        )
        return cls(observed, images, max(round(operator.spread / 3), 1))

    def inputs(self, pixels: np.ndarray) -> np.ndarray:
        """Values around these pixels, near in all images and far in the first minimiser, less the pixel's own there."""
        first, near = self.minimisers[0], self.spacing
        windows = [(image, near, radius) for image, (*_, radius) in zip(self.minimisers, BLUR_MINIMISERS, strict=True)]
        windows += [(first, 3 * near, 2), (first, 8 * near, 1), (self.observed, near, 1)]
        margin = 8 * near
        channel, row, column = (index[:, None, None] for index in np.unravel_index(pixels, first.shape))
        columns = []
        for image, spacing, radius in windows:
            padded = np.pad(image, ((0, 0), (margin, margin), (margin, margin)), mode="symmetric")
            reach = margin + spacing * np.arange(-radius, radius + 1)
            values = padded[channel, row + reach[:, None], column + reach]
            columns.append(values.reshape(len(pixels), -1))
        own = first.ravel()[pixels, None]
        return np.concatenate([np.concatenate(columns, axis=1) - own, own], axis=1)


def deblurring_rows(
    image: np.ndarray, operator: Operator, strengths: Strengths, noise: float, seed: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Inputs and what the first minimiser misses, from smaller copies of ``image``, all ways round; their pixels."""
    random = np.random.default_rng(seed)
    most = min(image.shape[1:]) / 2  # a copy has some pixels, however wide the blur
    copies = [smaller(image, float(np.clip(factor * operator.spread**0.5, 1.0, most))) for factor in COPIES]
    copies = [copy for copy in copies if min(copy.shape[1:]) >= LEAST_COPY] or copies[:1]
    inputs, targets = [], []
    for clean in (turned for copy in copies for turned in orientations(copy)):
        blurred = np.asarray(operator.forward(jnp.asarray(clean)))
        noisy = blurred + np.float32(noise) * random.standard_normal(clean.shape, np.float32)
        seen = Blurred.of(noisy, operator, strengths)
        pixels = random.permutation(clean.size)[: MOST_ROWS // (8 * len(copies))]
        inputs.append(seen.inputs(pixels))
        targets.append((clean - seen.minimisers[0]).ravel()[pixels, None])
    return np.concatenate(inputs), np.concatenate(targets), sum(copy.size for copy in copies)


def smaller(image: np.ndarray, factor: float) -> np.ndarray:
    """``image`` (channels, h, w) with ``factor`` times fewer pixels on a side, what they cannot show filtered out."""
    smooth = gaussian_filter(image, (0, 0.4 * factor, 0.4 * factor), mode="reflect") if factor > 1 else image
    rows, columns = (np.arange(int(n / factor)) * factor + (factor - 1) / 2 for n in image.shape[1:])
    places = np.meshgrid(rows, columns, indexing="ij")
    return np.stack([map_coordinates(channel, places, np.float32, mode="reflect") for channel in smooth])
