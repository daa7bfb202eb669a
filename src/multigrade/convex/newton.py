"""A proximal point method whose steps are solved by Newton's method, on a working set of groups.

Step k minimises the objective plus ||u - u_k||^2 / (2 sigma_k). Its dual has no constraints: with the proximal map
prox(z) = argmin_u 1/2 ||u - z||^2 + sigma beta ||u|| over the cones, it is to minimise over lambda in R^N

    phi(lambda) = 1/2 ||lambda||^2 - e'lambda + ||prox(u_k + sigma F'lambda)||^2 / (2 sigma),
    phi' = lambda - e + F prox(u_k + sigma F'lambda),    phi'' = I + sigma F J F',

and then u_{k+1} = prox(u_k + sigma F'lambda). phi' is piecewise smooth, and J, a derivative of prox, is 0 for every
group that prox sets to 0, and otherwise, with p = Pi_K(z) and Q the projection onto the constraints active at p,

    J = (1 - t) Q + t pp' / ||p||^2,    t = sigma beta / ||p||.

(This is the semismooth Newton augmented Lagrangian method of Li, Sun and Toh, 2018, with cones.) A handful of steps
with growing sigma reach gaps of 1e-8 where first-order methods crawl, as on one-dimensional inputs with a bias. Each
Newton step factors a matrix of size min(N, G r), which is what limits it to some thousand points.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from . import cones
from .groups import Groups, adjoint, apply, project, relative_gap, shrink, squared_norm

FIRST_SIGMA, SIGMA_GROWTH, LAST_SIGMA = 10.0, 5.0, 1e11  # in units of 1 / ||F||^2; beyond, rounding wins
NEWTON_STEPS = 30  # for one sigma
SMALLEST_GRADIENT = 1e-11  # of phi, relative to ||e||: rounding


class _Trial(NamedTuple):
    """lambda and what phi, its gradient and its Hessian need there."""

    dual: Array
    value: Array
    gradient: Array
    weights: Array  # prox(u_k + sigma F'lambda)
    fit: Array
    projected: Array
    factors: Array
    norms: Array
    active: cones.ActiveSet


class _State(NamedTuple):
    trial: _Trial
    sigma: Array
    gap: Array
    gap_active: cones.ActiveSet
    iterations: Array
    rounds: Array


@jax.jit
def proximal_newton(groups: Groups, start: Array, tolerance: float, max_iterations: int) -> tuple[Array, Array]:
    """Weights whose relative gap over these groups is within ``tolerance``, and the number of Newton steps taken."""
    scale = jnp.linalg.norm(groups.target)
    unit = 1 / squared_norm(groups)

    def proximal_step(state: _State) -> _State:
        centre = state.trial.weights

        def goes_on(carry):
            trial, count, is_stuck = carry
            moved = jnp.linalg.norm(trial.weights - centre) / jnp.sqrt(state.sigma)
            wanted = jnp.maximum(jnp.minimum(0.1 * moved, 1e-3 * scale), SMALLEST_GRADIENT * scale)
            return (count == 0) | ((jnp.linalg.norm(trial.gradient) > wanted) & (count < NEWTON_STEPS) & ~is_stuck)

        def newton_step(carry):
            trial, count, _ = carry
            # The first pass stays in place: sigma and the centre have changed, so phi must be evaluated anew.
            direction = jnp.where(count == 0, 0.0, _direction(groups, trial, state.sigma))
            value = jnp.where(count == 0, jnp.inf, trial.value)
            trial, is_stuck = _line_search(groups, centre, state.sigma, trial, value, direction)
            return trial, count + 1, is_stuck

        trial, count, _ = jax.lax.while_loop(goes_on, newton_step, (state.trial, 0, False))
        gap, gap_active = relative_gap(groups, trial.weights, trial.fit, state.gap_active)
        sigma = jnp.minimum(state.sigma * SIGMA_GROWTH, LAST_SIGMA * unit)
        return _State(trial, sigma, gap, gap_active, state.iterations + count, state.rounds + 1)

    def goes_on(state: _State):
        return (state.gap > tolerance) & (state.iterations < max_iterations) & (state.rounds < 50)

    num_groups = len(groups.masks)
    none = cones.empty_active_set(num_groups, *groups.features.shape)
    fit, zeros = apply(groups, start), jnp.zeros(num_groups)
    dual = groups.target - fit
    trial = _Trial(dual, jnp.full((), jnp.inf), dual, start, fit, start, zeros, zeros, none)
    count = jnp.zeros((), int)
    first = _State(trial, FIRST_SIGMA * unit, jnp.full((), jnp.inf), none, count, count)
    last = jax.lax.while_loop(goes_on, proximal_step, first)
    return last.trial.weights, last.iterations


def _evaluate(groups: Groups, centre: Array, sigma: Array, dual: Array, active: cones.ActiveSet) -> _Trial:
    points = centre + sigma * adjoint(groups, dual)
    projected, active = project(groups, points, active)
    weights, factors, norms = shrink(projected, sigma * groups.regularisation)
    fit = apply(groups, weights)
    value = 0.5 * dual @ dual - groups.target @ dual + jnp.sum(weights**2) / (2 * sigma)
    return _Trial(dual, value, dual - groups.target + fit, weights, fit, projected, factors, norms, active)


def _line_search(groups: Groups, centre: Array, sigma: Array, trial: _Trial, value: Array, direction: Array):
    """Halve the step until phi decreases enough (Armijo); says whether it never did."""
    slope = trial.gradient @ direction

    def is_too_long(carry):
        candidate, length, count = carry
        rounding = 1e-14 * jnp.abs(value)
        return (count == 0) | ((candidate.value > value + 1e-4 * length * slope + rounding) & (count < 25))

    def shorten(carry):
        candidate, length, count = carry
        length = length / 2
        return _evaluate(groups, centre, sigma, trial.dual + length * direction, candidate.active), length, count + 1

    candidate, _, count = jax.lax.while_loop(is_too_long, shorten, (trial, jnp.full((), 2.0), 0))
    return candidate, count == 25


def _direction(groups: Groups, trial: _Trial, sigma: Array) -> Array:
    """-(I + B B')^-1 phi' with B = sqrt(sigma) F J^(1/2), through the smaller of B B' and B'B."""
    num_points = len(groups.target)
    root = jnp.sqrt(trial.factors)
    unit = trial.projected / jnp.maximum(trial.norms, 1e-300)[:, None]
    # J^(1/2): sqrt(1 - t) on the face, 1 along p, for the groups that are not 0.
    along = jnp.where(trial.factors > 0, 1 - root, 0.0)[:, None, None] * unit[:, :, None] * unit[:, None, :]
    roots = root[:, None, None] * cones.face_projections(trial.active, groups.masks, groups.directions) + along
    columns = jnp.einsum("nr,grs->ngs", groups.features, roots) * (groups.masks * groups.signs[:, None]).T[:, :, None]
    b = jnp.sqrt(sigma) * columns.reshape(num_points, -1)
    if b.shape[1] < num_points:
        factor = jnp.linalg.cholesky(jnp.eye(b.shape[1]) + b.T @ b)
        return b @ jax.scipy.linalg.cho_solve((factor, True), b.T @ trial.gradient) - trial.gradient
    factor = jnp.linalg.cholesky(jnp.eye(num_points) + b @ b.T)
    return -jax.scipy.linalg.cho_solve((factor, True), trial.gradient)
