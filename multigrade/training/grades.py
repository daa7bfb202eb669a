"""Multi-grade training: which parameters are free, what is frozen, what is left over.

    features x_1 = x, residual e_1 = y
    for l = 1, ..., L:  Theta_l minimises 1/(2N) sum ||e_l - epsilon_l N_l(Theta; x_l)||^2
                        e_{l+1} = e_l - epsilon_l N_l(Theta_l; x_l),   x_{l+1} = H(Theta_l; x_l)

Features and residuals are computed once per grade and kept. SGDL is the case of one grade.
"""

import dataclasses
import os
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
from jax.tree_util import Partial

from ..model import Grade, MultiGrade, apply_grade, grades_to_arrays
from ..networks import AnyNetwork, Layer, Network
from ..objectives import LeastSquares, Rows
from ..sampling import FullBatch, RandomRows
from ..structures import Structure
from .checkpoint import Checkpoint, describe, fingerprint
from .devices import Spread, spread_over
from .loop import Run, minimise
from .observers import Observer
from .optimisers import check_rate
from .record import Outcome, RunRecord
from .stopping import Never


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
    """What grades are fitted to: least squares below, restoration in ``multigrade.imaging``."""

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
    **options,
) -> Fit:
    """Fit the grades of ``structure`` to ``task`` in turn; ``options`` go to ``minimise``.

    ``learning_rate`` is one for all grades, or a tuple of one for each. ``enough`` is asked after every grade, given
    what the first, the first two, ... grades leave over: True makes this one the last.

    ``task`` must be what ``model`` leaves over. Without ``seed_per_grade`` all grades draw the same numbers, as in the
    paper's image runs. A grade that diverges or meets the time limit is the last one. One that the time limit cuts off
    while its loss is above what the grades before it left over is left out, with its record. The checkpoint has what
    was cut off, and a further call continues it.
    """
    started = time.perf_counter()
    steps = _checked_plan(structure, num_steps, learning_rate, model, time_limit)
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
        if tasks and enough(tasks):
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
    return Fit(model, records, is_cut_short)


def _is_worse_than_nothing(problem: GradeProblem, run: Run) -> bool:
    """Whether the loss is above that of parameters 0, whose output is 0."""
    nothing = jax.tree.map(jnp.zeros_like, run.params)
    loss, left_over = (problem.objective(p, run.auxiliary, problem.data)[0] for p in (run.params, nothing))
    return bool(loss > left_over)


def _checked_plan(structure, num_steps, learning_rate, model: MultiGrade, time_limit) -> tuple[int, ...]:
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


class _Left(NamedTuple):
    """What the grades so far leave over on one data set: features, residual, and the sum of their predictions."""

    features: Array
    residual: Array
    prediction: Array
    weights: Array | None

    def after(self, grade: Grade) -> "_Left":
        added, features = apply_grade(grade, self.features)
        return _Left(features, self.residual - added, self.prediction + added, self.weights)


@dataclasses.dataclass(frozen=True)
class _Regression:
    left: _Left
    held_out: _Left | None
    targets: Array
    metrics: Mapping[str, Callable[[Array, Array], Array]]
    decay: float
    residual_scaling: bool
    standardise_features: bool
    spread: Spread | None = None

    def problem(self, network: AnyNetwork, index: int) -> GradeProblem:
        left, held = self.left, self.held_out
        scale = _root_mean_square(left) if self.residual_scaling and index else jnp.float32(1)
        start = finish = GradeProblem._field_defaults["start"]
        if self.standardise_features and index:
            others = (held.features,) if held else ()
            num_rows = self.spread.num_rows if self.spread else None
            (features, *others), finish = standardised(left.features, *others, num_rows=num_rows)
            left, start = left._replace(features=features), zero_output
            held = held and held._replace(features=others[0])
        metrics = {
            name: Partial(_metric, Partial(metric), network, scale, left, self.targets)
            for name, metric in self.metrics.items()
        }
        # Decay is for training; how well a model does is its error alone.
        objective, error = LeastSquares(network, self.decay), LeastSquares(network)
        if self.spread:
            objective, error = self.spread.objective(objective), self.spread.objective(error)
        return GradeProblem(
            objective,
            Rows(left.features, left.residual / scale, left.weights),
            scale,
            scale**2,
            validation=Rows(held.features, held.residual / scale, held.weights) if held else None,
            validation_objective=error,
            metrics=metrics,
            start=start,
            finish=finish,
        )

    def after(self, grade: Grade, auxiliary=()) -> "_Regression":
        held = self.held_out.after(grade) if self.held_out else None
        return dataclasses.replace(self, left=self.left.after(grade), held_out=held)


