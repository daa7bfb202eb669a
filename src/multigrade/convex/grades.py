"""Multi-grade learning as a sequence of convex programs, each solved with a certificate (Section 3, Theorem 3).

Grade l fits a two-layer ReLU network to the residual e_l on features x_l, by its convex program; then
e_{l+1} = e_l - N_l(x_l), and x_{l+1} is the hidden layer of N_l. As the zero network is feasible in every grade,
the objectives fall: p_{l+1} <= 1/2 ||e_{l+1}||^2 <= p_l.

    fit = fit_convex_grades(x, y, num_grades=3, regularisation=0.01)
    for grade in fit.grades:
        print(grade.certificate)
    fit.predict(x)
"""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..networks import Layer, Network
from ..training.driver import Growth, Trial, grow
from ..training.observers import Observer
from ..training.record import Outcome as Ending
from ..training.record import RunRecord
from .certificate import Certificate, ConvexSolution
from .columns import DEFAULT_SEARCH, PatternSearch, solve_by_columns
from .network import evaluate, hidden_features, to_network
from .program import check_data, check_positive
from .solvers import solve_first_order, solve_newton

SOLVERS: dict[str, Callable[..., ConvexSolution]] = {"newton": solve_newton, "first_order": solve_first_order}


@dataclasses.dataclass(frozen=True, eq=False)
class ConvexGrade:
    """One grade that was solved to its optimum.

    Parameters
    ----------
    network : the network, with one hidden layer
    params : its hidden and its output layer, in float64
    certificate : the proof of how good it is
    """

    network: Network
    params: tuple[Layer, Layer]
    certificate: Certificate

    def features(self, features) -> np.ndarray:
        """The hidden layer, which the next grade reads."""
        return hidden_features(self.params, features)

    def output(self, features) -> np.ndarray:
        """What the grade adds to the prediction, (points, outputs)."""
        return evaluate(self.params, features)


@dataclasses.dataclass(frozen=True, eq=False)
class ConvexFit:
    """A model: the sum of grades, each solved to its optimum.

    Parameters
    ----------
    grades : the grades in the order in which they were solved
    records : one for each: its neurons, its mean loss, its gap over all patterns, its certificate in words
    """

    grades: tuple[ConvexGrade, ...]
    records: tuple[RunRecord, ...] = ()

    def staged_predict(self, inputs) -> Iterator[np.ndarray]:
        """Predictions after one grade, two grades, ...; float64, (points, outputs)."""
        features, total = np.asarray(inputs, float), 0.0
        for grade in self.grades:
            total = total + grade.output(features)
            yield total
            features = grade.features(features)

    def predict(self, inputs) -> np.ndarray:
        """The sum of all grades; float64, (points, outputs)."""
        *_, last = self.staged_predict(inputs)
        return last


def fit_convex_grades(
    inputs,
    targets,
    *,
    num_grades: int,
    regularisation: float | Sequence[float],
    sample_weight=None,
    has_bias: bool = True,
    search: PatternSearch = DEFAULT_SEARCH,
    tolerance: float = 1e-4,
    solver: str = "newton",
    observers: Sequence[Observer] = (),
) -> ConvexFit:
    """Grades of two-layer ReLU networks, each the optimum of its convex program to a relative gap of ``tolerance``.

    Parameters
    ----------
    inputs : (points, features)
    targets : (points,) or (points, outputs)
    num_grades : L, at least 1
    regularisation : beta > 0, one for all grades or one for each; the loss is a sum over points, not a mean
    sample_weight : (points,), factors of the squared errors
    has_bias : whether neurons have a bias; it is regularised with the weights
    search : how many patterns are listed, and how others are searched for
    tolerance : the relative duality gap at which a solve stops
    solver : "newton", or "first_order" for more than some thousand points
    observers : those with ``grade_ended(grade, record)`` are told of every grade as soon as it is solved

    Returns
    -------
    ConvexFit
        The model, the sum of all grades, and each grade with its certificate.
    """
    strengths = _strengths(regularisation, num_grades)
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}; got {solver!r}")
    features, residual, weight = check_data(inputs, targets, sample_weight)

    def solve(features, residual, strength: float) -> ConvexSolution:
        return solve_by_columns(
            features, residual, regularisation=strength, sample_weight=weight, has_bias=has_bias,
            search=search, tolerance=tolerance, solver=SOLVERS[solver],
        )  # fmt: skip

    start = _Solved((), features, residual)
    growth = grow(_Programs(tuple(strengths), solve), Growth(start), observers=observers)
    return ConvexFit(growth.state.grades, growth.records)


class _Solved(NamedTuple):
    """The grades so far, the features that the next one reads, and what it is fitted to."""

    grades: tuple[ConvexGrade, ...]
    features: np.ndarray
    residual: np.ndarray


class _Programs(NamedTuple):
    """Grades for the driver: one program for every beta, all of them kept."""

    strengths: tuple[float, ...]
    solve: Callable[..., ConvexSolution]

    def propose(self, growth: Growth[_Solved]):
        left = self.strengths[len(growth.tried) :]
        return left[0] if left else Ending.FINISHED

    def fit(self, growth: Growth[_Solved], proposal: float, time_left: float | None) -> Trial[_Solved]:
        grades, features, residual = growth.state
        started = time.perf_counter()
        solution = self.solve(features, residual, proposal)
        grade = ConvexGrade(*to_network(solution), solution.certificate)
        residual = residual - grade.output(features)
        record = RunRecord.solved(
            grade.network.widths[1], 0.5 * float(np.mean(residual**2)), sentence=str(grade.certificate),
            seconds=time.perf_counter() - started, relative_gap=grade.certificate.relative_gap,
        )  # fmt: skip
        return Trial(_Solved((*grades, grade), grade.features(features), residual), record)


def _strengths(regularisation: float | Sequence[float], num_grades: int) -> np.ndarray:
    """beta for every grade."""
    if num_grades < 1:
        raise ValueError(f"num_grades must be at least 1; got {num_grades!r}")
    if np.ndim(regularisation) > 1 or np.size(regularisation) not in (1, num_grades):
        raise ValueError(
            f"regularisation must be one number or one for each of the {num_grades} grades; got {regularisation!r}"
        )
    strengths = np.broadcast_to(np.asarray(regularisation, float), num_grades)
    for strength in strengths:
        check_positive("regularisation", float(strength))
    return strengths
