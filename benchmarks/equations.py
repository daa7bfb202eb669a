"""Equations: errors against references and seconds of a core, compilation included; grades, and classical solvers.

    python -m benchmarks.equations                          # the ready problems
    python -m benchmarks.equations --only helmholtz,burgers   # some of them
    python -m benchmarks.equations --grades                   # grades beside one wide grade of as many features
    python -m benchmarks.equations --classical                # finite differences and spectral methods
    python -m benchmarks.equations --determined               # whether a condition that is missing is told

Errors are relative root mean squares at 2,000 random points; seconds are process time. DeepXDE has a file of its own,
``benchmarks.deepxde``.
"""

import argparse
import time

import jax.numpy as jnp
import numpy as np

from multigrade.equations import READY, Ball, Box, Condition, Difference, Problem, derivative, laplacian, solve

THIN = 0.01 / np.pi
CASES = {
    "poisson": [({}, {}), ({"layer": 0.005}, {})],
    "helmholtz": [
        ({"wavenumber": 50.0}, {}),
        ({"wavenumber": 100.0}, {}),
        ({"wavenumber": 200.0}, {}),
        ({"wavenumber": 50.0, "boundary": "absorbing"}, {}),
        ({"wavenumber": 20.0, "dimensions": 3}, {}),
    ],
    "lens": [({"wavenumber": 20.0}, {}), ({"wavenumber": 50.0}, {"max_features": 4000})],
    "heat": [({}, {})],
    "wave": [({}, {})],
    "burgers": [({}, {"max_features": 1000}), ({"viscosity": THIN}, {"max_features": 2500})],
    "fredholm": [({"wavenumber": 500.0}, {})],
    "volterra": [({}, {})],
    "inverse": [({}, {})],
    # Minutes, and gigabytes in space; only by name.
    "large": [],
}
LARGE = {
    "lens": ({"wavenumber": 100.0}, {"max_features": 7000}),
    "helmholtz": ({"wavenumber": 50.0, "dimensions": 3}, {"max_features": 6000}),
}


def timed(ready, **settings):
    started = time.process_time()
    solution = ready.solve(quiet=True, **settings)
    return solution, time.process_time() - started


def ready_problems(names) -> None:
    print("| problem | grades | features | error | held-out residual | seconds of a core |\n|---|---|---|---|---|---|")
    for name in names:
        cases = LARGE.items() if name == "large" else ((name, case) for case in CASES[name])
        for problem, (options, settings) in cases:
            ready = READY[problem](**options)
            solution, seconds = timed(ready, **settings)
            print(
                f"| {ready.name} | {len(solution.records)} | {solution.num_features} | {ready.error(solution):.1e} "
                f"| {solution.error_estimate:.1e} | {seconds:.1f} |",
                flush=True,
            )


def grades_beside_one(names) -> None:
    """The same number of features, from 300 by steps of 2.5 or at once, on the same lattice and coordinates."""
    print("| problem | features | grades | error | seconds of a core |\n|---|---|---|---|---|")
    for name in names:
        ready = READY[name](**CASES[name][0][0])
        for max_grades, first in ((3, 150), (2, 300), (1, 750)):
            solution, seconds = timed(ready, max_features=750, tolerance=0.0, max_grades=max_grades, first=first)
            print(
                f"| {ready.name} | {solution.num_features} | {len(solution.records)} | {ready.error(solution):.1e} "
                f"| {seconds:.1f} |",
                flush=True,
            )


# ---- conditions that are missing -------------------------------------------------------------------------------


