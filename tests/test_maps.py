"""The spectrum of an optimiser's step: closed forms on quadratics, dense Jacobians of small networks."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from multigrade.curvature import (
    arnoldi,
    auxiliary_map,
    iteration_spectrum,
    map_spectrum,
    optimiser_map,
    spectrum_of_map,
    tracing,
)
from multigrade.curvature.arnoldi import find_leading
from multigrade.networks import Network
from multigrade.training.optimisers import make_optimiser

from .small_losses import mean_squares, problem

RATE, BETA = 0.1, 0.9


def quadratic_loss(hessian, w):
    return 0.5 * w @ (hessian @ w)


def quadratic(eigenvalues, seed=0):
    """1/2 w'Hw with these eigenvalues and random eigenvectors."""
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(eigenvalues),) * 2))[0]
    return Partial(quadratic_loss, (turn * eigenvalues) @ turn.T)


def spread(size):
    """Most inside the edge of every method here, twenty or so beyond it, all different."""
    beyond = np.linspace(3.9, 5, 20) / RATE
    return np.concatenate([np.linspace(0.01, 1.2, size - 20) / RATE, beyond])


def roots(trace, determinant):
    """Of z^2 - trace z + determinant, for every eigenvalue, by falling modulus."""
    below = np.sqrt(np.asarray(trace, complex) ** 2 / 4 - determinant)
    both = np.concatenate([np.asarray(trace) / 2 + below, np.asarray(trace) / 2 - below])
    return both[np.argsort(-np.abs(both))]


HEAVY = optax.sgd(RATE, momentum=BETA)
NESTEROV = optax.sgd(RATE, momentum=BETA, nesterov=True)


@pytest.mark.parametrize("size", [50, 500])
def test_quadratics_have_the_roots_of_their_characteristic_polynomials(size):
    values, start = spread(size), jnp.zeros(size)
    loss, x = quadratic(values), RATE * values
    cases = {
        "gd": (optax.sgd(RATE), 1 - x[np.argsort(-np.abs(1 - x))]),
        "heavy ball": (HEAVY, roots(1 + BETA - x, BETA)),
        # u = g + beta t', t' = g + beta t: the trace takes (1 + beta) eta lambda, the determinant beta eta lambda.
        "nesterov": (NESTEROV, roots(1 + BETA - (1 + BETA) * x, BETA - BETA * x)),
    }
    for optimiser, expected in cases.values():
        found = map_spectrum(loss, start, optimiser, num=10, tolerance=1e-9)
        assert found.converged, found.sentence
        np.testing.assert_allclose(found.values, expected[:10], atol=1e-8)


@pytest.mark.parametrize("size", [50, 500])
def test_adam_at_rest_has_the_roots_of_its_fixed_preconditioner(size):
    random = np.random.default_rng(1)
    gradient = 1 + random.uniform(size=size)  # the constant gradient whose squares are the second moments
    values, transformation = spread(size) * 20, optax.adam(RATE)
    loss = quadratic(values)
    at_start = transformation.init(jnp.zeros(size))
    adam = at_start[0]._replace(count=jnp.int32(10**6), nu=gradient**2 / 0.999)  # as the next step decays it once
    found = map_spectrum(loss, np.zeros(size), transformation, (adam, *at_start[1:]), num=10, tolerance=1e-9)
    (hessian,) = loss.args
    root = 1 / np.sqrt(gradient + 1e-8)
    preconditioned = np.linalg.eigvalsh(root[:, None] * hessian * root)
    expected = roots(1 + BETA - RATE * (1 - BETA) * preconditioned, BETA)  # and 0.999 for each second moment
    assert abs(expected[9]) > 1
    assert found.converged, found.sentence
    np.testing.assert_allclose(found.values, expected[:10], atol=1e-8)


def test_gd_equals_the_spectrum_of_its_iteration_matrix():
    values = spread(400)
    loss = quadratic(values)
    found = map_spectrum(loss, np.zeros(400), "gd", learning_rate=RATE, num=5)
    known = iteration_spectrum(loss, np.zeros(400), RATE, 5)
    np.testing.assert_allclose(found.values.real, known.smallest, rtol=1e-12)


def test_repeated_eigenvalues_are_found_as_often_as_they_are_there():
    values = np.concatenate([np.linspace(0.01, 1, 297), [4.2, 4.2, 4.2]]) / RATE
    for optimiser, expected in ((HEAVY, roots(np.array([1 + BETA - 4.2]), BETA)[0]), (optax.sgd(RATE), 1 - 4.2)):
        found = map_spectrum(quadratic(values), np.zeros(300), optimiser, num=3, tolerance=1e-9)
        np.testing.assert_allclose(found.values, [expected] * 3, atol=1e-8)


