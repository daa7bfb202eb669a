"""Blurs, by a Gaussian and by any kernel."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .base import STATIC, Operator, hashable_record, record


class Blur(Operator):
    """What makes of a picture a picture of the same size."""

    def distance(self, image: Array, observed: Array) -> Array:
        """Root mean square of x - f: as in the authors' runs, the image is not blurred first."""
        return jnp.sqrt(jnp.mean((image - observed) ** 2))


@hashable_record
class GaussianBlur(Blur):
    """Convolution with the normalised Gaussian of standard deviation ``sigma`` pixels, truncated at 3 sigma.

    The kernel has (6 sigma + 1)^2 points and the image is continued by symmetric padding (numpy's ``symmetric``,
    scipy's ``reflect``), as in the paper's deblurring runs. A is then symmetric and diagonal in the DCT-II basis;
    ``eigenvalues`` gives its diagonal.

    Parameters
    ----------
    sigma : standard deviation of the blur in pixels, at least 0
    """

    sigma: float = dataclasses.field(metadata=STATIC)

    def __post_init__(self):
        if not 0 <= self.sigma < np.inf:
            raise ValueError(f"sigma must be a number of pixels of at least 0; got {self.sigma!r}")

    @property
    def spread(self) -> float:
        """sigma."""
        return self.sigma

    @property
    def weights(self) -> np.ndarray:
        """The one-dimensional kernel, float64, of 2 r + 1 points with r = 3 sigma, rounded."""
        radius = int(3 * self.sigma + 0.5)
        if radius == 0:
            return np.ones(1)
        kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / self.sigma) ** 2)
        return kernel / kernel.sum()

    def forward(self, image: Array) -> Array:
        # A is symmetric, so the gradient is A again and the overlapping blocks need never be added back together.
        # JAX's one public linear map with a transpose of its own that also serves jvp and vmap is the linear solve:
        # here "solving" with the inverse of A means applying A.
        return jax.lax.custom_linear_solve(lambda x: x, jnp.asarray(image), lambda _, x: self._apply(x), symmetric=True)

    def backward(self, observed: Array) -> Array:
        return self.forward(observed)

    def norm(self) -> float:
        """Exact: the constant image is an eigenvector, and no eigenvalue exceeds the sum of the weights."""
        return 1.0

    def eigenvalues(self, shape: tuple[int, int]) -> np.ndarray:
        """E (h, w) with A = C' diag(E) C, where C is the orthonormal two-dimensional DCT-II."""
        return np.outer(*(_filter_eigenvalues(self.weights, size) for size in shape))

    def _apply(self, image: Array) -> Array:
        return _filter_rows(_filter_columns(image, self.weights), self.weights)


# Measured at 512^2, 1024^2 (benchmarks/bench_imaging.py): products of overlapping blocks with one small banded matrix
# cost nearly the same for sigma 3 and 7; the DCT costs 5 to 10 times as much, a dense convolution 40 times with sigma 3
# and 130 times with sigma 7. Sums of shifted slices win for sigma 3 but lose their fusion beyond.
_BLOCK = 64


