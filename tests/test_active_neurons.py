"""Neurons that are 0 at all pixels are left out of a restoration's gradient, and nothing is lost by it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multigrade import Network, restore
from multigrade.networks import Layer
from multigrade.pictures.files import add_noise, load
from multigrade.pictures.graded import active_neurons
from multigrade.pictures.graded.restoration import RestorationTask, pixel_coordinates
from multigrade.pictures.operators import GaussianBlur
from multigrade.pictures.problem import Options

WIDTH = 64


@pytest.fixture(autouse=True)
def small_pictures(monkeypatch):
    """These tests have small ones, and few features."""
    monkeypatch.setattr(active_neurons, "LEAST_PIXELS", 1)
    monkeypatch.setattr(active_neurons, "FEATURES", 1)


def _asleep(params, counts):
    """Parameters whose last so many neurons of each hidden layer are 0 wherever the features are in [0, 1]."""
    (weight, bias), *others = params
    hidden = [Layer(weight, bias.at[WIDTH - counts[0] :].set(-100))]
    hidden += [Layer(w, b.at[WIDTH - n :].set(-100)) for (w, b), n in zip(others[:-1], counts[1:], strict=True)]
    return (*hidden, others[-1])


def _problem(num_features=3, channels=2, shape=(9, 11), activation="relu", width=WIDTH):
    generator = np.random.default_rng(0)
    observed, before = (jnp.asarray(generator.uniform(size=(channels, *shape))) for _ in range(2))
    features = jnp.asarray(generator.uniform(size=(shape[0] * shape[1], num_features)))
    network = Network((num_features, width, width, channels), activation, bias_std=0.3)
    task = RestorationTask(features, observed, before, GaussianBlur(1.0), 0.05, 1.5, 0.9)
    return network, task


def _agree(network, params, problem):
    """The gradient as computed is that of the loss, u being held."""
    u = jnp.asarray(np.random.default_rng(1).normal(size=(2, 2, 9, 11)))
    (loss, _), gradient = problem.objective.value_and_grad(params, u, problem.data)
    expected = jax.grad(lambda params: problem.objective(params, u, problem.data)[0])(params)
    assert float(loss) == pytest.approx(float(problem.objective(params, u, problem.data)[0]), rel=1e-12)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), gradient, expected)
    return gradient


# Awake are at most what the four parts have room for, and one neuron more than the smallest has.
@pytest.mark.parametrize("counts", [(0, 0), (16, 24), (24, 32), (40, 40), (39, 40)])
def test_the_gradient_is_that_of_the_loss_however_many_neurons_sleep(counts):
    with jax.enable_x64(True):
        network, task = _problem()
        problem = task.problem(network, 0)
        params = _asleep(network.init(jax.random.key(0)), counts)
        flags = active_neurons.apply_active(network, params, problem.data.features)[1]
        assert all(layer[: WIDTH - n].sum() > 0.6 * (WIDTH - n) for layer, n in zip(flags, counts, strict=True))
        assert not any(layer[WIDTH - n :].any() for layer, n in zip(flags, counts, strict=True) if n)
        gradient = _agree(network, params, problem)
        assert not gradient[0].weight[:, WIDTH - counts[0] :].any()


@pytest.mark.parametrize(("activation", "width"), [("tanh", WIDTH), ("relu", 8)])
def test_other_networks_have_the_gradient_of_their_loss_too(activation, width):
    with jax.enable_x64(True):
        network, task = _problem(activation=activation, width=width)
        params = network.init(jax.random.key(0))
        assert not active_neurons.apply_active(network, params, task.features)[1]
        _agree(network, params, task.problem(network, 0))


def test_features_that_are_0_everywhere_are_not_read():
    with jax.enable_x64(True):
        network, task = _problem(num_features=5)
        features = task.features.at[:, jnp.array([1, 4])].set(0)
        task = RestorationTask(features, task.observed, task.image, task.operator, 0.05, 1.5, 0.9)
        problem, params = task.problem(network, 0), network.init(jax.random.key(0))
        np.testing.assert_array_equal(problem.data.active, [0, 2, 3])
        values, _ = active_neurons.apply_active(network, problem.data.reading(params), problem.data.features)
        np.testing.assert_allclose(values, network(params, features), rtol=1e-12)
        gradient = _agree(network, params, problem)
        assert not gradient[0].weight[jnp.array([1, 4])].any()
        assert gradient[0].weight[jnp.array([0, 2, 3])].any()


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (50, 91)])  # of the last, two blocks and a part of one
def test_a_network_in_blocks_is_the_network(shape):
    network = Network((2, 8, 3))
    params, features = network.init(jax.random.key(1)), jnp.asarray(pixel_coordinates(*shape))
    values, _ = active_neurons.apply_active(network, params, features)
    np.testing.assert_allclose(values, network(params, features), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_paper_recipe_takes_the_same_steps_without_sleeping_neurons(monkeypatch):
    clean = load(":camera").pixels[64:128:2, 192:256:2]
    options = Options(recipe="paper", width=WIDTH, layers=2, grades=2, steps=40)

    def restored():
        return restore.denoise(add_noise(clean, 10, seed=0), noise_sigma=10, options=options)

    with jax.enable_x64(True):
        narrow = restored()
        (grade, _), inputs = narrow.model.grades, jnp.asarray(pixel_coordinates(*clean.shape))
        asleep = ~jnp.any(grade.network.hidden(grade.params, inputs) > 0, axis=0)
        assert asleep.sum() > WIDTH / 8  # there is something to leave out
        monkeypatch.setattr(active_neurons, "LEAST_WIDTH", 2 * WIDTH)
        jax.clear_caches()  # the constant is no argument of the compiled program
        whole = restored()
    for stage, expected in zip(narrow.stages, whole.stages, strict=True):
        np.testing.assert_allclose(stage, expected, atol=1e-10)
