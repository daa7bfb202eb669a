"""Whether ``solve`` can be trusted: problems with known answers, and what it says of its own error.

    python -m benchmarks.trust                    # all problems, seed 0
    python -m benchmarks.trust --seeds 10         # ten seeds
    python -m benchmarks.trust --only airy,bratu  # those whose names contain one of these
    python -m benchmarks.trust --dimensions 1     # intervals alone

For each run: the relative root mean square error at 2,000 points, the bound that ``solve`` gives, the remark, and
seconds of process time. At the end it counts

- silent wrong answers: an error above 2 % (or no solution, or many) without a remark;
- false alarms: a remark on an error below 1e-4;
- flattering bounds: a bound below the error;
- loose bounds: a bound above 1,000 times the error.

References are closed forms, SciPy's ``solve_ivp`` at 1e-13, or "none" where no solution exists or many do.
"""

import argparse
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special
from scipy.integrate import quad, solve_ivp

from multigrade.equations import (
    READY,
    Ball,
    Box,
    Condition,
    Data,
    Difference,
    Problem,
    derivative,
    gradient,
    laplacian,
    solve,
    solve_integral,
)

SILENT, GOOD, LOOSE = 2e-2, 1e-4, 1e3
PI = np.pi


def at(axis: int, end: float):
    return lambda points: points[:, axis] == end


def value(target=0.0, where=None, index=None) -> Condition:
    """u, or one of its unknowns, is ``target``: a number or a function of x."""

    def residual(u, x):
        found = u(x) if index is None else u(x)[index]
        return found - (target(x) if callable(target) else target)

    return Condition(residual, where)


def slope(target=0.0, where=None, axis: int = 0) -> Condition:
    return Condition(lambda u, x: derivative(u, x, axis) - (target(x) if callable(target) else target), where)


def dirichlet(exact, **options) -> Condition:
    return Condition(lambda u, x: u(x) - exact(x), **options)


def pointwise(exact):
    def at_points(points):
        with jax.enable_x64(True):
            return np.asarray(jax.vmap(exact)(jnp.asarray(points)))

    return at_points


def line(low: float, high: float) -> Box:
    return Box((low,), (high,))


# ---- intervals -------------------------------------------------------------------------------------------------


