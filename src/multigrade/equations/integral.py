"""Integral equations of the second kind, a u(s) - integral of k(s, t) u(t) dt = f(s), by grades of sine features.

The interval is cut into panels with a few Gauss-Legendre nodes each, and the equation is asked to hold at the ends of
the panels. A kernel that is smooth but for t = s, such as exp(i kappa |s - t|), is then smooth on every panel, and the
quadrature resolves it if the panels are short against its oscillation. Fredholm equations integrate over the whole
interval, Volterra equations from its start to s. Real and imaginary part are the two outputs of the model.

A kernel that is infinite at t = s is given without the factor |s - t|^-p or log |s - t|, which is named: on the panels
beside s the polynomial through the values at the nodes is then integrated against it exactly. What is held out is
integrated by another, finer rule, which goes towards t = s in ever shorter panels; and at a few s by 200,000 points.
"""

import dataclasses
import time
from collections.abc import Callable

import numpy as np
from scipy.special import roots_jacobi

from ..least_squares import ROUNDING_RIDGES, solve_blocks
from ..sines import lattice
from .bound import SAFETY, UNDETERMINED_IN_1D, damped_triangle, smallest
from .coordinates import Coordinates
from .domains import Box
from .rows import Basis
from .solution import UNSOLVED, UNSURE, GradeRecord, Solution

NUM_NODES, NUM_FINER_NODES = 8, 10  # on each panel; on each half of it where it is held out
TOWARDS, NUM_SHORTER = 0.15, 12  # each panel towards s is this part of the one before, and how many there are
NUM_HELD_OUT = 100  # s, at most, that are held out
NUM_CHECKED, NUM_DENSE = 8, 200_000  # s and t of the last check, which a peak of a millionth of the interval escapes
IS_RESOLVED = 1e-4  # the points of this check agree with the panels to more than this where the kernel is resolved
LARGEST = 1e4  # coefficients relative to the source: larger ones would cancel each other
FIRST, GROWTH = 100, 2.0  # features of the first grade, and their growth from grade to grade; our choice
RESONANT = 0.01  # at most, of the residual is left where the adjoint operator is applied to it
SMOOTH_RIDGE = 1e-8  # of the residual for this, relative to the square of the largest singular value
NUM_TESTED = 200  # features among which solutions for source 0 are looked for


