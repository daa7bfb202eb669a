"""What is minimised. An objective is a frozen description; its data is a pytree of arrays passed beside it.

``objective(params, auxiliary, data)`` returns the loss and the next auxiliary variable (the u of the restoration
objective; empty for least squares). ``value_and_grad`` is the same with the gradient; an objective may compute it
in a faster order than automatic differentiation of the whole would.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from .networks import AnyNetwork

# Rows per pass. A block's activations stay in the cache, which is worth a quarter of the time of a step on the
# paper's networks and bounds the memory of a step; below this many weights a row is too cheap for it to pay.
BLOCK_ROWS = 512
BLOCK_MIN_WEIGHTS = 512


class Rows(NamedTuple):
    """Training data of one grade: features x_l (N, d), residuals e_l (N, s), weights (N,) or None for equal ones."""

    inputs: Array
    targets: Array
    weights: Array | None = None


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class LeastSquares:
    """L(Theta) = 1/(2 sum w) sum_n w_n ||y_n - N(Theta; x_n)||^2 + decay/2 sum_j ||W_j||^2.

    With equal weights and decay 0 this is eq. (DNNs loss), and eq. (loss: grade l) on a grade's features and residual.
    """

    network: AnyNetwork
    decay: float = 0.0

    def init(self, params, data: Rows) -> tuple[()]:
        return ()

    def __call__(self, params, auxiliary: tuple[()], data: Rows) -> tuple[Array, tuple[()]]:
        loss = over_blocks(lambda block: self._sum(params, block), data, self._rows_per_block(params))
        return loss / _total(data) + self._penalty(params), auxiliary

    def value_and_grad(self, params, auxiliary: tuple[()], data: Rows):
        block_gradient = jax.value_and_grad(self._sum)
        sums = over_blocks(lambda block: block_gradient(params, block), data, self._rows_per_block(params))
        loss, gradient = jax.tree.map(lambda a: a / _total(data), sums)
        if self.decay:
            penalty, slope = jax.value_and_grad(self._penalty)(params)
            loss, gradient = loss + penalty, jax.tree.map(jnp.add, gradient, slope)
        return (loss, auxiliary), gradient

    def _sum(self, params, block: Rows) -> Array:
        squares = jnp.square(block.targets - self.network(params, block.inputs))
        return 0.5 * jnp.sum(squares if block.weights is None else block.weights[:, None] * squares)

    def _penalty(self, params) -> Array | float:
        weights = [leaf for leaf in jax.tree.leaves(params) if leaf.ndim == 2]
        return 0.5 * self.decay * sum(jnp.sum(w**2) for w in weights) if self.decay else 0.0

    def _rows_per_block(self, params) -> int | None:
        num_weights = sum(leaf.size for leaf in jax.tree.leaves(params))
        return BLOCK_ROWS if num_weights >= BLOCK_MIN_WEIGHTS else None


def _total(data: Rows) -> Array | int:
    return data.targets.shape[0] if data.weights is None else jnp.sum(data.weights)


def over_blocks(function, data, rows_per_block: int | None):
    """Sum of ``function(block)`` over consecutive row blocks of the pytree ``data``; one call if there is one block."""
    num_rows = jax.tree.leaves(data)[0].shape[0]
    if rows_per_block is None or num_rows <= rows_per_block:
        return function(data)
    num_blocks, rest = divmod(num_rows, rows_per_block)

    def block(start, size):
        return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size), data)

    def add(index, total):
        return jax.tree.map(jnp.add, total, function(block(index * rows_per_block, rows_per_block)))

    total = jax.lax.fori_loop(1, num_blocks, add, function(block(0, rows_per_block)))
    if rest:
        total = jax.tree.map(jnp.add, total, function(block(num_blocks * rows_per_block, rest)))
    return total
