"""Curvature: products, eigenvalues against eigh, densities."""

import doctest

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial
from scipy.sparse.linalg import ArpackNoConvergence

from multigrade.curvature import (
    NotConverged,
    block_eigenvalues,
    dense_hessian,
    extreme_eigenvalues,
    hessian_vector_product,
    iteration_spectrum,
    lanczos,
    products,
    sharpness,
    spectral_density,
    stable_learning_rate,
    tracing,
)
from multigrade.networks import MultiScaleNetwork, Network

from .small_losses import assert_close, mean_squares, problem


def quadratic(eigenvalues, params):
    return 0.5 * jnp.sum(eigenvalues * params["a"] ** 2)


# ---- products ----


def test_product_equals_dense_hessian_times_vector_and_keeps_the_global_precision():
    network = Network((2, 5, 4, 3), activation="tanh")
    params, x, y = problem(network)
    loss = Partial(mean_squares, network, x, y)
    vector = jax.tree.map(lambda leaf: np.random.default_rng(1).normal(size=leaf.shape), params)
    product = hessian_vector_product(loss, params)(vector)
    with jax.enable_x64(True):
        expected = dense_hessian(loss, params) @ np.asarray(ravel_pytree(vector)[0])
        assert_close(ravel_pytree(product)[0], expected, 1e-13)
    assert jnp.ones(1).dtype == jnp.float32


@jax.custom_jvp
def careless_relu(z):
    return jnp.maximum(z, 0)


@careless_relu.defjvp
def _careless_jvp(primals, tangents):
    out = jnp.maximum(primals[0], 0)  # differentiated once more, this gives 1/2 at 0 where the mask gives 0
    return out, jnp.sign(out) * tangents[0]


def test_at_a_kink_products_are_those_of_the_symmetric_part():
    x = np.linspace(0, 1, 5)[:, None]

    def loss(params):
        first, second = params
        return jnp.sum((careless_relu(careless_relu(x @ first) @ second) - 1) ** 2)

    params = np.random.default_rng(0).uniform(size=(1, 4)), np.random.default_rng(1).uniform(size=(4, 3))
    operator = products.HessianOperator(loss, params)
    assert_close(np.stack([operator(v) for v in np.eye(16)]), dense_hessian(loss, params), 1e-12)


def test_docstring_example_of_the_product():
    failed, attempted = doctest.testmod(products)
    assert attempted > 0
    assert failed == 0


def test_dense_hessian_of_a_quartic_is_exact():
    hessian = dense_hessian(lambda w: jnp.sum(w) ** 4 / 12, np.array([1.0, 2.0, 3.0], np.float32), num_columns=2)
    np.testing.assert_allclose(hessian, 36 * np.ones((3, 3)), rtol=1e-14)


def test_a_loss_made_anew_with_other_data_does_not_compile_again():
    network = Network((1, 4, 1))
    params, x, y = problem(network)
    dense_hessian(Partial(mean_squares, network, x, y), params)
    before = tracing.run._cache_size(), tracing.run_rows._cache_size()
    dense_hessian(Partial(mean_squares, network, 2 * x, y + 1), params)
    assert before == (tracing.run._cache_size(), tracing.run_rows._cache_size())


# ---- extreme eigenvalues ----


def random_networks():
    """Ten networks too large for the dense path: plain, wide, vector-valued, smooth, nearly degenerate, indefinite."""
    two, three = Network((2, 16, 16, 1)), Network((1, 12, 12, 12, 1))
    vector, wide, smooth = Network((3, 14, 14, 2)), Network((2, 100, 1)), Network((2, 16, 16, 1), activation="tanh")
    # Equal scales with nearly equal parameters make pairs of eigenvalues that are nearly equal; the wide network has
    # eigenvalues that are exactly equal; large targets make H indefinite.
    twins = MultiScaleNetwork(Network((1, 12, 12, 1)), (1.0, 1.0))
    definite = [(network, 1.0, seed) for seed, network in enumerate((two, three, vector, wide, smooth, twins))]
    return [*definite, (two, 20.0, 6), (three, 20.0, 7), (vector, 20.0, 8), (smooth, 20.0, 9)]


