"""The best recipe for Gaussian blur: plug and play around the exact inverse of the blur, from the minimiser.

The method is rehearsed first, on a copy of the minimiser of half the size, blurred and made noisy as the observation
was: a copy is as sharp, for its size, as the picture that is sought. Where it does not come nearer to the copy than the
minimiser does, the minimiser is the result.

A grade that learns from smaller copies what the minimiser misses (``copies``) comes before, if the options ask for one.
It adds 0.4 dB to the minimiser and hardly anything to the result, so by default there is none.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from ... import structures
from ...model import MultiGrade, staged_values
from ...training import Fit, Outcome, Regression, fit_grades, warmup_cosine
from ..inverse.copies import Blurred, deblurring_rows, smaller
from ..inverse.plug_and_play import consistent, plug_and_play
from ..inverse.strengths import LEAST_NOISE, Strengths, choose_strengths
from ..inverse.variational import solve as minimise_over_images
from ..problem import Options, Problem, Recipe, Restored, restored
from ..progress import part_of
from .best_denoise import hidden_layers
from .grades import Stopwatch, chosen, facts_of, minimiser_of, objective_of, plan_of

# Grades (a second one learns its few copies by heart), hidden layers, neurons, rows per step, rate; our choice.
GRADES, LAYERS, WIDTH, BATCH, RATE = 1, 2, 128, 2048, 0.01
DEEP_LAYERS = 4  # of one deep network: as many as the best recipe has for denoising
PIXELS_PER_STEP = 120  # of the copies; more steps learn them by heart
FEWEST_STEPS, MOST_STEPS = 200, 1500  # whatever the number of pixels; our choice
SHARE = 0.8  # of what the grades add to an image, which is not quite like its smaller copies
LEAST_SIDE = 64  # pixels, for there to be smaller copies
REHEARSAL, REHEARSED = 2.0, 0.2  # how much smaller the copy is; the share of the time that it takes


def solve(problem: Problem, options: Options) -> Restored:
    watch = Stopwatch.started_for(options)
    strengths = chosen(options, choose_strengths(problem.observed, problem.operator, problem.noise))
    images, fit = {"minimiser": minimiser_of(problem, strengths)}, Fit()
    if options.asks_for_grades:
        fit, learned = _by_smaller_copies(problem, strengths, options)
        images |= {f"grade {i}": image for i, image in enumerate(learned, 1)}
    if not watch.is_over and _is_rehearsed(problem, images["minimiser"], strengths, watch):
        start = list(images.values())[-1]
        images["non-local"] = plug_and_play(
            problem.observed, problem.operator, problem.noise, start, progress=part_of(watch.progress, REHEARSED, 1)
        )
    facts: dict[str, Any] = {**facts_of(problem, "best"), "lambda": strengths.weight, "beta": strengths.beta}
    facts |= {"stages": list(images), "objective": objective_of(problem, list(images.values())[-1], strengths)}
    if len(images) == 1:
        facts["is_minimiser"] = True
    elif watch.is_over:
        facts["is_cut_short"] = True
    return restored(problem, fit, list(images.values()), {**facts, "seconds": watch.seconds})


def _is_rehearsed(problem: Problem, minimiser: np.ndarray, strengths: Strengths, watch: Stopwatch) -> bool:
    """Whether plug and play is nearer than the minimiser to a smaller copy of it that was blurred and made noisy."""
    clean = smaller(minimiser, REHEARSAL)
    random = np.random.default_rng(0).standard_normal(clean.shape, np.float32)
    observed = np.asarray(problem.operator.forward(jnp.asarray(clean))) + np.float32(problem.noise) * random
    start = minimise_over_images(observed, problem.operator, *strengths)
    image = plug_and_play(
        observed, problem.operator, problem.noise, start, progress=part_of(watch.progress, 0, REHEARSED)
    )
    return bool(np.mean((image - clean) ** 2) <= np.mean((start - clean) ** 2))


def _by_smaller_copies(problem: Problem, strengths: Strengths, options: Options) -> tuple[Fit, list]:
    """The grades and the image after each; none where they diverged, had no time, or are worse than nothing on the very
    copies that they learned from."""
    observed, operator, noise = problem.observed, problem.operator, problem.noise
    seen = Blurred.of(observed, operator, strengths)
    inputs, targets, num_pixels = deblurring_rows(seen.minimisers[0], operator, strengths, noise, options.seed)
    steps = options.steps or int(np.clip(num_pixels / PIXELS_PER_STEP, FEWEST_STEPS, MOST_STEPS))
    layers = LAYERS if options.method == "mgdl" else DEEP_LAYERS
    structure = structures.graded(inputs.shape[1], hidden_layers(options, GRADES, layers, WIDTH), 1, bias_std=0.2)
    schedule = warmup_cosine(options.learning_rate or RATE, steps)
    batch = {"batch_size": min(BATCH, len(inputs)), "record_every": max(steps // 10, 1)}
    fit = fit_grades(
        structure, inputs, targets, plan_of(options, steps, "muon", schedule, **batch),
        regression=Regression(residual_scaling=True, standardise_features=True), checkpoint=options.checkpoint,
    )  # fmt: skip
    learned = staged_values(fit.model, inputs)
    is_better = np.mean((targets - SHARE * learned[-1]) ** 2) <= np.mean(targets**2)
    if fit.outcome in (Outcome.DIVERGED, Outcome.TIME_LIMIT) or not is_better:
        return dataclasses.replace(fit, model=MultiGrade()), []
    parts = np.array_split(np.arange(observed.size), -(-observed.size // 2**16))
    added = [staged_values(fit.model, seen.inputs(part)) for part in parts]
    stages = []
    for missed, addition in zip((targets - SHARE * part for part in learned), zip(*added, strict=True), strict=True):
        image = seen.minimisers[0] + SHARE * np.concatenate(addition).reshape(observed.shape)
        stages.append(consistent(observed, operator, image, max(noise, LEAST_NOISE) ** 2 / np.mean(missed**2)))
    return fit, stages


def most_grades(options: Options) -> int:
    return options.num_grades(GRADES) if options.asks_for_grades else 0


def refusal(size: tuple[int, int], options: Options) -> str | None:
    if min(size) < LEAST_SIDE:
        found = f"{size[0]} x {size[1]}"
        return f"recipe best needs pictures of at least {LEAST_SIDE} pixels a side for deblurring; got {found}"
    return None


RECIPE = Recipe(solve, most_grades, refusal)
