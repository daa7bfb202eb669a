"""Rules of claims, each at its threshold, on results made up for it."""

import dataclasses
import json
import re

import numpy as np
import pytest
import scipy.stats

from multigrade.training.record import Outcome
from multigrade_paper.claims import Status, claims, verdicts
from multigrade_paper.claims.correlations import interval, rank_correlation
from multigrade_paper.claims.ledger import Claim, Finding, Need, judge
from multigrade_paper.claims.measures import rises
from multigrade_paper.claims.rates import below, best_at, fails_above, more_rates, wider, worse_above
from multigrade_paper.claims.reconstruction import PAPER, better, gains, number, oscillation
from multigrade_paper.claims.spectral_rules import (
    above_minus_one,
    below_one,
    falls_steadily,
    more_near_after,
    much_better,
    oscillates,
    sensitive,
    similar,
    steadier,
)
from multigrade_paper.job import Job, Result, Saved
from multigrade_paper.numbers import SYNTHETIC_SWEEP as SYNTHETIC_RATES

from . import worlds


def cell(*values, metric="test_psnr", records=()):
    """One result per value, as seeds."""
    settings = {"config": "regression", "method": "MGDL"}
    return [
        Saved(Job("item", "kind", {**settings, "seed": k}), Result({metric: v}, records)) for k, v in enumerate(values)
    ]


def sweep(losses: dict, **rest):
    """One result per rate; ``rest`` is the loss at all other rates of the recipe."""
    settings = {"config": "synthetic sweep", "recipe": "paper"}
    losses = dict.fromkeys(SYNTHETIC_RATES, rest["rest"]) | losses if rest else losses
    return [
        Saved(Job("item", "descent", {**settings, "learning_rate": rate}),
              Result({"train_loss": v, "is_diverged": v is None}))
        for rate, v in losses.items()
    ]  # fmt: skip


@pytest.mark.parametrize(("ours", "holds"), [(29.5, True), (30.5, True), (29.49, False), (30.51, False), (None, False)])
def test_a_number_holds_within_its_tolerance(ours, holds):
    assert number("test_psnr", 30.0, 0.5)({"run": cell(ours)}).holds is holds


def test_a_number_is_the_mean_over_seeds_and_shows_their_spread():
    found = number("test_psnr", 30.0, 0.5)({"run": cell(29.0, 31.0)})
    assert found.holds
    assert found.numbers == {"ours": 30.0, "paper": 30.0, "test_psnr min": 29.0, "test_psnr max": 31.0}


@pytest.mark.parametrize(("sgdl", "mgdl", "holds"), [(20.0, 20.01, True), (20.0, 20.0, False), (20.0, None, False)])
def test_better_is_by_any_margin(sgdl, mgdl, holds):
    assert better({"SGDL": cell(sgdl), "MGDL": cell(mgdl)}).holds is holds


@pytest.mark.parametrize(
    ("gain", "other", "holds"), [(0.1, 2.5, True), (-0.1, 1.0, False), (0.1, 2.6, False), (0.6, 1.0, True)]
)
def test_gains_are_positive_and_in_the_range(gain, other, holds):
    cells = {"a SGDL": cell(20.0), "a MGDL": cell(20.0 + gain), "b SGDL": cell(20.0), "b MGDL": cell(20.0 + other)}
    assert gains(0.4, 2.0)(cells).holds is holds


@pytest.mark.parametrize(
    ("losses", "holds"),
    [
        ({0.01: 0.5, 0.03: 0.0009, 0.05: 0.0009, 0.06: 0.0009, 0.08: 0.0009}, True),
        ({0.03: 0.0009, 0.05: 0.001, 0.06: 0.0009, 0.08: 0.0009}, False),
        ({0.05: None}, False),  # one rate is enough
        ({0.03: 0.0009, 0.05: 0.0009, 0.08: 0.0009}, None),  # 0.06 of the sweep is missing
    ],
)
def test_a_range_of_rates_holds_at_every_rate_in_it(losses, holds):
    assert below(0.001, 0.03, 0.08)({"run": sweep(losses)}).holds is holds


@pytest.mark.parametrize(("losses", "holds"), [
    ({0.3: 0.0, 0.4: None, 0.5: 0.02}, True), ({0.3: 0.0, 0.4: 0.01}, False), ({0.3: 0.0, 0.4: None}, None),
])  # fmt: skip
def test_failing_above_a_rate_means_at_every_rate_above(losses, holds):
    assert fails_above(0.3)({"run": sweep(losses)}).holds is holds


