"""The recipes of restoration: one file each, with one function ``solve(problem, options) -> Restored``.

best      the best picture for the time, for every task, one file each: the non-local estimate alone or around the
          inverse of the operator (``plug_and_play``), and grades on what surrounds a pixel where they help.
networks  the paper's networks trained our way, for every task (``networks``, ``networks_regress``).
paper     the paper's networks trained as in the paper, for every task (``paper``, ``paper_regress``).

A new recipe is one more file with a ``RECIPE`` and one more row in ``RECIPES``.
"""

from ..problem import RECIPE_NAMES, Options
from ..result import Recipe
from . import (
    best_deblur,
    best_denoise,
    best_inpaint,
    best_invert,
    best_regress,
    best_upsample,
    networks,
    networks_regress,
    paper,
    paper_regress,
)

RECIPES: dict[tuple[str, str], Recipe] = {
    ("regress", "best"): best_regress.RECIPE,
    ("denoise", "best"): best_denoise.RECIPE,
    ("deblur", "best"): best_deblur.RECIPE,
    ("inpaint", "best"): best_inpaint.RECIPE,
    ("upsample", "best"): best_upsample.RECIPE,
    ("invert", "best"): best_invert.RECIPE,
    ("regress", "networks"): networks_regress.RECIPE,
    ("regress", "paper"): paper_regress.RECIPE,
}
for _task in ("denoise", "deblur", "inpaint", "upsample", "invert"):
    RECIPES |= {(_task, "networks"): networks.RECIPE, (_task, "paper"): paper.RECIPE}


def recipe_for(task: str, size: tuple[int, int], options: Options) -> Recipe:
    """The recipe that a picture of this size gets; ValueError for one that does not exist or cannot.

    Without a name, the first of best and networks that can do it.
    """
    if task == "regress" and options.has_strengths:
        raise ValueError("lambda and beta must not be given for regression, which has no total variation")
    if options.recipe is None:
        there = [name for name in ("best", "networks") if (task, name) in RECIPES]
        name = next(name for name in there if RECIPES[task, name].refusal(size, options) is None)
    elif (task, name := options.recipe) not in RECIPES:
        there = " or ".join(name for name in RECIPE_NAMES if (task, name) in RECIPES)
        raise ValueError(f"recipe must be {there} for {task}, which has no recipe {name}")
    elif (reason := RECIPES[task, name].refusal(size, options)) is not None:
        raise ValueError(reason)
    if options.strength != 1 and (task, name) != ("denoise", "best"):
        raise ValueError(f"strength must be 1 but for denoising by recipe best; got {options.strength!r}")
    return RECIPES[task, name]


def most_grades(task: str, size: tuple[int, int], options: Options) -> int:
    """How many grades a task trains at most: what a view of its progress counts to."""
    return recipe_for(task, size, options).most_grades(options)
