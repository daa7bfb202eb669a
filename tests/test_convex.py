"""Convex grades: optima against Clarabel, certificates against their definitions."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import nnls

from multigrade import convex
from multigrade.convex import cones, gated, plane
from multigrade.convex.certificate import dual_bounds
from multigrade.convex.far import solve_far
from multigrade.convex.network import evaluate
from multigrade.convex.program import cone_violation, objective
from multigrade.convex.program import reduced as reduced_features
from multigrade.networks import Layer
from multigrade.synthetic import setting

from .test_arrangements import degenerate_inputs


@pytest.mark.parametrize("tiny", [1e-8, 1e-19, 1e-30])
def test_a_point_of_tiny_weight_binds_no_neuron(tiny):
    """The optimum is that without it: its hyperplane is one like any other, however little it counts."""
    x = np.linspace(-1, 1, 16)[:, None]
    y, weight = np.abs(x[:, 0] - 0.1), np.ones(16)
    weight[[0, -1]] = 0
    without = convex.solve_newton(convex.convex_program(x, y, regularisation=0.01, sample_weight=weight))
    weight[[0, -1]] = tiny
    found = convex.solve_newton(convex.convex_program(x, y, regularisation=0.01, sample_weight=weight))
    assert found.certificate.objective == pytest.approx(without.certificate.objective, rel=1e-6)


def test_a_small_feature_beside_a_large_one_counts():
    random = np.random.RandomState(0)
    v, u = random.rand(12), random.rand(12)
    program = convex.convex_program(np.stack([1e10 * v, u], 1), v + u, regularisation=1e-2, has_bias=False)
    solution = convex.solve_newton(program)
    # Two neurons, each on one feature: sum |a| ||w|| = 1e-10 + 1.
    assert solution.certificate.dual_bound <= 0.0101


def test_a_point_outside_its_cones_is_certified_as_the_network_it_is():
    *_, program = random_problem(0)
    weights = np.random.default_rng(0).standard_normal(program.point_shape)
    certificate = convex.certify(program, weights, iterations=0, outcome=convex.Outcome.STALLED).certificate
    error = -program.targets[:, 0]
    for sign, groups in zip((1, -1), weights[0], strict=True):
        error = error + sign * np.maximum(groups @ program.inputs.T, 0).sum(0)
    own = 0.5 * error @ error + program.regularisation * np.linalg.norm(weights, axis=-1).sum()
    assert certificate.objective >= own * (1 - 1e-12)
    assert certificate.objective >= convex.solve_newton(program).certificate.dual_bound


def test_what_is_quoted_of_sampled_patterns_holds_for_every_network():
    """Eight features and 120 points: the sampled program is solved, and a network of other patterns is far better."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 8))
    y = np.sin(2 * x[:, 0]) * x[:, 1]
    few = convex.solve_newton(convex.convex_program(x, y, regularisation=0.05, num_samples=60), tolerance=1e-4)
    more = convex.solve_newton(convex.convex_program(x, y, regularisation=0.05, num_samples=400), tolerance=1e-4)
    assert few.certificate.pattern_gap <= 1e-4
    assert few.certificate.outcome is convex.Outcome.CHOSEN
    assert more.certificate.objective < 0.8 * few.certificate.objective
    assert few.certificate.objective * (1 - few.certificate.relative_gap) <= more.certificate.objective
    assert f"gap {few.certificate.relative_gap:.1e} over all patterns" in str(few.certificate)


@pytest.mark.parametrize(("bias", "beta"), [(True, 0.3), (False, 0.05)])
def test_in_the_plane_neurons_one_by_one_are_the_optimum(bias, beta):
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(40, 1 if bias else 2))
    y = np.abs(x[:, 0] - 0.2) + 0.3 * rng.normal(size=40)
    program = convex.convex_program(x, y, regularisation=beta, has_bias=bias)
    found, exact = convex.solve_newton(program, tolerance=1e-8), convex.solve_exact(program)
    assert found.certificate.outcome is convex.Outcome.CONVERGED
    assert found.certificate.objective == pytest.approx(exact.certificate.objective, rel=1e-7)
    assert cone_violation(program, found.weights) < 1e-12
    dual = rng.normal(size=40)
    walls = program.walls
    program.__dict__["walls"] = None  # the active sets of any rank
    np.testing.assert_allclose(convex.dual_norms(program, dual), np.linalg.norm(
        plane.best_neurons(dataclasses.replace(program), dual, reduced_features(program)[0]), axis=-1), atol=1e-9,
    )  # fmt: skip
    assert walls is not None


