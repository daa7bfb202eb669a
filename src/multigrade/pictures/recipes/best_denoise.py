"""The best recipe for denoising: the non-local estimate, corrected by a grade that has seen other pictures.

What the noise is like is read off the picture, unless its level is given (``denoising``). For white noise the picture's
own grades may follow, if the options ask for any: grades on what surrounds a pixel, taught by Stein's unbiased estimate
of the square error (``estimated_risk``), each kept only if it is surely better. On the pictures that we measured they
no longer are, so by default there are none.
"""

import dataclasses
from typing import Any

import numpy as np

from ... import structures
from ...model import MultiGrade
from ...training import Fit, warmup_cosine
from ...training.checkpoint import fingerprint
from ..colour import decorrelated, recorrelated
from ..denoise.denoising import Denoised, denoised, describe_noise
from ..denoise.estimated_risk import RiskTask
from ..denoise.risk import Minimiser
from ..graded.judges import estimated_psnr, surely_better
from ..problem import LEAST_SIGMA, Options, Problem, Recipe, Restored, restored
from .grades import Stopwatch, plan_of, train

# Grades at most, hidden layers, neurons, pixels per step, rate; steps per grade for 512 pixels on a side. Our choice.
GRADES, LAYERS, WIDTH, BATCHES, RATE = 2, 2, 128, (1024, 2048), 0.01
STEPS, SIDE, LEAST_STEPS = 1500, 512, 500
RADIUS = 1  # of what is seen of the estimates around a pixel


def solve(problem: Problem, options: Options) -> Restored:
    watch = Stopwatch.started_for(options)
    given = None if problem.noise_was_estimated else problem.noise * (problem.noise_sigma >= LEAST_SIGMA)
    noise = describe_noise(problem.observed, given)
    found = denoised(problem.observed, noise, progress=watch.progress)
    names, stages = list(found.images), list(found.images.values())
    facts: dict[str, Any] = {"recipe": "best", "noise_sigma": 255 * noise.sigma, "noise_kind": noise.kind}
    facts |= {"noise_was_estimated": noise.was_estimated, "is_clipped": bool(noise.clipped.any())}
    facts["estimated_psnr"] = [*[None] * (len(stages) - 1), None if found.risk is None else estimated_psnr(found.risk)]
    if found.is_cut_short:
        facts["is_cut_short"] = True
    fit = Fit()
    if own_grades(options) and not found.moving:
        facts["is_without_grades"] = True
    elif own_grades(options):
        fit, own = _corrected(problem, noise.sigma, found, options)
        names += [f"own grade {i}" for i in range(1, len(own) + 1)]
        stages += own
        facts["estimated_psnr"] += [None] * len(own)
    return restored(problem, fit, stages, {**facts, "stages": names, "seconds": watch.seconds})


def _corrected(problem: Problem, noise: float, found: Denoised, options: Options) -> tuple[Fit, list[np.ndarray]]:
    """The picture's own grades on top of the estimates, as far as they are surely better, and the image after each."""
    observed = decorrelated(problem.observed)
    hidden = hidden_layers(options, GRADES, LAYERS, WIDTH)
    batches = [min(BATCHES[min(i, len(BATCHES) - 1)], observed.size) for i in range(len(hidden))]
    estimates = [Minimiser(image, slope, RADIUS) for image, slope in found.moving]
    task = RiskTask.of(observed, noise, tuple(batches), estimates)
    structure = structures.graded(task.around.num_inputs, hidden, 1, bias_std=0.2)
    steps = options.steps or max(round(STEPS * max(observed.shape) / SIDE), LEAST_STEPS)
    schedule = warmup_cosine(options.learning_rate or RATE, steps)
    plan = plan_of(options, steps, "muon", schedule, record_every=max(steps // 10, 1), keep="best")
    identity = {"data": fingerprint(observed), "noise": noise, "batch_sizes": task.batch_sizes}
    fit = train(structure, task, plan, identity, options)
    tasks = [task]
    for grade in fit.model.grades:
        tasks.append(tasks[-1].after(grade, ()))
    count = surely_better([task.risks() for task in tasks])
    fit = dataclasses.replace(fit, model=MultiGrade(fit.model.grades[:count]))
    images = [np.asarray(task.image).reshape(observed.shape) for task in tasks[1 : count + 1]]
    return fit, [recorrelated(image) for image in images]


def own_grades(options: Options) -> int:
    """How many grades of the picture's own the options ask for: none, unless they say something of grades."""
    return options.num_grades(GRADES) if options.asks_for_grades else 0


def hidden_layers(options: Options, grades: int, layers: int, width: int) -> tuple[tuple[int, ...], ...]:
    """Hidden layers of each grade, of the options or these; one deep network has those of all grades."""
    if options.method == "sgdl":
        layers *= grades
    return ((options.width or width,) * (options.layers or layers),) * options.num_grades(grades)


def refusal(size: tuple[int, int], options: Options) -> str | None:
    if options.has_strengths:
        return "lambda and beta must not be given for denoising by recipe best, which has its own"
    return None


RECIPE = Recipe(solve, own_grades, refusal, reads_noise=False)
