"""Errors by frequency: Parseval, pure cosines, scattered points, and the same numbers along a run."""

import numpy as np
import pytest

from multigrade.curvature.frequencies import METRIC, frequency_errors, frequency_figure, frequency_metrics
from multigrade.structures import graded
from multigrade.training import Plan, Regression, fit_grades


@pytest.mark.parametrize("shape", [(60,), (12, 15)])
def test_energies_add_up_to_the_mean_square_on_a_grid(shape):
    random = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*(np.arange(n) * 0.3 for n in shape), indexing="ij"), axis=-1).reshape(-1, len(shape))
    grid = random.permutation(grid)
    values = random.normal(size=(len(grid), 2))
    found = frequency_errors(grid, values, bands=5)
    np.testing.assert_allclose(found.energies.sum(), np.mean(np.sum(values**2, axis=1)), rtol=1e-10)
    assert np.isnan(found.relative).all()


@pytest.mark.parametrize("is_scattered", [False, True])
def test_a_wave_is_found_in_its_band_and_nowhere_else(is_scattered):
    x = np.random.default_rng(1).uniform(size=(200, 2)) if is_scattered else None
    if x is None:
        x = np.stack(np.meshgrid(*[(np.arange(20) + 0.5) / 20] * 2), axis=-1).reshape(-1, 2)
    low, length = x.min(axis=0) * is_scattered, np.ptp(x, axis=0) if is_scattered else np.ones(2)
    place = (x - low) / length
    wave = np.cos(3 * np.pi * place[:, 0]) * np.cos(4 * np.pi * place[:, 1])  # 2.5 cycles per unit
    found = frequency_errors(x, 0.1 * wave, target=wave, bands=[0, 2, 2.8, 4])
    np.testing.assert_allclose(found.energies, [0, 0.01 / 4, 0], atol=1e-9)
    np.testing.assert_allclose(found.relative[1], 0.1, rtol=1e-9)


def test_metrics_are_the_relative_errors_of_the_sum_of_grades():
    x = np.linspace(0, 1, 64)[:, None]
    y = np.sin(2 * np.pi * x) + 0.3 * np.sin(14 * np.pi * x)
    metrics = frequency_metrics(x, y, bands=[0, 3, 10, 32])
    fit = fit_grades(
        graded(1, [(8,), (8,)], 1), x, y, Plan(20, record_every=10), regression=Regression(metrics=metrics)
    )
    expected = frequency_errors(x, np.asarray(fit.model(x)) - y, target=y, bands=[0, 3, 10, 32])
    names = [f"{METRIC}0 to 3", f"{METRIC}3 to 10", f"{METRIC}10 to 32"]
    seen = [fit.records[-1].columns[name][-1] for name in names]
    np.testing.assert_allclose(seen, expected.relative, rtol=1e-4)
    assert len(frequency_figure({"two grades": fit.records}).axes) == 2


def test_what_has_no_frequencies_is_refused():
    with pytest.raises(ValueError, match="one or two columns"):
        frequency_errors(np.zeros((4, 3)), np.zeros(4))
    with pytest.raises(ValueError, match="rising edges"):
        frequency_errors(np.arange(4.0), np.zeros(4), bands=[2, 1])
    with pytest.raises(ValueError, match=r"error must have shape \(4,\)"):
        frequency_errors(np.arange(4.0), np.zeros(5))