def test_two_thousand_rows_of_one_input_are_solved():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 2000)
    program = convex.convex_program(x[:, None], np.sin(6 * x) + 0.1 * rng.normal(size=2000), regularisation=10.0)
    certificate = convex.solve_newton(program).certificate
    assert certificate.is_full
    assert certificate.relative_gap <= 1e-6


def random_problem(seed, num_points=12, num_inputs=3, fraction=0.05, outputs=1, **options):
    """A program over all patterns with beta a fraction of the beta that makes the optimum 0."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_points, num_inputs))
    teacher = np.maximum(x @ rng.normal(size=(num_inputs, 4)), 0) @ rng.normal(size=(4, outputs))
    y = teacher + 0.3 * rng.normal(size=(num_points, outputs))
    program = convex.convex_program(x, y, regularisation=1.0, has_bias=False, **options)
    return x, y, program.with_regularisation(fraction * convex.largest_regularisation(program))


@pytest.fixture(scope="module")
def solved():
    x, y, program = random_problem(0)
    return x, y, convex.solve_newton(program, tolerance=1e-8)


def test_projection_meets_moreaus_conditions():
    """p = Pi_K(z) exactly when p is in K, z - p is in its polar, and they are orthogonal."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 4))
    x[3] = 0
    x[4] = x[5]
    patterns = convex.sample_patterns(x, 60)
    points = rng.normal(size=(60, 4))
    points[0] = 0
    directions = np.divide(x, np.linalg.norm(x, axis=1, keepdims=True), out=np.zeros_like(x), where=x != 0)
    with jax.enable_x64(True):
        projected, active = jax.jit(cones.project)(points, patterns, directions, cones.empty_active_set(60, 40, 4))
        assert jnp.all(active.multipliers >= 0)
        projected = np.asarray(projected)
    signs = np.where(patterns, 1.0, -1.0)
    assert np.min(signs * (projected @ x.T)) > -1e-9
    assert np.abs(np.sum(projected * (points - projected), axis=1)).max() < 1e-9
    for sign, point, found in zip(signs, points, projected, strict=True):
        distance = nnls(-(sign[:, None] * x).T, point)[1]  # from z to the polar cone of K
        assert np.linalg.norm(found) == pytest.approx(distance, abs=1e-9)


def test_dual_norm_is_the_largest_correlation_with_a_neuron(solved):
    x, _, solution = solved
    rng = np.random.default_rng(5)
    dual = rng.normal(size=len(x))
    norms = convex.dual_norms(solution.program, dual)
    neurons = rng.normal(size=(100_000, 3))
    neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
    correlation = np.abs(np.maximum(neurons @ x.T, 0) @ dual)
    assert 0.99 * norms.max() < correlation.max() <= norms.max() * (1 + 1e-12)
    assert norms.max() <= convex.full_dual_norm(solution.program, dual)


def test_optimum_is_certified_and_equals_clarabel(solved):
    _, _, solution = solved
    exact = convex.solve_exact(solution.program)
    assert solution.certificate.is_full
    assert solution.certificate.outcome is convex.Outcome.CONVERGED
    assert solution.certificate.relative_gap < 1e-7
    assert exact.certificate.relative_gap < 1e-6
    assert solution.certificate.objective == pytest.approx(exact.certificate.objective, rel=1e-7)
    assert convex.cone_violation(solution.program, solution.weights) < 1e-9


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-6])
def test_clarabel_has_converged_if_the_certified_gap_has(solved, tolerance):
    certificate = convex.solve_exact(solved[2].program, tolerance=tolerance).certificate
    is_within = certificate.relative_gap <= tolerance
    assert certificate.outcome is (convex.Outcome.CONVERGED if is_within else convex.Outcome.STALLED)


