"""Gauss-Newton, Fisher, sums over batches, differences of gradients, traces: against dense matrices of definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from multigrade.curvature import (
    DifferenceOperator,
    HessianOperator,
    dense_hessian,
    diagonal,
    empirical_fisher,
    extreme_eigenvalues,
    gauss_newton,
    lyapunov_exponents,
    map_spectrum,
    preconditioned_curvature,
    sharpness,
    spectral_density,
    trace,
)

from .small_losses import assert_close

RANDOM = np.random.default_rng(0)
X, LABELS = RANDOM.normal(size=(10, 3)), RANDOM.integers(0, 4, 10)
PARAMS = {"first": RANDOM.normal(size=(3, 5)), "second": RANDOM.normal(size=(5, 4))}
BATCHES = [(X[:4], LABELS[:4]), (X[4:8], LABELS[4:8]), (X[8:], LABELS[8:])]


def logits(params, x):
    return jnp.tanh(x @ params["first"]) @ params["second"]


def criterion(outputs, labels):
    return optax.softmax_cross_entropy_with_integer_labels(outputs, labels).mean()


def loss(params, batch):
    return criterion(logits(params, batch[0]), batch[1])


def jacobian():
    """Of all logits, (rows * classes, parameters), in the order of ravel_pytree."""
    with jax.enable_x64(True):
        parts = jax.jacrev(lambda p: logits(p, X).reshape(-1))(jax.tree.map(jnp.asarray, PARAMS))
        return np.concatenate([np.asarray(part).reshape(40, -1) for part in jax.tree.leaves(parts)], axis=1)


def probabilities():
    with jax.enable_x64(True):
        return np.asarray(jax.nn.softmax(logits(PARAMS, X)))


def test_an_epoch_of_batches_is_the_mean_over_all_rows():
    whole, streamed = dense_hessian(lambda p: loss(p, (X, LABELS)), PARAMS), HessianOperator(loss, PARAMS, BATCHES)
    assert_close(streamed.dense(), whole, 1e-12)
    assert streamed.value == pytest.approx(float(loss(PARAMS, (X, LABELS))), rel=1e-6)
    again = HessianOperator(loss, PARAMS, lambda: (jax.tree.map(jnp.asarray, batch) for batch in BATCHES))
    assert sharpness(again) == pytest.approx(np.linalg.eigvalsh(whole)[-1], rel=1e-5)  # of rows in float32
    with pytest.raises(TypeError, match="gone through again"):
        HessianOperator(loss, PARAMS, iter(BATCHES))
    with pytest.raises(ValueError, match="at least one batch"):
        HessianOperator(loss, PARAMS, [])


def test_maps_and_thresholds_over_batches_are_those_of_the_whole():
    whole, streamed = lambda p: loss(p, (X, LABELS)), HessianOperator(loss, PARAMS, BATCHES)
    for optimiser in (optax.adam(1e-2), optax.sgd(0.5, momentum=0.9)):
        values = [map_spectrum(of, PARAMS, optimiser, num=4).values for of in (whole, streamed)]
        np.testing.assert_allclose(values[1], values[0], atol=1e-9)
        ratios = [preconditioned_curvature(of, PARAMS, optimiser).ratio for of in (whole, streamed)]
        assert ratios[1] == pytest.approx(ratios[0], rel=1e-8)


def test_gauss_newton_of_cross_entropy_is_the_fisher_matrix_of_its_definition():
    """F = 1/N sum_n J_n' (diag(p_n) - p_n p_n') J_n, the expectation of g g' over labels that the model draws."""
    p, blocks = probabilities(), jacobian().reshape(10, 4, -1)
    exact = sum(J.T @ (np.diag(q) - np.outer(q, q)) @ J for J, q in zip(blocks, p, strict=True)) / 10
    assert_close(gauss_newton(logits, criterion, PARAMS, BATCHES).dense(), exact, 1e-12)
    one = gauss_newton(lambda params: logits(params, X), lambda out: criterion(out, LABELS), PARAMS)
    assert_close(one.dense(), exact, 1e-12)


