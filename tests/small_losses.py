"""Losses of small networks, with parameters away from kinks, for tests of their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree


def mean_squares(network, x, y, params):
    return 0.5 * jnp.sum((network(params, x) - y) ** 2) / len(x)


def random_params(network, random):
    """Normal weights and biases, so that no pre-activation is exactly at a kink."""
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: random.normal(size=leaf.shape) / leaf.shape[0] ** 0.5, shapes)


def problem(network, *, num_rows=30, seed=0):
    random = np.random.default_rng(seed)
    params = random_params(network, random)
    x = random.uniform(size=(num_rows, network.widths[0]))
    y = random.normal(size=(num_rows, network.widths[-1]))
    return params, x, y


def gradient(loss, params):
    with jax.enable_x64(True):
        return np.asarray(jax.jit(lambda w: ravel_pytree(jax.grad(loss)(w))[0])(params))


def assert_close(actual, expected, tolerance):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.max(np.abs(expected)))