def linear_on_a_line():
    second = lambda u, x: derivative(u, x, 0, 2)  # noqa: E731
    first = lambda u, x: derivative(u, x, 0)  # noqa: E731

    def convection(eps):
        return (
            Problem(line(0, 1), lambda u, x: eps * second(u, x) + first(u, x) - 1, [value()]),
            lambda p: p[:, 0] - np.expm1(-p[:, 0] / eps) / np.expm1(-1 / eps),
        )

    yield "convection, layer 1e-3", *convection(1e-3)
    yield "convection, layer 1e-5", *convection(1e-5)
    eps = 1e-6
    yield (
        "reaction, two layers 1e-3",
        Problem(line(0, 1), lambda u, x: -eps * second(u, x) + u(x) - 1, [value()]),
        (lambda p: 1 - (np.exp(-p[:, 0] / 1e-3) + np.exp((p[:, 0] - 1) / 1e-3)) / (1 + np.exp(-1e3))),
    )
    turn = 1e-5
    yield (
        "turning point, layer",
        Problem(line(-1, 1), lambda u, x: turn * second(u, x) + x[0] * first(u, x), [value(lambda x: x[0])]),
        lambda p: special.erf(p[:, 0] / np.sqrt(2 * turn)) / special.erf(1 / np.sqrt(2 * turn)),
    )
    for eps in (1e-4, 1e-5):
        k = eps ** (-1 / 3)
        ends = float(special.airy(-k)[0]), float(special.airy(k)[0])
        yield f"Airy {eps:g}", Problem(
            line(-1, 1), lambda u, x, eps=eps: eps * second(u, x) - x[0] * u(x),
            [value(lambda x, ends=ends: jnp.where(x[0] < 0, *ends))],
        ), lambda p, k=k: special.airy(k * p[:, 0])[0]  # fmt: skip

    def rough(x):
        return 2 + jnp.sin(60 * x[0])

    yield (
        "divergence form, 60",
        Problem(
            line(0, 1),
            lambda u, x: derivative(lambda z: rough(z) * (derivative(u, z, 0) - jnp.cos(z[0])), x, 0),
            [value(lambda x: jnp.sin(x[0]))],
        ),
        lambda p: np.sin(p[:, 0]),
    )
    yield "homogenisation, period 0.01", Problem(
        line(0, 1), lambda u, x: derivative(lambda z: derivative(u, z, 0) / (2 + jnp.sin(200 * PI * z[0])), x, 0) + 1,
        [value()],
    ), _homogenised  # fmt: skip
    yield (
        "beam",
        Problem(line(0, 1), lambda u, x: derivative(u, x, 0, 4) - 24, [value(), slope()]),
        (lambda p: (p[:, 0] * (1 - p[:, 0])) ** 2),
    )
    yield (
        "stiff decay 1e6",
        Problem(
            line(0, 1),
            lambda u, x: first(u, x) + 1e6 * (u(x) - jnp.cos(x[0])) + jnp.sin(x[0]),
            [value(2.0, at(0, 0.0))],
        ),
        lambda p: np.cos(p[:, 0]) + np.exp(-1e6 * p[:, 0]),
    )
    yield (
        "growth exp(30 x)",
        Problem(line(0, 1), lambda u, x: first(u, x) - 30 * u(x), [value(1.0, at(0, 0.0))]),
        (lambda p: np.exp(30 * p[:, 0])),
    )
    yield (
        "interval of 1e6",
        Problem(line(0, 1e6), lambda u, x: 1e10 * second(u, x) + u(x), [value(lambda x: jnp.cos(x[0] / 1e5))]),
        lambda p: np.cos(p[:, 0] / 1e5),
    )
    for width in (1e-2, 1e-3):
        yield (
            f"narrow source {width:g}",
            Problem(
                line(0, 1), lambda u, x, w=width: second(u, x) - jnp.exp(-(((x[0] - 0.37) / w) ** 2) / 2) / w, [value()]
            ),
            lambda p, w=width: _narrow(p[:, 0], 0.37, w),
        )
    yield (
        "interface, naive",
        Problem(
            line(0, 1),
            lambda u, x: derivative(lambda z: jnp.where(z[0] < 0.5, 1.0, 10.0) * derivative(u, z, 0), x, 0),
            [value(lambda x: x[0])],
        ),
        lambda p: np.where(p[:, 0] < 0.5, p[:, 0] / 0.55, 1 - (1 - p[:, 0]) / 5.5),
    )
    yield "resonance", Problem(line(0, 1), lambda u, x: second(u, x) + PI**2 * u(x) - 1, [value()]), None
    yield "slopes alone", Problem(line(0, 1), lambda u, x: second(u, x) - jnp.cos(PI * x[0]), [slope()]), None
    yield "slopes that contradict", Problem(line(0, 1), lambda u, x: second(u, x) - 1, [slope()]), None
    yield "one value too few", Problem(line(0, 1), lambda u, x: second(u, x) + 9 * u(x), [value(1.0, at(0, 0.0))]), None
    yield (
        "source with a jump",
        Problem(line(0, 1), lambda u, x: second(u, x) - jnp.sign(x[0] - 0.4), [value(lambda x: jnp.abs(x[0] - 0.4))]),
        lambda p: _jump(p[:, 0]),
    )
    yield "Bessel, singular at 0", Problem(
        line(0, 10), lambda u, x: x[0] * second(u, x) + first(u, x) + x[0] * u(x),
        [value(float(special.j0(10.0)), at(0, 10.0))],
    ), lambda p: special.j0(p[:, 0])  # fmt: skip
    yield (
        "oscillation 200",
        Problem(line(0, 1), lambda u, x: second(u, x) + 200.0**2 * u(x), [value(lambda x: jnp.sin(200 * x[0] + 0.3))]),
        lambda p: np.sin(200 * p[:, 0] + 0.3),
    )
    yield (
        "oscillation 2000",
        Problem(
            line(0, 1), lambda u, x: second(u, x) + 2000.0**2 * u(x), [value(lambda x: jnp.sin(2000 * x[0] + 0.3))]
        ),
        lambda p: np.sin(2000 * p[:, 0] + 0.3),
    )
    yield (
        "chirp",
        Problem(line(0, 1), lambda u, x: first(u, x) - 120 * x[0] * jnp.cos(60 * x[0] ** 2), [value(0.0, at(0, 0.0))]),
        lambda p: np.sin(60 * p[:, 0] ** 2),
    )
    yield (
        "delay",
        Problem(line(0, 3), lambda u, x: first(u, x) + jnp.where(x[0] < 1, 1.0, u(x - 1)), [value(1.0, at(0, 0.0))]),
        lambda p: _delayed(p[:, 0]),
    )
    yield (
        "square root at 0",
        Problem(line(0, 1), lambda u, x: x[0] * first(u, x) - 0.5 * u(x), [value(1.0, at(0, 1.0))]),
        lambda p: np.sqrt(p[:, 0]),
    )