def test_empirical_fisher_is_the_mean_of_outer_products_of_gradients():
    slopes = probabilities() - np.eye(4)[LABELS]
    rows = np.einsum("nc,ncm->nm", slopes, jacobian().reshape(10, 4, -1))

    def losses(params, batch):
        return optax.softmax_cross_entropy_with_integer_labels(logits(params, batch[0]), batch[1])

    assert_close(empirical_fisher(losses, PARAMS, BATCHES).dense(), rows.T @ rows / 10, 1e-12)
    assert_close(empirical_fisher(lambda p: losses(p, (X, LABELS)), PARAMS).dense(), rows.T @ rows / 10, 1e-12)


def test_a_loss_outside_jax_has_the_spectrum_of_its_differences():
    matrix = RANDOM.normal(size=(300, 300))
    matrix = matrix @ matrix.T / 300
    gradient = lambda w: matrix @ w + 4 * w**3  # noqa: E731
    found = extreme_eigenvalues(DifferenceOperator(gradient, np.zeros(300)), num=3)
    exact = np.linalg.eigvalsh(matrix)
    assert found.converged, found.sentence
    np.testing.assert_allclose(found.largest, exact[::-1][:3], rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_trace_and_diagonal_are_within_their_bounds(seed):
    random = np.random.default_rng(seed)
    values = np.geomspace(1, 1e-4, 400) * random.choice([1, 1, -1], 400)
    rotation = np.linalg.qr(random.normal(size=(400, 400)))[0]
    matrix = rotation @ np.diag(values) @ rotation.T
    quadratic = lambda w: 0.5 * w @ jnp.asarray(matrix) @ w  # noqa: E731
    found = trace(quadratic, np.zeros(400), num_products=60, seed=seed)
    assert found.low <= np.trace(matrix) <= found.high
    assert found.high - found.low < 0.2 * np.abs(values).sum()
    entries = diagonal(quadratic, np.zeros(400), num_products=60, seed=seed)
    inside = (entries.low <= np.diagonal(matrix)) & (np.diagonal(matrix) <= entries.high)
    assert inside.mean() > 0.9
    few = trace(lambda w: 0.5 * w[:3] @ w[:3], np.zeros(400), num_products=60)  # its range is seen whole
    assert few == pytest.approx((3, 3, 3))
    np.testing.assert_allclose(diagonal(lambda w: jnp.sum(w**4), np.ones(5)).value, 12)


def test_the_share_of_negative_curvature_is_within_its_bounds_also_where_the_estimate_is_off():
    """Half of the eigenvalues crowd at 0, three tenths just below -1e-3: sixty steps do not tell them apart."""
    random = np.random.default_rng(1)
    values = np.concatenate([np.full(200, 0.0), -1e-3 - 1e-3 * random.uniform(size=120), random.uniform(0, 3, 80)])
    density = spectral_density(lambda w: 0.5 * jnp.sum(values * w**2), np.zeros(400), num_steps=20)
    low, high = density.fraction_interval(-1e-3)
    assert low <= 0.3 <= high
    assert density.fraction_interval(10.0)[0] > 0.8
    low, high = density.mean_interval(lambda x: x)
    assert low - 1e-12 <= values.mean() <= high + 1e-12


def test_exponents_along_batches_at_rest_are_those_of_the_iteration_matrix():
    curvature = jnp.array([1.0, 0.5, 0.2])
    steps = [jnp.zeros(()) for _ in range(200)]
    found = lyapunov_exponents(
        lambda w, batch: 0.5 * jnp.sum(curvature * w**2) + 0 * batch, jnp.zeros(3), "gd", steps, num=3,
        learning_rate=0.5,
    )  # fmt: skip
    np.testing.assert_allclose(found, np.log([0.9, 0.75, 0.5]), atol=0.02)
