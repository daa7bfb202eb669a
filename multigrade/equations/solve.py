"""Solve a problem by grades of sine features.

    u = sum of grades,  H(x) = [x, sin(x W + b)] of all grades so far,  what grade l adds is H(x) D + d,
    D, d minimise the sum of squares of everything that must vanish, linearised around the grades before it.

A linear problem is solved by this exactly; otherwise the step is repeated (Gauss-Newton, with a line search). The
waves of a grade are the next ones of the lattice around the domain, so that every grade resolves finer detail; the
first goes as far as the waves that the operator itself lets through (the wave number of Helmholtz' equation). The
points of a grade are spread over the domain; a fifth of them is drawn where the grades so far leave a large residual.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ..least_squares import Triangle, reduce_blocks
from ..model import Grade, MultiGrade
from ..networks import Layer
from ..sines import SPACING, SineNetwork, lattice
from ..sines import Box as UnitBox
from .problem import Problem
from .solution import GradeRecord, Solution

POINTS_PER_BLOCK = 512
RIDGE = 1e-28  # relative to the square of the largest singular value: rounding
LARGE_RIDGE = 1e-18  # for a grade whose coefficients would cancel each other
LARGEST = 1e5  # coefficients relative to u
NUM_HELD_OUT = 400
MAX_STEPS = 20  # of Gauss-Newton in a grade
GROWTH = 2.5  # of the number of features from grade to grade
FIRST = {1: 60, 2: 300, 3: 600}


@dataclasses.dataclass(frozen=True)
class _Group:
    """One of the things that must vanish, its points, and what its rows are multiplied by."""

    name: str
    residual: Callable
    points: np.ndarray
    values: np.ndarray | None  # of data
    weight: float


class _Basis:
    """u and its features: frequencies of all grades, and the coefficients of their sum, (d + sines + 1, s)."""

    def __init__(self, problem: Problem):
        low, high = problem.domain.bounds
        self.box = UnitBox(low, high - low)
        self.layer = Layer(np.empty((len(low), 0)), np.empty(0))
        self.coefficients = np.zeros((len(low) + 1, problem.num_unknowns))
        self.coefficients[-1] = 0.0 if problem.start is None else problem.start
        self.model = MultiGrade()

    @property
    def num_features(self) -> int:
        return len(self.coefficients)

    def grown(self, frequencies: np.ndarray) -> "_Basis":
        """With further waves, whose coefficients are 0."""
        basis = object.__new__(_Basis)
        new = self.box.first_layer(frequencies)
        basis.box, basis.model = self.box, self.model
        basis.layer = Layer(*(np.concatenate([old, more], axis=-1) for old, more in zip(self.layer, new, strict=True)))
        zeros = np.zeros((len(new.bias), self.coefficients.shape[1]))
        basis.coefficients = np.concatenate([self.coefficients[:-1], zeros, self.coefficients[-1:]])
        return basis

    def closed(self, before: "_Basis") -> "_Basis":
        """With the grade that holds what was added to ``before``."""
        num_inputs, num_old = len(self.layer.weight), len(before.layer.bias)
        added = self.coefficients.copy()
        if before.model.grades:
            added[: num_inputs + num_old] -= before.coefficients[:-1]
            added[-1] -= before.coefficients[-1]
        network = SineNetwork(num_inputs, num_old, len(self.layer.bias) - num_old, added.shape[1])
        first = Layer(self.layer.weight[:, num_old:], self.layer.bias[num_old:])
        self.model = before.model.add(Grade(network, (first, Layer(added[:-1], added[-1])), 1.0))
        return self


def solve(
    problem: Problem,
    *,
    max_features: int = 3000,
    tolerance: float = 1e-9,
    max_grades: int = 6,
    first: int | None = None,
    stretch: Sequence[float] | str = "auto",
    time_limit: float | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> Solution:
    """Solve ``problem`` by grades, each with more features than the one before.

    Parameters
    ----------
    problem : Problem
    max_features : int
        Features of all grades together. Time grows with the cube of it: 1,300 take a second or two on an idle core,
        3,000 ten to twenty, 8,000 a few minutes.
    tolerance : float
        No grade is added once the held-out residual relative to that of u = 0 is below.
    max_grades : int
    first : int, optional
        Features of the first grade; if not given, they follow the equation.
    stretch : sequence of float, or "auto"
        How much finer than along the longest axis the waves are along each; "auto" tries a few on a small grade.
    time_limit : float, optional
        Seconds after which no grade is begun.
    seed : int
        Draws the points.
    quiet : bool
        Whether to print nothing after each grade.

    Returns
    -------
    Solution
    """
    started = time.perf_counter()
    if max_features < 20:
        raise ValueError(f"max_features must be at least 20; got {max_features!r}")
    random = np.random.default_rng(seed)
    with jax.enable_x64(True):
        basis, records = _Basis(problem), []
        held_out = _groups(problem, random, NUM_HELD_OUT, NUM_HELD_OUT)
        _check_finite(problem, basis, held_out)
        scales = _row_scales(basis.grown(lattice(len(basis.box.low), 50)), held_out)
        _check_conditions(problem, basis, random)
        zero = _norm(basis, held_out, scales) or 1.0
        radius = _wave_number(problem, basis)
        shape = _stretch(problem, basis, held_out, radius) if isinstance(stretch, str) else np.asarray(stretch, float)
        counts = _plan(first, radius, shape, max_features, max_grades)
        error = 1.0
        for index, count in enumerate(counts):
            if index and time_limit is not None and time.perf_counter() - started > time_limit:
                break
            begun = time.perf_counter()
            grown, norms = _with_grade(problem, basis, count, shape, random)
            grown.closed(basis)
            now = _norm(grown, held_out, scales) / zero
            before, basis = basis, grown if now < error else basis
            change, seconds = _change(before, grown, held_out), time.perf_counter() - begun
            records.append(GradeRecord(grown.num_features, *norms, now, change, seconds))
            if not quiet:
                print(f"grade {index + 1}: {records[-1]}", flush=True)
            if now < tolerance or not now < 0.7 * error:
                break
            error = min(error, now)
        residuals = {g.name: float(_norm(basis, [g], [1.0])) for g in held_out}
        return Solution(
            problem.name, problem.domain, basis.model, tuple(records), residuals, time.perf_counter() - started
        )


def _with_grade(problem: Problem, basis: _Basis, count: int, shape: np.ndarray, random):
    """A further grade up to ``count`` features, and the norm of its rows before and after."""
    num_waves = max((count - basis.num_features) // 2, 1)
    num_old = len(basis.layer.bias) // 2
    waves = lattice(len(basis.box.low), num_old + num_waves, shape)[num_old:]
    grown = basis.grown(waves)
    num_unknowns = grown.coefficients.size
    groups = _groups(problem, random, 2 * num_unknowns, num_unknowns // 2, basis if basis.model.grades else None)
    return _corrected(problem, grown, groups)


def _corrected(problem: Problem, basis: _Basis, groups: list[_Group]):
    """The basis with coefficients that minimise the rows of ``groups``, and the rows' norm before and after."""
    scales = _row_scales(basis, groups)
    norms = [_norm(basis, groups, scales)]
    for _ in range(1 if problem.is_linear else MAX_STEPS):
        step = _least_squares_step(basis, groups, scales)
        if problem.is_linear:
            _check_linear(basis, step, groups)
        basis, norm = _line_search(basis, step, groups, scales, norms[-1])
        norms.append(norm)
        if norm > 0.9 * norms[-2]:
            break
    return basis, (norms[0], min(norms))


