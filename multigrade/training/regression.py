"""Grades by least squares: ``fit_grades``, on rows of inputs and targets."""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from ..model import Grade, MultiGrade, apply_grade, grades_to_arrays
from ..networks import AnyNetwork, Network
from ..objectives import LeastSquares, Rows
from ..sampling import FullBatch, random_rows
from ..structures import Structure
from .checkpoint import fingerprint
from .devices import Spread, spread_over
from .grades import Fit, GradeProblem, checked_plan, make_checkpoint, standardised, train_grades, zero_output
from .observers import Observer
from .record import RunRecord
from .stopping import Never


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
        hooks: dict[str, Callable] = {}
        if self.standardise_features and index:
            others = (held.features,) if held else ()
            num_rows = self.spread.num_rows if self.spread else None
            (features, *others), finish = standardised(left.features, *others, num_rows=num_rows)
            left, hooks = left._replace(features=features), {"start": zero_output, "finish": finish}
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
            **hooks,
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
    while_better: bool = False,
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

    ``num_steps`` is per grade. The updates of ``optimiser`` are multiplied by ``learning_rate``: give an optax
    transformation of unit rate, or one with its own rate and no ``learning_rate``. ``validation`` is (inputs, targets)
    or (inputs, targets, weights); its loss is the error without ``decay``. With ``residual_scaling``, epsilon_l is the
    root mean square of the residual and the network learns e_l / epsilon_l (losses are recorded in the units of the
    targets all the same); otherwise epsilon_l = 1. ``decay`` is in the loss of the residual divided by epsilon_l. With
    ``standardise_features`` the grades after the first see features of mean 0 and deviation 1 and start from zero
    output; the shift and scale are absorbed into their weights afterwards. ``metrics`` are functions of (prediction of
    all grades so far, targets) on the training data. A given ``model`` (with its ``records``) is continued: its grades
    are kept as they are and must be the first ones of ``structure``. ``checkpoint`` is a file to resume from, if it is
    there, and to write to every ``checkpoint_every`` seconds; it stays when the fit is done. ``devices`` is how many
    devices of JAX to share the rows out over, or which; the result is that of one up to rounding.

    A grade that diverges or meets the time limit is the last one, and with ``while_better`` the one before the first
    that does not lower the validation loss is, as ``train_grades`` says.
    """
    steps = checked_plan(structure, num_steps, learning_rate, model, time_limit)
    observers = tuple(observers)
    if not (math.isfinite(decay) and decay >= 0):
        raise ValueError(f"decay must be a finite number of at least 0; got {decay!r}")
    if validation is not None and len(validation) not in (2, 3):
        raise ValueError(
            f"validation must be (inputs, targets) or (inputs, targets, weights); got {len(validation)} members"
        )
    if while_better and validation is None:
        raise ValueError("while_better must be False without validation; got True")
    if batch_size is not None and not (isinstance(batch_size, Integral) and batch_size >= 1):
        raise ValueError(f"batch_size must be an integer of at least 1, or None for all rows; got {batch_size!r}")
    if standardise_features and not all(isinstance(n, Network) and n.encoding is None for n in structure[1:]):
        raise ValueError(f"standardise_features needs plain networks after the first grade; got {structure[1:]!r}")
    left = _checked_rows("inputs", "targets", structure, inputs, targets, sample_weight)
    names = ("validation inputs", "validation targets")
    held_out = _checked_rows(*names, structure, *(*validation, None)[:3]) if validation is not None else None
    belongs = fingerprint(*left, *(held_out or ()))
    num_rows = len(left.features)
    sampler = FullBatch() if batch_size is None else random_rows(batch_size, num_rows, left.weights)
    spread = None if devices is None else spread_over(devices, num_rows)
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
        sampler=sampler,
        observers=observers,
        while_better=while_better,
        **options,
    )


def _checked_rows(x_name: str, y_name: str, structure: Sequence[AnyNetwork], inputs, targets, weights) -> _Left:
    with np.errstate(over="ignore"):  # refused below
        x, y = jnp.asarray(inputs, jnp.float32), jnp.asarray(targets, jnp.float32)
    expected = structure[0].widths[0], structure[-1].widths[-1]
    for name, array, width in ((x_name, x, expected[0]), (y_name, y, expected[1])):
        if array.ndim != 2 or array.shape[1] != width:
            raise ValueError(f"{name} must have shape (rows, {width}) for this structure; got {array.shape}")
        if not bool(jnp.isfinite(array).all()):
            raise ValueError(f"{name} must be finite in float32; got NaN, infinity or a number above 3.4e38 in size")
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
