"""Multi-grade training: which parameters are free, what is frozen, what is left over.

    features x_1 = x, residual e_1 = y
    for l = 1, ..., L:  Theta_l minimises 1/(2N) sum ||e_l - epsilon_l N_l(Theta; x_l)||^2
                        e_{l+1} = e_l - epsilon_l N_l(Theta_l; x_l),   x_{l+1} = H(Theta_l; x_l)

Features and residuals are computed once per grade and kept. SGDL is the case of one grade.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..files import check_place
from ..model import Grade, MultiGrade
from ..networks import AnyNetwork, Layer
from ..structures import Structure
from .checkpoint import Checkpoint, describe
from .loop import Run, minimise
from .optimisers import check_rate
from .record import Outcome, RunRecord


@dataclasses.dataclass(frozen=True)
class Fit:
    """A model and the record of each of its grades; ``outcome`` is how the last of them ended.

    ``is_cut_short``: the time limit left no time for a further grade.
    """

    model: MultiGrade
    records: tuple[RunRecord, ...]
    is_cut_short: bool = False

    @property
    def outcome(self) -> Outcome:
        return self.records[-1].outcome if self.records else Outcome.FINISHED  # there was nothing to do


class Task(Protocol):
    """What grades are fitted to: least squares in ``regression``, restoration in ``multigrade.restore``."""

    def problem(self, network: AnyNetwork, index: int) -> "GradeProblem": ...
    def after(self, grade: Grade, auxiliary) -> "Task": ...


class GradeProblem(NamedTuple):
    """What ``minimise`` needs for one grade, and the scale epsilon_l of its output.

    ``loss_unit`` turns recorded losses into the units of the whole problem. ``validation_objective`` is what judges
    the validation data, if it is not the objective. ``sampler``, if there is one, draws what a step sees. ``start`` and
    ``finish`` are applied to the initial and to the trained parameters.
    """

    objective: Any
    data: Any
    scale: Array
    loss_unit: Array | float = 1.0
    auxiliary: Any = None
    validation: Any = None
    validation_objective: Any = None
    metrics: Mapping[str, Callable] | None = None
    sampler: Any = None
    start: Callable = lambda params: params
    finish: Callable = lambda params: params


def standardised(features: Array, *others: Array, num_rows: int | None = None) -> tuple[list[Array], Callable]:
    """Features with mean 0 and deviation 1, ``others`` treated alike, and the ``finish`` that undoes it in a network.

    Only the first ``num_rows`` count, if given.
    """
    mean, deviation = moments(features[:num_rows])
    return [(x - mean) / deviation for x in (features, *others)], absorb_moments(mean, deviation)


def moments(features: Array) -> tuple[Array, Array]:
    """Mean and deviation of each feature; 1 for the deviation of one that does not vary."""
    deviation = jnp.std(features, axis=0)
    return jnp.mean(features, axis=0), jnp.where(deviation > 1e-6, deviation, 1)


def absorb_moments(mean: Array, deviation: Array) -> Callable:
    """``finish`` of a grade that saw z = (x - m) / s: z W + b = x (W / s) + (b - (m / s) W), on x a plain network."""

    def absorb(params):
        weight, bias = params[0]
        return (Layer(weight / deviation[:, None], bias - (mean / deviation) @ weight), *params[1:])

    return absorb


def zero_output(params):
    """``start`` of a grade that adds nothing at first: its output layer, the last one of a plain network, is 0."""
    if not all(isinstance(layer, Layer) for layer in params):
        raise ValueError("a grade that starts from zero output must be a plain Network; got parameters of another kind")
    return (*params[:-1], jax.tree.map(jnp.zeros_like, params[-1]))


def train_grades(
    structure: Structure,
    task: Task,
    *,
    num_steps: int | Sequence[int],
    seed: int = 0,
    seed_per_grade: bool = True,
    time_limit: float | None = None,
    model: MultiGrade = MultiGrade(),  # noqa: B008
    records: Sequence[RunRecord] = (),
    checkpoint: Checkpoint | None = None,
    learning_rate=None,
    enough: Callable[[Sequence[Task]], bool] = lambda tasks: False,
    while_better: bool = False,
    **options,
) -> Fit:
    """Fit the grades of ``structure`` to ``task`` in turn; ``options`` go to ``minimise``.

    ``learning_rate`` is one for all grades, or a tuple of one for each. ``enough`` is asked after every grade, given
    what the first, the first two, ... grades leave over: True makes this one the last. With ``while_better`` the first
    grade whose lowest validation loss is not below that of the grade before is left out, with its record, and none
    follows.

    ``task`` must be what ``model`` leaves over. Without ``seed_per_grade`` all grades draw the same numbers, as in the
    paper's image runs. A grade that diverges or meets the time limit is the last one. One that the time limit cuts off
    while its loss is above what the grades before it left over is left out, with its record. The checkpoint has what
    was cut off, and a further call continues it.
    """
    started = time.perf_counter()
    steps = checked_plan(structure, num_steps, learning_rate, model, time_limit)
    records, running, auxiliary = tuple(records), None, ()
    tasks = []
    if checkpoint is not None and (saved := checkpoint.load(structure)):
        for grade in saved.model.grades[len(model.grades) :]:
            task = task.after(grade, saved.auxiliary)
            tasks.append(task)
        model, records, auxiliary, running = saved
    is_cut_off = is_cut_short = False
    for index in range(len(model.grades), len(structure)):
        if is_cut_off or (records and records[-1].outcome is Outcome.DIVERGED):
            break
        if (tasks and enough(tasks)) or (while_better and _is_no_better(records)):
            break
        time_left = None if time_limit is None else time_limit - (time.perf_counter() - started)
        if model.grades and time_left is not None and time_left <= 0:
            is_cut_short = True
            break
        network = structure[index]
        key = jax.random.key(seed)
        init_key, batch_key = jax.random.split(jax.random.fold_in(key, index if seed_per_grade else 0))
        problem = task.problem(network, index)
        sampler = {} if problem.sampler is None else {"sampler": problem.sampler}
        run = minimise(
            problem.objective,
            problem.start(network.init(init_key)),
            problem.data,
            auxiliary=problem.auxiliary,
            validation=problem.validation,
            validation_objective=problem.validation_objective,
            metrics=problem.metrics,
            num_steps=steps[index],
            time_limit=time_left and max(time_left, 1e-3),
            resume=running,
            save=checkpoint and partial(checkpoint.save, model, records, auxiliary),
            save_every=checkpoint.every if checkpoint else 0.0,
            learning_rate=learning_rate[index] if isinstance(learning_rate, tuple) else learning_rate,
            key=batch_key,
            grade=index,
            loss_unit=problem.loss_unit,
            **sampler,
            **options,
        )
        is_cut_off = run.record.outcome is Outcome.TIME_LIMIT
        if is_cut_off and model.grades and _is_worse_than_nothing(problem, run):
            is_cut_short = True
            break
        grade = Grade(network, problem.finish(run.params), problem.scale)
        model, records = model.add(grade), (*records, run.record)
        auxiliary, running = run.auxiliary, None
        task = task.after(grade, auxiliary)
        tasks.append(task)
        if checkpoint is not None and not is_cut_off:
            checkpoint.save(model, records, auxiliary, None)
    if while_better and _is_no_better(records):
        model, records = MultiGrade(model.grades[:-1]), records[:-1]
    return Fit(model, records, is_cut_short)


def _is_no_better(records: Sequence[RunRecord]) -> bool:
    """Whether the last grade's lowest validation loss is not below that of the one before. One that diverged stays, to
    tell of it.
    """
    if len(records) < 2 or records[-1].outcome is Outcome.DIVERGED:
        return False
    before, last = (record.validation_loss for record in records[-2:])
    return before is not None and last is not None and not np.min(last) < np.min(before)


def _is_worse_than_nothing(problem: GradeProblem, run: Run) -> bool:
    """Whether the loss is above that of parameters 0, whose output is 0."""
    nothing = jax.tree.map(jnp.zeros_like, run.params)
    loss, left_over = (problem.objective(p, run.auxiliary, problem.data)[0] for p in (run.params, nothing))
    return bool(loss > left_over)


def checked_plan(structure, num_steps, learning_rate, model: MultiGrade, time_limit) -> tuple[int, ...]:
    """The number of steps of each grade; ValueError if these arguments do not make a plan."""
    if not isinstance(structure, Sequence) or not all(isinstance(network, AnyNetwork) for network in structure):
        raise ValueError(f"structure must be a sequence of networks; got {structure!r}")
    if not structure:
        raise ValueError("structure must have at least one grade; got none")
    outputs = [network.widths[-1] for network in structure]
    if len(set(outputs)) > 1:
        raise ValueError(f"the grades of structure must have equally many outputs; got {outputs}")
    for number, (before, network) in enumerate(pairwise(structure), 2):
        inputs, features = network.widths[0], getattr(before, "num_features", network.widths[0])
        if inputs != features:
            raise ValueError(f"grade {number} must read the {features} features of the one before; got {inputs} inputs")
    steps = (num_steps,) * len(structure) if np.ndim(num_steps) == 0 else tuple(num_steps)
    if len(steps) != len(structure) or not all(isinstance(count, Integral) for count in steps):
        raise ValueError(f"num_steps must be one integer or one per grade ({len(structure)}); got {num_steps!r}")
    if min(steps) < 1:
        raise ValueError(f"num_steps must be at least 1; got {num_steps!r}")
    if isinstance(learning_rate, list):
        raise ValueError(f"learning_rate must be a tuple where it is one per grade; got the list {learning_rate!r}")
    rates = learning_rate if isinstance(learning_rate, tuple) else (learning_rate,) * len(structure)
    if len(rates) != len(structure):
        raise ValueError(f"learning_rate must be one or one per grade ({len(structure)}); got {len(rates)}")
    for rate in rates:
        check_rate(rate)
    if tuple(grade.network for grade in model.grades) != tuple(structure[: len(model.grades)]):
        widths = [grade.network.widths for grade in model.grades]
        raise ValueError(f"the grades of model must be the first grades of structure; got grades of widths {widths}")
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"time_limit must be a positive number of seconds; got {time_limit!r}")
    return tuple(int(count) for count in steps)


# ---- least squares ---------------------------------------------------------------------------------------------


def make_checkpoint(path, every: float, structure, steps, observers, settings: Mapping) -> Checkpoint | None:
    """A checkpoint at ``path`` that belongs to these settings; None without a path."""
    if path is None:
        return None
    check_place(Path(path))
    recording = [(o.name, o.every, o) for o in observers if o.every is not None]  # a progress bar changes nothing
    plan = {
        "structure": structure,
        "num_steps": steps,
        "observers": recording,
        "precision": str(jnp.result_type(float)),
    }
    return Checkpoint(Path(path), {name: describe(value) for name, value in {**plan, **settings}.items()}, every)
