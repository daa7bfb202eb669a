"""The paper's networks trained our way: the same structures and the same objective, minimised in two stages.

First over all images, which takes seconds (``variational``), with lambda and beta chosen from the observation
(``strengths``). Then the grades are fitted to that image by random pixels (``target``), with Muon, a warm-up and cosine
schedule, features standardised between grades, later grades starting from zero output. Judges say how many grades are
enough (``model_selection``).
"""

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from ...model import MultiGrade
from ...networks import Layer
from ...training import Fit, fingerprint, warmup_cosine
from ..graded.fitting import images, most_paper_grades, or_minimiser, paper_structure, plan_of, train
from ..graded.model_selection import EXTRA_NOISE, Judge, SecondLook, Unexplained, estimated_psnr, least, mixed
from ..graded.restoration import pixel_coordinates
from ..graded.target import PixelFeatures, TargetTask
from ..inverse.strengths import Strengths, choose_strengths
from ..inverse.variational import objective
from ..inverse.variational import solve as minimise_over_images
from ..problem import Options, Problem
from ..result import Recipe, Restored, restored

# Steps per grade for 512 x 512 pixels, more in proportion to the image's side. The finer what is left to learn, the
# more noise the draws add to it: pixels per step grow with the grade, and the rate is lower; also where there are more
# steps, as their square root, or weights wander off and a grade dies. One deep network has the means of
# these numbers. Our choice.
STEPS = {"regress": 1700, "restore": 3200}
SIDE = 512
LEAST_STEPS = 500
BATCHES = (1024, 1024, 2048, 4096)
RATES = (0.02, 0.02, 0.014, 0.014)
BIAS_STD = 0.2


def solve(problem: Problem, options: Options) -> Restored:
    """Denoising is judged by a second look at the noise, a blur that is diagonal by what is left unexplained."""
    if problem.task == "denoise" and problem.is_noisy:
        return _denoise(problem, options)
    # In float64 the prior's threshold is compared in double precision: the bits of the image depend on it.
    strengths = choose_strengths(problem.observed, problem.operator, np.float64(problem.noise)).unless_given(options)
    target = minimise_over_images(problem.observed, problem.operator, *strengths, shape=problem.shape)
    is_judged = problem.is_noisy and problem.operator.eigenvalues(problem.size) is not None
    judge = Unexplained(problem.observed, problem.operator, problem.noise) if is_judged else None
    fit, stages = by_pixels(structure_of(problem, options), target, options, judge)
    if judge is not None:
        fit, stages = least(fit, stages, judge)
    return _finished(problem, fit, stages, strengths, target)


def _denoise(problem: Problem, options: Options) -> Restored:
    """The grades learn from an observation that is a little noisier, so that the given one can judge them."""
    extra = np.random.default_rng(options.seed + 2**32).standard_normal(problem.observed.shape).astype(np.float32)
    noisier = problem.observed + np.float32(EXTRA_NOISE * problem.noise_sigma / 255) * extra
    sigma = problem.noise_sigma * np.hypot(1, EXTRA_NOISE)
    strengths = choose_strengths(noisier, problem.operator, sigma / 255).unless_given(options)
    target = minimise_over_images(noisier, problem.operator, *strengths, shape=problem.shape)
    judge = SecondLook(problem.observed, extra, problem.noise)
    fit, stages = mixed(*by_pixels(structure_of(problem, options), target, options, judge), judge)
    errors, doubts = ([f(stage) for stage in stages] for f in (judge, judge.doubt))
    judged = {
        "estimated_psnr": tuple(estimated_psnr(*each) for each in zip(errors, doubts, strict=True)),
        "is_worse_than_input": errors[-1] - 2 * doubts[-1] > problem.noise**2,
    }
    return _finished(problem, fit, stages, strengths, target, judged)


