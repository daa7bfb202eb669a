"""The threshold of an optimiser: closed forms, and the map's own leftmost eigenvalue."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from multigrade.curvature import (
    NoPreconditioner,
    SpikeWarning,
    map_spectrum,
    optimiser_map,
    preconditioned_curvature,
    preconditioner,
)
from multigrade.training import RunRecord
from multigrade.training.observers import Snapshot

from .test_maps import quadratic, trained

# The limit of eta lambda(P^-1 H), where eta = 1 and P^-1 holds the rate 0.1.
LIMITS = {
    "gd": (optax.sgd(0.1), 2),
    "heavy ball": (optax.sgd(0.1, momentum=0.8), 2 + 2 * 0.8),
    "nesterov": (optax.sgd(0.1, momentum=0.8, nesterov=True), (2 + 2 * 0.8) / (1 + 2 * 0.8)),
    "adam": (optax.adam(0.1), (2 + 2 * 0.9) / (1 - 0.9)),
    "adam, other numbers": (optax.adam(0.1, b1=0.5, b2=0.9), (2 + 2 * 0.5) / (1 - 0.5)),
    "adamw": (optax.adamw(0.1, weight_decay=0.5), (2 - 0.1 * 0.5) * (1 + 0.9) / (1 - 0.9)),
    "rmsprop": (optax.rmsprop(0.1, decay=0.9), 2),
}


def at_rest(optimiser, size):
    """Its state after a million steps, with second moments of gradients 2, 3, ... and momentum 0."""

    def leaf(path, value):
        if value.dtype == jnp.int32:
            return jnp.int32(10**6)
        return jnp.arange(2.0, 2 + size) ** 2 if ".nu" in jax.tree_util.keystr(path) else value

    with jax.enable_x64(True):
        return jax.tree_util.tree_map_with_path(leaf, optimiser.init(jnp.zeros(size)))


@pytest.mark.parametrize("name", LIMITS)
def test_the_step_has_the_eigenvalue_minus_one_at_the_threshold(name):
    optimiser, expected = LIMITS[name]
    (hessian,), state = quadratic(np.array([0.5, 1.0, 2.0, 4.0])).args, at_rest(optimiser, 4)
    found = preconditioned_curvature(lambda w: 0.5 * w @ (hessian @ w), np.zeros(4), optimiser, state)
    np.testing.assert_allclose(found.threshold, expected, rtol=1e-9)
    at_the_edge = hessian / found.ratio
    step = optimiser_map(lambda w: 0.5 * w @ (at_the_edge @ w), np.zeros(4), optimiser, state)
    values = np.linalg.eigvals(step.dense())
    np.testing.assert_allclose(np.min(values.real), -1, atol=1e-9)
    inner = found.preconditioner.roots(found.values[0] / found.ratio, 1.0)
    np.testing.assert_allclose(np.min(inner.real), -1, atol=1e-9)


def test_preconditioner_of_adam_is_the_root_of_its_second_moments():
    loss, transformation, params, state = trained("adam")
    known = preconditioner(loss, params, transformation, state)
    with jax.enable_x64(True):
        after = transformation.update(jax.grad(loss)(params), state, params)[1][0]
    second = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(after.nu)])
    expected = (np.sqrt(second / (1 - 0.999**6)) + 1e-8) * (1 - 0.9**6)
    np.testing.assert_allclose(known.inverse, 1 / expected, rtol=1e-9)


def test_outside_is_said_and_the_safe_rate_is_at_the_threshold():
    loss = quadratic(np.linspace(1, 40, 30))
    found = preconditioned_curvature(loss, np.zeros(30), "momentum", learning_rate=0.1, num=2)
    assert (found.is_inside, found.sentence[:8]) == (False, "outside:")
    np.testing.assert_allclose(found.safe_rate, 3.8 / 40)
    leftmost = map_spectrum(loss, np.zeros(30), "momentum", learning_rate=found.safe_rate, num=1, end="leftmost")
    np.testing.assert_allclose(leftmost.values, -1, atol=1e-9)


@pytest.mark.parametrize("optimiser", [optax.sign_sgd(0.1), optax.lamb(0.1)])
def test_what_has_no_threshold_is_refused(optimiser):
    with pytest.raises(NoPreconditioner):
        preconditioner(lambda w: w @ w, jnp.arange(1.0, 4.0), optimiser)


def test_muon_has_no_threshold():
    loss, transformation, params, state = trained("muon", num_steps=1)
    with pytest.raises(NoPreconditioner, match="unlike others"):
        preconditioner(loss, params, transformation, state)


@pytest.mark.parametrize("name", ["heavy ball", "adam"])
def test_a_spike_warning_is_told_when_the_threshold_is_passed(name):
    """The same point at rising rates: the ratio is that of the exact eigenvalue, and crossing 1 is told once."""
    told, optimiser = [], LIMITS[name][0]
    loss, state = quadratic(np.linspace(1, 8, 30)), at_rest(optimiser, 30)
    watch, carry, params = SpikeWarning(tell=told.append), None, np.ones(30)
    exact = preconditioned_curvature(loss, params, optimiser, state, learning_rate=1.0)
    for wanted in (0.5, 0.9, 1.1, 1.2):
        rate = wanted * exact.threshold / float(exact.values[0])
        seen = watch.observe(Snapshot(0, 7, 9, params, loss, rate, RunRecord({}, {}), optimiser, state), carry)
        carry = seen.carry
        np.testing.assert_allclose(seen.values["ratio"], wanted, rtol=1e-3)
        assert seen.values["warned"] == (wanted == 1.1)
    assert len(told) == 1
    assert told[0].startswith("step 7: the loss may spike")
