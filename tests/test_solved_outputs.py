"""Output layers that are solved: at the end of a grade, and of all grades together."""

import numpy as np
import pytest
import scipy.linalg

from multigrade import MultiGradeRegressor, Plan, fit_grades, solve_least_squares, structures
from multigrade.training import Fit, Regression, correct_outputs, regression, unfreeze
from multigrade.training.objectives import LOSSES

X = np.linspace(0, 1, 64)[:, None].astype(np.float32)
Y = np.sin(9 * X) + X
STRUCTURE = structures.graded(1, [(12,), (12,)], 1, activation="sine")
PLAN = Plan(40, learning_rate=0.01)


def loss(model) -> float:
    return float(np.mean((Y - np.asarray(model(X), np.float64)) ** 2))


def test_solved_output_is_the_ridge_solution_of_the_grade():
    decay = Regression(weight_decay=1e-4, solved_output=True)
    fit = fit_grades(STRUCTURE[:1], X, Y, PLAN, regression=decay)
    plain = fit_grades(STRUCTURE[:1], X, Y, PLAN, regression=Regression(weight_decay=1e-4))
    features = np.asarray(plain.model.features(X), np.float64)
    expected = solve_least_squares(features, Y, ridge=1e-4 * len(X))(features)
    np.testing.assert_allclose(fit.model(X), expected, atol=1e-5)
    assert loss(fit.model) < loss(plain.model)


def test_with_residual_scaling_a_grade_solves_for_the_scaled_residual():
    """Taken it is, too: a wrong one would be replaced by the descended one, and nothing else would show."""
    options = {"weight_decay": 1e-6, "residual_scaling": True}
    fit = fit_grades(STRUCTURE, X, Y, PLAN, regression=Regression(**options, solved_output=True))
    assert not any("not taken" in record.sentence for record in fit.records)
    (first, _), (_, features) = fit.model.stages(X)
    left_over, scale = Y - np.asarray(first), float(fit.model.grades[1].scale)
    assert scale == pytest.approx(np.sqrt(np.mean(left_over**2)), rel=1e-4)
    expected = solve_least_squares(np.asarray(features, np.float64), left_over / scale, ridge=1e-6 * len(X))
    np.testing.assert_allclose(fit.model.grades[1].params[-1].weight, expected.coefficients, rtol=1e-3, atol=1e-4)


def test_a_solved_output_that_is_worse_is_not_taken_and_the_record_says_so(monkeypatch):
    def solve_wrongly(features, targets, **options):
        return solve_least_squares(features, 3 * targets, **options)

    monkeypatch.setattr(regression, "solve_least_squares", solve_wrongly)
    fit = fit_grades(STRUCTURE[:1], X, Y, PLAN, regression=Regression(solved_output=True))
    assert "; the solved output layer was not taken: the sum of squares would be" in fit.records[0].sentence
    np.testing.assert_array_equal(fit.model(X), fit_grades(STRUCTURE[:1], X, Y, PLAN).model(X))


@pytest.mark.parametrize("scaling", [False, True])
def test_every_grade_with_a_solved_output_is_no_worse_than_the_one_before(scaling):
    fit = fit_grades(STRUCTURE, X, Y, PLAN, regression=Regression(solved_output=True, residual_scaling=scaling))
    losses = [float(np.mean((Y - np.asarray(stage)) ** 2)) for stage in fit.model.staged(X)]
    assert losses[1] <= losses[0] * (1 + 1e-6)


def test_corrected_outputs_are_no_worse_than_those_found_one_by_one():
    fit = fit_grades(STRUCTURE, X, Y, PLAN)
    corrected = correct_outputs(fit.model, X, Y, ridge=0.0)
    assert loss(corrected) <= loss(fit.model)
    for old, new in zip(fit.model.grades, corrected.grades, strict=True):
        np.testing.assert_array_equal(old.params[0].weight, new.params[0].weight)


def test_solved_output_needs_the_squared_error():
    other = next(loss for name, loss in LOSSES.items() if "squared" not in name.lower())
    with pytest.raises(ValueError, match="solved_output must be False"):
        fit_grades(
            STRUCTURE,
            X,
            Y,
            PLAN,
            regression=Regression(solved_output=True, loss=other() if isinstance(other, type) else other),
        )


