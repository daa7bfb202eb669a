"""The convex program of a two-layer ReLU grade: variables, objective, constraints.

Over patterns D_1, ..., D_P and with cones K_i = {u : (2D_i - I)Xu >= 0}, the paper's (finite-convex problem) is

    p* = min 1/2 ||sum_i D_i X (u_i - v_i) - e||^2 + beta sum_i (||u_i|| + ||v_i||)    s.t. u_i, v_i in K_i,

where beta > 0. Over all patterns, p* is the optimum of the network's own, non-convex problem (Theorem 3).

Several outputs: one such program for each column of E, over the same patterns; each neuron feeds one output.
Together they equal the non-convex problem

    min 1/2 ||(XW)_+ A - E||_F^2 + beta/2 sum_j (||w_j||^2 + ||a_j||_1^2),

a_j the weights from neuron j to the outputs: a neuron that feeds two outputs splits into two that feed one each,
at the same cost ||w_j|| |a_jk|. For one output this is the paper's problem. (With ||a_j||_2 instead, the convex
form needs a norm over matrices that is hard to evaluate; our optimum bounds that one from above.)

Sample weights s_n multiply the squared errors. As sqrt(s) (x'w)_+ = (sqrt(s) x'w)_+, they scale the rows of X and
E; rows of weight 0 are left out. The bias is a column of ones appended to X, so it is part of w and regularised.
"""

import dataclasses
import functools

import numpy as np

from .arrangements import (
    bound_patterns,
    enumerate_patterns,
    merged_rows,
    row_space,
    sample_patterns,
    unit_rows,
)
from .plane import walls_of


@dataclasses.dataclass(frozen=True, eq=False)
class ConvexProgram:
    """X, E, beta and the patterns; a point is an array of weights (outputs, 2, P, d), u at [k, 0], v at [k, 1].

    Parameters
    ----------
    inputs : X, (N, d), with a column of ones for the bias; rows scaled by the root of their sample weight
    targets : E, (N, outputs), scaled likewise
    patterns : (P, N), boolean
    regularisation : beta > 0
    is_full : whether the patterns are all there are, so that p* is the network's own optimum
    has_bias : whether the last column of X is the bias
    is_wall : of all patterns, (N,): which rows bound cells; others are equal to one of them up to rounding
    slack : of all patterns, (N,): how far each row is from what it is taken for
    centred : of all patterns and with a bias: the middle c of the inputs before they are scaled, and x_n - c
    """

    inputs: np.ndarray
    targets: np.ndarray
    patterns: np.ndarray
    regularisation: float
    is_full: bool
    has_bias: bool
    is_wall: np.ndarray | None = None
    slack: np.ndarray | None = None
    centred: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def num_patterns(self) -> int:
        """P."""
        return len(self.patterns)

    @property
    def point_shape(self) -> tuple[int, int, int, int]:
        """(outputs, 2, P, d)."""
        return (self.targets.shape[1], 2, self.num_patterns, self.inputs.shape[1])

    @functools.cached_property
    def walls(self) -> np.ndarray | None:
        """The normals of the walls of each cone, (P, 2, 2), in coordinates of the row space of rank 2; None else.

        None, too, where a pattern was given that no neuron has.
        """
        features, directions, _ = reduced(self)
        if features.shape[1] != 2:
            return None
        walls = walls_of(self.patterns, directions)
        if not self.is_full:
            inside = np.where(self.patterns, 1.0, -1.0) * (walls.sum(axis=1) @ directions.T)
            if inside.min() < -1e-9:
                return None
        return walls

    def with_regularisation(self, regularisation: float) -> "ConvexProgram":
        """The same program with another beta."""
        check_positive("regularisation", regularisation)
        return dataclasses.replace(self, regularisation=float(regularisation))


def convex_program(
    inputs,
    targets,
    *,
    regularisation: float,
    sample_weight=None,
    has_bias: bool = True,
    patterns: np.ndarray | None = None,
    max_patterns: int = 10_000,
    num_samples: int = 1_000,
    seed: int = 0,
) -> ConvexProgram:
    """The program of data (inputs, targets) with weight decay ``regularisation`` = beta > 0.

    Patterns are all of them where there are at most ``max_patterns`` (then ``is_full``), otherwise ``num_samples``
    random ones; or those given, boolean (P, N), one column for each point.

    Parameters
    ----------
    inputs : (points, features)
    targets : (points,) or (points, outputs)
    regularisation : beta; the loss is a sum over points, not a mean
    sample_weight : (points,), factors of the squared errors
    has_bias : whether neurons have a bias, which is regularised with the weights
    patterns : boolean (patterns, points), in place of all patterns or random ones
    max_patterns : the largest number of patterns that are listed
    num_samples : random patterns where there are more
    seed : of the random patterns

    Returns
    -------
    ConvexProgram
        For ``solve_newton`` and the other solvers.
    """
    features, target, weight = check_data(inputs, targets, sample_weight)
    check_positive("regularisation", regularisation)
    is_used = weight > 0
    features, scale = features[is_used], np.sqrt(weight[is_used])[:, None]
    arrangement, centred = features, None
    if has_bias:  # a shift of the inputs changes no pattern, and keeps apart what is far from 0 and close together
        centre = features.min(axis=0) + np.ptp(features, axis=0) / 2
        centred = centre, features - centre
        arrangement, features = with_bias(features - centre), with_bias(features)
    features, target = features * scale, target[is_used] * scale
    if patterns is None and bound_patterns(arrangement) <= max_patterns:
        chosen = enumerate_patterns(arrangement, max_patterns=max_patterns)
        merged = merged_rows(arrangement, features)
        return ConvexProgram(features, target, chosen, float(regularisation), True, has_bias, *merged, centred)
    if patterns is None:
        chosen = sample_patterns(features, num_samples, seed=seed)
    else:
        chosen = _given_patterns(patterns, is_used)
    return ConvexProgram(features, target, chosen, float(regularisation), False, has_bias)