@pytest.mark.parametrize(("network", "amplitude", "seed"), random_networks())
def test_extreme_eigenvalues_agree_with_eigh(network, amplitude, seed):
    params, x, y = problem(network, num_rows=64, seed=seed)
    if isinstance(network, MultiScaleNetwork):
        nearly = jax.tree.map(lambda leaf: leaf * (1 + 1e-7), params[0])
        params = (params[0], nearly)
    loss = Partial(mean_squares, network, x, amplitude * y)
    assert products.num_parameters(params) > 256
    found = extreme_eigenvalues(loss, params, 10, tolerance=1e-9)
    exact = np.linalg.eigvalsh(dense_hessian(loss, params))
    norm = np.max(np.abs(exact))
    assert found.converged, found.sentence
    np.testing.assert_allclose(found.smallest, exact[:10], rtol=0, atol=1e-8 * norm)
    np.testing.assert_allclose(found.largest, exact[::-1][:10], rtol=0, atol=1e-8 * norm)
    assert max(found.smallest_residuals.max(), found.largest_residuals.max()) <= 1e-9 * norm
    if amplitude > 1:
        assert found.smallest[0] < -0.1 * found.largest[0] < 0


def test_known_spectrum_in_a_hundred_thousand_dimensions():
    eigenvalues = np.linspace(-1, 3, 100_000)
    eigenvalues[-5:] = [4, 5, 5 + 1e-6, 8, 10]
    eigenvalues[:3] = [-3, -2.5, -2]
    params = {"a": np.ones(100_000, np.float32)}
    found = extreme_eigenvalues(Partial(quadratic, eigenvalues), params, 3, tolerance=1e-9)
    assert found.converged, found.sentence
    np.testing.assert_allclose(found.smallest, [-3, -2.5, -2], rtol=1e-8)
    np.testing.assert_allclose(found.largest, [10, 8, 5 + 1e-6], rtol=1e-8)


def test_every_copy_of_a_repeated_eigenvalue_is_found():
    eigenvalues = np.concatenate([np.repeat([-2.0, 5.0], 4), np.linspace(-1, 3, 3000)])
    found = extreme_eigenvalues(Partial(quadratic, eigenvalues), {"a": np.ones(3008)}, 6, tolerance=1e-9)
    assert found.converged, found.sentence
    np.testing.assert_allclose(found.smallest, np.sort(eigenvalues)[:6], rtol=1e-8)
    np.testing.assert_allclose(found.largest, np.sort(eigenvalues)[::-1][:6], rtol=1e-8)


@pytest.mark.parametrize(("size", "max_restarts"), [(1000, 20), (3000, 12)])  # dense in the end, and by Lanczos
def test_copies_are_looked_for_where_both_ends_had_to_be_tried_again(size, max_restarts, monkeypatch):
    inside = np.random.default_rng(0).uniform(-1, 1, size - 26)
    eigenvalues = np.concatenate([np.linspace(1, 1.02, 20), np.repeat([1.05, -1.05], 3), inside])
    asked = []
    monkeypatch.setattr(lanczos, "eigsh", lambda *a, f=lanczos.eigsh, **o: asked.append(o["which"]) or f(*a, **o))
    loss, params = Partial(quadratic, eigenvalues), {"a": np.ones(size)}
    found = extreme_eigenvalues(loss, params, 5, max_restarts=max_restarts)
    assert asked[:3] == ["BE", "SA", "LA"]
    assert found.converged, found.sentence
    np.testing.assert_allclose(found.smallest, np.sort(eigenvalues)[:5], rtol=1e-8)
    np.testing.assert_allclose(found.largest, np.sort(eigenvalues)[::-1][:5], rtol=1e-8)


@pytest.mark.parametrize("size", [200, 300, 3000])  # dense, and by Lanczos
def test_where_the_hessian_vanishes_all_eigenvalues_are_exactly_zero(size):
    loss, params = Partial(quadratic, np.zeros(size)), {"a": np.ones(size)}
    found = extreme_eigenvalues(loss, params, 5)
    assert found.converged
    np.testing.assert_array_equal([found.smallest, found.largest], 0)
    assert sharpness(loss, params) == 0


