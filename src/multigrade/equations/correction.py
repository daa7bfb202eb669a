"""What a grade adds: a least-squares step over all rows, repeated where the problem is not linear."""

import numpy as np

from ..least_squares import solve_blocks
from .checks import check_linear
from .problem import Problem
from .rows import Basis, Group, draw_groups, jacobian, norm, usual_scales

LARGEST = 1e5  # coefficients relative to u: larger ones would cancel each other
MAX_STEPS = 20  # of Gauss-Newton in a grade
WORTHWHILE = 0.9  # a further step must be likely to lower the norm at least to this part of it


def with_waves(
    problem: Problem, basis: Basis, waves: np.ndarray, random, are_free: bool = False
) -> tuple[Basis, tuple[float, float]]:
    """The basis with a further grade, and the norm of its rows before and after."""
    grown = basis.grown(waves)
    num_unknowns = grown.coefficients.size
    # Free waves leave everything to the boundary.
    num_inside, num_edge = (num_unknowns // 2, 2 * num_unknowns) if are_free else (2 * num_unknowns, num_unknowns // 2)
    groups = draw_groups(problem, basis, random, num_inside, num_edge)
    return corrected(problem, grown, groups)


def corrected(problem: Problem, basis: Basis, groups: list[Group]) -> tuple[Basis, tuple[float, float]]:
    """The basis with coefficients that minimise the rows of ``groups``, and the rows' norm before and after."""
    scales = usual_scales(basis, groups, basis.num_waves)
    norms = [norm(basis, groups, scales)]
    for _ in range(1 if problem.is_linear else MAX_STEPS):
        step, foreseen = _least_squares_step(basis, groups, scales)
        if problem.is_linear:
            check_linear(basis, step, groups)
        basis, now = _line_search(basis, step, groups, scales, norms[-1])
        norms.append(now)
        # Around the start a problem may be blind to some unknowns, so that the first step foresees too little.
        is_foreseen = len(norms) > 2 and foreseen > WORTHWHILE * now
        if is_foreseen or now > WORTHWHILE * norms[-2]:
            break
    return basis, (norms[0], min(norms))


def _line_search(basis: Basis, step: np.ndarray, groups, scales, before: float) -> tuple[Basis, float]:
    """The longest of the steps 1, 1/2, 1/4, ... that lowers the norm; none if that fails."""
    for length in 0.5 ** np.arange(12):
        moved = basis.moved(length * step)
        now = norm(moved, groups, scales)
        if now < before:
            return moved, now
    return basis, before


def _least_squares_step(basis: Basis, groups: list[Group], scales) -> tuple[np.ndarray, float]:
    """The step that minimises the linearised rows, and the norm that they would have after it."""

    def blocks():
        for group, scale in zip(groups, scales, strict=True):
            for rows, residual in jacobian(basis, group):
                if not (np.isfinite(rows).all() and np.isfinite(residual).all()):
                    raise ValueError(f"the {group.name} must be finite; at some points it is not")
                yield scale * np.column_stack([rows, -residual])

    def is_usable(step):
        moved = basis.moved(step.reshape(basis.coefficients.shape))
        size = np.sqrt(np.mean(moved.values(groups[0].points[:200]) ** 2))
        return bool(np.abs(moved.coefficients).max() <= LARGEST * size)

    step, foreseen = solve_blocks(blocks(), is_usable)
    return step.reshape(basis.coefficients.shape), foreseen
