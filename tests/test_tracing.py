"""Curvature is that of the loss as it is now, compiled only where the program is another one, always in float64."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from multigrade.curvature import (
    block_eigenvalues,
    dense_hessian,
    iteration_spectrum,
    map_spectrum,
    preconditioned_curvature,
    sharpness,
    spectral_density,
    tracing,
)

from .small_losses import assert_close

batch = jnp.float32(1.0)
W = jnp.ones(2)


def of_a_global(w):
    return 2 * jnp.sum((batch * w) ** 2)


class Trainer:
    def __init__(self, batch):
        self.batch = batch

    def loss(self, w):
        return 2 * jnp.sum((self.batch * w) ** 2)


def looks(loss, w):
    """One number, four times the square of the batch, by every door that a loss comes in."""
    return [
        sharpness(loss, w),
        -(iteration_spectrum(loss, w, 1.0, 1).smallest[0] - 1),
        spectral_density(loss, w, num_probes=2).mean(lambda x: x),
        1 - np.real(map_spectrum(loss, w, "gd", num=1, learning_rate=0.01, end="leftmost").values[0]) * 1.0,
        preconditioned_curvature(loss, w, optax.sgd(1.0, momentum=0.9)).values[0],
        next(iter(block_eigenvalues(loss, w, 1).values())).largest[0],
    ]


@pytest.mark.parametrize("kind", ["global", "bound method", "closure", "Partial of a global", "jit", "Python number"])
def test_what_a_loss_closes_over_is_read_at_every_call_and_nothing_is_compiled_again(kind):
    global batch
    trainer, number = Trainer(jnp.float32(1.0)), 1.5
    partial, compiled = Partial(of_a_global), jax.jit(of_a_global)

    def closure(w):
        return 2 * jnp.sum((trainer.batch * w) ** 2)

    def with_number(w):
        return 2 * jnp.sum((number * w) ** 2)

    losses = {
        "global": of_a_global, "bound method": trainer.loss, "closure": closure, "Partial of a global": partial,
        "jit": compiled, "Python number": with_number,
    }  # fmt: skip
    sizes = []
    for value in (1.5, 4.5, 3.0):
        batch = trainer.batch = jnp.float32(value)
        number = value
        found = looks(losses[kind], W)
        found[3] /= 0.01
        np.testing.assert_allclose(found, 4 * value**2, rtol=1e-12)
        sizes.append((tracing.run._cache_size(), tracing.run_rows._cache_size()))
    assert sizes[0] == sizes[1] == sizes[2]
    batch = jnp.float32(1.0)


def test_programs_that_differ_in_a_power_a_branch_or_an_inner_constant_are_told_apart():
    for power in (2, 3, 4):
        assert sharpness(lambda w, p=power: jnp.sum(w**p), jnp.ones(1)) == pytest.approx(power * (power - 1))
    for values in (np.array([1.0, 2.0]), np.array([1.0, 3.0])):
        inner = jax.jit(lambda w, v=values: jnp.sum(v * w**2))
        assert sharpness(lambda w, f=inner: f(w), jnp.ones(2)) == pytest.approx(2 * values[1])
    for sign in (1, -1):

        @jax.custom_jvp
        def f(w):
            return w**2

        f.defjvp(lambda primals, tangents, s=sign: (primals[0] ** 2, s * 3 * primals[0] * tangents[0]))
        assert dense_hessian(lambda w, f=f: jnp.sum(f(w)), jnp.ones(1))[0, 0] == pytest.approx(3 * sign)


def convolved(images, labels, params, precision):
    """A convolution with its own data, a loop that carries ``precision``, a branch: what float64 alone refuses."""
    hidden = jax.nn.relu(
        jax.lax.conv_general_dilated(
            images, params["kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
    )
    total, _ = jax.lax.scan(lambda c, x: (0.9 * c + jnp.tanh(x).mean(), None), precision(0.5), hidden)
    total = jax.lax.cond(labels[0] > 0, lambda t: t * params["scale"], lambda t: t, total)
    logits = hidden.mean(axis=(1, 2)) * params["scale"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean() + 0.3 * total**2


def test_closed_over_float32_data_give_the_hessian_of_the_same_loss_in_float64():
    random = np.random.default_rng(0)
    images = random.normal(size=(3, 5, 5, 1)).astype(np.float32)
    params = {"kernel": jnp.asarray(random.normal(size=(3, 3, 1, 4)), jnp.float32), "scale": jnp.float32(0.3)}
    labels = jnp.array([1, 0, 3])
    found = dense_hessian(lambda p: convolved(images, labels, p, jnp.float32), params)
    with jax.enable_x64(True):
        flat, unravel = ravel_pytree(tracing.widen(params))
        exact = jax.hessian(lambda w: convolved(images.astype(float), labels, unravel(w), jnp.float64))(flat)
    assert_close(found, np.asarray(exact), 1e-14)


def test_modules_integers_and_complex_numbers_are_told_what_to_do():
    module = eqx.nn.MLP(2, 1, 3, 2, key=jax.random.key(0))
    for params in (module, nnx.Dropout(0.5, rngs=nnx.Rngs(0)), {"a": jnp.ones(2), "b": jnp.arange(3)}):
        with pytest.raises(TypeError, match=r"eqx.partition\(.*nnx.split\("):
            sharpness(lambda p: 0.0, params)
        with pytest.raises(TypeError, match=r"eqx.partition\(.*nnx.split\("):
            map_spectrum(lambda p: 0.0, params, "adam")
    with pytest.raises(TypeError, match="complex64 at the root: give real and imaginary parts"):
        sharpness(lambda p: jnp.abs(p).sum(), jnp.ones(2, jnp.complex64))
    params, static = eqx.partition(module, eqx.is_inexact_array)
    x = np.ones((4, 2), np.float32)
    blocks = block_eigenvalues(lambda p: jnp.mean(jax.vmap(eqx.combine(p, static))(x) ** 2), params, 1)
    assert list(blocks) == [".layers[0]", ".layers[1]", ".layers[2]"]


def test_accumulated_gradients_have_the_map_of_the_step_that_is_taken():
    """Three of four steps change the mean gradient alone; the fourth is descent by the mean of four."""
    curvature = jnp.array([1.0, 3.0])
    optimiser = optax.MultiSteps(optax.sgd(0.5), every_k_schedule=2)
    state = optimiser.init(W)
    loss = lambda w: 0.5 * jnp.sum(curvature * w**2)  # noqa: E731
    first = map_spectrum(loss, W, optimiser, state, num=4)
    _, state = optimiser.update(jax.grad(loss)(W), state, W)
    second = map_spectrum(loss, W, optimiser, state, num=2)
    np.testing.assert_allclose(np.sort(np.abs(first.values)), [0, 0, 1, 1], atol=1e-12)
    assert np.abs(second.values).max() == pytest.approx(0.75, rel=1e-12)  # 1 - 0.5 (g + g') / 2
