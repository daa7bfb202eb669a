"""Restoration from random pixels: the same objective with u eliminated, seen through a few pixels and their neighbours.

For fixed g the minimum over u is a Huber function of the differences (alpha = 1):

    min_u beta/2 (u - d)^2 + lambda |u| = h(d),
    h(d) = beta/2 d^2 where |d| <= lambda/beta, else lambda |d| - lambda^2/(2 beta),

so the objective is a sum over pixels of their misfit and of h at their differences to the right and lower neighbour,
and random pixels give an unbiased gradient. This needs an operator that acts pixel by pixel: identity or mask.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..networks import AnyNetwork
from ..objectives import over_blocks


class Pixels(NamedTuple):
    """Rows of pixels with their right and lower neighbours; leading axes (rows, 3). ``known`` weighs the misfit."""

    features: Array  # (rows, 3, d)
    before: Array  # (rows, 3, channels)
    observed: Array  # (rows, channels)
    known: Array  # (rows,)
    scale: Array  # (rows,), epsilon_l repeated
    weight: Array  # (rows,), lambda
    beta: Array  # (rows,)


class PixelImage(NamedTuple):
    """The whole image by pixels; ``neighbours`` holds the indices of a pixel, its right and its lower neighbour.

    At the border a pixel is its own neighbour, which makes the difference 0, as B has it.
    """

    features: Array  # (pixels, d)
    before: Array  # (pixels, channels)
    observed: Array  # (pixels, channels)
    known: Array  # (pixels,)
    neighbours: Array  # (pixels, 3)
    scale: Array
    weight: Array
    beta: Array


def neighbours(height: int, width: int) -> Array:
    index = jnp.arange(height * width, dtype=jnp.int32).reshape(height, width)
    right = jnp.concatenate([index[:, 1:], index[:, -1:]], axis=1)
    below = jnp.concatenate([index[1:], index[-1:]], axis=0)
    return jnp.stack([index.ravel(), right.ravel(), below.ravel()], axis=1)


def take(data: PixelImage, rows: Array) -> Pixels:
    """The pixels at ``rows`` with their neighbours."""
    around = data.neighbours[rows]
    repeat = [jnp.broadcast_to(number, rows.shape) for number in (data.scale, data.weight, data.beta)]
    return Pixels(data.features[around], data.before[around], data.observed[rows], data.known[rows], *repeat)


def huber(difference: Array, weight: Array, beta: Array) -> Array:
    size = jnp.abs(difference)
    return jnp.where(size * beta <= weight, 0.5 * beta * size**2, weight * size - 0.5 * weight**2 / beta)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class PixelRestoration:
    """1/(P epsilon^2) sum over pixels of 1/2 known |f - g|^2 + h(right - here) + h(below - here).

    g = before + epsilon N. The paper's objective with u eliminated, divided by the number of pixels and by epsilon^2
    (our choice), so that one learning rate serves every image size and every grade.
    """

    network: AnyNetwork

    def init(self, params, data) -> tuple[()]:
        return ()

    def __call__(self, params, auxiliary: tuple[()], data: PixelImage | Pixels) -> tuple[Array, tuple[()]]:
        if isinstance(data, Pixels):
            return self._sum(params, data) / len(data.known), auxiliary
        rows = jnp.arange(len(data.known), dtype=jnp.int32)
        total = over_blocks(lambda block: self._sum(params, take(data, block)), rows, 4096)
        return total / len(data.known), auxiliary

    def value_and_grad(self, params, auxiliary: tuple[()], data: Pixels):
        return jax.value_and_grad(self.__call__, has_aux=True)(params, auxiliary, data)

    def _sum(self, params, data: Pixels) -> Array:
        rows = data.features.shape[0]
        values = self.network(params, data.features.reshape(rows * 3, -1)).reshape(rows, 3, -1)
        image = data.before + data.scale[:, None, None] * values
        misfit = 0.5 * data.known * jnp.sum((data.observed - image[:, 0]) ** 2, axis=-1)
        differences = image[:, 1:] - image[:, :1]
        variation = huber(differences, data.weight[:, None, None], data.beta[:, None, None])
        return jnp.sum((misfit + jnp.sum(variation, axis=(1, 2))) / data.scale**2)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class RandomPixels:
    """``size`` random pixels with their neighbours, drawn in the compiled loop."""

    size: int

    def draw(self, key: Array, data: PixelImage) -> Pixels:
        return take(data, jax.random.randint(key, (self.size,), 0, len(data.known)))
