"""Equations: solutions in the span to rounding, closed forms, derivatives, domains, and mistakes in one line."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from multigrade.cli import app
from multigrade.commands.solve import NAMES
from multigrade.equations import (
    READY,
    Ball,
    Box,
    Condition,
    Data,
    Difference,
    PointCloud,
    Problem,
    Union,
    UnsolvedError,
    UnsolvedWarning,
    derivative,
    gradient,
    laplacian,
    load_solution,
    solve,
    solve_integral,
)
from multigrade.equations.coordinates import Coordinates, SteepLayer
from multigrade.equations.rows import Basis
from multigrade.equations.waves import free_waves, wave_number
from multigrade.equations.windows import time_axis
from multigrade.files import read_arrays, write_arrays

pytestmark = pytest.mark.filterwarnings("ignore::multigrade.equations.UnsolvedWarning")
INTERVAL = Box((0.0,), (2.0,))
RANDOM = np.random.default_rng(0)


def line(interior, conditions=None, **options) -> Problem:
    return Problem(INTERVAL, interior, conditions or [Condition(lambda u, x: u(x))], **options)


def test_derivatives_equal_closed_forms():
    with jax.enable_x64(True):
        u = lambda x: jnp.sin(2 * x[0]) * jnp.exp(x[1])  # noqa: E731
        x = jnp.array([0.3, -0.4])
        assert derivative(u, x, 0, 3) == pytest.approx(-8 * np.cos(0.6) * np.exp(-0.4))
        assert laplacian(u, x) == pytest.approx(-3 * np.sin(0.6) * np.exp(-0.4))
        np.testing.assert_allclose(gradient(u, x), np.exp(-0.4) * np.array([2 * np.cos(0.6), np.sin(0.6)]))


def test_a_solution_in_the_span_is_found_to_rounding():
    w = np.pi / 2 * 3  # a wave of the lattice on [0, 2]
    exact = lambda x: jnp.sin(w * x[0]) + 2.0 * x[0]  # noqa: E731
    problem = line(lambda u, x: laplacian(u, x) - laplacian(exact, x), [Condition(lambda u, x: u(x) - exact(x))])
    x = np.linspace(0, 2, 300)[:, None]
    np.testing.assert_allclose(solve(problem, quiet=True)(x)[:, 0], np.sin(w * x[:, 0]) + 2 * x[:, 0], atol=1e-10)


def test_helmholtz_on_the_square_finds_its_own_frequency_and_saves_itself(tmp_path):
    ready = READY["helmholtz"](wavenumber=12.0)
    solution = ready.solve(quiet=True, max_features=400)
    assert ready.error(solution) < 1e-7
    assert not solution.remark
    for record in solution.records:
        assert record.after <= record.before  # adding a grade never raises the residual
    points = RANDOM.random((5, 2))
    vanishing = solution.apply(lambda u, x: laplacian(u, x) + 144.0 * u(x), points)
    assert np.abs(vanishing).max() < 1e-3
    solution.save(tmp_path / "u.safetensors")
    np.testing.assert_array_equal(load_solution(tmp_path / "u.safetensors")(points), solution(points))
    solution.figure(tmp_path / "u.png")
    assert (tmp_path / "u.png").stat().st_size > 5000


def test_free_waves_are_those_that_the_operator_lets_through():
    domain, k = Box((0.0, -1.0), (2.0, 0.0)), 9.0
    problem = Problem(domain, lambda u, x: laplacian(u, x) + k**2 * u(x), [Condition(lambda u, x: u(x))])
    with jax.enable_x64(True):
        basis = Basis.of(problem)
        waves = free_waves(problem, basis, wave_number(problem, basis), 200)
        np.testing.assert_allclose(np.linalg.norm(waves / basis.box.lengths, axis=1), k, rtol=1e-12)
        source = Problem(domain, lambda u, x: laplacian(u, x) + k**2 * u(x) - 1.0, problem.conditions)
        assert not len(free_waves(source, basis, 18.0, 200))


def test_coordinates_have_an_inverse_and_their_fineness_is_their_slope():
    layers = SteepLayer(0, 0.3, 0.01), SteepLayer(0, 1.0, 0.05)
    coordinates = Coordinates(np.zeros(2), np.ones(2), layers)
    points = RANDOM.random((50, 2))
    np.testing.assert_allclose(coordinates.inverse(coordinates(points)), points, atol=1e-12)
    ahead, behind = (coordinates(points + np.array([sign * 1e-7, 0.0]))[:, 0] for sign in (1, -1))
    np.testing.assert_allclose(coordinates.fineness(points), (ahead - behind) / 2e-7, rtol=1e-5)


def test_a_thin_layer_is_found_and_resolved(tmp_path):
    width = 0.004
    conditions = [Condition(lambda u, x: u(x) - jnp.exp((x[0] - 2.0) / width))]
    problem = line(lambda u, x: width**2 * laplacian(u, x) - u(x), conditions)
    solution = solve(problem, quiet=True, max_features=200)
    x = np.linspace(0, 2, 3000)[:, None]
    np.testing.assert_allclose(solution(x)[:, 0], np.exp((x[:, 0] - 2) / width), atol=1e-8)
    solution.save(tmp_path / "u.safetensors")
    np.testing.assert_array_equal(load_solution(tmp_path / "u.safetensors")(x), solution(x))


def test_a_short_time_has_waves_as_fine_as_a_long_side():
    exact = lambda x: jnp.sin(jnp.pi * x[0]) * jnp.exp(-100 * x[1])  # noqa: E731
    problem = Problem(
        Box((0.0, 0.0), (1.0, 0.05)),
        lambda u, x: derivative(u, x, 1) - 100 / jnp.pi**2 * derivative(u, x, 0, 2),
        [Condition(lambda u, x: u(x) - exact(x), where=lambda points: points[:, 1] < 0.05)],
    )
    x = np.random.default_rng(0).random((500, 2)) * [1, 0.05]
    u = solve(problem, quiet=True, max_features=300)
    np.testing.assert_allclose(u(x)[:, 0], np.sin(np.pi * x[:, 0]) * np.exp(-100 * x[:, 1]), atol=1e-7)


def test_a_first_grade_that_is_too_coarse_is_left_out_and_the_next_has_its_waves():
    """0.01 u'' + u' = 1: twenty features are worse than none here."""
    layer = 0.01
    problem = Problem(
        Box((0.0,), (1.0,)),
        lambda u, x: layer * derivative(u, x, 0, 2) + derivative(u, x, 0) - 1,
        [Condition(lambda u, x: u(x))],
    )
    u = solve(problem, first=20, stretch=(1.0,), max_features=150, quiet=True)
    x = np.linspace(0, 1, 201)
    expected = x - np.expm1(-x / layer) / np.expm1(-1 / layer)
    assert u.records[0].held_out > 1
    assert u.num_features == min(u.records, key=lambda record: record.held_out).num_features
    np.testing.assert_allclose(u(x[:, None])[:, 0], expected, atol=1e-7)


