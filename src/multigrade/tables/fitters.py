"""The four ways to fit an estimator, with one signature: settings, rows and context in, what was fitted out."""

import dataclasses
import numbers
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..model import Grade, MultiGrade
from ..programs import programs_on_disk
from ..training import fit_high_precision
from ..training.record import Outcome, RunRecord
from .encoding import Encoding
from .member_loss import MAX_LAYERS
from .members import Size, TableRows, default_size, fit_members
from .predictor import FittedGrade, fitted_grades
from .rows import merge_equal_rows, rows_with_weight


class Rows(NamedTuple):
    """The training rows as they were read."""

    X: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    groups: np.ndarray | None = None

    def merged(self) -> "Rows":
        """Those of positive weight, equal ones as one, in an order of their own: a fit depends neither on the order of
        rows nor on whether one is repeated or weighted."""
        return Rows(*merge_equal_rows(*rows_with_weight(self.X, self.targets, self.weights, self.groups)))


class Context(NamedTuple):
    """What belongs to one call of ``fit``: whether it adds to the last one, who looks, and where it is kept."""

    continuing: bool
    observers: tuple
    checkpoint: Any


class Fitted(NamedTuple):
    """What a fitter learned. ``left_out`` are errors of rows that a member left out: (errors and a weight, rows)."""

    grades: tuple[FittedGrade, ...]
    records: tuple[RunRecord, ...]
    encoding: Encoding | None = None
    fold_losses: tuple[float, ...] = ()
    certificates: list[dict] = []  # noqa: RUF012
    left_out: np.ndarray | None = None


def choose_fitter(estimator) -> Callable[[Any, Rows, Context], Fitted]:
    """The fitter of an estimator's precision and solver."""
    from .structured import fit_structured

    if estimator.precision == "high":
        return fit_sines
    return {"auto": fit_table, "convex": fit_convex}.get(estimator.solver, fit_structured)


def fit_table(estimator, rows: Rows, context: Context) -> Fitted:
    """solver="auto": members that decide on the rows they leave out."""
    from .structured import progress_views

    rows = rows.merged()
    estimator._standardise(*rows[:3])
    size = _size(estimator, len(rows.X))
    table = TableRows(
        rows.X,
        estimator.columns_.is_category,
        (rows.targets - estimator.y_mean_) / estimator.y_scale_,
        rows.weights,
        rows.groups,
    )
    with programs_on_disk(), ExitStack() as views:
        progress = tuple(map(views.enter_context, progress_views(estimator.verbose, size.num_grades)))
        fit = fit_members(
            table,
            estimator.loss_,
            size=size,
            seed=estimator._seed,
            observers=(*progress, *context.observers),
            time_limit=estimator.time_limit,
        )
    outputs = estimator.loss_.predict(fit.left_out_scores.astype(np.float64))
    left_out = np.column_stack([table.targets[fit.left_out], outputs, table.weights[fit.left_out]])
    return Fitted(fit.grades, fit.records, fit.encoding, fit.fold_losses, left_out=left_out)


def _size(estimator, num_rows: int) -> Size:
    """The size for so many rows, with what the user gave in its place."""
    given = {
        "num_grades": estimator.n_grades, "hidden": estimator.hidden_layer_sizes,
        "activation": estimator.activation, "num_steps": estimator.max_iter, "batch_size": estimator.batch_size,
        "learning_rate": estimator.learning_rate, "weight_decay": estimator.alpha,
    }  # fmt: skip
    rate = estimator.learning_rate
    if isinstance(rate, str):
        raise ValueError("learning_rate='auto' needs solver 'gd', 'momentum' or 'adam'; got 'auto'")
    if not isinstance(rate, numbers.Real) and rate is not None:
        raise ValueError(f"learning_rate must be a number or None with solver='auto'; got {rate!r}")
    if not isinstance(estimator.activation, str):
        raise ValueError(f"activation must be one name with solver='auto'; got {estimator.activation!r}")
    if estimator.batch_size is None:
        raise ValueError("batch_size must be a number or 'auto' with solver='auto'; got None")
    given = {k: v for k, v in given.items() if v is not None and not (isinstance(v, str) and v == "auto")}
    if "hidden" in given:
        sizes = given["hidden"]
        if not isinstance(sizes, numbers.Integral) and len(sizes) and np.ndim(sizes[0]):
            raise ValueError(
                "hidden_layer_sizes must be one tuple of widths for all grades with solver='auto'; a tuple for each "
                f"grade needs another solver, for example 'muon'; got {sizes!r}"
            )
        given["hidden"] = widths(sizes)
        if len(given["hidden"]) > MAX_LAYERS:
            raise ValueError(f"hidden_layer_sizes must have at most {MAX_LAYERS} layers with solver='auto'")
    return dataclasses.replace(default_size(num_rows), **given)


def widths(layers) -> tuple[int, ...]:
    """Widths of hidden layers as given by a user: a sequence, or the width of one layer."""
    layers = (layers,) if isinstance(layers, numbers.Real) else tuple(layers)
    if not layers or any(not isinstance(w, numbers.Integral) or w < 1 for w in layers):
        raise ValueError(f"hidden_layer_sizes must hold positive integers; got {layers!r}")
    return tuple(int(w) for w in layers)


