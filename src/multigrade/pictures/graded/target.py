"""Grades fitted to a target image by random pixels, a few thousand a step.

    grade l minimises 1/(2 P) sum over pixels |(t_p - g_p) / epsilon_l - N_l(x_p)|^2,   g the image of earlier grades

A step sees pixels drawn the more often the larger the residual that the grade starts from, weighted so that the
expected loss stays the same. What one grade leaves over sits on edges and fine texture, so these draws carry less
noise: as much as two or three times as many uniform ones.

The features x_p that earlier grades give a pixel are kept for all pixels, or, where they would not fit in memory,
computed again for the pixels of each batch. They are standardised for training and the shift and scale absorbed into
the weights afterwards, so the model is a plain MultiGrade on coordinates.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ...model import Grade, apply_grade
from ...networks import AnyNetwork
from ...training.grades import GradeProblem, absorb_moments, moments, zero_output
from ...training.objectives import LeastSquares, Rows

KEPT_BYTES = 2**31  # features beyond this are computed when they are needed
NUM_WATCHED = 2**14  # losses are recorded on so many pixels, spread evenly
NUM_MOMENTS = 2**16  # and the features' means and deviations come from so many
SLICE = 2**16  # pixels at a time, so that memory is bounded
UNIFORM = 0.3  # share of the draws that fall on all pixels alike
REPEATS = 4  # of a pixel in the pool that draws are made from, on average; above 1 / UNIFORM, so that none is left out


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PixelFeatures:
    """x_l of any pixels: ``grades`` applied to the rows of ``base``, which holds what is kept for every pixel."""

    base: Array  # (pixels, d)
    grades: tuple[Grade, ...] = ()

    def __call__(self, pixels: Array) -> Array:
        x = self.base[pixels]
        for grade in self.grades:
            x = grade.network.hidden(grade.params, x)
        return x


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RandomPixels:
    """``size`` random entries of ``pool``, drawn in the compiled loop; rows for least squares."""

    features: PixelFeatures
    mean: Array
    deviation: Array
    residual: Array  # (pixels, channels)
    pool: Array  # pixels, each as often as it is to be drawn relative to others
    weights: Array  # (pixels,) one over that number
    size: int = dataclasses.field(metadata={"static": True})

    def draw(self, key: Array, data: Rows) -> Rows:
        """``data`` is what the loop records losses on; the batch does not depend on it."""
        pixels = self.pool[jax.random.randint(key, (self.size,), 0, len(self.pool))]
        return self.at(pixels)._replace(weights=self.weights[pixels])

    def at(self, pixels: Array) -> Rows:
        return Rows((self.features(pixels) - self.mean) / self.deviation, self.residual[pixels])


@dataclasses.dataclass(frozen=True)
class TargetTask:
    """What the grades so far leave to do. Pixels run row by row; ``among`` holds those to learn from, None for all."""

    features: PixelFeatures
    image: Array  # (pixels, channels)
    target: Array  # (pixels, channels)
    batch_sizes: tuple[int, ...]  # pixels a step sees, for each grade
    among: Array | None = None
    held_out: Array | None = None

    def problem(self, network: AnyNetwork, index: int) -> GradeProblem:
        residual = self.target - self.image
        learned = residual if self.among is None else residual[self.among]
        scale = jnp.sqrt(jnp.mean(learned**2)) if index else jnp.float32(1)
        scale = jnp.where(scale > 0, scale, 1)
        mean, deviation = moments(self.features(self._spread(self.among, NUM_MOMENTS)))
        pool, weights = _pool(residual if index else jnp.ones_like(residual), self.among)
        sampler = RandomPixels(self.features, mean, deviation, residual / scale, pool, weights, self.batch_sizes[index])
        return GradeProblem(
            LeastSquares(network),
            sampler.at(self._spread(self.among, NUM_WATCHED)),
            scale,
            scale**2,
            validation=None if self.held_out is None else sampler.at(self._spread(self.held_out, NUM_WATCHED)),
            sampler=sampler,
            start=zero_output if index else lambda params: params,
            finish=absorb_moments(mean, deviation),
        )

    def _spread(self, among: Array | None, count: int) -> Array:
        """At most ``count`` of the pixels, evenly spread over them."""
        return spread(len(self.image), count) if among is None else among[spread(len(among), count)]

    def after(self, grade: Grade, auxiliary) -> "TargetTask":
        num_pixels, num_features = len(self.image), jax.tree.leaves(grade.params[-1])[0].shape[0]
        is_kept = 4 * num_pixels * num_features <= KEPT_BYTES
        added, features = [], []
        for start in range(0, num_pixels, SLICE):
            part = jnp.arange(start, min(start + SLICE, num_pixels), dtype=jnp.int32)
            output, hidden = _apply(self.features, grade, part)
            added.append(output)
            features += [hidden] if is_kept else []
        grown = PixelFeatures(self.features.base, (*self.features.grades, grade))
        kept = PixelFeatures(jnp.concatenate(features)) if is_kept else grown
        return dataclasses.replace(self, features=kept, image=self.image + jnp.concatenate(added))


def _pool(residual, among) -> tuple[Array, Array]:
    """Pixels repeated in proportion to UNIFORM + (1 - UNIFORM) |residual| / mean |residual|; one over the repeats.

    Its length depends on the number of pixels alone, so that all grades run the same program. Every pixel is there.
    """
    pixels = np.arange(len(residual)) if among is None else np.asarray(among)
    size = np.abs(np.asarray(residual, np.float64)[pixels]).mean(axis=1)
    share = UNIFORM + (1 - UNIFORM) * size / size.mean() if size.any() else np.ones(len(pixels))
    ends = np.cumsum(share) / share.sum()
    pool = pixels[np.searchsorted(ends, (np.arange(REPEATS * len(pixels)) + 0.5) / (REPEATS * len(pixels)))]
    repeats = np.bincount(pool, minlength=len(residual))
    weights = np.divide(1, repeats, out=np.zeros(len(residual)), where=repeats > 0)
    return jnp.asarray(pool, jnp.int32), jnp.asarray(weights, jnp.float32)


@jax.jit
def _apply(features: PixelFeatures, grade: Grade, pixels: Array) -> tuple[Array, Array]:
    return apply_grade(grade, features(pixels))


def spread(count: int, most: int) -> Array:
    """At most ``most`` of ``count`` places, evenly spread."""
    return jnp.linspace(0, count - 1, min(count, most)).astype(jnp.int32)
