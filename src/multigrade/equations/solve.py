"""Solve a problem by grades of sine features.

    u = sum of grades,  H(x) = [z, sin(z W + b)] of all grades so far,  what grade l adds is H(x) D + d,
    D, d minimise the sum of squares of everything that must vanish, linearised around the grades before it.

A linear problem is solved by this exactly; otherwise the step is repeated (Gauss-Newton, with a line search). The
waves of the first grade are those that the operator itself lets through, where they are enough (Helmholtz' equation
without a source); otherwise the waves of a grade are the next ones of the lattice around the domain, so that every
grade resolves finer detail. Where u is steep in one place, the waves run over coordinates that are fine there, see
``coordinates``. The points of a grade are spread over the domain; a sixth of them is drawn where the grades so far
leave a large residual.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np

from ..sines import lattice
from .bound import UNDETERMINED, UNDETERMINED_IN_1D, UNKNOWN, Bound, bound_error, sharper, usual_sizes
from .checks import check_conditions, check_finite, check_jumps, check_options, most_features
from .correction import with_waves
from .domains import PointCloud
from .problem import Problem
from .rows import Basis, draw_groups, norm, residual_of, rms, usual_scales
from .solution import UNSOLVED, UNSURE, GradeRecord, Solution
from .trials import choose_coordinates
from .waves import free_waves, plan_grades, wave_number
from .windows import solve_in_windows, time_axis

NUM_HELD_OUT = 400  # points that only judge; our choice
COARSE = 1e-3  # a held-out residual above, relative to that of u = 0: finer grades are tried, whatever they gain


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
    quiet: bool = True,
    on_grade: Callable[[GradeRecord], None] | None = None,
) -> Solution:
    """Solve ``problem`` by grades, each with more features than the one before.

    Parameters
    ----------
    problem : Problem
    max_features : int
        Features of all grades together. Time grows with the cube of it: 1,300 take a second or two on an idle core,
        3,000 ten to twenty, 8,000 a few minutes.
    tolerance : float
        No grade is added once the bound on the relative error of u is below, or the held-out residual relative to that
        of u = 0.
    max_grades : int
        Grades of the lattice, at most; those of free waves are not counted.
    first : int, optional
        Features of the first grade of the lattice; if not given, they follow the equation.
    stretch : sequence of float, or "auto"
        How much finer than along the longest axis the waves are along each; "auto" tries a few on a small grade, and
        looks for layers.
    time_limit : float, optional
        Seconds after which no grade is begun.
    seed : int
        Draws the points.
    quiet : bool
        False prints every grade.
    on_grade : function, optional
        Called with the record of every grade.

    Returns
    -------
    Solution
        u as a model. Its ``remark`` is empty where all is well; an ``UnsolvedWarning`` says it, too.
    """
    started = time.perf_counter()
    check_options(problem, max_features, tolerance, max_grades, first, stretch)
    max_features, axis = min(max_features, most_features(problem)), time_axis(problem)
    with jax.enable_x64(True):
        solving = _Solving(
            problem, np.random.default_rng(seed), on_grade or (lambda record: None if quiet else print(record))
        )
        for waves, are_free in solving.choose(max_features, max_grades, first, stretch):
            is_late = time_limit is not None and time.perf_counter() - started > time_limit
            is_hopeless = axis is not None and not problem.is_linear and solving.is_unsure
            if (solving.records and is_late) or is_hopeless or solving.is_over(tolerance):
                break
            solving.add_grade(waves, are_free)
        solution = solving.result(time.perf_counter() - started)
    # Windows cost far more than a linear problem in the plane that is nearly solved.
    is_far = not solution.error_bound < 1 or len(problem.domain.bounds[0]) == 1 or not problem.is_linear
    if solution.remark and axis is not None and is_far:
        left = np.inf if time_limit is None else max(time_limit - solution.seconds, 0.0)
        solution = _in_windows(solution, problem, axis, tolerance, seed, left, None if quiet else print)
    if not quiet:
        print(solution.sentence, flush=True)
    return solution.told()


def _in_windows(solution: Solution, problem: Problem, axis: int, tolerance: float, seed: int, seconds: float, tell):
    """The solution by windows of time, or the one at hand where that is surer of itself."""
    begun = time.perf_counter()
    found = solve_in_windows(problem, axis, tolerance, seed, seconds, tell or (lambda line: None))
    if found is None:
        return solution
    windows, bound, worst, is_whole = found
    spent, remark = time.perf_counter() - begun, ""
    if not is_whole:
        remark = (
            f"not solved: by windows of time u was found until {windows.ends[-1]:.6g} of "
            f"{problem.domain.bounds[1][axis]:.6g}: it may grow beyond all bounds or change too fast there, or more "
            "time is needed"
        )
    elif not bound < UNSURE:
        remark = f"not solved for sure: two solutions by windows differ; u may be wrong by {bound:.1e} of its size"
    if remark and solution.error_bound < bound:
        return solution
    record = GradeRecord(windows.num_features, solution.records[-1].after, worst, worst, 1.0, spent, bound)
    return dataclasses.replace(
        solution, model=windows, records=(*solution.records, record), residuals={"windows of time": worst},
        seconds=solution.seconds + spent, remark=remark, error_bound=bound,
    )  # fmt: skip


class _Solving:
    """A solution under way: the grades so far, and the points at which they are judged."""

    def __init__(self, problem: Problem, random, on_grade: Callable[[GradeRecord], None]):
        self.problem, self.random, self.on_grade = problem, random, on_grade
        self.basis, self.before, self.records, self.is_last = Basis.of(problem), None, [], False
        self.bound = UNKNOWN
        self._hold_out()
        check_conditions(problem, self.basis, random)
        check_jumps(problem)

    def _hold_out(self) -> None:
        self.held_out = draw_groups(self.problem, self.basis, self.random, NUM_HELD_OUT, NUM_HELD_OUT)
        check_finite(self.problem, self.basis, self.held_out)
        self.scales = usual_scales(self.basis, self.held_out)
        nothing = Basis.constant(self.basis.coordinates, np.zeros(self.problem.num_unknowns))
        is_function = callable(self.problem.start)
        self.zero = norm(nothing if is_function else self.basis, self.held_out, self.scales) or 1.0

    def choose(
        self, max_features: int, max_grades: int, first: int | None, stretch
    ) -> Iterator[tuple[np.ndarray, bool]]:
        """The waves of each grade, one after the other, and whether they are free."""
        is_free = not (callable(self.problem.start) or self.basis.periodic)  # to choose waves and coordinates
        num_start, radius = self.basis.num_waves, wave_number(self.problem, self.basis) if is_free else 0.0
        if first is None and is_free:
            free = free_waves(self.problem, self.basis, radius, max_features // 2)
            if len(free):
                yield free, True
        lengths = self.basis.box.lengths
        shape = lengths / lengths.max() if isinstance(stretch, str) else np.asarray(stretch, float)
        is_free &= not isinstance(self.problem.domain, PointCloud)
        if isinstance(stretch, str) and not radius and is_free:
            coordinates, shape = choose_coordinates(self.problem, self.basis, shape)
            if coordinates.layers:
                self.basis = Basis.of(self.problem, coordinates)
                self._hold_out()
        num_free = self.basis.num_waves - num_start
        for count in plan_grades(first, radius, shape, max_features - 2 * num_free, max_grades):
            num_kept = self.basis.num_waves - num_free  # those of a grade that was left out are among the next ones
            num_new = max((count - self.basis.num_features) // 2 + num_free, 1)
            yield lattice(len(lengths), num_kept + num_new, shape)[num_kept:], False

    @property
    def is_unsure(self) -> bool:
        """Whether two grades have not come near a solution."""
        return len(self.records) >= 2 and not self.bound.error < UNSURE and self.records[-1].held_out > COARSE

    def is_over(self, tolerance: float) -> bool:
        if self.is_last or not self.records or self.bound.error < tolerance:
            return self.is_last or bool(self.records)
        # On an interval a further grade costs little, and tells more of the error than the residual does.
        return len(self.basis.box.low) > 1 and self.records[-1].held_out < tolerance

    def add_grade(self, waves: np.ndarray, are_free: bool) -> None:
        """A further grade; it is left out if it has a larger held-out residual than u has so far.

        It is the last if it does hardly better than the grades before it. The first one never is: it may be too coarse
        for anything.
        """
        begun, before = time.perf_counter(), self.basis
        grown, norms = with_waves(self.problem, before, waves, self.random, are_free)
        grown = grown.closed(before)
        now = norm(grown, self.held_out, self.scales) / self.zero
        errors = [record.held_out for record in self.records]
        if now < min([1.0, *errors]):
            self.basis, self.before = grown, before if before.num_waves else None
            self.bound = UNKNOWN if now > COARSE else bound_error(self.problem, grown, self.before, self.held_out)
        points = self.held_out[0].points
        change, seconds = grown.change_from(before, points), time.perf_counter() - begun
        if self.basis is before and self.bound.error < UNSURE:  # both are near the solution
            self.bound = Bound(min(self.bound.error, sharper(before, points, change)), self.bound.noticed)
        bound = self.bound.error if self.basis is grown else np.inf
        self.records.append(GradeRecord(grown.num_features, *norms, now, change, seconds, bound))
        is_solved = min([now, *errors]) < COARSE and self.bound.error < UNSURE
        self.is_last = not are_free and bool(errors) and is_solved and not now < 0.7 * min(errors)
        self.on_grade(self.records[-1])

    def result(self, seconds: float) -> Solution:
        if not self.basis.num_waves:  # no grade was better than u as it starts
            self.basis = self.basis.grown(lattice(len(self.basis.box.low), 1)).closed(self.basis)
        if self.bound is UNKNOWN and self.basis.values(self.held_out[0].points).any():
            self.bound = bound_error(self.problem, self.basis, self.before, self.held_out)
        residuals = {group.name: rms(residual_of(self.basis, group)) for group in self.held_out}
        remark = self._remark()
        says_nothing = remark and self.bound.error < UNSURE  # what is left over is too large for the bound, too
        return Solution(
            self.problem.name, self.problem.domain, self.basis.model, tuple(self.records), residuals, seconds, remark,
            np.inf if says_nothing else self.bound.error,
        )  # fmt: skip

    def _remark(self) -> str:
        """What is wrong: one of the things that should vanish is left too large beside its size, or u may be wrong.

        That size is the larger one of two: its values for u = 0, and for waves as long as the domain and as large as u.
        """
        sizes = np.maximum(*usual_sizes(self.problem, self.basis, self.held_out))
        left = np.array([rms(residual_of(self.basis, group)) for group in self.held_out])
        shares = left / np.where(sizes > 0, sizes, 1.0)
        worst, share = self.held_out[int(np.argmax(shares))].name, shares.max()
        causes = "conditions or data contradict the equation or each other, or more features are needed"
        if self.problem.data:
            causes += ", or the data are noisy (then give them a weight of 0.01 or less)"
        if share >= UNSOLVED:
            return f"not solved: the {worst} is left at {share:.1e} of its size: {causes}"
        if min(record.held_out for record in self.records) >= UNSOLVED:
            return f"not solved: {causes}"
        if self.bound.noticed < (UNDETERMINED_IN_1D if len(self.basis.box.low) == 1 else UNDETERMINED):
            return (
                "the conditions do not determine u: it can change by its own size, and what should vanish changes by "
                f"{self.bound.noticed:.1e} of its size; a condition is missing, or u depends on the conditions by far "
                "too much"
            )
        if self.bound is UNKNOWN or self.bound.error < UNSURE:
            return ""
        if np.isfinite(self.bound.error):
            return f"not solved for sure: u may be wrong by {self.bound.error:.1e} of its size: {causes}"
        return f"not solved for sure: around this u the linearised problem says nothing of the problem: {causes}"
