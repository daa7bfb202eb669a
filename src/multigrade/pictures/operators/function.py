"""Any linear JAX function of a picture as an operator: no class, no adjoint by hand.

The adjoint is the function's transpose, which JAX derives from the function itself (``jax.linear_transpose``). The
function is divided by its norm, found by a power iteration, so that one rule for the strength of a prior serves all.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .base import STATIC, Operator, hashable_record

NORM_STEPS = 30  # of the power iteration; our choice


@hashable_record
class LinearFunction(Operator):
    """Any linear JAX function of a picture, over ``scale``: the adjoint is its transpose, the norm about 1.

    Parameters
    ----------
    function : callable
        Takes a picture of ``shape``, (h, w) or (h, w, channels), and returns an array of any shape.
    shape : tuple of int
        That of the picture.
    scale : float
        What the function is divided by: its norm, so that one rule for the strength of a prior serves all.
    """

    function: Callable[[Array], Array] = dataclasses.field(metadata=STATIC)
    shape: tuple[int, ...] = dataclasses.field(metadata=STATIC)
    scale: float = dataclasses.field(metadata=STATIC)

    @classmethod
    def of(cls, function: Callable, shape: tuple[int, ...]) -> "LinearFunction":
        """Checks the function at random pictures, and finds its norm; ValueError if it is not linear."""
        one = cls(function, tuple(int(size) for size in shape), 1.0)
        first, second = np.random.default_rng(0).standard_normal((2, *one.image_shape)).astype(np.float32)
        parts = [np.asarray(one.forward(jnp.asarray(image))) for image in (first, second, first - 2 * second)]
        size = max(float(np.abs(part).max(initial=0)) for part in parts)
        if not (np.isfinite(size) and np.abs(parts[0] - 2 * parts[1] - parts[2]).max(initial=0) <= 1e-4 * size):
            raise ValueError("operator must be linear: at random pictures, A(x - 2 y) is not A(x) - 2 A(y)")
        norm = one._power_iteration(jnp.asarray(first))
        if not norm > 0:
            raise ValueError("operator must not be zero; it makes every picture 0")
        return dataclasses.replace(one, scale=norm)

    def forward(self, image: Array) -> Array:
        picture = jnp.moveaxis(image, 0, -1) if len(self.shape) == 3 else image[0]
        return self.function(picture) / self.scale

    def backward(self, observed: Array) -> Array:
        image = jax.ShapeDtypeStruct(self.image_shape, observed.dtype)
        return jax.linear_transpose(self.forward, image)(observed)[0]

    def norm(self) -> float:
        """About 1, from below: the scale comes from a power iteration."""
        return 1.0

    @property
    def num_channels(self) -> int:
        return self.shape[2] if len(self.shape) == 3 else 1

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, h, w): the layout in which recipes work."""
        return self.num_channels, self.shape[0], self.shape[1]

    def _power_iteration(self, image: Array) -> float:
        @jax.jit
        def step(_, image):
            moved = self.backward(self.forward(image))
            return moved / jnp.maximum(jnp.linalg.norm(moved.ravel()), jnp.finfo(moved.dtype).tiny)

        image = jax.lax.fori_loop(0, NORM_STEPS, step, image)
        return float(jnp.linalg.norm(self.forward(image).ravel()))
