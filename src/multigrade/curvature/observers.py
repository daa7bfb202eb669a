"""The spectrum along a run: recorded, used to end a grade, used to choose the learning rate.

``SpectrumObserver`` looks at the step that the run's optimiser takes. For plain descent it records the extreme
eigenvalues of I - eta H. For any other optimiser it records eigenvalues of that one's own map on (parameters, state),
``map_spectrum``, and its distance from the edge, ``preconditioned_curvature``. A rule looks at the spectrum and may
name a reason to stop.
``SafeRate`` keeps the learning rate below the threshold of the optimiser.

    observer = SpectrumObserver(every=10_000, rules=(edge_of_stability(-0.95),))
    fit_grades(structures.MGDL_1, x, y, Plan(100_000, "gd", learning_rate=0.06, observers=[observer]))

The map is that of the loss on all training rows. With random batches it is the mean step's, at the state that the
batches have led to; ``ExponentObserver`` follows the steps themselves.
"""

import dataclasses
from collections.abc import Callable, Mapping

import jax
import numpy as np

from ..training.observers import Observation, Observer, Snapshot
from ..training.optimisers import make_optimiser
from .map_spectrum import MapSpectrum, spectrum_of_map
from .maps import optimiser_map, started
from .preconditioned import NoPreconditioner, PreconditionedCurvature, preconditioned_curvature
from .products import Loss, num_parameters
from .spectrum import ExtremeEigenvalues, IterationSpectrum, iteration_spectrum, largest_eigenvalue

MAX_PRODUCTS = 600  # at one look: ten eigenvalues in a crowd at 1 are not worth more of a run's time


@dataclasses.dataclass(frozen=True)
class StepSpectrum:
    """The spectrum of the step of an optimiser other than plain descent.

    Parameters
    ----------
    outermost : its eigenvalue of largest modulus
    leftmost : its eigenvalues of smallest real part
    curvature : largest eigenvalue of P^-1 H and threshold; None where the optimiser has none (Muon)
    """

    outermost: MapSpectrum
    leftmost: MapSpectrum
    curvature: PreconditionedCurvature | None

    @property
    def edge(self) -> float:
        """1 - 2 lambda_max / threshold, which is 1 - eta lambda_max for plain descent: -1 is the edge of stability.

        Without a threshold, the real part of the leftmost eigenvalue.
        """
        if self.curvature is None:
            return float(np.real(self.leftmost.values[0]))
        return 1 - 2 * self.curvature.ratio


Rule = Callable[[IterationSpectrum | StepSpectrum], str | None]
"""A spectrum -> the reason to stop, or None."""


@dataclasses.dataclass(frozen=True)
class EdgeOfStability:
    """Stop when the smallest eigenvalue of I - eta H falls below ``threshold``; see ``edge_of_stability``.

    Parameters
    ----------
    threshold : the eigenvalue at which a grade ends
    """

    threshold: float

    def __call__(self, spectrum: IterationSpectrum | StepSpectrum) -> str | None:
        what = "I - eta H" if isinstance(spectrum, IterationSpectrum) else "the step, its preconditioner frozen,"
        if spectrum.edge < self.threshold:  # NaN, an eigenvalue that was not found, stops nothing
            return f"the smallest eigenvalue of {what} is {spectrum.edge:.4g}, below {self.threshold:g}"
        return None


def edge_of_stability(threshold: float = -0.95) -> EdgeOfStability:
    """The rule of the paper's image runs: a grade ends as soon as the smallest eigenvalue of I - eta H is below -0.95.

    At -1 gradient descent begins to oscillate along the sharpest direction. For another optimiser the rule looks at
    1 - 2 lambda_max(P^-1 H) / threshold, which is -1 where that one begins to. It is checked whenever the spectrum is,
    but not at step 0.

    Parameters
    ----------
    threshold : the eigenvalue at which a grade ends

    Returns
    -------
    EdgeOfStability
        For ``SpectrumObserver(rules=)``.
    """
    if not -np.inf < threshold < 1:
        raise ValueError(f"threshold must be below 1; got {threshold!r}")
    return EdgeOfStability(threshold)


