"""The best recipe for Gaussian blur: learn from smaller copies what the minimiser misses (``copies``).

Most of what is learned is added to the minimiser, and the result is brought back to what the observation says.
"""

import dataclasses

import numpy as np

from ... import structures
from ...model import MultiGrade, staged_values
from ...training import Fit, Outcome, Regression, fit_grades, warmup_cosine
from ..copies import Blurred, consistent, deblurring_rows
from ..problem import Options, Problem, Recipe, Restored, restored
from ..strengths import LEAST_NOISE, Strengths, choose_strengths
from .best_denoise import hidden_layers
from .grades import chosen, facts_of, objective_of, or_minimiser, plan_of

# Grades (a second one learns its few copies by heart), hidden layers, neurons, rows per step, rate; our choice.
GRADES, LAYERS, WIDTH, BATCH, RATE = 1, 2, 128, 2048, 0.01
DEEP_LAYERS = 4  # of one deep network: as many as the best recipe has for denoising
PIXELS_PER_STEP = 120  # of the copies; more steps learn them by heart
FEWEST_STEPS, MOST_STEPS = 200, 1500
SHARE = 0.8  # of what the grades add to an image, which is not quite like its smaller copies
LEAST_SIDE = 64  # pixels, for there to be smaller copies


def solve(problem: Problem, options: Options) -> Restored:
    strengths = chosen(options, choose_strengths(problem.observed, problem.operator, problem.noise))
    fit, stages = _by_smaller_copies(problem, strengths, options)
    facts = {**facts_of(problem, "best"), "lambda": strengths.weight, "beta": strengths.beta}
    found = {"objective": objective_of(problem, stages[-1], strengths)}
    if not fit.model.grades:
        found["is_minimiser"] = True
    elif fit.outcome is Outcome.TIME_LIMIT:
        fit, stages, found = or_minimiser(problem, fit, stages, strengths)
    return restored(problem, fit, stages, {**facts, **found})


def _by_smaller_copies(problem: Problem, strengths: Strengths, options: Options) -> tuple[Fit, list]:
    """The grades and the image after each; the minimiser, and no grades, where they diverged or are worse than
    nothing on the very copies that they learned from."""
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
    if fit.outcome is Outcome.DIVERGED or not is_better:
        return dataclasses.replace(fit, model=MultiGrade()), [seen.minimisers[0]]
    parts = np.array_split(np.arange(observed.size), -(-observed.size // 2**16))
    added = [staged_values(fit.model, seen.inputs(part)) for part in parts]
    stages = []
    for missed, addition in zip((targets - SHARE * part for part in learned), zip(*added, strict=True), strict=True):
        image = seen.minimisers[0] + SHARE * np.concatenate(addition).reshape(observed.shape)
        stages.append(consistent(observed, operator, image, max(noise, LEAST_NOISE) ** 2 / np.mean(missed**2)))
    return fit, stages


def refusal(size: tuple[int, int], options: Options) -> str | None:
    if min(size) < LEAST_SIDE:
        found = f"{size[0]} x {size[1]}"
        return f"recipe best needs pictures of at least {LEAST_SIDE} pixels a side for deblurring; got {found}"
    return None


RECIPE = Recipe(solve, lambda options: options.num_grades(GRADES), refusal)