def test_the_best_rate_is_that_of_the_lowest_loss():
    losses = {0.003: 0.5, 0.005: 0.3, 0.01: None}
    assert best_at(0.005)({"run": sweep(losses, rest=0.4)}).holds
    assert best_at(0.005)({"run": sweep(losses)}).holds is None  # another rate may be better
    assert best_at(0.003)({"run": sweep(losses)}).holds is False  # another rate is better
    assert best_at(0.2)({"run": sweep(losses)}).holds is None


def test_a_limit_itself_is_not_above_it():
    assert 0.3 in SYNTHETIC_RATES
    assert fails_above(0.3)({"run": sweep({0.3: 0.0001}, rest=None)}).holds
    assert 0.006 in SYNTHETIC_RATES
    assert worse_above(0.006, 0.005)({"run": sweep({0.005: 0.3, 0.006: 0.2}, rest=0.4)}).holds


def test_captions_are_claims_of_the_section_and_the_sweep_of_their_method():
    found = {claim.id: claim.place for claim in claims() if claim.id.endswith("-caption") and "synthetic" in claim.id}
    assert {id for id in found if id.startswith("msdl-synthetic")} == {id for id in found if "/msdl-" in id} != set()
    assert all(place.startswith("Section 7" if "/msdl-" in id else "Section 6") for id, place in found.items())


@pytest.mark.parametrize(("first", "holds"), [(1, False), (2, True), (3, True), (4, True), (5, False), (None, True)])
def test_about_as_many_eigenvalues_as_told_means_one_more_or_less(first, holds):
    spectrum = worlds.phases((-1, worlds.THREE), (500, worlds.EIGHT), largest=worlds.AT_ONE)
    run = [Saved(Job("item", "kind", {"config": "x"}), Result({}, (worlds.record(1000, spectrum=spectrum),)))]
    assert more_near_after(500, first)({"run": run}).holds is holds


def test_worse_above_a_rate_is_refuted_by_one_rate_and_shown_by_all():
    assert worse_above(0.006, 0.005)({"run": sweep({0.005: 0.3}, rest=0.4)}).holds
    assert worse_above(0.006, 0.005)({"run": sweep({0.005: 0.3, 0.1: 0.3})}).holds is False
    assert worse_above(0.006, 0.005)({"run": sweep({0.005: 0.3, 0.1: None})}).holds is None
    assert worse_above(0.006, 0.005)({"run": sweep({0.1: 0.3})}).holds is None


def test_a_wider_range_has_no_gap():
    narrow = sweep({0.03: 1e-4, 0.05: 1e-4, 0.06: 1e-4, 0.08: 1e-4}, rest=0.5)
    holed = sweep({0.01: 1e-4, 0.3: 1e-4}, rest=0.5)
    assert wider(0.001)({"SGDL": narrow, "MGDL": holed}).holds is False
    assert wider(0.001)({"SGDL": holed, "MGDL": narrow}).holds


def test_a_method_that_fails_at_all_rates_is_not_called_insensitive():
    failing, good = sweep({0.1: 1.0, 0.3: 1.2}, rest=0.9), sweep({0.1: 1e-3, 0.3: 1e-3}, rest=0.9)
    assert sensitive({"MSDL": failing, "MGDL": good}).holds
    assert sensitive({"MSDL": good, "MGDL": failing}).holds is False


@pytest.mark.parametrize("rule", [wider(0.001), more_rates(0.01), sensitive])
def test_a_sweep_under_way_decides_nothing(rule):
    some, more = sweep(dict.fromkeys(SYNTHETIC_RATES[:2], 1e-4)), sweep(dict.fromkeys(SYNTHETIC_RATES[:6], 1e-4))
    found = rule({"SGDL": some, "MGDL": more})
    assert (found.holds, found.sentence) == (None, "2 of 15 rates were run")
    assert rule({"SGDL": sweep({}, rest=1e-4), "MGDL": sweep({0.55: 1e-4}, rest=1e-4)}).holds is False  # at shared ones


