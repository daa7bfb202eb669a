"""Column generation: start with few patterns, add those that violate the dual most, stop with a bound.

A pattern outside the program would lower the optimum only if its cone holds a unit w with |lambda'(Xw)_+| > beta.
Where all patterns can be listed, the solvers' own working sets do this exactly. Otherwise such cones are searched for,
from cell to neighbouring cell: what the search finds are true violations; that it finds none is evidence, not proof,
and the certificate says so by its outcome. Its ``full_dual_bound`` is proved without the search.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import cones
from .arrangements import sample_patterns
from .certificate import ConvexSolution, Outcome
from .program import convex_program, predict, reduced
from .solvers import solve_newton

# Of the search for the next pattern: how many are kept, how far each goes, how many rows it may cross; our choice.
BEAM_WIDTH, BEAM_STEPS, NUM_WALLS = 256, 12, 3


@dataclasses.dataclass(frozen=True)
class PatternSearch:
    """Which patterns a program has: all of them if they are at most ``max_patterns``, else those of a search.

    Parameters
    ----------
    max_patterns : the largest number of patterns that are listed
    num_samples : random patterns at the start, and at most so many new ones in a round
    max_rounds : rounds of the search, each of which adds patterns and solves again; 0 for no search
    seed : of the random patterns
    """

    max_patterns: int = 10_000
    num_samples: int = 500
    max_rounds: int = 10
    seed: int = 0

    def __post_init__(self):
        if self.max_rounds < 0:
            raise ValueError(f"max_rounds must be at least 0; got {self.max_rounds!r}")


DEFAULT_SEARCH = PatternSearch()


def solve_by_columns(
    inputs,
    targets,
    *,
    regularisation: float,
    sample_weight=None,
    has_bias: bool = True,
    search: PatternSearch = DEFAULT_SEARCH,
    tolerance: float = 1e-4,
    solver: Callable[..., ConvexSolution] = solve_newton,
    **options,
) -> ConvexSolution:
    """The optimum over all patterns where they can be listed, else over those that a search finds.

    The search ends when no pattern is found that violates the dual by more than the fraction ``tolerance``, which is
    also the relative gap asked of the ``solver``.

    Parameters
    ----------
    inputs : (points, features)
    targets : (points,) or (points, outputs)
    regularisation : beta
    sample_weight : (points,), factors of the squared errors
    has_bias : whether neurons have a bias
    search : how many patterns are listed, and how others are searched for
    tolerance : the relative duality gap, and the violation of the dual that is looked for
    solver : ``solve_newton`` or ``solve_first_order``
    **options : options of the solver

    Returns
    -------
    ConvexSolution
        The point with its certificate, whose bound over all patterns counts.
    """
    program = convex_program(
        inputs, targets, regularisation=regularisation, sample_weight=sample_weight, has_bias=has_bias,
        max_patterns=search.max_patterns, num_samples=search.num_samples, seed=search.seed,
    )  # fmt: skip
    solution = solver(program, tolerance=tolerance, **options)
    if program.is_full or not search.max_rounds:
        return solution
    iterations = solution.certificate.iterations
    for round_number in range(search.max_rounds):
        found = violating_patterns(solution, search.num_samples, tolerance=tolerance, seed=search.seed + round_number)
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
    if certificate.outcome is Outcome.CHOSEN:
        certificate = dataclasses.replace(certificate, outcome=outcome)
    return dataclasses.replace(solution, certificate=certificate)


def violating_patterns(
    solution: ConvexSolution, num_patterns: int, *, tolerance: float = 1e-4, num_starts: int = 1024, seed: int = 0
) -> np.ndarray:
    """New patterns with |lambda'(Xw)_+| > (1 + tolerance) beta for a unit w in their cone, worst first.

    A beam search at lambda = residual, for each output and sign, from the patterns in use and ``num_starts`` random
    ones: the best w of a cone is a projection, and the constraints that hold it back are walls to other cells, where
    it does at least as well.

    Parameters
    ----------
    solution : whose residuals are the dual point
    num_patterns : how many at most
    tolerance : the violation, relative to beta, from which on a pattern counts
    num_starts : random patterns from which the search starts
    seed : draws these

    Returns
    -------
    array
        Boolean, (patterns, points); empty if none was found.
    """
    program = solution.program
    features, directions, _ = reduced(program)
    residuals = (program.targets - predict(program, solution.weights)).T
    fresh = sample_patterns(program.inputs, num_starts, seed=seed)
    found: dict[bytes, tuple[float, np.ndarray]] = {}
    for residual, weights in zip(residuals, solution.weights, strict=True):
        starts = np.concatenate([program.patterns[np.any(weights != 0, axis=(0, 2))], fresh])
        for dual in (residual, -residual):
            _search(features, directions, dual, starts, found)
    known = {_key(pattern) for pattern in program.patterns}
    limit = (1 + tolerance) * program.regularisation
    new = [pair for key, pair in found.items() if pair[0] > limit and key not in known]
    new.sort(key=lambda pair: -pair[0])
    return np.array([pattern for _, pattern in new[:num_patterns]]).reshape(-1, len(features))


class _Cell(NamedTuple):
    """A pattern, its largest correlation, and the walls that hold its best w back, with their multipliers."""

    pattern: np.ndarray
    height: float
    walls: np.ndarray
    pressures: np.ndarray


def _search(features, directions, dual, starts, found) -> None:
    """Widen the beam across walls; ``found`` collects every pattern met, with its largest correlation."""
    num_points, rank = features.shape
    seen: dict[bytes, _Cell] = {}
    candidates = [_Cell(pattern, 0.0, np.full(rank, num_points), np.zeros(rank)) for pattern in starts]
    for _ in range(BEAM_STEPS):
        new = {_key(cell.pattern): cell for cell in candidates if _key(cell.pattern) not in seen}
        if not new:
            return
        for key, cell in zip(new, _climb(list(new.values()), features, directions, dual), strict=True):
            seen[key] = cell
            if key not in found or cell.height > found[key][0]:
                found[key] = (cell.height, cell.pattern)
        best = sorted(seen.values(), key=lambda cell: -cell.height)[:BEAM_WIDTH]
        candidates = [neighbour for cell in best for neighbour in _across(cell, num_points)]


def _across(cell: _Cell, num_points: int) -> list[_Cell]:
    """The cells behind the walls that press most, one at a time, and behind all walls at once.

    A neighbour starts from the walls that it shares: their multipliers are still feasible for its projection.
    """
    order = np.argsort(-cell.pressures)
    slots = order[cell.pressures[order] > 0]
    neighbours = []
    for crossed in [*slots[:NUM_WALLS, None], slots]:
        pattern, walls, pressures = cell.pattern.copy(), cell.walls.copy(), cell.pressures.copy()
        pattern[walls[crossed]] ^= True
        walls[crossed], pressures[crossed] = num_points, 0.0
        neighbours.append(_Cell(pattern, 0.0, walls, pressures))
    return neighbours


def _climb(cells: list[_Cell], features: np.ndarray, directions: np.ndarray, dual: np.ndarray) -> list[_Cell]:
    """The cells with their heights max dual'(Xw)_+ over unit w in the cone, and the walls there."""
    fill = max(BEAM_WIDTH, 1 << (len(cells) - 1).bit_length()) - len(cells)
    patterns = np.pad([cell.pattern for cell in cells], ((0, fill), (0, 0)))
    walls = np.pad([cell.walls for cell in cells], ((0, fill), (0, 0)), constant_values=len(features))
    pressures = np.pad([cell.pressures for cell in cells], ((0, fill), (0, 0)))
    with jax.enable_x64(True):
        start = cones.ActiveSet(jnp.asarray(walls, jnp.int32), jnp.asarray(pressures))
        parts = [np.asarray(part) for part in _project(patterns, features, directions, dual, start)]
    return [_Cell(cell.pattern, *values) for cell, *values in zip(cells, *parts, strict=False)]


@jax.jit
def _project(patterns, features, directions, dual, start):
    projected, active = cones.project((patterns * dual) @ features, patterns, directions, start)
    return jnp.linalg.norm(projected, axis=1), active.rows, active.multipliers


def _key(pattern: np.ndarray) -> bytes:
    return np.packbits(pattern).tobytes()
