"""The parameters of the estimators, what a fit learns, and the scales of inputs and targets."""

import numbers
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from .. import structures
from ..model import MultiGrade
from ..networks import ACTIVATIONS
from ..training import OPTIMISERS
from ..training.objectives import Loss
from ..training.record import RunRecord
from .encoding import Encoding
from .rows import weighted_moments

AUTO = StrOptions({"auto"})

LARGEST = 1e150  # of inputs and targets: squares must not overflow


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
    _seed: int  # of everything random in the fit
    # Column names of a table, kept in saved files for the command line.
    target_names: list[str] | None = None
    # A parameter of every constructor, but not the first of all.
    hidden_layer_sizes: Any


# Estimators are dataclasses for the sake of their constructors: a parameter and its default stand in one place.
@dataclass(eq=False, repr=False)
class Parameters(Learned, BaseEstimator):
    """The parameters that all constructors share, and what they mean."""

    _parameter_constraints: ClassVar[dict] = {
        "hidden_layer_sizes": ["array-like", AUTO],
        "activation": [StrOptions({*ACTIVATIONS, "auto"}), list, tuple],
        "solver": [StrOptions({*OPTIMISERS, "auto"})],
        "learning_rate": [Interval(numbers.Real, 0, None, closed="neither"), StrOptions({"auto"}), callable, None],
        "alpha": [Interval(numbers.Real, 0, None, closed="left"), AUTO],
        "max_iter": [Interval(numbers.Integral, 1, 2**31 - 1, closed="both"), AUTO],
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
    _auto_values: ClassVar[dict] = {}

    def __init_subclass__(cls, **options):
        """A class states its own constraints, and has those of the classes before it."""
        super().__init_subclass__(**options)
        stated = [vars(base).get("_parameter_constraints", {}) for base in reversed(cls.__mro__)]
        cls._parameter_constraints = {name: rule for rules in stated for name, rule in rules.items()}

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

    def _structure(self, n_inputs: int, n_outputs: int) -> structures.Structure:
        raise NotImplementedError

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _is_auto(self) -> bool:
        return self.solver == "auto" and getattr(self, "precision", "single") == "single"

    def _value(self, name: str):
        """A parameter, with the meaning of "auto" for solvers other than "auto"."""
        value = getattr(self, name)
        return self._auto_values[name] if isinstance(value, str) and value == "auto" else value

    def _standardise(self, X, targets, weights) -> None:
        """Means and scales of inputs and targets; 0 and 1 without ``standardize``, scale 1 for a constant column."""
        for name, columns in (("x", X), ("y", targets)):
            if (largest := np.abs(columns).max()) > LARGEST:
                raise ValueError(
                    f"{'X' if name == 'x' else name} must be at most about 1e150 in size; got {largest:.3g}"
                )
            mean, scale = weighted_moments(columns, weights)
            negligible = scale <= 1e-12 * np.maximum(np.abs(mean), np.finfo(float).tiny)
            scale = np.where(negligible, 1.0, scale)
            if not (self.standardize if name == "x" else self._is_target_scaled()):
                mean, scale = np.zeros_like(mean), np.ones_like(scale)
            setattr(self, f"{name}_mean_", mean)
            setattr(self, f"{name}_scale_", scale)

    def _is_target_scaled(self) -> bool:
        return self.standardize

    def _scaled(self, rows):
        X, targets, weights = rows
        return (X - self.x_mean_) / self.x_scale_, (targets - self.y_mean_) / self.y_scale_, weights


@dataclass(eq=False, repr=False)
class ManyGrades(Parameters):
    """What MGDL's estimators share: one network per grade, from n_grades, hidden_layer_sizes and activation."""

    _parameter_constraints: ClassVar[dict] = {
        "n_grades": [Interval(numbers.Integral, 1, None, closed="left"), AUTO],
        "warm_start": ["boolean"],
    }
    _auto_values: ClassVar[dict] = {
        "n_grades": 3, "hidden_layer_sizes": (64, 64), "activation": "relu", "alpha": 1e-3, "max_iter": 300,
    }  # fmt: skip

    n_grades: Any = "auto"
    hidden_layer_sizes: Any = "auto"
    _: KW_ONLY
    warm_start: bool = False

    def _structure(self, n_inputs: int, n_outputs: int) -> structures.Structure:
        sizes, num_grades = list(self._value("hidden_layer_sizes")), self._value("n_grades")
        per_grade = sizes if sizes and np.ndim(sizes[0]) else [tuple(sizes)] * num_grades
        if len(per_grade) != num_grades:
            raise ValueError(
                f"hidden_layer_sizes must be one tuple of widths or one per grade ({num_grades}); got {sizes!r}"
            )
        hidden = [widths(layers) for layers in per_grade]
        return structures.graded(n_inputs, hidden, n_outputs, activation=self._value("activation"))


@dataclass(eq=False, repr=False)
class OneGrade(Parameters):
    """What SGDL's estimators share: one network, trained at once."""

    _parameter_constraints: ClassVar[dict] = {"solver": [StrOptions(set(OPTIMISERS))]}
    _auto_values: ClassVar[dict] = {
        "hidden_layer_sizes": (64,) * 6,
        "activation": "relu",
        "alpha": 1e-3,
        "max_iter": 900,
    }

    hidden_layer_sizes: Any = "auto"
    _: KW_ONLY
    solver: str = "muon"

    def _structure(self, n_inputs: int, n_outputs: int) -> structures.Structure:
        hidden = [widths(self._value("hidden_layer_sizes"))]
        return structures.graded(n_inputs, hidden, n_outputs, activation=self._value("activation"))


def widths(layers) -> tuple[int, ...]:
    """Widths of hidden layers as given by a user."""
    layers = tuple(layers)
    if not layers or any(not isinstance(w, numbers.Integral) or w < 1 for w in layers):
        raise ValueError(f"hidden_layer_sizes must hold positive integers; got {layers!r}")
    return tuple(int(w) for w in layers)
