"""Time that goes on: windows of time, each solved by one grade that starts where the window before ends.

    on [t_k, t_k + h_k]:   the equation and the conditions at the sides,   L(u) = L(u of window k - 1) at t_k

for the linear part L of every condition at the start. A window is accepted where the residual that held-out points see,
relative to the size of the equation for waves as large as u, is below the tolerance, and is halved otherwise. All is
solved twice, the second time with more features and a smaller tolerance; the first differs from the second by about its
own error, also where errors grow from window to window.
"""

import dataclasses
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ..sines import lattice
from .bound import UNDETERMINED, UNDETERMINED_IN_1D, bound_error
from .coordinates import Coordinates
from .correction import corrected
from .domains import Box
from .problem import Condition, Data, Problem
from .rows import Basis, Group, draw_groups, is_where, norm, residual_of, rms, usual_scales

# Features of a window, by dimension, and how much finer the waves are along time than along other axes.
NUM_WAVES, STRETCH = {1: 24, 2: 260, 3: 300}, 0.25
MORE = 1.5  # times as many features, and
STRICTER = 0.01  # times the tolerance the second time
FIRST_WINDOW, SHORTEST = 0.05, 1e-9  # of the whole time
WIDEN, FAR_BELOW = 2.0, 1e-2  # windows become longer where the residual is below this part of the tolerance
NARROW = 0.5
STALLED = 3  # windows halved without gain: rounding or the waves' fineness is the limit, not the window
FLOOR = {1: 1e-7}  # and with a residual below, by dimension
SAFETY = 10.0  # times the difference of both solutions bounds the error of the second
MAX_WINDOWS = 5000
ROUGHEST = 1e-8, 1e-11  # tolerances of a window, the first and the second time; rounding allows no smaller ones
IS_NEAR = 0.1  # solutions that differ by more say nothing of the error
MOST_TRIES = 2  # at a solution that bounds the error
ROUNDING, TINY = 1e-14, 1e-300


@dataclasses.dataclass(frozen=True)
class Windows:
    """u as [x, sin(x W_k + b_k)] C_k + c_k between times ``ends[k]`` and ``ends[k + 1]``; NaN beyond."""

    axis: int
    ends: np.ndarray  # (n + 1,)
    weights: np.ndarray  # (n, d, sines)
    biases: np.ndarray  # (n, sines)
    outputs: np.ndarray  # (n, d + sines, s)
    constants: np.ndarray  # (n, s)

    def __post_init__(self):
        (n, d, sines), s = self.weights.shape, self.constants.shape[-1]
        shapes = [(self.ends, (n + 1,)), (self.biases, (n, sines)), (self.outputs, (n, d + sines, s))]
        is_right = all(array.shape == shape for array, shape in [*shapes, (self.constants, (n, s))])
        if not (n and is_right and 0 <= self.axis < d and (np.diff(self.ends) > 0).all()):
            raise ValueError(f"windows of time need arrays of one number of windows; got {self.weights.shape}, ...")

    def number(self, points: np.ndarray) -> np.ndarray:
        """Which window points belong to."""
        found = np.searchsorted(self.ends[1:-1], points[:, self.axis], side="right")
        return np.minimum(found, len(self.biases) - 1)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        points, values = np.asarray(points, float), np.full((len(points), self.constants.shape[1]), np.nan)
        numbers, is_known = self.number(points), points[:, self.axis] <= self.ends[-1] * (1 + 1e-12)
        for k in np.unique(numbers[is_known]):
            rows = np.nonzero((numbers == k) & is_known)[0]
            features = np.hstack([points[rows], np.sin(points[rows] @ self.weights[k] + self.biases[k])])
            values[rows] = features @ self.outputs[k] + self.constants[k]
        return values

    def at(self, number, x):
        """u of one window at one point, for JAX."""
        features = jnp.concatenate(
            [x, jnp.sin(x @ jnp.asarray(self.weights)[number] + jnp.asarray(self.biases)[number])]
        )
        return features @ jnp.asarray(self.outputs)[number] + jnp.asarray(self.constants)[number]

    @property
    def num_features(self) -> int:
        return len(self.biases) * (self.outputs.shape[1] + 1)


def time_axis(problem: Problem) -> int | None:
    """The last axis of a box at whose end nothing is asked, and at whose start something is; None without one."""
    if not isinstance(problem.domain, Box) or problem.data or not problem.conditions:
        return None
    low, high = problem.domain.bounds
    inner = low + (high - low) * (0.1 + 0.8 * np.random.default_rng(0).random((64, len(low))))
    for axis in reversed(range(len(low))):
        ends = []
        for end in (low[axis], high[axis]):
            points = inner.copy()
            points[:, axis] = end
            ends.append(any(c.where is None or is_where(c.where, points, 1).any() for c in problem.conditions))
        if ends == [True, False] and axis not in problem.domain.periodic:
            return axis
    return None


