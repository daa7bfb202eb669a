"""How the grades of a picture are trained: the recipes of ``restore``, one function for each way.

paper   ``by_rows`` (regression) and ``by_whole_images``: every step sees every pixel.
fast    ``by_pixels``, and ``by_known_pixels`` for regression: random pixels of a target image.
best    ``by_surroundings`` (denoising), ``by_smaller_copies`` (deblurring), ``by_interpolation`` (regression).

Each returns the fit and the image after every grade, (channels, h, w).
"""

import dataclasses
import os
import time
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from ... import structures
from ...model import MultiGrade, staged_values
from ...networks import Network
from ...training import (
    Checkpointing,
    Fit,
    Observation,
    Observer,
    Outcome,
    Plan,
    Plateau,
    Regression,
    Snapshot,
    fingerprint,
    fit_grades,
    train_grades,
    warmup_cosine,
)
from ...training.checkpoint import describe
from ..copies import Blurred, consistent, lessons_in_deblurring
from ..interpolation import between, lessons, neighbours
from ..judges import Missed, least, surely_better
from ..operators import Operator
from ..restoration import RestorationTask, pixel_coordinates
from ..simplex import mixture
from ..strengths import LEAST_NOISE, Strengths, choose_strengths
from ..surroundings import RiskTask
from ..target import PixelFeatures, TargetTask

GRADES = 4  # of MGDL-2 and MGDL-3, Appendix D
# lambda per unit of noise in the paper recipe; 0.25 gives the recorded winner 1e-2 at noise 10, the rest is our choice.
RULE = {"denoise": 0.25, "deblur": 0.04, "inpaint": 0.04, "upsample": 0.04}
SMALLEST_LAMBDA = 1e-4
# The fast recipe: steps per grade for 512 x 512 pixels, more in proportion to the image's side. The finer what is left
# to learn, the more noise the draws add to it: pixels per step grow with the grade, and the rate is lower; also where
# there are more steps, as their square root, or weights wander off and a grade dies. One deep network gets the means.
FAST_STEPS = {"regress": 1700, "restore": 3200}
FAST_SIDE = 512
FAST_BATCHES = (1024, 1024, 2048, 4096)
FAST_RATES = (0.02, 0.02, 0.014, 0.014)
# The best recipe: grades at most, hidden layers, steps per grade (as above), pixels per step, rate.
BEST_GRADES, BEST_LAYERS, BEST_STEPS, BEST_BATCHES, BEST_RATE = 2, 2, 1500, (1024, 2048), 0.01
PIXELS_PER_STEP = 120  # of the copies that the best recipe for deblurring learns from; more steps learn them by heart
SHARE = 0.8  # of what the grades add to an image, which is not quite like its smaller copies
# Pixels on a side that the best recipe needs: for a neighbour to learn from, for smaller copies.
LEAST_SIDE = {"regress": 3, "deblur": 64}
METHODS = ("mgdl", "sgdl")
RECIPES = ("paper", "fast", "best")


