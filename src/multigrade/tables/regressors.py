"""The three regressors: MultiGradeRegressor (MGDL), SingleGradeRegressor (SGDL), MultiScaleRegressor (MSDL).

Each gives its own parameters and its structure; SGDL and MSDL are structures of one grade.
"""

import numbers
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions

from .. import structures
from ..model import Grade, MultiGrade
from ..networks import ACTIVATIONS, MultiScaleNetwork, Network
from ..training import OPTIMISERS, fit_high_precision
from ..training.objectives import LOSSES, Loss
from ..training.record import RunRecord
from .base import GradedEstimator
from .parameters import ManyGrades, OneGrade, widths

MARGIN = 0.1  # of the range of the targets: so far beyond it predictions of solver="auto" may lie; our choice
REGRESSION_LOSSES = ("squared_error", "huber", "quantile", "poisson")


@dataclass(eq=False, repr=False)
class GradedRegressor(MultiOutputMixin, RegressorMixin, GradedEstimator):
    """What the three regressors share; a subclass gives its own parameters and its structure."""

    _parameter_constraints: ClassVar[dict] = {
        "loss": [StrOptions(set(REGRESSION_LOSSES))],
        "quantile": [Interval(numbers.Real, 0, 1, closed="neither")],
    }
    _y_checks: ClassVar[dict] = {"multi_output": True, "y_numeric": True}

    _: KW_ONLY
    loss: str = "squared_error"
    quantile: float = 0.5

    def _loss(self) -> Loss:
        options = {"quantile": self.quantile} if self.loss == "quantile" else {}
        return LOSSES[self.loss](**options)

    def _is_target_scaled(self) -> bool:
        return self.loss != "poisson" and (self.standardize or self.solver == "auto")

    def _read_targets(self, y, weights):
        try:
            y = np.asarray(y, np.float64)
        except ValueError as error:
            raise ValueError(f"y must hold numbers: {error}. For classes there is MultiGradeClassifier") from None
        if self.loss == "poisson" and not np.all(y >= 0):
            raise ValueError(f"y must not be negative with loss='poisson'; got {np.min(y)}")
        self._y_is_flat, y = y.ndim == 1, y.reshape(len(y), -1)
        self._y_limits = _limits(y[weights > 0]) if self._is_auto() and np.any(weights) else None
        return y, weights

    def predict(self, X):
        """What the sum of all grades predicts.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_outputs)
            One dimension or two, as y had in ``fit``.
        """
        *_, prediction = self.staged_predict(X)
        return prediction

    def staged_predict(self, X):
        """The prediction after grade 1, 2, ..., in turn.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        generator of arrays of shape (n_samples,) or (n_samples, n_outputs)
        """
        for outputs in self._stages(X):
            prediction = outputs * self.y_scale_ + self.y_mean_
            if self._y_limits is not None:
                prediction = np.clip(prediction, *self._y_limits)
            yield prediction[:, 0] if self._y_is_flat else prediction

    def _learned(self) -> dict:
        return {"y_is_flat": self._y_is_flat, "y_limits": None if self._y_limits is None else self._y_limits.tolist()}

    def _set_learned(self, learned: dict) -> None:
        self._y_is_flat, limits = learned["y_is_flat"], learned.get("y_limits")
        if limits is not None and np.shape(limits) != (2, len(self.y_mean_)):
            raise ValueError(f"y_limits must be two for each of {len(self.y_mean_)} targets; got {limits!r}")
        self._y_limits = None if limits is None else np.array(limits, float)


