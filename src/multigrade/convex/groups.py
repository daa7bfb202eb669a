"""The program as a sum over groups, in a form that compiles: what the iterative solvers share.

A group g is a pattern with a sign, s_g = 1 for u_i and -1 for v_i; the program for one output is

    min 1/2 ||F u - e||^2 + beta sum_g ||u_g||    s.t. u_g in K_g,    F u = sum_g s_g D_g X u_g.

F is never formed: D_g X u_g is a mask times a product with X. The one non-smooth step, shared by both methods, is

    argmin_u 1/2 ||u - z||^2 + t ||u|| over K  =  (1 - t / ||p||)_+ p,    p = Pi_K(z),

so that every iterate is feasible and has a duality gap. All arrays are float64; callers switch that on in a scope.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from . import cones


class Groups(NamedTuple):
    """A working set of groups with the data; groups that fill up the shape have an empty mask and sign 0."""

    masks: Array  # (G, N), boolean
    signs: Array  # (G,)
    features: Array  # X in a basis of its row space, (N, r)
    directions: Array  # its rows at unit length
    target: Array  # e, (N,)
    regularisation: Array  # beta


def apply(groups: Groups, weights: Array) -> Array:
    """F u, (N,)."""
    return jnp.sum(groups.masks * (weights @ groups.features.T) * groups.signs[:, None], axis=0)


def adjoint(groups: Groups, residual: Array) -> Array:
    """F'r, (G, r)."""
    return ((groups.masks * residual) @ groups.features) * groups.signs[:, None]


def squared_norm(groups: Groups) -> Array:
    """||F||^2 by 30 steps of the power method, with 2 % to spare."""

    def step(_, pair):
        weights, _ = pair
        image = adjoint(groups, apply(groups, weights))
        norm = jnp.linalg.norm(image)
        return image / jnp.maximum(norm, 1e-300), norm

    start = adjoint(groups, jnp.ones(groups.features.shape[0])) + 1e-3
    return 1.02 * jax.lax.fori_loop(0, 30, step, (start / jnp.linalg.norm(start), jnp.zeros(())))[1] + 1e-300


def shrink(points: Array, amount: Array) -> tuple[Array, Array, Array]:
    """(1 - t / ||p||)_+ p with the factors and the norms."""
    norms = jnp.linalg.norm(points, axis=1)
    factors = jnp.maximum(1 - amount / jnp.maximum(norms, 1e-300), 0.0)
    return points * factors[:, None], factors, norms


def project(groups: Groups, points: Array, active: cones.ActiveSet, has_cones: bool = True):
    """Pi_{K_g}(z_g); z itself for the relaxation without cones."""
    return cones.project(points, groups.masks, groups.directions, active) if has_cones else (points, active)


def relative_gap(groups: Groups, weights: Array, fit: Array, active: cones.ActiveSet, has_cones: bool = True):
    """(objective - dual bound) / objective over the working set, and the active sets of the dual norms."""
    residual, beta = groups.target - fit, groups.regularisation
    projected, active = project(groups, adjoint(groups, residual), active, has_cones)
    limit = beta / jnp.maximum(jnp.max(jnp.linalg.norm(projected, axis=1)), 1e-300)
    square, inner = residual @ residual, groups.target @ residual
    scale = jnp.clip(inner / jnp.maximum(square, 1e-300), -limit, limit)
    objective = 0.5 * square + beta * jnp.sum(jnp.linalg.norm(weights, axis=1))
    return 1 - (scale * inner - 0.5 * scale**2 * square) / jnp.maximum(objective, 1e-300), active
