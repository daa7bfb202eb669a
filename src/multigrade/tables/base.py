"""What the estimators share: ``fit``, prediction in NumPy, conventions of scikit-learn, files.

An estimator is its parameters. What fits it is chosen by ``fitters.FITTERS``: members that decide on the rows they left
out (solver="auto"), one network per grade (other solvers), sines (precision="high"), or convex programs. Learned
attributes end in an underscore, and hold NumPy arrays and plain values. Neither loading nor predicting needs JAX.
"""

import numbers
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state, check_X_y
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, validate_data

from .columns import Columns, learn_columns
from .encoding import Encoding
from .losses import Loss
from .predictor import ACTIVATIONS, FittedGrade, jax_model, staged
from .rows import weighted_moments
from .storage import ESTIMATORS, certificate_from, load_estimator, write_estimator

# What scikit-learn says of rows that cannot be read, and what to do.
REMEDIES = {
    "Input y contains NaN": "Leave out rows without a target",
    "Input y contains infinity": "Leave out such rows, or limit the targets",
    "boolean value of NA": "Leave out rows without a target",
}
PREDICTED_ROWS = 2**10  # at a time: what they need stays in the cache
LARGEST = 1e150  # of inputs and targets: squares must not overflow
AUTO = StrOptions({"auto"})
SOLVERS = ("gd", "momentum", "adam", "muon", "lbfgs")
# The parameters that all constructors share.
CONSTRAINTS: dict[str, list] = {
    "hidden_layer_sizes": ["array-like", Interval(numbers.Integral, 1, None, closed="left"), AUTO],
    "activation": [StrOptions({*ACTIVATIONS, "auto"}), list, tuple],
    "solver": [StrOptions(set(SOLVERS))],
    "learning_rate": [Interval(numbers.Real, 0, None, closed="neither"), AUTO, callable, None],
    "alpha": [Interval(numbers.Real, 0, None, closed="left"), AUTO],
    "max_iter": [Interval(numbers.Integral, 1, 2**31 - 1, closed="both"), AUTO],
    "batch_size": [AUTO, Interval(numbers.Integral, 1, None, closed="left"), None],
    "standardize": ["boolean"],
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither")],
    "n_iter_no_change": [Interval(numbers.Integral, 1, None, closed="left")],
    "tol": [Interval(numbers.Real, 0, None, closed="left")],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}
# Those of the two estimators of many grades.
GRADES_CONSTRAINTS: dict[str, list] = {
    "n_grades": [Interval(numbers.Integral, 1, None, closed="left"), AUTO],
    "warm_start": ["boolean"],
    "categorical_features": ["array-like", AUTO],
    "time_limit": [Interval(numbers.Real, 0, None, closed="neither"), None],
}
# With solver="auto" the rows left out decide all this.
OF_OTHER_SOLVERS = (
    "standardize", "early_stopping", "validation_fraction", "n_iter_no_change", "tol", "residual_scaling",
)  # fmt: skip


class GradedEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What regressors and classifiers share; a subclass gives its parameters, its loss and its targets."""

    # Parameters that not every estimator has, with the value that stands for their absence.
    n_grades: Any = 1
    precision = "single"
    residual_scaling = False
    solved_output = False
    warm_start = False
    categorical_features: Any = "auto"
    time_limit: float | None = None
    scales: Any = None
    # What "auto" means with any other solver than "auto".
    _auto_values: ClassVar[dict] = {}
    # Those of all constructors.
    hidden_layer_sizes: Any
    activation: Any
    solver: str
    learning_rate: Any
    alpha: Any
    max_iter: Any
    batch_size: Any
    standardize: bool
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    tol: float
    random_state: Any
    verbose: int
    # What a fit learns.
    grades_: tuple[FittedGrade, ...]
    encoding_: Encoding | None  # of solver="auto"
    columns_: Columns
    loss_: Loss
    fold_losses_: tuple[float, ...]
    x_mean_: np.ndarray
    x_scale_: np.ndarray
    y_mean_: np.ndarray
    y_scale_: np.ndarray
    n_features_in_: int
    _seed: int  # of everything random in the fit
    _records: tuple[dict[str, np.ndarray], list[dict]]
    _certificates: list[dict]
    _left_out: np.ndarray | None
    # Column names of a table, kept in saved files for the command line.
    target_names: list[str] | None = None

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        ESTIMATORS[cls.__name__] = cls

    def _read_targets(self, y, weights) -> tuple[np.ndarray, np.ndarray]:
        """Targets (N, s) and weights, from what the user gave; notes what turns predictions back into that."""
        raise NotImplementedError

    def _make_loss(self) -> Loss:
        raise NotImplementedError

    def _check_targets(self, X, y):
        """The targets as scikit-learn checks them."""
        raise NotImplementedError

    def _target_moments(self, targets, weights) -> tuple[np.ndarray, np.ndarray]:
        """What is subtracted from targets, and what they are divided by."""
        raise NotImplementedError

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, *, groups=None, observers=(), checkpoint=None):
        """Fit the grades to a table.

        Parameters
        ----------
        X : array, frame of pandas or polars, or sparse matrix, of shape (n_samples, n_features)
            With solver="auto" as it comes: gaps (NaN, None, NA), categories, text, booleans, dates (days since 1970).
            Other solvers read numbers without gaps. A sparse matrix is read as a full one of at most 20 million cells.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Targets; for classifiers one class for each row.
        sample_weight : array of shape (n_samples,) or None
            A row of weight 2 counts like two equal rows.
        groups : array of shape (n_samples,) or None
            Rows of one group are left out together (solver="auto"): rows of one patient never judge each other.
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
        from ..training.record import Outcome, records_to_arrays
        from .fitters import Context, Rows, choose_fitter

        continuing = self.warm_start and self.__sklearn_is_fitted__()
        before = dict(self.__dict__)
        try:
            X, y = self._read_table(X, y, continuing=continuing)
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            if groups is not None:
                groups = np.unique(np.asarray(groups).astype(str), return_inverse=True)[1]
                check_consistent_length(X, groups)
            targets, weights = self._read_targets(y, weights)
            fitter = choose_fitter(self)
            self._check_fit(X, groups, checkpoint, targets.shape[1] if continuing else None)
        except (TypeError, ValueError):
            self.__dict__ = before  # what is refused changes nothing
            raise
        if not continuing:
            for name in ("grades_", "encoding_", "fold_losses_", "_left_out"):
                self.__dict__.pop(name, None)  # what fails or is interrupted leaves nothing that could predict
            self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.loss_ = self._make_loss()
        fitted = fitter(self, Rows(X, targets, weights, groups), Context(continuing, tuple(observers), checkpoint))
        self.grades_, self.encoding_, self.fold_losses_ = fitted.grades, fitted.encoding, fitted.fold_losses
        self._records, self._certificates = records_to_arrays(fitted.records), fitted.certificates
        self._left_out = fitted.left_out
        last = fitted.records[-1]
        if last.outcome is Outcome.DIVERGED:
            remedy = ", or solver='gd' with learning_rate='auto'" if len(last.steps) else ""
            message = f"grade {self.n_grades_} {last.outcome}: {last.sentence}{remedy}"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)
        return self

    def _read_table(self, X, y, *, continuing: bool) -> tuple[np.ndarray, Any]:
        if continuing:
            X = self._read_rows(X)
        else:
            names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
            self.columns_, rows = learn_columns(X, self.categorical_features, names)
            rows = self._checked_rows(rows)
            # The names (and their number) are noted; what the columns hold was read above.
            validate_data(self, X if hasattr(X, "columns") else rows, skip_check_array=True, reset=True)
            X = rows
        with _remedies():
            return X, self._check_targets(X, y)

    def _read_rows(self, X) -> np.ndarray:
        """Rows of other tables than the training rows."""
        rows = self.columns_.read(X)
        if hasattr(X, "columns") or "feature_names_in_" in self.__dict__ or rows.shape[1] != self.n_features_in_:
            validate_data(self, X if hasattr(X, "columns") else rows, skip_check_array=True, reset=False)
        return self._checked_rows(rows)

    def _checked_rows(self, rows) -> np.ndarray:
        if not (isinstance(rows, np.ndarray) and rows.dtype == np.float64 and rows.ndim == 2 and rows.size):
            with _remedies():
                rows = check_array(rows, dtype=np.float64, ensure_all_finite=False, estimator=self)
        largest = np.nanmax(np.abs(rows), initial=0)
        if largest > LARGEST:
            row, column = np.argwhere(np.abs(rows) > LARGEST)[0]
            name, value = self.columns_.names[column], rows[row, column]
            if np.isinf(value):
                raise ValueError(
                    f"Input X contains infinity: column {name!r}, row {row}. Make it a gap (NaN), or limit the column"
                )
            raise ValueError(f"X must be at most about 1e150 in size; got {value:.3g} in column {name!r}")
        return rows

    def _check_fit(self, X, groups, checkpoint, num_outputs: int | None) -> None:
        is_auto = self._is_auto
        if num_outputs is not None and num_outputs != len(self.y_mean_):
            raise ValueError(f"y must have {len(self.y_mean_)} outputs with warm_start=True; got {num_outputs}")
        if is_auto and (checkpoint is not None or self.warm_start):
            raise ValueError("a checkpoint and warm_start need a solver other than 'auto', for example 'muon'")
        if not self.warm_start and checkpoint is not None and not isinstance(self.random_state, numbers.Integral):
            raise ValueError(f"random_state must be an integer with a checkpoint; got {self.random_state!r}")
        if is_auto:
            defaults = type(self)()
            for name in OF_OTHER_SOLVERS:
                own, value = getattr(defaults, name), getattr(self, name)
                if value != own:
                    raise ValueError(
                        f"{name} must be {own!r} with solver='auto', whose members decide on rows that they leave out; "
                        f"got {value!r}"
                    )
            return
        for name, is_given in (("groups", groups is not None), ("time_limit", self.time_limit is not None)):
            if is_given:
                raise ValueError(f"{name} needs solver='auto'; got solver={self.solver!r}")
        if self.columns_.is_category.any():
            name = self.columns_.names[int(np.argmax(self.columns_.is_category))]
            raise ValueError(
                f"could not convert string to float: column {name!r} holds categories. solver='auto' reads them; "
                f"or encode them first (OneHotEncoder)"
            )
        if np.isnan(X).any():
            row, column = np.argwhere(np.isnan(X))[0]
            raise ValueError(
                f"Input X contains NaN: column {self.columns_.names[column]!r}, row {row}. solver='auto' reads gaps; "
                "or fill them first (SimpleImputer)"
            )

    @property
    def _is_auto(self) -> bool:
        return self.solver == "auto" and self.precision == "single"

    def _value(self, name: str):
        """A parameter, with the meaning of "auto" for solvers other than "auto"."""
        value = getattr(self, name)
        return self._auto_values[name] if isinstance(value, str) and value == "auto" else value

    def _standardise(self, X, targets, weights) -> None:
        """Means and scales of inputs and targets; 0 and 1 without ``standardize``, scale 1 for a constant column."""
        if (largest := np.abs(targets).max()) > LARGEST:
            raise ValueError(f"y must be at most about 1e150 in size; got {largest:.3g}")
        is_plain = self.standardize and not self._is_auto  # with solver="auto" the encoding does it
        zero = np.zeros(X.shape[1]), np.ones(X.shape[1])
        for name, (mean, scale) in (
            ("x", weighted_moments(X, weights) if is_plain else zero),
            ("y", self._target_moments(targets, weights)),
        ):
            negligible = scale <= 1e-12 * np.maximum(np.abs(mean), np.finfo(float).tiny)
            setattr(self, f"{name}_mean_", mean)
            setattr(self, f"{name}_scale_", np.where(negligible, 1.0, scale))

    def __sklearn_is_fitted__(self) -> bool:
        return "grades_" in self.__dict__

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = self._is_auto
        tags.input_tags.sparse = True
        return tags

    def _stages(self, X) -> Iterator[np.ndarray]:
        """What the loss predicts from the scores after grade 1, 2, ..., (N, outputs); the mean over members."""
        for scores in self._by_blocks(X, lambda x: [total for total, _ in staged(self.grades_, x)]):
            outputs = self.loss_.predict(scores.astype(np.float64))
            yield outputs if outputs.ndim == 2 else outputs.mean(axis=1)

    def _by_blocks(self, X, function: Callable[[Any], Sequence[np.ndarray]]) -> list[np.ndarray]:
        """The arrays of ``function(inputs of networks)``, by slices of the rows, so that a million fit into memory.

        In double precision, in which what is predicted for a row does not depend on the rows beside it.
        """
        check_is_fitted(self)
        X = self._read_rows(X)
        starts = range(0, len(X), PREDICTED_ROWS)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            blocks: list[Any] = [function(self._network_inputs(X[start : start + PREDICTED_ROWS])) for start in starts]
        parts = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
        if not all(np.isfinite(part).all() for part in parts):
            raise ValueError("the prediction is not finite in float32; X is too far from the training rows")
        return parts

    def _network_inputs(self, X: np.ndarray) -> np.ndarray:
        if self.encoding_ is not None:
            return self.encoding_(X).astype(np.float64)
        if np.isnan(X).any():
            row, column = np.argwhere(np.isnan(X))[0]
            raise ValueError(f"Input X contains NaN: column {self.columns_.names[column]!r}, row {row}")
        x = (X - self.x_mean_) / self.x_scale_
        if not np.isfinite(x.astype(np.float32)).all():
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
        (features,) = self._by_blocks(X, lambda x: [[features for _, features in staged(self.grades_, x)][-1]])
        return features.reshape(len(features), -1).astype(np.float64)

    def effects(self, X, y=None, *, random_state=0):
        """What each column does (solver="auto"): what it adds to the scores of rows in grade 1, exactly, and what it is
        worth to all grades, by exchange between rows.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows to look at; such as the fit has not seen, if ``y`` is to say what columns are worth.
        y : array or None
            Their targets.
        random_state : draws the exchange of rows

        Returns
        -------
        Effects
            Arrays, and a ``figure``.
        """
        from .effects import find_effects

        check_is_fitted(self)
        return find_effects(self, self._read_rows(X), None if y is None else self._targets_of(y), random_state)

    def _targets_of(self, y) -> np.ndarray:
        """Targets (N, s) in the units of the scores."""
        raise NotImplementedError

    @property
    def _n_features_out(self) -> int:
        last = self.grades_[-1]  # a linear grade has the encoded columns as its features, the same for all members
        return last.num_features * (1 if last.is_linear else max(last.num_members, 1))

    @property
    def model_(self):
        """The grades as a ``MultiGrade`` of JAX."""
        check_is_fitted(self)
        return jax_model(self.grades_)

    @property
    def records_(self):
        """What happened in each grade."""
        from ..training.record import records_from_arrays

        check_is_fitted(self)
        return records_from_arrays(*self._records)

    @property
    def certificates_(self) -> tuple:
        """The proof of each grade's optimum, with solver="convex"."""
        check_is_fitted(self)
        return tuple(map(certificate_from, self._certificates))

    @property
    def columns_used_(self) -> list[str]:
        """The names of the columns that play a part in predictions; idle ones are left out with solver="auto"."""
        check_is_fitted(self)
        used = range(self.n_features_in_) if self.encoding_ is None else self.encoding_.columns_used
        return [self.columns_.names[i] for i in used]

    @property
    def codes_(self) -> list[str]:
        """The names of the columns that are read by what the targets of their levels are like."""
        check_is_fitted(self)
        codes: Sequence[int] = () if self.encoding_ is None else np.unique(self.encoding_.code_columns).tolist()
        return [self.columns_.names[i] for i in codes]

    @property
    def n_grades_(self) -> int:
        return len(self.grades_)

    @property
    def n_iter_(self) -> int:
        """Steps taken, over all grades."""
        return sum(end["num_steps"] for end in self._records[1])

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


class _remedies:
    """What scikit-learn says of rows that cannot be read, in one line that says what to do."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, (TypeError, ValueError)):
            line = str(error).splitlines()[0].split(". ")[0].rstrip(".:")
            for text, remedy in REMEDIES.items():
                if text in line:
                    raise ValueError(f"{line}. {remedy}") from None


__all__ = ["CONSTRAINTS", "GRADES_CONSTRAINTS", "GradedEstimator", "check_X_y"]