def test_a_defective_pair_is_said_to_be_one():
    critical = (1 + BETA**0.5) ** 2  # both roots are -sqrt(beta), with one eigenvector
    values = np.concatenate([np.linspace(0.01, 2, 199), [critical]]) / RATE
    found = map_spectrum(quadratic(values), np.zeros(200), HEAVY, num=2, end="leftmost")
    np.testing.assert_allclose(found.values, [-(BETA**0.5)] * 2, atol=1e-5)
    assert "2 are defective" in found.sentence


def test_a_krylov_space_that_is_full_is_restarted(monkeypatch):
    monkeypatch.setattr(arnoldi, "MAX_ROOM", 45)
    values = spread(500)
    step = optimiser_map(quadratic(values), np.zeros(500), HEAVY)
    found = spectrum_of_map(step, 10, tolerance=1e-9)
    assert found.num_products > 80
    np.testing.assert_allclose(found.values, roots(1 + BETA - RATE * values, BETA)[:10], atol=1e-8)
    left = spectrum_of_map(step, 10, end="leftmost", tolerance=1e-9)  # these are the same, and the space is kept
    assert left.num_products < found.num_products
    np.testing.assert_allclose(left.values, found.values, atol=1e-8)


def test_a_small_residual_is_no_proof_where_an_eigenvalue_is_ill_conditioned():
    one, residual = np.ones(1, complex), np.array([1e-7])
    assert arnoldi.Leading(one, residual, np.array([1.0])).is_converged(1e-6).all()
    assert not arnoldi.Leading(one, residual, np.array([1e3])).is_converged(1e-6).any()


def test_what_does_not_converge_is_no_number():
    found = map_spectrum(
        quadratic(np.linspace(1, 2, 400)), np.zeros(400), HEAVY, num=10, tolerance=1e-14, max_products=40
    )
    assert not found.converged
    assert np.isnan(found.values).any()
    assert "did not" in found.sentence
    broken = map_spectrum(lambda w: jnp.sum(w) * jnp.nan, np.zeros(3), "gd", num=2)
    assert np.isnan(broken.values).all()
    assert "not finite" in broken.sentence


NETWORK = Network((2, 10, 9, 1), "tanh", bias_std=0.1)


def trained(name, num_steps=5):
    """A small network and an optimiser's state after a few steps, in float64."""
    params, x, y = problem(NETWORK, num_rows=20)
    loss, transformation = Partial(mean_squares, NETWORK, x, y), make_optimiser(name)
    with jax.enable_x64(True):
        params = jax.tree.map(jnp.asarray, params)
        state = transformation.init(params)
        step = jax.jit(lambda p, s: transformation.update(jax.grad(loss)(p), s, p))
        for _ in range(num_steps):
            updates, state = step(params, state)
            params = jax.tree.map(lambda p, u: p + 0.03 * u, params, updates)
    return loss, transformation, params, state


def dense_jacobian(loss, transformation, params, state, rate):
    """By ``jax.jacfwd`` of the step, written out once more; integers and constants stay as they are."""
    leaves, structure = jax.tree.flatten(state)
    free = [i for i, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.shape != (3,)]
    flat, unravel = ravel_pytree((params, [leaves[i] for i in free]))

    def step(z):
        params, moved = unravel(z)
        here = list(leaves)
        for i, leaf in zip(free, moved, strict=True):
            here[i] = leaf
        updates, after = transformation.update(jax.grad(loss)(params), jax.tree.unflatten(structure, here), params)
        after = jax.tree.leaves(after)
        return ravel_pytree((jax.tree.map(lambda p, u: p + rate * u, params, updates), [after[i] for i in free]))[0]

    return np.asarray(jax.jit(jax.jacfwd(step))(flat))


SLOW = pytest.mark.slow


@pytest.mark.parametrize("name", [pytest.param("gd", marks=SLOW), "momentum", "adam", pytest.param("muon", marks=SLOW)])
def test_arnoldi_agrees_with_the_dense_jacobian_of_a_network(name):
    loss, transformation, params, state = trained(name)
    with jax.enable_x64(True):
        expected = dense_jacobian(loss, transformation, params, state, 0.03)
    operator = optimiser_map(loss, params, transformation, state, learning_rate=0.03)
    np.testing.assert_allclose(operator.dense(), expected, atol=1e-9 * np.abs(expected).max())
    u, v = np.random.default_rng(0).standard_normal((2, operator.size))
    np.testing.assert_allclose(u @ operator(v), v @ operator.transpose(u), rtol=1e-10)
    exact = np.linalg.eigvals(expected)
    options = {"tolerance": 1e-9, "max_products": 3000}
    found = find_leading(operator.krylov, 6, **options)
    np.testing.assert_allclose(np.abs(found.values[:6]), np.sort(np.abs(exact))[::-1][:6], atol=1e-8)
    left = find_leading(operator.krylov, 4, end="leftmost", **options)
    np.testing.assert_allclose(left.values.real[:4], np.sort(exact.real)[:4], atol=1e-8)