def test_where_no_grade_helps_u_is_what_it_started_from():
    """u'' = 1 with u' = 0 at both ends has no solution."""
    ends = Condition(lambda u, x: derivative(u, x, 0))
    problem = Problem(Box((0.0,), (1.0,)), lambda u, x: laplacian(u, x) - 1, [ends], start=(2.0,))
    u = solve(problem, first=20, stretch=(1.0,), max_grades=1, quiet=True)
    assert u.records[0].held_out > u.error_estimate == 1
    assert u.num_features < u.records[0].num_features  # which was left out
    assert u.sentence.startswith("not solved")
    np.testing.assert_array_equal(u([[0.3], [0.6]]), [[2.0], [2.0]])


def test_a_problem_that_is_not_linear_by_gauss_newton():
    exact = lambda x: jnp.cos(x[0])  # noqa: E731
    interior = lambda u, x: laplacian(u, x) + u(x) ** 3 - (exact(x) ** 3 - exact(x))  # noqa: E731
    conditions = [Condition(lambda u, x: u(x) - exact(x))]
    solution = solve(line(interior, conditions, is_linear=False), quiet=True)
    x = np.linspace(0, 2, 100)[:, None]
    np.testing.assert_allclose(solution(x)[:, 0], np.cos(x[:, 0]), atol=1e-7)


@pytest.mark.slow
def test_a_coefficient_is_found_from_data():
    ready = READY["inverse"]()
    solution = ready.solve(quiet=True)
    assert ready.error(solution) < 1e-3
    assert not solution.remark


@pytest.mark.parametrize("wavenumber", [20.0, 60.0])
def test_fredholm_equals_its_closed_form(wavenumber):
    ready = READY["fredholm"](wavenumber=wavenumber)
    solution = ready.solve(quiet=True)
    assert ready.error(solution) < 1e-8
    assert not solution.remark