def fit_grades(
    structure: Structure,
    inputs,
    targets,
    *,
    num_steps: int | Sequence[int],
    optimiser="adam",
    learning_rate=None,
    batch_size: int | None = None,
    sample_weight=None,
    validation: tuple | None = None,
    decay: float = 0.0,
    residual_scaling: bool = False,
    standardise_features: bool = False,
    record_every: int = 100,
    metrics: Mapping[str, Callable[[Array, Array], Array]] | None = None,
    stopping=Never(),  # noqa: B008
    keep: str = "last",
    observers: Sequence[Observer] = (),
    time_limit: float | None = None,
    seed: int = 0,
    seed_per_grade: bool = True,
    model: MultiGrade = MultiGrade(),  # noqa: B008
    records: Sequence[RunRecord] = (),
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: float = 30.0,
    devices: int | Sequence[Any] | None = None,
) -> Fit:
    """Fit the grades of ``structure`` one after the other to targets (N, s) at inputs (N, d), by least squares.

    ``num_steps`` is per grade. ``validation`` is (inputs, targets) or (inputs, targets, weights); its loss is the error
    without ``decay``. With ``residual_scaling``, epsilon_l is the root mean square of the residual and the network
    learns e_l / epsilon_l (losses are recorded in the units of the targets all the same); otherwise epsilon_l = 1. With
    ``standardise_features`` the grades after the first see features of mean 0 and deviation 1 and start from zero
    output; the shift and scale are absorbed into their weights afterwards. ``metrics`` are functions of (prediction of
    all grades so far, targets) on the training data. A given ``model`` (with its ``records``) is continued: its grades
    are kept as they are and must be the first ones of ``structure``. ``checkpoint`` is a file to resume from, if it is
    there, and to write to every ``checkpoint_every`` seconds; it stays when the fit is done. ``devices`` is how many
    devices of JAX to share the rows out over, or which; the result is that of one up to rounding.

    A grade that diverges or meets the time limit is the last one, as ``train_grades`` says.
    """
    steps = _checked_plan(structure, num_steps, learning_rate, model, time_limit)
    if batch_size is not None and not (isinstance(batch_size, Integral) and batch_size >= 1):
        raise ValueError(f"batch_size must be an integer of at least 1, or None for all rows; got {batch_size!r}")
    if standardise_features and not all(isinstance(n, Network) and n.encoding is None for n in structure[1:]):
        raise ValueError(f"standardise_features needs plain networks after the first grade; got {structure[1:]!r}")
    left = _checked_rows("inputs", "targets", structure, inputs, targets, sample_weight)
    names = ("validation inputs", "validation targets")
    held_out = _checked_rows(*names, structure, *(*validation, None)[:3]) if validation else None
    belongs = fingerprint(*left, *(held_out or ()))
    spread = None if devices is None else spread_over(devices, len(left.features))
    if spread is not None:
        weights = jnp.ones(spread.num_rows) if left.weights is None else left.weights
        left = spread.place(left._replace(weights=weights))
    measures = {name: spread.metric(metric) if spread else metric for name, metric in (metrics or {}).items()}
    switches = residual_scaling, standardise_features
    task = _Regression(left, held_out, left.residual, measures, decay, *switches, spread)
    settings = {
        "data": belongs,
        "devices": spread.mesh.size if spread else None,
        "batch_size": batch_size,
        "decay": decay,
        "residual_scaling": residual_scaling,
        "standardise_features": standardise_features,
        "metrics": sorted(metrics or {}),
        "initial grades": [len(model.grades), fingerprint(*grades_to_arrays(model.grades).values())],
        "seed": (seed, seed_per_grade),
    }
    options = {
        "optimiser": optimiser,
        "learning_rate": learning_rate,
        "record_every": record_every,
        "stopping": stopping,
        "keep": keep,
    }
    for grade in model.grades:
        task = task.after(grade)
    return train_grades(
        structure,
        task,
        num_steps=steps,
        seed=seed,
        seed_per_grade=seed_per_grade,
        time_limit=time_limit,
        model=model,
        records=records,
        checkpoint=make_checkpoint(checkpoint, checkpoint_every, structure, steps, observers, {**settings, **options}),
        sampler=FullBatch() if batch_size is None else RandomRows(batch_size, spread.num_rows if spread else None),
        observers=observers,
        **options,
    )


def make_checkpoint(path, every: float, structure, steps, observers, settings: Mapping) -> Checkpoint | None:
    """A checkpoint at ``path`` that belongs to these settings; None without a path."""
    if path is None:
        return None
    recording = [(o.name, o.every, o) for o in observers if o.every is not None]  # a progress bar changes nothing
    plan = {"structure": structure, "num_steps": steps, "observers": recording}
    return Checkpoint(Path(path), {name: describe(value) for name, value in {**plan, **settings}.items()}, every)


def _checked_rows(x_name: str, y_name: str, structure: Sequence[AnyNetwork], inputs, targets, weights) -> _Left:
    x, y = jnp.asarray(inputs, jnp.float32), jnp.asarray(targets, jnp.float32)
    expected = structure[0].widths[0], structure[-1].widths[-1]
    for name, array, width in ((x_name, x, expected[0]), (y_name, y, expected[1])):
        if array.ndim != 2 or array.shape[1] != width:
            raise ValueError(f"{name} must have shape (rows, {width}) for this structure; got {array.shape}")
        if not bool(jnp.isfinite(array).all()):
            raise ValueError(f"{name} must be finite; got NaN or infinity")
    if x.shape[0] != y.shape[0] or x.shape[0] == 0:
        raise ValueError(f"{x_name} and {y_name} must have the same, positive number of rows; got {len(x)}, {len(y)}")
    if weights is not None:
        weights = jnp.asarray(weights, jnp.float32)
        total = weights.sum()
        if weights.shape != x.shape[:1] or not bool((weights >= 0).all() & (total > 0) & jnp.isfinite(total)):
            raise ValueError(
                f"sample_weight must hold {len(x)} finite numbers, none negative and not all zero; "
                f"got shape {weights.shape}"
            )
    return _Left(x, y, jnp.zeros_like(y), weights)


def _root_mean_square(left: _Left) -> Array:
    """epsilon = root (weighted) mean square of the residual; 1 where nothing is left over."""
    squares = jnp.mean(left.residual**2, axis=1)
    scale = jnp.sqrt(jnp.average(squares, weights=left.weights))
    return jnp.where(scale > 0, scale, 1).astype(jnp.float32)


def _metric(metric, network, scale, left: _Left, targets, params):
    return metric(left.prediction + scale * network(params, left.features), targets)
