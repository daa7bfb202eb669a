"""solver="auto": folds are honest, weights are repetition, the linear grade is ridge regression, files keep all."""

import warnings

import numpy as np
import pandas
import polars
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_friedman1
from sklearn.linear_model import Ridge
from sklearn.metrics import log_loss, mean_pinball_loss
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from multigrade import MultiGradeClassifier, MultiGradeRegressor, SingleGradeClassifier, load_estimator
from multigrade.commands.table import Fit
from multigrade.tables.encoding import fit_encoding
from multigrade.tables.folds import assign_folds
from multigrade.tables.linear import RIDGES, FoldRows, Inputs, solve_linear
from multigrade.tables.losses import SquaredError
from multigrade.tables.mixture import HeldRows, choose_mixture, choose_mixture_beside

X, Y = make_friedman1(120, noise=0.5, random_state=0)
IRIS, KIND = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[KIND]
GAPS = pandas.Series(NAMES, dtype="string").mask(KIND == 0)
SMALL = {"hidden_layer_sizes": (8,), "max_iter": 40, "n_grades": 2, "random_state": 0}


@parametrize_with_checks(
    [
        MultiGradeClassifier(**SMALL),
        SingleGradeClassifier((8,), solver="adam", max_iter=100, learning_rate=0.03, early_stopping=False),
    ]
)
def test_sklearn_conventions_of_classifiers(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        check(estimator)


@pytest.mark.slow
@parametrize_with_checks([MultiGradeRegressor(**SMALL)])
def test_sklearn_conventions_of_auto(estimator, check):
    test_sklearn_conventions_of_classifiers(estimator, check)


def test_weights_are_repetition_and_order_is_nothing():
    weights = np.random.default_rng(1).integers(0, 3, len(X))
    order = np.random.default_rng(2).permutation(len(X))
    base = MultiGradeRegressor(**SMALL).fit(X, Y, sample_weight=weights)
    repeated = clone(base).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    shuffled = clone(base).fit(X[order], Y[order], weights[order])
    for other in (repeated, shuffled):
        np.testing.assert_allclose(base.predict(X), other.predict(X), rtol=1e-5, atol=1e-5)


def test_every_row_is_in_one_fold_and_folds_have_alike_targets():
    folds = assign_folds(np.sort(Y)[:, None], 8, np.random.default_rng(0))
    assert set(np.bincount(folds)) == {15}
    means = [np.sort(Y)[folds == k].mean() for k in range(8)]
    assert np.ptp(means) < 0.5 * Y.std()


@pytest.mark.parametrize("num_columns", [10, 300])
def test_the_linear_grade_is_ridge_regression_without_the_fold(num_columns):
    rows = np.asarray(X - X.mean(axis=0), np.float32)
    rows = np.sin(rows @ np.random.default_rng(1).normal(size=(10, num_columns)).astype(np.float32))
    targets = (Y - Y.mean())[:, None]
    folds = assign_folds(targets, 8, np.random.default_rng(0))
    fold_rows = FoldRows(targets, np.ones(len(X)), folds, SquaredError(), 8)
    linear = solve_linear(Inputs(rows), fold_rows, np.zeros(1), [np.arange(num_columns)])
    train = folds != 3
    errors = []
    for ridge in RIDGES:
        model = Ridge(alpha=ridge * train.sum(), fit_intercept=False).fit(rows[train], targets[train])
        errors.append(np.abs(model.coef_.ravel() - linear.weight[3, :, 0]).max())
    assert min(errors) < 1e-3
    assert linear.fold_loss < linear.start_loss


def test_the_encoding_is_finite_for_all_finite_rows_and_linear_inside_a_bin():
    encoding = fit_encoding(X, np.ones(len(X)))
    assert np.isfinite(encoding(np.full((1, 10), 1e300))).all()
    assert np.isfinite(encoding(np.full((1, 10), -1e300))).all()
    column, start, width = encoding.bin_columns[3], encoding.bin_starts[3], encoding.bin_widths[3]
    rows = np.tile(X[:1], (3, 1))
    rows[:, column] = start + width * np.array([0.25, 0.5, 0.75])
    values = encoding(rows)[:, 2 * len(encoding.columns) + 3]
    np.testing.assert_allclose(np.diff(values), [0.5, 0.5], rtol=1e-4)


def test_noise_adds_no_grade_and_signal_does():
    noise = np.random.default_rng(0).normal(size=len(X))
    assert MultiGradeRegressor(**SMALL).fit(X, noise).score(X, noise) < 0.2
    model = MultiGradeRegressor(**{**SMALL, "max_iter": 300}).fit(X, Y)
    assert model.fold_losses_[-1] < model.fold_losses_[0] / 2
    assert list(model.fold_losses_) == sorted(model.fold_losses_, reverse=True)


def test_a_grade_that_ends_early_settles_within_its_steps():
    model = MultiGradeRegressor(**{**SMALL, "max_iter": 2000}, loss="quantile").fit(X, Y)
    record = model.records_[1]
    first_end = np.flatnonzero(np.diff(record.steps) == 0)  # the second run begins where the first one ended
    assert len(first_end) == 1
    assert record.steps[-1] == record.num_steps <= 2000
    assert record.validation_loss[first_end[0] + 1] == record.validation_loss[: first_end[0] + 1].min()


def test_a_file_keeps_predictions_classes_and_losses(tmp_path):
    model = MultiGradeClassifier(**SMALL).fit(IRIS, NAMES)
    model.save(tmp_path / "iris.safetensors")
    loaded = load_estimator(tmp_path / "iris.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(IRIS), model.predict_proba(IRIS))
    np.testing.assert_array_equal(loaded.predict(IRIS), model.predict(IRIS))
    assert loaded.fold_losses_ == model.fold_losses_


def test_predictions_end_a_tenth_of_the_range_beyond_the_targets_also_from_a_file(tmp_path):
    x = np.linspace(0, 1, 60)[:, None]
    model = MultiGradeRegressor(**SMALL).fit(x, np.hstack([x, 10 - 30 * x]))
    far = model.predict([[-5.0], [5.0]])
    np.testing.assert_allclose(far, [[-0.1, 13], [1.1, -23]])
    model.save(tmp_path / "line.safetensors")
    np.testing.assert_array_equal(load_estimator(tmp_path / "line.safetensors").predict([[-5.0], [5.0]]), far)


def test_stages_chances_and_decisions_agree():
    model = MultiGradeClassifier(**SMALL).fit(IRIS, NAMES)
    *_, last = model.staged_predict_proba(IRIS)
    np.testing.assert_array_equal(last, model.predict_proba(IRIS))
    np.testing.assert_allclose(last.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(IRIS)), last)
    np.testing.assert_array_equal(model.classes_[model.decision_function(IRIS).argmax(axis=1)], model.predict(IRIS))
    assert log_loss(NAMES, last) < 0.3


def test_class_weights_are_sample_weights():
    weights = {"setosa": 1, "versicolor": 5, "virginica": 1}
    by_class = MultiGradeClassifier(**SMALL, class_weight=weights).fit(IRIS, NAMES)
    by_sample = MultiGradeClassifier(**SMALL).fit(IRIS, NAMES, [weights[name] for name in NAMES])
    np.testing.assert_array_equal(by_class.predict_proba(IRIS), by_sample.predict_proba(IRIS))


def test_two_quantiles_are_an_interval():
    low, high = (MultiGradeRegressor(**SMALL, loss="quantile", quantile=q).fit(X, Y).predict(X) for q in (0.1, 0.9))
    assert np.mean((low <= Y) & (high >= Y)) > 0.6
    constant = np.full(len(Y), np.quantile(Y, 0.9))
    assert mean_pinball_loss(Y, high, alpha=0.9) < mean_pinball_loss(Y, constant, alpha=0.9)


def test_poisson_means_are_positive_and_counts_must_not_be_negative():
    counts = np.random.default_rng(0).poisson(np.exp(X[:, 0]))
    assert (MultiGradeRegressor(**SMALL, loss="poisson").fit(X, counts).predict(X) > 0).all()
    with pytest.raises(ValueError, match="y must not be negative with loss='poisson'"):
        MultiGradeRegressor(**SMALL, loss="poisson").fit(X, Y - 100)


def test_frozen_features_feed_a_pipeline():
    pipeline = make_pipeline(MultiGradeRegressor(**{**SMALL, "max_iter": 300}), Ridge()).fit(X, Y)
    assert pipeline.score(X, Y) > 0.7
    first = pipeline[0]
    assert first.transform(X).shape == (len(X), len(first.get_feature_names_out()))


def test_other_solvers_refuse_gaps_and_text_and_name_the_column():
    rows = X.copy()
    rows[3, 2] = np.nan
    other = {**SMALL, "solver": "adam"}
    with pytest.raises(ValueError, match=r"contains NaN: column 'x2', row 3\. solver='auto' reads gaps"):
        MultiGradeRegressor(**other).fit(rows, Y)
    with pytest.raises(ValueError, match=r"could not convert.*column 'x0' holds categories\. solver='auto' reads them"):
        MultiGradeRegressor(**other).fit(np.where(X > 0.5, "a", "b"), Y)
    with pytest.raises(ValueError, match=r"Input y contains NaN\. Leave out rows without a target"):
        MultiGradeRegressor(**SMALL).fit(X, rows[:, 2])


@pytest.mark.parametrize(
    ("kind", "inputs", "targets", "line"),
    [
        (MultiGradeRegressor, X, np.where(Y > 10, "high", "low"), r"y must hold numbers.*MultiGradeClassifier"),
        (MultiGradeClassifier, X, np.where(Y > 10, "high", None), r"y must hold classes of one kind; got None, str"),
        (MultiGradeClassifier, IRIS, GAPS, r"value of NA is ambiguous\. Leave out rows without a target"),
        (MultiGradeRegressor, X[:, 0], Y, r"got 1D array instead\. Reshape your data"),
        (MultiGradeRegressor, X + 1j, Y, r"Complex data not supported\. Give real and imaginary parts"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_one_line_that_names_it(kind, inputs, targets, line):
    with pytest.raises(ValueError, match=line) as refusal:
        kind(**SMALL).fit(inputs, targets)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_row_without_a_class_is_refused_at_the_command_line(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,red\n2,\n3,blue\n")
    command = Fit(data=tmp_path / "t.csv", model=tmp_path / "m.safetensors", classify=True, quiet=True)
    with pytest.raises(ValueError, match="data row 2 has no class in the column 'y'"):
        command.run()


def test_columns_of_tiny_numbers_are_fitted_as_any_others():
    predicted = [MultiGradeRegressor(**SMALL).fit(size * X, Y).predict(size * X) for size in (1.0, 2.0**-700)]
    np.testing.assert_allclose(*predicted, rtol=1e-4)


def test_networks_beside_the_columns_take_their_share_or_leave_the_columns_alone():
    random = np.random.default_rng(0)
    targets = random.normal(size=(20, 8, 1)).astype(np.float32)
    held, nothing = HeldRows(targets, np.ones((20, 8))), np.zeros_like(targets)
    noise = random.normal(size=targets.shape).astype(np.float32)
    mixture = choose_mixture_beside(SquaredError(), held, np.stack([nothing, targets]), noise, None)
    assert (mixture.of_columns, mixture.of_networks, mixture.losses[-1]) == (0.0, 1.0, 0.0)
    stages = np.stack([nothing, noise])
    alone = choose_mixture_beside(SquaredError(), held, stages, targets, None)
    assert alone == choose_mixture(SquaredError(), held, targets[None], None)


def test_where_columns_fit_their_own_rows_too_well_networks_are_trained_without_them():
    random = np.random.default_rng(0)
    signal = random.normal(size=(300, 4))
    columns = np.hstack([signal @ random.normal(size=(4, 60)), 0.1 * random.normal(size=(300, 40))])
    target = np.sin(2 * signal[:, 0]) * signal[:, 1]
    model = MultiGradeRegressor(random_state=0).fit(columns, target)
    assert model.n_grades_ > 1
    assert all(after < before for before, after in zip(model.fold_losses_[:-1], model.fold_losses_[1:], strict=True))
    np.testing.assert_array_equal(list(model.staged_predict(columns))[-1], model.predict(columns))


def test_polars_frames_have_names():
    frame = polars.DataFrame(X, schema=[f"c{i}" for i in range(10)])
    model = MultiGradeRegressor(**SMALL).fit(frame, Y)
    np.testing.assert_array_equal(model.predict(frame), MultiGradeRegressor(**SMALL).fit(X, Y).predict(X))
    assert list(model.feature_names_in_) == frame.columns


def test_alpha_is_a_penalty_on_the_weights_of_a_member():
    def size(alpha):
        model = MultiGradeRegressor(**{**SMALL, "max_iter": 200}, loss="quantile", alpha=alpha).fit(X, Y)
        return sum(float((layer.weight**2).sum()) for layer in model.model_.grades[1].params[:-1])

    assert size(0.1) < 0.7 * size("auto")
    assert size(0.0) == size("auto")


@pytest.mark.parametrize(
    ("parameters", "line"),
    [
        ({"activation": ["relu", "tanh"]}, r"activation must be one name with solver='auto'; got \['relu', 'tanh'\]"),
        ({"batch_size": None}, r"batch_size must be a number or 'auto' with solver='auto'; got None"),
        ({"learning_rate": "auto"}, r"learning_rate='auto' needs solver 'gd', 'momentum' or 'adam'; got 'auto'"),
    ],
)
def test_parameters_of_other_solvers_are_refused(parameters, line):
    with pytest.raises(ValueError, match=line):
        MultiGradeRegressor(**parameters).fit(X, Y)


def test_what_auto_does_not_take_is_refused():
    with pytest.raises(ValueError, match="warm_start need a solver other than 'auto'"):
        MultiGradeRegressor(**SMALL, warm_start=True).fit(X, Y)
    for name, value in {"early_stopping": True, "standardize": False, "tol": 0.1, "residual_scaling": False}.items():
        with pytest.raises(ValueError, match=f"{name} must be .* with solver='auto', whose members.*; got {value}"):
            MultiGradeRegressor(**SMALL, **{name: value}).fit(X, Y)
    with pytest.raises(ValueError, match="'solver' parameter of SingleGradeClassifier"):
        SingleGradeClassifier(solver="auto").fit(IRIS, NAMES)
