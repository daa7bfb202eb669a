"""Image regression by the paper's networks trained our way, and what all recipes for regression share."""

import dataclasses

import numpy as np

from ...training import Fit
from ...training.record import Outcome
from ..graded.fitting import most_paper_grades
from ..graded.model_selection import Missed, least
from ..metrics import psnr
from ..problem import Options, Problem
from ..result import Recipe, Restored, restored
from .networks import at_unit_coordinates, by_pixels, structure_of


def solve(problem: Problem, options: Options) -> Restored:
    """Random known pixels; pixels held out say how many grades to keep."""
    fit, stages = by_known_pixels(problem, options, known_pixels(problem), held_out_pixels(problem))
    fit = dataclasses.replace(fit, model=at_unit_coordinates(fit.model))
    return regressed(problem, fit, stages, "networks")


def by_known_pixels(problem: Problem, options: Options, rows: np.ndarray, held_out: np.ndarray) -> tuple[Fit, list]:
    """The grades, on coordinates in [-1, 1), and the image after each."""
    structure, channels = structure_of(problem, options), problem.observed
    judge = Missed(channels, held_out) if len(held_out) else None
    fit, stages = by_pixels(structure, channels, options, judge, rows, held_out)
    return (fit, stages) if judge is None else least(fit, stages, judge)


def known_pixels(problem: Problem) -> np.ndarray:
    return np.flatnonzero(problem.mask)


def held_out_pixels(problem: Problem) -> np.ndarray:
    """Few pixels, yet of all three kinds: beside, below and between the known ones."""
    height, width = problem.size
    pixels = np.arange(height * width).reshape(height, width)
    return np.concatenate([pixels[top::4, left::4].ravel() for top, left in ((0, 1), (1, 0), (1, 1))])


def regressed(problem: Problem, fit: Fit, stages, recipe: str) -> Restored:
    """The result of a regression, with its PSNR at the known pixels unless it diverged."""
    is_diverged = any(record.outcome is Outcome.DIVERGED for record in fit.records)
    known = None if is_diverged else psnr(stages[-1][:, ::2, ::2], problem.observed[:, ::2, ::2])
    return restored(problem, fit, stages, recipe, train_psnr=known)


RECIPE = Recipe(solve, most_paper_grades)
