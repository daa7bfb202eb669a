"""The dual of the convex program, and a certificate for any of its points.

With n(lambda) = max_i max(||Pi_{K_i}(X'D_i lambda)||, ||Pi_{K_i}(-X'D_i lambda)||) the dual of the program is

    p* = max lambda'e - 1/2 ||lambda||^2    s.t. n(lambda) <= beta.

The residual r = e - prediction of any point gives the dual point t r with the best |t| <= beta / n(r), hence a
lower bound on p* and a gap; at the optimum lambda = r and the gap is 0. Over all patterns n(lambda) is the maximum
of |lambda'(Xw)_+| over unit w. Rows that differ by less than rounding count as one in the list of patterns; a row
that is moved by d_n changes that maximum by at most |lambda_n| d_n, which is added (twice, for the patterns and for
the cones), so that the bound holds for the rows as they are. Where patterns are too many to go through,
``full_dual_norm`` bounds that maximum from above, so that a bound for every network of any width comes with every
solution; it is honest, and usually weak.
"""

import dataclasses
import enum

import jax
import jax.numpy as jnp
import numpy as np

from . import cones
from .far import far_norm, is_far
from .plane import best_neurons
from .program import ConvexProgram, objective, outside_row_space, predict, reduced

CHUNK = 2048  # cones projected at a time


class Outcome(enum.Enum):
    """How a solve ended; the value is a sentence that says so."""

    CONVERGED = "The duality gap is within the tolerance."
    CHOSEN = "The gap is within the tolerance over the chosen patterns alone; a network of others may be far better."
    ITERATION_LIMIT = "The iteration limit came first; the gap says how far from the optimum. Allow more iterations."
    STALLED = "The solver ended above the tolerance; the gap says how far above. Try another tolerance or solver."
    RELAXED = "The point solves the relaxation without cones; its gap is measured in the program with cones."
    OUTSIDE = "The point is outside its cones, for that of a given pattern has no interior; leave such patterns out."
    NO_VIOLATION_FOUND = "The gap is within the tolerance on the patterns used, and a search found none to add."
    ROUND_LIMIT = "The search still found patterns to add when the rounds ran out. Allow more rounds."


@dataclasses.dataclass(frozen=True)
class Certificate:
    """Proof of how good a point is: dual_bound <= p* <= objective.

    ``dual_bound`` is for the program over its own patterns. ``full_dual_bound`` holds for all patterns, hence for
    every network of any width; it equals ``dual_bound`` if ``is_full`` and is usually far weaker if not.

    Parameters
    ----------
    objective : its value at the point
    dual_bound, full_dual_bound : lower bounds on the optimum
    num_patterns : how many patterns the program has
    is_full : whether these are all patterns
    iterations : how many iterations the solver took
    outcome : how the solver ended
    """

    objective: float
    dual_bound: float
    full_dual_bound: float
    num_patterns: int
    is_full: bool
    iterations: int
    outcome: Outcome

    @property
    def relative_gap(self) -> float:
        """(objective - full dual bound) / objective: no network of any width is better by more than this."""
        return _relative(self.objective, self.full_dual_bound)

    @property
    def pattern_gap(self) -> float:
        """(objective - dual bound) / objective: no network with the program's own patterns is better by more."""
        return _relative(self.objective, self.dual_bound)

    def __str__(self) -> str:
        if self.is_full:
            scope = f"gap {self.relative_gap:.1e} over all {self.num_patterns} patterns"
        else:
            scope = (
                f"gap {self.relative_gap:.1e} over all patterns ({self.pattern_gap:.1e} over the {self.num_patterns} "
                "chosen, which says nothing of other networks)"
            )
        return f"objective {self.objective:.6g}, {scope}, {self.iterations} iterations. {self.outcome.value}"


def _relative(objective: float, bound: float) -> float:
    return max(objective - bound, 0.0) / objective if objective > 0 else 0.0