def test_a_solver_that_runs_out_of_rounds_does_not_ask_for_iterations(solved, monkeypatch):
    program = solved[2].program
    few = convex.solve_newton(program, max_iterations=1).certificate
    assert few.outcome is convex.Outcome.ITERATION_LIMIT
    monkeypatch.setattr("multigrade.convex.solvers.MAX_ROUNDS", 1)
    certificate = convex.solve_newton(program).certificate
    assert certificate.iterations < 5_000
    assert certificate.outcome is convex.Outcome.STALLED


@pytest.mark.parametrize("solve", [convex.solve_newton, convex.solve_exact, convex.solve_first_order])
def test_network_objective_equals_convex_objective(solved, solve):
    x, y, solution = solved
    solution = solve(solution.program)
    network, params = convex.to_network(solution)
    value = convex.network_objective(params, x, y, regularisation=solution.program.regularisation)
    assert value == pytest.approx(solution.certificate.objective, rel=1e-7)
    assert network.widths[1] <= np.sum(np.any(solution.weights != 0, axis=-1))
    with jax.enable_x64(True):
        np.testing.assert_allclose(
            network(params, jnp.asarray(x)), convex.predict(solution.program, solution.weights), atol=1e-6
        )


def test_gradient_descent_never_goes_below_the_optimum(solved):
    """50 seeds of the network's own non-convex problem; they get near it and stay above."""
    x, y, solution = solved
    beta, bound = solution.program.regularisation, solution.certificate.dual_bound

    def loss(params):
        hidden, outer = params
        error = jnp.maximum(x @ hidden, 0) @ outer - y
        return 0.5 * jnp.sum(error**2) + 0.5 * beta * (jnp.sum(hidden**2) + jnp.sum(outer**2))

    def descend(key):
        keys = jax.random.split(key)
        start = (0.5 * jax.random.normal(keys[0], (3, 20)), 0.5 * jax.random.normal(keys[1], (20, 1)))

        def step(params, _):
            value, slope = jax.value_and_grad(loss)(params)
            return jax.tree.map(lambda p, g: p - 2e-3 * g, params, slope), value

        return jax.lax.scan(step, start, None, length=3000)[1]

    with jax.enable_x64(True):
        values = np.asarray(jax.jit(jax.vmap(descend))(jax.random.split(jax.random.key(0), 50)))
    assert values.min() >= bound
    assert values.min() < 1.02 * solution.certificate.objective


def test_perturbed_networks_are_never_below_the_optimum(solved):
    x, y, solution = solved
    _, (hidden, outer) = convex.to_network(solution)
    rng = np.random.default_rng(0)
    for size in np.geomspace(1e-6, 1, 200):
        noisy = (
            hidden._replace(weight=hidden.weight + size * rng.normal(size=hidden.weight.shape)),
            outer._replace(weight=outer.weight + size * rng.normal(size=outer.weight.shape)),
        )
        value = convex.network_objective(noisy, x, y, regularisation=solution.program.regularisation)
        assert value >= solution.certificate.dual_bound


@pytest.mark.parametrize("seed", range(20))
def test_first_order_equals_exact(seed):
    _, _, program = random_problem(seed, fraction=[0.3, 0.1, 0.03, 0.01][seed % 4])
    ours = convex.solve_first_order(program, tolerance=5e-6).certificate
    exact = convex.solve_exact(program).certificate
    assert ours.objective == pytest.approx(exact.objective, rel=1e-5)
    assert ours.dual_bound <= exact.objective <= ours.objective * (1 + 1e-7)


