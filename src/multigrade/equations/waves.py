"""Which waves a problem is solved with: those that its operator lets through, and how many of the lattice."""

import numpy as np

from ..sines import SPACING, lattice
from .problem import Problem
from .rows import Basis, Group, jacobian, residual_of

GROWTH = 2.5  # of the number of features from grade to grade
# Features of the first grade by dimension; our choice, by python -m benchmarks.equations.
FIRST = {1: 60, 2: 300, 3: 600}
MARGIN = 20.0  # orders of cylinder and sphere functions beyond those that a domain of this size tells apart
SPARE = 1.25  # directions for each of these orders


def plan_grades(first: int | None, radius: float, shape: np.ndarray, max_features: int, max_grades: int) -> list[int]:
    """Numbers of features of the lattice after each grade."""
    dimensions = len(shape)
    is_given, first = first is not None, first or FIRST.get(dimensions, 800)
    if radius and not is_given:
        waves = lattice(dimensions, max_features // 2, shape)
        first = max(first, 2 * int(np.sum(np.linalg.norm(waves / shape, axis=1) <= 1.1 * radius + 2.5 * SPACING)))
    counts = [min(first, max_features)]
    while counts[-1] < max_features and len(counts) < max_grades:
        counts.append(min(int(GROWTH * counts[-1]), max_features))
    return counts


def _symbol(problem: Problem, basis: Basis, waves: np.ndarray) -> np.ndarray:
    """|L exp(i w x)|^2 for waves (n, d) of the unit box, relative to the operator's size at that length; (n,)."""
    dimensions, longest = len(basis.box.low), 2000.0
    points = basis.box.low + basis.box.lengths * np.random.default_rng(0).random((4, dimensions))
    lengths = np.linalg.norm(waves, axis=1)
    with_longest = np.vstack([waves, waves * (longest / lengths)[:, None]])
    rows = np.concatenate([r for r, _ in jacobian(basis.grown(with_longest), Group("", problem.interior, points))])
    rows = rows.reshape(len(rows), -1, problem.num_unknowns)[:, dimensions:]
    power = np.sum(rows[:, :-1].reshape(len(rows), -1, 2, problem.num_unknowns) ** 2, axis=(0, 2, 3))
    power, at_longest = np.split(power, 2)
    return power / (np.sum(rows[:, -1] ** 2) + at_longest * (lengths / longest) ** 4)


def wave_number(problem: Problem, basis: Basis) -> float:
    """Length on the unit box of the waves that the equation lets through: where |L exp(i w x)| is smallest against the
    operator's size. 0 where no wave is."""
    directions = lattice(len(basis.box.low), 24)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    radii, best = np.geomspace(4, 2000, 160), 0.0
    for direction in directions[:: max(len(directions) // 4, 1)]:
        ratio = _symbol(problem, basis, radii[:, None] * direction)
        lowest = int(np.argmin(ratio))
        if ratio[lowest] < 0.05 and 0 < lowest < len(radii) - 1:
            best = max(best, radii[lowest])
    return float(best)


def free_waves(problem: Problem, basis: Basis, radius: float, max_waves: int) -> np.ndarray:
    """The waves with L exp(i w x) = 0 in evenly spread directions, as many as a solution of L u = 0 needs, (n, d).

    None where the equation has a source or coefficients that vary, or where too many would be needed. A domain of
    radius R tells (k R + margin) orders of cylinder functions apart in the plane, and its square in space.
    """
    dimensions = len(basis.box.low)
    inside = Group("", problem.interior, problem.domain.inside(np.random.default_rng(1), 16))
    if not radius or dimensions not in (2, 3) or np.any(residual_of(basis, inside)):
        return np.empty((0, dimensions))
    orders = radius * np.sqrt(dimensions) / 2 + MARGIN
    count = int(SPARE * (orders if dimensions == 2 else orders**2 / 2))
    if count > max_waves:
        return np.empty((0, dimensions))
    directions = _directions(count, dimensions) * basis.box.lengths / basis.box.lengths.max()
    radii = _refined(problem, basis, directions, radius)
    waves = radii[:, None] * directions
    is_free = _symbol(problem, basis, waves) < 1e-20
    return waves[is_free] if is_free.mean() > 0.5 else np.empty((0, dimensions))


def _refined(problem: Problem, basis: Basis, directions: np.ndarray, radius: float) -> np.ndarray:
    """For each direction the length of the wave that the equation lets through best: a grid, then golden sections."""
    grid = radius * np.geomspace(0.5, 2.0, 41)
    values = np.stack([_symbol(problem, basis, r * directions) for r in grid])
    middle = np.argmin(values, axis=0).clip(1, len(grid) - 2)
    low, high = grid[middle - 1], grid[middle + 1]
    golden = (np.sqrt(5) - 1) / 2
    for _ in range(80):
        left, right = high - golden * (high - low), low + golden * (high - low)
        is_left = _symbol(problem, basis, left[:, None] * directions) < _symbol(
            problem, basis, right[:, None] * directions
        )
        low, high = np.where(is_left, low, left), np.where(is_left, right, high)
    return (low + high) / 2


def _directions(count: int, dimensions: int) -> np.ndarray:
    """One of each pair of opposite directions, evenly spread: angles, or a spiral over half of the sphere."""
    if dimensions == 2:
        angles = np.pi * (np.arange(count) + 0.5) / count
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    height = (np.arange(count) + 0.5) / count
    angles = np.pi * (1 + np.sqrt(5)) * np.arange(count)
    ring = np.sqrt(1 - height**2)
    return np.stack([ring * np.cos(angles), ring * np.sin(angles), height], axis=1)
