"""What users ask next: intervals, quantiles, effects, groups, a limit of time, robust losses, compilations."""

import time

import jax
import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from multigrade import MultiGradeClassifier, MultiGradeRegressor
from multigrade.tables.codes import fit_codes
from multigrade.tables.encoding import fit_encoding
from multigrade.tables.folds import assign_folds
from multigrade.tables.linear import FoldRows
from multigrade.tables.losses import SquaredError

X, Y = make_friedman1(200, noise=1.0, random_state=0)
NEW, TRUE = make_friedman1(2000, noise=1.0, random_state=1)
SMALL = {"hidden_layer_sizes": (8,), "max_iter": 40, "n_grades": 2, "random_state": 0}


def test_intervals_hold_the_share_that_was_asked_for_and_are_kept_in_a_file(tmp_path):
    model = MultiGradeRegressor(**SMALL).fit(X, Y)
    for coverage in (0.5, 0.9):
        low, high = model.predict_interval(NEW, coverage)
        assert np.mean((low <= TRUE) & (high >= TRUE)) == pytest.approx(coverage, abs=0.08)  # 200 rows have chosen it
    model.save(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(MultiGradeRegressor.load(tmp_path / "m.safetensors").predict_interval(NEW)[0], low)
    with pytest.raises(ValueError, match=r"coverage must be below 0\.995 for 200 training rows"):
        model.predict_interval(NEW, 0.999)
    with pytest.raises(ValueError, match=r"coverage must be between 0 and 1; got 90"):
        model.predict_interval(NEW, 90)


def test_several_quantiles_are_one_model_and_do_not_cross():
    model = MultiGradeRegressor(**SMALL, loss="quantile", quantile=[0.1, 0.5, 0.9]).fit(X, Y)
    low, middle, high = model.predict(NEW).T
    assert np.all((low <= middle) & (middle <= high))
    assert 0.5 < np.mean((low <= TRUE) & (high >= TRUE)) < 0.98
    with pytest.raises(ValueError, match=r"quantile must hold rising numbers between 0 and 1; got \[0.9, 0.1\]"):
        model.set_params(quantile=[0.9, 0.1]).fit(X, Y)


def test_effects_are_exact_in_grade_1_and_name_the_columns_that_matter():
    model = MultiGradeRegressor(**SMALL).fit(X, Y)
    effects = model.effects(NEW, TRUE)
    scores = (model.predict(NEW) - model.y_mean_) / model.y_scale_
    np.testing.assert_allclose(effects.added.sum(axis=1)[:, 0] + effects.rest[:, 0], scores, atol=1e-4)
    assert effects.worth[:5].min() > effects.worth[5:].max()  # the others are idle
    moved = NEW.copy()
    moved[:, 3] += 0.1
    only = np.delete(model.effects(moved).added - effects.added, 3, axis=1)
    assert not only.any()
    assert len(effects.figure().axes) == 2


def test_rows_of_one_group_never_judge_each_other():
    random = np.random.default_rng(0)
    person = np.repeat(np.arange(60), 5)
    level = random.normal(size=60)[person]  # known from any other row of the person
    table = np.column_stack([person, random.normal(size=(300, 2))])
    alone = MultiGradeRegressor(**SMALL).fit(table, level)
    grouped = MultiGradeRegressor(**SMALL).fit(table, level, groups=person)
    assert alone.fold_losses_[-1] < 0.1
    assert grouped.fold_losses_[-1] > 0.4
    assert grouped.codes_ == []
    folds = assign_folds(level[:, None], 8, np.random.default_rng(0), person)
    assert all(len(set(folds[person == p])) == 1 for p in range(60))
    assert np.ptp(np.bincount(folds)) <= 5


def test_no_row_reads_its_own_target_nor_those_that_judge_the_member():
    random = np.random.default_rng(0)
    code, y = random.integers(0, 40, 400), random.normal(size=400)
    table, weights = code[:, None].astype(float), np.ones(400)
    folds = assign_folds(y[:, None], 8, random)
    is_category, encoding = np.array([True]), fit_encoding(table, weights, np.array([True]))

    def own(targets):
        rows = FoldRows(targets[:, None], weights, folds, SquaredError(), 8)
        return fit_codes(table, is_category, encoding, rows, np.zeros((400, 8, 1), np.float32)).own[..., 0]

    first, changed = own(y), y.copy()
    row = 7
    same = np.flatnonzero((code == code[row]) & (folds != folds[row]))[0]
    changed[row] += 1.0
    second = own(changed)
    size = first[same] / second[same]  # statistics are in units of their size, which moves by a hair
    assert np.abs(first[row] / first[same, folds[row]] - second[row] / second[same, folds[row]]).max() < 1e-4
    assert np.abs(size - size[folds[row]]).max() > 1e-3  # the other members of the other row have seen the change


@pytest.mark.parametrize("loss", ["huber", "absolute_error"])
def test_outliers_do_not_move_robust_losses(loss):
    y = Y.copy()
    y[::20] = 1000
    model = MultiGradeRegressor(**{**SMALL, "max_iter": 300}, loss=loss).fit(X, y)
    assert np.mean(np.abs(model.predict(NEW) - TRUE)) < np.mean(np.abs(TRUE - np.median(Y)))


def test_a_limit_of_time_is_kept_and_grade_1_is_there():
    started = time.process_time()
    model = MultiGradeRegressor(max_iter=10**6, time_limit=0.5, random_state=0).fit(X, Y)
    assert time.process_time() - started < 30  # of which most compiles
    assert model.n_iter_ < 10**6
    assert model.score(NEW, TRUE) > 0.7


def test_a_search_compiles_nothing_after_its_first_fit():
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(event) if event.endswith("backend_compile_duration") else None
    )
    options = {**SMALL, "loss": "quantile", "batch_size": 60}
    MultiGradeRegressor(**options, quantile=0.3).fit(X, Y)
    before = len(compiled)
    longer, targets = make_friedman1(600, noise=1.0, random_state=2)
    for given in (
        {"quantile": 0.7}, {"alpha": 0.01}, {"learning_rate": 0.01}, {"batch_size": 33}, {"max_iter": 50},
    ):  # fmt: skip
        MultiGradeRegressor(**{**options, **given}).fit(X, Y)
    MultiGradeRegressor(**options).fit(longer, targets)
    assert len(compiled) == before