def _homogenised(points):
    """u' = -(x - c) a, with a = 2 + sin(200 pi x), and u = 0 at both ends."""
    k = 200 * PI

    def parts(x):  # integrals of a and of x a
        return 2 * x + (1 - np.cos(k * x)) / k, x**2 - x * np.cos(k * x) / k + np.sin(k * x) / k**2

    whole, moment = parts(1.0)
    plain, first = parts(points[:, 0])
    return moment / whole * plain - first


def _narrow(x, c, w):
    def twice(x):  # the second integral of exp(-((x - c) / w)^2 / 2) / w
        z = (x - c) / w
        return np.sqrt(PI / 2) * (x - c) * special.erf(z / np.sqrt(2)) + w * np.exp(-(z**2) / 2)

    return twice(x) - twice(0.0) * (1 - x) - twice(1.0) * x


def _jump(x):
    particular = np.abs(x - 0.4) * (x - 0.4) / 2
    left, right = 0.4 + 0.08, 0.6 - 0.18
    return particular + left * (1 - x) + right * x


def _delayed(x):
    one = 1 - x
    two = (x - 1) ** 2 / 2 - (x - 1)  # u' = -u(x - 1) from u(1) = 0
    three = -0.5 - ((x - 2) ** 3 / 6 - (x - 2) ** 2 / 2)
    return np.where(x < 1, one, np.where(x < 2, two, three))


def system(slopes, begin, end: float, method: str = "DOP853"):
    """u' = slopes(u) from ``begin`` at time 0, and SciPy's solution."""
    size = len(begin)

    def interior(u, x):
        values = u(x) if size > 1 else jnp.atleast_1d(u(x))
        return jnp.atleast_1d(derivative(u, x, 0)) - jnp.stack(slopes(values, jnp))

    start = jnp.array(begin)
    condition = Condition(lambda u, x: u(x) - (start if size > 1 else start[0]), at(0, 0.0))
    problem = Problem(line(0, end), interior, [condition], num_unknowns=size, is_linear=False)

    def reference(points):
        found = solve_ivp(
            lambda t, y: np.array(slopes(y, np)), (0, end), begin, method, dense_output=True, rtol=1e-12, atol=1e-14
        )
        return found.sol(points[:, 0]).T

    return problem, reference