def fit_sines(estimator, rows: Rows, context: Context) -> Fitted:
    """precision="high": grades of sine features, solved in double precision."""
    for name, is_given in (("early_stopping", estimator.early_stopping), ("warm_start", context.continuing)):
        if is_given:
            raise ValueError(f"{name} must be False with precision='high': leave-one-out decides on grades")
    if context.checkpoint is not None:
        raise ValueError("checkpoint must be None with precision='high': a fit is not continued")
    rows = rows.merged()
    estimator._standardise(*rows[:3])
    x, targets = scaled(estimator, rows)
    on_grade = _print_solved if estimator.verbose else None
    with programs_on_disk():
        fit = fit_high_precision(x, targets, sample_weight=rows.weights, seed=estimator._seed, on_grade=on_grade)
    return Fitted(fitted_grades(fit.model), fit.records)


def fit_convex(estimator, rows: Rows, context: Context) -> Fitted:
    """solver="convex": two-layer grades solved to their global optimum."""
    from ..convex import PatternSearch, fit_convex_grades

    if estimator.early_stopping:
        raise ValueError("early_stopping must be False with solver='convex': a grade is solved, not trained")
    if estimator.loss_.name != "squared_error":
        raise ValueError(
            f"loss must be 'squared_error' with solver='convex', whose certificate is of it; got {estimator.loss!r}"
        )
    alpha, num_grades = estimator._value("alpha"), estimator._value("n_grades")
    if not alpha > 0:
        raise ValueError(f"alpha must be positive with solver='convex'; got {estimator.alpha!r}")
    rows = rows.merged()
    model, records, certificates = so_far(estimator, context.continuing, num_grades)
    if not context.continuing:
        estimator._standardise(*rows[:3])
    x, targets = scaled(estimator, rows)
    if x.size >= CONVEX_CELLS and num_grades > len(model.grades):
        warnings.warn(
            f"solver='convex' on {len(x)} x {x.shape[1]} takes half a minute a grade or more: its patterns grow with "
            "rows and columns (verbose=1 shows each grade)",
            stacklevel=4,
        )
    residual = targets - (np.asarray(model(jnp.asarray(x, jnp.float32)), np.float64) if model.grades else 0)
    features = np.asarray(model.features(jnp.asarray(x, jnp.float32)), np.float64)
    total = float(np.sum(rows.weights))
    if num_grades > len(model.grades):
        with programs_on_disk():
            fit = fit_convex_grades(
                features,
                residual,
                num_grades=num_grades - len(model.grades),
                # Our loss is a mean, that of the convex program a sum: alpha times the sum of the weights is the same.
                regularisation=alpha * total,
                sample_weight=rows.weights,
                search=PatternSearch(seed=estimator._seed),
                observers=(_Certificates(),) if estimator.verbose else (),
            )
        for grade, stage in zip(fit.grades, fit.staged_predict(features), strict=True):
            params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), grade.params)
            model = model.add(Grade(grade.network, params, jnp.float32(1)))
            loss = 0.5 * np.sum(rows.weights[:, None] * (residual - stage) ** 2) / total
            certificate = grade.certificate
            columns = {
                "step": np.array([certificate.iterations], np.int32),
                "train_loss": np.array([loss], np.float32),
            }
            records = (*records, RunRecord(columns, sentence=str(certificate), num_steps=certificate.iterations))
            fields = {**dataclasses.asdict(certificate), "outcome": certificate.outcome.name}
            certificates = [*certificates, fields]
    return Fitted(fitted_grades(model), records, certificates=certificates)


CONVEX_CELLS = 500  # rows times columns from which a grade takes long


def scaled(estimator, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Standardised inputs and targets."""
    return (
        (rows.X - estimator.x_mean_) / estimator.x_scale_,
        (rows.targets - estimator.y_mean_) / estimator.y_scale_,
    )


def so_far(estimator, continuing: bool, num_grades: int) -> tuple[MultiGrade, tuple, list[dict]]:
    """Model, records and certificates that the fit adds to. A last grade that diverged is fitted again."""
    if not continuing:
        return MultiGrade(), (), []
    records = estimator.records_
    num_kept = len(records) - (records[-1].outcome is Outcome.DIVERGED)
    if num_grades < num_kept:
        raise ValueError(
            f"n_grades must be at least the number already fitted ({num_kept}) with warm_start=True; got {num_grades}"
        )
    if num_grades == num_kept:
        warnings.warn("warm_start=True without a larger n_grades adds no grade; the model stays", stacklevel=5)
    return MultiGrade(estimator.model_.grades[:num_kept]), records[:num_kept], estimator._certificates


class _Certificates:
    """Prints the certificate of every grade as soon as it is solved."""

    name, every = "certificates", None

    def observe(self, snapshot, carry):
        return None

    def grade_ended(self, grade: int, record: RunRecord) -> None:
        print(f"grade {grade + 1}: {record.sentence}")


def _print_solved(record: RunRecord) -> None:
    error = record.columns["leave_one_out"][0]
    print(f"{record.sentence}: leave-one-out error {error:.1e} of the standardised targets")