def test_single_point_has_its_closed_form():
    """For one point min_c 1/2 (|x| c - e)^2 + beta c is beta e / |x| - beta^2 / (2 |x|^2) while beta < e |x|."""
    program = convex.convex_program([[3.0, 4.0]], [2.0], regularisation=1.0, has_bias=False)
    solution = convex.solve_newton(program, tolerance=1e-9)
    assert solution.certificate.objective == pytest.approx(2 / 5 - 1 / 50, rel=1e-8)
    np.testing.assert_allclose(solution.weights.sum(axis=(0, 1, 2)), (2 - 1 / 5) / 5 * np.array([0.6, 0.8]), rtol=1e-4)


def test_optimum_is_zero_from_the_largest_regularisation_on(solved):
    x, y, solution = solved
    largest = convex.largest_regularisation(solution.program)
    above = convex.solve_newton(solution.program.with_regularisation(1.0001 * largest))
    below = convex.solve_newton(solution.program.with_regularisation(0.99 * largest))
    assert not above.weights.any()
    assert below.weights.any()
    network, params = convex.to_network(above)
    assert network.widths == (3, 1, 1)
    assert convex.network_objective(params, x, y, regularisation=largest) == pytest.approx(0.5 * np.sum(y**2))


@pytest.mark.parametrize("name", degenerate_inputs())
def test_degenerate_inputs_are_solved_with_a_certificate(name):
    inputs = degenerate_inputs()[name][:3]
    program = convex.convex_program(inputs, np.ones(len(inputs)), regularisation=0.05, has_bias=False)
    certificate = convex.solve_first_order(program, tolerance=1e-6).certificate
    assert certificate.relative_gap < 1e-6
    assert certificate.objective == pytest.approx(convex.solve_exact(program).certificate.objective, rel=1e-5)


def test_zero_targets_give_the_zero_network():
    certificate = convex.solve_newton(
        convex.convex_program(np.ones((3, 1)), np.zeros(3), regularisation=0.1)
    ).certificate
    assert (certificate.objective, certificate.relative_gap, certificate.iterations) == (0, 0, 0)


def test_sample_weights_act_as_repetitions():
    rng = np.random.default_rng(0)
    x, y, weight = rng.normal(size=(6, 2)), rng.normal(size=6), np.array([1, 2, 0, 1, 3, 1])
    weighted = convex.convex_program(x, y, regularisation=0.2, sample_weight=weight)
    repeated = convex.convex_program(np.repeat(x, weight, axis=0), np.repeat(y, weight), regularisation=0.2)
    ours, theirs = (convex.solve_exact(program) for program in (weighted, repeated))
    assert ours.certificate.objective == pytest.approx(theirs.certificate.objective, rel=1e-5)
    _, params = convex.to_network(ours)
    value = convex.network_objective(params, x, y, regularisation=0.2, sample_weight=weight)
    assert value == pytest.approx(ours.certificate.objective, rel=1e-7)


def test_several_outputs_are_their_own_programs_in_one_network():
    x, y, program = random_problem(1, outputs=2)
    solution = convex.solve_newton(program)
    columns = [
        convex.convex_program(x, column, regularisation=program.regularisation, has_bias=False) for column in y.T
    ]
    single = [convex.solve_newton(column).certificate.objective for column in columns]
    assert solution.certificate.objective == pytest.approx(sum(single), rel=1e-5)
    network, params = convex.to_network(solution)
    assert network.widths[-1] == 2
    value = convex.network_objective(params, x, y, regularisation=program.regularisation)
    assert value == pytest.approx(solution.certificate.objective, rel=1e-7)


def test_path_from_warm_starts_equals_cold_starts(solved):
    program = solved[2].program
    strengths = [4 * program.regularisation, program.regularisation]
    path = convex.solve_path(program, strengths, tolerance=1e-7)
    assert path[-1].certificate.objective == pytest.approx(solved[2].certificate.objective, rel=1e-6)
    assert path[0].certificate.objective > path[1].certificate.objective