def solve_integral(
    kernel: Callable[[np.ndarray, np.ndarray], np.ndarray],
    source: Callable[[np.ndarray], np.ndarray],
    interval: tuple[float, float],
    *,
    kind: str = "fredholm",
    factor: complex = 1.0,
    singularity: float | str | None = None,
    max_features: int = 3000,
    tolerance: float = 1e-10,
    quiet: bool = True,
    on_grade: Callable[[GradeRecord], None] | None = None,
) -> Solution:
    """Solve ``factor`` u(s) - integral of kernel(s, t) u(t) dt = source(s) on an interval.

    Parameters
    ----------
    kernel, source : functions of arrays, real or complex
        ``kernel(s, t)`` is called with s (n, 1) and t (1, m). It may have a kink or a jump at t = s.
    interval : (float, float)
        Its start and its end.
    kind : "fredholm" or "volterra"
        Integrate over the interval, or from its start to s.
    factor : complex
        Not 0, for an equation of the second kind.
    singularity : float or "log", optional
        The kernel of the equation is ``kernel(s, t)`` times |s - t|^-singularity, which is below 1 (Abel's kernel has
        0.5), or times log |s - t|. Give ``kernel`` without this factor.
    max_features : int
    tolerance : float
        No grade is added once the held-out residual relative to the source is below.
    quiet : bool
        False prints every grade.
    on_grade : function, optional
        Called with the record of every grade.

    Returns
    -------
    Solution
        Its outputs are the real and the imaginary part of u.
    """
    started = time.perf_counter()
    _check(kind, factor, singularity, max_features, tolerance)
    tell = on_grade or (lambda record: None if quiet else print(record, flush=True))
    domain = Box((float(interval[0]),), (float(interval[1]),))
    basis, records, name = Basis.constant(Coordinates(*domain.bounds), np.zeros(2)), [], f"{kind} equation"
    num_features, best, remark = min(FIRST, max_features), np.inf, ""
    amplified, is_arbitrary, unresolved, bound = np.inf, False, 0.0, np.inf
    while True:
        begun = time.perf_counter()
        equation = _Equation(kernel, source, np.linspace(*interval, 2 * num_features + 1), kind, factor, singularity)
        grown = basis.grown(lattice(1, num_features // 2)[basis.num_waves :])
        operator, right = equation.rows(grown)
        train = slice(0, None, 2)
        coefficients = _complex_solution(operator[train], right[train])
        residual = operator @ coefficients - right
        solved = dataclasses.replace(
            grown, coefficients=np.stack([np.real(coefficients), np.imag(coefficients)], axis=1)
        )
        left = _rms(equation.held_out(solved))
        now = left / (_rms(right) or 1.0)
        if now < best:
            before, basis = basis, solved.closed(basis)
            norms = float(np.linalg.norm(right[train])), float(np.linalg.norm(residual[train]))
            change, seconds = basis.change_from(before, equation.edges[:, None]), time.perf_counter() - begun
            records.append(GradeRecord(basis.num_features, *norms, now, change, seconds))
            tell(records[-1])
            amplified, is_arbitrary = _amplification(operator, grown.features(equation.edges[:, None]), factor)
            bound = SAFETY * amplified * left / abs(factor) / (_rms(basis.values(equation.edges[:, None])) or 1.0)
            unresolved = equation.unresolved(basis)
        if now > UNSOLVED and kind == "fredholm" and singularity is None and _is_resonant(equation, operator, right):
            remark = (
                "not solved: the equation with source 0 has solutions (resonance), and with this source it has none"
            )
            break
        is_the_rule = now > 0.6 * best and _rms(residual) < 0.01 * left  # which is wrong: u solves its equations
        if now < tolerance or (best < 1e-6 and now > 0.3 * best) or is_the_rule or num_features >= max_features:
            remark = "not solved: more features are needed" if min(best, now) > UNSOLVED else ""
            break
        best, num_features = min(best, now), min(int(GROWTH * num_features), max_features)
    if kind == "fredholm" and not remark and is_arbitrary:
        remark = (
            "the equation does not determine u: with source 0 it has solutions (resonance), which can be added to u"
        )
    if unresolved > IS_RESOLVED:
        bound = max(bound, SAFETY * amplified * unresolved / abs(factor))
    if bound > UNSURE and (not remark or "more features" in remark):
        remark = (
            f"not solved for sure: u may be wrong by {bound:.1e} of its size: the integral of the kernel is not "
            "resolved; where it is infinite at t = s name its singularity, and where it has a peak give more features"
        )
    residuals, seconds = {"equation": min(best, now)}, time.perf_counter() - started
    bound = np.inf if remark and bound < UNSURE else bound
    solution = Solution(name, domain, basis.model, tuple(records), residuals, seconds, remark, float(bound))
    if not quiet:
        print(solution.sentence, flush=True)
    return solution.told()


def _check(kind: str, factor: complex, singularity, max_features: int, tolerance: float) -> None:
    if kind not in ("fredholm", "volterra"):
        raise ValueError(f"kind must be fredholm or volterra; got {kind!r}")
    if factor == 0:
        raise ValueError("factor must not be 0: equations of the first kind are ill-posed, and not solved here")
    is_known = singularity in (None, "log") or (not isinstance(singularity, str) and 0 < singularity < 1)
    if not is_known:
        raise ValueError(f'singularity must be "log", a number between 0 and 1, or None; got {singularity!r}')
    if not max_features >= 20:
        raise ValueError(f"max_features must be at least 20; got {max_features!r}")
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be at least 0; got {tolerance!r}")


def _rms(values: np.ndarray) -> float:
    return float(np.linalg.norm(values) / np.sqrt(len(values)))


@dataclasses.dataclass(frozen=True)
class _Equation:
    """The equation on panels between ``edges``."""

    kernel: Callable
    source: Callable
    edges: np.ndarray
    kind: str
    factor: complex
    singularity: float | str | None

    def singular(self, distance: np.ndarray) -> np.ndarray | float:
        """The factor of the kernel that is infinite at distance 0."""
        if self.singularity is None:
            return 1.0
        return np.log(distance) if self.singularity == "log" else distance ** -float(self.singularity)

    def rows(self, basis: Basis) -> tuple[np.ndarray, np.ndarray]:
        """The equation applied to every feature, at the edges; and the source there."""
        edges = self.edges
        right = np.asarray(self.source(edges), complex)
        right = np.full(edges.shape, right) if right.ndim == 0 else right
        if right.shape != edges.shape or not np.isfinite(right).all():
            raise ValueError(
                f"source must give a finite number for each of {edges.shape} points; got shape {right.shape}"
            )
        t, w, panel = _gauss(edges, NUM_NODES)
        features, parts = basis.features(t[:, None]), []
        for numbers in np.split(np.arange(len(edges)), range(256, len(edges), 256)):
            s = edges[numbers, None]
            weights = w * self.singular(np.abs(s - t))
            if self.singularity is not None:
                length = edges[1] - edges[0]
                beside = _beside(self.singularity, length, NUM_NODES)
                for row, number in enumerate(numbers):  # the panels that end at s, and that begin there
                    weights[row, panel == number - 1] = beside[::-1] if number else 0
                    weights[row, panel == number] = beside if number < len(edges) - 1 else 0
            rows = self.kernel(s, t[None]) * weights
            if not np.isfinite(rows).all():
                raise ValueError(
                    "kernel must be finite; got NaN or infinity. Where it is at t = s, name its singularity"
                )
            if self.kind == "volterra":
                rows = np.where(t[None] < s, rows, 0)
            parts.append(self.factor * basis.features(s) - rows @ features)
        return np.concatenate(parts).astype(complex), right

    def held_out(self, basis: Basis) -> np.ndarray:
        """What is left at some of the edges between those of the rows, relative to the source there, by a finer rule:
        panels of other lengths, shorter and shorter towards s."""
        edges, step = self.edges, self.edges[1] - self.edges[0]
        t, w, _ = _gauss(np.sort(np.r_[edges, edges[:-1] + (np.sqrt(2) - 1) * step]), NUM_FINER_NODES)
        if self.singularity is None:  # panels that become shorter and shorter find one that was not named
            distance, near, _ = _gauss(step * np.r_[0.0, TOWARDS ** np.arange(NUM_SHORTER, -1, -1)], NUM_FINER_NODES)
        else:
            distance, _, _ = _gauss(np.array([0.0, step]), NUM_FINER_NODES)
            near = _beside(self.singularity, step, NUM_FINER_NODES)

        def u(points: np.ndarray) -> np.ndarray:
            parts = np.array_split(points[:, None], len(points) // 4096 + 1)
            return np.concatenate([basis.values(part) for part in parts]) @ np.array([1, 1j])

        u_far, left = u(t), []
        held = edges[1::2][np.unique(np.linspace(0, len(edges) // 2 - 1, NUM_HELD_OUT).astype(int))]
        source = np.broadcast_to(np.asarray(self.source(held), complex), held.shape)
        for s in held:
            both = np.r_[s - distance[::-1], s + distance]
            is_far = (t < s - step) | (t > s + step)
            far = self.kernel(np.full((1, 1), s), t[None])[0] * w * self.singular(np.abs(s - t)) * is_far
            close = self.kernel(np.full((1, 1), s), both[None])[0] * np.r_[near[::-1], near]
            if self.kind == "volterra":
                far, close = np.where(t < s, far, 0), np.where(both < s, close, 0)
            left.append(self.factor * u(np.array([s]))[0] - far @ u_far - close @ u(both))
        if not np.isfinite(left).all():
            raise ValueError("kernel must be finite; got NaN or infinity. Where it is at t = s, name its singularity")
        return np.array(left) - source

    def unresolved(self, basis: Basis) -> float:
        """What 200,000 points find at a few s besides what the panels do, relative to u."""
        edges = self.edges
        dense = edges[0] + np.ptp(edges) * (np.arange(NUM_DENSE) + 0.5) / NUM_DENSE
        coarse = np.linspace(edges[0], edges[-1], 20_001)
        values = basis.values(coarse[:, None])
        u = np.interp(dense, coarse, values[:, 0]) + 1j * np.interp(dense, coarse, values[:, 1])
        t, w, _ = _gauss(edges, NUM_NODES)
        at_nodes = basis.values(t[:, None]) @ np.array([1, 1j])
        worst = 0.0
        for s in edges[np.linspace(0, len(edges) - 1, NUM_CHECKED).astype(int)]:
            sums = []
            for points, weights, known in ((dense, np.ptp(edges) / NUM_DENSE, u), (t, w, at_nodes)):
                away = np.abs(points - s) > 2 * (edges[1] - edges[0])  # where a singularity is not
                away &= (points < s) if self.kind == "volterra" else True
                k = self.kernel(np.full((1, 1), s), points[None])[0] * self.singular(np.abs(points - s) + ~away)
                sums.append(np.sum(np.where(away, k * known * weights, 0)))
            worst = max(worst, abs(sums[0] - sums[1]))
        return worst / (_rms(values) or 1.0)


def _gauss(edges: np.ndarray, num_nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on every panel, and the number of the panel."""
    nodes, weights = np.polynomial.legendre.leggauss(num_nodes)
    half = np.diff(edges)[:, None] / 2
    t = (edges[:-1, None] + edges[1:, None]) / 2 + half * nodes
    return t.ravel(), (half * weights).ravel(), np.repeat(np.arange(len(half)), num_nodes)


def _beside(singularity: float | str, length: float, num_nodes: int) -> np.ndarray:
    """Weights at Gauss-Legendre nodes of [0, length] for the integral against y^-p or log y.

    They integrate the polynomial through the nodes exactly: its coefficients of Legendre polynomials P_k(2 y - 1),
    times the integrals of these, which for log y are -1, 1/2, -1/6, ..., (-1)^(k+1) / (k (k + 1)).
    """
    nodes, weights = np.polynomial.legendre.leggauss(num_nodes)
    orders = np.arange(num_nodes)
    polynomials = np.polynomial.legendre.legvander(nodes, num_nodes - 1)
    coefficients = (2 * orders[:, None] + 1) / 2 * polynomials.T * weights  # of values at nodes
    if singularity == "log":
        moments = np.r_[-1.0, (-1.0) ** (orders[1:] + 1) / (orders[1:] * (orders[1:] + 1))]
        return length * (np.log(length) * weights / 2 + moments @ coefficients)
    power = float(singularity)
    x, w = roots_jacobi(num_nodes, 0.0, -power)
    moments = (w / 2 ** (1 - power)) @ np.polynomial.legendre.legvander(x, num_nodes - 1)
    return length ** (1 - power) * moments @ coefficients


def _is_resonant(equation: _Equation, operator: np.ndarray, right: np.ndarray) -> bool:
    """Whether the adjoint operator maps what least squares leave, r, to 0: no u then has a source with a part along r.

    conj(a) r(t) - integral of conj(k(s, t)) r(s) ds is computed in the middles of the panels, by trapezoids. A residual
    that finer waves would lower is not mapped to 0, so that resonance is told apart from too few features.
    """
    edges, kernel, factor = equation.edges, equation.kernel, equation.factor
    weights = np.r_[0.5, np.ones(len(edges) - 2), 0.5]
    roots = np.sqrt(weights)
    fitted = _complex_solution(roots[:, None] * operator, roots * right, (SMOOTH_RIDGE,))
    residual = operator @ fitted - right
    weighted = (edges[1] - edges[0]) * weights * residual
    middles = (edges[1:] + edges[:-1]) / 2
    adjoint = np.conj(factor) * (residual[1:] + residual[:-1]) / 2
    for rows in np.split(np.arange(len(edges)), range(256, len(edges), 256)):
        adjoint -= np.conj(kernel(edges[rows, None], middles[None])).T @ weighted[rows]
    return bool(np.linalg.norm(adjoint) < RESONANT * abs(factor) * np.linalg.norm(residual))


def _amplification(operator: np.ndarray, features: np.ndarray, factor: complex) -> tuple[float, bool]:
    """By how much the residual relative to ``factor`` can be amplified in u, among the first features; and whether
    the operator maps one of their sums to 0."""
    operator, features = operator[:, :NUM_TESTED] / abs(factor), features[:, :NUM_TESTED]
    rows, values = _real_rows(operator), np.kron(np.eye(2), features)
    found = smallest(damped_triangle(rows, values, 1e-10), values)
    noticed = float(np.linalg.norm(rows @ found) / np.linalg.norm(values @ found))
    return 1 / max(noticed, 1e-300), noticed < UNDETERMINED_IN_1D


def _real_rows(operator: np.ndarray) -> np.ndarray:
    """The real matrix that maps real and imaginary part to real and imaginary part."""
    real, imaginary = np.real(operator), np.imag(operator)
    return np.block([[real, -imaginary], [imaginary, real]])


def _complex_solution(operator: np.ndarray, right: np.ndarray, ridges=ROUNDING_RIDGES) -> np.ndarray:
    rows = np.column_stack([_real_rows(operator), np.r_[np.real(right), np.imag(right)]])
    size = LARGEST * np.abs(right).max()
    both, _ = solve_blocks([rows], lambda found: bool(np.abs(found).max() <= size), ridges)
    return both[: operator.shape[1]] + 1j * both[operator.shape[1] :]
