"""A ReLU network at all pixels, and its gradient without the neurons that sleep.

A neuron that is 0 at every pixel adds nothing, and none of its weights has a gradient: the gradient is that of a
narrower network, exactly. Under the paper's recipe 30 to 75 % of the neurons of a grade sleep after some fifty steps,
and most of the features that the next grade reads are 0 everywhere; a few wake again. A forward pass over all pixels,
which the image needs anyway, tells which are active. The gradient is then summed over blocks of pixels that compute
their activations again: they are few, and nothing of the size of the picture times the width is kept.
"""

from functools import partial
from typing import TypeGuard

import jax
import jax.numpy as jnp
from jax import Array

from ...networks import AnyNetwork, Layer, Network
from ...training.objectives import BLOCK_LANES, Rows, over_blocks

BLOCK_ROWS = 2048  # pixels per pass
# Parts of the neurons for which the gradient is compiled, of the first hidden layer and of deeper ones, where more
# sleep: the least with room for all that are active is used.
PARTS = ((3 / 8, 3 / 8), (5 / 8, 1 / 2), (3 / 4, 5 / 8), (1, 1))
# Below these a step is so cheap that compiling the parts would take longer than they save.
LEAST_WIDTH, LEAST_PIXELS = 64, 2**13
FEATURES = 32  # their number is a multiple of this: grades that read about as many share a program


def active_features(network: AnyNetwork, features: Array) -> Array | None:
    """Which features to read: those that are not 0 at all pixels, and a few that are; None for all of them."""
    if not _is_worth_it(network, features) or network.encoding is not None:
        return None
    active = jnp.any(features != 0, axis=0)
    return jnp.argsort(~active)[: -(-max(int(active.sum()), 1) // FEATURES) * FEATURES]


def apply_active(network: AnyNetwork, params, features: Array) -> tuple[Array, list[Array]]:
    """The network at every pixel, (N, s), and which neurons of each hidden layer are active, (d_j,).

    The second is empty where it is not worth it. Computed in blocks of pixels that fit the cache.
    """
    num_pixels = features.shape[0]
    num_rows = min(BLOCK_ROWS, -(-num_pixels // BLOCK_LANES))
    num_strides = -(-num_pixels // (BLOCK_LANES * num_rows))
    padded = jnp.pad(features, ((0, num_strides * BLOCK_LANES * num_rows - num_pixels), (0, 0)))

    def block(rows):
        if not _is_worth_it(network, features):
            return network(params, rows), []
        layers = network.hidden_layers(params, rows)
        return network.output(params, layers[-1]), [jnp.max(layer, axis=0) for layer in layers[1:]]

    # Blocks side by side in one iteration do not depend on each other, so XLA runs them on different cores.
    values, largest = jax.lax.map(
        lambda lanes: jax.tree.map(lambda *parts: jnp.stack(parts), *(block(lane) for lane in lanes)),
        padded.reshape(num_strides, BLOCK_LANES, num_rows, -1),
    )
    active = [jnp.max(layer, axis=(0, 1)) > 0 for layer in largest]
    return values.reshape(len(padded), -1)[:num_pixels], active


def pull_back(network: AnyNetwork, params, features: Array, slopes: Array, active: list[Array]):
    """The gradient in Theta of sum_n <slopes_n, N(Theta; x_n)>, given which neurons are active at Theta."""
    rows = Rows(features, slopes)
    if not active:
        return over_blocks(partial(_pull_back, network, params), rows, BLOCK_ROWS)

    order = [jnp.argsort(~layer) for layer in active]  # those that are active before the others

    def of_part(rooms, params):
        kept = [neurons[:room] for neurons, room in zip(order, rooms, strict=True)]
        narrow, widen = jax.vjp(partial(_narrowed, kept=kept), params)
        return widen(over_blocks(partial(_pull_back, network, narrow), rows, BLOCK_ROWS))[0]

    counts, (first, *deeper) = jnp.stack([layer.sum() for layer in active]), [len(layer) for layer in active]
    rooms = [(round(a * first), *(round(b * width) for width in deeper)) for a, b in PARTS]
    index = sum(jnp.any(counts > jnp.array(room)) for room in rooms[:-1])
    return jax.lax.switch(index, [partial(of_part, room) for room in rooms], params)


def _pull_back(network: AnyNetwork, params, block: Rows):
    return jax.vjp(lambda params: network(params, block.inputs), params)[1](block.targets)[0]


def _is_worth_it(network: AnyNetwork, features: Array) -> TypeGuard[Network]:
    if not isinstance(network, Network) or network.activation != "relu":
        return False
    return min(network.widths[1:-1], default=0) >= LEAST_WIDTH and len(features) >= LEAST_PIXELS


def _narrowed(params: tuple[Layer, ...], kept: list[Array]) -> tuple[Layer, ...]:
    """The network of these neurons of each hidden layer."""
    everything = slice(None)
    layers = zip(params, [everything, *kept], [*kept, everything], strict=True)
    return tuple(Layer(weight[rows][:, columns], bias[columns]) for (weight, bias), rows, columns in layers)