def test_an_integral_equation_whose_last_grade_is_left_out_keeps_the_one_before():
    """u(s) - integral of s t u(t) = 1 has the solution 1 + 3/4 s; what is added to the source is noise to grades."""
    solution = solve_integral(
        lambda s, t: s * t, lambda s: 1 + 0.002 * np.cos(3e5 * s**3), (0.0, 1.0), max_features=200, quiet=True
    )
    s = np.linspace(0.05, 0.95, 50)
    np.testing.assert_allclose(solution(s[:, None])[:, 0], 1 + 0.75 * s, atol=0.1)
    assert (len(solution.records), solution.num_features, solution.remark) == (1, 102, "")


def test_volterra_equals_its_closed_form():
    ready = READY["volterra"]()
    assert ready.error(ready.solve(quiet=True)) < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "bound"),
    [
        ("poisson", {}, 1e-9),
        ("heat", {}, 1e-6),
        ("wave", {}, 1e-6),
        ("lens", {"wavenumber": 10.0, "num_points": 100}, 1e-3),
        ("helmholtz", {"wavenumber": 10.0, "boundary": "absorbing"}, 1e-6),
        ("helmholtz", {"wavenumber": 5.0, "dimensions": 3}, 1e-9),
        ("burgers", {}, 1e-4),
    ],
)
def test_ready_problems_equal_their_references(name, options, bound):
    ready = READY[name](**options)
    solution = ready.solve(quiet=True, max_features=900)
    assert ready.error(solution) < bound
    assert not solution.remark


@pytest.mark.parametrize(
    ("domain", "area"),
    [
        (Box((0.0, 0.0), (2.0, 1.0)), 2.0),
        (Ball((0.0, 0.0), 1.0), np.pi),
        (Union(Ball((0.0, 0.0), 1.0), Ball((5.0, 0.0), 1.0)), 2 * np.pi),
        (Difference(Box((-1.0, -1.0), (1.0, 1.0)), Ball((0.0, 0.0), 0.5)), 4 - np.pi / 4),
    ],
)
def test_domains_hold_their_points_and_areas(domain, area):
    inside, edge = domain.inside(RANDOM, 500), domain.boundary(RANDOM, 300)
    assert len(inside) == 500
    assert domain.contains(inside).all()
    low, high = domain.bounds
    drawn = low + (high - low) * RANDOM.random((40_000, 2))
    assert domain.contains(drawn).mean() * np.prod(high - low) == pytest.approx(area, rel=0.03)
    outward = edge + 1e-6 * np.sign(RANDOM.normal(size=edge.shape))
    is_mixed = domain.contains(outward).mean()  # a point of the boundary has both sides near
    assert 0.1 < is_mixed < 0.9