def test_gated_point_is_feasible_and_keeps_the_fit(solved):
    program = solved[2].program
    solution = convex.solve_gated(program)
    assert convex.cone_violation(program, solution.weights) < 1e-9
    assert solution.certificate.objective > solved[2].certificate.objective
    gates = np.random.default_rng(0).normal(size=(1, program.num_patterns, 3))
    split = gated.cone_decomposition(program, gates)
    np.testing.assert_allclose(split[:, 0] - split[:, 1], gates, atol=1e-9)
    assert convex.cone_violation(program, split) < 1e-9


def test_gates_without_a_cone_to_split_them_in_are_named():
    x = np.linspace(-1, 1, 6)[:, None]
    patterns = np.array([[1, 0, 1, 0, 1, 0], [1, 1, 1, 0, 0, 0]], bool)  # no neuron has the first
    program = convex.convex_program(x, np.sin(3 * x), regularisation=0.01, patterns=patterns)
    solution = convex.solve_gated(program)
    assert convex.cone_violation(program, solution.weights) > 1e-3
    assert solution.certificate.outcome is convex.Outcome.OUTSIDE
    possible = convex.convex_program(x, np.sin(3 * x), regularisation=0.01, patterns=patterns[1:])
    assert convex.solve_gated(possible).certificate.outcome is convex.Outcome.RELAXED


def test_neurons_of_a_small_output_are_not_the_noise_of_a_large_one():
    x = np.linspace(0, 1, 12)[:, None]
    y = np.column_stack([1e6 * np.sin(6 * x), 1e-4 * np.cos(5 * x)])
    solution = convex.solve_newton(convex.convex_program(x, y, regularisation=1e-7))
    _, params = convex.to_network(solution)
    expected = convex.predict(solution.program, solution.weights)
    np.testing.assert_allclose(evaluate(params, x)[:, 1], expected[:, 1], atol=1e-9)


def test_column_generation_reaches_the_optimum_over_all_patterns(solved):
    x, y, solution = solved
    found = convex.solve_by_columns(
        x, y, regularisation=solution.program.regularisation, has_bias=False,
        search=convex.PatternSearch(max_patterns=1, num_samples=40), tolerance=1e-5,
    )  # fmt: skip
    certificate = found.certificate
    assert not certificate.is_full
    assert certificate.outcome is convex.Outcome.NO_VIOLATION_FOUND
    assert certificate.objective == pytest.approx(solution.certificate.objective, rel=1e-4)
    assert certificate.full_dual_bound <= solution.certificate.objective
    assert certificate.num_patterns < solution.certificate.num_patterns


@pytest.mark.slow
def test_three_convex_grades_fall_on_setting_one():
    data = setting(1)
    x, y = data.x_train[::32], data.y_train[::32]
    told = []
    watcher = SimpleNamespace(grade_ended=lambda number, record: told.append((number, record.sentence)))
    fit = convex.fit_convex_grades(
        x, y, num_grades=3, regularisation=0.1, tolerance=1e-3,
        search=convex.PatternSearch(num_samples=100, max_rounds=0), observers=[watcher],
    )  # fmt: skip
    assert told == [(number, str(grade.certificate)) for number, grade in enumerate(fit.grades)]
    values = [grade.certificate.objective for grade in fit.grades]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.6 * values[0]
    *_, last = fit.staged_predict(x)
    np.testing.assert_array_equal(last, fit.predict(x))
    first, second, _ = fit.grades
    residual = y - first.output(x)
    value = convex.network_objective(second.params, first.features(x), residual, regularisation=0.1)
    assert value == pytest.approx(second.certificate.objective, rel=1e-7)


def test_double_precision_stays_inside(solved):
    convex.solve_newton(solved[2].program)
    assert jnp.ones(1).dtype == jnp.float32


