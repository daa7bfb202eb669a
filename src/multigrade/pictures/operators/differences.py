"""First differences, of which total variation is the sum."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .base import hashable_record


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
