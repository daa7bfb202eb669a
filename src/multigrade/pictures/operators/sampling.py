"""Pixels that are missing, and pixels that are means of smaller ones."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.ndimage import distance_transform_edt

from .base import STATIC, Operator, hashable_record, record


@record
class Mask(Operator):
    """Keeps the pixels where ``keep`` is true and sets the others to 0: inpainting.

    Parameters
    ----------
    keep : array (h, w), nonzero where a pixel is known
    """

    keep: Array

    def __post_init__(self):
        if isinstance(self.keep, np.ndarray) and (self.keep.ndim != 2 or not self.keep.any()):
            kept = f"{int(np.count_nonzero(self.keep))} of its pixels kept"
            raise ValueError(f"keep must be (h, w) and true somewhere; got shape {self.keep.shape}, {kept}")

    def forward(self, image: Array) -> Array:
        if image.shape[-2:] != self.keep.shape:
            raise ValueError(f"the mask is for images of size {self.keep.shape}; got size {image.shape[-2:]}")
        return jnp.where(self.keep, image, 0)

    def backward(self, observed: Array) -> Array:
        return self.forward(observed)

    def norm(self) -> float:
        """Exact, as some pixel is kept."""
        return 1.0

    def start(self, observed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """What is known, continued to the nearest pixels: from zero a wide hole is not filled in a few steps."""
        missing = np.asarray(self.keep) == 0
        rows, columns = np.asarray(distance_transform_edt(missing, return_distances=False, return_indices=True))
        return observed[..., rows, columns]

    def distance(self, image: Array, observed: Array) -> Array:
        """Root mean square over the known pixels."""
        left = self.forward(image) - observed
        return jnp.sqrt(jnp.sum(left**2) / (len(left) * jnp.sum(self.keep)))


@hashable_record
class BlockAverage(Operator):
    """Means over blocks of ``factor`` x ``factor`` pixels of images of size ``shape``: what upsampling undoes.

    Where the factor does not divide a size, the last blocks are smaller and their means are over the pixels they
    have: the result has ceil(h / factor) x ceil(w / factor) pixels.

    Parameters
    ----------
    factor : pixels on a side of a block, at least 1
    shape : (h, w) of the large image
    """

    factor: int = dataclasses.field(metadata=STATIC)
    shape: tuple[int, int] = dataclasses.field(metadata=STATIC)

    def __post_init__(self):
        if not isinstance(self.factor, int) or self.factor < 1:
            raise ValueError(f"factor must be an integer of at least 1; got {self.factor!r}")
        if len(self.shape) != 2 or min(self.shape) < 1:
            raise ValueError(f"shape must be (h, w), both at least 1; got {self.shape!r}")

    @property
    def output_shape(self) -> tuple[int, int]:
        h, w = self.shape
        return -(-h // self.factor), -(-w // self.factor)

    def forward(self, image: Array) -> Array:
        if image.shape[-2:] != self.shape:
            raise ValueError(f"shape says images of size {self.shape}; got size {image.shape[-2:]}")
        rows, columns = self.output_shape
        missing = [(0, self.factor * blocks - size) for blocks, size in zip((rows, columns), self.shape, strict=True)]
        padded = jnp.pad(image, [(0, 0)] * (image.ndim - 2) + missing)
        blocks = padded.reshape(*image.shape[:-2], rows, self.factor, columns, self.factor)
        return blocks.sum((-3, -1)) / jnp.asarray(self._counts, blocks.dtype)

    def backward(self, observed: Array) -> Array:
        spread = observed / jnp.asarray(self._counts, observed.dtype)
        repeated = spread.repeat(self.factor, -2).repeat(self.factor, -1)
        return repeated[..., : self.shape[0], : self.shape[1]]

    def norm(self) -> float:
        """Exact: A A' = diag(1 / pixels in the block)."""
        return float(self._counts.min() ** -0.5)

    def plain(self, observed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Every block of one value."""
        repeated = observed.repeat(self.factor, axis=-2).repeat(self.factor, axis=-1)
        return repeated[..., : shape[-2], : shape[-1]]

    @property
    def _counts(self) -> np.ndarray:
        """Pixels in each block."""
        starts = [np.arange(0, size, self.factor) for size in self.shape]
        return np.outer(*(np.minimum(self.factor, size - s) for s, size in zip(starts, self.shape, strict=True)))