def _filter_columns(image: Array, weights: np.ndarray) -> Array:
    """Correlation with ``weights`` along axis -2, symmetric padding."""
    size, band = image.shape[-2], _band(weights, image.shape[-2], image.dtype)
    blocks = band @ _overlapping_blocks(image, len(weights) // 2, -2)
    return blocks.reshape(*image.shape[:-2], -1, image.shape[-1])[..., :size, :]


def _filter_rows(image: Array, weights: np.ndarray) -> Array:
    """Correlation with ``weights`` along axis -1, symmetric padding."""
    size, band = image.shape[-1], _band(weights, image.shape[-1], image.dtype)
    blocks = _overlapping_blocks(image, len(weights) // 2, -1) @ band.T
    return blocks.reshape(*image.shape[:-1], -1)[..., :size]


def _band(weights: np.ndarray, size: int, dtype) -> Array:
    """(b, b + 2 r): row i holds the weights from column i on."""
    block = min(_BLOCK, size)
    rows = [np.pad(weights, (i, block - 1 - i)) for i in range(block)]
    return jnp.asarray(np.stack(rows), dtype)


def _overlapping_blocks(image: Array, radius: int, axis: int) -> Array:
    """Blocks of b + 2 r pixels every b pixels along ``axis`` of the padded image, stacked just before that axis."""
    size = image.shape[axis]
    block = min(_BLOCK, size)
    starts = range(0, size, block)
    padding = [(0, 0)] * image.ndim
    # The last block may reach beyond the image: what is computed there is cut off.
    padding[axis] = (radius, radius + len(starts) * block - size)
    padded = jnp.pad(image, padding, mode="symmetric")
    parts = [jax.lax.slice_in_dim(padded, s, s + block + 2 * radius, axis=axis) for s in starts]
    return jnp.stack(parts, axis=-3 if axis == -2 else -2)


def _filter_eigenvalues(weights: np.ndarray, size: int) -> np.ndarray:
    """k_0 + 2 sum_j k_j cos(pi m j / n), m = 0..n-1: a symmetric filter with symmetric padding in the DCT-II basis."""
    radius = len(weights) // 2
    angle = np.pi / size * np.outer(np.arange(size), np.arange(1, radius + 1))
    return weights[radius] + 2 * np.cos(angle) @ weights[radius + 1 :]


@record
class KernelBlur(Blur):
    """Convolution with any ``kernel`` (odd, odd), symmetric padding; scipy.ndimage.convolve with mode ``reflect``.

    The kernel is used as given: not normalised, symmetric or not. Even sizes are refused, for they have no centre
    pixel and would shift the image by half a pixel. Computed by FFT, whose cost hardly depends on the kernel's size.

    Parameters
    ----------
    kernel : array of two odd sizes
    """

    kernel: Array

    def __post_init__(self):
        shape = getattr(self.kernel, "shape", None)
        # JAX rebuilds pytrees with placeholders as leaves; only arrays can be checked.
        if shape is not None and (len(shape) != 2 or shape[0] % 2 == 0 or shape[1] % 2 == 0):
            raise ValueError(f"kernel must be two-dimensional with odd sizes; got shape {shape}")

    def forward(self, image: Array) -> Array:
        (top, left), shape = self._radii, image.shape[-2:]
        padding = [(0, 0)] * (image.ndim - 2) + [(top, top), (left, left)]
        padded = jnp.pad(image, padding, mode="symmetric")
        sizes = padded.shape[-2:]
        kernel = jnp.asarray(self.kernel, image.dtype)
        # Only the part untouched by the cyclic wrap is kept, so no zeros need to be appended.
        product = jnp.fft.rfft2(padded) * jnp.fft.rfft2(kernel, s=sizes)
        full = jnp.fft.irfft2(product, s=sizes)
        return full[..., 2 * top : 2 * top + shape[0], 2 * left : 2 * left + shape[1]]

    def backward(self, observed: Array) -> Array:
        image = jax.ShapeDtypeStruct(observed.shape, observed.dtype)
        (adjoint,) = jax.linear_transpose(self.forward, image)(observed)
        return adjoint

    def norm(self) -> Array:
        """Bound sum |k|, times sqrt 2 for each axis along which the kernel is not even.

        Each row of |A| sums to at most sum |k|; each column too if the kernel is even, else to twice that per axis,
        because padding repeats pixels: the shift by one pixel has norm sqrt 2, not 1.
        """
        kernel = jnp.asarray(self.kernel)
        is_uneven = [jnp.any(kernel != jnp.flip(kernel, axis)) for axis in (0, 1)]
        return jnp.abs(kernel).sum() * 2 ** ((is_uneven[0] + 0.0 + is_uneven[1]) / 2)

    @property
    def _radii(self) -> tuple[int, int]:
        return self.kernel.shape[0] // 2, self.kernel.shape[1] // 2
