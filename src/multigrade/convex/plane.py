"""The program in the plane (one input with a bias, or two without), neuron by neuron: thousands of rows in seconds.

A cone in the plane has two walls, so that its projection is a formula and the dual norms of all patterns cost one
product. In turn:

- Every cone's best neuron max {lambda'D_i X u : u in K_i, ||u|| <= 1} is found, and those that violate the dual join.
- Non-negative factors of all neurons are solved for, min 1/2 ||F a - e||^2 + beta sum a; neurons at 0 leave, and
  those of one cone become their sum, which costs no more.

The first gives the dual bound, the second a point. Directions inside a cone come closer by each round, fast in the end.
"""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .program import ConvexProgram

MAX_ROUNDS = 200  # our choice
MOST_NEW = 48  # neurons that join in a round


def walls_of(patterns: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The normals of the two walls of each cone, (P, 2, 2), pointing inwards: those with the largest angle between."""
    normals, is_row = np.empty((len(patterns), 2, 2)), np.any(directions != 0, axis=1)
    for first in range(0, len(patterns), 256):  # bounds the memory
        signs = np.where(patterns[first : first + 256], 1.0, -1.0) * is_row
        middle = signs @ directions  # within the half plane in which all normals are
        along = signs * (middle @ directions.T)
        across = signs * (middle @ (directions @ [[0.0, -1.0], [1.0, 0.0]]).T)
        angle = np.where(is_row, np.arctan2(across, along), 0.0)
        for side, row in enumerate((angle.argmin(axis=1), angle.argmax(axis=1))):
            chosen = np.take_along_axis(signs, row[:, None], axis=1)
            normals[first : first + 256, side] = chosen * directions[row]
    return normals


def project(points: np.ndarray, walls: np.ndarray) -> np.ndarray:
    """z where it meets both constraints, else its projection on the one line that meets the other, else 0."""
    products = np.einsum("...gr,gmr->...gm", points, walls)
    on_line = points[..., None, :] - products[..., None] * walls
    other = np.einsum("...gmr,gmr->...gm", on_line, walls[:, ::-1])
    rounding = 1e-14 * np.linalg.norm(points, axis=-1, keepdims=True)
    is_on = (products < 0) & (other >= -rounding)
    conditions = [np.all(products >= 0, axis=-1), is_on[..., 0], is_on[..., 1]]
    return np.select([c[..., None] for c in conditions], [points, on_line[..., 0, :], on_line[..., 1, :]], 0.0)


def best_neurons(program: "ConvexProgram", dual: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Pi_{K_i}(+-X'D_i lambda), (2, P, 2); their lengths are the dual norms."""
    gradients = np.where(program.patterns, dual, 0.0) @ features
    assert program.walls is not None
    return project(np.stack([gradients, -gradients]), program.walls)


def solve_in_the_plane(program: "ConvexProgram", *, tolerance: float) -> tuple[np.ndarray, np.ndarray, int]:
    """Weights (outputs, 2, P, d) to a relative gap of ``tolerance`` if it can be had, duals (N, outputs), rounds."""
    from .program import reduced

    features, _, basis = reduced(program)
    weights, duals, count = np.zeros(program.point_shape), np.zeros_like(program.targets), 0
    for k, target in enumerate(program.targets.T):
        vectors, where, duals[:, k], rounds = _solve_output(program, features, target, tolerance)
        weights[k][where] = vectors @ basis.T
        count += rounds
    return weights, duals, count


def _solve_output(program, features, target, tolerance):
    from .certificate import scaled_dual_value
    from .far import nonnegative_least_squares

    beta, num_patterns = program.regularisation, program.num_patterns
    vectors, cones, residual = np.zeros((0, 2)), np.zeros(0, int), target  # the cone's number, side * P + pattern
    best, rounds = (np.inf, vectors, cones, residual), 0
    for _ in range(MAX_ROUNDS):
        rounds, lengths = rounds + 1, np.linalg.norm(vectors, axis=1)
        value = 0.5 * residual @ residual + beta * lengths.sum()
        found = best_neurons(program, residual, features).reshape(-1, 2)
        norms = np.linalg.norm(found, axis=1)
        gap = (value - scaled_dual_value(residual, target, float(norms.max()), beta)) / max(value, 1e-300)
        best = min(best, (gap, vectors, cones, residual), key=lambda one: one[0])
        violating = np.flatnonzero(norms > beta * (1 + 1e-12))
        if best[0] <= tolerance or not len(violating):
            break
        # Neighbouring cones say nearly the same: the best of each block of patterns, and those of cones in use.
        order = violating[np.argsort(-norms[violating])]
        _, first = np.unique(order // max(2 * num_patterns // MOST_NEW, 1), return_index=True)
        new = np.union1d(order[first], np.intersect1d(violating, cones))
        cones = np.concatenate([cones, new])
        units = np.concatenate([vectors / lengths[:, None], found[new] / norms[new, None]])
        sides = np.where(cones < num_patterns, 1.0, -1.0)
        columns = np.maximum(features @ units.T, 0) * sides
        scale = np.linalg.norm(columns, axis=0)
        q, r = np.linalg.qr(columns / scale)
        factors = nonnegative_least_squares(r, q.T @ target, beta / scale)[0] / scale
        # The neurons of one cone become one.
        cones, group = np.unique(cones, return_inverse=True)
        sums = np.zeros((len(cones), 2))
        np.add.at(sums, group, factors[:, None] * units)
        is_used = np.any(sums != 0, axis=1)
        vectors, cones = sums[is_used], cones[is_used]
        sides = np.where(cones < num_patterns, 1.0, -1.0)
        residual = target - np.maximum(features @ vectors.T, 0) @ sides
    _, vectors, cones, residual = best
    return vectors, (cones // num_patterns, cones % num_patterns), residual, rounds