def test_variable_projection_records_the_least_loss_of_its_features():
    network = STRUCTURE[0]
    projected = Regression(solved_output=True, solved_every=1)
    fit = fit_grades((network,), X, Y, Plan(1, learning_rate=1e-12, record_every=1), regression=projected)
    features = np.asarray(network.hidden(fit.model.grades[0].params, X), np.float64)
    ridge = 1e-10 * (np.sum(features**2) + len(X))  # of rounding to single precision
    least = solve_least_squares(features, Y, ridge=ridge)(features) - Y
    assert fit.records[0].train_loss[-1] == pytest.approx(0.5 * np.mean(least**2), rel=0.05, abs=1e-7)
    # Steps are short: after a long one of Adam the weights, which nearly cancel, do so no more (docs/equations.md), and
    # what the loss then is depends on the rounding of the processor.
    short = Plan(40, learning_rate=1e-5, record_every=1)
    at_the_end = fit_grades((network,), X, Y, short, regression=Regression(solved_output=True))
    every_step = fit_grades((network,), X, Y, short, regression=projected)
    assert max(every_step.records[0].train_loss[1:]) < 0.5 * min(at_the_end.records[0].train_loss)


def test_unfrozen_layers_go_on_from_the_fit_and_the_others_stay():
    fit = fit_grades(STRUCTURE, X, Y, PLAN)
    freed = unfreeze(fit, X, Y, Plan(60, learning_rate=1e-3), num_layers=1)
    assert loss(freed.model) < loss(fit.model)
    assert len(freed.records) == len(fit.records) + 1
    assert freed.records[-1].train_loss[0] == pytest.approx(0.5 * loss(fit.model), rel=1e-4)
    for old, new in zip(fit.model.grades, freed.model.grades, strict=True):
        np.testing.assert_array_equal(old.params[0].weight, new.params[0].weight)
        assert not np.array_equal(old.params[-1].weight, new.params[-1].weight)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: unfreeze(Fit(), X, Y, PLAN), "fit must have grades"),
        (lambda: unfreeze(fit_grades(STRUCTURE[:1], X, Y, Plan(1)), X, Y, PLAN, num_layers=3), "num_layers must be"),
        (
            lambda: fit_grades(STRUCTURE, X, Y, PLAN, regression=Regression(solved_every=5)),
            "solved_every must be None, or at least 1 and solved_output True",
        ),
    ],
)
def test_mistakes_are_one_line(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_last_output_layer_of_an_estimator_is_that_of_least_squares():
    random = np.random.default_rng(5)
    x = random.uniform(-1, 1, (120, 2))
    y, weights = np.sin(3 * x[:, 0]) * x[:, 1], random.uniform(0.5, 2, 120)
    options = {"solver": "adam", "hidden_layer_sizes": (8,), "n_grades": 1, "max_iter": 50, "alpha": 1e-9}
    solved = MultiGradeRegressor(**options, solved_output=True, random_state=0).fit(x, y, sample_weight=weights)
    trained = MultiGradeRegressor(**options, random_state=0).fit(x, y, sample_weight=weights)
    features = np.asarray(trained.transform(x), np.float64)
    matrix = np.sqrt(weights)[:, None] * np.column_stack([features, np.ones(len(x))])
    coefficients = scipy.linalg.lstsq(matrix, np.sqrt(weights) * y)[0]
    expected = np.column_stack([features, np.ones(len(x))]) @ coefficients
    np.testing.assert_allclose(solved.predict(x), expected, atol=1e-3 * np.std(y))
    assert np.average((solved.predict(x) - y) ** 2, weights=weights) < np.average(
        (trained.predict(x) - y) ** 2, weights=weights
    )
    for wrong in ({"solver": "auto"}, {"solver": "convex"}, {"precision": "high"}, {"loss": "huber", "solver": "adam"}):
        with pytest.raises(ValueError, match="solved_output must be False but for"):
            MultiGradeRegressor(**wrong, solved_output=True).fit(x, y)
