"""Two-layer ReLU grades solved to their global optimum as convex programs, with a certificate (Theorem 3).

    program = convex_program(x, y, regularisation=0.1)   # all activation patterns where they can be listed
    solution = solve_newton(program)
    print(solution.certificate)                          # objective, duality gap, over which patterns
    network, params = to_network(solution)               # the globally optimal network

``fit_convex_grades`` does this grade after grade.
"""

from .arrangements import bound_patterns, count_patterns, enumerate_patterns, sample_patterns
from .certificate import (
    Certificate,
    ConvexSolution,
    Outcome,
    certify,
    dual_bounds,
    dual_norms,
    full_dual_norm,
    largest_regularisation,
)
from .classifier import solve_classifier
from .columns import PatternSearch, solve_by_columns, violating_patterns
from .exact import solve_exact
from .grades import ConvexFit, ConvexGrade, fit_convex_grades
from .network import network_objective, to_network
from .program import ConvexProgram, cone_violation, convex_program, objective, predict
from .solvers import solve_first_order, solve_gated, solve_newton, solve_path

__all__ = [
    "Certificate",
    "ConvexFit",
    "ConvexGrade",
    "ConvexProgram",
    "ConvexSolution",
    "Outcome",
    "PatternSearch",
    "bound_patterns",
    "certify",
    "cone_violation",
    "convex_program",
    "count_patterns",
    "dual_bounds",
    "dual_norms",
    "enumerate_patterns",
    "fit_convex_grades",
    "full_dual_norm",
    "largest_regularisation",
    "network_objective",
    "objective",
    "predict",
    "sample_patterns",
    "solve_by_columns",
    "solve_classifier",
    "solve_exact",
    "solve_first_order",
    "solve_gated",
    "solve_newton",
    "solve_path",
    "to_network",
    "violating_patterns",
]
