"""Grades of other libraries' modules, with what is not trained and what is random."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from multigrade import MultiGrade, Network, Plan, Regression, fit_grades
from multigrade.networks import adapters
from multigrade.training import Checkpointing

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(96, 4)).astype(np.float32)
Y = np.sin(2 * X[:, :1]) + X[:, 1:2] * X[:, 2:3]


class NnxTrunk(nnx.Module):
    def __init__(self, inputs, rngs):
        self.linear = nnx.Linear(inputs, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)

    def __call__(self, x):
        return self.dropout(nnx.tanh(self.norm(self.linear(x))))


class LinenTrunk(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool):
        x = nn.BatchNorm(use_running_average=not train)(nn.Dense(8)(x))
        return nn.Dropout(0.2, deterministic=not train)(nn.tanh(x))


class EquinoxTrunk(eqx.Module):
    linear: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    dropout: eqx.nn.Dropout

    def __init__(self, inputs, key):
        self.linear = eqx.nn.Linear(inputs, 8, key=key)
        self.norm = eqx.nn.BatchNorm(8, axis_name="batch", mode="ema")
        self.dropout = eqx.nn.Dropout(0.2)

    def __call__(self, x, state, *, key=None):
        x, state = self.norm(self.linear(x), state)
        return self.dropout(jnp.tanh(x), key=key), state


def nnx_grade(inputs):
    return adapters.nnx(lambda rngs: NnxTrunk(inputs, rngs), lambda rngs: nnx.Linear(8, 1, rngs=rngs))


def linen_grade(inputs):
    return adapters.linen(LinenTrunk(), nn.Dense(1), (inputs,))


def equinox_grade(inputs):
    trunk = lambda key: eqx.nn.make_with_state(EquinoxTrunk)(inputs, key)  # noqa: E731
    return adapters.equinox(trunk, lambda key: eqx.nn.Linear(8, 1, key=key))


@pytest.mark.parametrize("make", [nnx_grade, linen_grade, equinox_grade])
def test_grades_of_modules_learn_and_rest_once_they_are_frozen(make, tmp_path):
    structure = (make(4), make(8))
    plan = Plan(40, learning_rate=0.02, batch_size=32, record_every=20)
    fit = fit_grades(structure, X, Y, plan, checkpoint=Checkpointing(tmp_path / "c", every=0.0))
    first = fit.model.grades[0]
    assert fit.records[0].train_loss[-1] < 0.8 * fit.records[0].train_loss[0]
    assert fit.records[1].train_loss[-1] < fit.records[1].train_loss[0]
    before = first.network.init(jax.random.key(0)).state
    moved = jax.tree.map(lambda a, b: np.any(a != b), before, first.params.state)
    assert any(jax.tree.leaves(moved))  # running means have moved in training
    alone = fit_grades(structure[:1], X, Y, plan).model.grades[0]
    jax.tree.map(np.testing.assert_array_equal, alone.params, first.params)  # and not while grade 2 was trained
    np.testing.assert_allclose(fit.model(X[:7]), fit.model(X)[:7], atol=1e-6)  # of no other row, and not random
    again = fit_grades(structure, X, Y, plan, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(again.model(X), fit.model(X))
    fit.model.save(tmp_path / "m")
    with pytest.raises(ValueError, match="give load its structure"):
        MultiGrade.load(tmp_path / "m")
    np.testing.assert_array_equal(MultiGrade.load(tmp_path / "m", structure=structure)(X), fit.model(X))
    with pytest.raises(ValueError, match=r"structure does not fit .* its grade 1 is"):
        MultiGrade.load(tmp_path / "m", structure=(Network((4, 1)),))


def test_a_dense_network_of_functions_equals_network_to_the_bit():
    network = Network((4, 16, 1), "tanh")

    def init(key):
        *hidden, last = network.init(key)
        return tuple(hidden), last

    own = adapters.functions(
        init, lambda p, x: network.hidden((*p, None), x), lambda p, h: network.output((None, p), h)
    )
    plan = Plan(30, learning_rate=0.01, batch_size=16, record_every=10)
    for regression in (Regression(), Regression(weight_decay=0.01, residual_scaling=True)):
        theirs, ours = (fit_grades((n,), X, Y, plan, regression=regression) for n in (own, network))
        np.testing.assert_array_equal(theirs.model(X), ours.model(X))
        assert theirs.records == ours.records


def test_modules_compute_what_network_does():
    network = Network((4, 8, 1), "tanh")
    (first, last) = params = network.init(jax.random.key(1))
    linen = adapters.linen(nn.Sequential([nn.Dense(8), nn.tanh]), nn.Dense(1), (4,))
    trained = ({"layers_0": {"kernel": first.weight, "bias": first.bias}}, {"kernel": last.weight, "bias": last.bias})
    variables = linen.init(jax.random.key(0))._replace(trained=trained)
    np.testing.assert_array_equal(linen(variables, X), network(params, X))
    np.testing.assert_array_equal(linen.hidden(variables, X), network.hidden(params, X))


def test_what_does_not_fit_is_named_by_grade_and_shape():
    plan = Plan(1)
    with pytest.raises(ValueError, match=r"grade 2 cannot read features of grade 1 of shape \(96, 8\): "):
        fit_grades((nnx_grade(4), nnx_grade(5)), X, Y, plan)
    with pytest.raises(ValueError, match=r"grade 1 cannot read inputs of shape \(96, 4\): "):
        fit_grades((equinox_grade(3),), X, Y, plan)
    with pytest.raises(ValueError, match=r"grade 1 must give outputs of shape \(96, 2\); got \(96, 1\)"):
        fit_grades((nnx_grade(4),), X, np.hstack([Y, Y]), plan)
    names = adapters.functions(lambda key: ("a", "b"), lambda p, x: x, lambda p, h: h[:, :1])
    with pytest.raises(ValueError, match="the parameters of grade 1 must be arrays: "):
        fit_grades((names,), X, Y, plan)
    counts = adapters.functions(lambda key: (jnp.arange(3), ()), lambda p, x: x, lambda p, h: h[:, :1])
    with pytest.raises(ValueError, match="trained parameters of grade 1 must be arrays of real numbers; got int32"):
        fit_grades((counts,), X, Y, plan)