def test_a_refit_with_another_solver_is_a_model_of_that_solver(tmp_path):
    model = MultiGradeRegressor(**SMALL).fit(X, Y)
    model.set_params(solver="adam").fit(X, Y)
    fresh = MultiGradeRegressor(**SMALL, solver="adam").fit(X, Y)
    np.testing.assert_array_equal(model.predict(NEW), fresh.predict(NEW))
    model.save(tmp_path / "m.safetensors")
    fresh.save(tmp_path / "fresh.safetensors")
    assert (tmp_path / "m.safetensors").read_bytes() == (tmp_path / "fresh.safetensors").read_bytes()


def test_parameters_that_are_set_after_a_fit_change_no_prediction():
    model = MultiGradeRegressor(**SMALL).fit(X, Y)
    before = model.predict(NEW)
    np.testing.assert_array_equal(
        model.set_params(loss="poisson", solver="adam", precision="high").predict(NEW), before
    )


def test_the_first_recorded_loss_is_that_of_all_of_grade_1():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(300, 5))
    model = MultiGradeRegressor(n_grades=1, random_state=0).fit(inputs, inputs[:, 0] * inputs[:, 1])
    assert model.records_[0].train_loss[0] < 0.1


def test_class_weights_are_checked():
    with pytest.raises(ValueError, match="class_weight must hold numbers of at least 0; got -1 for 1"):
        MultiGradeClassifier(class_weight={0: 1, 1: -1}).fit(X, Y > 14)
