"""Convex classifiers: optima against cvxpy, bounds against networks that were descended."""

import numpy as np
import pytest

from multigrade import convex
from multigrade.convex.network import evaluate


def moons(num_rows, features):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, features))
    y = np.where(np.abs(x[:, 0]) + 0.3 * rng.normal(size=num_rows) > 0.7, 1.0, -1.0)
    return x, y


@pytest.mark.parametrize("features", [1, 2])
def test_logistic_optimum_is_cvxpys(features):
    cvxpy = pytest.importorskip("cvxpy")
    x, y = moons(14, features)
    program = convex.convex_program(x, y, regularisation=0.2)
    solution = convex.solve_classifier(program, tolerance=1e-6)
    assert solution.certificate.outcome is convex.Outcome.CONVERGED, str(solution.certificate)
    u, v = cvxpy.Variable((program.num_patterns, features + 1)), cvxpy.Variable((program.num_patterns, features + 1))
    masks, signs = program.patterns.T.astype(float), np.where(program.patterns.T, 1.0, -1.0)
    fit = cvxpy.sum(cvxpy.multiply(masks, program.inputs @ (u - v).T), axis=1)
    loss = cvxpy.sum(cvxpy.logistic(-cvxpy.multiply(y, fit)))
    penalty = 0.2 * cvxpy.sum(cvxpy.norm(u, 2, axis=1) + cvxpy.norm(v, 2, axis=1))
    cones = [cvxpy.multiply(signs, program.inputs @ w.T) >= 0 for w in (u, v)]
    exact = cvxpy.Problem(cvxpy.Minimize(loss + penalty), cones).solve(solver=cvxpy.CLARABEL)
    assert solution.certificate.objective == pytest.approx(exact, rel=1e-5)
    assert solution.certificate.dual_bound <= exact * (1 + 1e-6)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_the_network_has_the_objective_and_the_classes(loss):
    x, y = moons(30, 1)
    solution = convex.solve_classifier(convex.convex_program(x, y, regularisation=0.05), loss=loss)
    _, params = convex.to_network(solution)
    margins = y * evaluate(params, x)[:, 0]
    assert np.mean(margins > 0) >= 0.8
    lost = np.logaddexp(0, -margins) if loss == "logistic" else np.maximum(0, 1 - margins)
    penalty = 0.5 * sum(np.sum(part**2) for layer in params for part in layer)
    assert lost.sum() + 0.05 * penalty == pytest.approx(solution.certificate.objective, rel=1e-5)
    assert solution.certificate.relative_gap <= 1e-4


def test_what_is_no_classification_is_refused():
    program = convex.convex_program(np.arange(4.0)[:, None], np.arange(4.0), regularisation=1.0)
    with pytest.raises(ValueError, match="all -1 or 1"):
        convex.solve_classifier(program)
    with pytest.raises(ValueError, match="'logistic' or 'hinge'"):
        convex.solve_classifier(program, loss="squares")
