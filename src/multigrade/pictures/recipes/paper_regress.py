"""Image regression as in the paper (Table 1): Adam on every second pixel, until the validation loss stands still."""

import dataclasses

import numpy as np

from ... import draws
from ...model import staged_values
from ...training import Plateau, fit_grades
from ..graded.fitting import most_paper_grades, paper_structure, plan_of
from ..graded.restoration import pixel_coordinates
from ..problem import Options, Problem
from ..result import Recipe, Restored
from . import published
from .networks_regress import known_pixels, regressed


def solve(problem: Problem, options: Options) -> Restored:
    """The image as a function of its coordinates, by the structure MGDL-2 or SGDL-2."""
    channels = problem.observed
    structure = paper_structure(f"{options.method.upper()}-2", options, len(channels))
    structure = draws.from_stax(structure, seed=options.seed)
    rows = known_pixels(problem)
    held_out = np.arange(channels[0].size).reshape(problem.size)[1::2, 1::2].ravel()
    inputs, values = pixel_coordinates(*problem.size), channels.reshape(len(channels), -1).T
    steps, rate, record_every = published.REGRESSION
    plan = plan_of(
        options, options.steps or steps, "adam", options.learning_rate or rate, record_every=record_every,
        stopping=Plateau(published.STOPPING_WINDOW, published.REGRESSION_TOLERANCE),
    )  # fmt: skip
    fit = fit_grades(
        structure, inputs[rows], values[rows], plan,
        validation=(inputs[held_out], values[held_out]) if len(held_out) else None, checkpoint=options.checkpoint,
    )  # fmt: skip
    fit = dataclasses.replace(fit, model=draws.undrawn(fit.model))
    stages = [stage.T.reshape(channels.shape) for stage in staged_values(fit.model, inputs)]
    return regressed(problem, fit, stages, "paper")


RECIPE = Recipe(solve, most_paper_grades)
