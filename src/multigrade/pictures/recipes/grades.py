"""What the recipes share: the paper's structures as the options change them, training, the minimiser."""

import dataclasses
import time
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ... import structures
from ...model import MultiGrade
from ...networks import Network
from ...training import Checkpointing, Fit, Outcome, Plan, train_grades
from ..inverse.strengths import Strengths
from ..inverse.variational import objective, solve
from ..problem import Options, Problem, Restored, restored
from ..progress import OutOfTime


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


@runtime_checkable
class Preparing(Protocol):
    """An observer that shows what is not training."""

    def prepare(self, share: float) -> None: ...


@dataclasses.dataclass(frozen=True)
class Stopwatch:
    """When a recipe began, when its time is up (both by ``time.monotonic``), and who shows how far it is."""

    started: float
    until: float | None
    shown: tuple[Preparing, ...]

    @classmethod
    def started_for(cls, options: Options) -> "Stopwatch":
        """Begins, and shows that it has."""
        now = time.monotonic()
        until = None if options.time_limit is None else now + options.time_limit
        watch = cls(now, until, tuple(each for each in options.observers if isinstance(each, Preparing)))
        watch.show(0.0)
        return watch

    def show(self, share: float) -> None:
        """The share of the work that is done, to all observers that can show it."""
        for observer in self.shown:
            observer.prepare(share)

    def progress(self, share: float) -> None:
        """The same, or ``OutOfTime``."""
        if self.is_over:
            raise OutOfTime
        self.show(share)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def is_over(self) -> bool:
        return self.until is not None and time.monotonic() > self.until


def refused_training(size: tuple[int, int], options: Options) -> str | None:
    """Why recipes that train nothing refuse the options; None if they ask for no training."""
    if options.asks_for_grades:
        return "recipe best trains no grades for this task: leave grades, layers, width, steps and learning rate out"
    if options.has_strengths:
        return "lambda and beta must not be given for recipe best, which has its own"
    return None


def facts_of(problem: Problem, recipe: str) -> dict[str, Any]:
    """What every result names."""
    return {
        "recipe": recipe,
        "noise_sigma": problem.noise_sigma,
        "noise_was_estimated": problem.noise_was_estimated,
    }


def untrained(problem: Problem, images: dict[str, np.ndarray], watch: Stopwatch) -> Restored:
    """The result of a recipe without training: images (channels, h, w) by name, the last the best."""
    facts = facts_of(problem, "best") | {"stages": list(images)}
    if problem.noise_was_estimated and problem.noise_sigma == 0:
        facts |= {"noise_was_estimated": False, "noise_is_assumed": True}
    if watch.is_over:
        facts["is_cut_short"] = True
    return restored(problem, Fit(), list(images.values()), {**facts, "seconds": watch.seconds})


def chosen(options: Options, strengths: Strengths) -> Strengths:
    """lambda and beta: the caller's, else the recipe's."""
    weight = strengths.weight if options.weight is None else options.weight
    return Strengths(weight, strengths.beta if options.beta is None else options.beta)


def objective_of(problem: Problem, image: np.ndarray, strengths: Strengths) -> float:
    return objective(np.float32(image), problem.observed, problem.operator, *strengths)


def minimiser_of(problem: Problem, strengths: Strengths) -> np.ndarray:
    """The minimiser of the objective over all images."""
    return solve(problem.observed, problem.operator, *strengths, shape=problem.shape)


def or_minimiser(problem: Problem, fit: Fit, stages, strengths: Strengths) -> tuple[Fit, list, dict[str, Any]]:
    """The grades, or the minimiser over all images where they were cut off or lost too early: where, by the objective,
    they have not come half way to it from the observation. And the objective of the result."""
    reached = objective_of(problem, stages[-1], strengths)
    if fit.outcome not in (Outcome.TIME_LIMIT, Outcome.DIVERGED):
        return fit, list(stages), {"objective": reached}
    minimiser, plain = minimiser_of(problem, strengths), problem.operator.plain(problem.observed, problem.shape)
    least, most = (objective_of(problem, image, strengths) for image in (minimiser, plain))
    if reached <= (least + most) / 2:
        return fit, list(stages), {"objective": reached}
    return dataclasses.replace(fit, model=MultiGrade()), [minimiser], {"objective": least, "is_minimiser": True}