def _line_search(basis: _Basis, step: np.ndarray, groups, scales, norm: float) -> tuple[_Basis, float]:
    """The longest of the steps 1, 1/2, 1/4, ... that lowers the norm; none if that fails."""
    for length in 0.5 ** np.arange(12):
        moved = _moved(basis, length * step)
        now = _norm(moved, groups, scales)
        if now < norm:
            return moved, now
    return basis, norm


def _moved(basis: _Basis, step: np.ndarray) -> _Basis:
    moved = object.__new__(_Basis)
    moved.__dict__.update(basis.__dict__, coefficients=basis.coefficients + step)
    return moved


def _least_squares_step(basis: _Basis, groups: list[_Group], scales) -> np.ndarray:
    def blocks():
        for group, scale in zip(groups, scales, strict=True):
            for rows, residual in _jacobian(basis, group):
                yield scale * np.column_stack([rows, -residual])

    reduced = reduce_blocks(blocks())
    num_columns = reduced.shape[1] - 1
    triangle = Triangle(reduced[:, :-1], reduced[:, -1:], np.zeros(num_columns), np.zeros(1), False, 0.0)
    largest = _largest_singular_value(triangle.factor) ** 2
    step = triangle.solve(RIDGE * largest).reshape(basis.coefficients.shape)
    size = np.sqrt(np.mean(_values(_moved(basis, step), groups[0].points[:200]) ** 2))
    if np.abs(basis.coefficients + step).max() > LARGEST * size:
        step = triangle.solve(LARGE_RIDGE * largest).reshape(basis.coefficients.shape)
    return step