X, Y = np.ones((3, 2)), np.ones(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: convex.convex_program(X, Y, regularisation=0.0), "regularisation must be .* above 0; got 0.0"),
        (lambda: convex.convex_program(X, Y, regularisation=-1.0), "regularisation must be .* above 0; got -1.0"),
        (lambda: convex.convex_program(X * np.nan, Y, regularisation=1.0), "inputs must be finite; got 6"),
        (lambda: convex.convex_program(X, Y * np.inf, regularisation=1.0), "targets must be finite; got 3"),
        (lambda: convex.convex_program(X[:, 0], Y, regularisation=1.0), r"inputs must have shape .* got \(3,\)"),
        (lambda: convex.convex_program(X, Y[:2], regularisation=1.0), "targets must have one row for each of the 3"),
        (lambda: convex.convex_program(X, Y, regularisation=1.0, sample_weight=-Y), "sample_weight must be at least 0"),
        (lambda: convex.convex_program(X, Y, regularisation=1.0, sample_weight=0 * Y), "not all 0"),
        (lambda: convex.convex_program(X, Y, regularisation=1.0, patterns=np.ones((1, 2))), "patterns must be boolean"),
        (lambda: convex.enumerate_patterns(np.eye(9), max_patterns=100), "at most max_patterns = 100"),
        (lambda: convex.sample_patterns(X, 0), "num_patterns must be at least 1; got 0"),
        (lambda: convex.fit_convex_grades(X, Y, num_grades=0, regularisation=1.0), "num_grades must be at least 1"),
        (lambda: convex.fit_convex_grades(X, Y, num_grades=2, regularisation=[1, 2, 3]), "one for each of the 2"),
        (lambda: convex.fit_convex_grades(X, Y, num_grades=1, regularisation=-1), "above 0; got -1"),
        (lambda: convex.fit_convex_grades(X, Y, num_grades=1, regularisation=1, solver="sgd"), "solver must be"),
    ],
)  # fmt: skip
def test_mistakes_are_named_before_any_work(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_reduced_features_keep_products_and_norms():
    program = convex.convex_program(np.ones((4, 2)) * np.arange(4)[:, None], np.ones(4), regularisation=1.0)
    features, directions, basis = reduced_features(program)
    np.testing.assert_allclose(features @ basis.T, program.inputs, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1)


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e5, 1.7e9])
def test_no_network_made_by_hand_beats_a_certificate_wherever_the_inputs_are(shift):
    """|u| - 1/2 = relu(x - shift) + relu(shift - x) - 1/2: the rows (x, 1) differ by angles of 1e-11 and less."""
    u = np.linspace(-1, 1, 11)
    x, y = (shift + u)[:, None], np.abs(u) - 0.5
    fit = convex.fit_convex_grades(x, y, num_grades=1, regularisation=1e-7)
    certificate = fit.grades[0].certificate
    vectors, outer = np.array([[1.0, -1.0, 0.0], [-shift, shift, 1.0]]), np.array([1.0, 1.0, -0.5])
    balance = np.sqrt(np.abs(outer) / np.linalg.norm(vectors, axis=0))
    layers = Layer(vectors[:1] * balance, vectors[1] * balance), Layer((outer / balance)[:, None], np.zeros(1))
    by_hand = convex.network_objective(layers, x, y, regularisation=1e-7)
    assert certificate.full_dual_bound <= by_hand
    if shift <= 1e5:
        assert certificate.outcome is convex.Outcome.CONVERGED
        assert certificate.objective <= by_hand
    else:
        assert certificate.outcome is convex.Outcome.CONVERGED or certificate.relative_gap > 1e-4


@pytest.mark.parametrize(("features", "shift"), [(1, 0.0), (1, 3.0), (2, 3.0)])
def test_neuron_by_neuron_is_newton_s_optimum(features, shift):
    rng = np.random.default_rng(features)
    x, y = shift + rng.normal(size=(7, features)), rng.normal(size=(7, 2))
    program = convex.convex_program(x, y, regularisation=0.05, sample_weight=rng.integers(1, 4, 7))
    weights, duals, _ = solve_far(program, tolerance=1e-5)
    assert cone_violation(program, weights) < 1e-12
    bound, _ = dual_bounds(program, weights, duals)
    value = convex.solve_newton(program, tolerance=1e-8).certificate.objective
    assert bound <= value <= objective(program, weights) * (1 + 1e-8)
    assert objective(program, weights) <= bound * (1 + 2e-5)
