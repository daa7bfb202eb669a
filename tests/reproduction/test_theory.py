"""Measured theorems that can fail: the right Hessian passes, one that is wrong by 5 % is found out."""

import pytest

from multigrade_paper.claims import claims
from multigrade_paper.experiments.context import Context
from multigrade_paper.experiments.theory import hessian_product, theory
from multigrade_paper.job import Saved

from . import worlds

SMALL = {"points": 16, "width": 3}


def scaled(factor):
    return lambda loss, weights, direction: factor * hessian_product(loss, weights, direction)


def identity(loss, weights, direction):
    return direction


def measured(number: int, epochs: int, product=hessian_product) -> tuple[dict, dict]:
    """What a small run gives, and what the rules of the theorems that it decides say."""
    (job,) = [job for job in worlds.jobs(["theory"]) if job.settings["theorem"] == number]
    job = worlds.with_settings(job, **SMALL, epochs=epochs)
    result = theory(Context(job.setup, None, None, ()), product)
    wanted = ("theorem/1", "theorem/2") if number < 3 else ("theorem/4", "theorem/5")
    rules = {claim.id: claim.rule for claim in claims() if claim.id in wanted}
    return dict(result.metrics), {name: rule({"run": [Saved(job, result)]}).holds for name, rule in rules.items()}


def test_descent_at_95_percent_of_its_limit_obeys_the_descent_inequality():
    metrics, found = measured(1, 400)
    assert metrics["share"] == pytest.approx(0.95, rel=1e-6)
    assert metrics["violations"] == 0
    assert list(found.values()) == [True, True]


def test_the_right_hessian_has_remainders_of_order_2_and_the_foretold_pace():
    metrics, found = measured(4, 2000)
    assert metrics["order"] == pytest.approx(2, abs=0.2)
    assert metrics["linearised_pace"] == pytest.approx(1, abs=1e-3)
    assert metrics["explained"] > 0.8  # the network is at work
    assert list(found.values()) == [True, True]


@pytest.mark.parametrize("product", [scaled(0.95), pytest.param(scaled(1.05), marks=pytest.mark.slow), identity],
                         ids=["5 % too small", "5 % too large", "identity"])  # fmt: skip
def test_a_wrong_hessian_fails(product):
    _, found = measured(4, 2000, product)
    assert list(found.values()) == [False, False]
