"""The estimators keep scikit-learn's conventions, all of them, and our identities."""

import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from multigrade import MultiGradeRegressor, MultiScaleRegressor, SingleGradeRegressor, load_estimator
from multigrade.networks import Network
from multigrade.training import Outcome
from multigrade.training.objectives import LeastSquares, Rows

X, Y = make_friedman1(200, noise=0.5, random_state=0)
SMALL = {"solver": "muon", "hidden_layer_sizes": (16,), "max_iter": 60, "random_state": 0}
QUICK = {"solver": "adam", "learning_rate": 0.03, "max_iter": 100}  # Muon takes three times as long to compile
ESTIMATORS = [
    MultiGradeRegressor(n_grades=2, hidden_layer_sizes=(16,), **QUICK),
    SingleGradeRegressor(hidden_layer_sizes=(16, 16), **QUICK),
    MultiScaleRegressor(hidden_layer_sizes=(8, 8), **QUICK),
]
ADAM = {**SMALL, "solver": "adam", "learning_rate": 0.03}  # compiles soonest


class Looking:
    """Notes the steps at which it is called."""

    name = "looking"

    def __init__(self, every):
        self.every, self.steps = every, []

    def observe(self, snapshot, carry):
        self.steps.append(snapshot.step)


class Interrupting(Looking):
    """Interrupts a grade as long as the class says so, which is no setting of the observer."""

    is_armed = True

    def __init__(self, every, grade=1):
        super().__init__(every)
        self.grade = grade

    def observe(self, snapshot, carry):
        if snapshot.grade == self.grade and type(self).is_armed:
            raise KeyboardInterrupt