@pytest.mark.slow
def test_a_disc_given_as_a_cloud_of_points():
    disc = Ball((0.0, 0.0), 1.0)
    cloud = PointCloud(disc.inside(RANDOM, 2500), disc.boundary(RANDOM, 500))
    exact = lambda x: x[0] ** 2 - x[1] ** 2  # noqa: E731
    problem = Problem(cloud, laplacian, [Condition(lambda u, x: u(x) - exact(x))])
    points = disc.inside(RANDOM, 100)
    solution = solve(problem, quiet=True, max_features=300, stretch=(1.0, 1.0))
    np.testing.assert_allclose(solution(points)[:, 0], points[:, 0] ** 2 - points[:, 1] ** 2, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: solve(line(lambda u, x: laplacian(u, x) + u(x) ** 2 - 1.0), quiet=True), "not linear in u"),
        (lambda: solve(line(lambda u, x: laplacian(u, x) - jnp.sqrt(x[0] - 1)), quiet=True), "must be finite; at x ="),
        (lambda: solve(line(lambda u, x: x[0]), quiet=True), "must depend on u"),
        (
            lambda: solve(
                line(laplacian, [Condition(lambda u, x: u(x)), Condition(lambda u, x: u(x) - 1.0)]), quiet=True
            ),
            "conditions 1 and 2 contradict each other",
        ),
        (
            lambda: solve(
                line(laplacian, [Condition(lambda u, x: u(x)), Condition(lambda u, x: 2 * u(x) - 1.0)]), quiet=True
            ),
            "conditions 1 and 2 contradict each other",
        ),
        (lambda: solve(line(lambda u, x: laplacian(u, x) - np.sin(x[0])), quiet=True), "use jax.numpy for numpy"),
        (lambda: solve(line(lambda u, x: laplacian(u, x)[0]), quiet=True), "num_unknowns is 1"),
        (lambda: solve(line(lambda u, x: laplacian(u, x) - x[1]), quiet=True), "index 1 is out of bounds"),
        (
            lambda: solve(line(lambda u, x: laplacian(lambda z: z[2] * u(z), x)), quiet=True),
            "a part of x or of u\\(x\\) that is not there",
        ),
        (lambda: solve(line(lambda u, x: u(x)[2], num_unknowns=2), quiet=True), "num_unknowns is 2"),
        (lambda: solve(line(lambda u, x: derivative(u, x, 1)), quiet=True), "axis must be from 0 to 0"),
        (
            lambda: solve(line(lambda u, x: derivative(u, x, 0, 0)), quiet=True),
            "order must be an integer of at least 1",
        ),
        (lambda: derivative(lambda x: x[0], jnp.ones(1), 0, -1), "order must be an integer of at least 1, .* got -1"),
        (
            lambda: derivative(lambda x: x[0], jnp.ones(1), 0, 1.5),  # pyright: ignore[reportArgumentType]
            "order must be an integer of at least 1",
        ),
        (
            lambda: solve(line(laplacian, [Condition(lambda u, x: u(x), where=lambda p: p[0] > 5)]), quiet=True),
            r"where of condition 1 must give True or False for each .* receives all points \(N, d\): write x\[:, 0\]",
        ),
        (
            lambda: solve(line(laplacian, [Condition(lambda u, x: u(x) ** 2 - 1.0)]), quiet=True),
            "does not change with u at the start",
        ),
        (
            lambda: solve(line(laplacian, [Condition(lambda u, x: u(x), where=lambda p: p[:, 0] > 5)]), quiet=True),
            "must hold somewhere on the boundary",
        ),
        (lambda: solve(line(laplacian), max_features=3, quiet=True), "max_features must be at least 20"),
        (lambda: solve(line(laplacian), max_grades=0), "max_grades must be at least 1; got 0"),
        (lambda: solve(line(laplacian), first=0), "first must be at least 1; got 0"),
        (lambda: solve(line(laplacian), tolerance=float("nan")), "tolerance must be at least 0; got nan"),
        (lambda: solve(line(laplacian), stretch="none"), 'stretch must be "auto" or 1 positive numbers'),
        (lambda: solve(line(laplacian), stretch=(1.0, 2.0)), 'stretch must be "auto" or 1 positive numbers'),
        (
            lambda: solve(
                line(
                    lambda u, x: derivative(lambda z: jnp.where(z[0] < 0.7, 1.0, 9.0) * derivative(u, z, 0), x, 0),
                    [Condition(lambda u, x: u(x) - x[0])],
                )
            ),
            r"differentiates something that jumps, at x = \[0.7\]",
        ),
        (lambda: Box((0.0, 0.0), (1.0, 1.0), periodic=(2,)), "periodic must be axes from 0 to 1"),
        (
            lambda: solve(line(laplacian, start=lambda points: np.ones((len(points), 3)), is_linear=False)),
            "start must give 1 finite numbers for each point",
        ),
        (lambda: line(laplacian, start=(1.0, 2.0)), "start must be 1 numbers, one for each unknown"),
        (lambda: Condition(laplacian, weight=-1.0), "weight must be a positive number; got -1.0"),
        (lambda: READY["burgers"](viscosity=0.0), "viscosity must be a positive number; got 0.0"),
        (lambda: READY["poisson"](layer=-0.1), "layer must be a positive number"),
        (lambda: READY["fredholm"](wavenumber=float("nan")), "wavenumber must be a positive number"),
        (lambda: Box((0.0, 0.0), (1.0, 0.0)), "every lower end below"),
        (lambda: Box(0.0, 1.0), "as many lower as upper ends"),  # pyright: ignore[reportArgumentType]
        (lambda: Union(INTERVAL, Ball((0.0, 0.0), 1.0)), "as many dimensions; got 1 and 2"),
        (lambda: PointCloud(np.outer(np.arange(50.0), [1.0, 2.0]), np.zeros((1, 2))), "lie on a line or plane"),
        (
            lambda: solve(
                Problem(
                    PointCloud(np.tile(RANDOM.random((30, 1)), (5, 1)), np.array([[0.0], [1.0]])),
                    laplacian,
                    [Condition(lambda u, x: u(x))],
                ),
                quiet=True,
            ),
            "a cloud must have at least 40 different points",
        ),
        (lambda: Difference(Ball((0.0, 0.0), 1.0), Ball((0.0, 0.0), 2.0)).inside(RANDOM, 10), "positive measure"),
        (lambda: Problem(INTERVAL, laplacian), "needs conditions or data"),
        (lambda: Data(np.ones((3, 1)), np.array([1.0, np.nan, 2.0])), "data must be finite"),
        (lambda: solve_integral(lambda s, t: s + t, lambda s: s / 0.0 * 0, (0, 1)), "source must give a finite number"),
        (lambda: solve_integral(lambda s, t: np.log(s - t), lambda s: s, (0, 1)), "kernel must be finite"),
        (lambda: solve_integral(lambda s, t: s * t, lambda s: s, (0, 1), factor=0), "factor must not be 0"),
        (
            lambda: solve_integral(lambda s, t: s * t, lambda s: s, (0, 1), max_features=1),
            "max_features must be at least",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_mistakes_are_one_line(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Problem(INTERVAL, laplacian, Condition(lambda u, x: u(x))),  # pyright: ignore[reportArgumentType]
            "conditions must be a list of Condition",
        ),
        (lambda: line(1.0), "interior must be a function of u and x"),
        (lambda: Condition(1.0), "a condition needs functions"),  # pyright: ignore[reportArgumentType]
        (lambda: READY["fredholm"]().solve(seed=1), "unexpected keyword argument 'seed'"),
    ],
)
def test_wrong_kinds_are_one_line(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_data_against_a_condition_are_told(capsys):
    solution = solve(line(laplacian, data=[Data(np.array([[0.0]]), np.array([5.0]))]), max_features=60, quiet=False)
    assert "not solved" in solution.sentence
    assert solution.sentence in capsys.readouterr().out


def test_data_against_the_equation_are_told_though_few_rows_are_large():
    solution = solve(line(laplacian, data=[Data(np.array([[1.0]]), np.array([1.0]))]), quiet=True, max_features=150)
    assert "not solved" in solution.sentence
    assert "the equation inside is left at" in solution.sentence


def test_resonance_is_told_after_the_first_grade(tmp_path):
    """3 s t has the eigenvalue 1, of s; a source is allowed if its integral against s vanishes."""
    kernel = lambda s, t: 3 * s * t  # noqa: E731
    solution = solve_integral(kernel, np.ones_like, (0.0, 1.0), quiet=True)
    assert "resonance" in solution.sentence
    assert len(solution.records) == 1
    solution.save(tmp_path / "u.safetensors")
    assert load_solution(tmp_path / "u.safetensors").sentence == solution.sentence


def test_a_fredholm_equation_whose_source_is_allowed_in_resonance_does_not_determine_u():
    solution = solve_integral(lambda s, t: 3 * s * t, lambda s: s - 2 / 3, (0.0, 1.0), quiet=True)
    assert solution.error_estimate < 1e-10
    assert solution.remark.startswith("the equation does not determine u")


def test_what_is_wrong_is_a_warning_and_can_be_an_error():
    problem = line(laplacian, data=[Data(np.array([[0.0]]), np.array([5.0]))])
    with pytest.warns(UnsolvedWarning, match="not solved"):
        solution = solve(problem, max_features=60)
    with pytest.raises(UnsolvedError, match="equation: not solved"):
        solution.raise_unless_solved()
    right = solve(line(lambda u, x: laplacian(u, x) - 1.0))
    assert right.raise_unless_solved() is right


def airy(seed: int):
    """Error, bound and remark of eps u'' = x u on [-1, 1]; the first grades do not resolve the waves."""
    from scipy.special import airy as functions

    k = 1e-4 ** (-1 / 3)
    left, right = float(functions(-k)[0]), float(functions(k)[0])
    problem = Problem(
        Box((-1.0,), (1.0,)),
        lambda u, x: 1e-4 * derivative(u, x, 0, 2) - x[0] * u(x),
        [Condition(lambda u, x: u(x) - jnp.where(x[0] < 0, left, right))],
    )
    x = np.linspace(-1, 1, 2001)
    u, expected = solve(problem, seed=seed), functions(k * x)[0]
    return np.linalg.norm(u(x[:, None])[:, 0] - expected) / np.linalg.norm(expected), u.error_bound, u.remark


def test_a_grade_that_is_worse_does_not_end_a_fit_that_has_not_solved_the_problem():
    error, bound, remark = airy(seed=0)
    assert error < 1e-7
    assert error < bound < 1e-5
    assert not remark


@pytest.mark.slow
def test_a_linear_problem_is_not_refused_for_the_rounding_of_its_coefficients():
    for seed in (2, 8):  # which were
        assert airy(seed)[0] < 1e-6


def test_a_wrong_solution_has_a_bound_that_says_so():
    """Bratu's equation has no solution at 3.55, and one at 2."""
    for rate, is_right in ((2.0, True), (3.55, False)):
        interior = lambda u, x, rate=rate: laplacian(u, x) + rate * jnp.exp(u(x))  # noqa: E731
        problem = Problem(Box((0.0,), (1.0,)), interior, [Condition(lambda u, x: u(x))], is_linear=False)
        u = solve(problem, max_features=300)
        assert (u.error_bound < 1e-6) is is_right
        assert bool(u.remark) is not is_right


def test_the_bound_is_above_the_error_where_waves_are_not_resolved():
    exact = lambda x: jnp.sin(90 * x[0]) + jnp.cos(60 * x[0])  # noqa: E731
    problem = line(lambda u, x: laplacian(u, x) - laplacian(exact, x), [Condition(lambda u, x: u(x) - exact(x))])
    x = np.linspace(0, 2, 500)[:, None]
    expected = np.sin(90 * x[:, 0]) + np.cos(60 * x[:, 0])
    for features in (100, 140, 200, 300):
        u = solve(problem, first=features, max_features=features, stretch=(1.0,))
        error = np.linalg.norm(u(x)[:, 0] - expected) / np.linalg.norm(expected)
        assert error < u.error_bound


@pytest.mark.parametrize(("power", "factor"), [(0.5, 10.0), (0.9, 30.0), ("log", 3.0)])
def test_a_singular_kernel_is_solved_where_it_is_named_and_bounded_where_it_is_not(power, factor):
    """The source is that of u = 1."""

    def source(s):
        if power == "log":
            return factor - (s * np.log(s + 1e-300) + (1 - s) * np.log(1 - s + 1e-300) - 1)
        return factor - (s ** (1 - power) + (1 - s) ** (1 - power)) / (1 - power)

    singular = (lambda d: np.log(d)) if power == "log" else (lambda d: d**-power)
    s = np.linspace(0, 1, 301)[:, None]
    named = solve_integral(lambda s, t: 1 + 0 * (s - t), source, (0.0, 1.0), factor=factor, singularity=power)
    np.testing.assert_allclose(named(s)[:, 0], 1, atol=1e-8)
    plain = solve_integral(lambda s, t: singular(np.abs(s - t)), source, (0.0, 1.0), factor=factor, max_features=200)
    assert 1e-7 < np.sqrt(np.mean((plain(s)[:, 0] - 1) ** 2)) < plain.error_bound
    assert bool(plain.remark) is (power == 0.9)


def test_a_peak_between_the_nodes_is_told():
    peak = lambda t: np.exp(-(((t - 0.3712345) / 1e-5) ** 2) / 2) / (1e-5 * np.sqrt(2 * np.pi))  # noqa: E731
    u = solve_integral(lambda s, t: (1 + s) * peak(t), lambda s: 2 - s, (0.0, 1.0), factor=3.0, max_features=100)
    assert "not resolved" in u.remark
    assert u.error_bound > 0.5


def pendulum(end: float) -> Problem:
    """From an angle of 2, at rest."""
    at_start = lambda points: points[:, 0] == 0  # noqa: E731
    conditions = [Condition(lambda u, x: u(x) - 2, at_start), Condition(lambda u, x: derivative(u, x, 0), at_start)]
    interior = lambda u, x: derivative(u, x, 0, 2) + jnp.sin(u(x))  # noqa: E731
    return Problem(Box((0.0,), (end,)), interior, conditions, is_linear=False)


def test_time_goes_on_by_windows(tmp_path):
    from scipy.integrate import solve_ivp

    u, t = solve(pendulum(20.0)), np.linspace(0, 20, 300)
    swing = solve_ivp(lambda t, y: [y[1], -np.sin(y[0])], (0, 20), [2.0, 0.0], "DOP853", t, rtol=1e-12, atol=1e-12)
    error = np.linalg.norm(u(t[:, None])[:, 0] - swing.y[0]) / np.linalg.norm(swing.y[0])
    assert error < u.error_bound < 1e-5
    assert not u.remark
    slopes = u.apply(lambda u, x: derivative(u, x, 0), t[:, None])
    np.testing.assert_allclose(slopes[:, 0], swing.y[1], atol=1e-5)
    u.save(tmp_path / "u.safetensors")
    np.testing.assert_array_equal(load_solution(tmp_path / "u.safetensors")(t[:, None]), u(t[:, None]))
    assert np.isnan(u([[21.0]])).all()


def test_a_solution_that_ends_in_time_is_told():
    """u' = u^2 from 1 is 1 / (1 - t)."""
    begin = Condition(lambda u, x: u(x) - 1, lambda points: points[:, 0] == 0)
    u = solve(
        Problem(Box((0.0,), (1.5,)), lambda u, x: derivative(u, x, 0) - u(x) ** 2, [begin], is_linear=False),
        max_features=150,
    )
    assert u.remark.startswith("not solved")
    assert u.error_bound == np.inf


def test_windows_know_time_from_the_conditions():
    assert time_axis(pendulum(1.0)) == 0
    assert time_axis(line(laplacian)) is None
    assert time_axis(READY_HEAT) == 1


READY_HEAT = Problem(
    Box((0.0, 0.0), (1.0, 0.2)),
    lambda u, x: derivative(u, x, 1) - laplacian(u, x),
    [Condition(lambda u, x: u(x), lambda points: points[:, 1] < 0.2)],
)


def test_a_start_that_is_a_function_or_a_solution():
    def bratu(rate, start):
        interior = lambda u, x: derivative(u, x, 0, 2) + rate * jnp.exp(u(x))  # noqa: E731
        return Problem(Box((0.0,), (1.0,)), interior, [Condition(lambda u, x: u(x))], is_linear=False, start=start)

    def exact(rate, theta):  # theta = sqrt(2 rate) cosh(theta / 4)
        for _ in range(50):
            slope = 1 - np.sqrt(2 * rate) * np.sinh(theta / 4) / 4
            theta -= (theta - np.sqrt(2 * rate) * np.cosh(theta / 4)) / slope
        return 2 * np.log(np.cosh(theta / 4))

    upper = solve(bratu(2.0, lambda points: 6 * np.sin(np.pi * points[:, 0])), max_features=200)
    lower = solve(bratu(2.0, None), max_features=200)
    assert upper([[0.5]])[0, 0] == pytest.approx(exact(2.0, 8.0), rel=1e-8)
    assert lower([[0.5]])[0, 0] == pytest.approx(exact(2.0, 2.0), rel=1e-8)
    further = solve(bratu(1.5, upper), max_features=200)  # stays on its branch
    assert further([[0.5]])[0, 0] == pytest.approx(exact(1.5, 9.0), rel=1e-6)
    assert upper.remark == lower.remark == further.remark == ""


def test_an_equation_whose_linearisation_is_0_at_constants():
    """u'^2 = (1 + x)^2."""
    begin = Condition(lambda u, x: u(x), lambda points: points[:, 0] == 0)
    interior = lambda u, x: derivative(u, x, 0) ** 2 - (1 + x[0]) ** 2  # noqa: E731
    problem = Problem(Box((0.0,), (1.0,)), interior, [begin], is_linear=False, start=lambda points: points[:, 0])
    x = np.linspace(0, 1, 50)
    np.testing.assert_allclose(solve(problem, max_features=200)(x[:, None])[:, 0], x + x**2 / 2, atol=1e-9)


def test_a_periodic_direction_needs_no_condition_and_repeats_itself():
    begin = Condition(lambda u, x: u(x) - jnp.sin(2 * jnp.pi * x[0]), lambda points: points[:, 1] == 0)
    problem = Problem(
        Box((0.0, 0.0), (1.0, 1.0), periodic=(0,)), lambda u, x: derivative(u, x, 1) + derivative(u, x, 0), [begin]
    )
    u, x = solve(problem, max_features=300), np.random.default_rng(0).random((200, 2))
    np.testing.assert_allclose(u(x)[:, 0], np.sin(2 * np.pi * (x[:, 0] - x[:, 1])), atol=1e-6)
    np.testing.assert_allclose(u(x), u(x + np.array([1.0, 0.0])), atol=1e-9)
    assert not u.remark


AT_START = lambda points: points[:, 0] == 0  # noqa: E731
OSCILLATION = lambda u, x: laplacian(u, x) + 9 * u(x)  # noqa: E731
VALUE, SLOPE = Condition(lambda u, x: u(x) - 1, AT_START), Condition(lambda u, x: derivative(u, x, 0), AT_START)
SLOPES = Condition(lambda u, x: derivative(u, x, 0))
SQUARE = Box((0.0, 0.0), (1.0, 1.0))
THREE_SIDES = Condition(lambda u, x: u(x), lambda points: points[:, 0] < 1)
WAVES = lambda u, x: derivative(u, x, 1, 2) - derivative(u, x, 0, 2)  # noqa: E731
AT_REST = Condition(lambda u, x: derivative(u, x, 1), lambda points: points[:, 1] == 0)
STRING = Condition(lambda u, x: u(x) - jnp.sin(jnp.pi * x[0]), lambda points: points[:, 1] < 1)


@pytest.mark.parametrize(
    ("problem", "is_determined"),
    [
        (line(OSCILLATION, [VALUE]), False),
        (line(OSCILLATION, [VALUE, SLOPE]), True),
        (line(lambda u, x: laplacian(u, x) - jnp.cos(jnp.pi * x[0]), [SLOPES]), False),  # up to a constant
        (
            line(
                lambda u, x: laplacian(u, x) - jnp.cos(jnp.pi * x[0]),
                [SLOPES],
                data=[Data(np.zeros((1, 1)), np.zeros(1))],
            ),
            True,
        ),
        (line(lambda u, x: laplacian(u, x) + u(x) ** 3, [VALUE], is_linear=False, start=(1.0,)), False),
        (line(lambda u, x: laplacian(u, x) + u(x) ** 3, [VALUE, SLOPE], is_linear=False, start=(1.0,)), True),
        (line(lambda u, x: derivative(u, x, 0) - 8 * u(x), [VALUE]), True),  # exp(8 x): unstable, but determined
        (Problem(SQUARE, lambda u, x: laplacian(u, x) - jnp.sin(x[0]), [THREE_SIDES]), False),
        # The speed at the start is missing, and is given.
        pytest.param(Problem(SQUARE, WAVES, [STRING]), False, marks=pytest.mark.slow),
        pytest.param(Problem(SQUARE, WAVES, [STRING, AT_REST]), True, marks=pytest.mark.slow),
    ],
)
def test_a_missing_condition_is_told(problem, is_determined):
    solution = solve(problem, quiet=True, max_features=600)
    assert solution.error_estimate < 1e-4
    assert solution.sentence.startswith("the conditions do not determine u") is not is_determined
    assert bool(solution.remark) is not is_determined


def test_the_command_knows_all_ready_problems():
    assert tuple(READY) == NAMES


def test_command_line_solves_draws_and_saves(tmp_path):
    figure, model = tmp_path / "u.png", tmp_path / "u.safetensors"
    arguments = ["solve", "fredholm", "--wavenumber", "20", "--figure", str(figure), "--model", str(model)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "relative error against the reference" in result.output
    told = json.loads(CliRunner().invoke(app, ["solve", "fredholm", "--wavenumber", "20", "--json"]).output)
    assert told["error"] < told["error_bound"] < 1e-6
    damaged = dict(zip(("arrays", "description"), read_arrays(model, "solution")[:2], strict=True))
    del damaged["description"]["model"]
    write_arrays(tmp_path / "damaged.safetensors", "solution", damaged["arrays"], damaged["description"])
    with pytest.raises(ValueError, match="is damaged: a part of the solution is missing"):
        load_solution(tmp_path / "damaged.safetensors")
    assert figure.exists()
    assert load_solution(model).name == "fredholm equation"
    with pytest.raises(ValueError, match=r"points must have shape \(N, 1\); got \(3,\)"):
        load_solution(model)(np.zeros(3))
    assert load_solution(model)(np.empty((0, 1))).shape == (0, 2)
    with pytest.raises(ValueError, match="--viscosity does not belong to fredholm"):
        CliRunner().invoke(app, ["solve", "fredholm", "--viscosity", "1"], catch_exceptions=False)
