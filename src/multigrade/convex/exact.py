"""The convex program through cvxpy with Clarabel, an interior-point method: the reference for small programs."""

import numpy as np
from scipy import sparse

from .certificate import ConvexSolution, Outcome, certify
from .program import ConvexProgram, reduced


def solve_exact(program: ConvexProgram, *, tolerance: float = 1e-9) -> ConvexSolution:
    """The optimum by cvxpy and Clarabel, asked for gaps and residuals of ``tolerance``.

    Clarabel measures its own gap. The certificate's, which decides the outcome, may be some times larger.
    Forms N x 2Pr and 2PN x 2Pr matrices: for programs up to some hundred patterns. Needs ``multigrade[convex]``.

    Parameters
    ----------
    program : the convex program of a grade, see ``convex_program``
    tolerance : the relative duality gap at which to stop

    Returns
    -------
    ConvexSolution
        The point with its certificate.
    """
    features, _, basis = reduced(program)
    weights, iterations = np.zeros(program.point_shape), 0
    for k, target in enumerate(program.targets.T):
        squares = lambda cvxpy, fit, e=target: (0.5 * cvxpy.sum_squares(fit - e), [])  # noqa: E731
        point, _, count = _solve(program, features, squares, tolerance)
        weights[k] = point @ basis.T
        iterations += count
    return certify(program, weights, iterations=iterations, outcome=Outcome.CONVERGED, tolerance=tolerance)


def solve_hinge(program: ConvexProgram, *, tolerance: float) -> tuple[np.ndarray, np.ndarray, int]:
    """The point of least sum_n max(0, 1 - y_n f_n) + beta sum ||u||, the dual a in [0, 1] of its rows, iterations."""
    features, _, basis = reduced(program)
    labels = program.targets[:, 0]

    def hinge(cvxpy, fit):
        over = cvxpy.Variable(len(labels), nonneg=True)
        rows = over >= 1 - cvxpy.multiply(labels, fit)
        return cvxpy.sum(over), [rows]

    point, (rows,), count = _solve(program, features, hinge, tolerance)
    return (point @ basis.T)[None], np.asarray(rows.dual_value), count


def _solve(program: ConvexProgram, features: np.ndarray, loss_of, tolerance: float):
    """The point (2, P, r), the constraints of the loss, iterations; ``loss_of(cvxpy, fit)``: loss and constraints."""
    try:
        import cvxpy
    except ImportError as error:
        raise ImportError("this solver needs cvxpy and clarabel: pip install 'multigrade[convex]'") from error
    num_patterns, rank = program.num_patterns, features.shape[1]
    fit = np.concatenate([mask[:, None] * features for mask in program.patterns], axis=1)
    signs = np.where(program.patterns, 1.0, -1.0)
    cone = sparse.block_diag([sign[:, None] * features for sign in signs], format="csr")
    u, v = cvxpy.Variable(num_patterns * rank), cvxpy.Variable(num_patterns * rank)
    norms = [cvxpy.norm(cvxpy.reshape(x, (num_patterns, rank), order="C"), 2, axis=1) for x in (u, v)]
    loss, constraints = loss_of(cvxpy, fit @ (u - v))
    penalty = program.regularisation * (cvxpy.sum(norms[0]) + cvxpy.sum(norms[1]))
    problem = cvxpy.Problem(cvxpy.Minimize(loss + penalty), [cone @ u >= 0, cone @ v >= 0, *constraints])
    problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=tolerance, tol_gap_rel=tolerance, tol_feas=tolerance)
    if u.value is None or v.value is None:
        raise RuntimeError(f"Clarabel returned no point; its status is {problem.status!r}")
    point = np.stack([u.value, v.value]).reshape(2, num_patterns, rank)
    return point, constraints, int(problem.solver_stats.num_iters or 0)
