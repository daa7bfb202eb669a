"""What the compiled loop sees of members that are trained side by side: rows, batches drawn by weight, the loss."""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..networks import ACTIVATIONS
from ..training.objectives import GradedLoss

MAX_LAYERS = 16  # that can have dropout
RECORDED_ROWS = 128  # of the training rows, at most about so many are looked at for the recorded training loss


class MemberRows(NamedTuple):
    """Rows of one grade: inputs (N, d) for all members or (N, M, d), targets (N, 1, s) or (N, M, s), weights (N, M),
    scores of the grades so far (N, M, s); a key per layer draws what dropout drops, None drops nothing.
    """

    inputs: Array
    targets: Array
    weights: Array
    scores: Array
    key: Array | None = None


@partial(jax.tree_util.register_dataclass, data_fields=["thresholds"], meta_fields=["size"])
@dataclasses.dataclass(frozen=True)
class MemberBatches:
    """Batches of ``size`` rows drawn by weight, as ``sampling.random_rows`` does; a member's own fold has weight 0."""

    size: int
    thresholds: Array

    def draw(self, key: Array, data: MemberRows) -> MemberRows:
        bits = jax.random.bits(key, (self.size + MAX_LAYERS,), jnp.uint32)
        rows = jnp.searchsorted(self.thresholds, bits[MAX_LAYERS:], side="right")
        batch = jax.tree.map(lambda leaf: leaf[rows], data)
        return batch._replace(weights=jnp.sign(batch.weights), key=bits[:MAX_LAYERS])


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class MemberLoss(GradedLoss):
    """The mean loss over rows and members of the scores so far plus the grade's output, with dropout in batches."""

    dropout: float = 0.0

    def __call__(self, params, auxiliary: tuple[()], data: Any) -> tuple[Array, tuple[()]]:
        """For records; of the training rows every k-th one is enough there."""
        is_training = data.targets.shape[1] == 1
        stride = -(-len(data.targets) // RECORDED_ROWS) if is_training else 1
        return super().__call__(params, auxiliary, jax.tree.map(lambda leaf: leaf[::stride], data))

    def penalty(self, params) -> Array | float:
        """weight_decay/2 times the sum of squared weights of a member, the mean over members."""
        squares = sum(jnp.sum(layer.weight**2) for layer in params) / params[0].weight.shape[0]
        return 0.5 * self.weight_decay * squares if self.weight_decay else 0.0

    def _sum(self, params, block: Any) -> Array:
        scores = block.scores + self._output(params, block)
        return jnp.sum(block.weights * self.loss(scores, block.targets))

    def _output(self, params, block: Any) -> Array:
        """(N, M, s). Members stand first inside: their products are then of whole matrices."""
        network: Any = self.network
        x = block.inputs if block.inputs.ndim == 2 else block.inputs.swapaxes(0, 1)
        for index, (weight, bias) in enumerate(params):
            x = x @ weight + bias[:, None]
            if index < len(params) - 1:
                x = self._dropped(ACTIVATIONS[network.sub.activation](x), block.key, index)
        return x.swapaxes(0, 1)

    def _dropped(self, x: Array, key: Array | None, index: int) -> Array:
        if key is None or not self.dropout:
            return x
        kept = _hashed(key[index], x.shape) >= np.uint32(self.dropout * 2.0**32)
        return jnp.where(kept, x / (1 - self.dropout), 0)


def _hashed(key: Array, shape: tuple[int, ...]) -> Array:
    """Numbers of uint32 that depend on key and place by Murmur3's finaliser: all that dropout needs, at a small part of
    the time (and of the compiler's time) of a counter-based generator.
    """
    x = jnp.arange(np.prod(shape), dtype=jnp.uint32).reshape(shape) * np.uint32(0x9E3779B1) + key
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> shift)) * np.uint32(factor)
    return x ^ (x >> 16)