@dataclass(eq=False, repr=False)
class MultiGradeRegressor(ManyGrades, GradedRegressor):
    """Multi-grade deep learning (MGDL): shallow networks, each fitted to what the earlier ones leave over.

    Parameters
    ----------
    n_grades : int or "auto"
        Number of grades. With solver="auto" it is the largest number that may be kept, grade 1 included. "auto" is 3.
    hidden_layer_sizes : tuple of int, list of such tuples, or "auto"
        Widths of the hidden layers of each grade. A list has one tuple per grade (not with solver="auto"). "auto" is
        (64, 64), and (128, 128) with solver="auto" and 4096 or more rows.
    loss : str
        squared_error, huber (with its bend at one standard deviation of y), quantile, or poisson (counts y >= 0). A
        grade adds to the scores of the grades before it, and the loss sees the sum.
    quantile : float
        Which quantile loss="quantile" predicts. Other losses do not read it.
    activation : str, list of str, or "auto"
        One of relu, tanh, softplus, gelu, silu, sine, gauss, or a list of one per grade (not with solver="auto").
        "auto" is silu with solver="auto" and relu otherwise.
    solver : str
        "auto" is made for tables. It decides everything on training rows that it leaves out. Grade 1 is linear in the
        columns, in their quantile bins and (below 4096 rows) in random sines of both, and it is solved. Further grades
        are networks, trained by Adam with dropout. Eight members (four from 4096 rows on) are trained in one compiled
        program; each leaves out an eighth of the rows. A grade that does not surely lower the loss on the rows left out
        is not added. The prediction is the mean of the members. It lies at most a tenth of the range of y beyond that
        range. standardize, residual_scaling, early_stopping and what belongs to it play no part; warm_start and a
        checkpoint are refused.
        gd, momentum, adam, muon and lbfgs train one network per grade for ``max_iter`` steps. They are for functions
        without noise, and for the paper's methods.
        convex solves every grade as a two-layer ReLU network of the best width to its global optimum, which
        ``certificates_`` proves. hidden_layer_sizes, activation, learning_rate, max_iter, batch_size and
        residual_scaling play no part, nor do the observers and checkpoint of ``fit``.
    learning_rate : float, "auto", schedule or None
        A number is the peak of a warm-up and cosine schedule for auto, adam, muon and momentum, and constant for gd. An
        optax schedule is taken as it is. "auto" (gd, momentum, adam) is the largest rate that the curvature allows,
        looked at again as the grade goes on. None is the solver's default.
    alpha : float or "auto"
        Weight decay: alpha/2 times the sum of squared weights of a grade is added to the loss of its standardised
        targets, or with ``residual_scaling`` of the residual divided by epsilon_l. "auto" is 1e-3, and 0 with
        solver="auto", which has dropout instead.
    max_iter : int or "auto"
        Steps per grade. "auto" is 300. With solver="auto" it is 3000 at most, and the rows left out decide how many are
        taken and kept.
    batch_size : int, "auto" or None
        Rows per step. "auto" takes all up to 4096 rows and 1024 random ones beyond; with solver="auto" it takes 64, and
        256 from 4096 rows on. None takes all (not with solver="auto").
    precision : "single" or "high"
        "high" fits grades of sine features whose frequencies follow the spectrum of what is left over. Output layers
        are solved in float64, and leave-one-out makes every choice (``multigrade.training.fit_high_precision``). It is
        made for functions of one to six inputs, smooth or oscillating, exact or noisy. Of the other parameters only
        standardize and random_state play a part; ``n_grades_`` follows the data.
    residual_scaling : bool
        Divide the residual of each grade after the first by its root mean square, epsilon_l. Only the squared error has
        residuals.
    solved_output : bool
        End each grade with the output layer that least squares give on its features, in float64. For the squared error
        and solvers that descend; "auto", "convex" and precision="high" solve what is linear by themselves.
    standardize : bool
        Shift and scale inputs and targets to mean 0 and standard deviation 1.
    early_stopping : bool
        Hold out ``validation_fraction`` of the rows. End a grade after ``n_iter_no_change`` records (max_iter / 100
        steps each) without a relative improvement of ``tol``, and keep its best parameters. A grade whose lowest
        validation loss is not below that of the grade before is left out, with its record, and none follows:
        ``n_grades_`` may be less than ``n_grades``.
    validation_fraction, n_iter_no_change, tol : float, int, float
        See ``early_stopping``.
    warm_start : bool
        A further ``fit`` with a larger ``n_grades`` adds grades to those fitted before. It keeps their scales of inputs
        and targets and their seed. A last grade that diverged is fitted again.
    random_state : int, RandomState or None
        Draws the initial weights and the batches. A fit with a checkpoint needs an integer.
    verbose : int
        Above 0, show the live view.

    Attributes
    ----------
    model_ : MultiGrade
        The grades.
    records_ : tuple of RunRecord
        What happened in each grade.
    fold_losses_ : tuple of float
        solver="auto": the loss on the rows left out, before any grade and after each.
    certificates_ : tuple
        solver="convex": the proof of each grade's optimum.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = MultiGradeRegressor(max_iter=100, random_state=0).fit(X, 3 * X[:, 0] + 1)
    >>> model.predict([[0.5]]).round(2)
    array([2.5])
    """

    _parameter_constraints: ClassVar[dict] = {
        "solver": [StrOptions({*OPTIMISERS, "auto", "convex"})],
        "precision": [StrOptions({"single", "high"})],
        "residual_scaling": ["boolean"],
        "solved_output": ["boolean"],
    }

    _: KW_ONLY
    precision: str = "single"
    residual_scaling: bool = True
    solved_output: bool = False

    def _check_fit(self, continuing: bool, checkpoint, num_outputs: int) -> None:
        super()._check_fit(continuing, checkpoint, num_outputs)
        is_descent = self.precision == "single" and self.solver not in ("auto", "convex")
        if self.solved_output and not (is_descent and self.loss == "squared_error"):
            raise ValueError(
                "solved_output must be False but for loss='squared_error', precision='single' and a solver that "
                f"descends, for example 'muon'; got {self.loss!r}, {self.precision!r} and {self.solver!r}"
            )

    def _fit_grades(self, rows, held_out, full_batch, continuing, observers, checkpoint) -> None:
        if self.precision == "high":
            return self._fit_sines(rows, continuing, checkpoint)
        if self.solver != "convex":
            return super()._fit_grades(rows, held_out, full_batch, continuing, observers, checkpoint)
        if self.early_stopping:
            raise ValueError("early_stopping must be False with solver='convex': a grade is solved, not trained")
        if self.loss != "squared_error":
            raise ValueError(
                f"loss must be 'squared_error' with solver='convex', whose certificate is of it; got {self.loss!r}"
            )
        if not self._value("alpha") > 0:
            raise ValueError(f"alpha must be positive with solver='convex'; got {self.alpha!r}")
        self._solve_grades(rows, *self._so_far(continuing, self._value("n_grades")))

    def _fit_sines(self, rows, continuing: bool, checkpoint) -> None:
        for name, is_given in (("early_stopping", self.early_stopping), ("warm_start", continuing)):
            if is_given:
                raise ValueError(f"{name} must be False with precision='high': leave-one-out decides on grades")
        if checkpoint is not None:
            raise ValueError("checkpoint must be None with precision='high': a fit is not continued")
        x, targets, weights = self._scaled(rows)
        on_grade = _print_solved if self.verbose else None
        fit = fit_high_precision(x, targets, sample_weight=weights, seed=self._seed, on_grade=on_grade)
        self.model_, self.records_, self.certificates_ = fit.model, fit.records, ()

    def _solve_grades(self, rows, model: MultiGrade, records: tuple, certificates: tuple) -> None:
        from ..convex import PatternSearch, fit_convex_grades

        x, targets, weights = self._scaled(rows)
        residual = targets - (np.asarray(model(jnp.asarray(x, jnp.float32)), np.float64) if model.grades else 0)
        features = np.asarray(model.features(jnp.asarray(x, jnp.float32)), np.float64)
        total = float(np.sum(weights))
        num_grades = self._value("n_grades")
        if num_grades > len(model.grades):
            fit = fit_convex_grades(
                features,
                residual,
                num_grades=num_grades - len(model.grades),
                # Our loss is a mean, that of the convex program a sum: alpha times the sum of the weights is the same.
                regularisation=self._value("alpha") * total,
                sample_weight=weights,
                search=PatternSearch(seed=self._seed),
                on_grade=_print_certificate if self.verbose else None,
            )
            for grade, stage in zip(fit.grades, fit.staged_predict(features), strict=True):
                params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), grade.params)
                model = model.add(Grade(grade.network, params, jnp.float32(1)))
                loss = 0.5 * np.sum(weights[:, None] * (residual - stage) ** 2) / total
                certificate = grade.certificate
                columns = {
                    "step": np.array([certificate.iterations], np.int32),
                    "train_loss": np.array([loss], np.float32),
                }
                records = (*records, RunRecord(columns, sentence=str(certificate), num_steps=certificate.iterations))
                certificates = (*certificates, certificate)
        self.model_, self.records_, self.certificates_ = model, records, certificates


