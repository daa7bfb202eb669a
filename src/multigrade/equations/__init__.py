"""Equations whose solution is a sum of grades: differential and integral, linear and not."""

from .derivatives import derivative, gradient, laplacian
from .domains import Ball, Box, Difference, PointCloud, Union
from .integral import solve_integral
from .problem import Condition, Data, Problem
from .ready import READY, Ready
from .solution import GradeRecord, Solution, UnsolvedError, UnsolvedWarning, load_solution
from .solve import solve

__all__ = [
    "READY",
    "Ball",
    "Box",
    "Condition",
    "Data",
    "Difference",
    "GradeRecord",
    "PointCloud",
    "Problem",
    "Ready",
    "Solution",
    "Union",
    "UnsolvedError",
    "UnsolvedWarning",
    "derivative",
    "gradient",
    "laplacian",
    "load_solution",
    "solve",
    "solve_integral",
]
