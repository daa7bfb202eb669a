"""The best recipe for regression: grades that learn what bilinear interpolation misses, mixed with other estimates.

The weights of the mixture (bilinear, each grade, the image of recipe networks, and the missing pixels filled in by plug
and play, colours jointly) come from the pixels held out.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np

from ... import structures
from ...model import MultiGrade, staged_values
from ...training import Fit, Observation, Observer, Regression, Snapshot, fit_grades, warmup_cosine
from ..graded.fitting import most_paper_grades, plan_of
from ..inverse.interpolation import between, interpolation_rows, neighbours
from ..inverse.plug_and_play import plug_and_play
from ..mixtures import mixture
from ..operators import Mask
from ..problem import Options, Problem
from ..progress import Stopwatch
from ..result import Recipe, Restored
from .best_inpaint import smooth
from .networks_regress import by_known_pixels, held_out_pixels, known_pixels, regressed

# Grades at most, hidden layers, neurons, rows per step, rate; steps per grade for 512 pixels on a side. Our choice.
GRADES, LAYERS, WIDTH, BATCH, RATE = 2, 2, 64, 2048, 0.02
STEPS, SIDE, LEAST_STEPS = 600, 512, 300
LEAST_SIDE = 3  # pixels, for a neighbour to learn from


def solve(problem: Problem, options: Options) -> Restored:
    watch = Stopwatch.started(options.time_limit, options.observers)
    channels, rows, held_out = problem.observed, known_pixels(problem), held_out_pixels(problem)
    networks, images = by_known_pixels(problem, options, rows, held_out)
    known = channels[:, ::2, ::2]
    time_left = None if options.time_limit is None else options.time_limit - watch.seconds
    fit = Fit(MultiGrade(), ())
    if not watch.is_over:
        fit = _by_interpolation(known, max(channels.shape), options, time_left)
    inputs, bilinear = neighbours(known)
    corrections = [0, *staged_values(fit.model, inputs)]
    stages = [between(known, bilinear + correction, channels.shape) for correction in corrections]
    exact = np.array(images[-1])
    exact[:, ::2, ::2] = known
    candidates = [*stages, exact]
    if not watch.is_over:
        candidates.append(_filled_in(problem, watch))
    judged = [image.reshape(len(channels), -1)[:, held_out] for image in (*candidates, channels)]
    weights = mixture(judged[:-1], judged[-1]) if len(held_out) else np.eye(len(candidates))[1]
    mixed = sum(weight * image for weight, image in zip(weights, candidates, strict=True))
    cut_short = networks.is_cut_short or fit.is_cut_short or not fit.records
    whole = Fit(fit.model, (*networks.records, *fit.records), cut_short)
    return regressed(problem, whole, [*stages[1:], mixed], "best")


def _filled_in(problem: Problem, watch: Stopwatch) -> np.ndarray:
    """The known pixels, and the others by plug and play."""
    known = problem.mask
    assert known is not None
    quiet = dataclasses.replace(watch, shown=())  # the grades are what is shown
    observed = np.where(known, problem.observed, 0)
    mask, start = Mask(jnp.asarray(known, jnp.float32)), smooth(observed, known, 0.0)
    return np.where(known, observed, plug_and_play(observed, mask, 0.0, start, progress=quiet.progress))


def _by_interpolation(known: np.ndarray, side: int, options: Options, time_limit: float | None) -> Fit:
    """Grades that learn what bilinear interpolation misses, from the known pixels (channels, h, w)."""
    inputs, targets = interpolation_rows(known, options.seed)
    steps = options.steps or max(round(STEPS * side / SIDE), LEAST_STEPS)
    # One deep network has the layers of all grades.
    layers = options.layers or (GRADES * LAYERS if options.method == "sgdl" else LAYERS)
    hidden = ((options.width or WIDTH,) * layers,) * options.num_grades(GRADES)
    structure = structures.graded(inputs.shape[1], hidden, 3, bias_std=0.2)
    schedule = warmup_cosine(options.learning_rate or RATE, steps)
    plan = plan_of(
        options, steps, "muon", schedule, batch_size=BATCH, record_every=max(steps // 10, 1), time_limit=time_limit,
        observers=[_Later(observer, most_paper_grades(options)) for observer in options.observers],
    )  # fmt: skip
    regression = Regression(residual_scaling=True, standardise_features=True)
    return fit_grades(structure, inputs, targets, plan, regression=regression)


@dataclasses.dataclass(frozen=True)
class _Later:
    """An observer of a second fit, whose grades are counted on from those of the first."""

    observer: Observer
    before: int

    @property
    def name(self) -> str:
        return self.observer.name

    @property
    def every(self) -> int | None:
        return self.observer.every

    def observe(self, snapshot: Snapshot, carry) -> Observation | None:
        return self.observer.observe(dataclasses.replace(snapshot, grade=self.before + snapshot.grade), carry)


def refusal(size: tuple[int, int], options: Options) -> str | None:
    if min(size) < LEAST_SIDE:
        return f"recipe best needs pictures of at least {LEAST_SIDE} pixels a side for regression; got {size}"
    return None


RECIPE = Recipe(solve, lambda options: most_paper_grades(options) + options.num_grades(GRADES), refusal)