def nonlinear_on_a_line():
    def pendulum(end):
        problem = Problem(
            line(0, end), lambda u, x: derivative(u, x, 0, 2) + jnp.sin(u(x)),
            [value(2.0, at(0, 0.0)), slope(0.0, at(0, 0.0))], is_linear=False,
        )  # fmt: skip
        _, reference = system(lambda y, n: [y[1], -n.sin(y[0])], [2.0, 0.0], end)
        return problem, lambda p: reference(p)[:, 0]

    for end in (5.0, 8.0, 20.0):
        yield f"pendulum to {end:g}", *pendulum(end)
    for mu, end in ((1.0, 10.0), (10.0, 20.0), (100.0, 200.0)):
        method = "DOP853" if mu < 5 else "Radau"
        yield (
            f"Van der Pol {mu:g}",
            *system(lambda y, n, mu=mu: [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]], [2.0, 0.0], end, method),
        )
    for end in (0.5, 3.0, 10.0):
        yield f"Lorenz to {end:g}", *system(
            lambda y, n: [10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]],
            [1.0, 1.0, 1.0], end,
        )  # fmt: skip
    yield "Robertson to 100", *system(
        lambda y, n: [
            -0.04 * y[0] + 1e4 * y[1] * y[2], 0.04 * y[0] - 1e4 * y[1] * y[2] - 3e7 * y[1] ** 2, 3e7 * y[1] ** 2
        ], [1.0, 0.0, 0.0], 100.0, "Radau",
    )  # fmt: skip
    yield "Lotka-Volterra", *system(lambda y, n: [y[0] * (1 - y[1]), y[1] * (y[0] - 1)], [2.0, 1.0], 15.0)
    yield "logistic 50", *system(lambda y, n: [50 * y[0] * (1 - y[0])], [0.01], 1.0)
    yield "Duffing", *system(lambda y, n: [y[1], y[0] - y[0] ** 3 - 0.1 * y[1]], [1.5, 0.0], 20.0)
    yield (
        "blow-up",
        Problem(line(0, 1.5), lambda u, x: derivative(u, x, 0) - u(x) ** 2, [value(1.0, at(0, 0.0))], is_linear=False),
        None,
    )
    for rate in (2.0, 3.513, 3.55):
        yield f"Bratu {rate:g}", Problem(
            line(0, 1), lambda u, x, rate=rate: derivative(u, x, 0, 2) + rate * jnp.exp(u(x)), [value()],
            is_linear=False,
        ), (lambda p, rate=rate: _bratu(p[:, 0], rate)) if rate < 3.52 else None  # fmt: skip
    yield "Lane-Emden 5", Problem(
        line(0, 5), lambda u, x: x[0] * derivative(u, x, 0, 2) + 2 * derivative(u, x, 0) + x[0] * u(x) ** 5,
        [value(1.0, at(0, 0.0)), slope(0.0, at(0, 0.0))], is_linear=False,
    ), lambda p: 1 / np.sqrt(1 + p[:, 0] ** 2 / 3)  # fmt: skip
    eps = 0.02
    yield "steady Burgers, layer", Problem(
        line(-1, 1), lambda u, x: eps * derivative(u, x, 0, 2) - u(x) * derivative(u, x, 0),
        [value(lambda x: -jnp.tanh(x[0] / (2 * eps)))], is_linear=False,
    ), lambda p: -np.tanh(p[:, 0] / (2 * eps))  # fmt: skip
    yield "Troesch 5", Problem(
        line(0, 1), lambda u, x: derivative(u, x, 0, 2) - 5 * jnp.sinh(5 * u(x)), [value(lambda x: x[0])],
        is_linear=False,
    ), _troesch  # fmt: skip
    points = np.linspace(0, 1, 200)[:, None]
    yield "coefficient from exact data", *_coefficient(points, 0.0)
    yield "coefficient from data, noise 1 %", *_coefficient(points, 0.01)


def _bratu(x, rate):
    from scipy.optimize import brentq

    theta = brentq(lambda t: t - np.sqrt(2 * rate) * np.cosh(t / 4), 0, 4.7987, xtol=1e-15)
    return -2 * np.log(np.cosh((x - 0.5) * theta / 2) / np.cosh(theta / 4))


def _troesch(points):
    from scipy.integrate import solve_bvp

    x = 1 - np.linspace(1, 0, 400) ** 2
    found = solve_bvp(
        lambda t, y: np.stack([y[1], 5 * np.sinh(5 * y[0])]), lambda a, b: np.array([a[0], b[0] - 1]), x,
        np.stack([x**8, 8 * x**7]), tol=1e-11, max_nodes=100_000,
    )  # fmt: skip
    return found.sol(points[:, 0])[0]


def _coefficient(points, noise: float):
    """- (a u')' = f: u and a from values of u."""

    def exact(x):
        return jnp.stack([jnp.sin(PI * x[0] / 2) + x[0], 1 + 0.5 * jnp.cos(4 * x[0])])

    def flow(u, x):
        return derivative(lambda z: u(z)[1] * derivative(u, z, 0)[0], x, 0)

    values = pointwise(exact)(points)[:, 0]
    values = values + noise * np.abs(values).max() * np.random.default_rng(5).normal(size=len(values))
    problem = Problem(
        line(0, 1), lambda u, x: flow(u, x) - flow(exact, x),
        [Condition(lambda u, x: u(x)[1] - exact(x)[1], at(0, 0.0))], [Data(points, values)],
        num_unknowns=2, is_linear=False, start=(0.0, 1.0),
    )  # fmt: skip
    problem = Problem(
        problem.domain, problem.interior, problem.conditions,
        [Data(points, values, lambda u, x: u(x)[0])], num_unknowns=2, is_linear=False, start=(0.0, 1.0),
    )  # fmt: skip
    return problem, pointwise(exact)


# ---- the plane and space ---------------------------------------------------------------------------------------

SQUARE, DISC = Box((0.0, 0.0), (1.0, 1.0)), Ball((0.0, 0.0), 1.0)


