"""Convolutional grades: 3 x 3 convolutions, normalised; then pooling. The head reads averages over cells."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from .dense import Layer, relu
from .parts import TrunkAndHead

MOMENTUM, SMALLEST = 0.9, 1e-5  # of running moments; added to variances: the usual ones
NORMS = ("batch", "layer", "none")


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class ConvolutionalNetwork(TrunkAndHead):
    """x (rows, h, w, inputs) -> convolutions, each normalised and with a ReLU -> pooled features -> outputs.

    Parameters
    ----------
    inputs : channels of x
    channels : of each 3 x 3 convolution
    outputs : of the head
    norm : "batch" (by the batch while trained, by running means afterwards), "layer" (by each picture), or "none"
    pool : whether the trunk ends with the maximum of 2 x 2 pixels
    is_residual : whether the convolutions add to the input, or to a linear map of it, before the last ReLU
    dropout : the share of the head's inputs that is 0 while training
    cells : the head reads averages over so many cells along each side, at most
    """

    inputs: int
    channels: tuple[int, ...]
    outputs: int
    norm: str = "batch"
    pool: bool = True
    is_residual: bool = False
    dropout: float = 0.0
    cells: int = 4

    def __post_init__(self):
        object.__setattr__(self, "channels", tuple(self.channels))
        counts = (self.inputs, *self.channels, self.outputs, self.cells)
        if not self.channels or any(not isinstance(count, int) or count < 1 for count in counts):
            raise ValueError(f"inputs, channels, outputs and cells must be positive integers; got {self!r}")
        if self.norm not in NORMS:
            raise ValueError(f"norm must be one of {', '.join(NORMS)}; got {self.norm!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1; got {self.dropout!r}")

    def start(self, part: int, key: Array) -> tuple[Any, Any]:
        if part == 1:  # no output at first: a grade adds nothing before it is trained
            return Layer(jnp.zeros((self.cells**2 * self.channels[-1], self.outputs)), jnp.zeros(self.outputs)), ()
        layers, state = [], []
        for before, after in zip((self.inputs, *self.channels), self.channels, strict=False):
            key, own = jax.random.split(key)
            weight = (2 / (9 * before)) ** 0.5 * jax.random.normal(own, (3, 3, before, after))
            layers.append({"weight": weight, "scale": jnp.ones(after), "shift": jnp.zeros(after)})
            state.append((jnp.zeros(after), jnp.ones(after)) if self.norm == "batch" else ())
        if self.is_residual and self.inputs != self.channels[-1]:
            layers.append(self.inputs**-0.5 * jax.random.normal(key, (1, 1, self.inputs, self.channels[-1])))
        return tuple(layers), tuple(state)

    def apply(self, part: int, trained: Any, state: Any, x: Array, key: Array | None) -> tuple[Array, Any]:
        if part == 1:
            return self._head(trained, x, key), ()
        given, after = x, []
        for index in range(len(self.channels)):
            layer = trained[index]
            x = _convolved(x, layer["weight"])
            mean, inverse, moments = self._moments(x, state[index], key is not None)
            after.append(moments)
            slope = inverse * layer["scale"]
            x = x * slope + (layer["shift"] - mean * slope)
            if self.is_residual and index == len(self.channels) - 1:
                x = x + (_convolved(given, trained[-1]) if len(trained) > len(self.channels) else given)
            x = relu(x)
        if self.pool:
            x = _pooled(x)
        return x, tuple(after)

    def _moments(self, x: Array, state: Any, is_training: bool) -> tuple[Array, Array, Any]:
        """Mean, inverse deviation, and the next running moments."""
        if self.norm == "none":
            return jnp.zeros(()), jnp.ones(()), state
        if self.norm == "batch" and not is_training:
            return state[0], jax.lax.rsqrt(state[1] + SMALLEST), state
        axes = (0, 1, 2) if self.norm == "batch" else (1, 2, 3)
        mean = jnp.mean(x, axes, keepdims=True)
        variance = jnp.maximum(jnp.mean(x * x, axes, keepdims=True) - mean**2, 0)  # both moments in one pass
        if self.norm == "batch":
            now = mean.ravel(), variance.ravel()
            state = jax.tree.map(lambda old, new: MOMENTUM * old + (1 - MOMENTUM) * new, state, now)
        return mean, jax.lax.rsqrt(variance + SMALLEST), state

    def _head(self, layer: Layer, x: Array, key: Array | None) -> Array:
        _, height, width, _ = x.shape
        parts = []  # averages over cells; where there are fewer pixels than cells, cells repeat them
        for top, bottom in _edges(height, self.cells):
            row = jnp.mean(x[:, top:bottom], axis=1)
            parts += [jnp.mean(row[:, left:right], axis=1) for left, right in _edges(width, self.cells)]
        cells = jnp.concatenate(parts, axis=1)
        if key is not None and self.dropout:
            kept = jax.random.bernoulli(key, 1 - self.dropout, cells.shape)
            cells = jnp.where(kept, cells / (1 - self.dropout), 0)
        return cells @ layer.weight + layer.bias


def _convolved(x: Array, weight: Array) -> Array:
    return jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _pooled(x: Array) -> Array:
    """The maximum of 2 x 2 pixels; of what there is at an odd edge. Slices, for XLA's own pooling is slow backwards."""
    odd = x.shape[1] % 2, x.shape[2] % 2
    if any(odd):
        x = jnp.pad(x, ((0, 0), (0, odd[0]), (0, odd[1]), (0, 0)), mode="edge")
    columns = jnp.maximum(x[:, ::2], x[:, 1::2])
    return jnp.maximum(columns[:, :, ::2], columns[:, :, 1::2])


def _edges(size: int, cells: int) -> list[tuple[int, int]]:
    """Where each of the cells begins and ends: at least one pixel each, together all."""
    return [(size * i // cells, max(-(-size * (i + 1) // cells), 1)) for i in range(cells)]
