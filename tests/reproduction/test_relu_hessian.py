"""The closed form of a ReLU network's Hessian against automatic differentiation."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from multigrade.curvature import dense_hessian
from multigrade.networks import FourierFeatures, MultiScaleNetwork, Network
from multigrade_paper.relu_hessian import (
    DenoisingError,
    SquaredError,
    differences,
    differences_adjoint,
    relu_hessian,
)

from ..small_losses import assert_close, gradient, mean_squares, problem, random_params

RELU_NETWORKS = [
    Network((2, 6, 3)),
    Network((3, 5, 6, 2)),
    Network((1, 5, 4, 6, 3, 1)),
    Network((1, 5, 4, 6, 3, 5, 4, 1)),
    Network((2, 6, 5, 1), encoding=FourierFeatures(4, 1.0)),
    MultiScaleNetwork(Network((1, 5, 4, 2)), (1.0, 2.0)),
    MultiScaleNetwork(Network((1, 4, 4, 1)), (1.0, 2.0, 4.0, 8.0)),
]


@pytest.mark.parametrize("network", RELU_NETWORKS, ids=lambda n: f"{type(n).__name__}{n.widths}")
def test_closed_form_equals_automatic_differentiation(network):
    params, x, y = problem(network)
    loss = Partial(mean_squares, network, x, y)
    closed = relu_hessian(network, params, x, y)
    assert_close(closed.gradient, gradient(loss, params), 1e-10)
    assert_close(closed.hessian, dense_hessian(loss, params), 1e-10)


def restoration(network, form, x, params):
    image = form.previous + form.scale * network(params, x).reshape(form.image.shape)
    down, right = jnp.diff(image, axis=0), jnp.diff(image, axis=1)
    u = form.splitting
    split = jnp.sum((down - u[0, :-1]) ** 2) + jnp.sum((right - u[1, :, :-1]) ** 2)
    unused = jnp.sum(u[0, -1] ** 2) + jnp.sum(u[1, :, -1] ** 2)
    return 0.5 * jnp.sum((form.image - image) ** 2) + form.beta / 2 * (split + unused)


@pytest.mark.parametrize("grade", [1, 2])
@pytest.mark.parametrize("widths", [(2, 8, 1), (2, 5, 4, 6, 3, 1)])
def test_closed_form_of_the_restoration_loss_equals_automatic_differentiation(widths, grade):
    network, shape = Network(widths), (6, 5)
    random = np.random.default_rng(3)
    x = np.stack(np.meshgrid(np.arange(6) / 6, np.arange(5) / 5, indexing="ij"), axis=-1).reshape(-1, 2)
    later = {"previous": random.normal(size=shape), "scale": 0.3} if grade == 2 else {}
    form = DenoisingError(random.normal(size=shape), random.normal(size=(2, *shape)), 0.7, **later)
    params = random_params(network, random)
    loss = Partial(lambda params: restoration(network, form, x, params))
    closed = relu_hessian(network, params, x, form)
    assert_close(closed.gradient, gradient(loss, params), 1e-10)
    assert_close(closed.hessian, dense_hessian(loss, params), 1e-10)


def test_differences_and_their_adjoint_are_adjoint():
    random = np.random.default_rng(0)
    image, fields = random.normal(size=(6, 5)), random.normal(size=(2, 6, 5))
    left = np.sum(differences(image) * fields)
    np.testing.assert_allclose(left, np.sum(image * differences_adjoint(fields)), rtol=1e-13)


def test_chunks_of_samples_add_up(monkeypatch):
    network = Network((1, 5, 4, 1))
    params, x, y = problem(network)
    whole = relu_hessian(network, params, x, y)
    monkeypatch.setattr(sys.modules["multigrade_paper.relu_hessian"], "CHUNK", 7)
    for part, expected in zip(relu_hessian(network, params, x, y), whole, strict=True):
        assert_close(part, expected, 1e-13)


def test_closed_form_is_double_precision_whatever_the_targets_are():
    network = Network((2, 5, 4, 1))
    params, x, y = problem(network)
    narrow = y.astype(np.float32)
    image, splitting = narrow.reshape(6, 5), np.stack([narrow.reshape(6, 5)] * 2)
    same = [
        [narrow.astype(float), SquaredError(jnp.asarray(narrow)), SquaredError(narrow.tolist())],
        [DenoisingError(make(image), make(splitting), 0.7, make(image)) for make in (np.float64, jnp.asarray)],
    ]
    for expected, *others in ([relu_hessian(network, params, x, loss) for loss in losses] for losses in same):
        for found in others:
            for a, b in zip(found, expected, strict=True):
                assert isinstance(a, np.ndarray)
                np.testing.assert_array_equal(a, b, strict=True)


def test_closed_form_refuses_other_activations_and_shapes():
    network = Network((1, 4, 1), activation="tanh")
    with pytest.raises(ValueError, match="ReLU"):
        relu_hessian(network, network.init(jax.random.key(0)), np.zeros((3, 1)), np.zeros((3, 1)))
    network = Network((1, 4, 1))
    with pytest.raises(ValueError, match=r"targets of shape \(3, 1\)"):
        relu_hessian(network, network.init(jax.random.key(0)), np.zeros((3, 1)), np.zeros((4, 1)))