def in_the_plane():
    few = {"max_features": 1000}
    yield "Poisson, source 1", Problem(SQUARE, lambda u, x: laplacian(u, x) + 1, [value()]), _torsion, few
    yield (
        "Laplace, u jumps",
        Problem(SQUARE, laplacian, [value(lambda x: jnp.where(x[1] == 1, 1.0, 0.0))]),
        _hot_side,
        few,
    )
    yield "heat, incompatible corner", Problem(
        Box((0.0, 0.0), (1.0, 0.2)), lambda u, x: derivative(u, x, 1) - derivative(u, x, 0, 2),
        [value(lambda x: jnp.where(x[1] == 0, 1.0, 0.0), lambda p: p[:, 1] < 0.2)],
    ), _quenched, few  # fmt: skip
    yield "backward heat", Problem(
        Box((0.0, 0.0), (1.0, 0.2)), lambda u, x: derivative(u, x, 1) + derivative(u, x, 0, 2),
        [value(lambda x: jnp.sin(PI * x[0]), lambda p: p[:, 1] < 0.2)],
    ), lambda p: np.sin(PI * p[:, 0]) * np.exp(PI**2 * p[:, 1]), few  # fmt: skip
    ring = Difference(DISC, Ball((0.0, 0.0), 0.25))
    log = lambda x: 0.5 * jnp.log(jnp.sum(x**2))  # noqa: E731
    yield "annulus, log r", Problem(ring, laplacian, [dirichlet(log)]), lambda p: np.log(np.hypot(*p.T)), few
    outer = lambda p: np.hypot(*p.T) > 0.9  # noqa: E731
    inner = lambda p: np.hypot(*p.T) < 0.9  # noqa: E731
    yield (
        "annulus, inner circle missing",
        Problem(ring, lambda u, x: laplacian(u, x) - jnp.sin(x[0]), [value(0.0, outer)]),
        None,
        few,
    )
    harmonic = lambda x: (x[0] ** 2 - x[1] ** 2) / jnp.sum(x**2) ** 2 + x[0]  # noqa: E731
    yield "annulus, slope inside", Problem(
        ring, laplacian,
        [
            dirichlet(harmonic, where=outer),
            Condition(lambda u, x: (gradient(u, x) - gradient(harmonic, x)) @ x, inner),
        ],
    ), pointwise(harmonic), few  # fmt: skip
    yield "slopes that contradict, square", Problem(
        SQUARE, lambda u, x: laplacian(u, x) - 1,
        [Condition(lambda u, x: jnp.where(jnp.abs(x[0] - 0.5) == 0.5, *gradient(u, x)))],
    ), None, few  # fmt: skip
    yield (
        "Helmholtz in resonance",
        Problem(SQUARE, lambda u, x: laplacian(u, x) + 5 * PI**2 * u(x) - x[0], [value()]),
        None,
        few,
    )
    shape = Difference(Box((-1.0, -1.0), (1.0, 1.0)), Box((0.0, -1.0), (1.0, 0.0)))
    corner = lambda x: jnp.sum(x**2) ** (1 / 3) * jnp.sin(2 / 3 * (jnp.arctan2(x[0], -x[1]) + PI / 2 - PI / 2))  # noqa: E731
    yield "L-shape, r^(2/3)", Problem(shape, laplacian, [dirichlet(_corner)]), pointwise(_corner), few
    del corner
    for k in (8.0, 20.0):
        yield f"Sommerfeld in an annulus, {k:g}", *_sommerfeld(k), few
    for width in (0.05, 0.01):
        yield f"narrow source {width:g}, square", *_bump(width), few
    yield "transport of a jump", Problem(
        SQUARE, lambda u, x: derivative(u, x, 1) + 0.5 * derivative(u, x, 0),
        [value(lambda x: jnp.where(x[0] - 0.5 * x[1] > 0.2, 1.0, 0.0), lambda p: (p[:, 0] == 0) | (p[:, 1] == 0))],
    ), lambda p: (p[:, 0] - 0.5 * p[:, 1] > 0.2).astype(float), few  # fmt: skip
    clamped = lambda x: jnp.prod(jnp.sin(PI * x) ** 2)  # noqa: E731
    yield "biharmonic, clamped", Problem(
        SQUARE, lambda u, x: laplacian(lambda z: laplacian(u, z) - laplacian(clamped, z), x),
        [value(), Condition(lambda u, x: jnp.where(jnp.abs(x[0] - 0.5) == 0.5, *gradient(u, x)))],
    ), pointwise(clamped), few  # fmt: skip
    string = lambda x: jnp.exp(-50 * (x[0] - 0.5) ** 2)  # noqa: E731
    yield "wave, Gaussian, to 20", *_string(20.0, string), few
    yield "wave, Gaussian, to 1", *_string(1.0, string), few
    periodic = Condition(lambda u, x: u(x) - u(x.at[0].set(1.0)), at(0, 0.0))
    slopes = Condition(lambda u, x: derivative(u, x, 0) - derivative(u, x.at[0].set(1.0), 0), at(0, 0.0))
    moving = lambda x: jnp.exp(jnp.sin(2 * PI * (x[0] - x[1])))  # noqa: E731
    yield (
        "transport, periodic",
        Problem(
            SQUARE,
            lambda u, x: derivative(u, x, 1) + derivative(u, x, 0),
            [periodic, dirichlet(moving, where=at(1, 0.0))],
        ),
        pointwise(moving),
        few,
    )
    del slopes
    for name, options in (
        ("poisson", {}),
        ("helmholtz", {"wavenumber": 30.0}),
        ("heat", {}),
        ("lens", {}),
        ("wave", {}),
    ):
        ready = READY[name](**options)
        yield ready.name, ready, None, few
    ready = READY["burgers"]()
    yield ready.name, ready, None, few
    manufactured = lambda x: jnp.sin(2 * x[0]) * jnp.cos(3 * x[1])  # noqa: E731
    yield "cubic, manufactured", Problem(
        DISC, lambda u, x: laplacian(u, x) - laplacian(manufactured, x) - u(x) ** 3 + manufactured(x) ** 3,
        [dirichlet(manufactured)], is_linear=False,
    ), pointwise(manufactured), few  # fmt: skip
    cube = Box((0.0,) * 3, (1.0,) * 3)
    in_space = lambda x: jnp.exp(-jnp.sum((x - 0.3) ** 2)) * jnp.sin(3 * x[2])  # noqa: E731
    yield (
        "Poisson in the cube",
        Problem(cube, lambda u, x: laplacian(u, x) - laplacian(in_space, x), [dirichlet(in_space)]),
        pointwise(in_space),
        few,
    )
    bent = lambda x: jnp.sin(PI * x[0] * x[1]) + x[2] ** 2  # noqa: E731
    yield "Poisson in a ball with u^2", Problem(
        Ball((0.0,) * 3, 1.0), lambda u, x: laplacian(u, x) - laplacian(bent, x) + u(x) ** 2 - bent(x) ** 2,
        [dirichlet(bent)], is_linear=False,
    ), pointwise(bent), few  # fmt: skip