@dataclasses.dataclass(frozen=True)
class Options:
    """How to train; None takes the recipe's value."""

    method: str = "mgdl"
    recipe: str = "fast"
    grades: int | None = None
    layers: int | None = None  # hidden layers per grade (mgdl) or in all (sgdl)
    width: int | None = None
    epochs: int | None = None  # steps per grade
    learning_rate: float | None = None
    weight: float | None = None  # lambda
    beta: float | None = None
    seed: int = 0
    time_limit: float | None = None  # seconds of training
    observers: Sequence[Observer] = ()
    checkpoint: str | os.PathLike | None = None

    def __post_init__(self):
        for name, value, known in (("method", self.method, METHODS), ("recipe", self.recipe, RECIPES)):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}")
        for name, lowest in (("grades", 1), ("layers", 1), ("width", 1), ("epochs", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise ValueError(f"{name} must be at least {lowest}; got {value!r}")
        if self.seed >= 2**32:
            raise ValueError(f"seed must be below 2**32; got {self.seed!r}")
        for name in ("learning_rate", "beta", "time_limit"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a positive number; got {value!r}")
        if self.weight is not None and not (np.isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"lambda must be at least 0; got {self.weight!r}")


def recipe_for(task: str, shape: Sequence[int], options: Options) -> str:
    """The recipe that a picture of this size gets: too small a one teaches nothing by its copies; ValueError for
    options that the recipe of the task has no use for."""
    has_strengths = (options.weight, options.beta) != (None, None)
    if task == "regress" and has_strengths:
        raise ValueError("lambda and beta must not be given for regression, which has no total variation")
    if options.recipe != "best" or min(shape) < LEAST_SIDE.get(task, 0):
        return "fast" if options.recipe == "best" else options.recipe
    if task == "denoise" and has_strengths:
        raise ValueError("lambda and beta must not be given for denoising by recipe best, which has its own")
    if task == "deblur" and options.method != "mgdl":
        raise ValueError("method must be mgdl for deblurring by recipe best: one grade, or as many as grades says")
    return "best" if task in ("regress", "denoise", "deblur") else "fast"


def num_grades(task: str, shape: Sequence[int], options: Options) -> int:
    """How many grades a task trains at most: what a view of its progress counts to."""

    def count(default: int) -> int:
        return (options.grades or default) if options.method == "mgdl" else 1

    best = {"regress": count(GRADES) + count(BEST_GRADES), "denoise": count(BEST_GRADES), "deblur": count(1)}
    return best[task] if recipe_for(task, shape, options) == "best" else count(GRADES)


def structure_of(options: Options, *, layers: int, single_layers: int, outputs: int) -> tuple[Network, ...]:
    """The paper's MGDL-2/SGDL-2 (regression) or MGDL-3/SGDL-3 (restoration), unless the options say otherwise."""
    width = options.width or 128
    if options.method == "mgdl":
        hidden = [(width,) * (options.layers or layers)] * (options.grades or GRADES)
    elif options.grades not in (None, 1):
        raise ValueError(f"grades must be 1 with method sgdl; got {options.grades}")
    else:
        hidden = [(width,) * (options.layers or single_layers)]
    init = {"weight_init": "glorot", "bias_std": 0.01} if options.recipe == "paper" else {"bias_std": 0.2}
    return structures.graded(2, hidden, outputs, **init)


def strengths_of(task: str, observed, operator: Operator, sigma: float, options: Options) -> Strengths:
    """lambda and beta: the caller's, else the recipe's."""
    if options.recipe == "paper":
        chosen = Strengths(max(RULE[task] * sigma / 255, SMALLEST_LAMBDA), 1.0)
    else:
        chosen = choose_strengths(observed, operator, sigma / 255)
    weight = chosen.weight if options.weight is None else options.weight
    return Strengths(weight, chosen.beta if options.beta is None else options.beta)


def estimated_psnr(error: float, doubt: float = 0.0) -> float | None:
    """None where the estimate of the mean square error is not above twice its standard error."""
    return float(-10 * np.log10(error)) if error > 2 * doubt else None


def by_rows(structure, channels, options: Options, rows, held_out) -> tuple[Fit, list]:
    """Regression by the paper's recipe: every step sees every training pixel."""
    _, height, width = channels.shape
    inputs, values = pixel_coordinates(height, width), channels.reshape(len(channels), -1).T
    fit = fit_grades(
        structure, inputs[rows], values[rows],
        Plan(
            options.epochs or 10_000, "adam", options.learning_rate or 1e-3, record_every=10,
            stopping=Plateau(20, 1e-4), seed=options.seed, seed_per_grade=False,
            time_limit=options.time_limit, observers=options.observers,
        ),
        validation=(inputs[held_out], values[held_out]) if len(held_out) else None, checkpoint=options.checkpoint,
    )  # fmt: skip
    return fit, [stage.T.reshape(channels.shape) for stage in staged_values(fit.model, inputs)]


def by_whole_images(structure, observed, shape, operator, strengths, clean, options: Options) -> tuple[Fit, list]:
    """Restoration by the paper's recipe: a proximal step and an Adam step that see every pixel."""
    task = RestorationTask(
        jnp.asarray(pixel_coordinates(*shape[1:])), jnp.asarray(observed), jnp.zeros(shape, jnp.float32), operator,
        strengths.weight, strengths.beta, 0.99, reference=None if clean is None else jnp.asarray(clean),
    )  # fmt: skip
    settings = {"data": fingerprint(observed), "operator": describe(operator), "strengths": tuple(strengths)}
    settings["has reference"] = clean is not None  # records have its PSNR
    training = {"optimiser": "adam", "learning_rate": options.learning_rate or 5e-3, "record_every": 10}
    fit = _train(structure, task, options.epochs or 20_000, settings, options, training)
    return fit, _images(fit.model, task)


def by_known_pixels(structure, channels, options: Options, rows, held_out) -> tuple[Fit, list]:
    """The fast recipe for regression."""
    judge = Missed(channels, held_out) if len(held_out) else None
    fit, stages = by_pixels(structure, channels, options, judge, rows, held_out)
    return (fit, stages) if judge is None else least(fit, stages, judge)


def by_pixels(structure, target, options: Options, judge=None, rows=None, held_out=()) -> tuple[Fit, list]:
    """The fast recipe: random pixels of a target image (channels, h, w), all of them or those at ``rows``.

    The last grade is the first that the judge finds no better than the one before, or good enough.
    """
    channels, height, width = target.shape
    steps = FAST_STEPS["restore" if rows is None else "regress"] * max(height, width) / FAST_SIDE
    steps = options.epochs or max(round(steps), 500)
    num_pixels = height * width if rows is None else len(rows)
    plan = list(zip(FAST_BATCHES, FAST_RATES, strict=True))
    if options.method == "sgdl":
        plan = [np.mean(plan, axis=0)]
    batches, rates = zip(*(plan[min(i, len(plan) - 1)] for i in range(len(structure))), strict=True)
    slower = min(1, (FAST_STEPS["restore"] / steps) ** 0.5)
    batches = tuple(min(int(batch), num_pixels) for batch in batches)
    schedules = tuple(warmup_cosine(options.learning_rate or slower * rate, steps) for rate in rates)
    task = TargetTask(
        PixelFeatures(jnp.asarray(2 * pixel_coordinates(height, width) - 1)), jnp.zeros((height * width, channels)),
        jnp.asarray(target.reshape(channels, -1).T, jnp.float32), batches,
        *(None if pixels is None or not len(pixels) else jnp.asarray(pixels) for pixels in (rows, held_out)),
    )  # fmt: skip
    settings = {"data": fingerprint(target, rows, np.asarray(held_out)), "batch_sizes": task.batch_sizes}
    training = {"optimiser": "muon", "learning_rate": schedules, "record_every": max(steps // 30, 1), "keep": "best"}

    def picture(image) -> np.ndarray:
        return np.asarray(image).T.reshape(target.shape)

    def enough(tasks: Sequence[TargetTask]) -> bool:
        if judge is None:
            return False
        errors = [judge(picture(task.image)) for task in tasks[-2:]]
        return errors[-1] <= judge.enough or (len(errors) > 1 and errors[1] >= errors[0])

    fit = _train(structure, task, steps, settings, options, training, enough=enough)
    return fit, [picture(image) for image in _images(fit.model, task)]


def by_surroundings(observed, noise: float, options: Options) -> tuple[Fit, list, dict]:
    """The best recipe for denoising: grades on what surrounds a pixel, each surely better than what was before.

    Where no grade is, as for some smooth pictures, the image is the mixture of minimisers that they start from.
    """
    hidden = _best_layers(options, 128)
    batches = [BEST_BATCHES[min(i, len(BEST_BATCHES) - 1)] for i in range(len(hidden))]
    task = RiskTask.of(observed, noise, tuple(min(batch, observed.size) for batch in batches))
    structure = structures.graded(task.around.num_inputs, hidden, 1, bias_std=0.2)
    steps = options.epochs or max(round(BEST_STEPS * max(observed.shape) / FAST_SIDE), 500)
    rate = options.learning_rate or BEST_RATE
    training = {"optimiser": "muon", "learning_rate": warmup_cosine(rate, steps), "record_every": max(steps // 10, 1)}
    settings = {"data": fingerprint(observed), "noise": noise, "batch_sizes": task.batch_sizes}
    fit = _train(structure, task, steps, settings, options, {**training, "keep": "best"})
    tasks = [task]
    for grade in fit.model.grades:
        tasks.append(tasks[-1].after(grade, ()))
    risks = [task.risks() for task in tasks]
    count = surely_better(risks)
    fit = dataclasses.replace(fit, model=MultiGrade(fit.model.grades[:count]))
    kept = slice(1, count + 1) if count else slice(1)
    facts = {"estimated_psnr": [estimated_psnr(risk.mean()) for risk in risks[kept]]}
    if not count:
        facts["is_minimiser"] = True
    return fit, [np.asarray(task.image).reshape(observed.shape) for task in tasks[kept]], facts


def by_smaller_copies(observed, operator, strengths, noise: float, options: Options) -> tuple[Fit, list]:
    """The best recipe for deblurring: learn from smaller copies what the minimiser misses.

    Most of what is learned is added, and the result brought back to what the observation says. One grade, unless the
    options ask for more: a second one learns its few copies by heart.
    """
    seen = Blurred.of(observed, operator, strengths)
    inputs, targets, num_pixels = lessons_in_deblurring(seen.minimisers[0], operator, strengths, noise, options.seed)
    steps = options.epochs or int(np.clip(num_pixels / PIXELS_PER_STEP, 200, 1500))
    hidden = ((options.width or 128,) * (options.layers or BEST_LAYERS),) * (options.grades or 1)
    fit = fit_grades(
        structures.graded(inputs.shape[1], hidden, 1, bias_std=0.2), inputs, targets,
        Plan(
            steps, "muon", warmup_cosine(options.learning_rate or BEST_RATE, steps), min(2048, len(inputs)),
            max(steps // 10, 1), seed=options.seed, observers=options.observers, time_limit=options.time_limit,
        ),
        regression=Regression(residual_scaling=True, standardise_features=True), checkpoint=options.checkpoint,
    )  # fmt: skip
    learned = staged_values(fit.model, inputs)
    if fit.outcome is Outcome.TIME_LIMIT and np.mean((targets - SHARE * learned[-1]) ** 2) > np.mean(targets**2):
        return dataclasses.replace(fit, model=MultiGrade()), [seen.minimisers[0]]  # worse than nothing, on the copies
    parts = np.array_split(np.arange(observed.size), -(-observed.size // 2**16))
    added = [staged_values(fit.model, seen.inputs(part)) for part in parts]
    stages = []
    for missed, addition in zip((targets - SHARE * part for part in learned), zip(*added, strict=True), strict=True):
        image = seen.minimisers[0] + SHARE * np.concatenate(addition).reshape(observed.shape)
        stages.append(consistent(observed, operator, image, max(noise, LEAST_NOISE) ** 2 / np.mean(missed**2)))
    return fit, stages


def by_interpolation(structure, channels, options: Options, rows, held_out) -> tuple[Fit, list]:
    """The best recipe for regression: grades that learn what bilinear interpolation misses, mixed with the fast ones.

    The weights of the mixture (bilinear, each grade, the fast recipe's image) come from the pixels held out.
    """
    started = time.perf_counter()
    fast, images = by_known_pixels(structure, channels, options, rows, held_out)
    known = channels[:, ::2, ::2]
    inputs, targets = lessons(known, options.seed)
    hidden = _best_layers(options, 64)
    steps = options.epochs or max(round(600 * max(channels.shape) / FAST_SIDE), 300)
    time_left = None if options.time_limit is None else options.time_limit - (time.perf_counter() - started)
    fit = Fit(MultiGrade(), ())
    if time_left is None or time_left > 0:
        fit = fit_grades(
            structures.graded(inputs.shape[1], hidden, 3, bias_std=0.2), inputs, targets,
            Plan(
                steps, "muon", warmup_cosine(options.learning_rate or 0.02, steps), 2048, max(steps // 10, 1),
                seed=options.seed, time_limit=time_left,
                observers=[_Later(observer, len(structure)) for observer in options.observers],
            ),
            regression=Regression(residual_scaling=True, standardise_features=True),
        )  # fmt: skip
    inputs, bilinear = neighbours(known)
    corrections = [0, *staged_values(fit.model, inputs)]
    stages = [between(known, bilinear + correction, channels.shape) for correction in corrections]
    exact = np.array(images[-1])
    exact[:, ::2, ::2] = known
    candidates = [*stages, exact]
    judges = [image.reshape(len(channels), -1)[:, held_out] for image in (*candidates, channels)]
    weights = mixture(judges[:-1], judges[-1]) if len(held_out) else np.eye(len(candidates))[1]
    mixed = sum(weight * image for weight, image in zip(weights, candidates, strict=True))
    cut_short = fast.is_cut_short or fit.is_cut_short or not fit.records
    return Fit(fit.model, (*fast.records, *fit.records), cut_short), [*stages[1:], mixed]


def _best_layers(options: Options, width: int) -> tuple[tuple[int, ...], ...]:
    """Hidden layers of each grade; one deep network has those of all grades."""
    grades, layers = (
        (options.grades or BEST_GRADES, BEST_LAYERS) if options.method == "mgdl" else (1, BEST_GRADES * BEST_LAYERS)
    )
    return ((options.width or width,) * (options.layers or layers),) * grades


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


def _train(structure, task, steps: int, settings: dict, options: Options, training: dict, **more) -> Fit:
    plan = Plan(
        steps, seed=options.seed, seed_per_grade=options.recipe != "paper", time_limit=options.time_limit,
        observers=options.observers, **training,
    )  # fmt: skip
    checkpoint = None if options.checkpoint is None else Checkpointing(options.checkpoint, identity=settings)
    return train_grades(structure, task, plan, checkpoint=checkpoint, **more)


def _images(model: MultiGrade, task) -> list[np.ndarray]:
    """The image after each grade."""
    stages = []
    for grade in model.grades:
        task = task.after(grade, ())
        stages.append(np.asarray(task.image))
    return stages
