"""What a problem must be before it is solved, and what a linear one has promised."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

from ..sines import lattice
from .derivatives import offs
from .domains import PointCloud
from .problem import Problem
from .rows import Basis, Group, first_rows, index_error, is_where, jacobian, residual_of

NUM_LOOKED_AT = 512  # points, for jumps
A_JUMP = 0.05  # off the tangent, relative to the values
MIN_POINTS = 40  # of a cloud, for each unknown


def check_options(problem: Problem, max_features, tolerance, max_grades, first, stretch) -> None:
    """The options of ``solve`` are numbers that can be meant."""
    for name, value, least in (("max_features", max_features, 20), ("max_grades", max_grades, 1), ("first", first, 1)):
        if not (name == "first" and value is None) and not value >= least:
            raise ValueError(f"{name} must be at least {least}; got {value!r}")
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be at least 0; got {tolerance!r}")
    if isinstance(stretch, str) and stretch == "auto":
        return
    dimensions = len(problem.domain.bounds[0])
    if isinstance(stretch, str) or np.shape(stretch) != (dimensions,) or not np.all(np.greater(stretch, 0)):
        raise ValueError(f'stretch must be "auto" or {dimensions} positive numbers; got {stretch!r}')


def check_finite(problem: Problem, basis: Basis, groups: list[Group]) -> None:
    dimensions = len(problem.domain.bounds[0])
    for group in groups:
        if group.points.shape[1] != dimensions:
            raise ValueError(f"{group.name} must have points of {dimensions} numbers; got {group.points.shape[1]}")
        if not len(group.points):
            raise ValueError(f"{group.name} must have points; the domain gave none")
        try:
            values = residual_of(basis, group)
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
            raise ValueError(
                f"the {group.name} must be a JAX function of u and x: use jax.numpy for numpy, jnp.where for if"
            ) from error
        except IndexError as error:
            raise ValueError(_not_there(problem, group, str(error))) from error
        if message := index_error(basis, group):
            raise ValueError(_not_there(problem, group, message))
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            where = np.array2string(group.points[np.argmax(bad)], precision=4)
            raise ValueError(
                f"the {group.name} must be finite; at x = {where} it is {values[np.argmax(bad)]} for u = 0"
            )


def _not_there(problem: Problem, group: Group, message: str) -> str:
    return (
        f"the {group.name} asks for a part of x or of u(x) that is not there (points have "
        f"{len(problem.domain.bounds[0])} numbers, num_unknowns is {problem.num_unknowns}): {message}"
    )


def check_jumps(problem: Problem) -> None:
    """Nothing that is differentiated jumps, such as the a of (a u')': a derivative at a point does not see it.

    A smooth u is put in. Intervals in which something is far from its tangent are halved until they are too short for
    anything but a jump.
    """
    low, high = problem.domain.bounds
    lengths, number = high - low, 1.5 + np.arange(problem.num_unknowns)

    @jax.jit
    @jax.vmap
    def largest(x, half):
        def smooth(z):
            values = jnp.sum((z - low) / lengths) + number
            return values if problem.num_unknowns > 1 else values[0]

        found: list = []
        token = offs.set((half * lengths, found))
        problem.interior(smooth, x)
        offs.reset(token)
        return jnp.max(jnp.nan_to_num(jnp.stack(found))) if found else jnp.zeros(())

    with jax.enable_x64(True):
        points = problem.domain.inside(np.random.default_rng(3), NUM_LOOKED_AT)
        half = np.full(len(points), (1 if len(low) == 1 else 8) / NUM_LOOKED_AT)
        points = np.clip(points, low + half[0] * lengths, high - half[0] * lengths)
        found = np.asarray(largest(points, half))
        x, size = points[[np.argmax(found)]], half[:1]
        while found.max() > A_JUMP and size[0] > 1e-11:
            size = size / 2
            steps = np.stack(np.meshgrid(*[[-1, 0, 1]] * len(low), indexing="ij"), axis=-1).reshape(-1, len(low))
            near = x + steps * size[0] * lengths
            found = np.asarray(largest(near, np.repeat(size, len(near))))
            x = near[[np.argmax(found)]]
    if found.max() > A_JUMP:
        raise ValueError(
            f"the equation inside differentiates something that jumps, at x = {np.array2string(x[0], precision=4)}: a "
            "derivative at a point does not see that. Make what is differentiated an unknown of its own (q = a u', "
            "q' = f: num_unknowns=2), or solve on both sides"
        )


def most_features(problem: Problem) -> int:
    """Features that the points of a cloud can find: half as many as there are points. Other domains draw enough."""
    if not isinstance(problem.domain, PointCloud):
        return sys.maxsize
    num_points = len(np.unique(np.concatenate([problem.domain.points, problem.domain.edge]), axis=0))
    fewest = MIN_POINTS * problem.num_unknowns
    if num_points < fewest:
        raise ValueError(f"a cloud must have at least {fewest} different points, the edge included; got {num_points}")
    return num_points // (2 * problem.num_unknowns)


def check_linear(basis: Basis, step: np.ndarray, groups: list[Group]) -> None:
    for group in groups:
        part = first_rows(group, 64)
        rows, residual = next(jacobian(basis, part))
        foreseen = residual + rows @ step.ravel()
        found = residual_of(basis.moved(step), part).ravel()
        # Waves that the operator lets through have rows of 0, but large terms that cancel in them.
        size = np.abs(rows).max() * np.abs(step).sum() + np.abs(residual).max()
        rounding = np.abs(rows).max() * np.abs(basis.coefficients).sum()  # of the coefficients that are already there
        if np.abs(found - foreseen).max() > 1e-7 * size + 1e-12 * rounding:
            raise ValueError(f"the {group.name} is not linear in u, as was promised; give the problem is_linear=False")


def check_conditions(problem: Problem, basis: Basis, random) -> None:
    """Two conditions of the same form, up to a factor, must ask for the same at the same points."""
    trial = basis.grown(lattice(len(basis.box.low), 20))
    points = problem.domain.boundary(random, 64)
    found = []
    for number, condition in enumerate(problem.conditions, 1):
        every = np.ones(len(points), bool)
        holds = every if condition.where is None else is_where(condition.where, points, number)
        rows, values = next(jacobian(trial, Group("", condition.residual, points)))
        found.append((holds, rows.reshape(len(points), -1), values.reshape(len(points), -1)))
    for second in range(len(found)):
        for first in range(second):
            (at, rows, values), (at_too, other_rows, others) = found[first], found[second]
            if rows.shape != other_rows.shape:
                continue
            factor = np.sum(rows * other_rows, axis=1) / np.sum(rows**2, axis=1)
            is_same = np.abs(other_rows - factor[:, None] * rows).max(axis=1) <= 1e-9 * np.abs(other_rows).max(axis=1)
            gap, both = np.abs(others - factor[:, None] * values), at & at_too & is_same
            if (gap[both] > 1e-6 * (1 + np.abs(others[both]))).any():
                raise ValueError(f"conditions {first + 1} and {second + 1} contradict each other where both hold")
