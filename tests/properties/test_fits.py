"""Laws of fits, and the same problem by two of our own ways. Shapes are few: most of the time goes into compiling."""

import contextlib
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multigrade import LeastSquares, MultiGradeRegressor, Plan, Regression, Rows, fit_grades, structures
from multigrade.curvature.products import HessianOperator, dense_hessian
from multigrade.model import staged_values
from multigrade.networks import Network
from multigrade.training import Checkpointing
from multigrade.training.corrective import correct_outputs
from multigrade.training.observers import Observation

from .cases import dear, middle, seeds

NETWORK = Network((2, 4, 1))
ROWS = 24


def regressor(**options):
    defaults = {"n_grades": 2, "hidden_layer_sizes": (4,), "solver": "muon", "max_iter": 20, "random_state": 0}
    return MultiGradeRegressor(**{**defaults, **options})


def data(rng):
    x = rng.normal(size=(ROWS, 2)) * 10.0 ** rng.integers(-3, 4, 2) + rng.normal(size=2)
    return x, np.sin(x[:, 0]) + rng.normal(size=ROWS)


@dear
@given(seeds)
def test_order_repetition_and_weight_of_rows_change_no_bit(seed):
    rng = np.random.default_rng(seed)
    x, y = data(rng)
    counts, order = rng.integers(1, 4, ROWS), rng.permutation(ROWS)
    fitted = regressor().fit(x, y, counts)
    repeated = regressor().fit(np.repeat(x, counts, axis=0), np.repeat(y, counts))
    permuted = regressor().fit(x[order], y[order], counts[order])
    heavier = regressor().fit(x, y, 4.0 * counts)
    for other in (repeated, permuted, heavier):
        np.testing.assert_array_equal(other.predict(x), fitted.predict(x))


@dear
@given(seeds, st.integers(-3, 3), st.integers(-3, 3))
def test_powers_of_two_commute_with_a_fit(seed, of_inputs, of_targets):
    """Standardised rows are the same to the bit, and so is everything after."""
    rng = np.random.default_rng(seed)
    x, y = data(rng)
    fitted = regressor().fit(x, y)
    scaled = regressor().fit(2.0**of_inputs * x, 2.0**of_targets * y)
    np.testing.assert_allclose(scaled.predict(2.0**of_inputs * x), 2.0**of_targets * fitted.predict(x), rtol=1e-12)


@dear
@given(seeds, st.floats(-1e3, 1e3))
def test_a_shift_of_targets_shifts_the_predictions(seed, shift):
    rng = np.random.default_rng(seed)
    x, y = data(rng)
    plain, shifted = regressor().fit(x, y).predict(x), regressor().fit(x, y + shift).predict(x)
    np.testing.assert_allclose(shifted - shift, plain, atol=1e-3 * (1 + np.abs(y).max()) + 1e-6 * abs(shift))


@dear
@given(seeds)
def test_an_estimator_refuses_or_predicts_finitely(seed):
    rng = np.random.default_rng(seed)
    x, y = data(rng)
    odd = 10.0 ** rng.uniform(-300, 300) * rng.choice([-1, 1])
    x[rng.integers(0, ROWS), rng.integers(0, 2)] = odd
    if rng.random() < 0.5:
        y[rng.integers(0, ROWS)] = 10.0 ** rng.uniform(-300, 300)
    try:
        predictions = regressor().fit(x, y).predict(x)
    except ValueError as error:
        predictions, message = np.zeros(1), str(error)
    else:
        message = "none"
    assert np.isfinite(predictions).all()
    assert message
    assert "\n" not in message


