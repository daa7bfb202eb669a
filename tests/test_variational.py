"""The objective over all images, its strengths from the observation, and grades fitted to a target by random pixels."""

import dataclasses

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multigrade import structures
from multigrade.pictures.files import add_noise, load
from multigrade.pictures.graded import target
from multigrade.pictures.graded.restoration import pixel_coordinates
from multigrade.pictures.inverse import strengths, variational
from multigrade.pictures.metrics import psnr
from multigrade.pictures.operators import BlockAverage, GaussianBlur, Identity, Mask
from multigrade.training import Plan, train_grades

CAMERA = load(":camera").pixels[64:192:2, 160:288:2]  # 64 x 64
SHAPE = (7, 6)


def _dense(function, size: int) -> np.ndarray:
    return np.stack([np.asarray(function(e.reshape(SHAPE))).ravel() for e in np.eye(size)], axis=1)


OPERATORS = {
    "identity": Identity(),
    "blur": GaussianBlur(1.0),
    "mask": Mask(np.random.default_rng(1).uniform(size=SHAPE) < 0.6),
    "average": BlockAverage(2, SHAPE),
}


@pytest.mark.parametrize(("weight", "beta"), [(0.05, 1.0), (0.02, 50.0), (10.0, 0.1)], ids=["huber", "tv", "quadratic"])
@pytest.mark.parametrize("name", OPERATORS)
def test_solution_is_the_interior_point_minimum(name, weight, beta):
    operator, size = OPERATORS[name], SHAPE[0] * SHAPE[1]
    observed = np.asarray(operator(jnp.asarray(np.random.default_rng(0).uniform(size=SHAPE), jnp.float32)))
    A, B = _dense(operator, size), _dense(variational.DIFFERENCES, size)
    z = cp.Variable(size)
    # cvxpy's huber(d, m) is d^2 inside |d| <= m and 2 m |d| - m^2 outside.
    prior = beta / 2 * cp.sum(cp.huber(B @ z, weight / beta))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(A @ z - observed.ravel()) + prior))
    problem.solve(solver=cp.CLARABEL)
    found = variational.solve(observed, operator, weight, beta, shape=SHAPE, iterations=2000)
    value = variational.objective(found, observed, operator, weight, beta)
    assert value == pytest.approx(problem.value, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    "image", [np.full((128, 128), 0.8), np.tile(np.linspace(0, 1, 128), (128, 1))], ids=["flat", "ramp"]
)
def test_a_wide_hole_is_filled(image):
    known = np.ones((128, 128), bool)
    known[40:88, 40:88] = False
    found = variational.solve(np.where(known, image, 0), Mask(known), 1e-3, 1.0)
    np.testing.assert_allclose(found[~known], image[~known], atol=0.02)


@pytest.mark.parametrize("shape", [(12, 9), (1, 7), (7, 1)])
def test_second_differences_have_their_adjoint_and_the_square_of_the_first_ones_spectrum(shape):
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=shape), generator.normal(size=(3, *shape))
    rough = variational.second_differences(x)
    np.testing.assert_allclose(np.sum(rough * y), np.sum(x * variational.second_differences_adjoint(y)), rtol=1e-6)
    spectrum = variational.DIFFERENCES.normal_eigenvalues(shape) ** 2
    squared = variational.idct(spectrum * variational.dct(x))
    np.testing.assert_allclose(variational.second_differences_adjoint(rough), squared, atol=1e-5)


@pytest.mark.parametrize("operator", [Identity(), Mask(np.ones((48, 40), np.float32))], ids=["DCT", "gradients"])
def test_second_order_leaves_a_slope_where_first_order_makes_steps(operator):
    rows, columns = np.mgrid[:48, :40]
    slope = np.float32(0.3 + 0.008 * rows + 0.004 * columns)
    noisy = slope + np.float32(0.05) * np.random.default_rng(0).standard_normal(slope.shape, np.float32)
    inside = np.s_[4:-4, 4:-4]
    errors = [
        np.std((variational.solve(noisy, operator, 0.05, 10.0, order=order, iterations=200) - slope)[inside])
        for order in (1, 2)
    ]
    assert errors[1] < 0.8 * errors[0]


