"""Whether a problem determines u: by the change of u that is noticed least by all that should vanish.

    minimise  sum over g of (||J_g v|| / size_g)^2   over the changes v of u with ||v|| = ||u||,

where g runs over the equation, the conditions and the data, J_g v is how much g changes with u, and the norms are root
mean squares over points. Where a condition is missing, some v solves the problem without its sources, and the minimum
is what the features cannot resolve of it. Otherwise the minimum says how stable the problem is: 0.001 or more for the
ready problems. Nothing is said where there are more unknown functions than equations: waves that vanish at all data
then solve the problem, and it is for u to be smooth.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular

from ..least_squares import triangle_of
from ..sines import lattice
from .problem import Problem
from .rows import Basis, Group, draw_groups, jacobian, residual_of, rms, sines_with_filling, usual_scales

# u is arbitrary if it can change by its own size and what should vanish changes by less than this part of its size. In
# one dimension features resolve v to rounding, and u' = 20 u, which is stable to 3e-8, is told apart.
UNDETERMINED, UNDETERMINED_IN_1D = 3e-6, 1e-9
NUM_LONG_WAVES = 4  # that tell the size of what should vanish
MAX_COLUMNS = 600  # coefficients over which v is looked for: the first ones of u, and longer waves if these are few
POINTS_PER_FEATURE = 3  # inside, and half as many for each condition
RIDGE = 1e-10  # its root, relative to the size of a feature: large coefficients that cancel are no change of u
NUM_VECTORS, NUM_ITERATIONS = 8, 6  # of the subspace iteration for the smallest v


def usual_sizes(problem: Problem, basis: Basis, groups: Sequence[Group]) -> tuple[np.ndarray, np.ndarray]:
    """Root mean squares of each group: for u as it starts, and for waves as long as the domain and as large as u."""
    start, size = Basis.of(problem, basis.coordinates), rms(basis.values(groups[0].points)) or 1.0
    at_start = [rms(residual_of(start, group)) for group in groups]
    scales = usual_scales(start, groups, NUM_LONG_WAVES)
    for_waves = [size * g.weight / (s * np.sqrt(len(g.points))) for g, s in zip(groups, scales, strict=True)]
    return np.array(at_start), np.array(for_waves)


def unnoticed_change(problem: Problem, basis: Basis, held_out: Sequence[Group]) -> float | None:
    """``least_noticed_change`` where it is so small that u is arbitrary; None otherwise."""
    if residual_of(basis, held_out[0]).shape[1] < problem.num_unknowns:
        return None
    change = least_noticed_change(problem, basis, held_out)
    return change if change < (UNDETERMINED_IN_1D if len(basis.box.low) == 1 else UNDETERMINED) else None


def least_noticed_change(problem: Problem, basis: Basis, held_out: Sequence[Group]) -> float:
    """The minimum above, for the v that is found at points of its own; its norms are those at held-out points.

    size_g is the smaller one of the two sizes of ``usual_sizes``, but for sources of 0 (or of rounding).
    """
    num_own = len(basis.layer.bias)
    most = MAX_COLUMNS // problem.num_unknowns
    num_long = min(sines_with_filling(num_own), most) // 2 - num_own // 2
    grown = basis.grown(lattice(len(basis.box.low), num_long)) if num_long > 0 else basis
    num_z = len(grown.layer.weight)
    features = np.r_[: num_z + min(num_own, most), num_z + num_own : grown.num_features]
    start = Basis.of(problem, basis.coordinates)
    count = POINTS_PER_FEATURE * len(features)
    groups = draw_groups(problem, start, np.random.default_rng(4), count, count // 2)
    features = features[: max(len(groups[0].points) // 2, 1)]  # of a cloud, which has no more points

    at_start, for_waves = usual_sizes(problem, basis, held_out)
    sizes = np.where(at_start > 1e-10 * for_waves, np.minimum(at_start, for_waves), for_waves)
    size_of_u = rms(basis.values(held_out[0].points)) or 1.0
    columns = (features[:, None] * problem.num_unknowns + np.arange(problem.num_unknowns)).ravel()

    def changes(groups: Sequence[Group]) -> np.ndarray:
        parts = [np.concatenate([rows[:, columns] for rows, _ in jacobian(grown, group)]) for group in groups]
        return np.concatenate([p / (np.sqrt(len(g.points)) * s) for p, g, s in zip(parts, groups, sizes, strict=True)])

    def values(points: np.ndarray) -> np.ndarray:
        """v relative to u, (points times unknowns, coefficients)."""
        at_points = grown.features(points)[:, features] / (np.sqrt(len(points)) * size_of_u)
        return np.kron(at_points, np.eye(problem.num_unknowns))

    least = smallest(changes(groups), values(groups[0].points))
    return float(np.linalg.norm(changes(held_out) @ least) / np.linalg.norm(values(held_out[0].points) @ least))


def smallest(changes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """c with the smallest (||changes c||^2 + ridge ||c||^2) / ||values c||^2, by subspace iteration."""
    column = np.linalg.norm(values) / np.sqrt(changes.shape[1])
    damping = RIDGE * column * np.eye(changes.shape[1])
    triangle = triangle_of(np.concatenate([changes, damping]))
    vectors = np.random.default_rng(0).normal(size=(changes.shape[1], NUM_VECTORS))
    for _ in range(NUM_ITERATIONS):
        found = solve_triangular(triangle, np.linalg.qr(vectors)[0])
        vectors = solve_triangular(triangle, values.T @ (values @ found), trans="T")
    found = solve_triangular(triangle, np.linalg.qr(vectors)[0])
    _, _, rotation = np.linalg.svd(values @ found, full_matrices=False)
    return found @ rotation[0]