@dear
@given(seeds, st.booleans())
def test_a_further_grade_never_raises_the_loss_of_a_quadratic_problem_solved_exactly(seed, is_weighted):
    """Output layers are solved, on the residual grade by grade and then together: each is a minimum that holds 0."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(ROWS, 2)), rng.normal(size=(ROWS, 1))
    weight = rng.integers(1, 4, ROWS).astype(float) if is_weighted else np.ones(ROWS)
    structure = structures.graded(2, [(4,), (4,), (4,)], 1)
    plan, exact = Plan(3, "gd", 1e-3, record_every=3, seed=int(seed % 1000)), Regression(solved_output=True)
    model = fit_grades(structure, x, y, plan, regression=exact, sample_weight=weight).model
    stages = [np.zeros_like(y), *staged_values(model, x)]
    assert len(stages) == 4
    losses = [weight @ (stage - y)[:, 0] ** 2 for stage in stages]
    assert np.all(np.diff(losses) <= 1e-5 * losses[0])
    together = correct_outputs(model, x, y, sample_weight=weight, ridge=0.0)
    assert weight @ (np.asarray(together(x)) - y)[:, 0] ** 2 <= losses[-1] + 1e-4 * losses[0]


@dear
@given(seeds)
def test_a_fit_saved_and_resumed_anywhere_is_the_fit_of_one_piece(tmp_path_factory, seed):
    rng = np.random.default_rng(seed)
    x, y = data(rng)
    x, y = np.float32(x / np.abs(x).max(axis=0)), np.float32(y[:, None])
    structure, plan = structures.graded(2, [(4,), (4,)], 1), Plan(20, batch_size=8, record_every=5, learning_rate=0.01)
    path, stop_at = tmp_path_factory.mktemp("fit") / "fit.checkpoint", int(rng.integers(0, 8))

    class Stop(Exception):
        pass

    class Stopping:
        name, every, calls = "stopping", None, 0

        def observe(self, snapshot, carry):
            self.calls += 1
            if self.calls > stop_at:
                raise Stop
            return Observation()

    with contextlib.suppress(Stop):
        fit_grades(
            structure,
            x,
            y,
            dataclasses.replace(plan, observers=(Stopping(),)),
            checkpoint=Checkpointing(path, every=0.0),
        )
    resumed = fit_grades(structure, x, y, plan, checkpoint=Checkpointing(path, every=0.0))
    whole = fit_grades(structure, x, y, plan)
    jax.tree.map(np.testing.assert_array_equal, resumed.model, whole.model)
    assert resumed.records == whole.records


@dear
@given(seeds, st.floats(1e-3, 0.1), st.booleans())
def test_gradient_descent_is_that_of_a_loop_in_numpy(seed, rate, is_weighted):
    rng = np.random.default_rng(seed)
    x, y = np.float32(rng.normal(size=(ROWS, 2))), np.float32(rng.normal(size=(ROWS, 1)))
    weights = np.float32(rng.integers(0, 3, ROWS)) if is_weighted else np.ones(ROWS, np.float32)
    weights[0] = 1
    plan = Plan(15, optimiser="gd", learning_rate=float(rate), record_every=5, seed=int(seed % 1000))
    fit = fit_grades((NETWORK,), x, y, plan, sample_weight=weights)
    init_key, _ = jax.random.split(jax.random.fold_in(jax.random.key(int(seed % 1000)), 0))
    (w1, b1), (w2, b2) = (tuple(np.asarray(part, np.float64) for part in layer) for layer in NETWORK.init(init_key))
    share = (weights / weights.sum())[:, None]
    for _ in range(15):
        hidden = np.maximum(x @ w1 + b1, 0)
        error = share * (hidden @ w2 + b2 - y)
        back = error @ w2.T * (hidden > 0)
        w2, b2 = w2 - rate * hidden.T @ error, b2 - rate * error.sum(axis=0)
        w1, b1 = w1 - rate * x.T @ back, b1 - rate * back.sum(axis=0)
    np.testing.assert_allclose(fit.model(x), np.maximum(x @ w1 + b1, 0) @ w2 + b2, atol=2e-4)


@middle
@given(seeds)
def test_curvature_without_a_matrix_is_that_of_the_matrix(seed):
    rng = np.random.default_rng(seed)
    rows = Rows(
        jnp.asarray(rng.normal(size=(ROWS, 2)), jnp.float32), jnp.asarray(rng.normal(size=(ROWS, 1)), jnp.float32)
    )
    loss, params = _loss(rows), NETWORK.init(jax.random.key(int(seed % 2**31)))
    dense = dense_hessian(loss, params)
    v = rng.normal(size=len(dense))
    np.testing.assert_allclose(HessianOperator(loss, params)(v), dense @ v, atol=1e-4 * (1 + np.abs(dense).max()))
    np.testing.assert_allclose(dense, dense.T, atol=1e-5)


def _loss(rows):
    return jax.tree_util.Partial(_value, rows)


def _value(rows, params):
    return LeastSquares(NETWORK)(params, (), rows)[0]


@middle
@given(seeds)
def test_the_gradient_in_single_precision_is_that_in_double(seed):
    rng = np.random.default_rng(seed)
    arrays = rng.normal(size=(ROWS, 2)), rng.normal(size=(ROWS, 1)), rng.uniform(0, 2, ROWS)
    params = NETWORK.init(jax.random.key(int(seed % 2**31)))
    (loss, _), gradient = _value_and_grad(params, Rows(*(jnp.asarray(a, jnp.float32) for a in arrays)))
    with jax.enable_x64(True):
        double = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), params)
        (exact, _), slope = _value_and_grad(double, Rows(*map(jnp.asarray, arrays)))
    assert float(loss) == pytest.approx(float(exact), rel=1e-5)
    for ours, theirs in zip(jax.tree.leaves(gradient), jax.tree.leaves(slope), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5 * (1 + np.abs(theirs).max()))


@jax.jit
def _value_and_grad(params, rows):
    return LeastSquares(NETWORK, 0.1).value_and_grad(params, (), rows)
