"""Predictions in NumPy are those of JAX, and need none of it."""

import subprocess
import sys

import jax
import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from multigrade import (
    MultiGradeClassifier,
    MultiGradeRegressor,
    MultiScaleRegressor,
    SingleGradeRegressor,
)
from multigrade.networks import ACTIVATIONS
from multigrade.tables import losses, predictor
from multigrade.tables.base import SOLVERS
from multigrade.training import OPTIMISERS, objectives

X, Y = make_friedman1(120, noise=0.5, random_state=0)
QUICK = {"max_iter": 20, "random_state": 0}


def test_names_and_activations_are_those_of_jax():
    assert set(SOLVERS) == set(OPTIMISERS)
    assert list(predictor.ACTIVATIONS) == list(ACTIVATIONS)
    x = np.linspace(-4, 4, 41, dtype=np.float32)
    for name, function in predictor.ACTIVATIONS.items():
        np.testing.assert_allclose(function(x), ACTIVATIONS[name](x), rtol=2e-5, atol=2e-6, err_msg=name)
        assert function(x).dtype == np.float32


@pytest.mark.parametrize("name", list(losses.LOSSES))
def test_losses_and_slopes_are_those_of_jax(name):
    random = np.random.default_rng(0)
    scores = random.normal(size=(50, 3)).astype(np.float32)
    targets = {
        "poisson": random.poisson(2, (50, 3)), "logistic": random.integers(0, 2, (50, 3)),
        "multinomial": np.eye(3)[random.integers(0, 3, 50)],
    }.get(name, 2 * random.normal(size=(50, 3))).astype(np.float32)  # fmt: skip
    parameter = {"huber": (0.7,), "quantile": (0.3,)}.get(name, ())
    own = losses.LOSSES[name](parameter)
    theirs = objectives.LOSSES[name](*parameter)
    assert own.curvature == theirs.curvature
    np.testing.assert_allclose(own.value(scores, targets), theirs(scores, targets), rtol=1e-5, atol=1e-6)
    slope = jax.grad(lambda s: theirs(s, targets).sum())(scores)
    np.testing.assert_allclose(own.slope(scores, targets), slope, rtol=1e-5, atol=1e-6)
    weights = random.random(50)
    np.testing.assert_allclose(own.start(targets, weights), theirs.start(targets, weights), rtol=1e-12)
    np.testing.assert_allclose(own.predict(scores), theirs.predict(scores), rtol=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        MultiGradeRegressor(2, (8,), **QUICK),
        MultiGradeRegressor(2, (8,), solver="adam", **QUICK),
        MultiScaleRegressor((8,), solver="adam", **QUICK),
        SingleGradeRegressor((8, 8), solver="adam", activation="gelu", **QUICK),
        MultiGradeRegressor(precision="high", random_state=0),
    ],
    ids=["auto", "graded", "scales", "single", "high"],
)
def test_a_prediction_is_that_of_the_model_in_jax(estimator):
    x = X[:, :2]
    model = estimator.fit(x, Y)
    inputs = model._network_inputs(x)
    *_, (scores, _) = predictor.staged(model.grades_, inputs)
    expected = np.asarray(model.model_(inputs))
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5 if expected.dtype == np.float32 else 1e-10)
    assert model.transform(x).shape == (len(x), model._n_features_out)


def test_a_file_is_loaded_and_predicts_without_jax(tmp_path):
    names = np.where(Y > 14, "high", "low")
    MultiGradeClassifier(2, (8,), **QUICK).fit(X, names).save(tmp_path / "m.safetensors")
    np.save(tmp_path / "x.npy", X)
    script = """
import sys
import numpy as np
from multigrade import load_estimator
model = load_estimator(sys.argv[1] + "/m.safetensors")
model.predict_proba(np.load(sys.argv[1] + "/x.npy"))
assert not {"jax", "jaxlib", "optax"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script, tmp_path], check=True)
