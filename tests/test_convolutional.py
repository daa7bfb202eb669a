"""Convolutional and transformer grades compute what their formulas say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import correlate
from scipy.special import softmax

from multigrade import MultiGrade, Plan, Regression, fit_grades, structures
from multigrade.model import Grade
from multigrade.networks import ConvolutionalNetwork, EndToEnd, TransformerNetwork
from multigrade.networks.parts import Variables
from multigrade.networks.transformer import positional_waves
from multigrade.training.objectives import LossInTraining, Multinomial, Rows
from multigrade.training.regression import needs_steps

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(6, 5, 4, 2)).astype(np.float32)
KEY = jax.random.key(0)


def with_random_head(network):
    params = network.init(KEY)
    head = jax.tree.map(lambda leaf: jnp.asarray(RANDOM.normal(size=leaf.shape), jnp.float32), params.trained[1])
    return Variables((params.trained[0], head), params.state)


def reference(params, x, is_residual):
    """Convolutions by scipy, normalised by the moments given, pooled, averaged over cells."""
    given = x
    for index, (layer, moments) in enumerate(zip(params.trained[0], params.state[0], strict=False)):
        weight = np.asarray(layer["weight"], np.float64)
        x = np.stack(
            [sum(np.stack([correlate(row, weight[..., o])[1:-1, 1:-1, c] for row in x]) for c in [x.shape[3] - 1])
             for o in range(weight.shape[3])], axis=-1,
        )  # fmt: skip
        mean, variance = moments or (0.0, 1.0)
        x = (x - np.asarray(mean)) / np.sqrt(np.asarray(variance) + 1e-5) if moments else x
        x = x * np.asarray(layer["scale"]) + np.asarray(layer["shift"])
        if is_residual and index == len(params.state[0]) - 1:
            x = x + given @ np.asarray(params.trained[0][-1])[0, 0]
        x = np.maximum(x, 0)
    padded = np.pad(x, ((0, 0), (0, 1), (0, 0), (0, 0)), constant_values=-np.inf)
    features = padded.reshape(len(x), 3, 2, 2, 2, -1).max(axis=(2, 4))
    rows = [features[:, 0:2].mean(axis=1), features[:, 1:3].mean(axis=1)]  # three rows in two cells
    cells = np.concatenate([part[:, column] for part in rows for column in range(2)], axis=1)
    head = params.trained[1]
    return features, cells @ np.asarray(head.weight) + np.asarray(head.bias)


@pytest.mark.parametrize(("norm", "is_residual"), [("none", False), ("batch", True)])
def test_a_convolutional_grade_is_its_formula(norm, is_residual):
    network = ConvolutionalNetwork(2, (3, 3), 2, norm=norm, is_residual=is_residual, cells=2)
    params = with_random_head(network)
    if norm == "batch":
        moments = [(jnp.asarray(RANDOM.normal(size=3)), jnp.asarray(RANDOM.uniform(0.5, 2, 3))) for _ in range(2)]
        params = params._replace(state=(tuple(moments), ()))
    features, outputs = reference(params, np.float64(X), is_residual)
    np.testing.assert_allclose(network.hidden(params, X), features, atol=2e-5)
    np.testing.assert_allclose(network(params, X), outputs, atol=1e-4)


def test_batches_are_normalised_while_trained_and_running_means_follow():
    network = ConvolutionalNetwork(2, (3,), 1, dropout=0.0)
    params = network.init(KEY)
    convolved = jax.lax.conv_general_dilated(
        X, params.trained[0][0]["weight"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    _, ((moments,), _) = network.train(params, X, KEY)
    np.testing.assert_allclose(moments[0], 0.1 * convolved.mean((0, 1, 2)), atol=1e-6)
    np.testing.assert_allclose(moments[1], 0.9 + 0.1 * convolved.var((0, 1, 2)), rtol=1e-5)


def test_the_gradient_in_training_mode_is_that_of_its_loss():
    network = ConvolutionalNetwork(2, (3,), 2, norm="layer")
    objective = LossInTraining(network, 0.1, loss=Multinomial())
    params, rows = with_random_head(network), Rows(X, jax.nn.one_hot(jnp.arange(6) % 2, 2), None, jnp.ones((6, 2)))
    auxiliary = params.state, jax.random.key_data(KEY)
    (value, _), gradient = objective.value_and_grad(params.trained, auxiliary, rows)
    expected, slope = jax.value_and_grad(lambda p: objective(p, auxiliary, rows)[0])(
        params.trained
    )  # no batch, no noise
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), gradient, slope)


def test_a_transformer_block_is_its_formula():
    network = TransformerNetwork(3, 4, 2, heads=2)
    params, x = with_random_head(network), np.float32(RANDOM.normal(size=(2, 5, 3)))
    first, (block,), norms = jax.tree.map(np.asarray, params.trained[0])

    def normalised(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    h = x @ first.weight + first.bias + positional_waves(5, 4)
    query, key, value = np.split(normalised(h) * norms[0][0] @ block["qkv"].weight, 3, axis=-1)
    heads = []
    for part in (slice(0, 2), slice(2, 4)):
        scores = query[..., part] @ key[..., part].transpose(0, 2, 1) / 2**0.5
        heads.append(softmax(scores, axis=-1) @ value[..., part])
    h = h + np.concatenate(heads, axis=-1) @ block["mixed"].weight
    h = h + np.asarray(jax.nn.gelu(normalised(h) @ block["up"].weight)) @ block["down"].weight
    np.testing.assert_allclose(network.hidden(params, x), h, atol=1e-5)
    head = params.trained[1]
    np.testing.assert_allclose(network(params, x), normalised(h.mean(1)) @ head.weight + head.bias, atol=1e-4)


def test_a_causal_transformer_sees_nothing_that_is_later():
    network = TransformerNetwork(3, 4, 1, is_causal=True, blocks=2, reads="last")
    params, x = network.init(KEY), jnp.asarray(RANDOM.normal(size=(2, 5, 3)), jnp.float32)
    other = x.at[:, 3:].set(0)
    same = network.hidden(params, x)[:, :3] == network.hidden(params, other)[:, :3]
    assert same.all()
    assert (network.hidden(params, x)[:, 3:] != network.hidden(params, other)[:, 3:]).any()


def test_grades_of_series_learn_and_are_saved(tmp_path):
    x = RANDOM.normal(size=(64, 6, 1)).astype(np.float32)
    y = x[:, -1] * x[:, 0]
    structure = structures.transformer(1, 8, 2, 1, reads="last", heads=2)
    fit = fit_grades(structure, x, y, Plan(80, learning_rate=0.01, record_every=40))
    losses = [record.train_loss[-1] for record in fit.records]
    assert losses[1] < losses[0] < fit.records[0].train_loss[0]
    fit.model.save(tmp_path / "m")
    np.testing.assert_array_equal(MultiGrade.load(tmp_path / "m")(x), fit.model(x))


def test_convolutional_grades_are_stepped_from_the_host_and_saved(tmp_path):
    structure = structures.convolutional(2, [(3,), (4,)], 2, cells=1, dropout=0.1)
    assert needs_steps(structure[0], X) == (jax.default_backend() == "cpu")
    assert not needs_steps(TransformerNetwork(2, 4, 1), X[:, 0])
    labels = np.arange(6) % 2
    fit = fit_grades(structure, X, labels, Plan(30, learning_rate=0.05), regression=Regression(loss=Multinomial()))
    assert fit.records[1].train_loss[-1] < fit.records[0].train_loss[0]
    fit.model.save(tmp_path / "m")
    loaded = MultiGrade.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded(X), fit.model(X))
    assert [grade.network for grade in loaded.grades] == list(structure)


def test_layers_end_to_end_are_those_of_the_grades():
    structure = structures.convolutional(2, [(3,), (4,)], 2, cells=1)
    first, second = (with_random_head(network) for network in structure)
    whole = EndToEnd(structure)
    trained, state = (tuple(getattr(p, name)[0] for p in (first, second)) for name in ("trained", "state"))
    params = Variables((trained, second.trained[1]), (state, ()))
    grades = tuple(Grade(n, p) for n, p in zip(structure, (first, second), strict=True))
    by_grades = [features for _, features in MultiGrade(grades).stages(jnp.asarray(X))][-1]
    np.testing.assert_allclose(whole.hidden(params, X), by_grades, rtol=1e-6)
    assert jax.tree.structure(whole.init(KEY)) == jax.tree.structure(params)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ConvolutionalNetwork(1, (), 1), "inputs, channels, outputs and cells must be positive integers"),
        (lambda: ConvolutionalNetwork(1, (2,), 1, norm="group"), "norm must be one of batch, layer, none; got 'group'"),
        (lambda: ConvolutionalNetwork(1, (2,), 1, dropout=1.0), "dropout must be at least 0 and below 1; got 1.0"),
        (lambda: TransformerNetwork(1, 6, 1, heads=4), "heads divide the width"),
        (lambda: TransformerNetwork(3, 4, 1, is_first=False), "inputs must be the width, 4, after the first grade"),
        (lambda: TransformerNetwork(3, 4, 1, reads="first"), "reads must be 'mean' or 'last'; got 'first'"),
        (lambda: Multinomial(smoothing=1.0), "smoothing must be at least 0 and below 1; got 1.0"),
    ],
)
def test_settings_that_make_no_network_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
