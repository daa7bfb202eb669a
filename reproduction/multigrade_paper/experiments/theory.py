"""Theorems 1, 2, 4 and 5 in numbers, on small smooth networks in float64, so that a mistake would show.

Theorems 1 and 2 (descent of one network, and of a grade): at ``share`` (0.95) of 2 / alpha, with alpha the largest
||H(W^k)|| over all iterates, every step obeys

    L(W^{k+1}) <= L(W^k) - eta (1 - eta alpha / 2) ||grad L(W^k)||^2                        (descent inequality)

and the gradient fades. The start is a trained network that was pushed aside: its gradient lies in the sharpest
directions, where a rate beyond 2 / alpha would fail at once.

Theorems 4 and 5 ask for tau = sup ||I - eta H|| < 1, so for a positive definite Hessian. A network has one near a
strict local minimum W* of a loss with a small penalty; the penalty is too small to switch the network off. From beside
W* the iterates of descent and of its linearisation are followed to W*. Whatever matrix stands for H, both would end
there: grad L(W*) = 0. Three more figures depend on it. The remainder r^k = W^{k+1} - (A^{k-1} W^k - eta u^{k-1}) is of
order 2 in ||W^k - W^{k-1}||, and of order 1 for a wrong H. Errors shrink by 1 - eta lambda_min in the long run, and by
tau at most in every step.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

from multigrade.networks import Network
from multigrade.structures import graded
from multigrade.training import Plan, fit_grades

from ..job import Result
from ..setup import Setup
from .context import Context

MAX_TRIES = 20  # rates, each below the last; our choice
OUTSIDE = 1.1  # of 2 / alpha: a rate at which the loss of the pushed network rises
START = 0.2  # of 2 / alpha at the first weights: the rate at which a network is trained before it is pushed
ROUNDING = 1e-13  # of the loss at the start
SMALLEST_STEP = 1e-7  # steps whose remainder is above rounding, for its order
LONGER = 15  # times the epochs: the flattest direction of a minimum takes its time
LATE = 200  # steps over which the long-run contraction is measured

Loss = Callable[[jax.Array], jax.Array]
Product = Callable[[Loss, jax.Array, jax.Array], jax.Array]
"""(loss, weights, direction) -> H(weights) direction."""


def hessian_product(loss: Loss, weights, direction):
    return jax.jvp(jax.grad(loss), (weights,), (direction,))[1]


def theory(context: Context, product: Product = hessian_product) -> Result:
    """``product`` is replaced by tests, which show that a wrong Hessian is found out."""
    setup = context.setup
    with jax.enable_x64(True):
        loss, weights = _problem(setup)
        run = _descent if setup.theorem in (1, 2) else _linearised
        metrics, arrays = run(loss, weights, setup, product)
    return Result(metrics, (), arrays)


class Problem(NamedTuple):
    loss: Loss
    weights: jax.Array


def _problem(setup: Setup) -> Problem:
    """sin(2 pi x) by two hidden layers of tanh, or (Theorem 2) by the second grade on top of a trained first one."""
    width, seed = setup.width, setup.seed
    x = np.linspace(0, 1, setup.points)[:, None]
    y, network = np.sin(2 * np.pi * x), Network((1, width, width, 1), "tanh", "glorot")
    if setup.theorem == 2:
        structure = graded(1, [(width,)] * 2, 1, activation="tanh", weight_init="glorot")
        first = fit_grades(structure[:1], x, y, Plan(1000, "gd", learning_rate=0.1, seed=seed))
        x, y, network = first.model.features(x), y - first.model(x), structure[1]
    weights = network.init(jax.random.fold_in(jax.random.key(seed), 1))
    flat, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), weights))
    x, y = (jnp.asarray(array, jnp.float64) for array in (x, y))

    def loss(weights):
        """1/(2N) sum ||y - N(x)||^2, eq. (DNNs loss)."""
        return 0.5 * jnp.mean(jnp.sum((network(unravel(weights), x) - y) ** 2, axis=1))

    return Problem(loss, flat)


def _pushed(weights, size: float, setup: Setup):
    """The weights moved aside in a random direction, by this share of their length."""
    push = jax.random.normal(jax.random.fold_in(jax.random.key(setup.seed), 2), weights.shape, jnp.float64)
    return weights + size * jnp.linalg.norm(weights) * push / jnp.linalg.norm(push)


@functools.partial(jax.jit, static_argnums=(0, 3))
def _path(loss: Loss, weights, rate, num_steps: int):
    """Weights, losses and gradient norms of descent at steps 0, 1, ..., num_steps - 1."""

    def step(weights, _):
        value, slope = jax.value_and_grad(loss)(weights)
        return weights - rate * slope, (weights, value, jnp.linalg.norm(slope))

    return jax.lax.scan(step, weights, length=num_steps)[1]


@functools.partial(jax.jit, static_argnums=(0, 1))
def _eigenvalues(loss: Loss, product: Product, points):
    """(points, 2): the smallest and largest eigenvalue of the Hessian at each of them."""

    def ends(weights):
        columns = jax.vmap(functools.partial(product, loss, weights))(jnp.eye(len(weights), dtype=weights.dtype))
        found = jnp.linalg.eigvalsh((columns + columns.T) / 2)
        return jnp.stack([found[0], found[-1]])

    return jax.lax.map(ends, points, batch_size=16)


def _descent(loss: Loss, weights, setup: Setup, product: Product) -> tuple[dict, dict]:
    """Descent at the asked share of 2 / alpha, alpha over all of its own iterates: the rate is lowered until it is."""
    num_steps, share = setup.epochs, setup.share
    rate = START * 2 / _alpha(loss, product, weights[None])
    start = _pushed(_path(loss, weights, rate, 10 * num_steps)[0][-1], setup.push, setup)
    alpha = _alpha(loss, product, start[None])
    for _ in range(MAX_TRIES):
        rate = share * 2 / alpha
        points, losses, slopes = _path(loss, start, rate, num_steps)
        seen = _alpha(loss, product, points)
        if seen <= alpha * (1 + 1e-9):
            break
        alpha = seen
    else:
        raise ValueError(f"no rate down to {rate:g} stays at {share:g} of 2 / alpha along its path")
    losses, slopes = np.asarray(losses), np.asarray(slopes)
    wild = np.asarray(_path(loss, start, OUTSIDE * 2 / alpha, num_steps)[1])
    excess = np.diff(losses) + rate * (1 - rate * alpha / 2) * slopes[:-1] ** 2
    metrics = {
        "rate": rate, "alpha": alpha, "limit": 2 / alpha, "share": rate * alpha / 2,
        "violations": int(np.count_nonzero(~(excess <= ROUNDING * losses[0]))), "num_steps": num_steps,
        "first_loss": float(losses[0]), "last_loss": float(losses[-1]),
        "first_gradient": float(slopes[0]), "last_gradient": float(slopes[-1]),
        "outside_rate": OUTSIDE * 2 / alpha, "outside_rises": _rises(wild),
    }  # fmt: skip
    return metrics, {"losses": losses, "gradient_norms": slopes, "outside_losses": wild}


def _alpha(loss: Loss, product: Product, points) -> float:
    return float(jnp.max(jnp.abs(_eigenvalues(loss, product, points))))


def _rises(losses: np.ndarray) -> int:
    """Steps at which the loss rose by more than rounding, or was no number any more."""
    with np.errstate(invalid="ignore", over="ignore"):
        return int(np.count_nonzero(~(np.diff(losses) <= ROUNDING * losses[0])))


def _linearised(loss: Loss, weights, setup: Setup, product: Product) -> tuple[dict, dict]:
    """W^k and its linearisation V^k on their way to a strict local minimum of the penalised loss."""
    penalty, num_steps = setup.penalty, LONGER * setup.epochs

    def penalised(weights):
        return loss(weights) + 0.5 * penalty * jnp.sum(weights**2)

    minimum = _minimum(penalised, weights)
    start = _pushed(minimum, setup.push, setup)
    rate = 1 / _alpha(penalised, product, jnp.stack([start, minimum]))
    path = _side_by_side(penalised, product, start, minimum, rate, num_steps)
    errors, linear_errors, distances, steps, remainders, looked = (np.asarray(row) for row in path)
    every = max(len(errors) // 1000, 1)
    ends = np.asarray(_eigenvalues(penalised, product, jnp.concatenate([looked, minimum[None]])))
    tau = float(np.max(np.abs(1 - rate * ends)))
    metrics = {
        "rate": rate, "alpha": float(np.abs(ends).max()), "tau": tau, "is_contraction": tau < 1,
        "smallest_eigenvalue": float(ends[-1, 0]), "explained": _explained(loss, minimum),
        "first_error": float(errors[0]), "last_error": float(errors[-1]),
        "last_linearised_error": float(linear_errors[-1]),
        "largest_distance": float(distances.max()), "last_distance": float(distances[-1]),
        "order": _order(steps, remainders),
        # 1 - the long-run contraction, over eta lambda_min: 1 if the Hessian is right.
        "pace": (1 - _contraction(errors)) / float(rate * ends[-1, 0]),
        "linearised_pace": (1 - _contraction(linear_errors)) / float(rate * ends[-1, 0]),
        "worst_contraction": float(np.max(errors[1:] / errors[:-1], where=errors[1:] > 1e-9, initial=0)),
    }  # fmt: skip
    arrays = {"distances": distances, "errors": errors, "linearised_errors": linear_errors,
              "steps": steps, "remainders": remainders}  # fmt: skip
    return metrics, {name: array[::every] for name, array in arrays.items()} | {"every": np.int32(every)}


def _minimum(loss: Loss, weights) -> jax.Array:
    """A strict local minimum, to rounding: trust regions, then Newton steps."""
    value, slope, hessian = (jax.jit(each) for each in (loss, jax.grad(loss), jax.hessian(loss)))
    derivatives = {"jac": lambda w: np.asarray(slope(w)), "hess": lambda w: np.asarray(hessian(w))}
    options = {"maxiter": 2000, "gtol": 1e-9}
    found = minimize(
        lambda w: float(value(w)), np.asarray(weights), method="trust-exact", options=options, **derivatives
    )
    weights = jnp.asarray(found.x)
    for _ in range(5):
        weights = weights - jnp.linalg.solve(hessian(weights), slope(weights))
    return weights


@functools.partial(jax.jit, static_argnums=(0, 1, 5))
def _side_by_side(loss: Loss, product: Product, start, minimum, rate, num_steps: int):
    """Norms at each step: W^k - W*, V^k - W*, W^k - V^k, the step and its remainder; and W^k at 100 moments.

    V^{k+1} = A^{k-1} V^k - eta u^{k-1}, eq. (GD matrix form linear approxi), is V^k - eta (grad L(W^{k-1}) +
    H(W^{k-1}) (V^k - W^{k-1})): the gradient as the last point but one would predict it. V^0 = W^0, V^1 = W^1.
    """
    slope, norm = jax.grad(loss), jnp.linalg.norm

    def predicted(before, point):
        return point - rate * (slope(before) + product(loss, before, point - before))

    def step(carry, _):
        before, current, linear = carry
        after = current - rate * slope(current)
        row = (norm(current - minimum), norm(linear - minimum), norm(current - linear), norm(current - before),
               norm(after - predicted(before, current)), current)  # fmt: skip
        return (current, after, predicted(before, linear)), row

    first = start - rate * slope(start)
    *rows, points = jax.lax.scan(step, (start, first, first), length=num_steps)[1]
    return *rows, points[:: max(num_steps // 100, 1)]


def _explained(loss: Loss, weights) -> float:
    """The share of the target's mean square that the network accounts for: 0 if it does nothing."""
    return float(1 - loss(weights) / loss(jnp.zeros_like(weights)))


def _order(steps: np.ndarray, remainders: np.ndarray) -> float:
    """p in ||r|| ~ ||dW||^p, by least squares on logarithms of what is above rounding."""
    seen = (steps > SMALLEST_STEP) & (remainders > 0)
    return float(np.polyfit(np.log(steps[seen]), np.log(remainders[seen]), 1)[0]) if seen.sum() > 10 else float("nan")


def _contraction(errors: np.ndarray) -> float:
    """The factor by which an error shrinks per step in the long run, before rounding stops it."""
    seen = np.flatnonzero(errors > 1e-9)
    last = seen[-1] if len(seen) else 0
    return float((errors[last] / errors[last - LATE]) ** (1 / LATE)) if last > LATE else float("nan")
