"""Grades on what surrounds a pixel instead of where it is: the ``best`` recipe.

Denoising. A pixel's inputs are noisy values around it, at five scales, and around it three minimisers z of the
variational objective, of weak, chosen and strong lambda. The grades add to the middle z what lowers Stein's unbiased
estimate of the square error,

    (f_p - g_p)^2 + 2 s^2 dg_p/df_p - s^2,

so no clean picture is needed. The derivative is one forward derivative of the network, along the direction in which its
inputs move with f_p: known for the noisy values, which are linear in f; for the minimisers found from one random probe,
dz_p/df_p ~ b_p (z(f + t b) - z(f))_p / t with b of random signs, right on average.

Regression. The known pixels, every second one, are themselves an image of half the size: from every second of them the
grades learn what bilinear interpolation misses, and then do it to the known pixels.

Deblurring. A smaller copy of the minimiser z is as sharp, for its size, as the image that is sought. Copies are
blurred, made noisy and restored as the observation was; the grades learn what z misses of a copy, and then do it to z.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.ndimage import gaussian_filter, gaussian_filter1d, map_coordinates
from scipy.optimize import nnls

from ..model import Grade
from ..networks import AnyNetwork
from ..training.grades import GradeProblem, absorb_moments, moments, zero_output
from .operators import GaussianBlur, Identity
from .strengths import EDGE, PROBE, Strengths, for_denoising
from .target import NUM_MOMENTS, NUM_WATCHED, SLICE
from .variational import dct, idct, solve

SCALES = ((1, 3, 0.0), (2, 2, 1.0), (4, 2, 2.0), (8, 2, 4.0), (16, 1, 8.0))  # spacing, radius, blur of noisy values
MINIMISERS = ((0.55, 1), (1.0, 2), (1.8, 1))  # lambda over the chosen one, radius; the middle one is improved upon
MIDDLE = 1
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
    centre: Array  # offset of the pixel in the middle minimiser

    def __call__(self, pixels: Array) -> tuple[Array, Array]:
        z, dz = self.middle(pixels)
        places = self.places[pixels, None] + self.offsets
        height, width = len(self.row_slopes), len(self.column_slopes)
        known = self.row_slopes[pixels // width % height] * self.column_slopes[pixels % width]
        slopes = jnp.where(jnp.isnan(known), self.slopes[places] * self.signs[pixels, None], known)
        x, dx = self.values[places] - z[:, None], slopes - dz[:, None]
        return jnp.concatenate([x, z[:, None]], axis=1), jnp.concatenate([dx, dz[:, None]], axis=1)

    def middle(self, pixels: Array) -> tuple[Array, Array]:
        place = self.places[pixels] + self.centre
        return self.values[place], self.slopes[place] * self.signs[pixels]

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
    for factor, radius in MINIMISERS:
        strengths = factor * weight, factor * weight / EDGE
        image, moved = (solve(f, Identity(), *strengths, iterations=40) for f in (observed, observed + step * signs))
        add(image, (moved - image) / step, 1, radius, None)
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
        jnp.int32((len(SCALES) + MIDDLE) * padded),
    )


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
        image, slopes = around.middle(jnp.arange(observed.size))
        # A random one of every HELD_OUT: always the first would be the same few columns, the edge among them.
        groups = max(observed.size // HELD_OUT, 1)
        places = np.random.default_rng(2**32 + 2).integers(0, min(HELD_OUT, observed.size), groups)
        held_out = jnp.asarray(HELD_OUT * np.arange(groups) + places, jnp.int32)
        return cls(around, jnp.asarray(observed.ravel()), image, slopes, noise, batch_sizes, held_out)

    def problem(self, network: AnyNetwork, index: int) -> GradeProblem:
        scale = jnp.float32(RESIDUAL * self.noise)
        mean, deviation = moments(frozen(self.around, self.grades, _spread(len(self.image), NUM_MOMENTS))[0])
        residual = (self.observed - self.image) / scale
        sampler = RandomSurroundings(
            self.around, self.grades, mean, deviation, residual, self.held_out, self.batch_sizes[index]
        )
        held_out = self.held_out[_spread(len(self.held_out), NUM_WATCHED)]
        return GradeProblem(
            EstimatedRisk(jnp.float32(self.noise**2) / scale, network),
            sampler.at(_spread(len(self.image), NUM_WATCHED)),
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


def _spread(count: int, most: int) -> Array:
    """At most ``most`` of ``count`` places, evenly spread."""
    return jnp.linspace(0, count - 1, min(count, most)).astype(jnp.int32)


# ---- regression ------------------------------------------------------------------------------------------------

REACH = 2  # known pixels on either side of the four around a missing one
PHASES = ((0, 1), (1, 0), (1, 1))  # of the missing pixels, relative to the known one before them
MOST_ROWS = 2**20


def neighbours(known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(channels, h, w) of known pixels: those around each, less their mean, and bilinear values at the three phases."""
    height, width = known.shape[1:]
    margin = REACH + 1
    padded = np.pad(known, ((0, 0), (margin, margin), (margin, margin)), mode="symmetric")

    def at(down, right):
        return padded[:, margin + down : margin + down + height, margin + right : margin + right + width].ravel()

    reach = range(-REACH, REACH + 2)
    inputs = np.stack([at(down, right) for down in reach for right in reach], axis=1)
    corner, right, below, across = at(0, 0), at(0, 1), at(1, 0), at(1, 1)
    bilinear = np.stack([(corner + right) / 2, (corner + below) / 2, (corner + right + below + across) / 4], axis=1)
    return inputs - bilinear[:, 2:], bilinear


