"""Transformer grades: blocks of attention and a two-layer network over positions, with fixed positional waves."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .dense import Layer
from .parts import TrunkAndHead


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class TransformerNetwork(TrunkAndHead):
    """x (rows, length, inputs) -> blocks -> features (rows, length, width) -> outputs.

    A block is x + A(norm x), then x + F(norm x), with attention A and a network F of one hidden layer of 4 width.

    Parameters
    ----------
    inputs : numbers at each position
    width : of the features; where ``inputs`` differs from it, they are first mapped to it
    outputs : of the head
    heads : of each attention; they divide the width
    blocks : of the trunk
    is_first : whether the trunk maps the inputs and adds the positional waves, as that of the first grade does
    is_causal : whether a position sees none after it
    reads : what the head reads: the "mean" of all positions, or the "last"
    dropout : share of what a block adds that is 0 while training
    """

    inputs: int
    width: int
    outputs: int
    heads: int = 4
    blocks: int = 1
    is_first: bool = True
    is_causal: bool = False
    reads: str = "mean"
    dropout: float = 0.0

    def __post_init__(self):
        counts = (self.inputs, self.width, self.outputs, self.heads, self.blocks)
        if any(not isinstance(count, int) or count < 1 for count in counts) or self.width % self.heads:
            raise ValueError(f"sizes must be positive integers, and heads divide the width; got {self!r}")
        if not self.is_first and self.inputs != self.width:
            raise ValueError(f"inputs must be the width, {self.width}, after the first grade; got {self.inputs}")
        if self.reads not in ("mean", "last"):
            raise ValueError(f"reads must be 'mean' or 'last'; got {self.reads!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1; got {self.dropout!r}")

    def start(self, part: int, key: Array) -> tuple[Any, Any]:
        width = self.width
        if part == 1:  # no output at first
            return Layer(jnp.zeros((width, self.outputs)), jnp.zeros(self.outputs)), ()
        keys = iter(jax.random.split(key, 4 * self.blocks + 1))
        first = _layer(next(keys), self.inputs, width) if self.is_first else ()
        shapes = {
            "qkv": (width, 3 * width),
            "mixed": (width, width),
            "up": (width, 4 * width),
            "down": (4 * width, width),
        }
        blocks = [{name: _layer(next(keys), *shape) for name, shape in shapes.items()} for _ in range(self.blocks)]
        norms = [(jnp.ones(width), jnp.zeros(width)) for _ in range(2 * self.blocks)]
        return (first, tuple(blocks), tuple(norms)), ()

    def apply(self, part: int, trained: Any, state: Any, x: Array, key: Array | None) -> tuple[Array, Any]:
        if part == 1:
            read = jnp.mean(x, axis=1) if self.reads == "mean" else x[:, -1]
            return _normalised(read) @ trained.weight + trained.bias, ()
        first, blocks, norms = trained
        if self.is_first:
            x = x @ first.weight + first.bias + positional_waves(x.shape[1], self.width)
        keys = [None] * 2 * self.blocks if key is None else jax.random.split(key, 2 * self.blocks)
        for index, block in enumerate(blocks):
            for half, function in enumerate((self._attention, _feed_forward)):
                scale, shift = norms[2 * index + half]
                added = function(block, _normalised(x) * scale + shift)
                own = keys[2 * index + half]
                if own is not None and self.dropout:
                    kept = jax.random.bernoulli(own, 1 - self.dropout, added.shape)
                    added = jnp.where(kept, added / (1 - self.dropout), 0)
                x = x + added
        return x, ()

    def _attention(self, block: dict, x: Array) -> Array:
        rows, length, _ = x.shape
        projected = (x @ block["qkv"].weight + block["qkv"].bias).reshape(rows, length, 3, self.heads, -1)
        query, key, value = jnp.moveaxis(projected, 2, 0)
        mixed = jax.nn.dot_product_attention(query, key, value, is_causal=self.is_causal)
        return mixed.reshape(rows, length, self.width) @ block["mixed"].weight + block["mixed"].bias


def positional_waves(length: int, width: int) -> np.ndarray:
    """sin and cos of position / 10000^(2 i / width) (Vaswani et al., 2017), (length, width)."""
    angles = np.arange(length)[:, None] / 10_000.0 ** (2 * np.arange((width + 1) // 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, -1)[:, :width].astype(np.float32)


def _layer(key: Array, inputs: int, outputs: int) -> Layer:
    return Layer(inputs**-0.5 * jax.random.normal(key, (inputs, outputs)), jnp.zeros(outputs))


def _feed_forward(block: dict, x: Array) -> Array:
    hidden = jax.nn.gelu(x @ block["up"].weight + block["up"].bias)
    return hidden @ block["down"].weight + block["down"].bias


def _normalised(x: Array) -> Array:
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5)