@pytest.mark.parametrize("scale", [1e-9, 1e-14, 1e-30, 1e-100])
def test_eigenvalues_of_a_tiny_hessian_are_found_to_the_same_relative_tolerance(scale):
    eigenvalues = scale * np.random.default_rng(0).normal(size=3000)
    loss, params = Partial(quadratic, eigenvalues), {"a": np.ones(3000)}
    found = extreme_eigenvalues(loss, params, 4)
    assert found.converged, found.sentence
    np.testing.assert_allclose(found.smallest / scale, np.sort(eigenvalues)[:4] / scale, rtol=1e-8)
    np.testing.assert_allclose(found.largest / scale, np.sort(eigenvalues)[::-1][:4] / scale, rtol=1e-8)
    assert sharpness(loss, params) == pytest.approx(eigenvalues.max(), rel=1e-8, abs=0)


def test_what_did_not_converge_is_named_and_never_a_number():
    eigenvalues = np.linspace(0, 1, 2000) ** 0.1
    found = extreme_eigenvalues(
        Partial(quadratic, eigenvalues), {"a": np.ones(2000)}, 5, tolerance=1e-12, num_lanczos=12, max_restarts=1
    )
    assert not found.converged
    assert "did not converge" in found.sentence
    assert found.sentence.endswith("loosen tolerance, or raise num_lanczos or max_restarts of extreme_eigenvalues")
    exact = np.concatenate([eigenvalues[:5], eigenvalues[::-1][:5]])
    values = np.concatenate([found.smallest, found.largest])
    assert np.isnan(values).any()
    np.testing.assert_allclose(values[~np.isnan(values)], exact[~np.isnan(values)], atol=1e-10)


def test_unconverged_sharpness_is_nan_with_a_warning(monkeypatch):
    def fail(*arguments, **options):
        raise ArpackNoConvergence("no convergence", np.zeros(0), np.zeros((500, 0)))

    monkeypatch.setattr(lanczos, "eigsh", fail)
    with pytest.warns(NotConverged, match="did not converge .* NaN; loosen tolerance$"):
        assert np.isnan(sharpness(Partial(quadratic, np.ones(500)), {"a": np.ones(500)}))


@pytest.mark.parametrize("size", [10, 500])  # dense, and by Lanczos
def test_a_hessian_that_is_not_finite_has_no_eigenvalues(size):
    loss, params = Partial(quadratic, np.append(np.ones(size - 1), np.nan)), {"a": np.ones(size)}
    found = extreme_eigenvalues(loss, params, 2)
    assert not found.converged
    assert np.isnan([found.smallest, found.largest]).all()
    with pytest.warns(NotConverged, match="the loss is nan at params"):
        assert np.isnan(stable_learning_rate(loss, params))


def test_warm_start_finds_the_same_eigenvalues():
    eigenvalues = np.random.default_rng(0).normal(size=3000)
    loss, params = Partial(quadratic, eigenvalues), {"a": np.ones(3000)}
    cold = extreme_eigenvalues(loss, params, 4, tolerance=1e-9)
    warm = extreme_eigenvalues(loss, params, 4, tolerance=1e-9, start=cold.vectors)
    np.testing.assert_allclose(warm.smallest, cold.smallest, rtol=1e-10)
    assert warm.num_products <= cold.num_products
    with pytest.raises(ValueError, match="start must hold vectors of length 3000"):
        extreme_eigenvalues(loss, params, start=np.ones((2, 7)))


def test_blocks_are_the_diagonal_blocks_of_the_hessian():
    network = Network((2, 20, 20, 1))
    params, x, y = problem(network)
    loss = Partial(mean_squares, network, x, y)
    hessian = dense_hessian(loss, params)
    blocks = block_eigenvalues(loss, params, 3, tolerance=1e-9)
    starts = np.cumsum([0, 60, 420, 21])
    assert len(blocks) == 3
    for found, start, stop in zip(blocks.values(), starts[:-1], starts[1:], strict=True):
        exact = np.linalg.eigvalsh(hessian[start:stop, start:stop])
        assert_close(found.largest, exact[::-1][:3], 1e-8)
        assert_close(np.append(found.smallest, exact[-1]), np.append(exact[:3], exact[-1]), 1e-8)
    assert len(block_eigenvalues(loss, params, 3, depth=2)) == 6


