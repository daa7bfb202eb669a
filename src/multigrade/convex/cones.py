"""Projection onto the cones K_i = {u : (2D_i - I)Xu >= 0}, many at once.

By Moreau's decomposition the projection of z onto K = {u : Au >= 0} is

    Pi_K(z) = z + A'mu,    mu = argmin_{mu >= 0} 1/2 ||z + A'mu||^2,

a non-negative least squares problem with as many unknowns as there are rows, of which at most rank(X) are not 0.
Lawson and Hanson's active-set method solves it exactly in a few steps; here one step is taken for all cones
together, so that it compiles into products with X and small linear systems. Two facts carry the whole package:

- ||Pi_K(z)|| = max {z'u : u in K, ||u|| <= 1}, so projections give dual norms;
- any mu >= 0 bounds it from above, ||Pi_K(z)|| <= ||z + A'mu||, so certificates hold even if a step is missing.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

SLACK_TOLERANCE = 1e-10  # constraints violated by less than this fraction of ||z|| count as met


class ActiveSet(NamedTuple):
    """Rows with a positive multiplier, at most rank many for each cone; a good start for a nearby z."""

    rows: Array  # (cones, rank) row numbers; N stands for "none"
    multipliers: Array  # (cones, rank), at least 0


def empty_active_set(num_cones: int, num_rows: int, rank: int) -> ActiveSet:
    return ActiveSet(jnp.full((num_cones, rank), num_rows, jnp.int32), jnp.zeros((num_cones, rank), jnp.float64))


def project(points: Array, patterns: Array, directions: Array, start: ActiveSet) -> tuple[Array, ActiveSet]:
    """Pi_{K_g}(z_g) for all g, with the active sets at which it was found.

    Args:
        points: z, (cones x rank).
        patterns: one boolean pattern for each cone, (cones x N).
        directions: the rows of X divided by their norms (zero rows stay zero), (N x rank); lengths do not change a
            cone but would change what "violated most" means.
        start: active sets to begin with, for instance those of a nearby z.
    """
    num_rows, rank = directions.shape
    signs = 2.0 * patterns - 1.0
    scale = jnp.linalg.norm(points, axis=1)

    def step(state):
        active, is_done, _, count = state
        constraints = _active_constraints(active, patterns, directions)
        is_free = active.rows == num_rows
        best = _least_squares(constraints, points, is_free)
        is_blocked = jnp.any((best <= 0) & ~is_free, axis=1)
        shortened = _drop_first_to_vanish(active, best, is_free, num_rows)
        projected = points + jnp.einsum("gk,gkr->gr", jnp.maximum(best, 0.0), constraints)
        slack = (projected @ directions.T) * signs
        worst = jnp.argmin(slack, axis=1).astype(active.rows.dtype)
        is_met = jnp.min(slack, axis=1) >= -SLACK_TOLERANCE * scale
        is_full = ~jnp.any(is_free, axis=1)
        extended = _add(ActiveSet(active.rows, best), worst, is_free, ~is_met & ~is_full)
        chosen = _select(is_done, active, _select(is_blocked, shortened, extended))
        return chosen, is_done | (~is_blocked & (is_met | is_full)), projected, count + 1

    def goes_on(state):
        _, is_done, _, count = state
        return ~jnp.all(is_done) & (count < 20 + 10 * rank)

    active, _, projected, _ = jax.lax.while_loop(goes_on, step, (start, scale == 0, points, 0))
    return projected, active


def face_projections(active: ActiveSet, patterns: Array, directions: Array) -> Array:
    """Q = I - A'(AA')^-1 A for the active rows A: near z, Pi_K is Q; (cones x rank x rank)."""
    constraints = _active_constraints(active, patterns, directions)
    factor = _gram_factor(constraints, active.rows == len(directions))
    half = jax.lax.linalg.triangular_solve(factor, constraints, left_side=True, lower=True)
    return jnp.eye(directions.shape[1]) - jnp.einsum("gkr,gks->grs", half, half)


def _active_constraints(active: ActiveSet, patterns: Array, directions: Array) -> Array:
    """The active rows of A = (2D - I)X, zero in free slots, (cones x rank x rank)."""
    rows = jnp.minimum(active.rows, len(directions) - 1)
    signs = jnp.where(active.rows < len(directions), 2.0 * jnp.take_along_axis(patterns, rows, 1) - 1.0, 0.0)
    return directions[rows] * signs[:, :, None]


def _gram_factor(constraints: Array, is_free: Array) -> Array:
    gram = jnp.einsum("gkr,glr->gkl", constraints, constraints)
    return jnp.linalg.cholesky(gram + jnp.where(is_free, 1.0, 1e-14)[:, :, None] * jnp.eye(gram.shape[1]))


def _least_squares(constraints: Array, points: Array, is_free: Array) -> Array:
    """Multipliers that make the active constraints tight: (AA') mu = -Az; free slots get 0."""
    factor = _gram_factor(constraints, is_free)
    right = -jnp.einsum("gkr,gr->gk", constraints, points)
    half = jax.lax.linalg.triangular_solve(factor, right[:, :, None], left_side=True, lower=True)
    return jax.lax.linalg.triangular_solve(factor, half, left_side=True, lower=True, transpose_a=True)[:, :, 0]


def _drop_first_to_vanish(active: ActiveSet, best: Array, is_free: Array, num_rows: int) -> ActiveSet:
    """Move towards ``best`` until a multiplier reaches 0, and free its slot (the inner loop of Lawson and Hanson)."""
    old = active.multipliers
    blocks = (best <= 0) & ~is_free
    fraction = jnp.where(blocks, old / jnp.where(blocks, old - best, 1.0), jnp.inf)
    fraction = jnp.where(blocks & (old - best <= 0), 0.0, fraction)
    length = jnp.min(fraction, axis=1, keepdims=True)
    moved = old + jnp.where(jnp.isfinite(length), length, 0.0) * (best - old)
    leaves = blocks & (fraction <= length)
    return ActiveSet(jnp.where(leaves, num_rows, active.rows), jnp.where(leaves, 0.0, jnp.maximum(moved, 0.0)))


def _add(active: ActiveSet, row: Array, is_free: Array, wanted: Array) -> ActiveSet:
    """Put ``row`` into the first free slot where ``wanted``."""
    slot = (jnp.cumsum(is_free, axis=1) == 1) & is_free & wanted[:, None]
    return ActiveSet(jnp.where(slot, row[:, None], active.rows), active.multipliers)


def _select(condition: Array, yes: ActiveSet, no: ActiveSet) -> ActiveSet:
    return ActiveSet(*(jnp.where(condition[:, None], a, b) for a, b in zip(yes, no, strict=True)))