def own_fit(program: ConvexProgram, weights: np.ndarray) -> np.ndarray:
    """Outputs with each group as the neuron it stands for, sum +-(X u_i)_+, in or out of its cone."""
    fit = np.zeros_like(program.targets)
    for k, i in np.ndindex(weights.shape[:2]):
        used = weights[k, i][np.any(weights[k, i] != 0, axis=1)]
        fit[:, k] += (1 - 2 * i) * np.maximum(used @ program.inputs.T, 0.0).sum(axis=0)
    return fit


@dataclasses.dataclass(frozen=True, eq=False)
class ConvexSolution:
    """A point of a program and the proof of how good it is.

    Parameters
    ----------
    program : the convex program
    weights : the point, (outputs, 2, patterns, features)
    certificate : its objective, bounds and outcome
    """

    program: ConvexProgram
    weights: np.ndarray
    certificate: Certificate


def certify(
    program: ConvexProgram,
    weights: np.ndarray,
    *,
    iterations: int,
    outcome: Outcome,
    tolerance: float = np.inf,
    duals: np.ndarray | None = None,
) -> ConvexSolution:
    """The point with its objective and dual bounds; what converged to a larger gap than ``tolerance`` has stalled.

    The dual point is that of the residuals, or ``duals`` (N, outputs), if a solver has them in more digits. A point
    may be out of its cones by rounding, where program and network differ: the larger of the two objectives counts.

    Parameters
    ----------
    program : the convex program of a grade, see ``convex_program``
    weights : a point of the program, (outputs, 2, patterns, features)
    iterations : what the solver took, for the certificate
    outcome : how the solver ended
    tolerance : the largest relative gap that counts as converged
    duals : a dual point, (points, outputs)

    Returns
    -------
    ConvexSolution
        The point with its certificate.
    """
    error = own_fit(program, weights) - program.targets
    own = 0.5 * np.sum(error**2) + program.regularisation * np.linalg.norm(weights, axis=-1).sum()
    value = max(objective(program, weights), float(own))
    bound, full_bound = dual_bounds(program, weights, duals)
    certificate = Certificate(value, bound, full_bound, program.num_patterns, program.is_full, iterations, outcome)
    if outcome is Outcome.CONVERGED and certificate.pattern_gap > tolerance:
        certificate = dataclasses.replace(certificate, outcome=Outcome.STALLED)
    elif outcome is Outcome.CONVERGED and not program.is_full:
        certificate = dataclasses.replace(certificate, outcome=Outcome.CHOSEN)
    return ConvexSolution(program, weights, certificate)


def dual_norms(
    program: ConvexProgram, dual: np.ndarray, active: dict[int, cones.ActiveSet] | None = None
) -> np.ndarray:
    """||Pi_{K_i}(+-X'D_i lambda)||, (2, P) for one output's lambda (N,): exact, and rounded upwards if at all.

    Parameters
    ----------
    program : the convex program of a grade, see ``convex_program``
    dual : lambda of one output, (points,)
    active : active constraints of the last call, brought up to date; saves time where lambda changes little

    Returns
    -------
    array
        (2, patterns): for +lambda and for -lambda.
    """
    if program.walls is not None:
        return np.linalg.norm(best_neurons(program, dual, reduced(program)[0]), axis=-1)
    active = {} if active is None else active
    size = min(CHUNK, max(64, 1 << (program.num_patterns - 1).bit_length()))  # few shapes to compile
    parts = []
    with jax.enable_x64(True):
        features, directions, _ = reduced(program)
        for first in range(0, program.num_patterns, size):
            chunk = program.patterns[first : first + size]
            padded = np.pad(chunk, ((0, size - len(chunk)), (0, 0)))
            start = active.get(first) or cones.empty_active_set(2 * size, *features.shape)
            norms, active[first] = _chunk_norms(padded, features, directions, dual, start)
            parts.append(np.asarray(norms)[:, : len(chunk)])
    return np.concatenate(parts, axis=1)


