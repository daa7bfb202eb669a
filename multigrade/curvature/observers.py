"""The spectrum along a run: recorded, used to end a grade, used to choose the learning rate.

``SpectrumObserver`` computes the extreme eigenvalues of I - eta H at its period and hands them to rules; a rule looks
at the spectrum and may name a reason to stop. ``SafeRate`` keeps the rate of gradient descent below 2 / lambda_max.

    observer = SpectrumObserver(every=10_000, rules=(edge_of_stability(-0.95),))
    fit_grades(structures.MGDL_1, x, y, Plan(100_000, "gd", learning_rate=0.06, observers=[observer]))
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from ..training.observers import Observation, Snapshot
from .products import num_parameters
from .spectrum import ExtremeEigenvalues, IterationSpectrum, iteration_spectrum, largest_eigenvalue

Rule = Callable[[IterationSpectrum], str | None]
"""A spectrum -> the reason to stop, or None."""


@dataclasses.dataclass(frozen=True)
class EdgeOfStability:
    """Stop when the smallest eigenvalue of I - eta H falls below ``threshold``; see ``edge_of_stability``."""

    threshold: float

    def __call__(self, spectrum: IterationSpectrum) -> str | None:
        smallest = spectrum.smallest[0]
        if smallest < self.threshold:  # NaN, an eigenvalue that was not found, stops nothing
            return f"the smallest eigenvalue of I - eta H is {smallest:.4g}, below {self.threshold:g}"
        return None


def edge_of_stability(threshold: float = -0.95) -> EdgeOfStability:
    """The rule of the paper's image runs: a grade ends as soon as the smallest eigenvalue of I - eta H is below -0.95.

    At -1 gradient descent begins to oscillate along the sharpest direction. The rule is checked whenever the spectrum
    is, but not at step 0.
    """
    if not -np.inf < threshold < 1:
        raise ValueError(f"threshold must be below 1; got {threshold!r}")
    return EdgeOfStability(threshold)


@dataclasses.dataclass(frozen=True)
class SpectrumObserver:
    """Records the ``num`` smallest and largest eigenvalues of I - eta H every ``every`` steps (Section 6).

    Recorded: ``smallest`` and ``largest`` (num,), outside in; ``learning_rate``; ``converged``, 0 where some of the
    eigenvalues are NaN. A grade with fewer than ``num`` parameters has NaN for those it does not have.
    """

    every: int = 10_000  # the paper's cadence
    num: int = 10
    rules: tuple[Rule, ...] = ()
    tolerance: float = 1e-5
    name: str = "spectrum"

    def __post_init__(self):
        if self.every < 1:
            raise ValueError(f"every must be at least 1; got {self.every!r}")
        if self.num < 1:
            raise ValueError(f"num must be at least 1; got {self.num!r}")

    def observe(self, snapshot: Snapshot, carry: Mapping[str, np.ndarray] | None) -> Observation:
        _check_rate(snapshot)
        spectrum = iteration_spectrum(
            snapshot.loss,
            snapshot.params,
            snapshot.learning_rate,
            min(self.num, num_parameters(snapshot.params)),
            tolerance=self.tolerance,
            start=_start(carry),
        )
        values = {
            "smallest": _padded(spectrum.smallest, self.num),
            "largest": _padded(spectrum.largest, self.num),
            "learning_rate": np.float64(snapshot.learning_rate),
            "converged": np.int32(spectrum.hessian.converged),
        }
        reasons = [rule(spectrum) for rule in self.rules] if snapshot.step else []
        stop = next((reason for reason in reasons if reason), None)
        return Observation(values, carry=_carry(spectrum.hessian), stop=stop)


@dataclasses.dataclass(frozen=True)
class SafeRate:
    """Sets eta = ``fraction`` * 2 / lambda_max at step 0 and every ``every`` steps: the rate of ``"auto"``.

    Just below 2 / lambda_max descent is stable now but has no room for the curvature to grow before the next look, so
    ``fraction`` is below 1. Where lambda_max was not found, or is not positive, the rate stays as it is. Recorded:
    ``learning_rate`` from this step on, ``sharpness`` = lambda_max.
    """

    every: int = 500
    fraction: float = 0.8
    tolerance: float = 1e-4
    name: str = "safe rate"

    def __post_init__(self):
        if self.every < 1:
            raise ValueError(f"every must be at least 1; got {self.every!r}")
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction must be in (0, 1]; got {self.fraction!r}")

    def observe(self, snapshot: Snapshot, carry: Mapping[str, np.ndarray] | None) -> Observation:
        _check_rate(snapshot)
        found = largest_eigenvalue(snapshot.loss, snapshot.params, tolerance=self.tolerance, start=_start(carry))
        sharpness = float(found.largest[0])
        # Four digits: LAPACK's rounding varies with its threads, and must not reach the run.
        rate = float(f"{self.fraction * 2 / sharpness:.4g}") if sharpness > 0 else snapshot.learning_rate
        values = {"learning_rate": np.float64(rate), "sharpness": np.float64(sharpness)}
        return Observation(values, carry=_carry(found), learning_rate=rate)


def _check_rate(snapshot: Snapshot) -> None:
    if np.isnan(snapshot.learning_rate):
        raise ValueError(
            "learning_rate must be given beside an optax transformation for its spectrum to be observed: for "
            "optax.sgd(0.05) give optax.sgd(1.0) and learning_rate=0.05"
        )


def _carry(found: ExtremeEigenvalues) -> dict[str, np.ndarray]:
    # One vector is all that the next call starts from; the others would only make checkpoints large.
    return {"start": np.sum(found.vectors, axis=0)} if len(found.vectors) else {}


def _start(carry: Mapping[str, np.ndarray] | None) -> np.ndarray | None:
    if not carry:
        return None
    return carry["start"][None] / np.linalg.norm(carry["start"])


def _padded(values: np.ndarray, num: int) -> np.ndarray:
    return np.concatenate([values, np.full(num - len(values), np.nan)])
