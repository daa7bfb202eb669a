"""Fits with any solver but "auto": one network per grade, trained by ``fit_grades`` on standardised rows."""

import math
import warnings
from contextlib import ExitStack

import numpy as np
from sklearn.model_selection import train_test_split

from ..model import MultiGrade
from ..training import Fit, Never, NoImprovement, Plan, Regression, fit_grades, warmup_cosine
from ..training.objectives import Squared
from ..training.optimisers import default_rate
from ..training.record import Outcome
from .parameters import Parameters
from .rows import merge_equal_rows, pad_rows, rows_with_weight

FULL_BATCH_ROWS = 4096  # up to here batch_size="auto" takes all rows in every step
RECORDS_PER_GRADE = 100  # points of a loss curve


class StructuredFit(Parameters):
    """Trains the structure that a subclass describes."""

    def _fit_structure(self, X, targets, weights, continuing, observers, checkpoint) -> None:
        rows, held_out = self._split(X, targets, weights)
        rows = rows_with_weight(*rows)
        full_batch = self.batch_size is None or (self.batch_size == "auto" and len(rows[0]) <= FULL_BATCH_ROWS)
        if full_batch:
            rows = merge_equal_rows(*rows)
        if not continuing:
            self._standardise(*rows)
        self._fit_grades(rows, held_out, full_batch, continuing, observers, checkpoint)

    def _split(self, X, targets, weights):
        if not self.early_stopping:
            return (X, targets, weights), None
        parts = train_test_split(
            X, targets, weights, test_size=self.validation_fraction, random_state=self._seed % 2**32
        )
        if not np.any(parts[-1]):
            raise ValueError(
                "sample_weight must be positive for one held-out row at least; all are zero: hold out more"
            )
        return tuple(parts[0::2]), tuple(parts[1::2])

    def _fit_grades(self, rows, held_out, full_batch, continuing, observers, checkpoint) -> None:
        structure = self._structure(rows[0].shape[1], rows[1].shape[1])
        model, records, certificates = self._so_far(continuing, len(structure))
        x, targets, weights = self._network_rows(rows, is_padded=full_batch)
        num_steps, loss = int(self._value("max_iter")), self._loss()
        period = max(num_steps // RECORDS_PER_GRADE, 1)
        record_every = math.gcd(period, *(o.every for o in observers if o.every is not None))
        patience = self.n_iter_no_change * (period // record_every)
        rate, steering = self._rate(5 * period)
        scheduled = self.solver in ("adam", "muon", "momentum") and not callable(rate) and not steering
        with ExitStack() as views:
            progress = map(views.enter_context, progress_views(self.verbose, len(structure)))
            fit = fit_grades(
                structure,
                x,
                targets,
                plan=Plan(
                    num_steps,
                    self.solver,
                    warmup_cosine(rate, num_steps) if scheduled else rate,
                    None if full_batch else 1024 if self.batch_size == "auto" else self.batch_size,
                    record_every,
                    stopping=NoImprovement(patience, self.tol) if self.early_stopping else Never(),
                    keep="best" if self.early_stopping else "last",
                    while_better=self.early_stopping,
                    observers=(*progress, *steering, *observers),
                    seed=self._seed,
                ),
                regression=Regression(
                    self._value("alpha"),
                    getattr(self, "residual_scaling", False) and isinstance(loss, Squared),
                    loss=loss,
                    solved_output=getattr(self, "solved_output", False),
                ),
                sample_weight=weights,
                validation=self._network_rows(held_out, is_padded=True) if held_out else None,
                start=Fit(model, records),
                checkpoint=checkpoint,
            )
        self.model_, self.records_, self.certificates_ = fit.model, fit.records, certificates

    def _so_far(self, continuing: bool, num_grades: int) -> tuple[MultiGrade, tuple, tuple]:
        """Model, records and certificates that the fit adds to. A last grade that diverged is fitted again."""
        if not continuing:
            return MultiGrade(), (), ()
        num_kept = len(self.records_) - (self.records_[-1].outcome is Outcome.DIVERGED)
        if num_grades < num_kept:
            raise ValueError(
                f"n_grades must be at least the number already fitted ({num_kept}) with warm_start=True; "
                f"got {num_grades}"
            )
        if num_grades == num_kept:
            warnings.warn("warm_start=True without a larger n_grades adds no grade; the model stays", stacklevel=7)
        return MultiGrade(self.model_.grades[:num_kept]), self.records_[:num_kept], self.certificates_

    def _rate(self, every: int) -> tuple:
        """The learning rate, and the observer that keeps it safe if it is "auto"."""
        if self.learning_rate != "auto":
            return default_rate(self.solver) if self.learning_rate is None else self.learning_rate, ()
        if self.solver not in ("gd", "momentum", "adam"):
            raise ValueError(f"learning_rate='auto' needs solver 'gd', 'momentum' or 'adam'; got {self.solver!r}")
        from ..curvature import SafeRate

        return default_rate(self.solver), (SafeRate(every=every),)

    def _network_rows(self, rows, *, is_padded: bool):
        """Standardised rows; the weights times a power of two, which rounds nothing and keeps float32 in its range."""
        x, targets, weights = self._scaled(rows)
        weights = np.ldexp(weights, 1 - np.frexp(np.max(weights))[1])  # the largest is in [1, 2)
        return tuple(pad_rows(part) if is_padded else part for part in (x, targets, weights))


def progress_views(verbose, num_grades: int) -> tuple:
    if not verbose:
        return ()
    from ..progress import ProgressObserver

    return (ProgressObserver(num_grades),)
