"""What the estimators share: ``fit``, prediction, conventions of scikit-learn, files.

With ``solver="auto"`` an estimator encodes the columns and fits members that decide on the rows they left out (see
``members``). With any other solver it standardises inputs and targets, describes a structure, and calls ``fit_grades``
(see ``structured``). Learned attributes end in an underscore.
"""

import dataclasses
import numbers
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..programs import programs_on_disk
from ..training.record import Outcome
from .member_loss import MAX_LAYERS
from .members import Size, default_size, fit_members
from .parameters import widths
from .rows import merge_equal_rows, pad_rows, rows_with_weight
from .storage import ESTIMATORS, load_estimator, write_estimator
from .structured import StructuredFit, progress_views

# What scikit-learn says of rows that networks cannot read, and what to do.
REMEDIES = {
    "could not convert string": "Encode categories first: ColumnTransformer with OneHotEncoder(sparse_output=False)",
    "Input y contains NaN": "Leave out rows without a target",
    "boolean value of NA": "Leave out rows without a target",
    "contains NaN": "Fill gaps first: ColumnTransformer with SimpleImputer",
    "Sparse data was passed": "Encoders give it with sparse_output=False, ColumnTransformer with sparse_threshold=0",
    "Expected 2D array": "Reshape your data: X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row",
    "Complex data not supported": "Give real and imaginary parts as columns of their own",
    "promote": "X must hold numbers; got dates or times beside them: make numbers of them first",
}
PREDICTED_ROWS = 2**10  # at a time: what they need stays in the cache


class GradedEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, StructuredFit):
    """What regressors and classifiers share; a subclass gives its own parameters, structure, loss and targets."""

    _y_checks: ClassVar[dict] = {}

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        ESTIMATORS[cls.__name__] = cls

    def _read_targets(self, y, weights) -> tuple[np.ndarray, np.ndarray]:
        """Targets (N, s) and weights, from what the user gave; notes what turns predictions back into that."""
        raise NotImplementedError

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, *, observers=(), checkpoint=None):
        """Fit the grades to a table.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Numbers without gaps: NumPy arrays, pandas or polars frames.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Targets; for classifiers one class for each row.
        sample_weight : array of shape (n_samples,) or None
            A row of weight 2 counts like two equal rows.
        observers : sequence of observers
            They look at the run (see ``multigrade.training.observers``). The loss is recorded more often where their
            periods ask for it.
        checkpoint : path or None
            A file from which an interrupted fit continues; ``random_state`` must then be an integer.

        Returns
        -------
        self
            A fit that diverges ends with a ``ConvergenceWarning``.
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
        except (TypeError, ValueError) as error:
            line = str(error).splitlines()[0].split(". ")[0].rstrip(".:")
            if "could not convert string" in line and checks.get("y_numeric") and _is_text(y):
                raise ValueError(f"y must hold numbers: {line}. For classes there is MultiGradeClassifier") from None
            for text, remedy in REMEDIES.items():
                if text in line:
                    raise ValueError(f"{line}. {remedy}") from None
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
        rows = merge_equal_rows(*rows_with_weight(X, targets, weights))
        self._standardise(*rows)
        X, targets, weights = rows
        size = self._size(len(X))
        with ExitStack() as views:
            progress = tuple(map(views.enter_context, progress_views(self.verbose, size.num_grades)))
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
            "learning_rate": self.learning_rate, "weight_decay": self.alpha,
        }  # fmt: skip
        if isinstance(self.learning_rate, str):
            raise ValueError("learning_rate='auto' needs solver 'gd', 'momentum' or 'adam'; got 'auto'")
        if not isinstance(self.learning_rate, numbers.Real) and self.learning_rate is not None:
            raise ValueError(f"learning_rate must be a number or None with solver='auto'; got {self.learning_rate!r}")
        if not isinstance(self.activation, str):
            raise ValueError(f"activation must be one name with solver='auto'; got {self.activation!r}")
        if self.batch_size is None:
            raise ValueError("batch_size must be a number or 'auto' with solver='auto'; got None")
        given = {k: v for k, v in given.items() if v is not None and not (isinstance(v, str) and v == "auto")}
        if "hidden" in given:
            given["hidden"] = widths(given["hidden"])
            if len(given["hidden"]) > MAX_LAYERS:
                raise ValueError(f"hidden_layer_sizes must have at most {MAX_LAYERS} layers with solver='auto'")
        return dataclasses.replace(default_size(num_rows), **given)

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
        with programs_on_disk():
            for start in range(0, len(X), PREDICTED_ROWS):
                first = max(min(start, len(X) - PREDICTED_ROWS), 0)  # the last block reaches back: one shape for all
                rows = X[first : first + PREDICTED_ROWS]
                parts = function(self._network_inputs(rows))
                blocks.append([np.asarray(part)[start - first : len(rows)] for part in parts])
        parts = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
        if not all(np.isfinite(part).all() for part in parts):
            raise ValueError("the prediction is not finite in float32; X is too far from the training rows")
        return parts

    def _network_inputs(self, X: np.ndarray):
        if hasattr(self, "encoding_"):
            return jnp.asarray(pad_rows(self.encoding_(X)))
        with np.errstate(over="ignore"):  # refused below
            x = pad_rows((X - self.x_mean_) / self.x_scale_)
            x = x if getattr(self, "precision", "single") == "high" else jnp.asarray(x, jnp.float32)
        if not bool(np.isfinite(x).all()):
            raise ValueError(
                "X must be finite in float32 when it is standardised; it is too far from the training rows"
            )
        return x

    def transform(self, X):
        """The frozen features of the last grade.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, features)
            Those of all members side by side.
        """
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
        """Write the fitted estimator as data (safetensors and JSON); ``load_estimator`` reads it.

        Parameters
        ----------
        path : the file
        """
        check_is_fitted(self)
        write_estimator(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike):
        """Read an estimator of this class; see ``load_estimator`` for one of any class.

        Parameters
        ----------
        path : a file that ``save`` wrote

        Returns
        -------
        estimator
            Fitted.
        """
        estimator = load_estimator(path)
        if not isinstance(estimator, cls):
            raise ValueError(f"{path} holds a {type(estimator).__name__}, not a {cls.__name__}")
        return estimator


def _is_text(y) -> bool:
    try:
        np.asarray(y, np.float64)
    except (TypeError, ValueError):
        return True
    return False