class Evolution:
    """A problem along its time axis."""

    def __init__(self, problem: Problem, axis: int, seed: int):
        self.problem, self.axis, self.seed = problem, axis, seed
        self.low, self.high = problem.domain.bounds
        faces = self._faces(256)
        self.starts, self.sides = [], []
        for number, condition in enumerate(problem.conditions, 1):
            at_start, at_sides = (
                points[is_where(condition.where, points, number)] if condition.where else points for points in faces
            )
            if len(at_start):
                self.starts.append((_linear_part(condition), condition, at_start))
            if len(at_sides):
                self.sides.append(dataclasses.replace(condition, where=self._where_at_sides(condition, number)))

    @property
    def can_go_on(self) -> bool:
        """Whether all conditions at the start are linear in u, up to a constant."""
        coordinates = Coordinates(*self.problem.domain.bounds)
        once, twice = (Basis.constant(coordinates, k * (1.0 + np.arange(self.problem.num_unknowns))) for k in (1, 2))
        for linear, _, points in self.starts:
            values, doubled = (residual_of(basis, Group("", linear, points)) for basis in (once, twice))
            if not np.allclose(doubled, 2 * values):
                return False
        return bool(self.starts)

    def _faces(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Points where time begins, and points of the other sides."""
        inside = self.problem.domain.inside(np.random.default_rng(6), count)
        begin = inside if inside.shape[1] > 1 else inside[:1]
        begin[:, self.axis] = self.low[self.axis]
        edge = self.problem.domain.boundary(np.random.default_rng(6), 8 * count)
        return begin, edge[self._is_side(edge)]

    def _is_side(self, points: np.ndarray) -> np.ndarray:
        others = [a for a in range(len(self.low)) if a != self.axis and a not in self.problem.domain.periodic]  # pyright: ignore
        at_ends = (points[:, others] == self.low[others]) | (points[:, others] == self.high[others])
        return at_ends.any(axis=1)

    def _where_at_sides(self, condition: Condition, number: int):
        where = condition.where
        return lambda points: self._is_side(points) & (True if where is None else is_where(where, points, number))

    def window(self, begin: float, end: float, values: list[np.ndarray]) -> Problem:
        """The problem between two times, from values of the linear parts at the first."""
        low, high = self.low.copy(), self.high.copy()
        low[self.axis], high[self.axis] = begin, end
        domain = Box(tuple(low), tuple(high), self.problem.domain.periodic)  # pyright: ignore
        data = []
        for (linear, condition, points), known in zip(self.starts, values, strict=True):
            moved = points.copy()
            moved[:, self.axis] = begin
            data.append(Data(moved, known, linear, condition.weight))
        return dataclasses.replace(self.problem, domain=domain, conditions=self.sides, data=data)

    def run(self, tolerance: float, num_waves: int, deadline: float, tell) -> tuple[Windows, float, bool] | None:
        """The windows, the largest residual of one, and whether the end was reached; None where the first says that u
        is not determined."""
        random, whole = np.random.default_rng(self.seed), self.high[self.axis] - self.low[self.axis]
        begin, length, solved, worst = self.low[self.axis], FIRST_WINDOW * whole, [], 0.0
        nothing = Basis.constant(Coordinates(*self.problem.domain.bounds), np.zeros(self.problem.num_unknowns))
        values = [-residual_of(nothing, Group("", condition.residual, p)) for _, condition, p in self.starts]
        stretch = np.ones(len(self.low))
        stretch[self.axis] = STRETCH if len(self.low) > 1 else 1.0
        waves, before, halved = lattice(len(self.low), num_waves, stretch), None, []
        while begin < self.high[self.axis] and len(solved) < MAX_WINDOWS and time.perf_counter() < deadline:
            end = begin + length
            end = self.high[self.axis] if end > self.high[self.axis] - 1e-6 * length else end
            problem = self.window(begin, end, values)
            basis, left = self._solved(problem, waves, before, random)
            is_stalled = len(halved) >= STALLED and 0.5 * min(halved[-STALLED:]) < left < FLOOR.get(len(self.low), 1e-2)
            if left > tolerance and not is_stalled:
                halved.append(left)
                length *= NARROW
                if length < SHORTEST * whole:
                    break
                continue
            if not solved:  # a condition that is missing would be missed in every window
                held = draw_groups(problem, basis, random, 200, 100)
                limit = UNDETERMINED_IN_1D if len(self.low) == 1 else UNDETERMINED
                if bound_error(problem, basis, None, held).noticed < limit:
                    return None
            solved.append((end, basis))
            worst, halved = max(worst, left), halved if is_stalled else []
            for k, (linear, _, points) in enumerate(self.starts):
                moved = points.copy()
                moved[:, self.axis] = end
                values[k] = residual_of(basis, Group("", linear, moved))
            tell(f"until {end:.6g}: residual {left:.1e}")
            begin, before = end, basis
            length = min(length * (WIDEN if left < FAR_BELOW * tolerance else 1.2), whole)
        if not solved:
            return None
        models = Windows(
            self.axis, np.array([self.low[self.axis], *(end for end, _ in solved)]),
            np.stack([b.layer.weight for _, b in solved]), np.stack([b.layer.bias for _, b in solved]),
            np.stack([b.coefficients[:-1] for _, b in solved]), np.stack([b.coefficients[-1] for _, b in solved]),
        )  # fmt: skip
        return models, worst, bool(begin >= self.high[self.axis])

    def difference(self, fine: tuple[Windows, float, bool], coarse: tuple[Windows, float, bool]) -> float:
        """A bound on the error of the former, relative to u, by how far the latter is from it."""
        (u, worst, is_whole), (other, _, was_whole) = fine, coarse
        if not (is_whole and was_whole):
            return np.inf
        points = self.problem.domain.inside(np.random.default_rng(9), 4000)
        values = u(points)
        off = np.linalg.norm(values - other(points), axis=0) / np.maximum(np.linalg.norm(values, axis=0), TINY)
        return SAFETY * max(float(off.max()), worst, ROUNDING) if off.max() < IS_NEAR else np.inf

    def _solved(self, problem: Problem, waves: np.ndarray, before: Basis | None, random) -> tuple[Basis, float]:
        """One grade from what the window before ends with, and its residual at held-out points relative to u."""
        is_function = callable(problem.start)
        empty = Basis.of(dataclasses.replace(problem, start=None) if before or is_function else problem)
        basis = empty.grown(waves)
        points = problem.domain.inside(np.random.default_rng(8), 2 * basis.num_features)
        if before is not None:
            frozen = points.copy()
            frozen[:, self.axis] = problem.domain.bounds[0][self.axis]
            basis = basis.fitted(points, before.values(frozen))
        elif is_function:
            basis = basis.fitted(points, problem.start(points))  # pyright: ignore
        num_inside = 2 * basis.coefficients.size
        try:
            groups = draw_groups(problem, empty, random, num_inside, num_inside // 4)
            basis, _ = corrected(problem, basis, groups)
            held = draw_groups(problem, empty, random, 200, 100)
            scales = usual_scales(basis, held)
            size = rms(basis.values(held[0].points)) or 1.0
            left = norm(basis, held, scales) / size
        except ValueError:  # beyond where the equation is finite
            left = np.inf
        return basis, left if np.isfinite(left) else np.inf


def solve_in_windows(
    problem: Problem, axis: int, tolerance: float, seed: int, seconds: float, tell: Callable[[str], None]
) -> tuple[Windows, float, float, bool] | None:
    """The windows, the bound on the error of u relative to u, the largest residual, and whether the end was reached;
    None where the conditions at the start are not linear or do not determine u."""
    evolution, deadline = Evolution(problem, axis, seed), time.perf_counter() + seconds
    num_waves = NUM_WAVES.get(len(evolution.low), 300)
    with jax.enable_x64(True):
        if not evolution.can_go_on:
            return None
        found = evolution.run(max(tolerance, ROUGHEST[0]), num_waves, time.perf_counter() + seconds / 3, tell)
        if found is None:
            return None
        bound = np.inf
        for _ in range(MOST_TRIES):
            before, num_waves = found, int(MORE * num_waves)
            found = evolution.run(max(STRICTER * tolerance, ROUGHEST[1]), num_waves, deadline, tell)
            if found is None:
                return None
            bound = evolution.difference(found, before)
            if bound < IS_NEAR or time.perf_counter() > deadline:
                break
    return found[0], bound, found[1], found[2]


def _linear_part(condition: Condition):
    """L of residual(u, x) = L(u, x) + residual(0, x)."""

    def linear(u, x):
        nothing = lambda z: jnp.zeros_like(u(z))  # noqa: E731
        return condition.residual(u, x) - condition.residual(nothing, x)

    return linear
