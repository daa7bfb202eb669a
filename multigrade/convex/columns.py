"""Column generation: start with few patterns, add those that violate the dual most, stop with a bound.

A pattern outside the program would lower the optimum only if its cone holds a unit w with |lambda'(Xw)_+| > beta.
Where all patterns can be listed, the solvers' own working sets do this exactly. Otherwise such w are searched for by
gradient ascent from many starts: what it finds are true violations; that it finds none is evidence, not proof, and
the certificate says so by its outcome. Its ``full_dual_bound`` is proved without the search.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .arrangements import patterns_of, row_space
from .certificate import ConvexSolution, Outcome
from .program import ConvexProgram, convex_program, predict
from .solvers import solve_newton

ASCENT_STEPS = 100


def solve_by_columns(
    inputs,
    targets,
    *,
    regularisation: float,
    sample_weight=None,
    has_bias: bool = True,
    max_patterns: int = 10_000,
    num_samples: int = 200,
    num_added: int = 200,
    max_rounds: int = 10,
    seed: int = 0,
    tolerance: float = 1e-4,
    solver: Callable[..., ConvexSolution] = solve_newton,
    **options,
) -> ConvexSolution:
    """The optimum over all patterns where they can be enumerated (at most ``max_patterns``), else by generation.

    Generation starts with ``num_samples`` random patterns and adds at most ``num_added`` in each of ``max_rounds``
    rounds, until no pattern is found that violates the dual by more than the fraction ``tolerance``, which is also
    the relative gap asked of the ``solver``; further options are the solver's.
    """
    if max_rounds < 0:
        raise ValueError(f"max_rounds must be at least 0; got {max_rounds!r}")
    program = convex_program(
        inputs, targets, regularisation=regularisation, sample_weight=sample_weight, has_bias=has_bias,
        max_patterns=max_patterns, num_samples=num_samples, seed=seed,
    )  # fmt: skip
    solution = solver(program, tolerance=tolerance, **options)
    if program.is_full or not max_rounds:
        return solution
    iterations = solution.certificate.iterations
    for round_number in range(max_rounds):
        found = violating_patterns(solution, num_added, tolerance=tolerance, seed=seed + round_number)
        if not len(found):
            return _finished(solution, iterations, Outcome.NO_VIOLATION_FOUND)
        program = dataclasses.replace(program, patterns=np.concatenate([program.patterns, found]))
        start = np.pad(solution.weights, ((0, 0), (0, 0), (0, len(found)), (0, 0)))
        solution = solver(program, tolerance=tolerance, start=start, **options)
        iterations += solution.certificate.iterations
    return _finished(solution, iterations, Outcome.ROUND_LIMIT)


def _finished(solution: ConvexSolution, iterations: int, outcome: Outcome) -> ConvexSolution:
    """With the iterations of all rounds and the outcome of the search, unless the last solve itself fell short."""
    certificate = dataclasses.replace(solution.certificate, iterations=iterations)
    if certificate.outcome is Outcome.CONVERGED:
        certificate = dataclasses.replace(certificate, outcome=outcome)
    return dataclasses.replace(solution, certificate=certificate)


def violating_patterns(
    solution: ConvexSolution, num_patterns: int, *, tolerance: float = 1e-4, num_starts: int = 512, seed: int = 0
) -> np.ndarray:
    """New patterns with |lambda'(Xw)_+| > (1 + tolerance) beta ||w|| at lambda = residual, worst first."""
    program = solution.program
    basis = row_space(program.inputs)
    features = program.inputs @ basis
    residuals = program.targets - predict(program, solution.weights)
    patterns, values = [], []
    for number, residual in enumerate(np.concatenate([residuals.T, -residuals.T])):
        starts = np.random.default_rng((seed, number)).standard_normal((num_starts, features.shape[1]))
        starts[1::2] /= np.linalg.norm(features, axis=0)
        with jax.enable_x64(True):
            ends, heights = (np.asarray(part) for part in _ascend(features, residual, starts))
        patterns.append(patterns_of(features, ends))
        values.append(heights)
    return _best_new(program, np.concatenate(patterns), np.concatenate(values), tolerance, num_patterns)


def _best_new(program: ConvexProgram, patterns: np.ndarray, values: np.ndarray, tolerance: float, count: int):
    known = {row.tobytes() for row in np.packbits(program.patterns, axis=1)}
    chosen = []
    for j in np.argsort(-values, kind="stable"):
        key = np.packbits(patterns[j]).tobytes()
        if values[j] <= (1 + tolerance) * program.regularisation or len(chosen) == count:
            break
        if key not in known:
            known.add(key)
            chosen.append(j)
    return patterns[chosen]


@jax.jit
def _ascend(features, dual, starts):
    """The highest w met on each ascent of dual'(Xw)_+ over the unit sphere, and its height; steps shrink as 1/t."""

    def height_and_slope(points):
        products = points @ features.T
        slope = (jnp.where(products >= 0, dual, 0.0)) @ features
        return jnp.sum(points * slope, axis=1), slope

    def step(count, state):
        points, best, best_height = state
        height, slope = height_and_slope(points)
        is_better = height > best_height
        best, best_height = jnp.where(is_better[:, None], points, best), jnp.maximum(height, best_height)
        points = points + _unit(slope) / (1 + count / 4)
        return _unit(points), best, best_height

    first = _unit(starts)
    state = (first, first, jnp.full(len(starts), -jnp.inf))
    _, best, best_height = jax.lax.fori_loop(0, ASCENT_STEPS, step, state)
    return best, best_height


def _unit(vectors):
    return vectors / jnp.maximum(jnp.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
