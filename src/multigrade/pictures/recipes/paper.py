"""Restoration as in the paper (Appendix C): a proximal step and an Adam step that see every pixel.

Structure, initial weights, optimiser, learning rate, number of steps, lambda and beta are those of
``published``, the same that ``multigrade reproduce`` uses. Hours on a laptop for anything but small pictures.
The paper tuned lambda and beta for every picture by the clean one; what is left to a user are the recorded winners, for
Butterfly.
"""

import dataclasses

import jax.numpy as jnp

from ... import draws
from ...training import fingerprint
from ...training.checkpoint import describe
from ..graded.fitting import images, most_paper_grades, or_minimiser, paper_structure, plan_of, train
from ..graded.restoration import RestorationTask, pixel_coordinates
from ..inverse.strengths import OTHER_LEAST, OTHER_RULE, Strengths
from ..problem import Options, Problem
from ..result import Recipe, Restored, restored
from . import published


def solve(problem: Problem, options: Options) -> Restored:
    """The grades of one deep or four shallow networks on the paper's objective."""
    method = options.method.upper()
    structure = paper_structure(f"{method}-{published.RESTORATION_STRUCTURE}", options, problem.shape[0])
    structure = draws.from_stax(structure, seed=options.seed)
    strengths = recorded_strengths(problem, method).unless_given(options)
    reference = None if problem.reference is None else jnp.asarray(problem.reference)
    task = RestorationTask(
        jnp.asarray(pixel_coordinates(*problem.size)), jnp.asarray(problem.observed),
        jnp.zeros(problem.shape, jnp.float32), problem.operator, strengths.weight, strengths.beta, published.ALPHA,
        reference=reference,
    )  # fmt: skip
    identity = {"data": fingerprint(problem.observed), "operator": describe(problem.operator)}
    identity |= {"strengths": tuple(strengths), "has reference": reference is not None}  # records have its PSNR
    steps, rate, record_every = published.RESTORATION
    plan = plan_of(options, options.steps or steps, "adam", options.learning_rate or rate, record_every=record_every)
    fit = train(structure, task, plan, identity, options)
    fit = dataclasses.replace(fit, model=draws.undrawn(fit.model))
    stages = images(fit.model, task)
    fit, stages, found = or_minimiser(problem, fit, stages, strengths)
    return restored(
        problem, fit, stages, "paper", noise_sigma=problem.noise_sigma, noise_was_estimated=problem.noise_was_estimated,
        weight=strengths.weight, beta=strengths.beta,
        strengths_from=None if options.has_strengths else _source(problem), **found,
    )  # fmt: skip


def recorded_strengths(problem: Problem, method: str) -> Strengths:
    """lambda and beta of the paper's recorded winner, or for a task that the paper does not have of our rule."""
    if (problem.task, method) not in published.STRENGTHS:
        return Strengths(max(OTHER_RULE * problem.noise, OTHER_LEAST), 1.0)
    beta, weight = published.strengths(problem.task, method, problem.noise_sigma)
    return Strengths(weight, beta)


def _source(problem: Problem) -> str:
    """Where lambda and beta come from, for the user's eye."""
    if problem.task == "denoise":
        return "the paper's for Butterfly at noise 10, lambda in proportion to the noise; tuned by the clean picture"
    if problem.task == "deblur":
        return "the paper's for Butterfly at blur 3, noise 3; tuned by the clean picture"
    return "our rule: the paper does not have this task"


RECIPE = Recipe(solve, most_paper_grades)
