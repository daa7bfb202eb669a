"""Networks, structures and models: the identities that define them."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import BSpline

from multigrade import Grade, MultiGrade, MultiScaleNetwork, Network, structures
from multigrade.networks import ACTIVATIONS, FourierFeatures, relu

from .references import forward

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)


def test_network_equals_the_numpy_recursion():
    network = Network((3, 5, 4, 2), bias_std=0.5)
    params = network.init(KEY)
    expected = forward([(np.float64(w), np.float64(b)) for w, b in params], np.float64(X))
    np.testing.assert_allclose(network(params, X), expected[-1], rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(network.hidden(params, X), expected[-2], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_output_of_hidden_features_equals_the_network(activation):
    for network in (
        Network((3, 5, 2), activation),
        Network((3, 6, 5, 2), activation, encoding=FourierFeatures(8, 1.0)),
        Network((3, 2), activation, encoding=FourierFeatures(8, 1.0)),
        MultiScaleNetwork(Network((3, 4, 4, 2), activation), (1.0, 2.0)),
    ):
        params = network.init(KEY)
        features = network.hidden(params, X)
        assert features.shape[1] == network.num_features
        np.testing.assert_allclose(network.output(params, features), network(params, X), rtol=1e-5, atol=1e-6)


def test_compact_activations_are_the_multi_scale_papers():
    """z (1 - z) on [0, 1], that times a wave, and the quadratic B-spline on [0, 3]; 0 elsewhere."""
    z = jnp.linspace(-4, 6, 101)
    inside = (z > 0) & (z < 1)
    np.testing.assert_allclose(ACTIVATIONS["srelu"](z), np.where(inside, z * (1 - z), 0), atol=1e-6)
    wave = np.sin(2 * np.pi * z) * np.where(inside, z * (1 - z), 0)
    np.testing.assert_allclose(ACTIVATIONS["s2relu"](z), wave, atol=1e-6)
    spline = 2 * BSpline.basis_element([0, 1, 2, 3], extrapolate=False)(np.asarray(z))
    np.testing.assert_allclose(ACTIVATIONS["bspline"](z), np.nan_to_num(spline), atol=1e-5)


def test_relu_derivative_equals_jax_relu_and_is_zero_at_zero():
    z = jnp.array([-1.0, -0.0, 0.0, 1e-30, 2.0])
    np.testing.assert_array_equal(jax.vmap(jax.grad(relu))(z), jax.vmap(jax.grad(jax.nn.relu))(z))
    np.testing.assert_array_equal(jax.vmap(jax.grad(jax.grad(relu)))(z), np.zeros(5))


@pytest.mark.parametrize(("init", "variance"), [("he", 2 / 300), ("glorot", 2 / 500)])
def test_initial_weights_have_the_stated_variance(init, variance):
    weight, bias = Network((300, 200), weight_init=init, bias_std=0.01).init(KEY)[0]
    assert float(jnp.var(weight)) == pytest.approx(variance, rel=0.02)
    assert float(jnp.std(bias)) == pytest.approx(0.01, rel=0.2)


def test_fourier_features_never_change():
    # First frequency of seed 0, from numpy's frozen generator: 1.764052345967664.
    encoding = FourierFeatures(4, 0.7)
    np.testing.assert_array_equal(encoding(jnp.arange(3)[:, None]), encoding(jnp.arange(3.0)[:, None]))
    encoded = FourierFeatures(1, 1.0)(jnp.ones((1, 1)))
    np.testing.assert_allclose(
        encoded, [[np.sin(2 * np.pi * 1.764052345967664), np.cos(2 * np.pi * 1.764052345967664)]], rtol=1e-5
    )


def test_one_scale_of_one_is_the_plain_network():
    sub = Network((3, 5, 2))
    multi = MultiScaleNetwork(sub, (1.0,))
    (inner,) = multi.init(KEY)
    jax.tree.map(np.testing.assert_array_equal, inner, sub.init(KEY))
    np.testing.assert_array_equal(multi((inner,), X), sub(inner, X))


# Depths and numbers of parameters from Appendix D.
@pytest.mark.parametrize(
    ("name", "grades", "depth", "num_params"),
    [
        ("SGDL-1", 1, 5, 3265), ("SGDL-2", 1, 9, 116097), ("SGDL-3", 1, 13, 182145), ("SGDL-4", 1, 5, 7249),
        ("MGDL-1", 4, 5, 3364), ("MGDL-2", 4, 9, 116484), ("MGDL-3", 4, 13, 182532), ("MGDL-4", 4, 5, 7396),
        ("MSDL", 1, 5, 964),
    ],
)  # fmt: skip
def test_structures_of_the_paper(name, grades, depth, num_params):
    structure = structures.PAPER[name]
    assert len(structure) == grades
    assert sum(network.depth for network in structure) == depth + grades - 1
    assert structures.total_depth(structure) == depth
    assert sum(leaf.size for n in structure for leaf in jax.tree.leaves(n.init(KEY))) == num_params


def test_other_initial_weights_reach_the_parts_of_a_multi_scale_network():
    (network,) = structures.with_init(structures.MSDL, weight_init="glorot", bias_std=0.01)
    assert network.scales == structures.MSDL[0].scales
    assert (network.sub.weight_init, network.sub.bias_std) == ("glorot", 0.01)


def _model(bias_std=0.1) -> MultiGrade:
    structure = structures.graded(3, [(5,), (4, 6), (3,)], 2, activation=["relu", "tanh", "sine"], bias_std=bias_std)
    return MultiGrade(tuple(Grade(n, n.init(jax.random.key(i)), 0.5**i) for i, n in enumerate(structure)))


def test_last_stage_equals_prediction():
    model = _model()
    stages = list(model.staged(X))
    assert len(stages) == 3
    np.testing.assert_array_equal(stages[-1], model(X))


def test_prediction_is_the_sum_of_scaled_grades_on_nested_features():
    model = _model()
    features, total = X, 0
    for grade in model.grades:
        total = total + grade.scale * grade.network(grade.params, features)
        features = grade.network.hidden(grade.params, features)
    np.testing.assert_allclose(model(X), total, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.features(X), features, rtol=1e-5, atol=1e-6)


def test_saved_model_predicts_the_same_bits(tmp_path):
    models = {"graded": _model(), "msdl": MultiGrade((Grade(structures.MSDL[0], structures.MSDL[0].init(KEY)),))}
    encoded = Network((3, 4, 2), encoding=FourierFeatures(4, 2.0, 7))
    models["fourier"] = MultiGrade((Grade(encoded, encoded.init(KEY)),))
    for name, model in models.items():
        x = X[:, :1] if name == "msdl" else X
        model.save(tmp_path / "m.safetensors")
        again = MultiGrade.load(tmp_path / "m.safetensors")
        assert [g.network for g in again.grades] == [g.network for g in model.grades]
        np.testing.assert_array_equal(again(x), model(x))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Network((3,)), "widths must be two or more positive integers; got (3,)"),
        (lambda: Network((3, 0, 1)), "widths must be"),
        (
            lambda: Network((3, 1), "swish"),
            "activation must be one of relu, relu_half, tanh, softplus, gelu, silu, sine, gauss, srelu, s2relu, "
            "bspline; got",
        ),
        (lambda: Network((3, 1), weight_init="x"), "weight_init must be one of he, glorot"),
        (lambda: Network((3, 1), bias_std=-1.0), "bias_std must be at least 0 and at most 1e30; got -1.0"),
        (lambda: MultiScaleNetwork(Network((1, 1)), ()), "scales must be one or more finite numbers"),
        (lambda: structures.graded(1, [], 1), "hidden must name at least one grade"),
        (lambda: structures.graded(1, [32, 32], 1), "a tuple of one or more widths each; got [32, 32]"),
        (lambda: structures.graded(1, [(3,)], 1, activation=["relu", "relu"]), "one per grade (1)"),
    ],
)
def test_a_wrong_description_names_what_it_must_be(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


@pytest.mark.parametrize("shape", [(1, 1), (7, 33), (32, 32), (40, 128)])
@pytest.mark.parametrize("is_double", [False, True])
def test_weights_are_jax_normal_draws_to_the_bit(shape, is_double):
    with jax.enable_x64(is_double):
        layer = Network((*shape,), weight_init="he", bias_std=1.0).init(jax.random.key(3))[0]
        _, weight_key, bias_key = jax.random.split(jax.random.key(3), 3)
        expected = (2 / shape[0]) ** 0.5 * jax.random.normal(weight_key, shape)
        assert np.asarray(layer.weight).tobytes() == np.asarray(expected).tobytes()
        assert np.asarray(layer.bias).tobytes() == np.asarray(jax.random.normal(bias_key, shape[1:])).tobytes()


def test_many_networks_are_drawn_at_once_to_the_same_bits():
    network, keys = Network((3, 5, 2), bias_std=0.1), jax.random.split(jax.random.key(4), 3)
    together = jax.vmap(network.init)(keys)
    for i, key in enumerate(keys):
        jax.tree.map(
            np.testing.assert_array_equal, network.init(key), jax.tree.map(lambda leaf, i=i: leaf[i], together)
        )
