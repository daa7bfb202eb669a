"""The JAX beneath us computes what it should, in the programs that we have.

JAX 0.10.2 rounded products on CPU where a matrix multiplies each of more than 32,768 rows and the squares are summed
row by row (jax issue 39103). No program of ours has that form. These tests compare those that come nearest to it with
NumPy in double precision, on so many rows, for every small number of inputs and outputs.
"""

import jax
import numpy as np
import pytest

from multigrade import LeastSquares, Network, Rows
from multigrade.curvature import HessianOperator

ROWS = 32_769


def draw(inputs, outputs, seed=0):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(ROWS, inputs)), rng.normal(size=(ROWS, outputs))
    return Rows(x.astype(np.float32), y.astype(np.float32))


def loss_and_gradient(params, rows):
    """1/2 mean ||y - W2' relu(W1' x + b1) - b2||^2 and its gradient in W1, b1, W2, b2, in double precision."""
    (w1, b1), (w2, b2) = [[np.asarray(leaf, np.float64) for leaf in layer] for layer in params]
    x, y = np.asarray(rows.inputs, np.float64), np.asarray(rows.targets, np.float64)
    before = x @ w1 + b1
    hidden = np.maximum(before, 0)
    error = hidden @ w2 + b2 - y
    back = (error @ w2.T) * (before > 0)
    gradient = [x.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0)]
    return 0.5 * (error**2).sum() / ROWS, [leaf / ROWS for leaf in gradient]


@pytest.mark.parametrize("inputs", [1, 2, 3])
@pytest.mark.parametrize("outputs", [1, 3])
def test_loss_and_gradient_of_many_rows_are_those_of_numpy(inputs, outputs):
    network = Network((inputs, 3, outputs))
    params, rows = network.init(jax.random.key(0)), draw(inputs, outputs)
    (loss, _), gradient = jax.jit(LeastSquares(network).value_and_grad)(params, (), rows)
    expected, slopes = loss_and_gradient(params, rows)
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    for ours, reference in zip(jax.tree.leaves(gradient), slopes, strict=True):
        np.testing.assert_allclose(ours, reference, atol=1e-5 * max(1.0, np.abs(reference).max()))


def test_a_hessian_product_of_many_rows_is_a_difference_of_gradients():
    network, rows = Network((3, 3, 3), "tanh"), draw(3, 3)
    params = network.init(jax.random.key(1))
    flat, restore = jax.flatten_util.ravel_pytree(params)
    objective = LeastSquares(network)
    direction = np.random.default_rng(2).normal(size=flat.size)
    product = HessianOperator(lambda p: objective(p, (), rows)[0], params) @ direction
    slope = jax.jit(jax.grad(lambda v: objective(restore(v), (), rows)[0]))
    step = 1e-2
    difference = (slope(flat + step * direction) - slope(flat - step * direction)) / (2 * step)
    np.testing.assert_allclose(product, difference, atol=2e-2 * np.abs(product).max())
