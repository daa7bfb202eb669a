"""What the compiled loop sees of members that are trained side by side: rows, batches drawn by weight, the loss.

What a user may search over (batch size, dropout, weight decay, quantile) is an argument of the program, not a part of
it: another value compiles nothing.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..networks import ACTIVATIONS
from ..training.objectives import LOSSES, GradedLoss

MAX_LAYERS = 16  # that can have dropout
RECORDED_ROWS = 128  # of the training rows, so many are looked at for the recorded training loss


class MemberRows(NamedTuple):
    """Rows of one grade: inputs (N, d) for all members or (N, M, d), further inputs of each member's own (N, M, e) or
    None, targets (N, 1, s) or (N, M, s), weights (N, M), scores of the grades so far (N, M, s); a key per layer draws
    what dropout drops, None drops nothing.
    """

    inputs: Array
    own: Array | None
    targets: Array
    weights: Array
    scores: Array
    key: Array | None = None


@partial(jax.tree_util.register_dataclass, data_fields=["thresholds", "size"], meta_fields=["most"])
@dataclasses.dataclass(frozen=True)
class MemberBatches:
    """Batches of ``size`` rows drawn by weight, as ``sampling.random_rows`` does; a member's own fold has weight 0.

    ``most`` rows are drawn, of which those beyond ``size`` have weight 0.
    """

    most: int
    size: Array
    thresholds: Array

    def draw(self, key: Array, data: MemberRows) -> MemberRows:
        bits = jax.random.bits(key, (self.most + MAX_LAYERS,), jnp.uint32)
        rows = jnp.searchsorted(self.thresholds, bits[MAX_LAYERS:], side="right")
        batch = jax.tree.map(lambda leaf: leaf[rows], data)
        is_drawn = (jnp.arange(self.most) < self.size)[:, None]
        return batch._replace(weights=jnp.sign(batch.weights) * is_drawn, key=bits[:MAX_LAYERS])


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["weight_decay", "parameter", "dropout", "recorded", "mask"],
    meta_fields=["network", "loss"],
)
@dataclasses.dataclass(frozen=True)
class MemberLoss(GradedLoss):
    """The mean loss over rows and members of the scores so far plus the grade's output, with dropout in batches.

    The loss is given by its name and its parameters; ``recorded`` are the rows that a record of the training loss looks
    at; ``mask`` (M, d + e) is 0 where a member does not read an input.
    """

    network: Any
    weight_decay: Any = 0.0
    loss: Any = "squared_error"
    parameter: Any = ()
    dropout: Any = 0.0
    recorded: Any = None
    mask: Any = None

    def __call__(self, params, auxiliary: tuple[()], data: Any) -> tuple[Array, tuple[()]]:
        is_training = data.targets.shape[1] == 1
        rows = jax.tree.map(lambda leaf: leaf[self.recorded], data) if is_training else data
        return super().__call__(params, auxiliary, rows)

    def penalty(self, params) -> Array | float:
        """weight_decay/2 times the sum of squared weights of a member, the mean over members."""
        squares = sum(jnp.sum(layer.weight**2) for layer in params) / params[0].weight.shape[0]
        return 0.5 * self.weight_decay * squares

    def add_penalty(self, loss: Array, gradient, params, auxiliary: tuple[()]):
        penalty, slope = jax.value_and_grad(self.penalty)(params)
        return (loss + penalty, auxiliary), jax.tree.map(jnp.add, gradient, slope)

    def _sum(self, params, block: Any) -> Array:
        scores = block.scores + self._output(params, block)
        options = {"quantile": self.parameter} if self.loss == "quantile" else {}
        options |= {"delta": self.parameter[0]} if self.loss == "huber" else {}
        return jnp.sum(block.weights * LOSSES[self.loss](**options)(scores, block.targets))

    def _output(self, params, block: Any) -> Array:
        """(N, M, s). Members stand first inside: their products are then of whole matrices."""
        x = block.inputs if block.inputs.ndim == 2 else block.inputs.swapaxes(0, 1)
        num_shared = x.shape[-1]
        for index, (weight, bias) in enumerate(params):
            if index == 0:
                weight = weight if self.mask is None else weight * self.mask[:, :, None]
                z = x @ weight[:, :num_shared] + bias[:, None]
                x = z if block.own is None else z + block.own.swapaxes(0, 1) @ weight[:, num_shared:]
            else:
                x = x @ weight + bias[:, None]
            if index < len(params) - 1:
                x = self._dropped(ACTIVATIONS[self.network.sub.activation](x), block.key, index)
        return x.swapaxes(0, 1)

    def _dropped(self, x: Array, key: Array | None, index: int) -> Array:
        if key is None:
            return x
        kept = _hashed(key[index], x.shape) >= jnp.uint32(self.dropout * 2.0**32)
        return jnp.where(kept, x / (1 - self.dropout), 0)


def _hashed(key: Array, shape: tuple[int, ...]) -> Array:
    """Numbers of uint32 that depend on key and place by Murmur3's finaliser: all that dropout needs, at a small part of
    the time (and of the compiler's time) of a counter-based generator.
    """
    x = jnp.arange(np.prod(shape), dtype=jnp.uint32).reshape(shape) * np.uint32(0x9E3779B1) + key
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> shift)) * np.uint32(factor)
    return x ^ (x >> 16)