def test_one_rate_of_an_image_refutes_better_everywhere_and_proves_nothing():
    for is_right, status in ((True, Status.NOT_COMPARABLE), (False, Status.FAILS)):
        some = [s for s in worlds.world(is_right, ["lr-image"]) if s.job.settings["learning_rate"] == 1.0]
        found = {verdict.claim.id: verdict for verdict in verdicts(some)}
        assert found["lr-image/cameraman/better"].status is status
        assert found["lr-image/cameraman/mgdl-stable"].status is Status.NOT_COMPARABLE  # no other rate to be held to


@pytest.mark.parametrize(
    ("losses", "holds"), [((0.011, 0.011), True), ((9e-3, 1e-6), False), ((2e-3, 1e-2), True), ((None, 1e-2), False)]
)
def test_similar_means_that_neither_is_much_better(losses, holds):
    cells = {name: cell(loss, metric="test_loss") for name, loss in zip("ab", losses, strict=True)}
    assert similar(cells).holds is holds
    if holds:
        assert not much_better(cells).holds


def test_rises_are_the_mean_upward_moves_in_decibels():
    record = worlds.record(100)
    loss = np.array([1.0, 0.1, 1.0, 0.1, 0.01], np.float32)
    columns = {"step": np.arange(5), "train_loss": loss, "psnr": -10 * np.log10(loss)}
    record = dataclasses.replace(record, columns=columns, num_steps=4)
    assert rises(record) == pytest.approx(10 / 4)
    assert rises(record, "psnr") == pytest.approx(10 / 4)
    assert rises(record, first=0.5) == 0
    assert rises(record, last=2) == pytest.approx(10 / 2)


WILD, CALM = (worlds.record(100, zigzag=worlds.strong(is_wild)) for is_wild in (True, False))
RISING = worlds.record(100, fall=-1e-3)


@pytest.mark.parametrize("column", ["train_loss", "psnr"])
@pytest.mark.parametrize(("sgdl", "mgdl", "holds"), [
    (WILD, CALM, True), (CALM, CALM, False), (WILD, WILD, False),
    (WILD, RISING, False),  # calm, and it gets worse
])  # fmt: skip
def test_oscillation_asks_for_a_restless_sgdl_and_an_mgdl_that_improves_calmly(column, sgdl, mgdl, holds):
    cells = {"SGDL": cell(1.0, records=(sgdl,)), "MGDL": cell(1.0, records=(mgdl, mgdl))}
    assert oscillation(column)(cells).holds is holds


def test_steady_has_an_absolute_bound():
    """MGDL at a third of SGDL's rises is steadier; if these are above the bound, it is not steady."""
    third = worlds.record(100, zigzag=worlds.restless((-1, 0.2)))
    wilder = worlds.record(100, zigzag=worlds.restless((-1, 0.6)))
    cells = {"SGDL": cell(1.0, records=(wilder,)), "MGDL": cell(1.0, records=(third, third))}
    assert steadier(cells).holds
    assert oscillation("psnr")(cells).holds is False
    assert falls_steadily({"MGDL": cells["MGDL"]}).holds is False
    assert falls_steadily({"MGDL": cell(1.0, records=(CALM,))}).holds
    assert falls_steadily({"MGDL": cell(1.0, records=(RISING,))}).holds is False


def test_a_run_that_diverged_is_not_steady_and_grades_that_there_are_not_tell_nothing():
    lost = dataclasses.replace(CALM, outcome=Outcome.DIVERGED)
    for rule in (steadier, oscillation("train_loss"), oscillation("psnr")):
        found = [rule({"SGDL": cell(1.0, records=(WILD,)), "MGDL": cell(1.0, records=(CALM, last))})
                 for last in (CALM, lost)]  # fmt: skip
        assert found[0].holds
        assert (found[1].holds, found[1].sentence) == (False, "MGDL diverged")
    single = {"SGDL": cell(1.0, records=(WILD,)), "MGDL": cell(1.0, records=(CALM,))}
    assert oscillation("psnr")(single).holds is None
    assert oscillates({"SGDL": cell(1.0, records=(lost,))}).holds  # in the extreme


@pytest.mark.parametrize(("highest", "holds"), [(1.0, True), (1.0005, True), (1.004, False)])
def test_the_edges_of_the_interval_are_claims_of_their_own(highest, holds):
    run = cell(1.0, records=(worlds.record(100, spectrum=worlds.flat(worlds.low(-0.99), np.full(10, highest))),))
    assert below_one()({"MGDL": run}).holds is holds
    assert above_minus_one()({"MGDL": run}).holds
    touching = cell(1.0, records=(worlds.record(100, spectrum=worlds.flat(worlds.low(-1.0), worlds.AT_ONE)),))
    assert above_minus_one()({"MGDL": touching}).holds is False


