"""Accelerated proximal gradient with restarts on a working set of groups, compiled as one loop.

Step 1 / ||F||^2; the proximal step projects onto the cones exactly, starting from the active constraints of the
step before; momentum starts afresh when it points uphill (O'Donoghue and Candes, 2015). Cost of a step: a few
products with X for each group. No system of equations larger than the rank of X is solved.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from . import cones
from .groups import Groups, adjoint, apply, project, relative_gap, shrink, squared_norm

STEPS_PER_CHECK = 20  # the gap costs about as much as a step


class _State(NamedTuple):
    weights: Array
    fit: Array  # F u
    ahead: Array  # the extrapolated point, and F of it
    fit_ahead: Array
    momentum: Array
    active: cones.ActiveSet
    gap: Array
    gap_active: cones.ActiveSet
    iterations: Array


@partial(jax.jit, static_argnames="has_cones")
def accelerated_proximal_gradient(
    groups: Groups, start: Array, tolerance: float, max_iterations: int, has_cones: bool = True
) -> tuple[Array, Array]:
    """Weights whose relative gap over these groups is within ``tolerance``, and the number of steps taken."""
    length = 1 / squared_norm(groups)

    def step(_, state: _State) -> _State:
        points = state.ahead + length * adjoint(groups, groups.target - state.fit_ahead)
        projected, active = project(groups, points, state.active, has_cones)
        weights, _, _ = shrink(projected, length * groups.regularisation)
        fit = apply(groups, weights)
        is_uphill = jnp.sum((state.ahead - weights) * (weights - state.weights)) > 0
        old = jnp.where(is_uphill, 1.0, state.momentum)
        new = (1 + jnp.sqrt(1 + 4 * old**2)) / 2
        push = (old - 1) / new
        ahead = weights + push * (weights - state.weights)
        fit_ahead = fit + push * (fit - state.fit)
        return state._replace(weights=weights, fit=fit, ahead=ahead, fit_ahead=fit_ahead, momentum=new, active=active)

    def steps_and_check(state: _State) -> _State:
        state = jax.lax.fori_loop(0, STEPS_PER_CHECK, step, state)
        gap, gap_active = relative_gap(groups, state.weights, state.fit, state.gap_active, has_cones)
        return state._replace(gap=gap, gap_active=gap_active, iterations=state.iterations + STEPS_PER_CHECK)

    def goes_on(state: _State):
        return (state.gap > tolerance) & (state.iterations < max_iterations)

    fit, none = apply(groups, start), cones.empty_active_set(len(groups.masks), *groups.features.shape)
    first = _State(start, fit, start, fit, jnp.ones(()), none, jnp.full((), jnp.inf), none, jnp.zeros((), int))
    last = jax.lax.while_loop(goes_on, steps_and_check, first)
    return last.weights, last.iterations
