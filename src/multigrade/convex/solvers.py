"""Solvers of the convex program; all return a point with its certificate.

    solve_newton        proximal Newton: gaps of 1e-8 in seconds, up to some thousand points
    solve_first_order   accelerated proximal gradient: no large factorisations, for many points
    solve_exact         cvxpy with Clarabel (the extra ``multigrade[convex]``): the reference for small programs
    solve_gated         first-order without the cones, then decomposed back into ReLU neurons: fast, not optimal
    solve_path          one of the first two along a sequence of regularisation strengths, each started from the last

The two iterative solvers work on growing working sets: at most as many neurons as points are needed at the optimum,
of thousands of patterns. A round solves the program over the working set, then computes the dual norms of *all*
patterns. They give the gap of the whole program, and name the patterns that violate the dual most, which join.
"""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import numpy as np

from .certificate import ConvexSolution, Outcome, certify, dual_norms, scaled_dual_value
from .far import is_far, solve_far
from .first_order import accelerated_proximal_gradient
from .gated import cone_decomposition, gated_norms
from .groups import Groups
from .newton import proximal_newton
from .plane import solve_in_the_plane
from .program import ConvexProgram, check_positive, cone_violation, reduced

SMALLEST_WORKING_SET = 64  # sizes are this times powers of 4, so that few shapes are compiled
MAX_ROUNDS = 50  # of enlarging the working set; our choice
OUTSIDE = 1e-6  # a cone violation above it is more than rounding


def solve_newton(
    program: ConvexProgram,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 5_000,
    start: np.ndarray | None = None,
) -> ConvexSolution:
    """The optimum to a relative duality gap of ``tolerance``, by proximal Newton steps on working sets.

    Parameters
    ----------
    program : the convex program of a grade, see ``convex_program``
    tolerance : the relative duality gap at which to stop
    max_iterations : of Newton's method, over all working sets
    start : weights to start from; 0 if not given

    Returns
    -------
    ConvexSolution
        The point with its certificate.
    """
    return _solve(program, proximal_newton, tolerance, max_iterations, start)


def solve_first_order(
    program: ConvexProgram,
    *,
    tolerance: float = 1e-4,
    max_iterations: int = 100_000,
    start: np.ndarray | None = None,
) -> ConvexSolution:
    """The optimum to a relative duality gap of ``tolerance``, by accelerated proximal gradient on working sets.

    Parameters
    ----------
    program : the convex program of a grade, see ``convex_program``
    tolerance : the relative duality gap at which to stop
    max_iterations : of the proximal gradient, over all working sets
    start : weights to start from; 0 if not given

    Returns
    -------
    ConvexSolution
        The point with its certificate.
    """
    return _solve(program, accelerated_proximal_gradient, tolerance, max_iterations, start)


def solve_gated(program: ConvexProgram, *, tolerance: float = 1e-4, max_iterations: int = 100_000) -> ConvexSolution:
    """A feasible point from the gated relaxation min 1/2 ||sum_i D_i X g_i - e||^2 + beta sum_i ||g_i||, no cones.

    Each g_i is then split into u_i - v_i with both in the cone and ||u_i||^2 + ||v_i||^2 least. The fit is that of
    the relaxation, the norms are larger; the certificate tells how far from the optimum that leaves the point. Given
    patterns that no neuron has may have cones without interior, where there is no such split: ``Outcome.OUTSIDE``.

    Parameters
    ----------
    program : the convex program of a grade, see ``convex_program``
    tolerance : the relative duality gap of the relaxation at which to stop
    max_iterations : of the proximal gradient

    Returns
    -------
    ConvexSolution
        The point with its certificate, whose gap is that of the program itself.
    """
    _check_limits(tolerance, max_iterations)
    inner = partial(accelerated_proximal_gradient, has_cones=False)
    gates, iterations, _ = _solve_outputs(program, inner, lambda: gated_norms, tolerance, max_iterations, None)
    weights = cone_decomposition(program, gates[:, 0])
    outcome = Outcome.RELAXED if cone_violation(program, weights) <= OUTSIDE else Outcome.OUTSIDE
    return certify(program, weights, iterations=iterations, outcome=outcome)


def solve_path(
    program: ConvexProgram, regularisations: Sequence[float], *, solver: Callable = solve_newton, **options
) -> list[ConvexSolution]:
    """Solutions for several beta, in the order given (best from large to small), each started from the one before.

    Parameters
    ----------
    program : the convex program of a grade, see ``convex_program``
    regularisations : the values of beta
    solver : ``solve_newton`` or ``solve_first_order``
    **options : options of the solver

    Returns
    -------
    list of ConvexSolution
        One for each beta.
    """
    for value in regularisations:
        check_positive("regularisations", value)
    solutions: list[ConvexSolution] = []
    for value in regularisations:
        start = solutions[-1].weights if solutions else None
        solutions.append(solver(program.with_regularisation(value), start=start, **options))
    return solutions


