"""What the estimators share: parameters, conventions, standardisation, rows.

With ``solver="auto"`` an estimator encodes the columns and fits members that decide on the rows they left out (see
``members``). With any other solver it standardises inputs and targets, describes a structure, and calls ``fit_grades``.
Learned attributes end in an underscore.
"""

import dataclasses
import math
import numbers
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .. import structures
from ..model import MultiGrade
from ..networks import ACTIVATIONS
from ..objectives import Loss, Squared
from ..training import OPTIMISERS, Fit, Never, NoImprovement, Plan, Regression, fit_grades, warmup_cosine
from ..training.optimisers import default_rate
from ..training.record import Outcome, RunRecord
from .encoding import Encoding
from .members import MAX_LAYERS, Size, default_size, fit_members
from .programs import programs_on_disk
from .storage import ESTIMATORS, load_estimator, write_estimator

FULL_BATCH_ROWS = 4096  # up to here batch_size="auto" takes all rows in every step
RECORDS_PER_GRADE = 100
# Rows are padded to one of few sizes (weight 0), so that folds of a cross-validation share a compiled program; not
# those that random batches are drawn from.
ROW_SIZES = (64, 128, 256, 512)


PREDICTED_ROWS = 2**14  # at a time
AUTO = StrOptions({"auto"})


class Learned:
    """What a fit learns; not parameters of a constructor."""

    model_: MultiGrade
    records_: tuple[RunRecord, ...]
    certificates_: tuple  # of the grades that solver="convex" solved
    encoding_: Encoding  # of solver="auto"
    fold_losses_: tuple[float, ...]
    x_mean_: np.ndarray
    x_scale_: np.ndarray
    y_mean_: np.ndarray
    y_scale_: np.ndarray
    classes_: np.ndarray  # of classifiers
    n_features_in_: int
    feature_names_in_: np.ndarray
    # Column names of a table, kept in saved files for the command line.
    target_names: list[str] | None = None
    # A parameter of every constructor, but not the first of all.
    hidden_layer_sizes: Any


