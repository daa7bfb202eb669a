"""Multi-grade training: which parameters are free, what is frozen, what is left over.

    features x_1 = x, residual e_1 = y
    for l = 1, ..., L:  Theta_l minimises 1/(2N) sum ||e_l - epsilon_l N_l(Theta; x_l)||^2
                        e_{l+1} = e_l - epsilon_l N_l(Theta_l; x_l),   x_{l+1} = H(Theta_l; x_l)

Features and residuals are computed once per grade and kept. SGDL is the case of one grade.
"""

import dataclasses
import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..files import alone_with
from ..model import Grade, MultiGrade, grades_to_arrays
from ..networks import AnyNetwork, Layer, Structure, Variables
from ..programs import refuse_fork
from .checkpoint import Checkpoint, Checkpointing, as_checkpointing, fingerprint
from .driver import Growth, Trial, grow
from .loop import Run, Saving, minimise
from .objectives import LossInTraining
from .plan import Plan
from .problem import GradeProblem, Task
from .record import Outcome, RunRecord

NUM_COPIES = 6  # of the weights at least, while they are trained: now, safe and best, the optimiser's, the gradient


@dataclasses.dataclass(frozen=True)
class Fit:
    """A model and the record of each of its grades.

    Parameters
    ----------
    model : the sum of the grades
    records : one for each grade
    is_cut_short : whether the time limit left no time for a further grade
    """

    model: MultiGrade = MultiGrade()  # noqa: RUF009
    records: tuple[RunRecord, ...] = ()
    is_cut_short: bool = False

    @property
    def outcome(self) -> Outcome:
        """How the last grade ended."""
        return self.records[-1].outcome if self.records else Outcome.FINISHED  # there was nothing to do


def standardised(features: Array, *others: Array, weights: Array | None = None) -> tuple[list[Array], Callable]:
    """Features with mean 0 and deviation 1, by weight, ``others`` treated alike, and the ``finish`` that undoes it in a
    network.
    """
    mean, deviation = moments(features, weights)
    return [(x - mean) / deviation for x in (features, *others)], absorb_moments(mean, deviation)


