"""Random batches: their expectation is the mean over all rows, by weight."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from multigrade import MultiGradeRegressor, Plan, fit_grades, structures
from multigrade.networks import Network
from multigrade.training.objectives import LeastSquares, Rows
from multigrade.training.sampling import random_rows


def probabilities(sampler, num_rows):
    """Of every row, from the thresholds alone."""
    given = np.zeros(num_rows)
    ends = np.r_[0.0, np.asarray(sampler.thresholds, float), 2.0**32]
    given[: len(ends) - 1] = np.diff(ends) / 2.0**32
    return given


@pytest.mark.parametrize("seed", range(5))
def test_the_expected_gradient_of_a_batch_is_the_gradient_of_all_rows(seed):
    rng = np.random.default_rng(seed)
    weights = np.exp(rng.normal(scale=3, size=50)) * (rng.random(50) > 0.3)
    network = Network((2, 4, 1))
    objective, params = LeastSquares(network, weight_decay=0.1), network.init(jax.random.key(seed))
    data = Rows(
        *(jnp.asarray(rng.normal(size=(50, n)), jnp.float32) for n in (2, 1)), jnp.asarray(weights, jnp.float32)
    )
    sampler = random_rows(1, 50, weights)
    one_row = jax.jit(lambda i: objective.value_and_grad(params, (), Rows(data.inputs[i][None], data.targets[i][None])))
    of_rows = [jax.flatten_util.ravel_pytree(one_row(i))[0] for i in range(50)]
    whole = jax.flatten_util.ravel_pytree(objective.value_and_grad(params, (), data))[0]
    np.testing.assert_allclose(probabilities(sampler, 50) @ np.array(of_rows), whole, atol=2e-6)


def test_rows_are_drawn_as_often_as_their_probability_says():
    weights = np.array([0.0, 3.0, 1.0, 0.0, 5.0, 1e-20, 0.0])
    sampler = random_rows(100_000, 7, weights)
    data = Rows(jnp.arange(7.0)[:, None], jnp.zeros((7, 1)), jnp.asarray(weights, jnp.float32))
    batch = sampler.draw(jax.random.key(1), data)
    counts = np.bincount(np.asarray(batch.inputs[:, 0], int), minlength=7)
    np.testing.assert_allclose(probabilities(sampler, 7), weights / 9, atol=2.0**-32)
    np.testing.assert_allclose(counts, weights / 9 * 100_000, atol=5 * np.sqrt(100_000) / 2)
    assert np.all(counts[weights == 0] == 0)
    assert batch.weights is None


@pytest.mark.parametrize("weights", [None, np.ones(7), np.full(7, 0.3)])
def test_equal_weights_are_drawn_as_without_weights(weights):
    assert random_rows(4, 7, weights).thresholds is None


def test_one_row_of_weight_is_always_drawn():
    sampler = random_rows(64, 3, np.array([0.0, 2.0, 0.0]))
    batch = sampler.draw(jax.random.key(0), Rows(jnp.arange(3.0)[:, None], jnp.zeros((3, 1)), jnp.zeros(3)))
    assert np.all(np.asarray(batch.inputs) == 1)


@pytest.mark.parametrize("batch_size", [1, 64])
def test_a_constant_fitted_by_random_batches_is_the_weighted_mean(batch_size):
    """Eight rows of weight 1000 and target 1 against 8000 of weight 1 and target 0: half and half."""
    x, y = np.zeros((8008, 1)), np.repeat([[1.0], [0.0]], [8, 8000], axis=0)
    weights = np.repeat([1000.0, 1.0], [8, 8000])
    structure = structures.graded(1, [(1,)], 1)
    plan = Plan(4000, "gd", learning_rate=lambda step: 1 / (2 + step / 4), batch_size=batch_size)
    fit = fit_grades(structure, x, y, plan, sample_weight=weights)
    assert float(fit.model(x[:1])[0, 0]) == pytest.approx(0.5, abs=0.04)


def test_the_regressor_obeys_weights_in_batches_too():
    x, y = np.zeros((8008, 1)), np.repeat([1.0, 0.0], [8, 8000])
    weights = np.repeat([1000.0, 1.0], [8, 8000])
    model = MultiGradeRegressor(1, (4,), solver="muon", max_iter=300, standardize=False, random_state=0)
    assert model.fit(x, y, weights).predict(x[:1])[0] == pytest.approx(0.5, abs=0.05)
