"""Grades taught by Stein's unbiased estimate of the square error: no clean picture is needed.

For f = x + noise of variance s^2 and an estimate g of x that depends on f, the mean over the noise of

    (f_p - g_p)^2 + 2 s^2 dg_p/df_p - s^2

is that of (x_p - g_p)^2. The derivative is one forward derivative of the network, along the direction in which its
inputs move with f_p (``surroundings``).
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ...model import Grade
from ...networks import AnyNetwork
from ...training.grades import GradeProblem, absorb_moments, moments, zero_output
from ..graded.target import NUM_MOMENTS, NUM_WATCHED, SLICE, spread
from .surroundings import Surroundings, surroundings

HELD_OUT = 16  # one pixel in so many judges and does not teach
RESIDUAL = 0.3  # epsilon of every grade, in units of the noise: about what a minimiser is wrong by; our choice


class RowsWithSlopes(NamedTuple):
    """What a grade learns from: inputs, how they move with the pixel's noisy value, what is left of that value."""

    inputs: Array
    slopes: Array
    targets: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class EstimatedRisk:
    """1/(2P) sum (r_p - N(x_p))^2 + v/P sum dN_p/df_p: half of Stein's estimate, up to a constant."""

    variance: Array  # v, in units of the targets
    network: AnyNetwork = dataclasses.field(metadata={"static": True})

    def init(self, params, data: RowsWithSlopes) -> tuple[()]:
        return ()

    def __call__(self, params, auxiliary: tuple[()], data: RowsWithSlopes) -> tuple[Array, tuple[()]]:
        output, slope = jax.jvp(lambda x: self.network(params, x), (data.inputs,), (data.slopes,))
        return 0.5 * jnp.mean((data.targets - output) ** 2) + self.variance * jnp.mean(slope), auxiliary

    def value_and_grad(self, params, auxiliary: tuple[()], data: RowsWithSlopes):
        return jax.value_and_grad(self.__call__, has_aux=True)(params, auxiliary, data)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RandomSurroundings:
    """``size`` random pixels with what surrounds them, through the frozen grades; drawn in the compiled loop."""

    around: Surroundings
    grades: tuple[Grade, ...]
    mean: Array
    deviation: Array
    residual: Array  # (pixels,)
    held_out: Array  # one pixel of every HELD_OUT in a row
    size: int = dataclasses.field(metadata={"static": True})

    def draw(self, key: Array, data: RowsWithSlopes) -> RowsWithSlopes:
        held_out = jax.random.choice(key, self.held_out, (self.size,))
        further = held_out + jax.random.randint(jax.random.fold_in(key, 1), (self.size,), 1, HELD_OUT)
        return self.at(held_out - held_out % HELD_OUT + further % HELD_OUT)

    def at(self, pixels: Array) -> RowsWithSlopes:
        x, dx = frozen(self.around, self.grades, pixels)
        return RowsWithSlopes((x - self.mean) / self.deviation, dx / self.deviation, self.residual[pixels, None])


def frozen(around: Surroundings, grades: tuple[Grade, ...], pixels: Array) -> tuple[Array, Array]:
    """What the grades make of the inputs of these pixels, and how it moves with the pixel's noisy value."""
    x, dx = around(pixels)
    for grade in grades:
        x, dx = jax.jvp(lambda x, g=grade: g.network.hidden(g.params, x), (x,), (dx,))
    return x, dx


@dataclasses.dataclass(frozen=True)
class RiskTask:
    """What the grades so far leave to do, for every pixel and channel."""

    around: Surroundings
    observed: Array  # (pixels,)
    image: Array  # (pixels,)
    slopes: Array  # (pixels,) of the image, in the pixel's noisy value
    noise: float
    batch_sizes: tuple[int, ...]
    held_out: Array
    grades: tuple[Grade, ...] = ()

    @classmethod
    def of(cls, observed: np.ndarray, noise: float, batch_sizes: tuple[int, ...], minimisers=()) -> "RiskTask":
        around = surroundings(observed, noise, minimisers)
        image, slopes = around.mixed(jnp.arange(observed.size))
        # A random one of every HELD_OUT: always the first would be the same few columns, the edge among them.
        groups = max(observed.size // HELD_OUT, 1)
        places = np.random.default_rng(2**32 + 2).integers(0, min(HELD_OUT, observed.size), groups)
        held_out = jnp.asarray(HELD_OUT * np.arange(groups) + places, jnp.int32)
        return cls(around, jnp.asarray(observed.ravel()), image, slopes, noise, batch_sizes, held_out)

    def problem(self, network: AnyNetwork, index: int) -> GradeProblem:
        scale = jnp.float32(RESIDUAL * self.noise)
        mean, deviation = moments(frozen(self.around, self.grades, spread(len(self.image), NUM_MOMENTS))[0])
        residual = (self.observed - self.image) / scale
        sampler = RandomSurroundings(
            self.around, self.grades, mean, deviation, residual, self.held_out, self.batch_sizes[index]
        )
        held_out = self.held_out[spread(len(self.held_out), NUM_WATCHED)]
        return GradeProblem(
            EstimatedRisk(jnp.float32(self.noise**2) / scale, network),
            sampler.at(spread(len(self.image), NUM_WATCHED)),
            scale,
            scale**2,
            validation=sampler.at(held_out),
            sampler=sampler,
            start=zero_output,
            finish=absorb_moments(mean, deviation),
        )

    def after(self, grade: Grade, auxiliary) -> "RiskTask":
        starts = range(0, len(self.image), SLICE)
        parts = [jnp.arange(start, min(start + SLICE, len(self.image)), dtype=jnp.int32) for start in starts]
        added = [_added(self.around, self.grades, grade, part) for part in parts]
        image, slopes = (jnp.concatenate(part) for part in zip(*added, strict=True))
        grades = (*self.grades, grade)
        return dataclasses.replace(self, image=self.image + image, slopes=self.slopes + slopes, grades=grades)

    def risks(self) -> np.ndarray:
        """Stein's estimate of the square error of each pixel held out."""
        apart = (self.observed - self.image)[self.held_out] ** 2
        return np.asarray(apart + self.noise**2 * (2 * self.slopes[self.held_out] - 1), np.float64)


@jax.jit
def _added(around: Surroundings, grades: tuple[Grade, ...], grade: Grade, pixels: Array) -> tuple[Array, Array]:
    output, slope = jax.jvp(
        lambda x: grade.network(grade.params, x), *[(part,) for part in frozen(around, grades, pixels)]
    )
    return grade.scale * output[:, 0], grade.scale * slope[:, 0]
