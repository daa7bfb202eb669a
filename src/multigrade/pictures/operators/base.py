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
