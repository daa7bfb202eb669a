"""Integral equations of the second kind, a u(s) - integral of k(s, t) u(t) dt = f(s), by grades of sine features.

The interval is cut into panels with a few Gauss-Legendre nodes each, and the equation is asked to hold at the ends of
the panels. A kernel that is smooth but for t = s, such as exp(i kappa |s - t|), is then smooth on every panel, and the
quadrature resolves it if the panels are short against its oscillation. Fredholm equations integrate over the whole
interval, Volterra equations from its start to s. Real and imaginary part are the two outputs of the model.
"""

import time
from collections.abc import Callable

import numpy as np

from ..least_squares import Triangle, reduce_blocks
from ..model import Grade, MultiGrade
from ..networks import Layer
from ..sines import Box as UnitBox
from ..sines import SineNetwork, lattice
from .domains import Box
from .solution import GradeRecord, Solution

NUM_NODES = 8  # on each panel
RIDGE = 1e-28  # of the squared singular values: rounding in float64 is 1e-32
LARGE_RIDGE = 1e-18  # where the smaller one makes weights too large
LARGEST = 1e4  # weight over the size of the solution: beyond it digits are lost by cancellation
GROWTH = 2.0  # of the number of features from grade to grade; our choice


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
    if kind not in ("fredholm", "volterra"):
        raise ValueError(f"kind must be fredholm or volterra; got {kind!r}")
    if factor == 0:
        raise ValueError("factor must not be 0: equations of the first kind are ill-posed, and not solved here")
    domain = Box((float(interval[0]),), (float(interval[1]),))
    low, high = domain.bounds
    box, model, records = UnitBox(low, high - low), MultiGrade(), []
    total, num_features, best = np.zeros((2, 2)), 100, np.inf
    while True:
        begun = time.perf_counter()
        waves = lattice(1, num_features // 2)
        edges = np.linspace(low[0], high[0], 2 * num_features + 1)
        layer = box.first_layer(waves)
        operator, right = _rows(kernel, source, edges, layer, kind, factor)
        train, held = slice(0, None, 2), slice(1, None, 2)
        coefficients = _complex_solution(operator[train], right[train])
        residual = operator[held] @ coefficients - right[held]
        now = float(np.linalg.norm(residual) / (np.linalg.norm(right[held]) or 1.0))
        if now < best:
            after = float(np.linalg.norm(operator[train] @ coefficients - right[train]))
            grown = np.stack([np.real(coefficients), np.imag(coefficients)], axis=1)
            num_old = len(total) - 2
            added = grown.copy()
            added[: num_old + 1] -= total[:-1]
            added[-1] -= total[-1]
            first = Layer(layer.weight[:, num_old:], layer.bias[num_old:])
            network = SineNetwork(1, num_old, len(layer.bias) - num_old, 2)
            model = model.add(Grade(network, (first, Layer(added[:-1], added[-1])), 1.0))
            change = float(np.linalg.norm(added) / (np.linalg.norm(grown) or 1.0))
            seconds = time.perf_counter() - begun
            records.append(GradeRecord(len(grown), float(np.linalg.norm(right[train])), after, now, change, seconds))
            total = grown
            if not quiet:
                print(f"grade {len(records)}: {records[-1]}", flush=True)
        if now < tolerance or (best < 1e-6 and now > 0.3 * best) or num_features >= max_features:
            break
        best, num_features = min(best, now), min(int(GROWTH * num_features), max_features)
    residuals, seconds = {"equation": min(best, now)}, time.perf_counter() - started
    solution = Solution(f"{kind} equation", domain, model, tuple(records), residuals, seconds)
    if not quiet:
        print(solution.sentence, flush=True)
    return solution


def _rows(kernel, source, edges, layer: Layer, kind: str, factor: complex) -> tuple[np.ndarray, np.ndarray]:
    """The equation applied to every feature, at the ends of the panels; and the source there."""
    nodes, weights = np.polynomial.legendre.leggauss(NUM_NODES)
    half = np.diff(edges)[:, None] / 2
    t = ((edges[:-1, None] + edges[1:, None]) / 2 + half * nodes).ravel()
    w = (half * weights).ravel()
    s = edges[:, None]
    right = np.asarray(source(edges), complex)
    right = np.full(edges.shape, right) if right.ndim == 0 else right
    if right.shape != edges.shape or not np.isfinite(right).all():
        raise ValueError(f"source must give a finite number for each of {edges.shape} points; got shape {right.shape}")
    features = _features(layer, t)
    parts = []
    for start in range(0, len(edges), 256):
        rows = kernel(s[start : start + 256], t[None]) * w
        if not np.isfinite(rows).all():
            raise ValueError("kernel must be finite; got NaN or infinity")
        if kind == "volterra":
            rows = np.where(t[None] < s[start : start + 256], rows, 0)
        parts.append(factor * _features(layer, edges[start : start + 256]) - rows @ features)
    return np.concatenate(parts).astype(complex), right


def _features(layer: Layer, t: np.ndarray) -> np.ndarray:
    return np.column_stack([t, np.sin(t[:, None] @ layer.weight + layer.bias), np.ones(len(t))])


def _complex_solution(operator: np.ndarray, right: np.ndarray) -> np.ndarray:
    num = operator.shape[1]
    real, imaginary = np.real(operator), np.imag(operator)
    rows = np.block([[real, -imaginary], [imaginary, real]])
    reduced = reduce_blocks([np.column_stack([rows, np.concatenate([np.real(right), np.imag(right)])])])
    triangle = Triangle(reduced[:, :-1], reduced[:, -1:], np.zeros(2 * num), np.zeros(1), False, 0.0)
    scale = np.linalg.norm(triangle.factor) ** 2 / np.sqrt(2 * num)
    both = triangle.solve(RIDGE * scale)[:, 0]
    if np.abs(both).max() > LARGEST * np.abs(right).max():  # they would cancel each other, and digits be lost
        both = triangle.solve(LARGE_RIDGE * scale)[:, 0]
    return both[:num] + 1j * both[num:]
