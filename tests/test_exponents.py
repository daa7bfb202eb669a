"""Lyapunov exponents inside the loop: logarithms of eigenvalues at rest, of products of Jacobians on the way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multigrade import structures
from multigrade.curvature import ExponentObserver, optimiser_map
from multigrade.curvature.exponents import Tangents
from multigrade.training import Plan, fit_grades
from multigrade.training.objectives import LeastSquares, Rows

X = np.linspace(0, 1, 30)[:, None]
Y = np.sin(9 * X)
STRUCTURE = structures.graded(1, [(6,)], 1, activation="tanh", bias_std=0.5)


class Quadratic:
    """1/2 sum_i lambda_i w_i^2, as an objective without data."""

    def init(self, params, data):
        return ()

    def __call__(self, params, auxiliary, data):
        return 0.5 * jnp.sum(data * params**2), auxiliary

    def value_and_grad(self, params, auxiliary, data):
        return jax.value_and_grad(self, has_aux=True)(params, auxiliary, data)


jax.tree_util.register_static(Quadratic)


def test_at_rest_they_are_logarithms_of_the_eigenvalues_of_the_iteration_matrix():
    from multigrade.training import GradeProblem, minimise

    curvature, rate = jnp.array([40.0, 30.0, 4.0, 1.0, 10.0]), 0.05
    plan = Plan(200, "gd", learning_rate=rate, record_every=100, observers=[ExponentObserver(every=100, num=3)])
    run = minimise(GradeProblem(Quadratic(), curvature), jnp.zeros(5), plan)
    seen = run.record.observations["exponents"]
    expected = np.sort(np.log(np.abs(1 - rate * np.asarray(curvature) + 1e-30)))[::-1][:3]
    assert expected[0] == 0  # 1 - 0.05 * 40 = -1
    np.testing.assert_allclose(seen["exponents"][-1], expected, atol=1e-4)


@pytest.mark.parametrize("batch_size", [None, 10])
def test_on_the_way_they_are_those_of_the_product_of_jacobians(batch_size):
    """The largest one, against the norm of a vector that goes through dense Jacobians of all steps, by Adam."""
    observer = ExponentObserver(every=20, num=2, reorthogonalise=5)
    plan = Plan(20, "adam", learning_rate=0.01, record_every=20, observers=[observer], batch_size=batch_size)
    fit = fit_grades(STRUCTURE, X, Y, plan)
    plain = fit_grades(STRUCTURE, X, Y, Plan(20, "adam", learning_rate=0.01, record_every=20, batch_size=batch_size))
    np.testing.assert_allclose(fit.records[0].train_loss, plain.records[0].train_loss, rtol=1e-5)
    seen = fit.records[0].observations["exponents"]
    np.testing.assert_array_equal(seen["step"], [0, 20])
    np.testing.assert_allclose(seen["exponents"][-1], seen["mean"][-1])
    if batch_size is None:
        np.testing.assert_allclose(seen["exponents"][-1, 0], _by_hand(20) / 20, atol=2e-4)


def _by_hand(num_steps: int) -> float:
    """log ||J_k ... J_0 v|| for the first of the tangents, each J made anew by ``optimiser_map``."""
    import optax

    network, optimiser = STRUCTURE[0], optax.adam(0.01)
    key = jax.random.split(jax.random.fold_in(jax.random.key(0), 0))[0]
    rows = Rows(jnp.asarray(X, jnp.float32), jnp.asarray(Y, jnp.float32))
    loss = jax.tree_util.Partial(_loss, LeastSquares(network), rows)
    params = network.init(key)
    state = optimiser.init(params)
    step = jax.jit(lambda p, s: optimiser.update(jax.grad(loss)(p), s, p))

    class Now:
        auxiliary = ()

    Now.params, Now.optimiser = params, state
    vector, total = np.asarray(Tangents(2, 5).init(Now).vectors[0], np.float64), 0.0
    for _ in range(num_steps):
        vector = optimiser_map(loss, params, optimiser, state)(vector)
        total += np.log(np.linalg.norm(vector))
        vector /= np.linalg.norm(vector)
        updates, state = step(params, state)
        params = jax.tree.map(lambda p, u: p + u, params, updates)
    return total


def _loss(objective, rows, params):
    return objective(params, (), rows)[0]


def test_a_resumed_run_has_the_same_exponents(tmp_path):
    class Interrupt:
        name, every, armed = "interrupt", 20, True

        def observe(self, snapshot, carry):
            if self.armed and snapshot.step == 20:
                raise KeyboardInterrupt

    def run(armed, name):
        Interrupt.armed = armed  # of the class, so that the observer's settings stay the same
        plan = Plan(40, "adam", record_every=20, observers=[ExponentObserver(every=20, num=2), Interrupt()])
        from multigrade.training.checkpoint import Checkpointing

        return fit_grades(STRUCTURE, X, Y, plan, checkpoint=Checkpointing(tmp_path / name, 0.0))

    whole = run(False, "whole")
    with pytest.raises(KeyboardInterrupt):
        run(True, "cut")
    assert run(False, "cut").records == whole.records


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="multiple of reorthogonalise"):
        ExponentObserver(every=15)
    plan = Plan(10, record_every=10, observers=[ExponentObserver(every=10), ExponentObserver(every=10, name="other")])
    with pytest.raises(ValueError, match="at most one companion"):
        fit_grades(STRUCTURE, X, Y, plan)
