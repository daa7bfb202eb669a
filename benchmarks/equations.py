"""Equations: errors against references, seconds of a core; grades beside one wide grade; the five-point scheme.

    python -m benchmarks.equations                       # the ready problems
    python -m benchmarks.equations --only helmholtz      # one of them
    python -m benchmarks.equations --grades              # two grades beside one wide grade of as many features
    python -m benchmarks.equations --classical           # Helmholtz by the five-point scheme, growing grids

Seconds are those of one core (process time), compilation included.
"""

import argparse
import time

import numpy as np

from multigrade.equations import READY

CASES = {
    "poisson": [({}, {})],
    "helmholtz": [({"wavenumber": 50.0}, {}), ({"wavenumber": 100.0}, {"max_features": 4200, "max_grades": 1})],
    "lens": [({"wavenumber": 20.0, "num_points": 200}, {})],
    "heat": [({}, {})],
    "wave": [({}, {})],
    "burgers": [({}, {"max_features": 2000})],
    "fredholm": [({"wavenumber": 500.0}, {})],
    "volterra": [({}, {})],
    "inverse": [({}, {})],
}


def ready_problems(names) -> None:
    print("| problem | grades | features | error | held-out residual | seconds of a core |\n|---|---|---|---|---|---|")
    for name in names:
        for options, settings in CASES[name]:
            ready = READY[name](**options)
            started = time.process_time()
            solution = ready.solve(quiet=True, **settings)
            seconds, error = time.process_time() - started, ready.error(solution)
            print(
                f"| {ready.name} | {len(solution.model.grades)} | {solution.num_features} | {error:.1e} "
                f"| {solution.error_estimate:.1e} | {seconds:.1f} |",
                flush=True,
            )


def grades_beside_one(names) -> None:
    print("| problem | grades | features | error | seconds of a core |\n|---|---|---|---|---|")
    for name in names:
        ready = READY[name](**CASES[name][0][0])
        for max_grades in (2, 1):
            settings = {"max_features": 750, "tolerance": 0.0, "quiet": True}
            started = time.process_time()
            solution = ready.solve(max_grades=max_grades, first=300 if max_grades == 2 else 750, **settings)
            seconds, error = time.process_time() - started, ready.error(solution)
            print(
                f"| {ready.name} | {max_grades} | {solution.num_features} | {error:.1e} | {seconds:.1f} |", flush=True
            )


def classical(wavenumber: float = 50.0) -> None:
    """The five-point scheme on the same Dirichlet problem."""
    from scipy.sparse import diags, eye, kron
    from scipy.sparse.linalg import splu

    ready = READY["helmholtz"](wavenumber=wavenumber)
    print("| points along a side | error | seconds of a core |\n|---|---|---|")
    for n in (100, 200, 400, 800):
        started = time.process_time()
        axis = np.linspace(0, 1, n + 1)
        grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
        exact = ready.reference(grid.reshape(-1, 2)).reshape(n + 1, n + 1)
        line = diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(n - 1, n - 1)) * n**2
        matrix = kron(line, eye(n - 1)) + kron(eye(n - 1), line) + wavenumber**2 * eye((n - 1) ** 2)
        right = np.zeros((n - 1, n - 1))
        right[0] -= n**2 * exact[0, 1:-1]
        right[-1] -= n**2 * exact[-1, 1:-1]
        right[:, 0] -= n**2 * exact[1:-1, 0]
        right[:, -1] -= n**2 * exact[1:-1, -1]
        values = splu(matrix.tocsc()).solve(right.ravel()).reshape(n - 1, n - 1)
        error = np.linalg.norm(values - exact[1:-1, 1:-1]) / np.linalg.norm(exact[1:-1, 1:-1])
        print(f"| {n} | {error:.1e} | {time.process_time() - started:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--grades", action="store_true")
    parser.add_argument("--classical", action="store_true")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(CASES)
    if options.classical:
        classical()
    elif options.grades:
        grades_beside_one(options.only.split(",") if options.only else ["poisson", "heat"])
    else:
        ready_problems(names)


if __name__ == "__main__":
    main()
