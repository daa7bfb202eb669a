"""How the paper's structures are trained on a picture, and what takes the place of grades that came to nothing."""

import dataclasses
from typing import Any

import numpy as np

from ... import structures
from ...model import MultiGrade
from ...networks import Network
from ...training import Checkpointing, Fit, Outcome, Plan, train_grades
from ..inverse.strengths import Strengths
from ..inverse.variational import objective, solve
from ..problem import Options, Problem


def paper_structure(name: str, options: Options, outputs: int, **init) -> tuple[Network, ...]:
    """The paper's structure of this name, such as "MGDL-3", unless the options say otherwise."""
    grades = structures.PAPER[name]
    width, layers = grades[0].widths[1], len(grades[0].widths) - 2
    hidden = [(options.width or width,) * (options.layers or layers)] * options.num_grades(len(grades))
    return structures.graded(2, hidden, outputs, **init)


def most_paper_grades(options: Options) -> int:
    """Of MGDL-2 and MGDL-3, which have equally many, unless the options say otherwise."""
    return options.num_grades(len(structures.MGDL_3))


def plan_of(options: Options, steps: int, optimiser: str, learning_rate, **more) -> Plan:
    """A plan with the options' seed, time limit and observers."""
    common = {"seed": options.seed, "time_limit": options.time_limit, "observers": options.observers}
    return Plan(steps, optimiser, learning_rate, **{**common, **more})


def train(structure, task, plan: Plan, identity: dict[str, Any], options: Options, **more) -> Fit:
    """``train_grades`` with a checkpoint that belongs to the plan and to ``identity``."""
    checkpoint = None if options.checkpoint is None else Checkpointing(options.checkpoint, identity=identity)
    return train_grades(structure, task, plan, checkpoint=checkpoint, **more)


def images(model: MultiGrade, task) -> list[np.ndarray]:
    """The image after each grade."""
    stages = []
    for grade in model.grades:
        task = task.after(grade, ())
        stages.append(np.asarray(task.image))
    return stages


def or_minimiser(problem: Problem, fit: Fit, stages, strengths: Strengths) -> tuple[Fit, list, dict[str, Any]]:
    """The grades, or the minimiser over all images where they were cut off or lost too early: where, by the objective,
    they have not come half way to it from the observation. And the objective of the result."""

    def value(image: np.ndarray) -> float:
        return objective(np.float32(image), problem.observed, problem.operator, *strengths)

    reached = value(stages[-1])
    if fit.outcome not in (Outcome.TIME_LIMIT, Outcome.DIVERGED):
        return fit, list(stages), {"objective": reached}
    minimiser = solve(problem.observed, problem.operator, *strengths, shape=problem.shape)
    plain = problem.operator.plain(problem.observed, problem.shape)
    least, most = value(minimiser), value(plain)
    if reached <= (least + most) / 2:
        return fit, list(stages), {"objective": reached}
    return dataclasses.replace(fit, model=MultiGrade()), [minimiser], {"objective": least, "is_minimiser": True}