def _solve(program, inner, tolerance, max_iterations, start) -> ConvexSolution:
    _check_limits(tolerance, max_iterations)
    if start is not None and np.shape(start) != program.point_shape:
        raise ValueError(f"start must have shape {program.point_shape}; got {np.shape(start)}")
    # Rounding differs between the gap that ends a solve and the certificate's.
    certified = partial(certify, program, outcome=Outcome.CONVERGED, tolerance=1.01 * tolerance)
    far = None
    in_plane = program.walls is not None and start is None
    if (special := solve_far if is_far(program) else solve_in_the_plane if in_plane else None) is not None:
        weights, duals, rounds = special(program, tolerance=0.3 * tolerance)
        far = certified(weights, iterations=rounds, duals=duals)
        if far.certificate.outcome in (Outcome.CONVERGED, Outcome.CHOSEN):
            return far
    # Projections of the dual norms start where those of the round before ended.
    norms = lambda: partial(dual_norms, active={})  # noqa: E731
    weights, iterations, outcome = _solve_outputs(program, inner, norms, tolerance, max_iterations, start)
    solution = certified(weights, iterations=iterations, outcome=outcome)
    return min((solution, far), key=lambda one: one.certificate.pattern_gap) if far else solution


def _check_limits(tolerance: float, max_iterations: int) -> None:
    check_positive("tolerance", tolerance)
    if max_iterations < 1:
        raise ValueError(f"max_iterations must be at least 1; got {max_iterations!r}")


def _solve_outputs(program, inner, norms_of, tolerance, max_iterations, start):
    """Every output's program in turn: weights (outputs, signs, P, d), iterations, and the outcome of all."""
    features, directions, basis = reduced(program)
    results = []
    for k, target in enumerate(program.targets.T):
        data = Groups(np.zeros(0), np.zeros(0), features, directions, target, np.float64(program.regularisation))
        first = None if start is None else start[k] @ basis
        results.append(_rounds(program, data, inner, norms_of, tolerance, max_iterations, first))
    weights = np.stack([weights @ basis.T for weights, _, _ in results])
    outcome = next((outcome for *_, outcome in results if outcome is not Outcome.CONVERGED), Outcome.CONVERGED)
    return weights, sum(count for _, count, _ in results), outcome


def _rounds(program: ConvexProgram, data: Groups, inner, norms_of, tolerance, max_iterations, start):
    """Solve on a working set, measure over all patterns, enlarge; until the gap over all is within tolerance."""
    rank, size, iterations = data.features.shape[1], SMALLEST_WORKING_SET, 0
    weights, best, best_gap = start, start, np.inf
    measure = norms_of()
    for _ in range(MAX_ROUNDS):
        gap, norms = _gap(program, data, weights, measure)
        if weights is None:
            weights = np.zeros((*norms.shape, rank))
        if gap < best_gap:
            best, best_gap = weights, gap
        if gap <= tolerance or iterations >= max_iterations:
            break
        flat = weights.reshape(-1, rank)
        is_used = np.any(flat != 0, axis=1)
        while 4 * is_used.sum() > 3 * size:
            size *= 4
        chosen = _working_set(program, norms.ravel(), is_used, size)
        groups, first = _gather(program, data, flat, chosen, size)
        with jax.enable_x64(True):
            goal = np.float64(max(0.1 * gap, 0.3 * tolerance))
            solved, count = inner(groups, first, goal, max_iterations - iterations)
        weights = np.zeros_like(weights)
        weights.reshape(-1, rank)[chosen] = np.asarray(solved)[: len(chosen)]
        iterations += int(count)
    shortfall = Outcome.ITERATION_LIMIT if iterations >= max_iterations else Outcome.STALLED
    return best, iterations, Outcome.CONVERGED if best_gap <= tolerance else shortfall


def _gap(program: ConvexProgram, data: Groups, weights: np.ndarray | None, measure) -> tuple[float, np.ndarray]:
    """Relative gap over all patterns, and the dual norms (signs, P) of the residual."""
    residual, target = data.target, data.target
    penalty = 0.0
    if weights is not None:
        signed = weights[0] - weights[1] if len(weights) == 2 else weights[0]
        is_used = np.any(signed != 0, axis=1)
        residual = target - np.sum(program.patterns[is_used] * (signed[is_used] @ data.features.T), axis=0)
        penalty = program.regularisation * np.linalg.norm(weights, axis=-1).sum()
    norms = measure(program, residual)
    value = 0.5 * residual @ residual + penalty
    bound = scaled_dual_value(residual, target, float(norms.max()), program.regularisation)
    return float((value - bound) / value) if value > 0 else 0.0, norms


def _working_set(program: ConvexProgram, norms: np.ndarray, is_used: np.ndarray, size: int) -> np.ndarray:
    """All groups in use, then those of largest dual norm, spread out: neighbouring cells say nearly the same."""
    order = np.flatnonzero(~is_used)[np.argsort(-norms[~is_used], kind="stable")]
    room = size - is_used.sum()
    candidates = order[: min(8 * room, 1024)]
    masks = np.where(program.patterns[candidates % program.num_patterns], 1.0, -1.0)
    agreement = masks @ masks.T / masks.shape[1]
    is_kept = np.zeros(len(candidates), bool)
    for j in range(len(candidates)):
        is_kept[j] = not np.any(agreement[j, :j][is_kept[:j]] > 1 - 2 / SMALLEST_WORKING_SET)
    spread = candidates[is_kept][: room // 2]
    rest = order[~np.isin(order, spread)]
    return np.concatenate([np.flatnonzero(is_used), spread, rest])[:size]


def _gather(program: ConvexProgram, data: Groups, flat: np.ndarray, chosen: np.ndarray, size: int):
    """The chosen groups and their weights, filled up to ``size`` with empty groups."""
    fill = size - len(chosen)
    masks = np.pad(program.patterns[chosen % program.num_patterns], ((0, fill), (0, 0)))
    signs = np.pad(np.where(chosen < program.num_patterns, 1.0, -1.0), (0, fill))
    return data._replace(masks=masks, signs=signs), np.pad(flat[chosen], ((0, fill), (0, 0)))
