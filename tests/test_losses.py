"""Losses of scores: minimisers in closed form, other libraries' values, and the squared error to the bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.metrics import log_loss, mean_pinball_loss

from multigrade import Network, Plan, fit_grades, structures
from multigrade.training import Regression
from multigrade.training.objectives import (
    GradedLoss,
    Huber,
    LeastSquares,
    Logistic,
    Multinomial,
    Pinball,
    Poisson,
    Rows,
    Squared,
)

RANDOM = np.random.default_rng(0)
SCORES = RANDOM.normal(size=(40, 3)).astype(np.float32)
CLASSES = RANDOM.integers(0, 3, 40)
ONE_HOT = np.eye(3, dtype=np.float32)[CLASSES]
COUNTS = RANDOM.poisson(2.0, (40, 1)).astype(np.float32)
NUMBERS = RANDOM.normal(size=(40, 1)).astype(np.float32)
IS_FIRST = (CLASSES == 0).astype(np.float32)[:, None]
CASES = [
    (Squared(), NUMBERS), (Huber(0.7), NUMBERS), (Pinball(0.8), NUMBERS), (Poisson(), COUNTS),
    (Logistic(), IS_FIRST), (Multinomial(), ONE_HOT),
]  # fmt: skip


def test_values_are_those_of_other_libraries():
    expected = log_loss(CLASSES, np.exp(log_softmax(SCORES.astype(float), axis=1)))
    assert float(jnp.mean(Multinomial()(SCORES, ONE_HOT))) == pytest.approx(expected, rel=1e-5)
    chance = Logistic().predict(SCORES[:, :1].astype(float))
    expected = log_loss(IS_FIRST[:, 0], chance[:, 1])
    assert float(jnp.mean(Logistic()(SCORES[:, :1], IS_FIRST))) == pytest.approx(expected, rel=1e-5)
    expected = mean_pinball_loss(NUMBERS[:, 0], SCORES[:, 0], alpha=0.8)
    assert float(jnp.mean(Pinball(0.8)(SCORES[:, :1], NUMBERS))) == pytest.approx(expected, rel=1e-5)


def test_huber_is_the_squared_error_near_and_linear_far():
    near, far = jnp.array([[0.5]]), jnp.array([[10.0]])
    assert float(Huber(1.0)(near, jnp.zeros((1, 1)))[0]) == pytest.approx(0.125)
    assert float(Huber(1.0)(far, jnp.zeros((1, 1)))[0]) == pytest.approx(9.5)


@pytest.mark.parametrize(("loss", "targets"), CASES, ids=lambda value: getattr(type(value), "__name__", ""))
def test_no_constant_is_better_than_the_start(loss, targets):
    weights = RANDOM.integers(1, 4, len(targets)).astype(float)
    start = loss.start(targets.astype(float), weights)

    def mean(score):
        return float(np.average(loss(jnp.broadcast_to(score, targets.shape), targets), weights=weights))

    for other in (start + 0.1, start - 0.1):  # chances are kept from 0 and 1, by little
        assert mean(start) <= mean(other + 0 * start) + 1e-6 or loss == Multinomial()
    if loss == Multinomial():
        assert mean(start) <= mean(start + np.array([0.2, 0, 0]))


@pytest.mark.parametrize(("loss", "targets"), CASES, ids=lambda value: getattr(type(value), "__name__", ""))
def test_curvature_bounds_the_second_derivative(loss, targets):
    if loss.curvature is None:
        return
    width = targets.shape[1]
    hessians = jax.vmap(jax.hessian(loss))(SCORES[:, :width], targets)
    assert float(jnp.max(jnp.linalg.eigvalsh(hessians))) <= loss.curvature + 1e-6


def test_graded_squared_error_is_least_squares_on_the_residual():
    network = Network((2, 4, 1))
    params, x = network.init(jax.random.key(0)), RANDOM.normal(size=(40, 2)).astype(np.float32)
    scores = SCORES[:, :1]
    by_scores = GradedLoss(network)(params, (), Rows(x, NUMBERS, None, scores))[0]
    by_residual = LeastSquares(network)(params, (), Rows(x, NUMBERS - scores))[0]
    assert float(by_scores) == pytest.approx(float(by_residual), rel=1e-6)


def test_grades_of_a_logistic_fit_lower_the_loss_of_the_sum():
    x = np.linspace(-1, 1, 64)[:, None]
    y = (np.sin(6 * x) > 0).astype(float)
    structure = structures.graded(1, [(8,), (8,)], 1)
    fit = fit_grades(
        structure, x, y, Plan(150, learning_rate=0.03, record_every=50), regression=Regression(loss=Logistic())
    )
    first, second = (record.train_loss[-1] for record in fit.records)
    scores = np.asarray(fit.model(jnp.asarray(x, jnp.float32)), float)
    assert second < first < np.log(2)
    assert float(second) == pytest.approx(log_loss(y[:, 0], Logistic().predict(scores)[:, 1]), rel=1e-4)


def test_scaled_residuals_need_the_squared_error():
    with pytest.raises(ValueError, match="residual_scaling must be False with another loss"):
        Regression(residual_scaling=True, loss=Poisson()).check(structures.graded(1, [(4,)], 1))