def _corner(x):
    """r^(2/3) sin(2/3 phi), phi from the edge x_1 > 0, x_2 = 0 of the L-shape whose missing quarter is the fourth."""
    angle = jnp.arctan2(x[1], x[0])
    angle = jnp.where(angle < -1e-9, angle + 2 * PI, angle)
    return (jnp.sum(x**2) + 1e-300) ** (1 / 3) * jnp.sin(2 / 3 * angle)


def _torsion(p):
    """- Laplace u = 1 with u = 0 on the unit square, by its series in one direction."""
    n = np.arange(1, 400, 2)[:, None]
    x, y = p.T
    decay = (np.exp(-n * PI * y) + np.exp(-n * PI * (1 - y))) / (1 + np.exp(-n * PI))
    return np.sum(4 / (n * PI) ** 3 * np.sin(n * PI * x) * (1 - decay), axis=0)


def _hot_side(p):
    n = np.arange(1, 4000, 2)[:, None]
    x, y = p.T
    shares = (np.exp(n * PI * (y - 1)) - np.exp(-n * PI * (y + 1))) / (1 - np.exp(-2 * n * PI))
    return np.sum(4 / (n * PI) * np.sin(n * PI * x) * shares, axis=0)


def _quenched(p):
    n = np.arange(1, 2000, 2)[:, None]
    return np.sum(4 / (n * PI) * np.sin(n * PI * p[:, 0]) * np.exp(-((n * PI) ** 2) * p[:, 1]), axis=0)


