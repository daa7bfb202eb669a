"""A bound on the error of u: the largest change of u that everything that should vanish does not notice.

    maximise ||v|| / ||u||   over   ||J_g v|| <= ||r_g||  for every group g: the equation, each condition, the data.

J_g v is how much g changes with u, r_g what is left of it, and norms are root mean squares over points. The error
e = u - (solution) has J_g e = r_g where the problem is linear, so that it is one of these v. Where it is not, J is the
linearisation at u, which holds if the change v that was found changes r as foreseen. The v are looked for among the
features of u and finer ones. Where the maximum still grows with the number of features it is taken to go on growing.

The maximum is worse than the error where r oscillates, which a worst v does not. The grade before, whose error is known
by now, tells how much of its residual became error; no more than 30 times that is expected of the last one.

Nothing is said where there are more unknown functions than equations: waves that vanish at all data then solve the
problem, and it is for u to be smooth.
"""

import dataclasses
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
MAX_COLUMNS = 600  # coefficients over which v is looked for: those that are noticed least, and longer waves if few
POINTS_PER_FEATURE = 3  # inside, and half as many for each condition
RIDGE = 1e-12  # its root, relative to the size of a feature
NUM_VECTORS, NUM_ITERATIONS = 8, 6  # of the subspace iteration for the smallest v
SAFETY = 2.0  # norms are estimated at points
EXPECTED = 30.0  # times as much of the residual becomes error as in the grade before, at most
IS_RESOLVED = 0.1  # a worst error above says nothing of grades to come
DISPARITY = (
    1e-5  # of the largest residual relative to its size: a smaller one is taken for so large, for rounding's sake
)
AT_ROUNDING = 1e-13  # of its size, a group has no part in the error
ROUNDING = 1e-13  # error of u relative to the sum of its coefficients
LEAST_STEP = 1e-6  # of u, for which it is tried whether a problem is nearly linear
UNSETTLED = 4.0  # the maximum over all features relative to that over half of them, where a condition is missing


@dataclasses.dataclass(frozen=True)
class Bound:
    """How wrong u can be.

    Parameters
    ----------
    error : float
        Bound on the root mean square error of u, relative to u; infinite where nothing can be said.
    noticed : float
        By which part of its size what should vanish changes if u changes by its own size, in the direction that is
        noticed least.
    """

    error: float
    noticed: float


UNKNOWN = Bound(np.inf, np.inf)


def usual_sizes(problem: Problem, basis: Basis, groups: Sequence[Group]) -> tuple[np.ndarray, np.ndarray]:
    """Root mean squares of each group: for u as it starts, and for waves as long as the domain and as large as u."""
    start, size = Basis.of(problem, basis.coordinates), rms(basis.values(groups[0].points)) or 1.0
    nothing = Basis.constant(basis.coordinates, np.zeros(problem.num_unknowns)) if callable(problem.start) else start
    at_start = [rms(residual_of(nothing, group)) for group in groups]
    scales = usual_scales(start, groups, NUM_LONG_WAVES)
    for_waves = [size * g.weight / (s * np.sqrt(len(g.points))) for g, s in zip(groups, scales, strict=True)]
    return np.array(at_start), np.array(for_waves)


def bound_error(problem: Problem, basis: Basis, before: Basis | None, held_out: Sequence[Group]) -> Bound:
    """How wrong u can be, where ``before`` is u without the last grade, if there is one."""
    left = np.array([rms(residual_of(basis, group)) for group in held_out])
    size_of_u = rms(basis.values(held_out[0].points))
    if residual_of(basis, held_out[0]).shape[1] < problem.num_unknowns or not size_of_u or not np.isfinite(left).all():
        return UNKNOWN
    changes = _Changes(problem, basis, held_out, left)
    worst, noticed = changes.worst(left)
    worst *= 1.0 if problem.is_linear else changes.linearity()
    if changes.growth > UNSETTLED and len(basis.box.low) > 1:  # the features do not resolve what is noticed least
        noticed = 0.0
    if before is None or not worst < IS_RESOLVED:
        return Bound(worst, noticed)
    left_before = np.array([rms(residual_of(before, group)) for group in held_out])
    counts = left > AT_ROUNDING * changes.sizes
    left_before = np.maximum(left_before, 1e-3 * AT_ROUNDING * changes.sizes)
    share = float(np.max(left[counts] / left_before[counts], initial=0.0))
    return Bound(
        min(worst, sharper(basis, held_out[0].points, share * basis.change_from(before, held_out[0].points))), noticed
    )


def sharper(basis: Basis, points: np.ndarray, change: float) -> float:
    """A bound on the error, where ``change`` of u relative to u is the error that the residual has lately stood for."""
    return EXPECTED * change + ROUNDING * float(np.abs(basis.coefficients).sum() / rms(basis.values(points)))