def moments(features: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """(Weighted) mean and deviation of each feature; 1 for the deviation of one that does not vary."""
    if weights is None:
        mean, deviation = jnp.mean(features, axis=0), jnp.std(features, axis=0)
    else:
        mean = jnp.average(features, axis=0, weights=weights)
        deviation = jnp.sqrt(jnp.average((features - mean) ** 2, axis=0, weights=weights))
    return mean, jnp.where(deviation > 1e-6, deviation, 1)


def absorb_moments(mean: Array, deviation: Array) -> Callable:
    """``finish`` of a grade that saw z = (x - m) / s: z W + b = x (W / s) + (b - (m / s) W), on x a plain network."""

    def absorb(params):
        weight, bias = params[0]
        return (Layer(weight / deviation[:, None], bias - (mean / deviation) @ weight), *params[1:]), ""

    return absorb


def zero_output(params):
    """``start`` of a grade that adds nothing at first: its output layer, the last one of a plain network, is 0."""
    if not all(isinstance(layer, Layer) for layer in params):
        raise ValueError("a grade that starts from zero output must be a plain Network; got parameters of another kind")
    return (*params[:-1], jax.tree.map(jnp.zeros_like, params[-1]))


def train_grades(
    structure: Structure,
    task: Task,
    plan: Plan,
    *,
    start: Fit = Fit(),
    checkpoint: str | os.PathLike | Checkpointing | None = None,
    enough: Callable[[Sequence[Task]], bool] | None = None,
) -> Fit:
    """Fit the grades of ``structure`` to ``task`` in turn.

    Parameters
    ----------
    structure : the networks of the grades
    task : what they are fitted to; after ``start``, what ``start.model`` leaves over
    plan : how to descend, for all grades or with one value per grade
    start : a fit whose grades are kept as they are; they must be the first ones of ``structure``
    checkpoint : a file to resume from and to write to; a ``Checkpointing`` says what data the fit belongs to
    enough : asked after every grade, given what the first, the first two, ... grades leave over; True makes this grade
        the last

    Returns
    -------
    Fit
        A grade that diverges or meets the time limit is the last one. A grade that the time limit cuts off while its
        loss is above what the grades before it left over is left out, with its record; the checkpoint has what was cut
        off, and a further call continues it. With ``plan.while_better`` the first grade whose lowest validation loss
        is not below that of the grade before is left out, with its record, and none follows.
    """
    refuse_fork()
    check_structure(structure, start.model)
    plan.check_grades(len(structure))
    file = _checkpoint_file(checkpoint, structure, plan, start)
    with alone_with(None if file is None or jax.process_index() else file.path):
        room = _Descent(structure, plan, start, enough, file)
        if plan.while_better:
            room.left_over = _given_leave_over(structure, task, start.model)
        before = Growth(_Grown(start.model, task), tuple(start.records))
        growth = grow(room, before, time_limit=plan.time_limit, observers=plan.observers)
    is_cut_short = growth.end is Outcome.TIME_LIMIT and not (room.is_cut_off(growth) and growth.tried[-1].is_kept)
    return Fit(growth.state.model, growth.records, is_cut_short)


class _Grown(NamedTuple):
    """What is carried from grade to grade."""

    model: MultiGrade
    task: Task
    auxiliary: Any = ()
    tasks: tuple[Task, ...] = ()  # what the first, the first two, ... new grades leave over, where somebody asks


class _Descent:
    """The room of grades that descend: one for each network of a structure. A checkpoint has those that were fitted."""

    def __init__(self, structure: Structure, plan: Plan, start: Fit, enough, file: Checkpoint | None):
        self.structure, self.plan, self.start, self.enough, self.file = structure, plan, start, enough, file
        self.saved = file.load(structure) if file else None
        self.left_over: float | None = None

    def is_cut_off(self, growth: Growth[_Grown]) -> bool:
        """Whether the clock has cut off the last grade, of this fit."""
        return len(growth.tried) > len(self.start.records) and growth.tried[-1].outcome is Outcome.TIME_LIMIT

    def propose(self, growth: Growth[_Grown]) -> int | Outcome:
        """The next network of the structure."""
        if self.is_cut_off(growth):
            return Outcome.TIME_LIMIT
        if growth.tried and not growth.tried[-1].is_kept:
            return Outcome.NO_BETTER
        index, tasks = len(growth.state.model.grades), growth.state.tasks
        if index == len(self.structure):
            return Outcome.FINISHED
        if growth.tried and growth.tried[-1].outcome is Outcome.DIVERGED:
            return Outcome.DIVERGED
        return Outcome.REACHED if tasks and self.enough and self.enough(tasks) else index

    def fit(self, growth: Growth[_Grown], proposal: int, time_left: float | None) -> Trial[_Grown]:
        """The next grade, from the checkpoint or by descent; left out if it does not help."""
        model, task, auxiliary, tasks = growth.state
        if self.saved and proposal < len(self.saved.model.grades):
            grade, record, auxiliary = (
                self.saved.model.grades[proposal],
                self.saved.records[proposal],
                self.saved.auxiliary,
            )
        else:
            network, file, running = self.structure[proposal], self.file, self.saved and self.saved.running
            problem = task.problem(network, proposal)
            save = file and Saving(partial(file.save, model, growth.records, auxiliary), file.every, running)
            run = _train_grade(network, problem, self.plan, proposal, time_left, save)
            self.saved, record, auxiliary = None, run.record, run.auxiliary
            is_cut_off = record.outcome is Outcome.TIME_LIMIT
            if is_cut_off and model.grades:  # worse than parameters 0, whose output is 0?
                data = problem.data if problem.recorded is None else problem.recorded
                params = run.params.trained if isinstance(run.params, Variables) else run.params
                nothing = jax.tree.map(jnp.zeros_like, params)
                loss, left_over = (problem.objective(p, auxiliary, data)[0] for p in (params, nothing))
                if loss > left_over:
                    return Trial(growth.state, dataclasses.replace(record, is_kept=False))
            params, remark = problem.finish(run.params)
            if remark:
                record = dataclasses.replace(record, sentence=f"{record.sentence}; {remark}")
            grade = Grade(network, params, jnp.asarray(problem.scale))
            if file is not None and not is_cut_off:
                file.save(model.add(grade), (*growth.records, record), auxiliary, None)
        if self.plan.while_better and self._is_no_better((*growth.records, record)):
            return Trial(growth.state, dataclasses.replace(record, is_kept=False))
        task = task.after(grade, auxiliary)
        return Trial(_Grown(model.add(grade), task, auxiliary, (*tasks, task) if self.enough else ()), record)

    def _is_no_better(self, records: Sequence[RunRecord]) -> bool:
        """Whether the last grade's lowest validation loss is not below that of the one before; for the first grade of
        this fit, below what the given ones leave over: they may have been fitted to other rows. One that diverged
        stays, to tell of it.
        """
        first = len(self.start.model.grades)
        if len(records) < 2 or len(records) <= first or records[-1].outcome is Outcome.DIVERGED:
            return False
        before, last = (record.validation_loss for record in records[-2:])
        lowest = self.left_over if len(records) == first + 1 else None if before is None else np.min(before)
        return lowest is not None and last is not None and not np.min(last) < lowest


def _train_grade(network: AnyNetwork, problem: GradeProblem, plan: Plan, index: int, time_left, saving) -> Run:
    """One grade from its random start; ``time_left`` seconds of the whole fit."""
    time_limit = time_left and max(time_left, 1e-3)
    init_key, batch_key = jax.random.split(
        jax.random.fold_in(jax.random.key(plan.seed), index if plan.seed_per_grade else 0)
    )
    own = dataclasses.replace(plan.of_grade(index), time_limit=time_limit)
    start = problem.start(network.init(init_key))
    if not isinstance(problem.objective, LossInTraining):
        return minimise(problem, start, own, key=batch_key, grade=index, saving=saving)
    params, state = start if isinstance(start, Variables) else (start, ())
    auxiliary = state, jax.random.key_data(jax.random.fold_in(init_key, 1))
    run = minimise(problem._replace(auxiliary=auxiliary), params, own, key=batch_key, grade=index, saving=saving)
    return dataclasses.replace(run, params=problem.objective.variables(run.params, run.auxiliary))


def _checkpoint_file(checkpoint, structure: Structure, plan: Plan, start: Fit) -> Checkpoint | None:
    """The checkpoint's file, which belongs to the structure, the plan, the start, and what the caller names."""
    checkpointing = as_checkpointing(checkpoint)
    if checkpointing is None:
        return None
    grades = [len(start.model.grades), fingerprint(*grades_to_arrays(start.model.grades).values())]
    return Checkpoint.of(
        checkpointing, {"structure": structure, "start": grades, **plan.identity(num_grades=len(structure))}
    )


def _given_leave_over(structure: Structure, task: Task, model: MultiGrade) -> float | None:
    """The validation loss that the grades of a given model leave over; None where there is none."""
    if not model.grades or len(model.grades) == len(structure):
        return None
    network = structure[len(model.grades)]
    problem = task.problem(network, len(model.grades))
    if problem.validation is None:
        return None
    judge = problem.objective if problem.validation_objective is None else problem.validation_objective
    params = network.init(jax.random.key(0))
    trained, state = params if isinstance(params, Variables) else (params, ())
    nothing = jax.tree.map(jnp.zeros_like, trained)
    is_in_training = isinstance(judge, LossInTraining)
    auxiliary = (state, None) if is_in_training else judge.init(nothing, problem.validation)
    return float(judge(nothing, auxiliary, problem.validation)[0] * problem.loss_unit)


def check_memory(structure: Structure) -> None:
    """MemoryError for a grade that cannot be trained here: XLA ends the process where it finds no room."""
    widths = [getattr(network, "widths", ()) for network in structure]
    needed = max(4 * NUM_COPIES * sum(a * b for a, b in pairwise(w)) for w in widths)
    try:
        present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return  # Windows, among others, does not tell
    if needed > present:
        raise MemoryError(
            f"a grade needs {needed / 2**30:.3g} GB to be trained; this machine has {present / 2**30:.3g}"
        )


def check_structure(structure: Structure, start: MultiGrade = MultiGrade()) -> None:  # noqa: B008
    """ValueError unless each network reads the features of the one before and ``start`` has the first ones."""
    if not isinstance(structure, Sequence) or not all(isinstance(network, AnyNetwork) for network in structure):
        raise ValueError(f"structure must be a sequence of networks; got {structure!r}")
    if not structure:
        raise ValueError("structure must have at least one grade; got none")
    widths = [getattr(network, "widths", None) for network in structure]
    outputs = [w[-1] for w in widths if w]
    if len(set(outputs)) > 1:
        raise ValueError(f"the grades of structure must have equally many outputs; got {outputs}")
    check_memory(structure)
    for number, ((before, w), (_, inputs)) in enumerate(pairwise(zip(structure, widths, strict=True)), 2):
        features = getattr(before, "num_features", w[0] if w else None)
        if inputs and features is not None and inputs[0] != features:
            raise ValueError(
                f"grade {number} must read the {features} features of the one before; got {inputs[0]} inputs"
            )
    if tuple(grade.network for grade in start.grades) != tuple(structure[: len(start.grades)]):
        given = [getattr(grade.network, "widths", grade.network) for grade in start.grades]
        raise ValueError(f"the grades of start must be the first grades of structure; got grades of widths {given}")


def check_shapes(structure: Structure, features: Any, outputs: int) -> None:
    """ValueError, by grade and shape, unless every grade reads the features of the one before and gives ``outputs``."""
    for number, network in enumerate(structure, 1):
        shapes = jax.tree.map(lambda leaf: leaf.shape, features)
        try:
            params = jax.eval_shape(network.init, jax.random.key(0))
        except Exception as error:
            raise ValueError(f"the parameters of grade {number} must be arrays: {_first_line(error)}") from None
        trained = params.trained if isinstance(params, Variables) else params
        if odd := [leaf.dtype for leaf in jax.tree.leaves(trained) if not jnp.issubdtype(leaf.dtype, jnp.floating)]:
            raise ValueError(f"the trained parameters of grade {number} must be arrays of real numbers; got {odd[0]}")
        try:
            after = jax.eval_shape(network.hidden, params, features)
            made = jax.eval_shape(network.output, params, after)
        except Exception as error:
            what = "inputs" if number == 1 else f"features of grade {number - 1}"
            raise ValueError(f"grade {number} cannot read {what} of shape {shapes}: {_first_line(error)}") from None
        rows = jax.tree.leaves(features)[0].shape[0]
        if made.shape != (rows, outputs):
            raise ValueError(f"grade {number} must give outputs of shape {(rows, outputs)}; got {made.shape}")
        features = after


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