def _sommerfeld(k: float):
    """A radiating field of order 3 between radii 0.5 and 1; its exact impedance outside."""
    order, inside, outside = 3, 0.5, 1.0
    r = np.linspace(inside, outside, 400)
    field = special.hankel1(order, k * r)
    impedance = complex(k * special.h1vp(order, k * outside) / special.hankel1(order, k * outside))
    scale = complex(special.hankel1(order, k * inside))

    def angle(x):
        return jnp.arctan2(x[1], x[0])

    def outgoing(u, x):
        normal = x / jnp.sqrt(jnp.sum(x**2))
        a, b = u(x)
        slopes = gradient(u, x) @ normal
        return (
            slopes - jnp.stack([impedance.real * a - impedance.imag * b, impedance.imag * a + impedance.real * b])
        ) / k

    begin = Condition(
        lambda u, x: u(x) - jnp.stack([jnp.cos(order * angle(x)), jnp.sin(order * angle(x))]),
        lambda p: np.hypot(*p.T) < 0.75,
    )
    problem = Problem(
        Difference(DISC, Ball((0.0, 0.0), inside)), lambda u, x: (laplacian(u, x) + k**2 * u(x)) / k**2,
        [begin, Condition(outgoing, lambda p: np.hypot(*p.T) > 0.75)], num_unknowns=2,
    )  # fmt: skip

    def reference(p):
        radius, phi = np.hypot(*p.T), np.arctan2(p[:, 1], p[:, 0])
        found = special.hankel1(order, k * radius) / scale * np.exp(1j * order * phi)
        return np.stack([found.real, found.imag], axis=1)

    del field
    return problem, reference


def _bump(width: float):
    exact = lambda x: jnp.exp(-jnp.sum((x - jnp.array([0.4, 0.55])) ** 2) / (2 * width**2)) + x[0] * x[1]  # noqa: E731
    return Problem(SQUARE, lambda u, x: laplacian(u, x) - laplacian(exact, x), [dirichlet(exact)]), pointwise(exact)


def _string(end: float, begin):
    """u_tt = u_xx with u = 0 at both ends (up to exp(-12.5)), from rest: by reflections."""
    problem = Problem(
        Box((0.0, 0.0), (1.0, end)), lambda u, x: derivative(u, x, 1, 2) - derivative(u, x, 0, 2),
        [
            value(lambda x: begin(x) - jnp.exp(-12.5), lambda p: p[:, 1] == 0),
            value(0.0, lambda p: (p[:, 0] == 0) | (p[:, 0] == 1)),
            slope(0.0, at(1, 0.0), 1),
        ],
    )  # fmt: skip

    def odd(x):
        x = np.mod(x, 2)
        sign = np.where(x < 1, 1, -1)
        x = np.where(x < 1, x, 2 - x)
        return sign * (np.exp(-50 * (x - 0.5) ** 2) - np.exp(-12.5))

    return problem, lambda p: (odd(p[:, 0] - p[:, 1]) + odd(p[:, 0] + p[:, 1])) / 2


# ---- integral equations ----------------------------------------------------------------------------------------


def integral():
    def case(kernel, source, reference, interval=(0.0, 1.0), **options):
        return lambda **given: solve_integral(kernel, source, interval, **{**options, **given}), reference

    one = lambda p: np.ones(len(p))  # noqa: E731
    for power, factor in ((0.5, 10.0), (0.9, 30.0)):
        yield f"Fredholm, |s - t|^-{power:g}, named", *case(
            lambda s, t: np.ones_like(s - t),
            lambda s, f=factor, q=1 - power: f - (s**q + (1 - s) ** q) / q, one, factor=factor, singularity=power,
        )  # fmt: skip
        whole = lambda s, q=1 - power: (s**q + (1 - s) ** q) / q  # noqa: E731
        yield (
            f"Fredholm, |s - t|^-{power:g}",
            *case(lambda s, t, p=power: np.abs(s - t) ** -p, lambda s, f=factor, w=whole: f - w(s), one, factor=factor),
        )

    def log_source(s):
        x, y = np.maximum(s, 1e-300), np.maximum(1 - s, 1e-300)
        return 3 - (s * np.log(x) + (1 - s) * np.log(y) - 1)

    yield "Fredholm, log |s - t|", *case(lambda s, t: np.log(np.abs(s - t)), log_source, one, factor=3.0)
    yield (
        "Fredholm, log |s - t|, named",
        *case(lambda s, t: np.ones_like(s - t), log_source, one, factor=3.0, singularity="log"),
    )
    width, centre = 1e-5, 0.3712345
    peak = lambda t: np.exp(-(((t - centre) / width) ** 2) / 2) / (width * np.sqrt(2 * PI))  # noqa: E731
    yield "Fredholm, a peak of 1e-5", *case(lambda s, t: (1 + s) * peak(t), lambda s: 3 - (1 + s), one, factor=3.0)
    yield (
        "Fredholm, kink at s + t = 1",
        *case(lambda s, t: np.abs(s + t - 1), lambda s: 2 - (s**2 + (1 - s) ** 2) / 2, one, factor=2.0),
    )
    yield "Fredholm, smooth", *case(lambda s, t: np.exp(s * t), lambda s: np.exp(s) - _laplace(s), _exp, factor=1.0)
    yield "Volterra to 10", READY["volterra"](), None
    yield "Fredholm 100", READY["fredholm"](wavenumber=100.0), None
    yield "resonance, integral", *case(lambda s, t: 3 * s * t, np.ones_like, None)


