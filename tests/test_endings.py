"""How a run ends: diverged, by a rule, by the clock, or after all its steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multigrade import LeastSquares, NoImprovement, Observation, Outcome, Plateau, Rows
from multigrade.training import driver, loop

from .small_fits import SMALL, Steps, X, Y, assert_same, fit


def test_divergence_keeps_the_last_finite_parameters_and_the_record():
    result = fit(learning_rate=100.0, record_every=1)
    (record,) = result.records  # no further grade is fitted
    assert result.outcome == Outcome.DIVERGED
    assert "lower learning rate" in record.sentence
    assert np.isfinite(record.train_loss).all()
    assert record.steps[-1] == record.num_steps
    rows = Rows(jnp.asarray(X), jnp.asarray(Y))
    grade = result.model.grades[0]
    last = LeastSquares(grade.network)(grade.params, (), rows)[0]
    assert float(last) == pytest.approx(record.train_loss[-1], rel=1e-5)
    for record_every in (7, 1000):  # records that miss the step change nothing
        again = fit(learning_rate=100.0, record_every=record_every)
        assert again.records[0].num_steps == record.num_steps
        assert_same(again.model, result.model)


def test_plateau_rule_stops_where_the_formula_says():
    rule = Plateau(window=3, tolerance=0.1)
    watched = [9.0, 9, 9, 5, 4, 3, 3.9, 3.9, 3.9, 1]  # window means 9, 4, 3.9: 2.5 % apart
    state, stops = rule.init(), []
    for value in watched:
        state, stop = rule.update(state, jnp.float32(value))
        stops.append(bool(stop))
    assert stops.index(True) == 8


def test_a_run_at_rest_ends_on_the_plateau():
    result = fit(SMALL[:1], learning_rate=1e-9, steps=10_000, stopping=Plateau(4, 1e-4), validation=(X, Y))
    record = result.records[0]
    assert (record.outcome, record.num_steps) == (Outcome.PLATEAU, 70)


def test_a_grade_that_a_rule_ends_is_not_observed_there():
    result = fit(SMALL[:1], learning_rate=1e-9, steps=10_000, stopping=Plateau(4, 1e-4), observers=[Steps()])
    assert result.records[0].num_steps == 70
    np.testing.assert_array_equal(result.records[0].observations["steps"]["step"], [0, 50])


def test_best_parameters_are_kept():
    result = fit(SMALL[:1], learning_rate=0.6, steps=200, record_every=1, keep="best", stopping=NoImprovement(50))
    record = result.records[0]
    grade = result.model.grades[0]
    loss = LeastSquares(grade.network)(grade.params, (), Rows(jnp.asarray(X), jnp.asarray(Y)))[0]
    assert float(loss) == pytest.approx(record.train_loss.min(), rel=1e-5)


class Enough:
    """Ends a grade at the step ``every``."""

    name = "enough"

    def __init__(self, every):
        self.every = every

    def observe(self, snapshot, carry):
        return Observation(stop="enough") if snapshot.step == self.every else None


@pytest.mark.parametrize("keep", ["last", "best"])
@pytest.mark.parametrize("end", [{"observers": [Enough(20)]}, {"steps": 10**8, "time_limit": 0.01}])
def test_a_run_cut_off_between_records_returns_parameters_that_are_recorded(keep, end):
    result = fit(SMALL[:1], **{"record_every": 20, "keep": keep, **end})
    (record,), (grade,) = result.records, result.model.grades
    assert record.outcome in (Outcome.OBSERVER, Outcome.TIME_LIMIT)
    assert record.steps[-1] == record.num_steps > 0
    assert len(set(record.steps)) == len(record.steps)
    loss = LeastSquares(grade.network)(grade.params, (), Rows(jnp.asarray(X), jnp.asarray(Y)))[0]
    expected = record.train_loss.min() if keep == "best" else record.train_loss[-1]
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    assert record.train_loss[-1] < record.train_loss[0]


def test_a_run_that_has_diverged_where_it_is_cut_off_says_so():
    whole = fit(SMALL[:1], learning_rate=100.0)
    first_bad = whole.records[0].num_steps + 1
    cut = fit(SMALL[:1], learning_rate=100.0, record_every=first_bad, observers=[Enough(first_bad)])
    assert (cut.outcome, cut.records[0].sentence) == (Outcome.DIVERGED, whole.records[0].sentence)
    assert_same(cut.model, whole.model)


def test_a_loss_that_is_not_finite_at_first_is_not_blamed_on_the_rate():
    result = fit(SMALL[:1], y=1e30 * Y)
    assert (result.outcome, result.records[0].num_steps) == (Outcome.DIVERGED, 0)
    assert result.records[0].sentence == "the loss was not finite before the first step; scale inputs and targets"


def test_the_first_grade_that_does_not_lower_the_validation_loss_is_left_out(tmp_path):
    rates = (0.05, 1e-9, 0.05)  # the second grade stays at its initial weights
    options = {"learning_rate": rates, "while_better": True, "checkpoint": tmp_path / "c", "validation": (X, Y)}
    one = fit(SMALL[:1], validation=(X, Y))
    for _ in range(2):  # the second time from the checkpoint, which has the grade that is left out
        result = fit(**options)
        assert_same(result.model, one.model)
        assert list(result.records) == list(one.records)


class Clock:
    """Time that stands still, but for a jump of a thousand seconds in the first chunk of the grades ``jumps``."""

    name, every = "clock", None

    def __init__(self, jumps):
        self.jumps, self.now = set(jumps), 0.0

    def perf_counter(self):
        return self.now

    def observe(self, snapshot, carry):
        if snapshot.grade in self.jumps:
            self.jumps.remove(snapshot.grade)
            self.now += 1000.0


@pytest.mark.parametrize("devices", [None, 1])
def test_a_grade_that_the_clock_cuts_off_untrained_is_left_out(monkeypatch, devices):
    whole = fit(SMALL[:1], devices=devices)
    clock = Clock({1})
    monkeypatch.setattr(loop, "time", clock)
    monkeypatch.setattr(driver, "time", clock)
    result = fit(time_limit=500.0, observers=[clock], devices=devices)
    assert clock.now == 1000.0  # grade 2 was begun, and took one step
    assert_same(result.model, whole.model)
    assert list(result.records) == list(whole.records)


def test_no_grade_begins_after_the_time_limit(monkeypatch):
    class End(Clock):
        def observe(self, snapshot, carry):
            assert snapshot.grade == 0
            self.now += 1000.0 if snapshot.record.sentence else 0.0

    whole = fit(SMALL[:1])
    clock = End(())
    monkeypatch.setattr(loop, "time", clock)
    monkeypatch.setattr(driver, "time", clock)
    result = fit(time_limit=500.0, observers=[clock])
    assert_same(result.model, whole.model)
    assert list(result.records) == list(whole.records)
    assert (result.is_cut_short, whole.is_cut_short) == (True, False)


def test_time_limit_ends_the_fit_with_what_there_is():
    result = fit(steps=10**8, time_limit=0.5, record_every=1000)
    assert result.outcome == Outcome.TIME_LIMIT
    more = fit(steps=2, start=result)  # a limit of the past is none of the future
    assert [record.outcome for record in more.records[1:]] == [Outcome.FINISHED] * (len(SMALL) - 1)
    assert len(result.model.grades) == 1
    assert np.isfinite(result.model(X)).all()


@pytest.mark.parametrize("rule", [lambda: Plateau(0), lambda: NoImprovement(0)])
def test_a_rule_needs_a_record(rule):
    with pytest.raises(ValueError, match="must be at least 1; got 0"):
        rule()


@pytest.mark.parametrize("rule", [Plateau(2, 1e-9), NoImprovement(2)])
def test_stopping_rules_work_in_double_precision(rule):
    with jax.enable_x64(True):
        assert np.isfinite(fit(SMALL[:1], stopping=rule, steps=20, record_every=5).records[0].train_loss).all()


def test_nothing_to_do_is_finished():
    whole = fit(SMALL[:1], steps=2)
    assert fit(SMALL[:1], start=whole).outcome is Outcome.FINISHED
