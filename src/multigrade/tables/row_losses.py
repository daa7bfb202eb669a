"""Losses of single rows, and their slopes in the scores, by blocks of one size.

A fit asks for them in many shapes: ridges, mixtures, shares, shrinkages. Blocks of one size are one small program for
each loss, in place of one for each shape.
"""

import jax
import jax.numpy as jnp
import numpy as np

from ..training.objectives import Loss

BLOCK_ROWS = 8192  # at a time: one program for tables of all lengths


def row_losses(loss: Loss, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The loss of scores (..., s) at targets that broadcast to them: (...) in float64."""
    return _by_blocks(_losses, loss, scores, targets).astype(np.float64)


def row_slopes(loss: Loss, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The derivative of the loss in the scores, (..., s)."""
    return _by_blocks(_slopes, loss, scores, targets)


def _by_blocks(function, loss: Loss, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    shape, num_outputs = scores.shape[:-1], scores.shape[-1]
    num_rows = int(np.prod(shape))
    pairs = np.zeros((2, -(-num_rows // BLOCK_ROWS) * BLOCK_ROWS, num_outputs), np.float32)
    pairs[0, :num_rows] = scores.reshape(-1, num_outputs)
    pairs[1, :num_rows] = np.broadcast_to(targets, scores.shape).reshape(-1, num_outputs)
    starts = range(0, pairs.shape[1], BLOCK_ROWS)
    values = np.concatenate([np.asarray(function(loss, *pairs[:, s : s + BLOCK_ROWS])) for s in starts])
    return values[:num_rows].reshape(*shape, *values.shape[1:])


@jax.jit
def _losses(loss: Loss, scores, targets):
    return loss(scores, targets)


@jax.jit
def _slopes(loss: Loss, scores, targets):
    return jax.grad(lambda s: jnp.sum(loss(s, targets)))(scores)