@dataclass(eq=False, repr=False)
class SingleGradeRegressor(OneGrade, GradedRegressor):
    """Standard deep learning (SGDL): one network, trained at once.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or "auto"
        Widths of the hidden layers. "auto" is six times 64.
    loss : str
        squared_error, huber (with its bend at one standard deviation of y), quantile, or poisson (counts y >= 0).
    quantile : float
        Which quantile loss="quantile" predicts. Other losses do not read it.
    activation : str or "auto"
        One of relu, tanh, softplus, gelu, silu, sine, gauss. "auto" is relu.
    solver : str
        gd, momentum, adam, muon or lbfgs.
    learning_rate : float, "auto", schedule or None
        A number is the peak of a warm-up and cosine schedule for adam, muon and momentum, and constant for gd. An
        optax schedule is taken as it is. "auto" (gd, momentum, adam) is the largest rate that the curvature allows.
        None is the solver's default.
    alpha : float or "auto"
        Weight decay: alpha/2 times the sum of squared weights is added to the loss. "auto" is 1e-3.
    max_iter : int or "auto"
        Steps. "auto" is 900.
    batch_size : int, "auto" or None
        Rows per step. "auto" takes all up to 4096 rows and 1024 random ones beyond. None takes all.
    standardize : bool
        Shift and scale inputs and targets to mean 0 and standard deviation 1.
    early_stopping : bool
        Hold out ``validation_fraction`` of the rows. Stop after ``n_iter_no_change`` records (max_iter / 100 steps
        each) without a relative improvement of ``tol``, and keep the best parameters.
    validation_fraction, n_iter_no_change, tol : float, int, float
        See ``early_stopping``.
    random_state : int, RandomState or None
        Draws the initial weights and the batches. A fit with a checkpoint needs an integer.
    verbose : int
        Above 0, show the live view.
    """


