"""Functions to high precision: grades of sine features whose output layers are solved in float64.

Every grade looks at what is left over. In one and two dimensions the spectrum of the residual says up to which
frequency the next grade's waves go; otherwise its waves are random, of a scale that the leave-one-out error chooses.
The output layer is solved over the features of all grades so far, with the ridge by leave-one-out. A grade that does
not lower the leave-one-out error is left out and is the last. Where the error stays far above rounding (noise, a kink,
few points), the features are penalised by frequency as well, as smoothing splines and Gaussian processes do, if that
lowers the leave-one-out error.
"""

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from ..least_squares import LinearFit, checked_weights, solve_least_squares
from ..model import Grade, MultiGrade
from ..sines import SPACING, Box, SineNetwork, lattice, significant_radius, spectrum
from .grades import Fit
from .record import Outcome, RunRecord

MAX_GRADES = 16  # our choice
MAX_FEATURES = 2000  # a decomposition of this many takes five seconds of one core
ROUNDING = 3e-13  # of the targets: no grade is added below
LARGEST = 100.0  # coefficients relative to the targets: larger ones would cancel, and their digits be lost
IS_ROUGH = 1e-9  # above this error relative to the targets a penalty by frequency is tried
MARGIN = {1: 8, 2: 2}  # lattice steps that a grade adds at least, besides a quarter of the radius
DECAYS = (1.0, 2.0, 3.0)  # exponents of the penalty: about those of splines of degree 1, 3, 5
LENGTHS = tuple(0.05 * 2.0**k for k in range(6))  # of Gaussian penalties, in units of the box; for few rows
FEW_ROWS = 500  # up to here Gaussian penalties are tried as well
RANDOM_SCALES = tuple(0.5 * 2.0**k for k in range(7))  # of random frequencies on the unit box
NUM_TRIAL = 300  # random waves that choose a scale


@dataclasses.dataclass(frozen=True)
class _State:
    """The grades so far: their waves (frequencies on the unit box), the joint output layer, and the model."""

    frequencies: np.ndarray  # (waves, d)
    fit: LinearFit | None
    model: MultiGrade
    records: tuple[RunRecord, ...]
    features: np.ndarray  # (N, d + sines)
    residual: np.ndarray

    @property
    def error(self) -> float:
        return self.fit.leave_one_out if self.fit else np.inf


