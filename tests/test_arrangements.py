"""Patterns of ReLU neurons against brute force."""

import itertools

import numpy as np
import pytest
from scipy.optimize import nnls

from multigrade import convex
from multigrade.convex.arrangements import merged_rows, row_space


def brute_force_patterns(inputs):
    """Every sign vector tried: by Gordan's theorem no w has signs s strictly if 0 is a mean of the rows s_n x_n."""
    reduced = inputs @ row_space(inputs)
    is_zero = np.linalg.norm(reduced, axis=1) < 1e-12
    if np.all(is_zero):
        return {is_zero.tobytes()}
    patterns = set()
    for signs in itertools.product([-1.0, 1.0], repeat=int(np.sum(~is_zero))):
        matrix = np.vstack([(np.array(signs)[:, None] * reduced[~is_zero]).T, np.ones(len(signs))])
        distance = nnls(matrix, np.r_[np.zeros(reduced.shape[1]), 1.0])[1]
        if distance > 1e-9:
            pattern = np.ones(len(inputs), bool)
            pattern[~is_zero] = np.array(signs) > 0
            patterns.add(pattern.tobytes())
    return patterns


def as_set(patterns):
    return {pattern.tobytes() for pattern in patterns}


def degenerate_inputs():
    rng = np.random.default_rng(3)
    general = rng.normal(size=(9, 3))
    zero, twice, opposite, planar = (general.copy() for _ in range(4))
    zero[[2, 5]] = 0
    twice[4] = twice[5]
    opposite[6] = -2 * opposite[7]
    planar[8] = planar[0] + planar[1]
    planar[7] = planar[0] - planar[1]
    lattice = rng.integers(-1, 2, size=(10, 4)).astype(float)
    return {
        "zero rows": zero,
        "repeated row": twice,
        "opposite rows": opposite,
        "dependent rows": planar,
        "dependent columns": np.column_stack([general, general[:, 0] - general[:, 1]]),
        "lattice": lattice,
        "one row": general[:1],
        "rank one": np.outer(rng.normal(size=6), [1.0, 2.0]),
        "all zero": np.zeros((3, 2)),
        "with bias": np.column_stack([np.linspace(0, 1, 9), np.ones(9)]),
    }


@pytest.mark.parametrize("num_inputs", [2, 3, 4])
def test_patterns_in_general_position_equal_brute_force_and_the_closed_form(num_inputs):
    inputs = np.random.default_rng(num_inputs).normal(size=(12, num_inputs))
    patterns = convex.enumerate_patterns(inputs)
    assert len(patterns) == convex.count_patterns(12, num_inputs)
    assert as_set(patterns) == brute_force_patterns(inputs)


@pytest.mark.parametrize("name", degenerate_inputs())
def test_patterns_in_degenerate_position_equal_brute_force(name):
    inputs = degenerate_inputs()[name]
    patterns = convex.enumerate_patterns(inputs)
    assert as_set(patterns) == brute_force_patterns(inputs)
    assert len(patterns) == len(as_set(patterns)) <= convex.bound_patterns(inputs)


def test_a_hundred_points_in_three_dimensions_have_9902_patterns():
    patterns = convex.enumerate_patterns(np.random.default_rng(0).normal(size=(100, 3)))
    assert len(as_set(patterns)) == len(patterns) == 9902


def test_sampled_patterns_are_distinct_patterns_of_the_arrangement():
    inputs = np.random.default_rng(1).normal(size=(12, 3))
    sampled = convex.sample_patterns(inputs, 50, seed=2)
    assert len(as_set(sampled)) == len(sampled) == 50
    assert as_set(sampled) <= as_set(convex.enumerate_patterns(inputs))


def test_rows_equal_up_to_rounding_have_two_patterns_and_never_crash():
    rng = np.random.default_rng(0)
    for case in range(200):
        row = rng.normal(size=(1, 3 + case % 3))
        inputs = row * (1 + 1e-16 * rng.integers(0, 5, size=(4, 1))) + 1e-15 * rng.normal(size=(4, row.size))
        patterns = as_set(convex.enumerate_patterns(inputs))
        assert np.ones(4, bool).tobytes() in patterns
        assert np.zeros(4, bool).tobytes() in patterns


@pytest.mark.parametrize("shift", [0.0, 1e5, 1.7e9])
def test_inputs_far_from_zero_have_the_patterns_of_centred_ones(shift):
    program = convex.convex_program(shift + np.arange(11.0)[:, None], np.zeros(11), regularisation=1.0)
    assert program.is_full
    thresholds = {(np.arange(11) < k).tobytes() for k in range(12)} | {
        (np.arange(11) >= k).tobytes() for k in range(12)
    }
    assert as_set(program.patterns) == thresholds


def test_rows_that_are_merged_are_charged_for():
    inputs = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-14], [3.0, 1.0], [-2.0, -2.0]])
    is_own, moved = merged_rows(inputs, inputs)
    np.testing.assert_array_equal(is_own, [True, False, True, False])
    np.testing.assert_allclose(moved, [0, np.sqrt(0.5) * 1e-14, 0, 0], atol=1e-15)