def with_conditions_missing() -> dict[str, Problem]:
    """Problems that do not determine u."""
    line, square, strip = Box((0.0,), (1.0,)), Box((0.0, 0.0), (1.0, 1.0)), Box((0.0, 0.0), (1.0, 0.2))
    annulus = Difference(Ball((0.0, 0.0), 1.0), Ball((0.0, 0.0), 0.3))

    def at(axis: int, end: float):
        return lambda points: points[:, axis] == end

    def slope(axis: int):
        return lambda u, x: derivative(u, x, axis)

    def waves(u, x):
        return derivative(u, x, 1, 2) - derivative(u, x, 0, 2)

    def heat(u, x):
        return derivative(u, x, 1) - derivative(u, x, 0, 2)

    def poisson(u, x):
        return laplacian(u, x) - jnp.sin(x[0])

    def is_0(u, x):
        return u(x)

    def is_wave(u, x):
        return u(x) - jnp.sin(jnp.pi * x[0])

    one = Condition(lambda u, x: u(x) - 1, at(0, 0.0))
    first = Condition(lambda u, x: u(x)[0] - 1, at(0, 0.0))
    begin = Condition(is_wave, at(1, 0.0))
    return {
        "u'' + 9 u = 0, u at one end": Problem(line, lambda u, x: laplacian(u, x) + 9 * u(x), [one]),
        "fourth order, three values": Problem(
            line, lambda u, x: derivative(u, x, 0, 4) - 1, [Condition(is_0), Condition(slope(0), at(0, 0.0))]
        ),
        "u'' = cos(pi x), slopes": Problem(
            line, lambda u, x: laplacian(u, x) - jnp.cos(jnp.pi * x[0]), [Condition(slope(0))]
        ),
        "u'' + 4 pi^2 u = 1, in resonance": Problem(
            line, lambda u, x: laplacian(u, x) + 4 * jnp.pi**2 * u(x) - 1, [Condition(is_0)]
        ),
        "u'' + u^3 = sin x, u at one end": Problem(
            line, lambda u, x: poisson(u, x) + u(x) ** 3, [one], is_linear=False
        ),
        "two equations, one value": Problem(
            line, lambda u, x: derivative(u, x, 0) - jnp.stack([u(x)[1], -u(x)[0]]), [first], num_unknowns=2
        ),
        "Poisson, three sides": Problem(square, poisson, [Condition(is_0, lambda p: p[:, 0] < 1)]),
        "Poisson, all but 0.3 of a side": Problem(
            square, poisson, [Condition(is_0, lambda p: (p[:, 0] < 1) | (p[:, 1] < 0.7))]
        ),
        "Poisson, an annulus without its inner circle": Problem(
            annulus, poisson, [Condition(is_0, lambda p: np.hypot(*p.T) > 0.9)]
        ),
        "Helmholtz at 30, three sides": Problem(
            square, lambda u, x: laplacian(u, x) + 900 * u(x), [Condition(is_wave, lambda p: p[:, 0] < 1)]
        ),
        "heat, no start": Problem(
            strip, heat, [Condition(lambda u, x: u(x) - x[1], lambda p: np.abs(p[:, 0] - 0.5) == 0.5)]
        ),
        "heat, one end": Problem(strip, heat, [begin, Condition(is_0, at(0, 0.0))]),
        "wave, no speed at the start": Problem(square, waves, [Condition(is_wave, lambda p: p[:, 1] < 1)]),
        "wave, one end": Problem(square, waves, [begin, Condition(slope(1), at(1, 0.0)), Condition(is_0, at(0, 0.0))]),
        "transport, no inflow": Problem(square, lambda u, x: derivative(u, x, 1) + derivative(u, x, 0), [begin]),
    }


def determined() -> None:
    """What ``solve`` says of problems that do not determine u, and of the ready ones."""
    print("| problem | a condition is missing | told |\n|---|---|---|")
    for name, problem in with_conditions_missing().items():
        solution = solve(problem, quiet=True, max_features=750)
        print(f"| {name} | yes | {'yes' if 'not determine' in solution.remark else 'no'} |", flush=True)
    for ready in (READY[name]() for name in ("poisson", "helmholtz", "lens", "heat", "wave", "burgers", "inverse")):
        solution = ready.solve(quiet=True, max_features=750)
        print(f"| {ready.name} | no | {'yes' if solution.remark else 'no'} |", flush=True)


# ---- classical solvers -----------------------------------------------------------------------------------------