def fit_high_precision(
    inputs,
    targets,
    *,
    sample_weight=None,
    max_grades: int = MAX_GRADES,
    max_features: int = MAX_FEATURES,
    time_limit: float | None = None,
    seed: int = 0,
    on_grade: Callable[[RunRecord], None] | None = None,
) -> Fit:
    """Fit grades of sine features to targets (N, s) at inputs (N, d), in float64.

    Parameters
    ----------
    inputs, targets : arrays (N, d), (N, s)
    sample_weight : array (N,), optional
    max_grades, max_features : int
        Bounds; the number of grades and their widths follow the data.
    time_limit : float, optional
        Seconds after which no further grade is begun.
    seed : int
        Draws the frequencies where there are three inputs or more.
    on_grade : function, optional
        Called with the record of every grade. A record has one row: the number of features as "step", the "train_loss"
        (half the mean square) and the root mean square error "leave_one_out".

    Returns
    -------
    Fit
        The model computes in float64 wherever it is called and returns NumPy arrays.
    """
    started = time.perf_counter()
    x, y, w = _checked(inputs, targets, sample_weight)
    used = slice(None) if w is None else w > 0
    box = Box.around(x[used])
    unit = box.unit(x)
    size = float(np.sqrt(np.average(np.mean((y - np.average(y, axis=0, weights=w)) ** 2, axis=1), weights=w))) or 1.0
    num_rows = int(np.sum(w > 0)) if w is not None else len(x)
    num_waves = max(min(int(0.4 * num_rows), max_features // 2), 1)
    state = _State(np.empty((0, x.shape[1])), None, MultiGrade(), (), x, y - np.average(y, axis=0, weights=w))
    choose = _next_on_lattice if x.shape[1] in MARGIN else _next_at_random
    for index in range(max_grades):
        if index and time_limit is not None and time.perf_counter() - started > time_limit:
            break
        frequencies = choose(state, unit, y, w, num_waves, np.random.default_rng((seed, index)))
        if not len(frequencies):
            break
        begun = time.perf_counter()
        grown = _with_grade(state, box, y, w, frequencies, None, begun)
        if state.fit is not None and not grown.error < 0.95 * state.error:
            break
        state = grown
        if on_grade:
            on_grade(state.records[-1])
        if state.error < ROUNDING * size:
            break
    if state.error > IS_ROUGH * size:
        rough = _with_penalty(state, unit, box, y, w, num_rows, max_features)
        if rough is not None:
            state = rough
            if on_grade:
                on_grade(state.records[-1])
    return Fit(state.model, state.records)


def _with_grade(state: _State, box: Box, y, w, frequencies, scales, begun: float) -> _State:
    """The state with a further grade of these frequencies: output layers of all grades solved together."""
    num_inputs = state.frequencies.shape[1]
    first = box.first_layer(frequencies)
    features = np.hstack([state.features, np.sin(state.features[:, :num_inputs] @ first.weight + first.bias)])
    fit = solve_least_squares(features, y, weights=w, scales=scales, largest=LARGEST * np.abs(y).max())
    num_carried = state.features.shape[1] - num_inputs
    network = SineNetwork(num_inputs, num_carried, 2 * len(frequencies), y.shape[1])
    # The model is a sum: this grade holds what its output layer has beyond the layers before it.
    weight, bias = fit.coefficients.copy(), fit.intercept.copy()
    for grade in state.model.grades:
        weight[: len(grade.params[1].weight)] -= grade.params[1].weight
        bias -= grade.params[1].bias
    before = y - state.residual if state.fit else 0.0
    correction = fit.corrected(features, y - (before + features @ weight + bias), w)
    weight += correction.coefficients - fit.coefficients
    bias += correction.intercept - fit.intercept
    residual = y - (before + features @ weight + bias)
    params = (first, type(first)(weight, bias))
    record = _record(features.shape[1], residual, w, fit, time.perf_counter() - begun)
    return _State(
        np.vstack([state.frequencies, frequencies]), correction, state.model.add(Grade(network, params, 1.0)),
        (*state.records, record), features, residual,
    )  # fmt: skip


def _next_on_lattice(state: _State, unit, y, w, num_waves: int, random) -> np.ndarray:
    """The waves beyond those so far up to the radius at which the residual still has something to say."""
    num_dimensions, num_so_far = unit.shape[1], len(state.frequencies)
    waves = lattice(num_dimensions, max(2 * num_waves, 64))
    radius = np.linalg.norm(waves, axis=1)
    so_far = radius[num_so_far - 1] if num_so_far else 0.0
    wanted = significant_radius(spectrum(unit, state.residual, waves, w), waves) + 4 * SPACING
    wanted = max(wanted, 1.25 * so_far + MARGIN[num_dimensions] * SPACING)
    return waves[num_so_far : min(int(np.searchsorted(radius, wanted, side="right")), num_waves)]


def _next_at_random(state: _State, unit, y, w, num_waves: int, random) -> np.ndarray:
    """Normal frequencies, of the scale at which a few of them do best on what is left over.

    After the first grade they are stretched along the inputs in which the model varies: by its mean square slope.
    """
    num_new = min(num_waves - len(state.frequencies), max(num_waves // 3, min(num_waves, NUM_TRIAL)))
    if num_new < 1:
        return np.empty((0, unit.shape[1]))
    stretch = _slopes(state, unit) if state.fit else np.ones(unit.shape[1])
    rows = random.permutation(len(unit))[:2000]
    draws = random.normal(size=(num_new, unit.shape[1])) * stretch
    errors = []
    for scale in RANDOM_SCALES:
        phase = unit[rows] @ (scale * draws[:NUM_TRIAL]).T
        features = np.hstack([unit[rows], np.sin(phase), np.cos(phase)])
        errors.append(
            solve_least_squares(features, state.residual[rows], weights=None if w is None else w[rows]).leave_one_out
        )
    return RANDOM_SCALES[int(np.argmin(errors))] * draws


def _slopes(state: _State, unit: np.ndarray) -> np.ndarray:
    """Root mean square derivative of the model along each input of the unit box, relative to their root mean square."""
    assert state.fit is not None
    num_inputs = unit.shape[1]
    lengths = np.ptp(state.features[:, :num_inputs], axis=0)
    rows = slice(None, None, max(len(unit) // 500, 1))
    cosines = np.empty((len(unit[rows]), len(state.fit.coefficients) - num_inputs))
    cosines[:, ::2] = state.features[rows, num_inputs + 1 :: 2]  # the derivative of sin is cos, of cos is -sin
    cosines[:, 1::2] = -state.features[rows, num_inputs::2]
    slopes = np.empty(num_inputs)
    for axis in range(num_inputs):
        along = np.repeat(state.frequencies[:, axis], 2)[:, None] * state.fit.coefficients[num_inputs:]
        slopes[axis] = np.sqrt(np.mean((cosines @ along + lengths[axis] * state.fit.coefficients[axis]) ** 2))
    return np.maximum(slopes / (np.sqrt(np.mean(slopes**2)) or 1.0), 0.02)


def _with_penalty(state: _State, unit, box: Box, y, w, num_rows: int, max_features: int) -> _State | None:
    """The state with a grade whose output layers are penalised by frequency; None if that is no better."""
    begun = time.perf_counter()
    if unit.shape[1] in MARGIN:
        is_noise = len(state.records) and not _stands_out(state, unit, w)
        most = max(3 * len(state.frequencies) // 2, 150) if is_noise else max_features // 2
        num_waves = min(max(int(0.75 * num_rows), 16), most, max_features // 2)
        new = lattice(unit.shape[1], max(num_waves, len(state.frequencies) + 1))[len(state.frequencies) :]
    else:
        new = np.random.default_rng(len(state.frequencies)).normal(size=(16, unit.shape[1]))
    lengths = np.repeat(np.linalg.norm(np.vstack([state.frequencies, new]), axis=1), 2)
    scales = [(1 + lengths / SPACING) ** -q for q in DECAYS]
    if num_rows <= FEW_ROWS:
        scales += [np.exp(-np.minimum((lengths * length) ** 2 / 4, 50)) for length in LENGTHS]
    scales = np.hstack([np.ones((len(scales), unit.shape[1])), np.array(scales)])
    grown = _with_grade(state, box, y, w, new, scales, begun)
    return grown if grown.error < state.error else None


def _stands_out(state: _State, unit, w) -> bool:
    """Whether the residual is more than noise: some wave of it is far above the rest."""
    waves = lattice(unit.shape[1], 512)
    return significant_radius(spectrum(unit, state.residual, waves, w), waves) > 0


def _record(num_features: int, residual, w, fit: LinearFit, seconds: float) -> RunRecord:
    loss = 0.5 * np.average(np.sum(residual**2, axis=1), weights=w)
    columns = {
        "step": np.array([num_features], np.int32),
        "train_loss": np.array([loss]),
        "leave_one_out": np.array([fit.leave_one_out]),
    }
    sentence = f"solved for {num_features} features with ridge {fit.ridge:.1e}"
    return RunRecord(columns, outcome=Outcome.FINISHED, sentence=sentence, num_steps=1, seconds=seconds)


def _checked(inputs, targets, weights):
    x, y = np.asarray(inputs, np.float64), np.asarray(targets, np.float64)
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or not len(x) or not x.shape[1]:
        raise ValueError(f"inputs and targets must have shapes (N, d) and (N, s); got {x.shape} and {y.shape}")
    for name, array in (("inputs", x), ("targets", y)):
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite; got NaN or infinity")
    return x, y, checked_weights(weights, len(x), "sample_weight")