def full_dual_norm(program: ConvexProgram, dual: np.ndarray) -> float:
    """An upper bound on max over unit w of |lambda'(Xw)_+|, without patterns.

    As (t)_+ = (t + |t|) / 2, lambda'(Xw)_+ <= 1/2 ||X'lambda|| + 1/2 sum_n lambda_n |x_n'w|. In the sum, for any
    c > 0, |t| <= t^2 / 2c + c / 2 where lambda_n > 0, and |t| >= t^2 / ||x_n|| where lambda_n < 0, which leaves the
    largest eigenvalue of a d x d matrix; the best c is searched for, and every c gives a bound.

    Parameters
    ----------
    program : the convex program of a grade, see ``convex_program``
    dual : lambda of one output, (points,)

    Returns
    -------
    float
        A bound that holds whatever patterns the program has.
    """
    return max(_one_sided_norm(program.inputs, dual), _one_sided_norm(program.inputs, -dual))


def _one_sided_norm(inputs: np.ndarray, dual: np.ndarray) -> float:
    norms = np.linalg.norm(inputs, axis=1)
    gain, loss = np.maximum(dual, 0.0), np.maximum(-dual, 0.0)
    upper = inputs.T @ (gain[:, None] * inputs)
    lower = inputs.T @ (np.divide(loss, norms, out=np.zeros_like(loss), where=norms > 0)[:, None] * inputs)

    def bound(width: float) -> float:
        return float(np.linalg.eigvalsh(upper / (2 * width) - lower)[-1] + width / 2 * gain.sum())

    best = min(bound(width) for width in max(norms.max(), 1e-300) * np.geomspace(1e-3, 1, 50))
    return 0.5 * float(np.linalg.norm(inputs.T @ dual)) + 0.5 * max(best, 0.0)


def dual_bounds(program: ConvexProgram, weights: np.ndarray, duals: np.ndarray | None = None) -> tuple[float, float]:
    """Lower bounds on p* from a point's residuals, or from ``duals``: over the program's patterns, and over all.

    Parameters
    ----------
    program : the convex program of a grade, see ``convex_program``
    weights : a point of the program, (outputs, 2, patterns, features)
    duals : a dual point, (points, outputs), in place of the residuals

    Returns
    -------
    tuple of float
        The bound over the program's own patterns, and the bound over all patterns.
    """
    residuals = program.targets - predict(program, weights) if duals is None else duals
    bound = full_bound = 0.0
    for residual, target in zip(residuals.T, program.targets.T, strict=True):
        norm, full_norm = largest_dual_norms(program, residual)
        bound += scaled_dual_value(residual, target, norm, program.regularisation)
        full_bound += scaled_dual_value(residual, target, full_norm, program.regularisation)
    return bound, full_bound


def largest_dual_norms(program: ConvexProgram, dual: np.ndarray) -> tuple[float, float]:
    """n(lambda) over the program's patterns, and over all, with what rounding and merged rows may hide."""
    norm = float(dual_norms(program, dual).max())
    if program.slack is not None:
        norm += 2 * float(np.abs(dual) @ (program.slack + outside_row_space(program.inputs)))
        if is_far(program):
            norm = min(norm, far_norm(program, dual))
    return norm, norm if program.is_full else full_dual_norm(program, dual)


def scaled_dual_value(residual: np.ndarray, target: np.ndarray, norm: float, regularisation: float) -> float:
    """max over |t| <= beta / n(r) of the dual objective at t r."""
    square = residual @ residual
    if square == 0:
        return 0.0
    limit = regularisation / norm if norm > 0 else np.inf
    scale = np.clip(target @ residual / square, -limit, limit)
    return float(scale * (target @ residual) - 0.5 * scale**2 * square)


def largest_regularisation(program: ConvexProgram) -> float:
    """n(E), the beta from which on the optimal network is 0.

    Parameters
    ----------
    program : the convex program of a grade, see ``convex_program``

    Returns
    -------
    float
        Over the program's patterns.
    """
    return max(float(dual_norms(program, target).max()) for target in program.targets.T)


@jax.jit
def _chunk_norms(patterns, features, directions, dual, start):
    gradients = (patterns * dual) @ features
    both = jnp.concatenate([gradients, -gradients])
    projected, active = cones.project(both, jnp.concatenate([patterns, patterns]), directions, start)
    return jnp.linalg.norm(projected, axis=1).reshape(2, -1), active
