"""Estimates of time: what sleeps and what stops early is left out."""

import pytest

from multigrade_paper import costs

from . import worlds

SPEED = costs.Speed(overhead=0.0, rate=1e9, compilation=0.0)


def job(item, text):
    return next(job for job in worlds.jobs([item]) if text in job.label)


def test_an_sgdl_run_costs_its_multiplications_and_spectra():
    """10^6 steps, and 102 looks at 400 products of two steps each; 6 operations per weight and row."""
    weights = 32 + 3 * 32**2 + 32
    found = costs.seconds(job("eig-synthetic", "setting 1 SGDL"), SPEED)
    assert found == pytest.approx((1e6 + 800 * 102) * 6 * 1024 * weights / 1e9)


def test_sleeping_neurons_cost_nothing_in_restoration():
    dense = costs._operations(costs.structures.SGDL_3[0], 512**2) * 20_000 / 1e9
    found = costs.seconds(job("table2", "denoise butterfly noise 10 SGDL"), SPEED)
    assert found / dense == pytest.approx(costs.AWAKE**2, rel=0.05)
    awake = costs._operations(costs.structures.MGDL_3[1], 1, costs.AWAKE) / costs._operations(
        costs.structures.MGDL_3[1], 1
    )
    assert awake == pytest.approx(costs.AWAKE**2, rel=0.02)  # features of the grade before sleep, too


def test_grades_of_mgdl_end_at_their_plateau():
    sgdl, mgdl = (job("lr-synthetic", f"setting 1 {method} learning rate 0.1") for method in ("SGDL", "MGDL"))
    weights = [64, *[32**2 + 32] * 3]
    assert costs.seconds(mgdl, SPEED) == pytest.approx(costs.UNTIL_PLATEAU * 1e6 * 6 * 1024 * sum(weights) / 1e9)
    assert costs.seconds(mgdl, SPEED) < costs.seconds(sgdl, SPEED)
