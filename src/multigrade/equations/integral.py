"""Integral equations of the second kind, a u(s) - integral of k(s, t) u(t) dt = f(s), by grades of sine features.

The interval is cut into panels with a few Gauss-Legendre nodes each, and the equation is asked to hold at the ends of
the panels. A kernel that is smooth but for t = s, such as exp(i kappa |s - t|), is then smooth on every panel, and the
quadrature resolves it if the panels are short against its oscillation. Fredholm equations integrate over the whole
interval, Volterra equations from its start to s. Real and imaginary part are the two outputs of the model.
"""

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from ..least_squares import ROUNDING_RIDGES, solve_blocks
from ..sines import lattice
from .coordinates import Coordinates
from .determined import UNDETERMINED_IN_1D, smallest
from .domains import Box
from .rows import Basis
from .solution import UNSOLVED, GradeRecord, Solution

NUM_NODES = 8  # on each panel
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
    max_features: int = 3000,
    tolerance: float = 1e-10,
    quiet: bool = False,
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
    max_features : int
    tolerance : float
        No grade is added once the held-out residual relative to the source is below.
    quiet : bool
        Whether to print nothing after each grade.

    Returns
    -------
    Solution
        Its outputs are the real and the imaginary part of u.
    """
    started = time.perf_counter()
    _check(kind, factor, max_features, tolerance)
    domain = Box((float(interval[0]),), (float(interval[1]),))
    basis, records, name = Basis.constant(Coordinates(*domain.bounds), np.zeros(2)), [], f"{kind} equation"
    num_features, best, remark = min(FIRST, max_features), np.inf, ""
    while True:
        begun = time.perf_counter()
        edges = np.linspace(*interval, 2 * num_features + 1)
        grown = basis.grown(lattice(1, num_features // 2)[basis.num_waves :])
        operator, right = _rows(kernel, source, edges, grown, kind, factor)
        train, held = slice(0, None, 2), slice(1, None, 2)
        coefficients = _complex_solution(operator[train], right[train])
        residual = operator @ coefficients - right
        now = float(np.linalg.norm(residual[held]) / (np.linalg.norm(right[held]) or 1.0))
        if now < best:
            before, moved = basis, np.stack([np.real(coefficients), np.imag(coefficients)], axis=1)
            norms = float(np.linalg.norm(right[train])), float(np.linalg.norm(residual[train]))
            basis = dataclasses.replace(grown, coefficients=moved).closed(before)
            change, seconds = basis.change_from(before, edges[held, None]), time.perf_counter() - begun
            records.append(GradeRecord(basis.num_features, *norms, now, change, seconds))
            if not quiet:
                print(f"grade {len(records)}: {records[-1]}", flush=True)
        if now > UNSOLVED and kind == "fredholm" and _is_resonant(kernel, edges, operator, right, factor):
            remark = (
                "not solved: the equation with source 0 has solutions (resonance), and with this source it has none"
            )
            break
        if now < tolerance or (best < 1e-6 and now > 0.3 * best) or num_features >= max_features:
            remark = "not solved: more features are needed" if min(best, now) > UNSOLVED else ""
            break
        best, num_features = min(best, now), min(int(GROWTH * num_features), max_features)
    if kind == "fredholm" and not remark and _is_undetermined(operator, grown.features(edges[:, None]), factor):
        remark = (
            "the equation does not determine u: with source 0 it has solutions (resonance), which can be added to u"
        )
    residuals, seconds = {"equation": min(best, now)}, time.perf_counter() - started
    solution = Solution(name, domain, basis.model, tuple(records), residuals, seconds, remark)
    if not quiet:
        print(solution.sentence, flush=True)
    return solution


def _check(kind: str, factor: complex, max_features: int, tolerance: float) -> None:
    if kind not in ("fredholm", "volterra"):
        raise ValueError(f"kind must be fredholm or volterra; got {kind!r}")
    if factor == 0:
        raise ValueError("factor must not be 0: equations of the first kind are ill-posed, and not solved here")
    if not max_features >= 20:
        raise ValueError(f"max_features must be at least 20; got {max_features!r}")
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be at least 0; got {tolerance!r}")


def _rows(kernel, source, edges, basis: Basis, kind: str, factor: complex) -> tuple[np.ndarray, np.ndarray]:
    """The equation applied to every feature, at the ends of the panels; and the source there."""
    nodes, weights = np.polynomial.legendre.leggauss(NUM_NODES)
    half = np.diff(edges)[:, None] / 2
    t = ((edges[:-1, None] + edges[1:, None]) / 2 + half * nodes).ravel()
    w = (half * weights).ravel()
    right = np.asarray(source(edges), complex)
    right = np.full(edges.shape, right) if right.ndim == 0 else right
    if right.shape != edges.shape or not np.isfinite(right).all():
        raise ValueError(f"source must give a finite number for each of {edges.shape} points; got shape {right.shape}")
    features, parts = basis.features(t[:, None]), []
    for s in np.split(edges[:, None], range(256, len(edges), 256)):
        rows = kernel(s, t[None]) * w
        if not np.isfinite(rows).all():
            raise ValueError("kernel must be finite; got NaN or infinity")
        if kind == "volterra":
            rows = np.where(t[None] < s, rows, 0)
        parts.append(factor * basis.features(s) - rows @ features)
    return np.concatenate(parts).astype(complex), right


def _is_resonant(kernel, edges: np.ndarray, operator: np.ndarray, right: np.ndarray, factor: complex) -> bool:
    """Whether the adjoint operator maps what least squares leave, r, to 0: no u then has a source with a part along r.

    conj(a) r(t) - integral of conj(k(s, t)) r(s) ds is computed in the middles of the panels, by trapezoids. A residual
    that finer waves would lower is not mapped to 0, so that resonance is told apart from too few features.
    """
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


def _is_undetermined(operator: np.ndarray, features: np.ndarray, factor: complex) -> bool:
    """Whether the operator maps some function of the first features nearly to 0."""
    operator, features = operator[:, :NUM_TESTED] / abs(factor), features[:, :NUM_TESTED]
    rows, values = _real_rows(operator), np.kron(np.eye(2), features)
    found = smallest(rows, values)
    return bool(np.linalg.norm(rows @ found) < UNDETERMINED_IN_1D * np.linalg.norm(values @ found))


def _real_rows(operator: np.ndarray) -> np.ndarray:
    """The real matrix that maps real and imaginary part to real and imaginary part."""
    real, imaginary = np.real(operator), np.imag(operator)
    return np.block([[real, -imaginary], [imaginary, real]])


def _complex_solution(operator: np.ndarray, right: np.ndarray, ridges=ROUNDING_RIDGES) -> np.ndarray:
    rows = np.column_stack([_real_rows(operator), np.r_[np.real(right), np.imag(right)]])
    size = LARGEST * np.abs(right).max()
    both, _ = solve_blocks([rows], lambda found: bool(np.abs(found).max() <= size), ridges)
    return both[: operator.shape[1]] + 1j * both[operator.shape[1] :]