def _largest_singular_value(matrix: np.ndarray) -> float:
    vector = np.ones(matrix.shape[1])
    for _ in range(8):
        vector = matrix.T @ (matrix @ (vector / np.linalg.norm(vector)))
    return float(np.sqrt(np.linalg.norm(vector)))


# ---- rows ------------------------------------------------------------------------------------------------------


def _u(layer: Layer, coefficients):
    """The function of one point that the problem's functions are given."""

    def u(x):
        features = jnp.concatenate([x, jnp.sin(x @ layer.weight + layer.bias), jnp.ones(1)])
        values = features @ coefficients
        return values[0] if coefficients.shape[1] == 1 else values

    return u


@partial(jax.jit, static_argnums=0)
def _residual_rows(residual, layer, coefficients, points):
    return jax.vmap(lambda x: jnp.atleast_1d(residual(_u(layer, coefficients), x)))(points)


@partial(jax.jit, static_argnums=0)
def _jacobian_rows(residual, layer, coefficients, points):
    def one(x):
        value, pull = jax.vjp(lambda c: jnp.atleast_1d(residual(_u(layer, c), x)), coefficients)
        return value, jax.vmap(lambda e: pull(e)[0].ravel())(jnp.eye(len(value)))

    return jax.vmap(one)(points)


def _blocks(points: np.ndarray):
    """Parts of equally many points, the last one filled up, and how many of them count."""
    for start in range(0, len(points), POINTS_PER_BLOCK):
        part = points[start : start + POINTS_PER_BLOCK]
        yield start, len(part), np.resize(part, (POINTS_PER_BLOCK, points.shape[1]))


def _jacobian(basis: _Basis, group: _Group):
    for start, count, part in _blocks(group.points):
        values, rows = _jacobian_rows(group.residual, basis.layer, basis.coefficients, part)
        values, rows = np.asarray(values[:count]), np.asarray(rows[:count])
        if group.values is not None:
            values = values - group.values[start : start + count]
        yield rows.reshape(-1, basis.coefficients.size), values.ravel()


def _residual(basis: _Basis, group: _Group) -> np.ndarray:
    parts = [
        np.asarray(_residual_rows(group.residual, basis.layer, basis.coefficients, part))[:count]
        for _, count, part in _blocks(group.points)
    ]
    values = np.concatenate(parts)
    return values if group.values is None else values - group.values


def _norm(basis: _Basis, groups: Sequence[_Group], scales) -> float:
    squares = [np.sum((scale * _residual(basis, g)) ** 2) for g, scale in zip(groups, scales, strict=True)]
    total = float(np.sqrt(sum(squares)))
    return total if len(scales) > 1 else total / max(np.sqrt(groups[0].points.shape[0]), 1)


def _values(basis: _Basis, points: np.ndarray) -> np.ndarray:
    features = np.sin(points @ basis.layer.weight + basis.layer.bias)
    return np.column_stack([points, features, np.ones(len(points))]) @ basis.coefficients


