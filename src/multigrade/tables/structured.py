"""Fits with any solver but "auto": one network per grade, trained by ``fit_grades`` on standardised rows."""

import math
import numbers
from contextlib import ExitStack

import numpy as np
from sklearn.model_selection import train_test_split

from .. import structures
from ..networks import MultiScaleNetwork, Network, Structure
from ..programs import programs_on_disk
from ..training import Fit, Never, NoImprovement, Plan, Regression, fit_grades, warmup_cosine
from ..training.objectives import LOSSES, Squared
from ..training.optimisers import default_rate
from .fitters import Context, Fitted, Rows, scaled, so_far, widths
from .predictor import fitted_grades
from .rows import pad_rows, rows_with_weight

FULL_BATCH_ROWS = 4096  # up to here batch_size="auto" takes all rows in every step
RECORDS_PER_GRADE = 100  # points of a loss curve


def fit_structured(estimator, rows: Rows, context: Context) -> Fitted:
    """One network per grade, all trained by one optimiser."""
    rows, held_out = split_rows(estimator, rows)
    full_batch = estimator.batch_size is None or (
        estimator.batch_size == "auto" and np.count_nonzero(rows.weights) <= FULL_BATCH_ROWS
    )
    rows = rows.merged() if full_batch else Rows(*rows_with_weight(*rows[:3]))
    structure = structure_of(estimator, rows.X.shape[1], rows.targets.shape[1])
    model, records, certificates = so_far(estimator, context.continuing, len(structure))
    if not context.continuing:
        estimator._standardise(*rows[:3])
    num_steps = int(estimator._value("max_iter"))
    period = max(num_steps // RECORDS_PER_GRADE, 1)
    record_every = math.gcd(period, *(o.every for o in context.observers if o.every is not None))
    patience = estimator.n_iter_no_change * (period // record_every)
    rate, steering = _rate(estimator, 5 * period)
    scheduled = estimator.solver in ("adam", "muon", "momentum") and not callable(rate) and not steering
    batch_size = None if full_batch else 1024 if estimator.batch_size == "auto" else estimator.batch_size
    own = estimator.loss_
    loss = LOSSES[own.name](**({"quantile": own.parameter[0]} if own.name == "quantile" else {}))
    x, targets, weights = _network_rows(estimator, rows, is_padded=full_batch)
    with programs_on_disk(), ExitStack() as views:
        progress = map(views.enter_context, progress_views(estimator.verbose, len(structure)))
        fit = fit_grades(
            structure,
            x,
            targets,
            plan=Plan(
                num_steps,
                estimator.solver,
                warmup_cosine(rate, num_steps) if scheduled else rate,
                batch_size,
                record_every,
                stopping=NoImprovement(patience, estimator.tol) if estimator.early_stopping else Never(),
                keep="best" if estimator.early_stopping else "last",
                while_better=estimator.early_stopping,
                observers=(*progress, *steering, *context.observers),
                seed=estimator._seed,
            ),
            regression=Regression(
                estimator._value("alpha"),
                estimator.residual_scaling and isinstance(loss, Squared),
                loss=loss,
                solved_output=estimator.solved_output,
            ),
            sample_weight=weights,
            validation=_network_rows(estimator, held_out, is_padded=True) if held_out else None,
            start=Fit(model, records),
            checkpoint=context.checkpoint,
        )
    return Fitted(fitted_grades(fit.model), fit.records, certificates=certificates)


def split_rows(estimator, rows: Rows) -> tuple[Rows, Rows | None]:
    """The rows that train, and those that early stopping holds out."""
    if not estimator.early_stopping:
        return rows, None
    parts = train_test_split(*rows[:3], test_size=estimator.validation_fraction, random_state=estimator._seed % 2**32)
    if not np.any(parts[-1]):
        raise ValueError("sample_weight must be positive for one held-out row at least; all are zero: hold out more")
    return Rows(*parts[0::2]), Rows(*parts[1::2])


def structure_of(estimator, num_inputs: int, num_outputs: int) -> Structure:
    """The networks that an estimator describes: one for each grade, or sub-networks at several scales."""
    sizes, num_grades = estimator._value("hidden_layer_sizes"), estimator._value("n_grades")
    activation = estimator._value("activation")
    if estimator.scales is not None:
        network = Network((num_inputs, *widths(sizes), num_outputs), activation)
        return (MultiScaleNetwork(network, tuple(float(scale) for scale in estimator.scales)),)
    is_per_grade = not isinstance(sizes, numbers.Integral) and len(sizes) and np.ndim(sizes[0])
    per_grade = list(sizes) if is_per_grade else [sizes] * num_grades
    if len(per_grade) != num_grades:
        raise ValueError(
            f"hidden_layer_sizes must be one tuple of widths or one per grade ({num_grades}); got {sizes!r}"
        )
    return structures.graded(num_inputs, [widths(layers) for layers in per_grade], num_outputs, activation=activation)


def _rate(estimator, every: int) -> tuple:
    """The learning rate, and the observer that keeps it safe if it is "auto"."""
    if estimator.learning_rate != "auto":
        is_given = estimator.learning_rate is not None
        return estimator.learning_rate if is_given else default_rate(estimator.solver), ()
    if estimator.solver not in ("gd", "momentum", "adam"):
        raise ValueError(f"learning_rate='auto' needs solver 'gd', 'momentum' or 'adam'; got {estimator.solver!r}")
    from ..curvature import SafeRate

    return default_rate(estimator.solver), (SafeRate(every=every),)


def _network_rows(estimator, rows: Rows, *, is_padded: bool):
    """Standardised rows; the weights times a power of two, which rounds nothing and keeps float32 in its range."""
    weights = np.ldexp(rows.weights, 1 - np.frexp(np.max(rows.weights))[1])  # the largest is in [1, 2)
    parts = (*scaled(estimator, rows), weights)
    return tuple(pad_rows(part) if is_padded else part for part in parts)


def progress_views(verbose, num_grades: int) -> tuple:
    if not verbose:
        return ()
    from ..progress import ProgressObserver

    return (ProgressObserver(num_grades),)
