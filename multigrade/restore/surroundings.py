"""The ``best`` recipe for denoising: grades on what surrounds a pixel instead of where it is.

A pixel's inputs are noisy values around it, at five scales, and around it six minimisers z of the variational
objective: of first and of second differences, each with a weak, a middling and a strong lambda. The grades add to a
mixture of the z what lowers Stein's unbiased estimate of the square error,

    (f_p - g_p)^2 + 2 s^2 dg_p/df_p - s^2,

so no clean picture is needed; the same estimate chooses the mixture. The derivative is one forward derivative of the
network, along the direction in which its inputs move with f_p: known for the noisy values, which are linear in f; for
the minimisers found from one random probe, dz_p/df_p ~ b_p (z(f + t b) - z(f))_p / t with b of random signs, right on
average.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.ndimage import gaussian_filter, gaussian_filter1d

from ..model import Grade
from ..networks import AnyNetwork
from ..training.grades import GradeProblem, absorb_moments, moments, zero_output
from .operators import Identity
from .simplex import simplex_quadratic
from .strengths import EDGE, PROBE, for_denoising
from .target import NUM_MOMENTS, NUM_WATCHED, SLICE, spread
from .variational import solve

SCALES = ((1, 3, 0.0), (2, 2, 1.0), (4, 2, 2.0), (8, 2, 4.0), (16, 1, 8.0))  # spacing, radius, blur of noisy values
# Order of differences, lambda over the chosen one, lambda / beta, radius of what is seen around the pixel.
MINIMISERS = (
    (1, 0.55, EDGE, 1), (1, 1.0, EDGE, 2), (1, 1.8, EDGE, 1),
    (2, 0.25, EDGE / 4, 1), (2, 0.5, EDGE / 4, 2), (2, 1.0, EDGE / 4, 1),
)  # fmt: skip
MARGIN = 16
FAR = 64  # from here on no blur above reaches
HELD_OUT = 16  # one pixel in so many judges and does not teach
RESIDUAL = 0.3  # epsilon of every grade, in units of the noise: about what a minimiser is wrong by


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Surroundings:
    """Inputs of any pixels, and how they move with the pixel's own noisy value, gathered from padded images."""

    values: Array  # all images, flat
    slopes: Array  # of the same size: b (z(f + t b) - z(f)) / t for the minimisers
    places: Array  # (pixels,) of the pixels in the first image
    signs: Array  # (pixels,) b
    offsets: Array  # (inputs,)
    row_slopes: Array  # (h, inputs), times column_slopes (w, inputs): of the noisy values; nan for the minimisers
    column_slopes: Array
    centres: Array  # (minimisers,) offsets of the pixel in them
    mixture: Array  # (minimisers,) weights of least estimated risk

    def __call__(self, pixels: Array) -> tuple[Array, Array]:
        z, dz = self.mixed(pixels)
        places = self.places[pixels, None] + self.offsets
        height, width = len(self.row_slopes), len(self.column_slopes)
        known = self.row_slopes[pixels // width % height] * self.column_slopes[pixels % width]
        slopes = jnp.where(jnp.isnan(known), self.slopes[places] * self.signs[pixels, None], known)
        x, dx = self.values[places] - z[:, None], slopes - dz[:, None]
        return jnp.concatenate([x, z[:, None]], axis=1), jnp.concatenate([dx, dz[:, None]], axis=1)

    def mixed(self, pixels: Array) -> tuple[Array, Array]:
        """The minimisers' mixture, which the grades improve upon."""
        places = self.places[pixels, None] + self.centres
        return self.values[places] @ self.mixture, self.slopes[places] @ self.mixture * self.signs[pixels]

    @property
    def num_inputs(self) -> int:
        return len(self.offsets) + 1


def surroundings(observed: np.ndarray, noise: float) -> Surroundings:
    """Of every pixel and channel of ``observed`` (channels, h, w), with this noise on the unit scale."""
    channels, height, width = observed.shape
    signs = np.random.default_rng(2**32 + 1).choice(np.float32([-1, 1]), observed.shape)
    step, weight = np.float32(PROBE * noise), for_denoising(observed, noise).weight
    values, slopes, offsets, row_slopes, column_slopes = [], [], [], [], []
    padded = (height + 2 * MARGIN) * (width + 2 * MARGIN) * channels

    def add(image, slope, spacing, radius, blur):
        reach = spacing * np.arange(-radius, radius + 1)
        rows, columns = (grid.ravel() for grid in np.meshgrid(reach, reach, indexing="ij"))
        offsets.append(len(values) * padded + rows * (width + 2 * MARGIN) + columns)
        row_slopes.append(_slopes(height, rows, blur))
        column_slopes.append(_slopes(width, columns, blur))
        values.append(_padded(image))
        slopes.append(_padded(slope))

    for spacing, radius, blur in SCALES:
        add(gaussian_filter(observed, (0, blur, blur)), observed, spacing, radius, blur)
    minimisers, divergences = [], []
    for order, factor, edge, radius in MINIMISERS:
        strengths = factor * weight, factor * weight / edge
        image, moved = (
            solve(f, Identity(), *strengths, order=order, iterations=40) for f in (observed, observed + step * signs)
        )
        slope = (moved - image) / step
        minimisers.append(image)
        divergences.append(np.mean(slope * signs, dtype=np.float64))
        add(image, slope, 1, radius, None)
    rows = (np.arange(height) + MARGIN)[:, None] * (width + 2 * MARGIN) + np.arange(width) + MARGIN
    places = np.arange(channels)[:, None, None] * (padded // channels) + rows
    return Surroundings(
        jnp.asarray(np.concatenate(values), jnp.float32),
        jnp.asarray(np.concatenate(slopes), jnp.float32),
        jnp.asarray(places.ravel(), jnp.int32),
        jnp.asarray(signs.ravel()),
        jnp.asarray(np.concatenate(offsets), jnp.int32),
        jnp.asarray(np.concatenate(row_slopes, axis=1), jnp.float32),
        jnp.asarray(np.concatenate(column_slopes, axis=1), jnp.float32),
        jnp.arange(len(SCALES), len(SCALES) + len(MINIMISERS), dtype=jnp.int32) * padded,
        jnp.asarray(least_risk(minimisers, divergences, observed, noise), jnp.float32),
    )


def least_risk(images: list[np.ndarray], divergences: list[float], observed: np.ndarray, noise: float) -> np.ndarray:
    """Weights, none negative and of sum 1, whose mixture of ``images`` has the least of Stein's estimate.

    That is w'Mw + 2 s^2 d'w, with M the mean products of what the images leave of ``observed`` and d their mean slopes.
    """
    apart = np.stack([np.ravel(image - observed) for image in images]).astype(np.float64)
    return simplex_quadratic(apart @ apart.T / observed.size, noise**2 * np.asarray(divergences))


def _slopes(size: int, offsets: np.ndarray, blur: float | None) -> np.ndarray:
    """(size, offsets): how the blurred line moves at each offset from a pixel with that pixel's own value.

    Beyond the ends the line is reflected, and near them a pixel meets itself. NaN where it is not known.
    """
    if blur is None:
        return np.full((size, len(offsets)), np.nan)
    short = min(size, 2 * FAR + 1)  # whatever is far from both ends is like its middle
    response = np.eye(short) if blur == 0 else gaussian_filter1d(np.eye(short), blur, axis=0)
    places = np.pad(np.arange(short), MARGIN, mode="symmetric")[np.arange(short)[:, None] + MARGIN + offsets]
    slopes = response[places, np.arange(short)[:, None]]
    pixels = np.arange(size)
    return slopes[np.where(pixels < FAR, pixels, np.maximum(pixels - size + short, min(FAR, short - 1)))]


def _padded(image: np.ndarray) -> np.ndarray:
    return np.pad(image, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN)), mode="symmetric").ravel()


class Movable(NamedTuple):
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

    def init(self, params, data: Movable) -> tuple[()]:
        return ()

    def __call__(self, params, auxiliary: tuple[()], data: Movable) -> tuple[Array, tuple[()]]:
        output, slope = jax.jvp(lambda x: self.network(params, x), (data.inputs,), (data.slopes,))
        return 0.5 * jnp.mean((data.targets - output) ** 2) + self.variance * jnp.mean(slope), auxiliary

    def value_and_grad(self, params, auxiliary: tuple[()], data: Movable):
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

    def draw(self, key: Array, data: Movable) -> Movable:
        held_out = jax.random.choice(key, self.held_out, (self.size,))
        further = held_out + jax.random.randint(jax.random.fold_in(key, 1), (self.size,), 1, HELD_OUT)
        return self.at(held_out - held_out % HELD_OUT + further % HELD_OUT)

    def at(self, pixels: Array) -> Movable:
        x, dx = frozen(self.around, self.grades, pixels)
        return Movable((x - self.mean) / self.deviation, dx / self.deviation, self.residual[pixels, None])


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
    def of(cls, observed: np.ndarray, noise: float, batch_sizes: tuple[int, ...]) -> "RiskTask":
        around = surroundings(observed, noise)
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
