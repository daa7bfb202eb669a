"""The gated relaxation: the convex program without its cones, and the way back to ReLU neurons.

Without cones u_i - v_i is one free vector g_i, a neuron 1[Xh >= 0] * Xg whose gate h is fixed. The dual norm of a
group is then ||X'D_i lambda||, no projection. A gate becomes ReLU neurons by g = u - v with u, v in K_i, possible
for every g because K_i is full-dimensional (Mishkin, Sahiner and Pilanci, 2022).
"""

import numpy as np
from scipy.optimize import nnls

from .program import ConvexProgram, reduced


def gated_norms(program: ConvexProgram, dual: np.ndarray) -> np.ndarray:
    """||X'D_i lambda||, (1, P)."""
    return np.linalg.norm((program.patterns * dual) @ program.inputs, axis=1)[None]


def cone_decomposition(program: ConvexProgram, gates: np.ndarray) -> np.ndarray:
    """Weights (outputs, 2, P, d) with u_i - v_i = g_i, both in K_i, for gates (outputs, P, d)."""
    features, _, basis = reduced(program)
    weights = np.zeros(program.point_shape)
    for k, i in zip(*np.nonzero(np.any(gates != 0, axis=-1)), strict=True):
        signs = np.where(program.patterns[i], 1.0, -1.0)
        gate = gates[k, i] @ basis
        centre = _least_distance(signs[:, None] * features, 0.5 * np.abs(features @ gate))
        weights[k, 0, i], weights[k, 1, i] = basis @ (centre + gate / 2), basis @ (centre - gate / 2)
    return weights


def _least_distance(constraints: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """argmin ||c|| s.t. Ac >= b, by one non-negative least squares problem (Lawson and Hanson, chapter 23).

    With u, v = c +- g/2 the constraints are A(c +- g/2) >= 0, that is Ac >= |Ag| / 2, and
    ||u||^2 + ||v||^2 = 2 ||c||^2 + ||g||^2 / 2.
    """
    scale = max(np.abs(lower).max(), 1e-300)
    matrix = np.vstack([constraints.T, lower / scale])
    goal = np.zeros(len(matrix))
    goal[-1] = 1.0
    multipliers, _ = nnls(matrix, goal)
    remainder = matrix @ multipliers - goal
    centre = -remainder[:-1] / remainder[-1] * scale
    return _push_inside(constraints, lower, centre)


def _push_inside(constraints: np.ndarray, lower: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Lengthen c by what rounding took from it: where Ac > 0 a factor restores Ac >= b."""
    product = constraints @ centre
    is_tight = (lower > 0) & (product > 0)
    return centre * max(1.0, float(np.max(lower[is_tight] / product[is_tight], initial=1.0)))
