"""Theorems 1, 2, 4 and 5 on smooth problems, and the linearised descent against its equation."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from multigrade.curvature import NotConverged, stable_learning_rate
from multigrade_paper.descent_theorems import check_learning_rate, linearised_descent


def quadratic(eigenvalues, params):
    return 0.5 * jnp.sum(eigenvalues * params["a"] ** 2)


def smooth_loss(matrix, params):
    """A strictly convex, non-quadratic loss with minimum 0 at 0: its Hessian lies between M'M and M'M + 12 R^2 I."""
    return 0.5 * jnp.sum((matrix @ params) ** 2) + jnp.sum(params**4)


def test_theorems_one_four_and_five_on_a_smooth_problem():
    random = np.random.default_rng(0)
    matrix = np.eye(6) + 0.1 * random.normal(size=(6, 6))
    start = 0.3 * random.normal(size=6)
    loss = Partial(smooth_loss, matrix)
    path = linearised_descent(loss, start, 0.5, 300)
    trajectory = [linearised_descent(loss, start, 0.5, k).params for k in (1, 2, 5, 20)]
    check = check_learning_rate(loss, [start, *trajectory], 0.5)
    assert check.is_stable
    assert check.is_contraction
    assert 0.5 * check.alpha <= 1 + check.tau  # the lemma "tau less 1"
    assert np.all(np.diff(path.losses) <= 0)
    assert path.step_norms[-1] < 1e-14
    assert path.distances[0] == path.distances[1] == 0  # V^0 = W^0, V^1 = W^1
    assert path.distances.max() > 1e-4
    assert path.distances[-1] < 1e-12
    assert np.linalg.norm(path.params) < 1e-12


def test_linearised_step_is_the_papers_equation():
    matrix, w0, eta = np.eye(2), np.array([0.4, -0.2]), 0.1
    loss = Partial(smooth_loss, matrix)

    def slope(w):
        return w + 4 * w**3

    def hessian(w):
        return np.eye(2) + np.diag(12 * w**2)

    w1 = w0 - eta * slope(w0)
    u0 = slope(w0) - hessian(w0) @ w0
    expected = (np.eye(2) - eta * hessian(w0)) @ w1 - eta * u0
    np.testing.assert_allclose(linearised_descent(loss, w0, eta, 1).linearised, expected, rtol=1e-14)


def test_linearisation_is_exact_on_a_quadratic_and_beyond_the_limit_both_grow():
    loss, params = Partial(quadratic, np.array([1.0, 10.0])), {"a": np.array([1.0, 1.0])}
    assert stable_learning_rate(loss, params) == pytest.approx(0.2)
    path = linearised_descent(loss, params, 0.19, 500)
    np.testing.assert_allclose(path.distances, 0, atol=1e-12)
    assert path.losses[-1] < 1e-20
    assert linearised_descent(loss, params, 0.21, 50).losses[-1] > 100
    assert not check_learning_rate(loss, [params], 0.21).is_stable
    assert "outside" in check_learning_rate(loss, [params], 0.21).sentence


def test_tau_below_one_needs_a_positive_definite_hessian():
    loss, params = Partial(quadratic, np.array([0.0, 1.0])), {"a": np.ones(2)}
    check = check_learning_rate(loss, [params], 0.5)
    assert check.is_stable
    assert check.tau == 1
    assert not check.is_contraction


@pytest.mark.parametrize("size", [200, 300])  # dense, and by Lanczos
def test_where_the_hessian_vanishes_every_rate_is_stable(size):
    loss, params = Partial(quadratic, np.zeros(size)), {"a": np.ones(size)}
    check = check_learning_rate(loss, [params, params], 0.1)  # the second from a warm start
    assert (check.alpha, check.tau, check.is_stable) == (0, 1, True)


def test_an_unknown_curvature_makes_no_rate_safe():
    with pytest.warns(NotConverged):
        check = check_learning_rate(lambda w: jnp.sum(jnp.sqrt(w)), [-jnp.ones(5)], 0.1)
    assert not check.is_stable
    assert not check.is_contraction
    assert "not known" in check.sentence