class _Changes:
    """How features change what should vanish, in units of what is left of it, at points of their own."""

    def __init__(self, problem: Problem, basis: Basis, held_out: Sequence[Group], left: np.ndarray):
        self.problem, self.basis, self.held_out = problem, basis, held_out
        num_own, dimensions = len(basis.layer.bias), len(basis.box.low)
        most = MAX_COLUMNS // problem.num_unknowns
        num_waves = min(sines_with_filling(num_own), most) // 2
        finer = lattice(dimensions, max(num_waves, 1))[num_own // 2 :]
        self.grown = basis.grown(finer) if len(finer) else basis
        at_start, for_waves = usual_sizes(problem, basis, held_out)
        self.sizes = np.where(at_start > 1e-10 * for_waves, np.minimum(at_start, for_waves), for_waves)
        levels = np.maximum(left / for_waves, 1e-3 * AT_ROUNDING)
        self.units = np.maximum(levels, DISPARITY * levels.max()) * for_waves
        self.features = np.r_[self.grown.num_features - 1, : self.grown.num_features - 1]
        if len(self.features) > most:
            self.features = self._least_noticed(most, len(basis.layer.weight) + 1)
        start, count = Basis.of(problem, basis.coordinates), POINTS_PER_FEATURE * len(self.features)
        self.groups = draw_groups(problem, start, np.random.default_rng(4), count, count // 2)
        self.features = self.features[: max(len(self.groups[0].points) // 2, 1)]  # of a cloud, which has no more

    def _least_noticed(self, most: int, num_first: int) -> np.ndarray:
        """The first features, and those that change least of what should vanish for their size."""
        unknowns = self.problem.num_unknowns
        columns = self.rows(self.held_out, np.arange(self.grown.num_features * unknowns))
        noticed = np.linalg.norm(columns, axis=0).reshape(-1, unknowns).min(axis=1)
        noticed = noticed / np.linalg.norm(self.grown.features(self.held_out[0].points), axis=0)
        first, rest = self.features[:num_first], self.features[num_first:]
        return np.r_[first, rest[np.sort(np.argsort(noticed[rest])[: most - num_first])]]

    @property
    def columns(self) -> np.ndarray:
        unknowns = self.problem.num_unknowns
        return (self.features[:, None] * unknowns + np.arange(unknowns)).ravel()

    def rows(self, groups: Sequence[Group], columns: np.ndarray) -> np.ndarray:
        parts = [np.concatenate([rows[:, columns] for rows, _ in jacobian(self.grown, group)]) for group in groups]
        return np.concatenate(
            [p / (np.sqrt(len(g.points)) * unit) for p, g, unit in zip(parts, groups, self.units, strict=True)]
        )

    def values(self, points: np.ndarray) -> np.ndarray:
        """v relative to u, (points times unknowns, coefficients)."""
        at_points = self.grown.features(points)[:, self.features]
        at_points = at_points / (np.sqrt(len(points)) * rms(self.basis.values(self.held_out[0].points)))
        return np.kron(at_points, np.eye(self.problem.num_unknowns))

    def worst(self, left: np.ndarray) -> tuple[float, float]:
        """The maximum, with what it still grows by; and how much v is noticed."""
        changes, values = self.rows(self.groups, self.columns), self.values(self.groups[0].points)
        elsewhere, values_there = self.rows(self.held_out, self.columns), self.values(self.held_out[0].points)
        residuals = [residual_of(self.basis, group) for group in self.groups]
        left = np.maximum(left, [rms(r) for r in residuals])
        total = np.linalg.norm(left / self.units)
        triangle = damped_triangle(changes, values, RIDGE / float(np.max(self.units / self.sizes)))
        unknowns = self.problem.num_unknowns
        half = unknowns * int(np.sum(self.features[1:] < self.grown.num_features // 2) + 1)
        ratios = []
        for size in (half, len(self.columns)):
            found = smallest(triangle[:size, :size], values[:, :size])
            size_of_v = np.linalg.norm(values[:, :size] @ found), np.linalg.norm(values_there[:, :size] @ found)
            noticed = np.linalg.norm(changes[:, :size] @ found), np.linalg.norm(elsewhere[:, :size] @ found)
            ratios.append(max(size_of_v[0] / noticed[0], size_of_v[1] / noticed[1]))
        self.least = found / size_of_v[0]
        in_sizes = np.repeat(self.units / self.sizes, [r.size for r in residuals])
        noticed = float(np.linalg.norm(in_sizes * (changes @ self.least)))
        self.growth = max(ratios[1] / ratios[0], 1.0)
        return float(SAFETY * total * ratios[1] * self.growth**2), noticed

    def linearity(self) -> float:
        """1 / (1 - q), where q is by how much the change of all that should vanish differs from what was foreseen."""
        foreseen, offs = self.rows(self.groups, self.columns) @ self.least, []
        for times in (1, 10, 100, 1000):  # rounding disturbs the shortest step, and what holds for longer ones holds
            step = np.zeros(self.grown.coefficients.size)
            length = times * max(1 / np.linalg.norm(foreseen), LEAST_STEP)  # as far as the residual allows
            step[self.columns] = length * self.least
            moved = self.grown.moved(step.reshape(self.grown.coefficients.shape))
            found = [
                ((residual_of(moved, g) - residual_of(self.grown, g)) / (np.sqrt(len(g.points)) * unit)).ravel()
                for g, unit in zip(self.groups, self.units, strict=True)
            ]
            offs.append(np.linalg.norm(np.concatenate(found) / length - foreseen) / np.linalg.norm(foreseen))
        off = np.nanmin([*offs, np.inf])
        return float(1 / (1 - off)) if off < 0.5 else np.inf


def damped_triangle(changes: np.ndarray, values: np.ndarray, ridge: float) -> np.ndarray:
    """R of [changes; ridge times the size of a feature]: large coefficients that cancel are no change of u."""
    size = np.linalg.norm(values) / np.sqrt(values.shape[1])
    return triangle_of(np.concatenate([changes, ridge * size * np.eye(values.shape[1])]))


def smallest(triangle: np.ndarray, values: np.ndarray) -> np.ndarray:
    """c with the smallest ||triangle c||^2 / ||values c||^2, by subspace iteration."""
    vectors = np.random.default_rng(0).normal(size=(len(triangle), NUM_VECTORS))
    for _ in range(NUM_ITERATIONS):
        found = solve_triangular(triangle, np.linalg.qr(vectors)[0])
        vectors = solve_triangular(triangle, values.T @ (values @ found), trans="T")
    found = solve_triangular(triangle, np.linalg.qr(vectors)[0])
    _, _, rotation = np.linalg.svd(values @ found, full_matrices=False)
    return found @ rotation[0]