def test_neurons_that_sleep_are_held_and_change_nothing_else():
    """A network with units that are 0 on all data has, under Adam, the eigenvalues of the network without them."""
    random = np.random.default_rng(2)
    small, wide = Network((1, 5, 1), bias_std=0.1), Network((1, 8, 1), bias_std=0.1)
    x, y = random.uniform(size=(20, 1)), random.normal(size=(20, 1))
    transformation = make_optimiser("adam")
    few = [random.normal(size=(1, 5)), 0.5 + random.uniform(size=5), random.normal(size=(5, 1)), random.normal(size=1)]
    asleep = np.concatenate([few[0], -np.ones((1, 3))], axis=1), np.concatenate([few[1], np.zeros(3)])
    more = [*asleep, np.concatenate([few[2], np.ones((3, 1))]), few[3]]

    def spectrum(network, arrays):
        params = jax.tree.unflatten(jax.tree.structure(network.init(jax.random.key(0))), arrays)
        loss = Partial(mean_squares, network, x, y)
        with jax.enable_x64(True):
            _, state = transformation.update(jax.grad(loss)(params), transformation.init(params), params)
        return map_spectrum(loss, params, transformation, state, learning_rate=1e-3)

    awake, both = spectrum(small, few), spectrum(wide, more)
    assert (awake.num_held, both.num_held) == (0, 3 * 9)  # three units have 9 parameters, each with two moments
    np.testing.assert_allclose(both.values, awake.values, atol=1e-9)
    assert "27 entries are held" in both.sentence


def test_an_optimiser_that_searches_along_lines_is_refused():
    with pytest.raises(ValueError, match="must not search along lines"):
        map_spectrum(lambda w: w @ w, jnp.ones(3), "lbfgs")
    with pytest.raises(ValueError, match="end must be one of outermost, leftmost"):
        map_spectrum(lambda w: w @ w, jnp.ones(3), "gd", num=2, end="top")


def test_a_step_that_moves_an_auxiliary_variable_has_the_jacobian_of_the_loops_own_step():
    """Restoration: u goes through its proximal operator, then Theta by gradient descent at the new u."""
    from multigrade.pictures.graded.restoration import RestorationTask, pixel_coordinates
    from multigrade.pictures.operators import Identity

    random, network, rate = np.random.default_rng(0), Network((2, 5, 1), bias_std=0.3), 0.01
    observed = jnp.asarray(random.uniform(size=(1, 4, 5)), jnp.float32)
    task = RestorationTask(
        jnp.asarray(pixel_coordinates(4, 5)), observed, jnp.zeros_like(observed), Identity(), 0.05, 0.7, 0.9
    )
    problem = task.problem(network, 0)
    params = network.init(jax.random.key(0))
    start = problem.objective.init(params, problem.data)
    u = jnp.asarray(random.normal(size=start.shape), jnp.float32)
    (_, u_next), gradient = problem.objective.value_and_grad(params, u, problem.data)
    whole = auxiliary_map(problem.objective, params, u, problem.data, "gd", learning_rate=rate)
    with jax.enable_x64(True):
        point = tracing.widen(whole.point)
        after = whole.step(point)
        flat, unravel = ravel_pytree((point[0], point[2]))

        def step(z):
            theta, u = unravel(z)
            theta, _, u = whole.step((theta, point[1], u))
            return ravel_pytree((theta, u))[0]

        expected = np.asarray(jax.jacfwd(step)(flat))
    np.testing.assert_allclose(after[2], u_next, atol=1e-5)
    for moved, start, slope in zip(*map(jax.tree.leaves, (after[0], params, gradient)), strict=True):
        np.testing.assert_allclose(moved, start - rate * slope, atol=1e-5)
    np.testing.assert_allclose(whole.dense(), expected, atol=1e-12)
    frozen = optimiser_map(lambda p: problem.objective(p, u, problem.data)[0], params, "gd", learning_rate=rate)
    size = whole.num_parameters
    assert np.abs(whole.dense()[:size, :size] - frozen.dense()).max() > 1e-3  # the supplement's freezes u
