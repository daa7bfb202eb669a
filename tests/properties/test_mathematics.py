"""Laws of operators, patterns, programs, least squares, spectra and samplers."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multigrade import convex
from multigrade.convex.arrangements import merged_rows, patterns_of
from multigrade.convex.network import network_objective
from multigrade.curvature.lanczos import find_ends
from multigrade.least_squares import solve_least_squares
from multigrade.networks import Layer
from multigrade.pictures.mixtures import simplex_least_squares
from multigrade.training.sampling import random_rows
from multigrade.training.stopping import NoImprovement, Plateau

from ..test_operators import OPERATORS
from .cases import arrays, dear, matrix, middle, seeds

SIZE = (6, 5)


@pytest.fixture(autouse=True, scope="module")
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def operators():
    made = {name: make(SIZE) for name, make in OPERATORS.items()}
    return {name: (jax.jit(operator), jax.jit(operator.adjoint)) for name, operator in made.items()}


@middle
@given(st.sampled_from(sorted(OPERATORS)), seeds, st.floats(-1e3, 1e3))
def test_every_operator_is_linear_and_has_its_adjoint(operators, name, seed, factor):
    apply, adjoint = operators[name]
    rng = np.random.default_rng(seed)
    x, x2 = rng.normal(size=(2, *SIZE))
    image = np.asarray(apply(x))
    y = rng.normal(size=image.shape)
    np.testing.assert_allclose(
        apply(x + factor * x2), image + factor * np.asarray(apply(x2)), atol=1e-10 * (1 + abs(factor))
    )
    assert np.vdot(image, y) == pytest.approx(np.vdot(x, adjoint(y)), abs=1e-11)


@given(seeds, st.integers(1, 8), st.integers(1, 3))
def test_patterns_are_those_of_every_neuron_and_move_with_the_rows(seed, rows, columns):
    rng = np.random.default_rng(seed)
    inputs = matrix(rng, rows, columns)
    patterns = convex.enumerate_patterns(inputs)
    known = {pattern.tobytes() for pattern in patterns}
    assert len(known) == len(patterns) <= convex.bound_patterns(inputs)
    is_own, moved = merged_rows(inputs, inputs)
    scale = np.abs(inputs).max(axis=0)
    weights = rng.normal(size=(20, columns)) / np.where(scale > 0, scale, 1)
    products = weights @ inputs.T
    size = np.abs(weights) @ np.abs(inputs).T
    is_clear = np.all((np.abs(products) > 1e-9 * size) | (size == 0), axis=1)
    for pattern in patterns_of(inputs, weights[is_clear]):
        assert pattern.tobytes() in known
    order, stretch = rng.permutation(rows), 2.0 ** rng.integers(-5, 6, (rows, 1))
    again = {pattern.tobytes() for pattern in convex.enumerate_patterns((stretch * inputs)[order])}
    if np.all(is_own) and not np.any(np.abs(moved) > 0):
        assert again == {pattern[order].tobytes() for pattern in patterns}


@pytest.mark.slow
@dear
@given(seeds)
def test_no_network_beats_a_certificate(seed):
    """Points of one shape, so that the solver is compiled once; inputs of any scale and place."""
    rng = np.random.default_rng(seed)
    x = matrix(rng, 6, 1)
    y, strength = rng.normal(size=6), 10.0 ** rng.uniform(-4, 1)
    weight = rng.integers(0, 3, 6).astype(float) + (rng.random() < 0.5)
    if not weight.any():
        weight[0] = 1
    fit = convex.fit_convex_grades(x, y, num_grades=1, regularisation=strength, sample_weight=weight, tolerance=1e-3)
    certificate = fit.grades[0].certificate
    assert certificate.full_dual_bound <= certificate.objective * (1 + 1e-9)
    for _ in range(50):
        width = int(rng.integers(1, 5))
        spread = max(np.ptp(x), 1e-9)
        slopes = rng.normal(size=width) / spread
        kinks = x[rng.integers(0, 6, width), 0] + 0.1 * spread * rng.normal(size=width)
        hidden = Layer(slopes[None], -slopes * kinks)
        features = np.maximum(x @ hidden.weight + hidden.bias, 0)
        root = np.sqrt(weight)[:, None]
        outer = np.linalg.lstsq(root * features, root[:, 0] * y, rcond=None)[0] * rng.uniform(0, 1)
        norms = np.linalg.norm(np.vstack(hidden), axis=0)
        balance = np.sqrt(np.abs(outer) / np.where(norms > 0, norms, 1)) + 1e-300
        params = Layer(hidden.weight * balance, hidden.bias * balance), Layer((outer / balance)[:, None], np.zeros(1))
        by_hand = network_objective(params, x, y, regularisation=strength, sample_weight=weight)
        assert certificate.full_dual_bound <= by_hand * (1 + 1e-9) + 1e-12
    # A fit that is told to have converged is as good as the bound says.
    assert fit.grades[0].output(x) == pytest.approx(fit.predict(x))


@middle
@given(seeds, st.integers(1, 12), st.integers(1, 4))
def test_least_squares_obeys_its_normal_equations_and_weights_are_repetitions(seed, rows, columns):
    rng = np.random.default_rng(seed)
    features, targets = rng.normal(size=(rows, columns)), rng.normal(size=(rows, 1))
    weights = rng.integers(0, 3, rows)
    weights[0] = 1
    options = {"ridge": 0.1, "leave_one_out": False}
    weighted = solve_least_squares(features, targets, weights=weights.astype(float), **options)
    repeated = solve_least_squares(np.repeat(features, weights, 0), np.repeat(targets, weights, 0), **options)
    order = rng.permutation(rows)
    permuted = solve_least_squares(features[order], targets[order], weights=weights[order].astype(float), **options)
    x = rng.normal(size=(5, columns))
    for other in (repeated, permuted):
        np.testing.assert_allclose(other(x), weighted(x), atol=1e-8)


@given(seeds, st.integers(1, 5))
def test_mixtures_are_convex_and_no_member_is_better(seed, members):
    rng = np.random.default_rng(seed)
    images, truth = rng.normal(size=(9, members)), rng.normal(size=9)
    weights = simplex_least_squares(images, truth)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    error = np.sum((images @ weights - truth) ** 2)
    assert error <= np.min(np.sum((images - truth[:, None]) ** 2, axis=0)) * (1 + 1e-4)


class _Dense:
    """A matrix as an operator."""

    def __init__(self, matrix):
        self.matrix, self.size = matrix, len(matrix)

    def __call__(self, v):
        return self.matrix @ v


def _ends(matrix):
    options = {"only_high": False, "start": None, "num_lanczos": None, "maxiter": 1000, "tol": 1e-12, "max_copies": 10}
    ends = find_ends(_Dense(matrix), 3, **options)
    assert ends is not None
    return np.concatenate([ends.low.values, ends.high.values])


@middle
@given(seeds, st.floats(-50, 50), st.floats(0.01, 100))
def test_eigenvalues_are_the_dense_ones_and_move_with_shift_scale_and_order(seed, shift, factor):
    rng = np.random.default_rng(seed)
    entries = rng.normal(size=(16, 16))
    symmetric = entries + entries.T
    order = rng.permutation(16)
    found, size = _ends(symmetric), np.abs(np.linalg.eigvalsh(symmetric)).max()
    dense = np.linalg.eigvalsh(symmetric)
    np.testing.assert_allclose(found, np.r_[dense[:3], dense[-3:]], atol=1e-8 * size)
    np.testing.assert_allclose(_ends(symmetric + shift * np.eye(16)), found + shift, atol=1e-7 * (size + abs(shift)))
    np.testing.assert_allclose(_ends(factor * symmetric), factor * found, atol=1e-7 * factor * size)
    np.testing.assert_allclose(_ends(symmetric[np.ix_(order, order)]), found, atol=1e-7 * size)


@middle
@given(seeds, arrays(40, bound=10.0).map(np.abs))
def test_rows_are_drawn_by_weight(seed, weights):
    weights[int(seed % 40)] += 1.0
    sampler = random_rows(4, 40, weights)
    if sampler.thresholds is None:
        assert np.ptp(weights) == 0
        return
    ends = np.r_[0.0, np.asarray(sampler.thresholds, float), 2.0**32]
    probabilities = np.zeros(40)
    probabilities[: len(ends) - 1] = np.diff(ends) / 2.0**32
    np.testing.assert_allclose(probabilities, weights / weights.sum(), atol=2.0**-31)
    assert np.all(probabilities[weights == 0] == 0)


@middle
@given(
    st.lists(st.just(0.0) | st.floats(2**-20, 10, width=32), min_size=1, max_size=12),
    st.integers(1, 4),
    st.just(0.0) | st.floats(1e-6, 0.5),
)
def test_stopping_rules_say_what_their_formulas_say(watched, window, tolerance):
    """Against lists in Python, in the precision of the rules."""
    last, total, count = np.float32(np.nan), np.float32(0), 0
    best, since = np.float32(np.inf), 0
    plateau, patience = Plateau(window, tolerance), NoImprovement(window, tolerance)
    one, two = plateau.init(), patience.init()
    for value in map(np.float32, watched):
        one, stop_one = plateau.update(one, value)
        two, stop_two = patience.update(two, value)
        count, total = count + 1, np.float32(total + value)
        mean = np.float32(total / np.float32(window))
        expected = count == window and bool(np.abs(mean - last) < np.float32(tolerance) * last)
        if count == window:
            last, total, count = mean, np.float32(0), 0
        better = value < best * np.float32(1 - tolerance)
        best, since = (value, 0) if better else (best, since + 1)
        assert (bool(stop_one), bool(stop_two)) == (expected, since >= window)
