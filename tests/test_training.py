"""The loop and the grades: references, identities, arguments."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from multigrade import (
    GradeProblem,
    LeastSquares,
    MultiScaleNetwork,
    Network,
    Observation,
    Outcome,
    Plan,
    Rows,
    fit_grades,
    minimise,
    warmup_cosine,
)  # fmt: skip
from multigrade.training import grades, loop
from multigrade.training.objectives import over_blocks
from multigrade.training.sampling import RandomRows

from .references import gradient_descent
from .small_fits import SMALL, Steps, X, Y, assert_same, fit


@pytest.mark.parametrize("widths", [(2, 7, 2), (2, 6, 5, 5, 4, 2)], ids=["depth 2", "depth 5"])
def test_gradient_descent_equals_float64_numpy(widths):
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(30, 2)), generator.normal(size=(30, 2))
    with jax.enable_x64(True):
        network = Network(widths, bias_std=0.3)
        params = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), network.init(jax.random.key(3)))
        losses, layers = gradient_descent([(np.array(w), np.array(b)) for w, b in params], x, y, 0.05, 50)
        problem = GradeProblem(LeastSquares(network), Rows(jnp.asarray(x), jnp.asarray(y)))
        run = minimise(problem, params, Plan(50, "gd", learning_rate=0.05, record_every=1))
        for (w, b), layer in zip(layers, run.params, strict=True):
            np.testing.assert_allclose(layer.weight, w, rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(layer.bias, b, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(run.record.train_loss[:-1], losses, rtol=1e-6)
    np.testing.assert_array_equal(run.record.steps, np.arange(51))


@pytest.mark.parametrize("optimiser", ["gd", "momentum", "adam"])
def test_named_optimisers_equal_optax(optimiser):
    network = Network((1, 8, 1))
    params, rows = network.init(jax.random.key(0)), Rows(jnp.asarray(X), jnp.asarray(Y))
    reference = {"gd": optax.sgd(0.01), "momentum": optax.sgd(0.01, momentum=0.9), "adam": optax.adam(0.01)}[optimiser]
    runs = [
        minimise(GradeProblem(LeastSquares(network), rows), params, Plan(20, o, learning_rate=r, record_every=5))
        for o, r in ((optimiser, 0.01), (reference, None))
    ]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), runs[0].params, runs[1].params)


@pytest.mark.parametrize("optimiser", ["gd", "momentum", "adam", "muon", "lbfgs"])
def test_every_optimiser_lowers_the_loss_of_every_grade_and_is_compiled_once_for_each(optimiser):
    compiled = loop.advance._cache_size()
    steps = 20 if optimiser == "lbfgs" else 100
    result = fit(SMALL[:2], optimiser=optimiser, learning_rate=None, steps=steps, residual_scaling=True)
    for record in result.records:
        assert record.train_loss[-1] < record.train_loss[0]
    assert loop.advance._cache_size() <= compiled + 2


def test_gradient_by_blocks_equals_automatic_differentiation():
    network = Network((3, 30, 30, 2))
    params = network.init(jax.random.key(0))
    generator = np.random.default_rng(0)
    rows = Rows(*(jnp.asarray(generator.normal(size=(1300, k)), jnp.float32) for k in (3, 2)))
    rows = rows._replace(weights=jnp.asarray(generator.uniform(size=1300), jnp.float32))
    objective = LeastSquares(network, weight_decay=0.01)
    (loss, _), gradient = objective.value_and_grad(params, (), rows)

    def whole(p):
        squares = rows.weights[:, None] * (rows.targets - network(p, rows.inputs)) ** 2
        penalty = 0.005 * sum(jnp.sum(layer.weight**2) for layer in p)
        return 0.5 * jnp.sum(squares) / jnp.sum(rows.weights) + penalty

    expected, slope = jax.value_and_grad(whole)(params)
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    assert float(objective(params, (), rows)[0]) == pytest.approx(float(expected), rel=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6), gradient, slope)


def test_blocks_cover_every_row_once():
    rows = jnp.arange(23.0)[:, None]
    for size in (None, 1, 5, 23, 24):
        assert float(over_blocks(lambda block: jnp.sum(block), rows, size)) == 253.0


def test_residual_after_a_grade_is_target_minus_staged_prediction():
    seen = {}

    class Peek:
        name, every = "peek", 60

        def observe(self, snapshot, carry):
            seen.setdefault(snapshot.grade, snapshot.loss.args[2].targets)

    result = fit(observers=[Peek()])
    stages = list(result.model.staged(X))
    for grade in (1, 2):
        np.testing.assert_allclose(seen[grade], Y - stages[grade - 1], atol=1e-6)


def test_earlier_grades_stay_bit_identical():
    two, three = fit(SMALL[:2]), fit(SMALL)
    assert_same(two.model.grades, three.model.grades[:2])


def test_continuing_equals_fitting_at_once():
    for scaling in (False, True):
        at_once = fit(residual_scaling=scaling)
        first = fit(SMALL[:2], residual_scaling=scaling)
        continued = fit(start=first, residual_scaling=scaling)
        assert_same(at_once.model, continued.model)


def test_one_scale_multi_scale_training_equals_single_grade():
    network = Network((1, 8, 8, 1))
    single = fit((network,))
    multi = fit((MultiScaleNetwork(network, (1.0,)),))
    assert_same(single.model.grades[0].params, multi.model.grades[0].params[0])


def test_residual_scaling_keeps_losses_in_the_units_of_the_targets():
    result = fit(residual_scaling=True, optimiser="adam", learning_rate=0.01)
    for record, stage in zip(result.records, result.model.staged(X), strict=True):
        assert record.train_loss[-1] == pytest.approx(0.5 * float(jnp.mean((Y - stage) ** 2)), rel=1e-4)
    residual = Y - next(iter(result.model.staged(X)))
    assert float(result.model.grades[1].scale) == pytest.approx(float(jnp.sqrt(jnp.mean(residual**2))), rel=1e-5)


def test_metrics_and_validation_are_recorded_beside_the_loss():
    result = fit(metrics={"rmse": lambda p, t: jnp.sqrt(jnp.mean((p - t) ** 2))}, validation=(X, Y))
    for record in result.records:
        np.testing.assert_allclose(record.validation_loss, record.train_loss, rtol=1e-6)
        np.testing.assert_allclose(record.columns["rmse"] ** 2 / 2, record.train_loss, rtol=1e-4)


def test_only_losses_are_brought_to_the_units_of_the_targets():
    result = fit(SMALL[:2], metrics={"my_loss": lambda p, t: 0.5 * jnp.mean((p - t) ** 2)}, residual_scaling=True)
    for record in result.records:
        np.testing.assert_allclose(record.columns["my_loss"], record.train_loss, rtol=1e-4)


@pytest.mark.parametrize("devices", [None, 1])
def test_validation_is_the_error_without_decay(devices):
    result = fit(SMALL[:1], weight_decay=0.1, validation=(X, Y), devices=devices)
    (record,), (grade,) = result.records, result.model.grades
    error = LeastSquares(grade.network)(grade.params, (), Rows(jnp.asarray(X), jnp.asarray(Y)))[0]
    assert record.validation_loss[-1] == pytest.approx(float(error), rel=1e-5)
    penalty = 0.05 * sum(float(jnp.sum(layer.weight**2)) for layer in grade.params)
    assert record.train_loss[-1] - record.validation_loss[-1] == pytest.approx(penalty, rel=1e-4)


def test_sample_weights_of_zero_equal_absent_rows():
    weights = np.ones(len(X), np.float32)
    weights[5:9] = 0
    kept = weights > 0
    weighted, absent = fit(sample_weight=weights), fit(x=X[kept], y=Y[kept])
    np.testing.assert_allclose(weighted.model(X), absent.model(X), atol=1e-4)


def test_random_batches_repeat_with_the_seed_and_differ_without():
    runs = [fit(SMALL[:1], batch_size=16, seed=seed) for seed in (0, 0, 1)]
    assert_same(runs[0].model, runs[1].model)
    assert not np.array_equal(runs[0].model(X), runs[2].model(X))


def test_chunks_do_not_change_the_run(monkeypatch):
    long = fit(steps=95, optimiser="adam")
    monkeypatch.setattr(loop, "_next_num_steps", lambda *_: 7)
    short = fit(steps=95, optimiser="adam")
    assert_same(long.model, short.model)
    for a, b in zip(long.records, short.records, strict=True):
        assert_same(dict(a.columns), dict(b.columns))
        np.testing.assert_array_equal(a.steps, [*range(0, 95, 10), 95])


def test_a_sweep_over_rates_compiles_once():
    fit(SMALL[:1], learning_rate=0.01)
    compiled = loop.advance._cache_size()
    for rate in (0.02, 0.03):
        fit(SMALL[:1], learning_rate=rate, steps=70, record_every=7)
    assert loop.advance._cache_size() == compiled


def test_schedules_set_the_rate_of_each_step():
    schedule = warmup_cosine(0.5, 100, warmup=0.1)
    rates = np.array([float(schedule(step)) for step in range(100)])
    np.testing.assert_allclose(rates[:10], 0.05 * np.arange(1, 11), rtol=1e-5)
    assert rates.max() == pytest.approx(0.5)
    assert rates[-1] < 1e-3
    halved = fit(SMALL[:1], learning_rate=optax.piecewise_constant_schedule(0.05, {30: 0.0}))
    assert_same(halved.model, fit(SMALL[:1], steps=30, learning_rate=0.05).model)


def test_observers_are_called_when_due_and_can_stop_and_steer():
    class Watch:
        name, every = "watch", 20

        def observe(self, snapshot, carry):
            calls = 0 if carry is None else int(carry["calls"])
            assert snapshot.learning_rate == pytest.approx(0.05 if calls == 0 else 0.01)
            values = {"loss": float(snapshot.loss(snapshot.params))}
            stop = "seen enough" if calls == 2 and snapshot.grade == 1 else None
            return Observation(values, {"calls": np.int32(calls + 1)}, stop, learning_rate=0.01)

    result = fit(SMALL[:2], observers=[Watch()])
    first, second = result.records
    np.testing.assert_array_equal(first.observations["watch"]["step"], [0, 20, 40, 60])
    at = np.searchsorted(first.steps, [0, 20, 40, 60])
    np.testing.assert_allclose(first.observations["watch"]["loss"], first.train_loss[at], rtol=1e-5)
    assert (second.outcome, second.sentence, second.num_steps) == (Outcome.OBSERVER, "seen enough", 40)


def test_the_rate_of_a_transformation_is_known_where_it_is_given():
    seen = []

    class Rate:
        name, every = "rate", None

        def observe(self, snapshot, carry):
            seen.append(snapshot.learning_rate)

    for optimiser, rate in ((optax.sgd(1.0), 0.05), (optax.sgd(0.05), None)):
        fit(SMALL[:1], steps=1, optimiser=optimiser, learning_rate=rate, observers=(r for r in [Rate()]))
    np.testing.assert_allclose(seen, [0.05] * (len(seen) // 2) + [np.nan] * (len(seen) // 2))


def test_counts_and_rates_may_be_one_per_grade_in_any_sequence():
    plain = fit(steps=20)
    assert_same(plain.model, fit(steps=np.int64(20)).model)
    for sequence in (list, tuple, np.array):
        assert_same(plain.model, fit(steps=sequence([20] * 3), learning_rate=sequence([0.05] * 3)).model)


def test_a_problem_draws_its_own_batches_or_the_plans():
    network = Network((1, 4, 1))
    problem = GradeProblem(LeastSquares(network), Rows(X, Y), sampler=RandomRows(8))
    params, plan = network.init(jax.random.key(0)), Plan(20, "gd", learning_rate=0.05, batch_size=8)
    own, planned = (minimise(part, params, plan) for part in (problem, problem._replace(sampler=None)))
    assert_same(own.params, planned.params)
    with pytest.raises(ValueError, match="batch_size must be None for a problem with a sampler of its own; got 9"):
        minimise(problem, params, dataclasses.replace(plan, batch_size=9))


def test_a_plan_is_asked_for():
    with pytest.raises(TypeError, match=r"plan must be a Plan, such as Plan\(500, learning_rate=0.01\); got 500"):
        fit_grades(SMALL, X, Y, 500)


def test_records_are_equal_if_all_but_the_seconds_is():
    one, again, other = (fit(SMALL[:1], observers=[Steps()], seed=seed).records[0] for seed in (0, 0, 1))
    assert one == again
    assert one != other
    seen = {"steps": {**one.observations["steps"], "step": np.array([0, 50, 61], np.int32)}}
    assert one != dataclasses.replace(one, observations=seen)
    assert one == dataclasses.replace(one, seconds=one.seconds + 1)
    assert one != "record"


class Work:
    name, every = "work", None

    def observe(self, snapshot, carry):
        raise AssertionError("a grade was begun")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": -1.0}, "learning_rate must be a positive number or a schedule; got -1.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be"),
        ({"learning_rate": "fast"}, "learning_rate must be a positive number or a schedule; got 'fast'"),
        ({"optimiser": "sgd"}, "optimiser must be one of gd, momentum, adam, muon, lbfgs; got 'sgd'"),
        ({"steps": 0}, "steps must be an integer of at least 1, or one per grade; got 0"),
        ({"steps": (1, 2, 0)}, "steps must be an integer of at least 1, or one per grade; got (1, 2, 0)"),
        ({"steps": ()}, "steps must be an integer of at least 1, or one per grade; got ()"),
        ({"learning_rate": (0.1, 0.1, -1.0)}, "learning_rate must be a positive number or a schedule; got -1.0"),
        ({"learning_rate": [0.1, 0.1]}, "learning_rate must be one value, or one per grade (3); got 2"),
        ({"learning_rate": [[0.1, 0.1, 0.1]]}, "learning_rate must be a positive number or a schedule; got [["),
        ({"steps": (1, 2)}, "one per grade (3)"),
        ({"steps": 1e2}, "steps must be an integer of at least 1, or one per grade; got 100.0"),
        ({"steps": (1, 2, 3.5)}, "steps must be an integer of at least 1, or one per grade; got (1, 2, 3.5)"),
        ({"structure": ()}, "at least one grade"),
        ({"structure": SMALL[0]}, "structure must be a sequence of networks"),
        ({"structure": (SMALL[0], (16, 8, 1))}, "structure must be a sequence of networks"),
        ({"structure": (SMALL[0], Network((16, 8, 2)))}, "equally many outputs; got [1, 2]"),
        ({"structure": (SMALL[0], Network((8, 8, 1)))}, "grade 2 must read the 16 features of the one before; got 8"),
        ({"learning_rate": (0.1, 0.1)}, "learning_rate must be one value, or one per grade (3); got 2"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, or None for all rows; got 0"),
        ({"structure": (SMALL[0], MultiScaleNetwork(Network((16, 8, 1)))), "standardise_features": True}, "plain"),
        ({"observers": [Steps(), Steps()]}, "observers with a period must have different names; got steps, steps"),
        ({"metrics": {"train_loss": jnp.mean}}, "metrics must not be called step, train_loss or validation_loss; got"),
        ({"x": X[:, 0]}, "inputs must have shape (rows, 1)"),
        ({"x": X * np.nan}, "inputs must be finite"),
        ({"y": np.full((len(Y), 1), 1e39)}, "targets must be finite in float32; got NaN, infinity or a number above"),
        ({"weight_decay": -1.0}, "weight_decay must be a finite number of at least 0; got -1.0"),
        ({"validation": (X,)}, "validation must be (inputs, targets) or (inputs, targets, weights); got 1 members"),
        ({"validation": (X, Y, None, 3)}, "validation must be (inputs, targets) or (inputs, targets, weights); got 4"),
        ({"while_better": True}, "while_better must be False without validation"),
        ({"checkpoint": "nowhere/fit", "observers": [Work()]}, "the folder of nowhere/fit does not exist"),
        ({"y": Y[:-1]}, "same, positive number of rows"),
        ({"sample_weight": -np.ones(len(X))}, "sample_weight must hold"),
        ({"sample_weight": np.full(len(X), np.inf)}, "sample_weight must hold"),
        ({"record_every": 0}, "record_every must be an integer of at least 1; got 0"),
        ({"record_every": 2.5}, "record_every must be an integer of at least 1; got 2.5"),
        ({"keep": "first"}, "keep must be 'last' or 'best'"),
        ({"time_limit": 0}, "time_limit must be"),
        ({"start": fit(SMALL[1:2], x=np.zeros((2, 16)), y=np.zeros((2, 1)))}, "first grades of structure"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named_before_any_work(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        fit(**options)


def test_zero_output_is_for_plain_networks():
    network = MultiScaleNetwork(Network((1, 4, 1)))
    with pytest.raises(ValueError, match="must be a plain Network"):
        grades.zero_output(network.init(jax.random.key(0)))