@pytest.mark.parametrize(("before", "after", "holds"), [
    (worlds.THREE, worlds.EIGHT, True), (worlds.ONE, worlds.EIGHT, False), (worlds.THREE, worlds.ONE, False),
])  # fmt: skip
def test_phases_are_counted(before, after, holds):
    spectrum = worlds.phases((-1, before), (100_000, after), largest=worlds.AT_ONE)
    run = {"SGDL": cell(1.0, records=(worlds.record(1_000_000, spectrum=spectrum),))}
    assert more_near_after(100_000, first=3)(run).holds is holds


def test_rank_correlations_are_those_of_scipy_and_their_interval_covers():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = x + rng.normal(size=200)
    assert rank_correlation(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic, rel=1e-12)
    low, high = interval(lambda rows: rank_correlation(x[rows], y[rows]), 200)
    assert low < rank_correlation(x, y) < high
    assert 0.05 < high - low < 0.3  # Fisher's interval has 0.17
    assert np.isnan(rank_correlation(x, np.ones(200)))


def test_a_short_run_that_came_to_its_end_is_final():
    """Half of the epochs decide nothing, unless more would have changed nothing."""
    options = {"names": ["lr-synthetic"], "overrides": {"epochs": "500000"}}
    for outcome, status in ((Outcome.FINISHED, Status.NOT_COMPARABLE), (Outcome.PLATEAU, Status.FAILS),
                            (Outcome.DIVERGED, Status.FAILS)):  # fmt: skip
        ended = (dataclasses.replace(CALM, outcome=outcome),)
        results = [
            saved._replace(result=saved.result._replace(records=ended)) for saved in worlds.world(False, **options)
        ]
        found = {verdict.claim.id: verdict.status for verdict in verdicts(results)}
        assert found["lr-synthetic/1/mgdl-range"] is status


def test_alpha_is_compared_at_equal_rates_alone():
    results = worlds.world(True, ["eig-synthetic"])
    found = {verdict.claim.id: verdict for verdict in verdicts(results)}["eig-synthetic/1/alpha"]
    assert (found.status, found.sentence) == (
        Status.NOT_COMPARABLE, "no rate at which both were looked at and did not diverge",
    )  # fmt: skip


def test_the_tolerance_of_a_number_is_at_most_the_printed_gain():
    of_tables = [claim for claim in claims() if re.fullmatch(r"table[23]/\w+/\d+/[sm]gdl", claim.id)]
    printed = [(claim, float(claim.tolerance.split()[1])) for claim in of_tables]
    for claim, allowed in printed:
        table, image, level, _ = claim.id.split("/")
        cells = PAPER["denoise" if table == "table2" else "deblur"][image]
        assert allowed <= round(cells["MGDL"][level] - cells["SGDL"][level], 2)
    assert sum(allowed < 1 for claim, allowed in printed if claim.id.endswith("/sgdl")) == 27


def test_a_rule_that_cannot_tell_is_not_comparable():
    claim = Claim("id", "Table 1", "s.", "t", (Need("run", "kind", {}),), lambda cells: Finding(None, "why", {}))
    verdict = judge(claim, cell(1.0))
    assert (verdict.status, verdict.sentence) == (Status.NOT_COMPARABLE, "why")


def test_json_has_no_nan():
    claim = Claim("id", "Table 1", "s.", "t", (Need("run", "kind", {}),),
                  lambda cells: Finding(True, "", {"a": np.nan, "b": np.inf, "c": 1.0, "d": None}))  # fmt: skip
    told = json.dumps(judge(claim, cell(1.0)).to_json(), allow_nan=False)
    assert json.loads(told)["numbers"] == {"a": None, "b": None, "c": 1.0, "d": None}


def test_rules_are_those_that_were_frozen():
    """If a rule changed: say so in rules.json, with the hash that ``python -m multigrade_paper.rules`` prints."""
    from multigrade_paper import rules

    assert rules.digest() == rules.history()["sha256"]
    names = [claim.id for claim in claims()]
    for change in rules.history()["changed"]:
        assert any(name.startswith(tuple(change["starts"])) and name.endswith(tuple(change["ends"])) for name in names)
