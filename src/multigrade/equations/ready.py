"""Ready problems, each with a reference: a closed form, or a classical method that converges to the solution."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .derivatives import derivative, gradient, laplacian
from .domains import Box
from .integral import solve_integral
from .problem import Condition, Data, Problem
from .solution import Solution
from .solve import solve


@dataclasses.dataclass(frozen=True)
class Ready:
    """A problem whose solution is known.

    Parameters
    ----------
    name : str
    solve : function
        Takes the options of ``solve``, or of ``solve_integral``, and returns a ``Solution``.
    reference : function of points (N, d) -> (N,) or (N, s)
        The solution.
    domain : Box
    """

    name: str
    solve: Callable[..., Solution]
    reference: Callable[[np.ndarray], np.ndarray]
    domain: Box

    def error(self, solution: Solution, num_points: int = 2000) -> float:
        """Relative root mean square error at random points; of u alone where there are other unknowns."""
        low, high = self.domain.bounds
        points = low + (high - low) * np.random.default_rng(7).random((num_points, len(low)))
        expected = self.reference(points).reshape(num_points, -1)
        return float(np.linalg.norm(solution(points)[:, : expected.shape[1]] - expected) / np.linalg.norm(expected))


def _of(problem: Problem, exact: Callable | None = None, reference: Callable | None = None) -> Ready:
    """With the solution as a JAX function of one point, or as a reference of many."""

    def at_points(points):
        with jax.enable_x64(True):
            return np.asarray(jax.vmap(exact)(jnp.asarray(points)))

    box: Box = problem.domain  # pyright: ignore[reportAssignmentType]
    return Ready(problem.name, lambda **options: solve(problem, **options), reference or at_points, box)


def _integral(name: str, kernel: Callable, kind: str, interval: tuple[float, float], reference: Callable) -> Ready:
    """With source 1."""

    def run(**options):
        return solve_integral(kernel, lambda s: np.ones_like(s, complex), interval, kind=kind, **options)

    return Ready(name, run, reference, Box(interval[:1], interval[1:]))


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < np.inf:
        raise ValueError(f"{name} must be a positive number; got {value!r}")


def _square(dimensions: int = 2) -> Box:
    return Box((0.0,) * dimensions, (1.0,) * dimensions)


def poisson(layer: float = 0.05) -> Ready:
    """- Laplace u = f on the unit square, u given on its boundary, with a layer of this width at x = 1."""
    _check_positive("layer", layer)

    def exact(x):
        return jnp.sin(jnp.pi * x[1]) * (x[0] - jnp.exp((x[0] - 1) / layer))

    problem = Problem(
        _square(), lambda u, x: laplacian(u, x) - laplacian(exact, x), [Condition(lambda u, x: u(x) - exact(x))],
        name=f"Poisson, layer {layer:g}",
    )  # fmt: skip
    return _of(problem, exact)


def helmholtz(wavenumber: float = 50.0, dimensions: int = 2, boundary: str = "dirichlet") -> Ready:
    """Laplace u + k^2 u = 0 on the unit square or cube: three plane waves.

    With ``boundary`` "dirichlet" u is given there; with "absorbing" it is du/dn - i k u, and u is complex.
    """
    _check_positive("wavenumber", wavenumber)
    if dimensions not in (2, 3) or boundary not in ("dirichlet", "absorbing"):
        raise ValueError(
            f"helmholtz needs 2 or 3 dimensions and boundary dirichlet or absorbing; got {dimensions!r}, {boundary!r}"
        )
    directions = np.random.default_rng(2).normal(size=(3, dimensions))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    k = wavenumber
    name = f"Helmholtz, wave number {k:g}, {dimensions} dimensions, {boundary}"
    if boundary == "dirichlet":
        real = lambda x: jnp.sum(jnp.cos(k * (directions @ x) + jnp.arange(3)))  # noqa: E731
        condition = Condition(lambda u, x: u(x) - real(x))
        problem = Problem(_square(dimensions), lambda u, x: laplacian(u, x) + k**2 * u(x), [condition], name=name)
        return _of(problem, real)

    def both(x):
        phase = k * (directions @ x) + jnp.arange(3)
        return jnp.stack([jnp.sum(jnp.cos(phase)), jnp.sum(jnp.sin(phase))])

    def impedance(u, x):
        """Real and imaginary part of du/dn - i k u, at the side that x lies on."""
        middle = x - 0.5
        normal = jnp.where(jnp.abs(middle) >= jnp.max(jnp.abs(middle)), jnp.sign(middle), 0.0)
        slope, value = gradient(u, x) @ normal, u(x)
        return (slope + k * jnp.stack([value[1], -value[0]])) / k

    problem = Problem(
        _square(dimensions), lambda u, x: laplacian(u, x) + k**2 * u(x),
        [Condition(lambda u, x: impedance(u, x) - impedance(both, x))], num_unknowns=2, name=name,
    )  # fmt: skip
    return _of(problem, both)


def lens(wavenumber: float = 20.0, num_points: int | None = None) -> Ready:
    """Laplace u + (k n(x))^2 u = f with u = 0 on the boundary and an index n that varies like a lens.

    The reference is the compact nine-point scheme of fourth order on ``num_points`` (8 k if not given, from 200 to 500)
    and on twice as many points along a side, extrapolated (Richardson).
    """
    _check_positive("wavenumber", wavenumber)
    k = wavenumber
    num_points = num_points or int(np.clip(8 * k, 200, 500))

    def index(x):
        return 1 + 0.25 * jnp.exp(-20 * ((x[0] - 0.5) ** 2 + (x[1] - 0.5) ** 2))

    def source(x):
        return k**2 * jnp.exp(-60 * ((x[0] - 0.3) ** 2 + (x[1] - 0.4) ** 2))

    problem = Problem(
        _square(), lambda u, x: laplacian(u, x) + (k * index(x)) ** 2 * u(x) - source(x),
        [Condition(lambda u, x: u(x))], name=f"Helmholtz with a lens, wave number {k:g}",
    )  # fmt: skip

    def reference(points):
        coarse, fine = (_nine_point(k, index, source, n) for n in (num_points, 2 * num_points))
        values = coarse + 16 / 15 * (fine[::2, ::2] - coarse)
        from scipy.interpolate import RectBivariateSpline

        axis = np.linspace(0, 1, num_points + 1)
        return RectBivariateSpline(axis, axis, values, kx=5, ky=5)(points[:, 0], points[:, 1], grid=False)

    return _of(problem, reference=reference)


def _nine_point(k: float, index, source, n: int) -> np.ndarray:
    """u at (n + 1)^2 points of the unit square, 0 on the boundary, by the compact scheme

    (A + B + h^2/6 A B) u + (1 + h^2/12 (A + B)) (q u - f) = 0,   A, B second differences, q = (k index)^2.
    """
    from scipy.sparse import diags, kron
    from scipy.sparse.linalg import splu

    axis = np.linspace(0, 1, n + 1)
    with jax.enable_x64(True):
        grid = jnp.asarray(np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2))
        squares = np.asarray(jax.vmap(lambda x: (k * index(x)) ** 2)(grid)).reshape(n + 1, n + 1)
        right = np.asarray(jax.vmap(source)(grid)).reshape(n + 1, n + 1)
    difference = diags([1.0, -2.0, 1.0], [0, 1, 2], shape=(n - 1, n + 1)) * n**2  # pyright: ignore
    at = diags([1.0], [1], shape=(n - 1, n + 1))  # pyright: ignore
    both = kron(difference, at) + kron(at, difference)
    mean = kron(at, at) + both / (12 * n**2)
    matrix = both + kron(difference, difference) / (6 * n**2) + mean @ diags([squares.ravel()], [0])  # pyright: ignore
    values = np.zeros((n + 1, n + 1))
    values[1:-1, 1:-1] = splu((matrix @ kron(at, at).T).tocsc()).solve(mean @ right.ravel()).reshape(n - 1, n - 1)
    return values


def heat() -> Ready:
    """u_t = u_xx on the unit interval up to time 0.2; u given at the start and at both ends."""

    def exact(x):
        decays = jnp.exp(-((jnp.pi * jnp.array([1.0, 3.0])) ** 2) * x[1])
        return jnp.sum(jnp.array([1.0, 0.5]) * decays * jnp.sin(jnp.pi * jnp.array([1.0, 3.0]) * x[0]))

    problem = Problem(
        Box((0.0, 0.0), (1.0, 0.2)), lambda u, x: derivative(u, x, 1) - derivative(u, x, 0, 2),
        [Condition(lambda u, x: u(x) - exact(x), where=lambda points: points[:, 1] < 0.2)], name="heat",
    )  # fmt: skip
    return _of(problem, exact)


def wave() -> Ready:
    """u_tt = u_xx on the unit interval up to time 1: u and u_t given at the start, u = 0 at the ends."""

    def exact(x):
        return jnp.sin(4 * jnp.pi * x[0]) * jnp.cos(4 * jnp.pi * x[1]) + jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])

    at_start = lambda points: points[:, 1] == 0  # noqa: E731
    problem = Problem(
        Box((0.0, 0.0), (1.0, 1.0)), lambda u, x: derivative(u, x, 1, 2) - derivative(u, x, 0, 2),
        [
            Condition(lambda u, x: u(x) - exact(x), where=lambda points: points[:, 1] < 1),
            Condition(lambda u, x: derivative(u, x, 1) - derivative(exact, x, 1), where=at_start),
        ],
        name="wave",
    )  # fmt: skip
    return _of(problem, exact)


def burgers(viscosity: float = 0.1 / np.pi) -> Ready:
    """u_t + u u_x = viscosity u_xx on [-1, 1] up to time 1, from -sin(pi x): a shock forms at x = 0.

    The reference is the closed form of Cole and Hopf, by Gauss-Hermite quadrature.
    """
    _check_positive("viscosity", viscosity)
    problem = Problem(
        Box((-1.0, 0.0), (1.0, 1.0)),
        lambda u, x: derivative(u, x, 1) + u(x) * derivative(u, x, 0) - viscosity * derivative(u, x, 0, 2),
        [Condition(lambda u, x: u(x) + jnp.sin(jnp.pi * x[0]), where=lambda points: points[:, 1] < 1)],
        is_linear=False, name=f"Burgers, viscosity {viscosity:.4g}",
    )  # fmt: skip

    def reference(points):
        nodes, weights = np.polynomial.hermite.hermgauss(200)
        shifted = points[:, :1] - np.sqrt(4 * viscosity * points[:, 1:]) * nodes
        exponent = -np.cos(np.pi * shifted) / (2 * np.pi * viscosity)
        density = weights * np.exp(exponent - exponent.max(axis=1, keepdims=True))
        return -np.sum(density * np.sin(np.pi * shifted), axis=1) / np.sum(density, axis=1)

    return _of(problem, reference=reference)


def fredholm(wavenumber: float = 500.0) -> Ready:
    """u(s) - integral of exp(i kappa |s - t|) u(t) over [-1, 1] = 1.

    K'' = - kappa^2 K + 2 i kappa delta makes it u'' + (kappa^2 - 2 i kappa) u = kappa^2 with (K u)' = +- i kappa K u at
    the ends, where K u = u - 1: a constant and two exponentials.
    """
    _check_positive("wavenumber", wavenumber)
    kappa = wavenumber
    root = np.sqrt(kappa**2 - 2j * kappa)
    constant = kappa**2 / root**2
    ends = np.array([1.0, -1.0])
    rates = 1j * root * np.array([1.0, -1.0])
    matrix = np.exp(np.outer(ends, rates)) * (rates - 1j * kappa * ends[:, None])
    amplitudes = np.linalg.solve(matrix, 1j * kappa * ends * (constant - 1))

    def reference(points):
        values = constant + np.exp(points * rates) @ amplitudes
        return np.stack([values.real, values.imag], axis=1)

    kernel = lambda s, t: np.exp(1j * kappa * np.abs(s - t))  # noqa: E731
    return _integral(f"Fredholm, kernel exp(i {kappa:g} |s - t|)", kernel, "fredholm", (-1.0, 1.0), reference)


def volterra() -> Ready:
    """u(s) - integral of (t - s) u(t) from 0 to s = 1, whose solution is cos(s), on [0, 10]."""
    return _integral("Volterra", lambda s, t: t - s, "volterra", (0.0, 10.0), np.cos)


def inverse() -> Ready:
    """- (a u')' = f on [0, 1]: u, the first output, and the coefficient a, the second, from 50 values of u."""

    def exact(x):
        return jnp.stack([jnp.sin(jnp.pi * x[0]) + 0.3 * jnp.sin(3 * jnp.pi * x[0]), 1 + 0.5 * jnp.cos(4 * x[0])])

    def flow(u, x):
        return derivative(lambda z: u(z)[1] * derivative(u, z, 0)[0], x, 0)

    points = np.linspace(0, 1, 50)[:, None]
    with jax.enable_x64(True):
        values = np.asarray(jax.vmap(exact)(jnp.asarray(points)))[:, 0]
    problem = Problem(
        Box((0.0,), (1.0,)), lambda u, x: flow(u, x) - flow(exact, x),
        data=[Data(points, values, lambda u, x: u(x)[0])],
        num_unknowns=2, is_linear=False, start=(0.0, 1.0), name="coefficient from data",
    )  # fmt: skip
    return _of(problem, exact)


READY: dict[str, Callable[..., Ready]] = {
    "poisson": poisson, "helmholtz": helmholtz, "lens": lens, "heat": heat, "wave": wave, "burgers": burgers,
    "fredholm": fredholm, "volterra": volterra, "inverse": inverse,
}  # fmt: skip
