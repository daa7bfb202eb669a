"""The best recipe for denoising: grades on what surrounds a pixel, each surely better than what was before.

The grades improve a mixture of minimisers and are taught by Stein's unbiased estimate of the square error, so that no
clean picture is needed (``surroundings``, ``estimated_risk``).
"""

import dataclasses

import numpy as np

from ... import structures
from ...model import MultiGrade
from ...training import fingerprint, warmup_cosine
from ..estimated_risk import RiskTask
from ..judges import estimated_psnr, surely_better
from ..problem import LEAST_SIGMA, Options, Problem, Recipe, Restored, restored
from .grades import facts_of, plan_of, train

# Grades at most, hidden layers, neurons, pixels per step, rate; steps per grade for 512 pixels on a side. Our choice.
GRADES, LAYERS, WIDTH, BATCHES, RATE = 2, 2, 128, (1024, 2048), 0.01
STEPS, SIDE, LEAST_STEPS = 1500, 512, 500


def solve(problem: Problem, options: Options) -> Restored:
    """Where no grade is surely better, as for some smooth pictures, the image is the mixture that they start from."""
    observed, noise = problem.observed, max(problem.noise_sigma, LEAST_SIGMA) / 255
    hidden = hidden_layers(options, GRADES, LAYERS, WIDTH)
    batches = [BATCHES[min(i, len(BATCHES) - 1)] for i in range(len(hidden))]
    task = RiskTask.of(observed, noise, tuple(min(batch, observed.size) for batch in batches))
    structure = structures.graded(task.around.num_inputs, hidden, 1, bias_std=0.2)
    steps = options.steps or max(round(STEPS * max(observed.shape) / SIDE), LEAST_STEPS)
    schedule = warmup_cosine(options.learning_rate or RATE, steps)
    plan = plan_of(options, steps, "muon", schedule, record_every=max(steps // 10, 1), keep="best")
    identity = {"data": fingerprint(observed), "noise": noise, "batch_sizes": task.batch_sizes}
    fit = train(structure, task, plan, identity, options)
    tasks = [task]
    for grade in fit.model.grades:
        tasks.append(tasks[-1].after(grade, ()))
    risks = [task.risks() for task in tasks]
    count = surely_better(risks)
    kept = slice(1, count + 1) if count else slice(1)
    facts = {"estimated_psnr": [estimated_psnr(risk.mean()) for risk in risks[kept]]}
    if not count:
        facts["is_minimiser"] = True
    fit = dataclasses.replace(fit, model=MultiGrade(fit.model.grades[:count]))
    stages = [np.asarray(task.image).reshape(observed.shape) for task in tasks[kept]]
    return restored(problem, fit, stages, {**facts_of(problem, "best"), **facts})


def hidden_layers(options: Options, grades: int, layers: int, width: int) -> tuple[tuple[int, ...], ...]:
    """Hidden layers of each grade, of the options or these; one deep network has those of all grades."""
    if options.method == "sgdl":
        layers *= grades
    return ((options.width or width,) * (options.layers or layers),) * options.num_grades(grades)


def refusal(size: tuple[int, int], options: Options) -> str | None:
    if options.has_strengths:
        return "lambda and beta must not be given for denoising by recipe best, which has its own"
    return None


RECIPE = Recipe(solve, lambda options: options.num_grades(GRADES), refusal)
