"""Convex grades: our solvers against cvxpy with Clarabel on one program, and the enumeration of patterns.

    python -m benchmarks.bench_convex [seconds that cvxpy may take, 600 by default]
    python -m benchmarks.bench_convex --line     only one input, 300 and 2,000 rows, in seconds of the processor

The program: 1,000 normal points in 10 dimensions, a teacher of 5 ReLU neurons with noise, 1,000 sampled patterns, beta
a tenth of the one that makes the optimum 0: 20,000 unknowns under 2,000,000 constraints. cvxpy runs in a process of its
own, which is ended when its time or 16 GB of memory are used up; its time is then a lower bound.
"""

import multiprocessing
import sys
import time
from collections.abc import Callable

import numpy as np

from multigrade import convex

MEMORY_LIMIT = 16 * 2**30


def program(num_points: int = 1_000, num_inputs: int = 10, num_patterns: int = 1_000) -> convex.ConvexProgram:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_points, num_inputs))
    teacher = np.maximum(x @ rng.normal(size=(num_inputs, 5)), 0) @ rng.normal(size=5)
    y = teacher + 0.1 * rng.normal(size=num_points)
    largest = convex.convex_program(x, y, regularisation=1.0, has_bias=False, num_samples=num_patterns)
    return largest.with_regularisation(0.1 * convex.largest_regularisation(largest))


def timed(action: Callable) -> tuple[float, object]:
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def run_exact(results) -> None:
    """In a process of its own: seconds and certificate of cvxpy, or what went wrong."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        case = program()
        seconds, solution = timed(lambda: convex.solve_exact(case, tolerance=1e-4))
        results.put((seconds, str(solution.certificate)))
    except MemoryError:
        results.put((None, "ran out of memory"))


def exact_with_limit(limit: float) -> tuple[float, str, bool]:
    """Seconds, a sentence, and whether cvxpy finished."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=run_exact, args=(results,))
    start = time.perf_counter()
    process.start()
    process.join(limit)
    seconds = time.perf_counter() - start
    if process.is_alive():
        process.terminate()
        process.join()
        return seconds, "stopped at the time limit", False
    if results.empty():
        return seconds, f"its process died (exit code {process.exitcode}), most likely out of memory", False
    own_seconds, sentence = results.get()
    return own_seconds or seconds, sentence, own_seconds is not None


def main(limit: float = 600.0) -> None:
    inputs = np.random.default_rng(0).normal(size=(100, 3))
    seconds, patterns = timed(lambda: convex.enumerate_patterns(inputs))
    print(f"enumerate, N = 100, d = 3              {seconds:8.2f} s   {len(patterns)} patterns")
    case, first = program(), np.inf
    solvers = {"first order": convex.solve_first_order, "Newton": convex.solve_newton}
    for name, solver in solvers.items():
        for run in ("with compilation", "compiled"):
            seconds, solution = timed(lambda solver=solver: solver(case, tolerance=1e-3))
            label = f"{name}, {run}"
            print(f"{label:38s} {seconds:8.2f} s   {solution.certificate}", flush=True)
            first = min(first, seconds) if (name, run) == ("first order", "with compilation") else first
    seconds, sentence, is_finished = exact_with_limit(limit)
    sign = "" if is_finished else "> "
    print(f"{'cvxpy with Clarabel':38s} {sign}{seconds:.1f} s   {sentence}")
    print(f"first order against cvxpy: {sign}{seconds / first:.0f} times faster with compilation included")


def on_a_line() -> None:
    for num_points in (300, 2_000):
        rng = np.random.default_rng(0)
        x = np.sort(rng.uniform(-1, 1, num_points))
        y = np.sin(6 * x) + 0.1 * rng.normal(size=num_points)
        for beta in (0.01, 1.0):
            start = time.process_time()
            solution = convex.solve_newton(convex.convex_program(x[:, None], y, regularisation=beta))
            print(f"N = {num_points}, beta {beta}: {time.process_time() - start:.1f} s   {solution.certificate}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--line"]:
        sys.exit(on_a_line())
    main(*(float(argument) for argument in sys.argv[1:]))