def _exp(p):
    return np.exp(p[:, 0])


def _laplace(s):
    return np.array([quad(lambda t, x=x: np.exp(x * t + t), 0, 1, epsabs=1e-14)[0] for x in np.ravel(s)])


# ---- the run ---------------------------------------------------------------------------------------------------


def cases(dimensions: int | None):
    for make in (linear_on_a_line, nonlinear_on_a_line, in_the_plane, integral):
        if dimensions is None or (dimensions == 1) == (make in (linear_on_a_line, nonlinear_on_a_line)):
            if dimensions == 0 and make is not integral:
                continue
            yield from make()


def run(problem, reference, options, seed: int):
    """Solution, relative error, seconds; an error is infinite where there is no solution, or many."""
    started = time.process_time()
    if isinstance(problem, Problem):
        solution, domain = solve(problem, quiet=True, seed=seed, **options), problem.domain
    elif callable(problem):  # an integral equation, without a seed
        solution = problem(quiet=True, max_features=400)
        domain = solution.domain
    else:
        given = {} if "Fredholm" in problem.name or "Volterra" in problem.name else {"seed": seed, **options}
        solution, domain, reference = problem.solve(quiet=True, **given), problem.domain, problem.reference
    seconds = time.process_time() - started
    if reference is None:
        return solution, np.inf, seconds
    points = domain.inside(np.random.default_rng(7), 2000)
    expected = reference(points).reshape(len(points), -1)
    found = solution(points)[:, : expected.shape[1]]
    return solution, float(np.linalg.norm(found - expected) / np.linalg.norm(expected)), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--features", type=int, help="at most, of problems on intervals and in the plane")
    parser.add_argument("--dimensions", type=int, help="1: intervals; 2: the rest; 0: integral equations")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # remarks are counted here
    counts = dict.fromkeys(("runs", "right", "silent", "false alarms", "flattering", "loose"), 0)
    print("| problem | seed | features | error | bound | seconds | said |\n|---|---|---|---|---|---|---|")
    for name, problem, reference, *rest in cases(options.dimensions):
        if not any(part.lower() in name.lower() for part in options.only.split(",")):
            continue
        for seed in range(options.seeds):
            given = {"max_features": options.features} if options.features else rest[0] if rest else {}
            counts["runs"] += 1
            try:
                solution, error, seconds = run(problem, reference, given, seed)
            except ValueError as refusal:
                print(f"| {name} | {seed} | - | - | - | - | refused: {str(refusal)[:60]} |", flush=True)
                continue
            bound, said = getattr(solution, "error_bound", solution.error_estimate), solution.remark
            marks = {
                "silent": error > SILENT and not said,
                "false alarms": error < GOOD and bool(said),
                "flattering": bound < error and not (said and np.isinf(error)),
                "loose": error < GOOD and bound > LOOSE * max(error, 1e-15),
            }
            counts["right"] += error < GOOD
            for mark, is_so in marks.items():
                counts[mark] += is_so
            marked = " ".join(mark.upper() for mark, is_so in marks.items() if is_so)
            print(
                f"| {name} | {seed} | {solution.num_features} | {error:.1e} | {bound:.1e} | {seconds:.1f} "
                f"| {marked} {said[:60]} |",
                flush=True,
            )
    print(", ".join(f"{count} {what}" for what, count in counts.items()))


if __name__ == "__main__":
    main()