@parametrize_with_checks(ESTIMATORS[:1])
def test_sklearn_conventions(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        check(estimator)


@pytest.mark.slow
@parametrize_with_checks(ESTIMATORS[1:])
def test_sklearn_conventions_of_the_others(estimator, check):
    test_sklearn_conventions(estimator, check)


def test_last_stage_equals_prediction_and_stages_improve():
    regressor = MultiGradeRegressor(3, **SMALL).fit(X, Y)
    stages = list(regressor.staged_predict(X))
    np.testing.assert_array_equal(stages[-1], regressor.predict(X))
    errors = [np.mean((stage - Y) ** 2) for stage in stages]
    assert errors == sorted(errors, reverse=True)
    assert regressor.n_grades_ == 3
    assert regressor.n_iter_ == 180


def test_loss_curve_ends_at_the_error_of_the_prediction():
    regressor = MultiGradeRegressor(2, **SMALL, alpha=0.0).fit(X, Y)
    expected = 0.5 * np.mean((Y - regressor.predict(X)) ** 2) / np.var(Y)
    assert regressor.loss_curve_[-1] == pytest.approx(expected, rel=1e-3)
    assert regressor.validation_curve_ is None


def test_training_curve_has_the_penalty_and_validation_curve_has_not():
    alpha = 0.1
    regressor = MultiGradeRegressor(2, **ADAM, alpha=alpha).fit(X, Y)
    for grade, record, stage in zip(
        regressor.model_.grades, regressor.records_, regressor.staged_predict(X), strict=True
    ):
        square = grade.scale**2 * sum(float(jnp.sum(layer.weight**2)) for layer in grade.params)
        expected = 0.5 * np.mean((Y - stage) ** 2) / np.var(Y) + 0.5 * alpha * square
        assert record.train_loss[-1] == pytest.approx(float(expected), rel=1e-3)
    stopping = SingleGradeRegressor(**ADAM, alpha=alpha, early_stopping=True).fit(X, Y)
    _, x, _, y = train_test_split(X, Y, test_size=0.1, random_state=stopping._seed)
    expected = 0.5 * np.mean((y - stopping.predict(x)) ** 2) / stopping.y_scale_[0] ** 2
    assert np.min(stopping.validation_curve_) == pytest.approx(expected, rel=1e-3)


def test_warm_start_adds_grades_and_equals_fitting_at_once():
    at_once = MultiGradeRegressor(3, **SMALL).fit(X, Y)
    grown = MultiGradeRegressor(1, **SMALL, warm_start=True).fit(X, Y).set_params(n_grades=3).fit(X, Y)
    np.testing.assert_array_equal(at_once.predict(X), grown.predict(X))
    with pytest.warns(UserWarning, match="without a larger n_grades adds no grade") as caught:
        np.testing.assert_array_equal(grown.fit(X, -Y).predict(X), at_once.predict(X))
    assert caught[0].filename == __file__
    with pytest.raises(ValueError, match="n_grades must be at least the number already fitted"):
        grown.set_params(n_grades=2).fit(X, Y)


def test_grades_added_in_another_process_equal_fitting_at_once(tmp_path):
    MultiGradeRegressor(2, **SMALL, warm_start=True).fit(X, Y).save(tmp_path / "two.safetensors")
    script = """
import sys
from sklearn.datasets import make_friedman1
from multigrade import load_estimator
X, Y = make_friedman1(200, noise=0.5, random_state=0)
load_estimator(sys.argv[1]).set_params(n_grades=4).fit(X, Y).save(sys.argv[2])
"""
    subprocess.run(
        [sys.executable, "-c", script, tmp_path / "two.safetensors", tmp_path / "four.safetensors"], check=True
    )
    four = MultiGradeRegressor.load(tmp_path / "four.safetensors")
    np.testing.assert_array_equal(four.predict(X), MultiGradeRegressor(4, **SMALL).fit(X, Y).predict(X))
    assert len(four.records_) == 4


def test_row_order_repetition_and_integer_weights_change_no_bit():
    order = np.random.default_rng(0).permutation(len(X))
    weights = np.random.default_rng(1).integers(0, 3, len(X))
    base = MultiGradeRegressor(2, **SMALL).fit(X, Y, sample_weight=weights)
    shuffled = clone(base).fit(X[order], Y[order], sample_weight=weights[order])
    repeated = clone(base).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    for other in (shuffled, repeated):
        np.testing.assert_array_equal(base.predict(X), other.predict(X))


@pytest.mark.parametrize("num_rows", [10, 70])
def test_random_batches_hold_data_only(num_rows):
    # Rows of weight 0, given or added to fill up, would make batches without any weight: 0 / 0.
    regressor = SingleGradeRegressor(**ADAM, batch_size=2).fit(X[:num_rows], Y[:num_rows])
    assert regressor.records_[-1].outcome is Outcome.FINISHED
    x, y = np.repeat(X[:num_rows], 3, axis=0), np.repeat(Y[:num_rows], 3)
    weighted = clone(regressor).fit(x, y, sample_weight=np.arange(3 * num_rows) % 3 == 1)
    np.testing.assert_array_equal(weighted.predict(X), regressor.predict(X))


def test_a_batch_without_weight_has_no_loss_and_no_gradient():
    network = Network((1, 4, 1))
    data = Rows(jnp.ones((3, 1)), jnp.ones((3, 1)), jnp.zeros(3))
    (loss, _), gradient = LeastSquares(network).value_and_grad(network.init(jax.random.key(0)), (), data)
    assert loss == 0
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize("power", [2.0**140, 2.0**-140])
def test_weights_beyond_single_precision_are_weights(power):
    weights = np.random.default_rng(1).uniform(0.1, 3, len(X))
    plain = MultiGradeRegressor(2, **ADAM).fit(X, Y, sample_weight=weights)
    scaled = clone(plain).fit(X, Y, sample_weight=power * weights)
    np.testing.assert_array_equal(scaled.predict(X), plain.predict(X))


def test_weights_must_not_all_be_zero():
    with pytest.raises(ValueError, match=r"weight.*zero"):
        MultiGradeRegressor(1, **ADAM).fit(X, Y, sample_weight=np.zeros(len(X)))


def test_a_diverged_fit_warns_and_a_warm_start_fits_the_grade_again():
    descent = {**SMALL, "solver": "gd"}
    regressor = MultiGradeRegressor(2, **descent, learning_rate=50.0, warm_start=True)
    with pytest.warns(ConvergenceWarning, match="grade 1 diverged: .* try a lower learning rate"):
        regressor.fit(X, Y)
    regressor.set_params(learning_rate=0.05).fit(X, Y)
    assert [record.outcome for record in regressor.records_] == [Outcome.FINISHED] * 2
    at_once = MultiGradeRegressor(2, **descent, learning_rate=0.05).fit(X, Y)
    np.testing.assert_array_equal(regressor.predict(X), at_once.predict(X))


def test_a_checkpoint_continues_an_interrupted_fit_and_needs_a_seed(tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(ValueError, match="random_state must be an integer with a checkpoint; got None"):
        MultiGradeRegressor(2, **{**ADAM, "random_state": None}).fit(X, Y, checkpoint=path)
    whole = MultiGradeRegressor(2, **ADAM).fit(X, Y)
    with pytest.raises(KeyboardInterrupt):
        clone(whole).fit(X, Y, observers=[Interrupting(20)], checkpoint=path)
    monkeypatch.setattr(Interrupting, "is_armed", False)
    resumed = clone(whole).fit(X, Y, observers=[Interrupting(20)], checkpoint=path)
    np.testing.assert_array_equal(resumed.predict(X), whole.predict(X))


def test_a_fit_that_fails_leaves_nothing_that_predicts():
    model = MultiGradeRegressor(2, **ADAM).fit(X, Y)
    with pytest.raises(KeyboardInterrupt):
        model.fit(50 * X, Y, observers=[Interrupting(None)])
    for raises in (check_is_fitted, lambda model: model.predict(X)):
        with pytest.raises(NotFittedError):
            raises(model)


@pytest.mark.parametrize("solver", ["adam", "convex"])
def test_a_warm_start_keeps_the_outputs(solver):
    x, y = X[:8, :1], Y[:8]
    model = MultiGradeRegressor(1, (4,), solver=solver, max_iter=5, warm_start=True, random_state=0).fit(x, y)
    before = model.predict(x)
    model.set_params(n_grades=2)
    with pytest.raises(ValueError, match="y must have 1 outputs with warm_start=True; got 2"):
        model.fit(x, np.stack([y, y], 1))
    np.testing.assert_array_equal(model.predict(x), before)


def test_held_out_rows_without_weight_are_named():
    weights = np.zeros(40)
    weights[0] = 1
    with pytest.raises(ValueError, match=r"positive for one (held-out|training) row at least"):
        MultiGradeRegressor(1, **ADAM, early_stopping=True).fit(X[:40], Y[:40], weights)


def test_standardisation_makes_the_fit_independent_of_units():
    plain = MultiGradeRegressor(2, **SMALL).fit(X, Y)
    scaled = MultiGradeRegressor(2, **SMALL).fit(1024 * X + 7, 0.25 * Y - 3)
    np.testing.assert_allclose(scaled.predict(1024 * X + 7), 0.25 * plain.predict(X) - 3, rtol=0.02, atol=0.02)


def test_multi_output_fits_every_output():
    both = np.column_stack([Y, -2 * Y + 1])
    regressor = MultiGradeRegressor(2, **{**SMALL, "max_iter": 300}).fit(X, both)
    assert regressor.predict(X).shape == both.shape
    assert regressor.score(X, both) > 0.9


def test_early_stopping_keeps_a_validation_curve_and_can_end_early():
    regressor = MultiGradeRegressor(2, **{**SMALL, "max_iter": 2000}, early_stopping=True, n_iter_no_change=3).fit(X, Y)
    assert len(regressor.validation_curve_) == len(regressor.loss_curve_)
    assert regressor.n_iter_ < 4000


def test_held_out_rows_decide_on_grades():
    noise = np.random.default_rng(0).normal(size=len(Y))
    regressor = MultiGradeRegressor(4, **{**ADAM, "max_iter": 100}, alpha=0.0, early_stopping=True).fit(X, noise)
    lowest = [record.validation_loss.min() for record in regressor.records_]
    assert all(np.diff(lowest) < 0)
    assert regressor.n_grades_ == len(lowest) < 4
    kept = clone(regressor).set_params(n_grades=regressor.n_grades_).fit(X, noise)
    np.testing.assert_array_equal(kept.predict(X), regressor.predict(X))


def test_a_loss_beyond_single_precision_is_not_blamed_on_the_rate():
    with pytest.warns(ConvergenceWarning, match="before the first step; scale inputs and targets$"):
        SingleGradeRegressor(**ADAM, standardize=False).fit(X, 1e30 * Y)


def test_an_observer_may_have_any_period():
    looking = Looking(50)
    parameters = {**ADAM, "max_iter": 300}  # recorded every 3 steps by itself
    observed = SingleGradeRegressor(**parameters).fit(X, Y, observers=(o for o in [looking]))
    assert looking.steps == list(range(0, 301, 50))
    np.testing.assert_array_equal(observed.predict(X), SingleGradeRegressor(**parameters).fit(X, Y).predict(X))


def test_the_live_view_is_closed_when_a_fit_is_interrupted(monkeypatch):
    closed = []
    monkeypatch.setattr("multigrade.progress.ProgressObserver.__exit__", lambda self, *error: closed.append(error[0]))
    with pytest.raises(KeyboardInterrupt):
        SingleGradeRegressor(**ADAM, verbose=1).fit(X, Y, observers=[Interrupting(20, grade=0)])
    assert closed == [KeyboardInterrupt]


def test_pipeline_grid_search_and_clone():
    pipeline = make_pipeline(MinMaxScaler(), MultiGradeRegressor(2, **SMALL))
    search = GridSearchCV(pipeline, {"multigraderegressor__n_grades": [1, 2]}, cv=2).fit(X, Y)
    best = search.best_params_["multigraderegressor__n_grades"]
    assert search.best_estimator_[-1].n_grades_ == best
    assert search.best_score_ > 0.3
    assert clone(search.best_estimator_).get_params()["multigraderegressor__max_iter"] == 60


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_saved_estimator_predicts_the_same_bits(estimator, tmp_path):
    fitted = clone(estimator).set_params(random_state=0).fit(X, Y)
    fitted.save(tmp_path / "e.safetensors")
    again = load_estimator(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(fitted.predict(X), again.predict(X))
    np.testing.assert_array_equal(fitted.loss_curve_, again.loss_curve_)
    assert again.get_params() == fitted.get_params()


@pytest.mark.parametrize(
    "estimator",
    [
        MultiGradeRegressor(
            np.int64(2), [np.array([8, 4]), (np.int64(8),)], max_iter=np.int32(5), alpha=np.float32(0.5)
        ),
        MultiScaleRegressor((8,), scales=np.array([1.0, 2.5]), max_iter=5, standardize=np.bool_(True)),
    ],
    ids=["graded", "scales"],
)
def test_numpy_parameters_are_saved_as_plain_values(estimator, tmp_path):
    estimator.set_params(solver="adam", random_state=0).fit(X, Y).save(tmp_path / "e.safetensors")
    again = load_estimator(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(clone(again).fit(X, Y).predict(X), estimator.predict(X))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_grades": 0}, "'n_grades' parameter"),
        ({"learning_rate": -0.1}, "'learning_rate' parameter"),
        ({"solver": "sgd"}, "'solver' parameter"),
        ({"hidden_layer_sizes": ()}, "hidden_layer_sizes"),
        ({"hidden_layer_sizes": [(8,), (8,), (8,)], "n_grades": 2}, "one per grade"),
        ({"hidden_layer_sizes": (8, -1)}, "positive integers"),
    ],
)
def test_a_wrong_parameter_is_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        MultiGradeRegressor(**{"solver": "muon", **parameters}).fit(X, Y)


def test_automatic_rate_is_safe_and_descends_without_rising():
    regressor = MultiGradeRegressor(2, (16,), solver="gd", learning_rate="auto", max_iter=400, random_state=0).fit(X, Y)
    for record in regressor.records_:
        seen = record.observations["safe rate"]
        np.testing.assert_allclose(seen["learning_rate"] * seen["sharpness"], 1.6, rtol=1e-3)
        assert record.train_loss[-1] < record.train_loss[0]
    with pytest.raises(ValueError, match="learning_rate='auto' needs solver 'gd', 'momentum' or 'adam'; got 'muon'"):
        MultiGradeRegressor(learning_rate="auto", solver="muon").fit(X, Y)


@pytest.mark.slow
def test_convex_grades_come_with_certificates_and_fall(tmp_path):
    x, y = X[:24, :2], Y[:24]
    regressor = MultiGradeRegressor(2, solver="convex", alpha=0.01, random_state=0).fit(x, y)
    assert regressor.n_grades_ == 2
    for certificate in regressor.certificates_:
        assert certificate.pattern_gap < 1e-3
    first, second = (certificate.objective for certificate in regressor.certificates_)
    assert second <= first
    errors = [np.mean((stage - y) ** 2) for stage in regressor.staged_predict(x)]
    assert errors[1] <= errors[0]
    np.testing.assert_allclose(regressor.loss_curve_, 0.5 * np.array(errors) / np.var(y), rtol=1e-3)
    regressor.save(tmp_path / "convex.safetensors")
    again = load_estimator(tmp_path / "convex.safetensors")
    np.testing.assert_array_equal(again.predict(x), regressor.predict(x))
    assert again.certificates_ == regressor.certificates_
    MultiGradeRegressor(1, solver="convex", alpha=0.01, random_state=0, warm_start=True).fit(x, y).save(tmp_path / "1")
    grown = load_estimator(tmp_path / "1").set_params(n_grades=2).fit(x, y)
    assert grown.certificates_[0] == regressor.certificates_[0]
    assert len(grown.certificates_) == 2
    with pytest.raises(ValueError, match="alpha must be positive"):
        MultiGradeRegressor(solver="convex", alpha=0.0).fit(x, y)
    with pytest.raises(ValueError, match="early_stopping must be False"):
        MultiGradeRegressor(solver="convex", early_stopping=True).fit(x, y)


def test_solved_and_trained_grades_may_follow_each_other():
    x, y = X[:24, :2], Y[:24]
    regressor = MultiGradeRegressor(1, **{**ADAM, "hidden_layer_sizes": (2,)}, alpha=0.01, warm_start=True).fit(x, y)
    assert regressor.certificates_ == ()
    regressor.set_params(solver="convex", n_grades=2).fit(x, y)
    assert len(regressor.certificates_) == 1
    assert regressor.loss_curve_[-1] <= regressor.loss_curve_[-2]
    assert regressor.set_params(warm_start=False, solver="adam").fit(x, y).certificates_ == ()


def test_a_multi_scale_regressor_takes_one_activation():
    with pytest.raises(ValueError, match="'activation' parameter of MultiScaleRegressor"):
        MultiScaleRegressor(activation=["relu"]).fit(X, Y)
