"""Grades of sine features: the network that carries earlier features along, and how its frequencies are chosen.

On the unit box, the waves sin(w x) and cos(w x) with w on a lattice of spacing pi have the period 2, twice the box: a
smooth function on the box has smooth continuations of that period, and least squares finds one (a Fourier extension).
In order of |w| the waves are nested sets; a grade takes the next ones, up to a radius that follows the spectrum of what
is left over. Random frequencies take the lattice's place in three dimensions and more. Where a function is steep in one
place, a first grade adds coordinates in which it is not, over which the waves run.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .networks import Layer

SPACING = np.pi  # of the lattice, on the unit box


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class SineNetwork:
    """N(x) = H(x) C + c with H(x) = [x, sin(x_1 W + b)]; x_1, the first ``num_inputs`` of x, is the model's input.

    Its features hold those of the grades before it, so that its output layer corrects theirs as well.
    """

    num_inputs: int
    num_carried: int  # features of the grades before
    num_sines: int
    num_outputs: int

    def __post_init__(self):
        counts = (self.num_inputs, self.num_carried + 1, self.num_sines, self.num_outputs)
        if any(not isinstance(count, int) or count < 1 for count in counts):
            raise ValueError(f"a sine network needs positive numbers of inputs, sines and outputs; got {self!r}")

    @property
    def widths(self) -> tuple[int, ...]:
        return self.num_inputs + self.num_carried, self.num_features, self.num_outputs

    @property
    def depth(self) -> int:
        return 2

    @property
    def num_features(self) -> int:
        return self.num_inputs + self.num_carried + self.num_sines

    def init(self, key: Array) -> tuple[Layer, Layer]:
        """Normal frequencies, uniform phases, output 0."""
        frequency_key, phase_key = jax.random.split(key)
        phases = jax.random.uniform(phase_key, (self.num_sines,), maxval=2 * np.pi)
        first = Layer(jax.random.normal(frequency_key, (self.num_inputs, self.num_sines)), phases)
        return first, Layer(jnp.zeros((self.num_features, self.num_outputs)), jnp.zeros(self.num_outputs))

    def hidden(self, params: tuple[Layer, Layer], x: Array) -> Array:
        sines = jnp.sin(x[..., : self.num_inputs] @ params[0].weight + params[0].bias)
        return jnp.concatenate([x, sines], axis=-1)

    def output(self, params: tuple[Layer, Layer], features: Array) -> Array:
        return features @ params[1].weight + params[1].bias

    def __call__(self, params: tuple[Layer, Layer], x: Array) -> Array:
        return self.output(params, self.hidden(params, x))


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class LayerNetwork:
    """The first grade of a solution with layers: features z = [x, asinh(x V + v)], and nothing added to u."""

    num_inputs: int
    num_layers: int
    num_outputs: int

    def __post_init__(self):
        counts = (self.num_inputs, self.num_layers, self.num_outputs)
        if any(not isinstance(count, int) or count < 1 for count in counts):
            raise ValueError(f"a layer network needs positive numbers of inputs, layers and outputs; got {self!r}")

    @property
    def widths(self) -> tuple[int, ...]:
        return self.num_inputs, self.num_features, self.num_outputs

    @property
    def depth(self) -> int:
        return 2

    @property
    def num_features(self) -> int:
        return self.num_inputs + self.num_layers

    def init(self, key: Array) -> tuple[Layer]:
        return (Layer(jax.random.normal(key, (self.num_inputs, self.num_layers)), jnp.zeros(self.num_layers)),)

    def hidden(self, params: tuple[Layer], x: Array) -> Array:
        return jnp.concatenate([x, jnp.arcsinh(x @ params[0].weight + params[0].bias)], axis=-1)

    def output(self, params: tuple[Layer], features: Array) -> Array:
        return jnp.zeros((*features.shape[:-1], self.num_outputs), features.dtype)

    def __call__(self, params: tuple[Layer], x: Array) -> Array:
        return self.output(params, self.hidden(params, x))


def lattice(num_dimensions: int, num_waves: int, stretch=None) -> np.ndarray:
    """The ``num_waves`` shortest vectors w of the lattice, one of each pair w, -w, in order of length: (n, d).

    Lengths are those of w_j / stretch_j, so that a ball becomes an ellipsoid; 1 if ``stretch`` is not given.
    """
    stretch = np.ones(num_dimensions) if stretch is None else np.asarray(stretch, np.float64)
    radius = (2 * num_waves / np.prod(stretch)) ** (1 / num_dimensions) / 2
    while True:
        axes = [np.arange(-int(radius * s), int(radius * s) + 1) for s in stretch]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, num_dimensions)
        points = points[len(points) // 2 + 1 :]  # in this order the second half holds the opposites of the first
        lengths = np.linalg.norm(points / stretch, axis=1)
        if np.sum(lengths <= radius) >= num_waves:  # nothing outside of this box is shorter
            return SPACING * points[np.argsort(lengths, kind="stable")[:num_waves]].astype(np.float64)
        radius = 1.1 * radius + 0.5


@dataclasses.dataclass(frozen=True)
class Box:
    """The smallest box around the inputs; columns that do not vary have length 1."""

    low: np.ndarray
    lengths: np.ndarray

    @staticmethod
    def around(inputs: np.ndarray) -> "Box":
        low, high = inputs.min(axis=0), inputs.max(axis=0)
        return Box(low, np.where(high > low, high - low, 1.0))

    def unit(self, inputs: np.ndarray) -> np.ndarray:
        return (inputs - self.low) / self.lengths

    def first_layer(self, frequencies: np.ndarray) -> Layer:
        """Weights and biases of sin(w u) and cos(w u) in turn, where u are the coordinates in the unit box."""
        weight = np.repeat((frequencies / self.lengths).T, 2, axis=1)
        phases = np.tile([0.0, np.pi / 2], len(frequencies))
        return Layer(weight, phases - self.low @ weight)


def spectrum(unit_inputs: np.ndarray, residual: np.ndarray, frequencies: np.ndarray, weights=None) -> np.ndarray:
    """|sum_n h(u_n) r_n exp(i w u_n)|^2 for every w, summed over outputs; the window h keeps the ends from leaking.

    The points may be scattered.
    """
    window = np.prod(np.sin(np.pi * unit_inputs) ** 2, axis=1) * (1.0 if weights is None else weights)
    values = window[:, None] * residual
    power = np.empty(len(frequencies))
    for start in range(0, len(frequencies), 512):
        phase = unit_inputs @ frequencies[start : start + 512].T
        power[start : start + 512] = np.sum((np.cos(phase).T @ values) ** 2 + (np.sin(phase).T @ values) ** 2, axis=1)
    return power


def significant_radius(power: np.ndarray, frequencies: np.ndarray) -> float:
    """Length of the longest w whose power stands out: over noise, and over a part in 10^8 of the strongest.

    Noise has powers of exponential distribution, whose mean is the median divided by log 2; among thousands of waves it
    seldom reaches 15 times the mean. The upper half of the waves tells its level.
    """
    floor = np.median(power[len(power) // 2 :]) / np.log(2)
    stands_out = power > max(15 * floor, 1e-8 * power.max())
    return float(np.linalg.norm(frequencies[stands_out], axis=1).max(initial=0.0))