def test_proximal_step_of_huber_minimises_its_definition():
    v, grid = np.linspace(-1, 1, 41, dtype=np.float32), np.linspace(-1.5, 1.5, 60001)
    values = [np.asarray(variational.huber(jnp.asarray(grid), 0.1, 0.5)) + 0.35 * (grid - x) ** 2 for x in v]
    best = grid[np.argmin(values, axis=1)]
    np.testing.assert_allclose(variational.huber_prox(v, 0.1, 0.5, 0.7), best, atol=2e-3)


@pytest.mark.parametrize("sigma", [10, 30])
def test_estimated_risk_finds_the_best_lambda(sigma):
    noisy = np.float32(add_noise(CAMERA, sigma, seed=0))
    chosen = strengths.for_denoising(noisy, sigma / 255)

    def quality(weight):
        return psnr(variational.solve(noisy, Identity(), weight, weight / strengths.EDGE), CAMERA)

    best = max(quality(chosen.weight * factor) for factor in (0.5, 0.7, 1.0, 1.4, 2.0))
    assert quality(chosen.weight) > best - 0.15


def test_prior_variance_is_recovered_from_a_drawn_image():
    generator, shape, blur = np.random.default_rng(0), (128, 96), GaussianBlur(1.5)
    powers = variational.DIFFERENCES.normal_eigenvalues(shape)
    powers.flat[0] = np.inf
    coefficients = generator.normal(size=shape) * np.sqrt(0.003 / powers)
    noisy = variational.idct(blur.eigenvalues(shape) * coefficients) + generator.normal(0, 0.01, shape)
    assert strengths.prior_variance(noisy, blur.eigenvalues(shape), 0.01) == pytest.approx(0.003, rel=0.1)


def _task(**fields):
    pixels = jnp.asarray(2 * pixel_coordinates(16, 12) - 1)
    values = jnp.sin(3 * pixels[:, :1]) * pixels[:, 1:]
    return target.TargetTask(target.PixelFeatures(pixels), jnp.zeros_like(values), values, (64, 64), **fields)


def _fit(task):
    structure = structures.graded(2, [(16,), (12,)], 1, bias_std=0.3)
    return train_grades(structure, task, Plan(40, "adam", learning_rate=0.01, record_every=20))


@pytest.mark.slow
def test_features_computed_for_each_batch_train_the_same_grades(monkeypatch):
    kept = _fit(_task())
    monkeypatch.setattr(target, "KEPT_BYTES", 0)
    computed = _fit(_task())
    for a, b in zip(jax.tree.leaves(kept.model), jax.tree.leaves(computed.model), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)


def test_the_model_is_plain_and_gives_the_image_of_the_task():
    start = _task()
    fit, task = _fit(start), start
    for grade in fit.model.grades:
        task = task.after(grade, ())
    np.testing.assert_allclose(fit.model(start.features.base), task.image, atol=1e-4)


def test_draws_favour_large_residuals_and_weights_undo_it():
    residual = jnp.asarray(np.random.default_rng(0).exponential(size=(300, 1)))
    among = np.arange(0, 300, 2)
    for chosen in (np.arange(300), among):
        pool, weights = target._pool(residual, None if len(chosen) == 300 else among)
        assert len(pool) == target.REPEATS * len(chosen)
        repeats = np.bincount(pool, minlength=300)
        expected = np.zeros(300)
        expected[chosen] = 1
        np.testing.assert_allclose(repeats * weights, expected, rtol=1e-6)
        assert np.corrcoef(repeats[chosen], np.asarray(residual)[chosen, 0])[0, 1] > 0.95
    np.testing.assert_array_equal(target._pool(jnp.zeros((5, 1)), None)[0], np.repeat(np.arange(5), target.REPEATS))


def test_only_the_pixels_to_learn_from_are_seen():
    among = jnp.arange(0, 192, 3)
    spoiled = _task(among=among)
    hidden = jnp.ones((192, 1)).at[among].set(0) * 100
    spoiled = dataclasses.replace(spoiled, target=spoiled.target + hidden)
    for a, b in zip(*(jax.tree.leaves(_fit(task).model) for task in (_task(among=among), spoiled)), strict=True):
        np.testing.assert_array_equal(a, b)
