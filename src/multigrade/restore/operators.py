"""Linear operators A on images: what happened to the picture before it was observed.

An operator is a frozen record, registered as a pytree. ``A(image)`` and ``A.adjoint(observed)`` take and return
pictures, (h, w) or (h, w, channels), each channel on its own. ``A.norm()`` is an upper bound on the largest singular
value over all image sizes (exact where the docstring says so). What depends on the operator is asked of it: whether it
is diagonal in the DCT basis (``eigenvalues``), where to start from (``start``), how far an image is from what was
observed (``distance``). Everything traces: operators may be called inside ``jit``, ``grad``, ``jvp`` and ``vmap``, in
the precision of the image.

    A = GaussianBlur(3.0)
    blurred = A(image)
    gradient = A.adjoint(A(image) - observed)        # of 1/2 ||A image - observed||^2

Recipes work on (..., h, w), any number of leading channel axes, with ``forward`` and ``backward``. Your own operator
needs no class: ``restore.invert`` takes any linear JAX function of a picture and makes a ``LinearFunction`` of it.
"""

import dataclasses
from typing import dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.ndimage import distance_transform_edt

STATIC = {"static": True}


class Operator:
    """A linear map of images, and what depends on it."""

    def forward(self, image: Array) -> Array:
        """A of (..., h, w)."""
        raise NotImplementedError

    def backward(self, observed: Array) -> Array:
        """A' of what ``forward`` returns."""
        raise NotImplementedError

    def norm(self) -> float | Array:
        """At least the largest singular value."""
        raise NotImplementedError

    def __call__(self, image: Array) -> Array:
        """A of a picture, (h, w) or (h, w, channels)."""
        return _as_picture(self.forward(_as_channels(image)), jnp.ndim(image))

    def adjoint(self, observed: Array) -> Array:
        """A' of an observed picture, (h, w) or (h, w, channels)."""
        return _as_picture(self.backward(_as_channels(observed)), jnp.ndim(observed))

    @property
    def spread(self) -> float:
        """By how many pixels a point is blurred: the standard deviation of what it becomes."""
        return 0.0

    def eigenvalues(self, shape: tuple[int, int]) -> np.ndarray | None:
        """E (h, w) with A = C' diag(E) C, where C is the orthonormal two-dimensional DCT-II; None if A is not so."""
        return None

    def diagonal(self, shape: tuple[int, ...]) -> np.ndarray:
        """The eigenvalues of an operator that must have them; ``shape`` is (..., h, w)."""
        if (found := self.eigenvalues((shape[-2], shape[-1]))) is None:
            raise ValueError(f"operator must be diagonal in the DCT basis, as a Gaussian blur is; got {self!r}")
        return found

    def start(self, observed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The image of this shape from which an iteration on min ||A x - observed|| sets out: zero."""
        return np.zeros(shape, np.float32)

    def plain(self, observed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """An image of this shape that takes the observation for the picture; where it is none, the start."""
        return observed if observed.shape == tuple(shape) else self.start(observed, shape)

    def distance(self, image: Array, observed: Array) -> Array:
        """Root mean square of what ``image`` leaves of the observation: A x - f."""
        return jnp.sqrt(jnp.mean((self.forward(image) - observed) ** 2))


def _as_channels(image: Array) -> Array:
    if jnp.ndim(image) not in (2, 3):
        raise ValueError(f"an image must be (h, w) or (h, w, channels); got shape {jnp.shape(image)}")
    return jnp.moveaxis(jnp.asarray(image), -1, 0) if jnp.ndim(image) == 3 else jnp.asarray(image)


def _as_picture(image: Array, ndim: int) -> Array:
    return jnp.moveaxis(image, 0, -1) if ndim == 3 else image


@dataclass_transform(frozen_default=True)
def record(cls):
    """A frozen dataclass that is a pytree: arrays are leaves, fields marked static are metadata."""
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True, eq=False)(cls))


@dataclass_transform(frozen_default=True)
def hashable_record(cls):
    """The same for an operator with static fields only, which compares and hashes by value."""
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True)(cls))


@hashable_record
class Identity(Operator):
    """A = I: denoising."""

    def forward(self, image: Array) -> Array:
        return image

    def backward(self, observed: Array) -> Array:
        return observed

    def norm(self) -> float:
        """Exact."""
        return 1.0

    def eigenvalues(self, shape: tuple[int, int]) -> np.ndarray:
        """All 1."""
        return np.ones(shape)


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


@hashable_record
class FirstDifferences:
    """B: forward differences, (..., h, w) to (..., 2, h, w); [0] down the columns, [1] along the rows (Appendix C).

    The last row of [0] and the last column of [1] are zero, so ||B x||_1 is the anisotropic total variation. B'B is
    diagonal in the DCT-II basis; ``normal_eigenvalues`` gives its diagonal.
    """

    def __call__(self, image: Array) -> Array:
        return jnp.stack([_difference(image, -2), _difference(image, -1)], axis=-3)

    def adjoint(self, image: Array) -> Array:
        return _difference_adjoint(image[..., 0, :, :], -2) + _difference_adjoint(image[..., 1, :, :], -1)

    def norm(self) -> float:
        """The supremum over all sizes, sqrt 8; for h x w pixels the square root of the largest normal eigenvalue."""
        return 8**0.5

    def normal_eigenvalues(self, shape: tuple[int, int]) -> np.ndarray:
        """L (h, w) with B'B = C' diag(L) C, where C is the orthonormal two-dimensional DCT-II."""
        along = [2 - 2 * np.cos(np.pi * np.arange(size) / size) for size in shape]
        return np.add.outer(*along)


def _difference(image: Array, axis: int) -> Array:
    return jnp.diff(image, axis=axis, append=jax.lax.slice_in_dim(image, -1, None, axis=axis))


def _difference_adjoint(image: Array, axis: int) -> Array:
    """-divergence along one axis: y_{i-1} - y_i, where the last y, which B leaves zero, does not count."""
    inner = jax.lax.slice_in_dim(image, 0, -1, axis=axis)
    zero = jnp.zeros_like(jax.lax.slice_in_dim(image, 0, 1, axis=axis))
    return -jnp.diff(inner, axis=axis, prepend=zero, append=zero)
