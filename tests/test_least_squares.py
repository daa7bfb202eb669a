"""The output layer by least squares: against SciPy, against fits that leave a row out, and against itself."""

import numpy as np
import pytest
import scipy.linalg

from multigrade.least_squares import TOLERANCE, reduce_blocks, solve_least_squares, solve_ridge

RANDOM = np.random.default_rng(0)
PHI, Y = RANDOM.normal(size=(60, 7)) + 3.0, RANDOM.normal(size=(60, 2))
WEIGHTS = RANDOM.integers(0, 4, 60).astype(float)


def ridge_reference(phi, y, ridge, weights=None):
    """C and c from the normal equations of [1, Phi]."""
    w = np.ones(len(y)) if weights is None else weights
    design = np.hstack([np.ones((len(y), 1)), phi])
    penalty = ridge * np.eye(design.shape[1])
    penalty[0, 0] = 0
    both = np.linalg.solve(design.T @ (w[:, None] * design) + penalty, design.T @ (w[:, None] * y))
    return both[1:], both[0]


def test_ridge_zero_equals_lstsq():
    fit = solve_least_squares(PHI, Y, ridge=0.0)
    expected, *_ = scipy.linalg.lstsq(np.hstack([PHI, np.ones((60, 1))]), Y)
    np.testing.assert_allclose(np.vstack([fit.coefficients, fit.intercept]), expected, rtol=1e-10, atol=1e-12)


def test_more_features_than_rows_gives_the_shortest_solution():
    fit = solve_least_squares(PHI[:5], Y[:5], ridge=0.0, intercept=False)
    expected, *_ = scipy.linalg.lstsq(PHI[:5], Y[:5])
    np.testing.assert_allclose(fit.coefficients, expected, rtol=1e-10)
    assert fit.rank == 5


