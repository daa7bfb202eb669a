"""A two-layer ReLU classifier as a convex program: labels y = +-1, logistic or hinge loss, with a certificate.

    p* = min sum_n l(y_n f_n) + beta sum_i (||u_i|| + ||v_i||),   f = sum_i D_i X (u_i - v_i),   u_i, v_i in K_i
    l(m) = log(1 + exp(-m))   or   max(0, 1 - m)

The dual has one number 0 <= a_n <= 1 for each row, minus the slope of l at its margin, and lambda = y a:

    p* = max sum_n h(a_n)    s.t. n(lambda) <= beta,    h(a) = -a log a - (1 - a) log(1 - a)   or   a

with the same n(lambda) as for squares (``certificate``); any a scaled down until it is feasible bounds p* from below.
The logistic program is solved by Newton's method in the outputs: each step is a program of squares with rows weighted
by the curvature of l, for the solvers that there are. The hinge loss has no curvature and goes to cvxpy.
"""

import dataclasses

import numpy as np
from scipy.special import entr, expit

from .certificate import Certificate, ConvexSolution, Outcome, largest_dual_norms, own_fit
from .exact import solve_hinge
from .program import ConvexProgram, check_positive
from .solvers import solve_newton

LEAST_CURVATURE = 1e-3  # of l, in the steps: rows that are surely right would pull at any distance
MAX_HALVINGS = 30


def solve_classifier(
    program: ConvexProgram, *, loss: str = "logistic", tolerance: float = 1e-4, max_iterations: int = 50
) -> ConvexSolution:
    """The classifier of least regularised loss among all networks with the program's patterns, with a certificate.

    Parameters
    ----------
    program : its targets are labels, -1 or 1 in one column, and its rows are not weighted
    loss : "logistic", or "hinge" (by cvxpy, ``multigrade[convex]``, for programs up to some hundred patterns)
    tolerance : the relative duality gap at which to stop
    max_iterations : Newton steps for the logistic loss

    Returns
    -------
    ConvexSolution
        The point with its certificate; ``to_network`` gives the network, whose sign is the class.
    """
    if loss not in ("logistic", "hinge"):
        raise ValueError(f"loss must be 'logistic' or 'hinge'; got {loss!r}")
    if program.targets.shape[1] != 1 or not np.all(np.abs(program.targets) == 1):
        raise ValueError("program must have one column of targets, all -1 or 1, and no sample_weight")
    check_positive("tolerance", tolerance)
    labels = program.targets[:, 0]
    if loss == "hinge":
        weights, slopes, count = solve_hinge(program, tolerance=1e-5 * tolerance)
        return _certified(program, weights, np.clip(slopes, 0, 1), loss, count, tolerance)
    weights = np.zeros(program.point_shape)
    best = _certified(program, weights, expit(-labels * 0.0), loss, 0, tolerance)
    for count in range(1, max_iterations + 1):
        fit = own_fit(program, weights)[:, 0]
        slopes = expit(-labels * fit)
        curvature = np.maximum(slopes * (1 - slopes), LEAST_CURVATURE)
        root = np.sqrt(curvature)[:, None]
        squares = dataclasses.replace(
            program, inputs=root * program.inputs, targets=root * (fit + labels * slopes / curvature)[:, None],
            slack=None if program.slack is None else root[:, 0] * program.slack, centred=None,
        )  # fmt: skip
        goal = min(1e-3, 0.01 * best.certificate.pattern_gap)
        step = solve_newton(squares, tolerance=max(goal, 1e-9), start=weights if weights.any() else None).weights
        share, value = 1.0, _value(program, weights, loss)
        while _value(program, moved := weights + share * (step - weights), loss) > value and share > 2**-MAX_HALVINGS:
            share /= 2
        if share <= 2**-MAX_HALVINGS:
            break
        weights = moved
        found = _certified(program, weights, expit(-labels * own_fit(program, weights)[:, 0]), loss, count, tolerance)
        best = min(best, found, key=lambda one: one.certificate.pattern_gap)
        if best.certificate.pattern_gap <= tolerance:
            break
    return best


def _value(program: ConvexProgram, weights: np.ndarray, loss: str) -> float:
    margins = program.targets[:, 0] * own_fit(program, weights)[:, 0]
    lost = np.logaddexp(0, -margins) if loss == "logistic" else np.maximum(0, 1 - margins)
    return float(lost.sum() + program.regularisation * np.linalg.norm(weights, axis=-1).sum())


def _certified(program, weights, slopes: np.ndarray, loss: str, count: int, tolerance: float) -> ConvexSolution:
    value, bounds = _value(program, weights, loss), []
    for norm in largest_dual_norms(program, program.targets[:, 0] * slopes):
        scaled = slopes * min(1.0, program.regularisation / norm if norm > 0 else 1.0)
        bounds.append(float(np.sum(entr(scaled) + entr(1 - scaled) if loss == "logistic" else scaled)))
    bound, full_bound = bounds
    certificate = Certificate(value, bound, full_bound, program.num_patterns, program.is_full, count, Outcome.STALLED)
    if certificate.pattern_gap <= tolerance:
        outcome = Outcome.CONVERGED if program.is_full else Outcome.CHOSEN
        certificate = dataclasses.replace(certificate, outcome=outcome)
    return ConvexSolution(program, weights, certificate)