def test_arguments_are_checked_before_anything_runs():
    loss, params = Partial(quadratic, np.ones(4)), {"a": np.ones(4)}
    with pytest.raises(ValueError, match="num must be between 1 and the number of parameters"):
        extreme_eigenvalues(loss, params, 5)
    with pytest.raises(ValueError, match="tolerance"):
        extreme_eigenvalues(loss, params, 2, tolerance=0.0)
    with pytest.raises(ValueError, match="scalar"):
        extreme_eigenvalues(lambda params: params["a"], params, 2)
    with pytest.raises(TypeError, match="loss must be a function"):
        extreme_eigenvalues(3.0, params, 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="learning_rate must be at least 0"):
        iteration_spectrum(loss, params, -0.1, 2)
    np.testing.assert_array_equal(iteration_spectrum(loss, params, 0.0, 2).smallest, 1)
    with pytest.raises(ValueError, match="num_lanczos must be above 2 num = 4"):
        extreme_eigenvalues(loss, params, 2, num_lanczos=4)


@pytest.mark.parametrize("size", [200, 300])  # dense, and by Lanczos
def test_no_rate_is_too_large_where_nothing_curves_upwards(size):
    curvature = np.where(np.arange(size) < 100, -2.0, 0.0)
    assert stable_learning_rate(Partial(quadratic, curvature), {"a": np.ones(size)}) > 1e12  # rounding


def test_a_null_space_is_not_negative():
    matrix = np.random.RandomState(0).randn(30, 100)
    density = spectral_density(Partial(lambda a, w: 0.5 * jnp.sum((a @ w) ** 2), matrix), np.zeros(100))
    assert density.fraction_below(0.0) == 0
    with pytest.raises(FloatingPointError, match="not finite"):
        spectral_density(lambda w: jnp.sum(w**1.5), np.zeros(5))
    with pytest.warns(NotConverged, match="the Hessian is not finite"):
        assert np.isnan(sharpness(lambda w: jnp.sum(w**1.5), np.zeros(5)))
    negative = extreme_eigenvalues(lambda w: jnp.sum(jnp.log(w)), -np.ones(5), 1)  # its Hessian is -1, its value NaN
    assert not negative.converged
    assert np.isnan(negative.largest).all()


# ---- density ----


def test_density_has_the_moments_of_a_known_spectrum():
    eigenvalues = np.concatenate([np.linspace(-1, 0, 300), np.linspace(2, 3, 700)])
    found = spectral_density(Partial(quadratic, eigenvalues), {"a": np.ones(1000)}, num_probes=4, num_steps=40)
    # For a diagonal H every probe of signs has v' H^k v = trace H^k, so the moments are exact, not only on average.
    for power in range(6):
        np.testing.assert_allclose(found.mean(lambda x, p=power: x**p), np.mean(eigenvalues**power), rtol=1e-10)
    assert found.fraction_below(1.0) == pytest.approx(0.3, abs=1e-9)
    grid = np.linspace(-3, 5, 2001)
    density = found.density(grid, 0.1)
    exact = np.exp(-(((grid[:, None] - eigenvalues) / 0.1) ** 2) / 2).mean(axis=1) / (0.1 * np.sqrt(2 * np.pi))
    assert np.trapezoid(density, grid) == pytest.approx(1, abs=1e-6)
    assert np.trapezoid(np.abs(density - exact), grid) < 0.02


def test_density_of_few_distinct_eigenvalues_stops_early():
    eigenvalues = np.repeat([1.0, 2.0], 300)
    found = spectral_density(Partial(quadratic, eigenvalues), {"a": np.ones(600)}, num_probes=2, num_steps=50)
    assert found.fraction_below(1.5) == pytest.approx(0.5)
    assert np.sum(found.weights) == pytest.approx(1)


def test_stable_learning_rate_is_infinite_without_upward_curvature():
    assert stable_learning_rate(Partial(quadratic, np.array([-1.0, -2.0])), {"a": np.ones(2)}) == np.inf


def test_iteration_spectrum_is_one_minus_eta_lambda():
    eigenvalues = np.array([-1.0, 0.5, 2.0, 30.0])
    found = iteration_spectrum(Partial(quadratic, eigenvalues), {"a": np.ones(4)}, 0.1, 2)
    np.testing.assert_allclose(found.smallest, [-2.0, 0.8], rtol=1e-14)
    np.testing.assert_allclose(found.largest, [1.1, 0.95], rtol=1e-14)
    assert found.is_oscillating
    assert found.norm == pytest.approx(2.0)