def _finished(problem, fit: Fit, stages, strengths: Strengths, target: np.ndarray, judged: dict | None = None):
    """``judged`` is what the judge says of the grades, and not of the minimiser where that takes their place."""
    fit, stages, found = or_minimiser(problem, fit, stages, strengths)
    fit = dataclasses.replace(fit, model=at_unit_coordinates(fit.model))
    return restored(
        problem, fit, stages, "networks", noise_sigma=problem.noise_sigma,
        noise_was_estimated=problem.noise_was_estimated, weight=strengths.weight, beta=strengths.beta,
        least_objective=objective(np.float32(target), problem.observed, problem.operator, *strengths), **found,
        **({} if found.get("is_minimiser") else judged or {}),
    )  # fmt: skip


def structure_of(problem: Problem, options: Options):
    """MGDL-3 or SGDL-3; for regression MGDL-2 or SGDL-2."""
    number = 2 if problem.task == "regress" else 3
    return paper_structure(f"{options.method.upper()}-{number}", options, problem.shape[0], bias_std=BIAS_STD)


def by_pixels(
    structure, target: np.ndarray, options: Options, judge: Judge | None = None, rows=None, held_out=()
) -> tuple[Fit, list]:
    """Random pixels of a target image (channels, h, w), all of them or those at ``rows``, on coordinates in [-1, 1).

    The last grade is the first that the judge finds no better than the one before, or good enough.
    """
    channels, height, width = target.shape
    steps = STEPS["restore" if rows is None else "regress"] * max(height, width) / SIDE
    steps = options.steps or max(round(steps), LEAST_STEPS)
    batches, schedules = _schedules(len(structure), steps, height * width if rows is None else len(rows), options)
    task = TargetTask(
        PixelFeatures(jnp.asarray(2 * pixel_coordinates(height, width) - 1)), jnp.zeros((height * width, channels)),
        jnp.asarray(target.reshape(channels, -1).T, jnp.float32), batches,
        *(None if pixels is None or not len(pixels) else jnp.asarray(pixels) for pixels in (rows, held_out)),
    )  # fmt: skip
    identity = {"data": fingerprint(target, rows, np.asarray(held_out)), "batch_sizes": task.batch_sizes}
    plan = plan_of(options, steps, "muon", schedules, record_every=max(steps // 30, 1), keep="best")

    def picture(image) -> np.ndarray:
        return np.asarray(image).T.reshape(target.shape)

    def enough(tasks: Sequence[TargetTask]) -> bool:
        if judge is None:
            return False
        errors = [judge(picture(task.image)) for task in tasks[-2:]]
        return errors[-1] <= judge.enough or (len(errors) > 1 and errors[1] >= errors[0])

    fit = train(structure, task, plan, identity, options, enough=enough)
    return fit, [picture(image) for image in images(fit.model, task)]


def _schedules(num_grades: int, steps: int, num_pixels: int, options: Options) -> tuple[tuple[int, ...], tuple]:
    """Pixels per step, and learning rates over the steps, of each grade."""
    plan = list(zip(BATCHES, RATES, strict=True))
    if options.method == "sgdl":
        plan = [np.mean(plan, axis=0)]
    batches, rates = zip(*(plan[min(i, len(plan) - 1)] for i in range(num_grades)), strict=True)
    slower = min(1, (STEPS["restore"] / steps) ** 0.5)
    schedules = tuple(warmup_cosine(options.learning_rate or slower * rate, steps) for rate in rates)
    return tuple(min(int(batch), num_pixels) for batch in batches), schedules


def at_unit_coordinates(model: MultiGrade) -> MultiGrade:
    """The model of 2 x - 1 as a model of x: (2 x - 1) W + b = x (2 W) + (b - 1 W) in the first layer of all."""
    if not model.grades:
        return model
    first, *others = model.grades
    (weight, bias), *deeper = first.params
    params = (Layer(2 * weight, bias - jnp.sum(weight, axis=0)), *deeper)
    return MultiGrade((dataclasses.replace(first, params=params), *others))


RECIPE = Recipe(solve, most_paper_grades)