@dataclass(eq=False, repr=False)
class MultiScaleRegressor(OneGrade, GradedRegressor):
    """Multi-scale deep learning (MSDL): sub-networks on the input times each of ``scales``, outputs summed.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or "auto"
        Widths of the hidden layers of each sub-network. "auto" is three times 32.
    scales : array-like of float
        What the input of each sub-network is multiplied by.
    loss : str
        squared_error, huber (with its bend at one standard deviation of y), quantile, or poisson (counts y >= 0).
    quantile : float
        Which quantile loss="quantile" predicts. Other losses do not read it.
    activation : str or "auto"
        One of relu, tanh, softplus, gelu, silu, sine, gauss. "auto" is relu.
    solver : str
        gd, momentum, adam, muon or lbfgs.
    learning_rate : float, "auto", schedule or None
        A number is the peak of a warm-up and cosine schedule for adam, muon and momentum, and constant for gd. An
        optax schedule is taken as it is. "auto" (gd, momentum, adam) is the largest rate that the curvature allows.
        None is the solver's default.
    alpha : float or "auto"
        Weight decay: alpha/2 times the sum of squared weights is added to the loss. "auto" is 1e-3.
    max_iter : int or "auto"
        Steps. "auto" is 900.
    batch_size : int, "auto" or None
        Rows per step. "auto" takes all up to 4096 rows and 1024 random ones beyond. None takes all.
    standardize : bool
        Shift and scale inputs and targets to mean 0 and standard deviation 1.
    early_stopping : bool
        Hold out ``validation_fraction`` of the rows. Stop after ``n_iter_no_change`` records (max_iter / 100 steps
        each) without a relative improvement of ``tol``, and keep the best parameters.
    validation_fraction, n_iter_no_change, tol : float, int, float
        See ``early_stopping``.
    random_state : int, RandomState or None
        Draws the initial weights and the batches. A fit with a checkpoint needs an integer.
    verbose : int
        Above 0, show the live view.
    """

    _parameter_constraints: ClassVar[dict] = {
        "activation": [StrOptions({*ACTIVATIONS, "auto"})],
        "scales": ["array-like"],
    }

    _auto_values: ClassVar[dict] = {**OneGrade._auto_values, "hidden_layer_sizes": (32, 32, 32)}

    _: KW_ONLY
    scales: Any = (1.0, 2.0, 4.0, 8.0)

    def _structure(self, n_inputs: int, n_outputs: int) -> structures.Structure:
        layers = (n_inputs, *widths(self._value("hidden_layer_sizes")), n_outputs)
        scales = tuple(float(scale) for scale in self.scales)
        return (MultiScaleNetwork(Network(layers, self._value("activation")), scales),)


def _limits(y: np.ndarray) -> np.ndarray:
    """The range of each target and a tenth of it beyond, (2, targets): no row's error then outweighs all others."""
    low, high = y.min(axis=0), y.max(axis=0)
    return np.stack([low - MARGIN * (high - low), high + MARGIN * (high - low)])


def _print_certificate(number: int, grade) -> None:
    print(f"grade {number}: {grade.certificate}")


def _print_solved(record: RunRecord) -> None:
    error = record.columns["leave_one_out"][0]
    print(f"{record.sentence}: leave-one-out error {error:.1e} of the standardised targets")