def _row_scales(basis: _Basis, groups: list[_Group]) -> list[float]:
    """Weights that give each group the same say: one over the root mean square length of its rows, over root N."""
    scales = []
    for group in groups:
        rows, _ = next(iter(_jacobian(basis, dataclasses.replace(group, points=group.points[:POINTS_PER_BLOCK]))))
        length = np.sqrt(np.mean(np.sum(rows**2, axis=1)))
        if not length > 0:
            raise ValueError(f"the {group.name} must depend on u; its residual does not change with it")
        scales.append(float(group.weight / (length * np.sqrt(len(group.points)))))
    return scales


def _groups(problem: Problem, random, num_inside: int, num_edge: int, basis: _Basis | None = None) -> list[_Group]:
    inside = problem.domain.inside(random, num_inside)
    group = _Group("equation inside", problem.interior, inside, None, 1.0)
    if basis is not None:  # a fifth of the points go where the residual is large
        pool = problem.domain.inside(random, num_inside)
        candidates = dataclasses.replace(group, points=pool)
        power = np.sum(_residual(basis, candidates) ** 2, axis=1)
        if power.sum() > 0:
            count = min(num_inside // 5, np.count_nonzero(power))
            drawn = random.choice(len(pool), count, replace=False, p=power / power.sum())
            group = dataclasses.replace(group, points=np.concatenate([inside, pool[drawn]]))
    groups = [group]
    for number, condition in enumerate(problem.conditions, 1):
        points = problem.domain.boundary(random, num_edge)
        if condition.where is not None:
            points = _part(problem, condition.where, random, num_edge, number)
        groups.append(_Group(f"condition {number}", condition.residual, points, None, condition.weight))
    for number, data in enumerate(problem.data, 1):
        groups.append(_Group(f"data {number}", data.observe, data.points, data.values, data.weight))
    return groups


def _part(problem: Problem, where, random, num_points: int, number: int) -> np.ndarray:
    count, points = num_points, np.empty((0, 1))
    for _ in range(8):
        points = random.permutation(problem.domain.boundary(random, count))
        points = points[np.asarray(where(points), bool)]
        if len(points) >= num_points:
            return points[:num_points]
        count *= 3
    if not len(points):
        raise ValueError(f"condition {number} must hold somewhere on the boundary; its where() is True nowhere")
    return points


# ---- the plan --------------------------------------------------------------------------------------------------


def _plan(first: int | None, radius: float, shape: np.ndarray, max_features: int, max_grades: int) -> list[int]:
    """Numbers of features after each grade."""
    dimensions = len(shape)
    is_given, first = first is not None, first or FIRST.get(dimensions, 800)
    if radius and not is_given:
        waves = lattice(dimensions, max_features // 2, shape)
        first = max(first, 2 * int(np.sum(np.linalg.norm(waves / shape, axis=1) <= 1.1 * radius + 2.5 * SPACING)))
    counts = [min(first, max_features)]
    while counts[-1] < max_features and len(counts) < max_grades:
        counts.append(min(int(GROWTH * counts[-1]), max_features))
    return counts


def _wave_number(problem: Problem, basis: _Basis) -> float:
    """Length on the unit box of the waves that the equation lets through: where |L exp(i w x)| is smallest against the
    operator's size. 0 where no wave is."""
    dimensions = len(basis.box.low)
    directions = lattice(dimensions, 24)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    radii = np.geomspace(4, 2000, 160)
    points = basis.box.low + basis.box.lengths * np.random.default_rng(0).random((4, dimensions))
    inside = _Group("equation inside", problem.interior, points, None, 1.0)
    best = 0.0
    for direction in directions[:: max(len(directions) // 4, 1)]:
        wave = basis.grown(radii[:, None] * direction)
        rows = np.concatenate([rows for rows, _ in _jacobian(wave, inside)])
        rows = rows.reshape(len(rows), -1, problem.num_unknowns)[:, dimensions:]
        power = np.sum(rows[:, :-1].reshape(len(rows), -1, 2, problem.num_unknowns) ** 2, axis=(0, 2, 3))
        constant = np.sum(rows[:, -1] ** 2)
        ratio = power / (constant + power[-1] * (radii / radii[-1]) ** 4)
        lowest = int(np.argmin(ratio))
        if ratio[lowest] < 0.05 and 0 < lowest < len(radii) - 1:
            best = max(best, radii[lowest])
    return float(best)


def _stretch(problem: Problem, basis: _Basis, held_out, radius: float) -> np.ndarray:
    """Relative fineness of the waves along each axis: that of a few which a small grade does best with.

    An operator that lets waves through has told their length; then they are as fine along all axes.
    """
    lengths = basis.box.lengths
    base = lengths / lengths.max()
    dimensions = len(base)
    if dimensions == 1 or radius:
        return base
    choices = [base] + [base * np.where(np.arange(dimensions) == axis, 3.0, 1.0) for axis in range(dimensions)]
    errors = []
    for choice in choices:
        small = basis.grown(lattice(dimensions, 120, choice))
        groups = _groups(problem, np.random.default_rng(1), 600, 200)
        small, _ = _corrected(problem, small, groups)
        scales = _row_scales(basis.grown(lattice(dimensions, 50)), held_out)
        errors.append(_norm(small, held_out, scales))
    return choices[int(np.argmin(errors))] if min(errors) < 0.7 * errors[0] else base


def _change(before: _Basis, after: _Basis, held_out) -> float:
    """Relative root mean square difference of u before and after a grade, at the held-out points inside."""
    points = held_out[0].points
    old, new = _values(before, points), _values(after, points)
    return float(np.linalg.norm(new - old) / (np.linalg.norm(new) or 1.0))


# ---- checks ----------------------------------------------------------------------------------------------------


def _check_finite(problem: Problem, basis: _Basis, groups: list[_Group]) -> None:
    dimensions = len(basis.box.low)
    for group in groups:
        if group.points.shape[1] != dimensions:
            raise ValueError(f"{group.name} must have points of {dimensions} numbers; got {group.points.shape[1]}")
        if not len(group.points):
            raise ValueError(f"{group.name} must have points; the domain gave none")
        values = _residual(basis, group)
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            where = np.array2string(group.points[np.argmax(bad)], precision=4)
            raise ValueError(
                f"the {group.name} must be finite; at x = {where} it is {values[np.argmax(bad)]} for u = 0"
            )


def _check_linear(basis: _Basis, step: np.ndarray, groups: list[_Group]) -> None:
    for group in groups:
        part = dataclasses.replace(group, points=group.points[:64], values=None)
        rows, residual = next(iter(_jacobian(basis, part)))
        foreseen = residual + rows @ step.ravel()
        found = _residual(_moved(basis, step), part).ravel()
        # Waves that the operator lets through have rows of 0, but large terms that cancel in them.
        size = np.abs(rows).max() * np.abs(step).sum() + np.abs(residual).max()
        if np.abs(found - foreseen).max() > 1e-7 * size:
            raise ValueError(f"the {group.name} is not linear in u, as was promised; give the problem is_linear=False")


def _check_conditions(problem: Problem, basis: _Basis, random) -> None:
    """Two linear conditions of the same form at the same points must ask for the same."""
    trial = basis.grown(lattice(len(basis.box.low), 20))
    points = problem.domain.boundary(random, 64)
    found = []
    for condition in problem.conditions:
        holds = np.ones(len(points), bool) if condition.where is None else np.asarray(condition.where(points), bool)
        rows, values = next(iter(_jacobian(trial, _Group("", condition.residual, points, None, 1.0))))
        found.append((holds, rows.reshape(len(points), -1), values.reshape(len(points), -1)))
    for second in range(len(found)):
        for first in range(second):
            (at, rows, values), (at_too, other_rows, others) = found[first], found[second]
            if rows.shape != other_rows.shape:
                continue
            both = at & at_too & (np.abs(rows - other_rows).max(axis=1) <= 1e-9 * np.abs(rows).max(axis=1))
            if (np.abs(values - others)[both] > 1e-6 * (1 + np.abs(values[both]))).any():
                raise ValueError(f"conditions {first + 1} and {second + 1} contradict each other where both hold")