def with_bias(features: np.ndarray) -> np.ndarray:
    return np.column_stack([features, np.ones(len(features))])


def outside_row_space(features: np.ndarray) -> np.ndarray:
    """How far each row is from the span of ``row_space``: what rounding hides in reduced coordinates."""
    basis = row_space(features)
    return np.linalg.norm(features - features @ basis @ basis.T, axis=1)


def predict(program: ConvexProgram, weights: np.ndarray) -> np.ndarray:
    """sum_i D_i X (u_i - v_i) for every output, (N, outputs).

    Parameters
    ----------
    program : the convex program of a grade, see ``convex_program``
    weights : a point of the program, (outputs, 2, patterns, features)

    Returns
    -------
    array
        (points, outputs).
    """
    difference = weights[:, 0] - weights[:, 1]
    columns = []
    for weight in difference:
        is_used = np.any(weight != 0, axis=1)
        columns.append(np.sum(program.patterns[is_used] * (weight[is_used] @ program.inputs.T), axis=0))
    return np.stack(columns, axis=1)


def objective(program: ConvexProgram, weights: np.ndarray) -> float:
    """1/2 ||prediction - E||^2 + beta sum of norms.

    Parameters
    ----------
    program : the convex program of a grade, see ``convex_program``
    weights : a point of the program, (outputs, 2, patterns, features)

    Returns
    -------
    float
        What the program minimises; cones are not looked at.
    """
    error = predict(program, weights) - program.targets
    return float(0.5 * np.sum(error**2) + program.regularisation * np.linalg.norm(weights, axis=-1).sum())


def cone_violation(program: ConvexProgram, weights: np.ndarray) -> float:
    """The largest amount by which (2D_i - I)X u_i >= 0 fails, relative to the size of X u_i; 0 if feasible.

    Parameters
    ----------
    program : the convex program of a grade, see ``convex_program``
    weights : a point of the program, (outputs, 2, patterns, features)

    Returns
    -------
    float
        Relative, at least 0.
    """
    *_, index, _ = used = np.nonzero(np.any(weights != 0, axis=-1)[..., None])
    products = weights[used[:3]] @ program.inputs.T
    signed = np.where(program.patterns[index], products, -products)
    return float(max(0.0, -np.min(signed, initial=0.0)) / max(np.abs(products).max(initial=0.0), 1e-300))


def reduced(program: ConvexProgram) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """XV in a basis V of the row space, its rows at unit length (0 for those that bound no cell), and V."""
    basis = row_space(program.inputs)
    if not basis.size:  # X = 0: one direction, which does nothing, keeps shapes regular
        basis = np.eye(program.inputs.shape[1])[:, :1]
    features = program.inputs @ basis
    directions = unit_rows(features)
    if program.is_wall is not None:
        directions[~program.is_wall] = 0.0
    return features, directions, basis


def check_data(inputs, targets, sample_weight) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    features, target = np.asarray(inputs, float), np.asarray(targets, float)
    if features.ndim != 2 or 0 in features.shape:
        raise ValueError(f"inputs must have shape (points, features), both at least 1; got {features.shape}")
    target = target[:, None] if target.ndim == 1 else target
    if target.ndim != 2 or len(target) != len(features) or not target.shape[1]:
        raise ValueError(f"targets must have one row for each of the {len(features)} inputs; got shape {target.shape}")
    weight = np.ones(len(features)) if sample_weight is None else np.asarray(sample_weight, float)
    if weight.shape != (len(features),):
        raise ValueError(f"sample_weight must have shape ({len(features)},); got {weight.shape}")
    for name, value in (("inputs", features), ("targets", target), ("sample_weight", weight)):
        if not np.isfinite(value).all():
            raise ValueError(f"{name} must be finite; got {np.sum(~np.isfinite(value))} values that are not")
    if weight.min() < 0 or weight.max() == 0:
        raise ValueError(f"sample_weight must be at least 0 and not all 0; got a minimum of {weight.min()}")
    return features, target, weight


def check_positive(name: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a finite number above 0; got {value!r}")


def _given_patterns(patterns: np.ndarray, is_used: np.ndarray) -> np.ndarray:
    patterns = np.asarray(patterns)
    if patterns.dtype != bool or patterns.ndim != 2 or patterns.shape[1] != len(is_used) or not len(patterns):
        raise ValueError(
            f"patterns must be boolean with shape (patterns, {len(is_used)}); got {patterns.dtype} {patterns.shape}"
        )
    return patterns[:, is_used]