# Estimators are dataclasses for the sake of their constructors: a parameter and its default stand in one place.
@dataclass(eq=False, repr=False)
class GradedEstimator(Learned, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What regressors and classifiers share; a subclass gives its own parameters, structure, loss and targets."""

    _parameter_constraints: ClassVar[dict] = {
        "hidden_layer_sizes": ["array-like", AUTO],
        "activation": [StrOptions({*ACTIVATIONS, "auto"}), list, tuple],
        "solver": [StrOptions({*OPTIMISERS, "auto"})],
        "learning_rate": [Interval(numbers.Real, 0, None, closed="neither"), StrOptions({"auto"}), callable, None],
        "alpha": [Interval(numbers.Real, 0, None, closed="left"), AUTO],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left"), AUTO],
        "batch_size": [StrOptions({"auto"}), Interval(numbers.Integral, 1, None, closed="left"), None],
        "standardize": ["boolean"],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # What "auto" means with any other solver than "auto".
    _plain: ClassVar[dict] = {}
    _y_checks: ClassVar[dict] = {}

    # The parameters that all constructors share.
    _: KW_ONLY
    activation: Any = "auto"
    solver: str = "auto"
    learning_rate: Any = None
    alpha: Any = "auto"
    max_iter: Any = "auto"
    batch_size: Any = "auto"
    standardize: bool = True
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 20
    tol: float = 1e-4
    random_state: Any = None
    verbose: int = 0

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        ESTIMATORS[cls.__name__] = cls

    def _structure(self, n_inputs: int, n_outputs: int) -> structures.Structure:
        raise NotImplementedError

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _read_targets(self, y, weights) -> tuple[np.ndarray, np.ndarray]:
        """Targets (N, s) and weights, from what the user gave; notes what turns predictions back into that."""
        raise NotImplementedError

    def _is_auto(self) -> bool:
        return self.solver == "auto" and getattr(self, "precision", "single") == "single"

    def _value(self, name: str):
        """A parameter, with the meaning of "auto" for solvers other than "auto"."""
        value = getattr(self, name)
        return self._plain[name] if isinstance(value, str) and value == "auto" else value

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, *, observers=(), checkpoint=None):
        """Fit to X (n_samples, n_features) and y (n_samples,) or (n_samples, n_outputs).

        ``observers`` look at the run (see ``multigrade.training.observers``); the loss is recorded more often where
        their periods ask for it. ``checkpoint`` is a file from which an interrupted fit continues; ``random_state``
        must then be an integer. A fit that diverges ends with a ``ConvergenceWarning``.
        """
        observers = tuple(observers)
        continuing = getattr(self, "warm_start", False) and hasattr(self, "model_")
        X, y = self._validated(X, y, reset=not continuing)
        weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        before = dict(self.__dict__)
        try:
            targets, weights = self._read_targets(y, weights)
            self._check_fit(continuing, checkpoint, targets.shape[1])
        except ValueError:
            self.__dict__ = before  # what is refused changes nothing
            raise
        if not continuing:
            self.__dict__.pop("model_", None)  # what fails or is interrupted leaves nothing that could predict
            self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with programs_on_disk():
            if self._is_auto():
                self._fit_members(X, targets, weights, observers)
            else:
                self._fit_structure(X, targets, weights, continuing, observers, checkpoint)
        last = self.records_[-1]
        if last.outcome is Outcome.DIVERGED:
            remedy = ", or solver='gd' with learning_rate='auto'" if len(last.steps) else ""
            message = f"grade {self.n_grades_} {last.outcome}: {last.sentence}{remedy}"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)
        return self

    def _validated(self, X, y="no_validation", *, reset: bool):
        """``validate_data``; what networks cannot read is refused in one line that says what to do."""
        checks = {} if isinstance(y, str) else {**self._y_checks, "ensure_min_samples": 1}
        try:
            return validate_data(self, X, y, dtype=np.float64, reset=reset, **checks)
        except ValueError as error:
            line = str(error).splitlines()[0]
            if "could not convert string" in line:
                raise ValueError(f"{line}. Encode categories first: ColumnTransformer with OneHotEncoder") from None
            if "contains NaN" in line:
                raise ValueError(f"{line} Fill gaps first: ColumnTransformer with SimpleImputer") from None
            raise

    def _check_fit(self, continuing: bool, checkpoint, num_outputs: int) -> None:
        if continuing and num_outputs != len(self.y_mean_):
            raise ValueError(f"y must have {len(self.y_mean_)} outputs with warm_start=True; got {num_outputs}")
        if self._is_auto() and (checkpoint is not None or getattr(self, "warm_start", False)):
            raise ValueError("a checkpoint and warm_start need a solver other than 'auto', for example 'muon'")
        if not continuing and checkpoint is not None and not isinstance(self.random_state, numbers.Integral):
            raise ValueError(f"random_state must be an integer with a checkpoint; got {self.random_state!r}")

    def _fit_members(self, X, targets, weights, observers) -> None:
        """Equal rows are one row, in an order of their own: a fit depends neither on order nor on repetition."""
        rows = _merged(*_some_rows(X, targets, weights))
        self._standardise(*rows)
        X, targets, weights = rows
        size = self._size(len(X))
        with ExitStack() as views:
            progress = tuple(map(views.enter_context, _progress(self.verbose, size.num_grades)))
            fit = fit_members(
                X,
                (targets - self.y_mean_) / self.y_scale_,
                weights,
                self._loss(),
                size=size,
                seed=self._seed,
                observers=(*progress, *observers),
            )
        self.encoding_, self.model_, self.records_, self.fold_losses_ = fit
        self.certificates_ = ()

    def _size(self, num_rows: int) -> Size:
        """The size for so many rows, with what the user gave in its place."""
        given = {
            "num_grades": getattr(self, "n_grades", "auto"), "hidden": self.hidden_layer_sizes,
            "activation": self.activation, "num_steps": self.max_iter, "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
        }  # fmt: skip
        if self.alpha != "auto":
            raise ValueError(f"alpha must be 'auto' with solver='auto', which drops out instead; got {self.alpha!r}")
        if isinstance(self.learning_rate, str):
            raise ValueError("learning_rate='auto' needs solver 'gd', 'momentum' or 'adam'; got 'auto'")
        if not isinstance(self.learning_rate, numbers.Real) and self.learning_rate is not None:
            raise ValueError(f"learning_rate must be a number or None with solver='auto'; got {self.learning_rate!r}")
        given = {k: v for k, v in given.items() if v is not None and not (isinstance(v, str) and v == "auto")}
        if "hidden" in given:
            given["hidden"] = widths(given["hidden"])
            if len(given["hidden"]) > MAX_LAYERS:
                raise ValueError(f"hidden_layer_sizes must have at most {MAX_LAYERS} layers with solver='auto'")
        return dataclasses.replace(default_size(num_rows), **given)

    def _fit_structure(self, X, targets, weights, continuing, observers, checkpoint) -> None:
        rows, held_out = self._split(X, targets, weights)
        rows = _some_rows(*rows)
        full_batch = self.batch_size is None or (self.batch_size == "auto" and len(rows[0]) <= FULL_BATCH_ROWS)
        if full_batch:
            rows = _merged(*rows)
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

    def _standardise(self, X, targets, weights) -> None:
        """Means and scales of inputs and targets; 0 and 1 without ``standardize``, scale 1 for a constant column."""
        for name, columns in (("x", X), ("y", targets)):
            with np.errstate(over="ignore", invalid="ignore"):  # refused below
                mean = np.average(columns, axis=0, weights=weights)
                scale = np.sqrt(np.average((columns - mean) ** 2, axis=0, weights=weights))
            if not np.isfinite(scale).all():
                largest = np.abs(columns).max()
                raise ValueError(
                    f"{'X' if name == 'x' else name} must be at most about 1e150 in size; got {largest:.3g}"
                )
            negligible = scale <= 1e-12 * np.maximum(np.abs(mean), np.finfo(float).tiny)
            scale = np.where(negligible, 1.0, scale)
            if not (self.standardize if name == "x" else self._is_target_scaled()):
                mean, scale = np.zeros_like(mean), np.ones_like(scale)
            setattr(self, f"{name}_mean_", mean)
            setattr(self, f"{name}_scale_", scale)

    def _is_target_scaled(self) -> bool:
        return self.standardize

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
            progress = map(views.enter_context, _progress(self.verbose, len(structure)))
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

    def _scaled(self, rows):
        X, targets, weights = rows
        return (X - self.x_mean_) / self.x_scale_, (targets - self.y_mean_) / self.y_scale_, weights

    def _network_rows(self, rows, *, is_padded: bool):
        """Standardised rows; the weights times a power of two, which rounds nothing and keeps float32 in its range."""
        x, targets, weights = self._scaled(rows)
        weights = np.ldexp(weights, 1 - np.frexp(np.max(weights))[1])  # the largest is in [1, 2)
        return tuple(_pad_rows(part) if is_padded else part for part in (x, targets, weights))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _stages(self, X) -> Iterator[np.ndarray]:
        """What the loss predicts from the scores after grade 1, 2, ..., (N, outputs); the mean over members."""
        check_is_fitted(self)
        loss = self._loss()
        for scores in self._by_blocks(X, lambda x: list(self.model_.staged(x))):
            outputs: Any = loss.predict(np.asarray(scores, np.float64))
            yield outputs if outputs.ndim == 2 else outputs.mean(axis=1)

    def _by_blocks(self, X, function) -> list[np.ndarray]:
        """The arrays of ``function(inputs of networks)``, by slices of the rows, so that a million fit into memory."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        blocks = []
        for start in range(0, len(X), PREDICTED_ROWS):
            rows = X[start : start + PREDICTED_ROWS]
            with programs_on_disk():
                parts = [np.asarray(part)[: len(rows)] for part in function(self._network_inputs(rows))]
            if not all(np.isfinite(part).all() for part in parts):
                raise ValueError("the prediction is not finite in float32; X is too far from the training rows")
            blocks.append(parts)
        return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]

    def _network_inputs(self, X: np.ndarray):
        if hasattr(self, "encoding_"):
            return jnp.asarray(_pad_rows(self.encoding_(X)))
        with np.errstate(over="ignore"):  # refused below
            x = _pad_rows((X - self.x_mean_) / self.x_scale_)
            x = x if getattr(self, "precision", "single") == "high" else jnp.asarray(x, jnp.float32)
        if not bool(np.isfinite(x).all()):
            raise ValueError(
                "X must be finite in float32 when it is standardised; it is too far from the training rows"
            )
        return x

    def transform(self, X):
        """The frozen features of the last grade at X, (n_samples, features); those of all members side by side."""
        (features,) = self._by_blocks(X, lambda x: [self.model_.features(x)])
        return features.reshape(len(features), -1).astype(np.float64)

    @property
    def _n_features_out(self) -> int:
        last: Any = self.model_.grades[-1].network
        is_shared = last.depth == 1  # a linear grade has the encoded columns as its features, the same for all members
        return last.num_features * (1 if is_shared else getattr(last, "num", 1))

    @property
    def n_grades_(self) -> int:
        return len(self.model_.grades)

    @property
    def n_iter_(self) -> int:
        """Steps taken, over all grades."""
        return sum(record.num_steps for record in self.records_)

    @property
    def loss_curve_(self) -> np.ndarray:
        """Training loss at the recorded steps of all grades: for the squared error half the mean square of what is left
        of the standardised targets; plus the penalty ``alpha`` on the weights of the grade, times the square of its
        epsilon_l.
        """
        return np.concatenate([record.train_loss for record in self.records_])

    @property
    def validation_curve_(self) -> np.ndarray | None:
        """The same for the validation rows, without the penalty; None without ``early_stopping``."""
        curves = [record.validation_loss for record in self.records_ if record.validation_loss is not None]
        return np.concatenate(curves) if curves else None

    def _learned(self) -> dict:
        """What the targets were like, as JSON holds it."""
        raise NotImplementedError

    def _set_learned(self, learned: dict) -> None:
        raise NotImplementedError

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted estimator as data (safetensors and JSON); ``load_estimator`` reads it."""
        check_is_fitted(self)
        write_estimator(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike):
        """Read an estimator of this class; see ``load_estimator`` for one of any class."""
        estimator = load_estimator(path)
        if not isinstance(estimator, cls):
            raise ValueError(f"{path} holds a {type(estimator).__name__}, not a {cls.__name__}")
        return estimator


def _some_rows(X, targets, weights):
    """Those of positive weight."""
    is_used = weights > 0
    if not is_used.any():
        raise ValueError("sample_weight must be positive for one training row at least; all are zero")
    return X[is_used], targets[is_used], weights[is_used]


def widths(layers) -> tuple[int, ...]:
    """Widths of hidden layers as given by a user."""
    layers = tuple(layers)
    if not layers or any(not isinstance(w, numbers.Integral) or w < 1 for w in layers):
        raise ValueError(f"hidden_layer_sizes must hold positive integers; got {layers!r}")
    return tuple(int(w) for w in layers)


def _merged(X, targets, weights):
    """Equal rows as one row with the sum of their weights, in sorted order.

    The objective is the same, and a fit then depends neither on the order of the rows nor on whether a row is
    repeated or weighted, to the last bit.
    """
    rows, inverse = np.unique(np.hstack([X, targets]), axis=0, return_inverse=True)
    summed = np.bincount(inverse.ravel(), weights, minlength=len(rows))
    return rows[:, : X.shape[1]], rows[:, X.shape[1] :], summed


def _pad_rows(array: np.ndarray) -> np.ndarray:
    """Zero rows up to the next of ROW_SIZES, beyond the last to the next multiple of it."""
    num_rows = len(array)
    size = next((s for s in ROW_SIZES if num_rows <= s), -(-num_rows // ROW_SIZES[-1]) * ROW_SIZES[-1])
    return np.pad(array, [(0, size - num_rows)] + [(0, 0)] * (array.ndim - 1))


def _progress(verbose, num_grades: int) -> tuple:
    if not verbose:
        return ()
    from ..progress import ProgressObserver

    return (ProgressObserver(num_grades),)