@dataclasses.dataclass(frozen=True)
class SpectrumObserver:
    """Records the spectrum of the run's own step every ``every`` steps (Section 6).

    For plain descent: ``smallest`` and ``largest`` (num,), the eigenvalues of I - eta H outside in. A grade with fewer
    than ``num`` parameters has NaN for those it does not have.
    For another optimiser: ``left_real`` and ``left_imag`` (num,) of the leftmost eigenvalues of its map, those that
    oscillate; ``radius``, the largest modulus of all; ``ratio`` = lambda_max(P^-1 H) / threshold (NaN for Muon, which
    has none); ``held``, the entries that have no derivative. The other outermost ones crowd at 1 and would cost most of
    the time: ``map_spectrum`` finds them.
    For both: ``learning_rate``; ``converged``, 0 where some of the eigenvalues are NaN. lbfgs is refused.

    Parameters
    ----------
    every : steps between looks; the paper's cadence by default
    num : eigenvalues at each end
    rules : each is given the spectrum, and may name a reason to stop
    tolerance : of ``extreme_eigenvalues`` and ``map_spectrum``
    name : under which the record has it
    """

    every: int = 10_000
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
        """Record the spectrum, and ask for the end of the run where a rule does."""
        rate = descent_rate(snapshot)
        look = self._of_descent if rate is not None else self._of_map
        spectrum, values, carried = look(snapshot, current_rate(snapshot) if rate is None else rate, carry or {})
        reasons = [rule(spectrum) for rule in self.rules] if snapshot.step else []
        stop = next((reason for reason in reasons if reason), None)
        return Observation(values, carry=carried, stop=stop)

    def _of_descent(self, snapshot: Snapshot, rate: float, carry: Mapping[str, np.ndarray]):
        num = min(self.num, num_parameters(snapshot.params))
        spectrum = iteration_spectrum(
            snapshot.loss, snapshot.params, rate, num, tolerance=self.tolerance, start=_start(carry)
        )
        values = {
            "smallest": _padded(spectrum.smallest, self.num),
            "largest": _padded(spectrum.largest, self.num),
            "learning_rate": np.float64(rate),
            "converged": np.int32(spectrum.hessian.converged),
        }
        return spectrum, values, _carry(spectrum.hessian)

    def _of_map(self, snapshot: Snapshot, rate: float, carry: Mapping[str, np.ndarray]):
        of_step = snapshot.loss, snapshot.params, snapshot.optimiser, snapshot.optimiser_state
        step = optimiser_map(*of_step, learning_rate=rate)
        num = min(self.num, step.size)
        options = {"tolerance": self.tolerance, "max_products": MAX_PRODUCTS}
        leftmost, outermost = spectrum_of_map(step, num, end="leftmost", **options), spectrum_of_map(step, 1, **options)
        try:
            options = {"learning_rate": rate, "tolerance": self.tolerance, "start": _start(carry)}
            curvature = preconditioned_curvature(*of_step, **options)
        except NoPreconditioner:
            curvature = None
        spectrum = StepSpectrum(outermost, leftmost, curvature)
        values = {
            "left_real": _padded(np.real(leftmost.values), self.num),
            "left_imag": _padded(np.imag(leftmost.values), self.num),
            "radius": np.float64(outermost.radius),
            "ratio": np.float64(np.nan if curvature is None else curvature.ratio),
            "held": np.int32(step.num_held),
            "learning_rate": np.float64(rate),
            "converged": np.int32(outermost.converged and leftmost.converged),
        }
        return spectrum, values, {} if curvature is None else _carry(curvature)


