"""Functions to high precision: errors against the function itself, away from the points it was fitted to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multigrade import MultiGradeRegressor, load_estimator, synthetic
from multigrade.model import Grade, MultiGrade
from multigrade.sines import SPACING, Box, SineNetwork, lattice, significant_radius, spectrum
from multigrade.training import fit_high_precision

FRESH = np.linspace(0.001, 0.999, 777)[:, None]


def relative_error(model, function, inputs=FRESH) -> float:
    expected = function(inputs)
    return float(np.sqrt(np.mean((model(inputs)[:, 0] - expected) ** 2)) / np.std(expected))


def fitted(function, num_rows, *, noise=0.0, num_inputs=1, **options):
    random = np.random.default_rng(0)
    inputs = random.random((num_rows, num_inputs))
    inputs[:2] = [[0.0], [1.0]]  # nothing is extrapolated
    targets = function(inputs) + noise * random.normal(size=num_rows)
    return fit_high_precision(inputs, targets[:, None], **options)


@pytest.mark.parametrize(
    ("function", "num_rows", "bound"),
    [
        (lambda x: np.sin(100 * x[:, 0]), 500, 1e-10),
        (lambda x: synthetic.target(1, x[:, 0]), 600, 1e-10),
        (lambda x: np.sin(2 * np.pi * 20 * x[:, 0] ** 2), 600, 1e-10),
        (lambda x: 1 / (1 + 25 * (2 * x[:, 0] - 1) ** 2) + np.sin(60 * x[:, 0]), 600, 1e-9),
        (lambda x: np.exp(x[:, 0]) * np.sin(6 * x[:, 0]), 30, 1e-3),
        (lambda x: np.abs(x[:, 0] - 0.37), 200, 4e-3),
        (lambda x: 5.0 + 0 * x[:, 0] + 2 * x[:, 0], 20, 1e-10),
    ],
)
def test_functions_of_one_input_without_a_setting(function, num_rows, bound):
    assert relative_error(fitted(function, num_rows).model, function) < bound


@pytest.mark.slow
def test_scattered_points_in_the_plane():
    function = lambda x: np.sin(8 * x[:, 0]) * np.cos(6 * x[:, 1])  # noqa: E731
    fresh = 0.02 + 0.96 * np.random.default_rng(9).random((500, 2))
    assert relative_error(fitted(function, 900, num_inputs=2).model, function, fresh) < 1e-5


def test_three_inputs_fall_back_to_random_frequencies():
    function = lambda x: np.sin(3 * x[:, 0] + 2 * x[:, 1]) * np.cos(2 * x[:, 2])  # noqa: E731
    fresh = np.random.default_rng(9).random((500, 3))
    assert relative_error(fitted(function, 400, num_inputs=3).model, function, fresh) < 1e-2


def test_noise_is_smoothed_as_by_the_best_gaussian_kernel():
    function = lambda x: np.sin(40 * x[:, 0])  # noqa: E731
    random = np.random.default_rng(3)
    x = random.random((300, 1))
    y = function(x) + 0.01 * random.normal(size=300)
    ours = relative_error(fit_high_precision(x, y[:, None]).model, function)
    best = np.inf
    for length in np.geomspace(0.02, 0.3, 12):  # the kernel's length and ridge are chosen by the true error
        kernel, fresh = (np.exp(-((z - x.T) ** 2) / (2 * length**2)) for z in (x, FRESH))
        values, vectors = np.linalg.eigh(kernel)
        for ridge in np.geomspace(1e-8, 1, 17):
            prediction = fresh @ (vectors @ ((vectors.T @ y) / (values.clip(0) + ridge)))
            best = min(best, np.sqrt(np.mean((prediction - function(FRESH)) ** 2)) / np.std(function(FRESH)))
    assert ours < 1.2 * best


def test_adding_a_grade_never_raises_the_training_loss_and_the_last_stage_is_the_prediction():
    function = lambda x: np.abs(x[:, 0] - 0.4) + np.sin(30 * x[:, 0])  # noqa: E731
    fit = fitted(function, 300)
    losses = [float(record.train_loss[0]) for record in fit.records]
    assert len(losses) > 2
    *_, last = fit.model.staged(FRESH)
    np.testing.assert_array_equal(last, fit.model(FRESH))
    errors = [float(record.columns["leave_one_out"][0]) for record in fit.records]
    assert errors == sorted(errors, reverse=True)
    num_unpenalised = sum(record.sentence != fit.records[-1].sentence for record in fit.records)
    assert losses[:num_unpenalised] == sorted(losses[:num_unpenalised], reverse=True)


def test_weights_equal_repetition_and_rows_of_weight_zero_do_not_count():
    random = np.random.default_rng(1)
    x = np.sort(random.random((80, 1)), axis=0)
    y = np.sin(9 * x) + 0.01 * random.normal(size=(80, 1))
    weights = np.r_[np.zeros(5), np.ones(75)]
    by_weight = fit_high_precision(x, y, sample_weight=weights).model
    without = fit_high_precision(x[5:], y[5:]).model
    np.testing.assert_allclose(by_weight(x[5:]), without(x[5:]), atol=1e-6)


def test_estimator_keeps_its_digits_in_a_file_and_in_several_outputs(tmp_path):
    x = np.linspace(-3, 5, 400)[:, None]
    y = np.hstack([1e3 * np.sin(4 * x), np.cos(3 * x) + 7])
    estimator = MultiGradeRegressor(precision="high", random_state=0).fit(x, y)
    assert np.abs((estimator.predict(x) - y) / [1e3, 1]).max() < 1e-11
    estimator.save(tmp_path / "model.safetensors")
    again = load_estimator(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict(x), estimator.predict(x))
    with pytest.raises(ValueError, match="early_stopping must be False with precision='high'"):
        MultiGradeRegressor(precision="high", early_stopping=True).fit(x, y)


def test_a_double_model_is_double_where_jax_is_single_and_can_be_differentiated():
    model = fitted(lambda x: np.sin(20 * x[:, 0]), 200).model
    assert jnp.zeros(1).dtype == jnp.float32
    assert model(FRESH).dtype == np.float64
    with jax.enable_x64(True):
        slope = jax.vmap(jax.grad(lambda z: model(z[None])[0, 0]))(jnp.asarray(FRESH))
    np.testing.assert_allclose(slope, 20 * np.cos(20 * FRESH), atol=1e-8)


def test_lattice_has_the_shortest_waves_once_each():
    waves = lattice(2, 30) / SPACING
    assert len({tuple(w) for w in waves} | {tuple(-w) for w in waves}) == 60
    every = np.stack(np.meshgrid(*[np.arange(-6, 7)] * 2), -1).reshape(-1, 2)
    lengths = np.sort(np.linalg.norm(every, axis=1))[1::2]  # without 0, one of each pair
    np.testing.assert_allclose(np.linalg.norm(waves, axis=1), lengths[:30])


def test_spectrum_finds_the_wave_among_noise():
    random = np.random.default_rng(0)
    unit = random.random((800, 1))
    waves = lattice(1, 300)
    power = spectrum(unit, np.cos(40 * SPACING * unit) + 0.1 * random.normal(size=(800, 1)), waves)
    assert np.argmax(power) == 39
    assert significant_radius(power, waves) == pytest.approx(40 * SPACING, rel=0.06)
    assert significant_radius(spectrum(unit, random.normal(size=(800, 1)), waves), waves) == 0


def test_first_layer_has_sine_and_cosine_of_unit_coordinates():
    box = Box.around(np.array([[2.0, -1.0], [6.0, 0.0]]))
    layer = box.first_layer(np.array([[3.0, 1.0]]))
    x = np.array([[3.0, -0.2]])
    phase = 3 * 0.25 + 0.8
    np.testing.assert_allclose(np.sin(x @ layer.weight + layer.bias), [[np.sin(phase), np.cos(phase)]])


def test_sine_network_adds_nothing_at_first_and_carries_features_along():
    network = SineNetwork(2, 3, 4, 1)
    params = network.init(jax.random.key(0))
    x = jnp.ones((5, 5))
    assert not np.any(network(params, x))
    assert network.hidden(params, x).shape == (5, network.num_features)
    model = MultiGrade((Grade(network, params, 1.0),))
    np.testing.assert_array_equal(model.features(x)[:, :5], x)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.ones((3, 1)) * np.nan, np.ones((3, 1)), "inputs must be finite"),
        (np.ones((3, 1)), np.ones((4, 1)), "must have shapes"),
    ],
)
def test_bad_input_is_one_line(x, y, message):
    with pytest.raises(ValueError, match=message):
        fit_high_precision(x, y)
