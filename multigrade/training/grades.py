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
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..model import Grade, MultiGrade, apply_grade
from ..networks import AnyNetwork
from ..objectives import LeastSquares, Rows
from ..sampling import FullBatch, RandomRows
from ..structures import Structure
from .checkpoint import Checkpoint, describe, fingerprint
from .loop import Run, minimise
from .observers import Observer
from .record import Outcome, RunRecord
from .stopping import Never


@dataclasses.dataclass(frozen=True)
class Fit:
    """A model and the record of each of its grades."""

    model: MultiGrade
    records: tuple[RunRecord, ...]

    @property
    def outcome(self) -> Outcome:
        return self.records[-1].outcome


class _Left(NamedTuple):
    """What the grades so far leave over on one data set: features, residual, and the sum of their predictions."""

    features: Array
    residual: Array
    prediction: Array

    def after(self, grade: Grade) -> "_Left":
        added, features = apply_grade(grade, self.features)
        return _Left(features, self.residual - added, self.prediction + added)


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
    record_every: int = 100,
    metrics: Mapping[str, Callable[[Array, Array], Array]] | None = None,
    stopping=Never(),  # noqa: B008
    keep: str = "last",
    observers: Sequence[Observer] = (),
    time_limit: float | None = None,
    seed: int = 0,
    model: MultiGrade = MultiGrade(),  # noqa: B008
    records: Sequence[RunRecord] = (),
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: float = 30.0,
) -> Fit:
    """Fit the grades of ``structure`` one after the other to targets (N, s) at inputs (N, d).

    ``num_steps`` is per grade. ``validation`` is (inputs, targets) or (inputs, targets, weights). With
    ``residual_scaling``, epsilon_l is the root mean square of the residual and the network learns e_l / epsilon_l
    (losses are recorded in the units of the targets all the same); otherwise epsilon_l = 1. ``metrics`` are functions
    of (prediction of all grades so far, targets) on the training data. A given ``model`` (with its ``records``) is
    continued: its grades are kept as they are and must be the first ones of ``structure``. ``checkpoint`` is a file
    to resume from, if it is there, and to write to; it stays when the fit is done.

    A grade that diverges or meets the time limit is the last one.
    """
    start = time.perf_counter()
    steps = (num_steps,) * len(structure) if isinstance(num_steps, int) else tuple(num_steps)
    x, y, weights, held_out = _validated(
        structure, steps, inputs, targets, sample_weight, validation, model, time_limit
    )
    saved = None
    store = None
    if checkpoint is not None:
        settings = {
            "structure": describe(structure),
            "data": fingerprint(x, y, weights, *(held_out or ())),
            "num_steps": list(steps),
            "optimiser": describe(optimiser),
            "learning_rate": describe(learning_rate),
            "batch_size": batch_size,
            "decay": decay,
            "residual_scaling": residual_scaling,
            "record_every": record_every,
            "metrics": sorted(metrics or {}),
            "stopping": describe(stopping),
            "keep": keep,
            "observers": [o.name for o in observers],
            "seed": seed,
            "initial grades": len(model.grades),
        }
        store = Checkpoint(Path(checkpoint), settings, checkpoint_every)
        saved = store.load()
    model, records, running = saved or (model, tuple(records), None)
    left = _left_over(model, x, y)
    held_left = _left_over(model, held_out[0], held_out[1]) if held_out else None

    for index in range(len(model.grades), len(structure)):
        if records and records[-1].outcome in (Outcome.DIVERGED, Outcome.TIME_LIMIT):
            break
        network = structure[index]
        init_key, batch_key = jax.random.split(jax.random.fold_in(jax.random.key(seed), index))
        scale = _scale(left.residual, weights) if residual_scaling and index else jnp.float32(1)
        run = minimise(
            LeastSquares(network, decay),
            network.init(init_key),
            Rows(left.features, left.residual / scale, weights),
            num_steps=steps[index],
            optimiser=optimiser,
            learning_rate=learning_rate,
            sampler=RandomRows(batch_size) if batch_size else FullBatch(),
            validation=Rows(held_left.features, held_left.residual / scale, held_out[2]) if held_left else None,
            metrics={
                name: jax.tree_util.Partial(_metric, jax.tree_util.Partial(metric), network, scale, left, y)
                for name, metric in (metrics or {}).items()
            },
            record_every=record_every,
            stopping=stopping,
            keep=keep,
            observers=observers,
            time_limit=None if time_limit is None else max(time_limit - (time.perf_counter() - start), 1e-3),
            resume=running,
            save=None if store is None else lambda run, m=model, r=records: store.save(m, r, run),
            save_every=checkpoint_every,
            key=batch_key,
            grade=index,
        )
        running = None
        grade = Grade(network, run.params, scale)
        model, records = model.add(grade), (*records, _in_target_units(run, scale))
        left = left.after(grade)
        held_left = held_left.after(grade) if held_left else None
        if store is not None:
            store.save(model, records, None)
    return Fit(model, records)


def _validated(structure, steps, inputs, targets, sample_weight, validation, model: MultiGrade, time_limit):
    if not structure:
        raise ValueError("structure must have at least one grade; got none")
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"time_limit must be a positive number of seconds; got {time_limit!r}")
    if len(steps) != len(structure):
        raise ValueError(f"num_steps must be one number or one per grade ({len(structure)}); got {steps!r}")
    if tuple(grade.network for grade in model.grades) != tuple(structure[: len(model.grades)]):
        raise ValueError("the grades of model must be the first grades of structure")
    x, y, weights = _checked_rows("inputs", "targets", structure, inputs, targets, sample_weight)
    if validation is None:
        return x, y, weights, None
    held_out = _checked_rows("validation inputs", "validation targets", structure, *(*validation, None)[:3])
    return x, y, weights, held_out


def _checked_rows(x_name: str, y_name: str, structure: Sequence[AnyNetwork], inputs, targets, weights):
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
        if weights.shape != x.shape[:1] or not bool((weights >= 0).all() & (weights.sum() > 0)):
            raise ValueError(f"sample_weight must hold {len(x)} numbers, none negative and not all zero")
    return x, y, weights


def _left_over(model: MultiGrade, x: Array, y: Array) -> _Left:
    left = _Left(x, y, jnp.zeros_like(y))
    for grade in model.grades:
        left = left.after(grade)
    return left


def _scale(residual: Array, weights: Array | None) -> Array:
    """epsilon = root (weighted) mean square of the residual; 1 where nothing is left over."""
    squares = jnp.mean(residual**2, axis=1)
    scale = jnp.sqrt(jnp.average(squares, weights=weights))
    return jnp.where(scale > 0, scale, 1).astype(jnp.float32)


def _metric(metric, network, scale, left: _Left, targets, params):
    return metric(left.prediction + scale * network(params, left.features), targets)


def _in_target_units(run: Run, scale: Array) -> RunRecord:
    """The record with losses multiplied by epsilon^2: the network was fitted to the residual divided by epsilon."""
    factor = np.float32(scale) ** 2
    columns = {k: v * factor if k.endswith("_loss") else v for k, v in run.record.columns.items()}
    return dataclasses.replace(run.record, columns=columns)