@dataclasses.dataclass(frozen=True)
class SafeRate:
    """Sets eta = ``fraction`` * 2 / lambda_max at step 0 and every ``every`` steps: the rate of ``"auto"``.

    For momentum, Adam and others with a threshold t / eta (``preconditioned_curvature``) and momentum a, eta =
    ``fraction`` * (1 - a) * t / lambda_max(P^-1 H): steps in one direction add up to 1 / (1 - a) of them, and near the
    threshold the curvature would outgrow them before the next look. An optimiser without a threshold is refused.

    Just below 2 / lambda_max descent is stable now but has no room for the curvature to grow before the next look, so
    ``fraction`` is below 1. Where lambda_max was not found, or is not positive, the rate stays as it is. Recorded:
    ``learning_rate`` from this step on, ``sharpness`` = lambda_max.

    Parameters
    ----------
    every : steps between looks
    fraction : of the rate at the threshold, in (0, 1]
    tolerance : largest residual of lambda_max, relative to it
    name : under which the record has it
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
        """Record the curvature, and set the rate below its threshold."""
        if (unit := descent_rate(snapshot, 1.0)) is not None:
            found = largest_eigenvalue(snapshot.loss, snapshot.params, tolerance=self.tolerance, start=_start(carry))
            sharpness, limit = float(found.largest[0]), 2 / unit
        else:
            found = preconditioned_curvature(
                snapshot.loss, snapshot.params, snapshot.optimiser, snapshot.optimiser_state, learning_rate=1.0,
                tolerance=self.tolerance, start=_start(carry),
            )  # fmt: skip
            known = found.preconditioner
            sharpness, limit = float(found.values[0]), (1 - known.momentum) * known.limit(0.0)
        # Four digits: LAPACK's rounding varies with its threads, and must not reach the run.
        rate = float(f"{self.fraction * limit / sharpness:.4g}") if sharpness > 0 else current_rate(snapshot)
        values = {"learning_rate": np.float64(rate), "sharpness": np.float64(sharpness)}
        return Observation(values, carry=_carry(found), learning_rate=rate)


def look(
    observer: Observer,
    step: int,
    loss: Loss,
    params,
    optimiser,
    state=None,
    *,
    learning_rate: float | None = None,
    carry: Mapping[str, np.ndarray] | None = None,
) -> Observation:
    """What an observer of this room sees of a run that somebody else's loop drives.

        seen = look(SpectrumObserver(num=3), step, loss, params, optimiser, state)
        seen.values["smallest"]                       # and, at the next look: carry=seen.carry

    Parameters
    ----------
    observer : ``SpectrumObserver``, ``SafeRate`` or ``SpikeWarning``
    step : how many steps were taken; a rule ends no run at step 0
    loss : from parameters to a number: that of the step, or of all data
    params : the present parameters
    optimiser : a name, or the optax transformation of the run
    state : the optimiser's state at this point; that of its start if None
    learning_rate : multiplies the updates; that of the name, or 1 for an optax transformation, if None
    carry : of the last observation, which makes a look cheaper

    Returns
    -------
    Observation
        ``values`` by name, ``carry``, and in ``stop`` and ``learning_rate`` what the observer asks for.
    """
    if hasattr(observer, "companion"):
        raise TypeError(f"observer must not follow every step, as {type(observer).__name__} does: lyapunov_exponents")
    transformation, state, rate = started(optimiser, params, state, learning_rate)
    snapshot = Snapshot(0, step, step, params, loss, rate, None, transformation, state)  # pyright: ignore[reportArgumentType]
    return observer.observe(snapshot, carry) or Observation()


def current_rate(snapshot: Snapshot) -> float:
    """What the loop multiplies updates by: 1 for a transformation that has a rate of its own."""
    return 1.0 if np.isnan(snapshot.learning_rate) else snapshot.learning_rate


def descent_rate(snapshot: Snapshot, learning_rate: float | None = None) -> float | None:
    """eta, if the run's step is plain descent theta - eta g, whatever it is written as; None if it is anything else."""
    rate = current_rate(snapshot) if learning_rate is None else learning_rate
    if snapshot.optimiser is make_optimiser("gd"):
        return rate
    if any(np.issubdtype(leaf.dtype, np.floating) for leaf in jax.tree.leaves(snapshot.optimiser_state)):
        return None
    random = np.random.default_rng(0)
    factors = []
    for scale in (1e-6, 1e6):  # clipping and signs are seen at one of them
        shapes = jax.tree.leaves(snapshot.params)
        leaves = [(scale * random.normal(size=leaf.shape)).astype(leaf.dtype) for leaf in shapes]
        gradient = jax.tree.unflatten(jax.tree.structure(snapshot.params), leaves)
        extra = {"value": 0.0, "grad": gradient, "value_fn": snapshot.loss}
        updates, _ = snapshot.optimiser.update(gradient, snapshot.optimiser_state, snapshot.params, **extra)
        pairs = zip(jax.tree.leaves(updates), leaves, strict=True)
        factors += [np.ravel(-np.asarray(update, np.float64) / slope) for update, slope in pairs]
    factors = np.concatenate(factors)
    return float(np.median(factors)) * rate if np.ptp(factors) <= 1e-5 * np.abs(factors).max() else None


def _carry(found: ExtremeEigenvalues | PreconditionedCurvature) -> dict[str, np.ndarray]:
    # One vector is all that the next call starts from; the others would only make checkpoints large.
    return {"start": np.sum(found.vectors, axis=0)} if len(found.vectors) else {}


def _start(carry: Mapping[str, np.ndarray] | None) -> np.ndarray | None:
    return carry["start"][None] / np.linalg.norm(carry["start"]) if carry else None


def _padded(values: np.ndarray, num: int) -> np.ndarray:
    return np.concatenate([values, np.full(num - len(values), np.nan)])