def lessons(known: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and what bilinear interpolation misses, from every second known pixel, in all orientations."""
    inputs, targets = [], []
    for turned in _orientations(known):
        for top, left in ((0, 0), (0, 1), (1, 0), (1, 1)):
            coarse = turned[:, top::2, left::2]
            around, bilinear = neighbours(coarse)
            values = np.full((*coarse.shape, 3), np.nan, np.float32)
            for phase, (down, right) in enumerate(PHASES):
                part = turned[:, top + down :: 2, left + right :: 2]
                values[:, : part.shape[1], : part.shape[2], phase] = part
            missed = values.reshape(-1, 3) - bilinear
            inside = np.isfinite(missed).all(axis=1)
            inputs.append(around[inside])
            targets.append(missed[inside])
    inputs, targets = np.concatenate(inputs), np.concatenate(targets)
    if len(inputs) > MOST_ROWS:
        chosen = np.random.default_rng(seed).choice(len(inputs), MOST_ROWS, replace=False)
        inputs, targets = inputs[chosen], targets[chosen]
    return inputs, targets


def _orientations(image: np.ndarray):
    for turns in range(4):
        turned = np.rot90(image, turns, axes=(1, 2))
        yield turned
        yield np.swapaxes(turned, 1, 2)


def between(known: np.ndarray, missing: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The image (channels, h, w) with ``known`` at every second pixel and the three phases (rows, 3) between them."""
    channels, height, width = known.shape
    image = np.empty((channels, 2 * height, 2 * width), np.float32)
    image[:, ::2, ::2] = known
    for (down, right), values in zip(PHASES, missing.T, strict=True):
        image[:, down::2, right::2] = values.reshape(known.shape)
    return image[:, : shape[1], : shape[2]]


def mixture(images: list[np.ndarray], truth: np.ndarray) -> np.ndarray:
    """Weights, none negative and of sum 1, with which flat ``images`` come closest to ``truth``."""
    values = np.stack([np.ravel(image) for image in images], axis=1).astype(np.float64)
    return simplex_least_squares(values, np.float64(np.ravel(truth)))


def simplex_least_squares(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """argmin_w ||matrix w - right|| over w that are not negative and sum to 1."""
    heavy = 1e3 * np.sqrt(np.sum(matrix**2) / matrix.shape[1])  # makes the sum 1
    weights = nnls(np.vstack([matrix, np.full(matrix.shape[1], heavy)]), np.append(right, heavy))[0]
    return weights / weights.sum()


# ---- deblurring ------------------------------------------------------------------------------------------------

COPIES = (1.15, 1.7)  # how much smaller, in units of the root of the blur; our choice
LEAST_COPY = 32  # pixels on a side
# lambda and beta over the chosen ones, radius of what is seen around the pixel; the first is improved upon.
BLUR_MINIMISERS = ((1.0, 1.0, 3), (0.4, 0.4, 1), (3.0, 3.0, 1), (0.125, 1.0, 2))
LESSON_ROWS = 2**20


class Blurred(NamedTuple):
    """An observation (channels, h, w) and minimisers of it: what the inputs of a pixel are taken from."""

    observed: np.ndarray
    minimisers: tuple[np.ndarray, ...]
    spacing: int

    @classmethod
    def of(cls, observed: np.ndarray, operator: GaussianBlur, strengths: Strengths) -> "Blurred":
        images = tuple(
            solve(observed, operator, weight * strengths.weight, beta * strengths.beta)
            for weight, beta, _ in BLUR_MINIMISERS
        )
        return cls(observed, images, max(round(operator.sigma / 3), 1))

    def inputs(self, pixels: np.ndarray) -> np.ndarray:
        """Values around these pixels, near in all images and far in the first minimiser, less the pixel's own there."""
        first, near = self.minimisers[0], self.spacing
        windows = [(image, near, radius) for image, (*_, radius) in zip(self.minimisers, BLUR_MINIMISERS, strict=True)]
        windows += [(first, 3 * near, 2), (first, 8 * near, 1), (self.observed, near, 1)]
        margin = 8 * near
        channel, row, column = (index[:, None, None] for index in np.unravel_index(pixels, first.shape))
        columns = []
        for image, spacing, radius in windows:
            padded = np.pad(image, ((0, 0), (margin, margin), (margin, margin)), mode="symmetric")
            reach = margin + spacing * np.arange(-radius, radius + 1)
            values = padded[channel, row + reach[:, None], column + reach]
            columns.append(values.reshape(len(pixels), -1))
        own = first.ravel()[pixels, None]
        return np.concatenate([np.concatenate(columns, axis=1) - own, own], axis=1)


def lessons_in_deblurring(
    image: np.ndarray, operator: GaussianBlur, strengths: Strengths, noise: float, seed: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Inputs and what the first minimiser misses, from smaller copies of ``image``, all ways round; their pixels."""
    random = np.random.default_rng(seed)
    copies = [smaller(image, max(factor * operator.sigma**0.5, 1.0)) for factor in COPIES]
    copies = [copy for copy in copies if min(copy.shape[1:]) >= LEAST_COPY] or copies[:1]
    inputs, targets = [], []
    for clean in (turned for copy in copies for turned in _orientations(copy)):
        blurred = np.asarray(operator(jnp.asarray(clean)))
        noisy = blurred + np.float32(noise) * random.standard_normal(clean.shape, np.float32)
        seen = Blurred.of(noisy, operator, strengths)
        pixels = random.permutation(clean.size)[: LESSON_ROWS // (8 * len(copies))]
        inputs.append(seen.inputs(pixels))
        targets.append((clean - seen.minimisers[0]).ravel()[pixels, None])
    return np.concatenate(inputs), np.concatenate(targets), sum(copy.size for copy in copies)


def smaller(image: np.ndarray, factor: float) -> np.ndarray:
    """``image`` (channels, h, w) with ``factor`` times fewer pixels on a side, what they cannot show filtered out."""
    smooth = gaussian_filter(image, (0, 0.4 * factor, 0.4 * factor), mode="reflect") if factor > 1 else image
    rows, columns = (np.arange(int(n / factor)) * factor + (factor - 1) / 2 for n in image.shape[1:])
    places = np.meshgrid(rows, columns, indexing="ij")
    return np.stack([map_coordinates(channel, places, np.float32, mode="reflect") for channel in smooth])


def consistent(observed: np.ndarray, operator: GaussianBlur, image: np.ndarray, coupling: float) -> np.ndarray:
    """argmin_x ||f - A x||^2 + coupling ||x - image||^2."""
    spectrum = operator.eigenvalues(observed.shape[1:])
    return idct((spectrum * dct(observed) + coupling * dct(image)) / (spectrum**2 + coupling)).astype(np.float32)