def test_rank_deficient_features_equal_lstsq():
    phi = np.hstack([PHI, PHI[:, :2] @ [[1.0], [2.0]]])
    fit = solve_least_squares(phi, Y, ridge=0.0, intercept=False)
    expected, *_ = scipy.linalg.lstsq(phi, Y, cond=1e-12)
    np.testing.assert_allclose(fit.coefficients, expected, rtol=1e-8, atol=1e-11)
    assert fit.rank == 7


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("ridge", [1e-6, 0.3, 40.0])
def test_given_ridge_equals_normal_equations(ridge, weights):
    fit = solve_least_squares(PHI, Y, ridge=ridge, weights=weights)
    coefficients, intercept = ridge_reference(PHI, Y, ridge, weights)
    np.testing.assert_allclose(fit.coefficients, coefficients, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fit.intercept, intercept, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("num_rows", [3, 20, 60])
def test_a_ridge_rotated_into_the_triangle_equals_rows_below_the_others(num_rows):
    blocks = [np.hstack([PHI, Y])[start : start + 7] for start in range(0, num_rows, 7)]
    rows = np.concatenate(blocks)
    below = np.hstack([np.sqrt(0.3) * np.eye(7), np.zeros((7, 2))])
    expected, *_ = scipy.linalg.lstsq(*np.split(np.concatenate([rows, below]), [7], axis=1))
    np.testing.assert_allclose(solve_ridge(reduce_blocks(blocks), 2, 0.3), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_leave_one_out_equals_fits_without_the_row(weights):
    fit = solve_least_squares(PHI, Y, ridge=2.0, weights=weights)
    w = np.ones(60) if weights is None else weights
    squares = 0.0
    for row in range(60):
        others = np.arange(60) != row
        coefficients, intercept = ridge_reference(PHI[others], Y[others], 2.0, w[others])
        squares += w[row] * np.sum((Y[row] - PHI[row] @ coefficients - intercept) ** 2)
    assert fit.leave_one_out == pytest.approx(np.sqrt(squares / (2 * w.sum())), rel=1e-9)


def test_weights_equal_repetition():
    repeated = np.repeat(np.arange(60), WEIGHTS.astype(int))
    by_weight = solve_least_squares(PHI, Y, ridge=0.5, weights=WEIGHTS)
    by_copies = solve_least_squares(PHI[repeated], Y[repeated], ridge=0.5)
    np.testing.assert_allclose(by_weight.coefficients, by_copies.coefficients, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(by_weight.intercept, by_copies.intercept, rtol=1e-9, atol=1e-13)


def test_blocks_and_a_function_of_rows_change_nothing():
    whole = solve_least_squares(PHI, Y, weights=WEIGHTS)
    blocks = solve_least_squares(lambda a, b: PHI[a:b], Y, weights=WEIGHTS, rows_per_block=10)
    np.testing.assert_allclose(whole.coefficients, blocks.coefficients, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(whole.tried, blocks.tried, rtol=1e-9)


def test_auto_is_the_largest_ridge_within_its_tolerance_of_the_smallest_leave_one_out_error():
    fit = solve_least_squares(PHI, Y)
    bound = (1 + TOLERANCE) * np.min(fit.tried)
    assert fit.leave_one_out <= bound
    assert (fit.tried[fit.ridges > fit.ridge] > bound).all()
    given = solve_least_squares(PHI, Y, ridge=fit.ridges)
    assert given.leave_one_out == np.min(fit.tried)
    again = solve_least_squares(PHI, Y, ridge=fit.ridge)
    np.testing.assert_allclose(again.coefficients, fit.coefficients, rtol=1e-12)
    assert again.leave_one_out == pytest.approx(fit.leave_one_out)


def test_no_digits_are_lost_to_a_gram_matrix():
    x = np.linspace(-1, 1, 200)
    phi = np.stack([x**k for k in range(1, 30)], axis=1)  # condition number about 1e11
    fit = solve_least_squares(phi, np.cos(3 * x), ridge=0.0)
    assert np.abs(fit(phi)[:, 0] - np.cos(3 * x)).max() < 1e-13


def test_scales_equal_scaled_features_and_the_better_of_two_is_taken():
    scales = np.linspace(0.5, 3, 7)
    fit = solve_least_squares(PHI, Y, ridge=5.0, scales=scales)
    scaled = solve_least_squares(PHI * scales, Y, ridge=5.0)
    np.testing.assert_allclose(fit.coefficients, scaled.coefficients * scales[:, None], rtol=1e-9)
    both = solve_least_squares(PHI, Y, scales=[np.ones(7), scales])
    each = [solve_least_squares(PHI, Y, scales=choice).leave_one_out for choice in (np.ones(7), scales)]
    assert both.leave_one_out == pytest.approx(min(each))
    assert both.scales == int(np.argmin(each))


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_a_correction_keeps_what_is_solved_and_takes_errors_away(weights, ridge):
    fit = solve_least_squares(PHI, Y, ridge=ridge, weights=weights)
    kept = fit.corrected(PHI, Y - fit(PHI), weights)
    np.testing.assert_allclose(kept.coefficients, fit.coefficients, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(kept.intercept, fit.intercept, rtol=1e-10)
    blurred = fit.corrected(PHI, Y - fit(PHI) - 1e-3, weights)  # a constant is the intercept's alone
    np.testing.assert_allclose(blurred.coefficients, fit.coefficients, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(blurred.intercept, fit.intercept - 1e-3, rtol=1e-10)


def test_constant_features_leave_the_mean():
    fit = solve_least_squares(np.ones((4, 2)), [1.0, 2.0, 3.0, 6.0])
    np.testing.assert_allclose(fit(np.ones((1, 2))), [[3.0]])
    assert fit.rank == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": PHI[:5]}, "features must have shape"),
        ({"features": np.where(PHI > 5, np.nan, PHI)}, "features must be finite"),
        ({"targets": Y * np.inf}, "targets must be finite"),
        ({"ridge": -1.0}, "ridge must be finite and at least 0"),
        ({"ridge": "best"}, "ridge must be a number"),
        ({"weights": -np.ones(60)}, "weights must be 60 finite numbers"),
    ],
)
def test_bad_input_is_one_line(change, message):
    arguments = {"features": PHI, "targets": Y, **change}
    with pytest.raises(ValueError, match=message):
        solve_least_squares(**arguments)