def five_point(k: float, exact, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Helmholtz, u given on the boundary of the unit square, by second differences: u inside, and what it should be."""
    from scipy.sparse import diags, eye, kron
    from scipy.sparse.linalg import splu

    line = diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(n - 1, n - 1)) * n**2
    matrix = kron(line, eye(n - 1)) + kron(eye(n - 1), line) + k**2 * eye((n - 1) ** 2)
    values = _on_grid(exact, np.linspace(0, 1, n + 1))
    right = np.zeros((n - 1, n - 1))
    for side, edge in ((np.s_[0], values[0]), (np.s_[-1], values[-1])):
        right[side] -= n**2 * edge[1:-1]
    right[:, 0] -= n**2 * values[1:-1, 0]
    right[:, -1] -= n**2 * values[1:-1, -1]
    return splu(matrix.tocsc()).solve(right.ravel()).reshape(n - 1, n - 1), values[1:-1, 1:-1]


def chebyshev(k: float, exact, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The same by collocation at (n + 1)^2 Chebyshev points; the two second derivatives are diagonalised."""
    x = np.cos(np.pi * np.arange(n + 1) / n)
    ends = np.r_[2.0, np.ones(n - 1), 2.0] * (-1.0) ** np.arange(n + 1)
    first = np.outer(ends, 1 / ends) / (x[:, None] - x + np.eye(n + 1))
    first -= np.diag(first.sum(axis=1))
    second = 4 * first @ first  # the square has sides of length 1
    inner, outer = np.s_[1:-1], [0, -1]
    values = _on_grid(exact, (x + 1) / 2)
    right = -second[inner][:, outer] @ values[outer][:, inner] - values[inner][:, outer] @ second[inner][:, outer].T
    eigenvalues, vectors = np.linalg.eig(second[inner, inner])
    rotated = np.linalg.solve(vectors, np.linalg.solve(vectors, right).T).T
    solved = vectors @ (rotated / (eigenvalues[:, None] + eigenvalues + k**2)) @ vectors.T
    return np.real(solved), values[inner, inner]


def _on_grid(exact, axis: np.ndarray) -> np.ndarray:
    return exact(np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)).reshape(len(axis), -1)


def fourier(viscosity: float, exact, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Burgers at time 1 by n waves of period 2 and Runge-Kutta steps of fourth order with an integrating factor."""
    x = -1 + 2 * np.arange(n) / n
    waves = 1j * np.pi * np.fft.fftfreq(n, 1 / n)
    num_steps = 4 * n
    half = np.exp(viscosity * waves**2 / (2 * num_steps))
    is_kept = np.abs(np.fft.fftfreq(n)) < 1 / 3

    def slope(v):
        return -0.5 * waves * is_kept * np.fft.fft(np.real(np.fft.ifft(v)) ** 2) / num_steps

    v = np.fft.fft(-np.sin(np.pi * x))
    for _ in range(num_steps):
        a = slope(v)
        b = slope(half * (v + a / 2))
        c = slope(half * v + b / 2)
        d = slope(half**2 * v + half * c)
        v = half**2 * v + (half**2 * a + 2 * half * (b + c) + d) / 6
    return np.real(np.fft.ifft(v)), exact(np.stack([x, np.ones(n)], axis=1))


def classical() -> None:
    print("| problem | method | points along a side | error | seconds of a core |\n|---|---|---|---|---|")
    helmholtz = ((five_point, (100, 200, 400)), (chebyshev, (40, 60, 80)))
    cases = [(READY["helmholtz"](wavenumber=50.0), 50.0, *methods) for methods in helmholtz]
    cases += [(READY["burgers"](viscosity=nu), nu, fourier, (256, 512, 1024)) for nu in (0.1 / np.pi, THIN)]
    for ready, number, method, sizes in cases:
        for n in sizes:
            started = time.process_time()
            values, expected = method(number, ready.reference, n)
            error, seconds = np.linalg.norm(values - expected) / np.linalg.norm(expected), time.process_time() - started
            print(f"| {ready.name} | {method.__name__} | {n} | {error:.1e} | {seconds:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names, separated by commas; large for what takes minutes")
    parser.add_argument("--grades", action="store_true")
    parser.add_argument("--classical", action="store_true")
    parser.add_argument("--determined", action="store_true")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [name for name in CASES if name != "large"]
    if options.classical:
        classical()
    elif options.determined:
        determined()
    elif options.grades:
        grades_beside_one(options.only.split(",") if options.only else ["poisson", "heat", "lens", "burgers"])
    else:
        ready_problems(names)


if __name__ == "__main__":
    main()
