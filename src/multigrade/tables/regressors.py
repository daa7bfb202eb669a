"""The three regressors: MultiGradeRegressor (MGDL), SingleGradeRegressor (SGDL), MultiScaleRegressor (MSDL).

Each writes out its own parameters; SGDL and MSDL are structures of one grade.
"""

import numbers
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_X_y
from sklearn.utils._param_validation import Interval, StrOptions

from .base import CONSTRAINTS, GRADES_CONSTRAINTS, SOLVERS, GradedEstimator
from .losses import LOSSES, Loss
from .predictor import ACTIVATIONS
from .rows import weighted_moments

MARGIN = 0.1  # of the range of the targets: so far beyond it predictions of solver="auto" may lie; our choice
REGRESSION_LOSSES = ("squared_error", "absolute_error", "huber", "quantile", "poisson")
REGRESSION_CONSTRAINTS: dict[str, list] = {
    **CONSTRAINTS,
    "loss": [StrOptions(set(REGRESSION_LOSSES))],
    "quantile": [Interval(numbers.Real, 0, 1, closed="neither"), "array-like"],
}


class GradedRegressor(MultiOutputMixin, RegressorMixin, GradedEstimator):
    """What the three regressors share."""

    loss: str
    quantile: Any
    _y_is_flat: bool
    _y_limits: np.ndarray | None

    def _make_loss(self) -> Loss:
        if self.loss in ("absolute_error", "quantile"):
            quantiles = (0.5,) if self.loss == "absolute_error" else tuple(np.atleast_1d(self.quantile).tolist())
            return LOSSES["quantile"](quantiles)
        return LOSSES[self.loss]((1.0,) if self.loss == "huber" else ())

    def _check_targets(self, X, y):
        if y is not None and not hasattr(y, "dtype"):
            y = np.asarray(y)
        try:
            return check_X_y(
                X, y, dtype=None, ensure_all_finite=False, multi_output=True, y_numeric=True, estimator=self
            )[1]
        except ValueError as error:
            if "could not convert" in str(error):
                line = str(error).splitlines()[0]
                raise ValueError(f"y must hold numbers: {line}. For classes there is MultiGradeClassifier") from None
            raise

    def _read_targets(self, y, weights):
        try:
            y = np.asarray(y, np.float64)
        except ValueError as error:
            raise ValueError(f"y must hold numbers: {error}. For classes there is MultiGradeClassifier") from None
        if not np.isfinite(y).all():
            what = "NaN. Leave out rows without a target" if np.isnan(y).any() else "infinity. Leave out such rows"
            raise ValueError(f"Input y contains {what}")
        if self.loss == "poisson" and not np.all(y >= 0):
            raise ValueError(f"y must not be negative with loss='poisson'; got {np.min(y)}")
        self._y_is_flat, y = y.ndim == 1, y.reshape(len(y), -1)
        self._y_limits = _limits(y[weights > 0]) if self._is_auto and np.any(weights) else None
        if self.loss == "quantile" and np.ndim(self.quantile):
            quantiles = np.asarray(self.quantile, float)
            if not (len(quantiles) and np.all((quantiles > 0) & (quantiles < 1)) and np.all(np.diff(quantiles) > 0)):
                raise ValueError(f"quantile must hold rising numbers between 0 and 1; got {self.quantile!r}")
            if y.shape[1] > 1 or not self._is_auto:
                raise ValueError("several quantiles need solver='auto' and one target; fit one model for each")
            self._y_is_flat, y = False, np.repeat(y, len(quantiles), axis=1)
            if self._y_limits is not None:
                self._y_limits = np.repeat(self._y_limits, len(quantiles), axis=1)
        return y, weights

    def _target_moments(self, targets, weights):
        """Mean and deviation; of robust losses the median and the quartile distance, which outliers do not move."""
        if self.loss == "poisson" or not (self.standardize or self._is_auto):
            return np.zeros(targets.shape[1]), np.ones(targets.shape[1])
        if self.loss == "squared_error":
            return weighted_moments(targets, weights)
        quartiles = np.quantile(targets, [0.25, 0.5, 0.75], axis=0, weights=weights, method="inverted_cdf")
        distance = (quartiles[2] - quartiles[0]) / 1.35
        return quartiles[1], np.where(distance > 0, distance, weighted_moments(targets, weights)[1])

    def predict(self, X):
        """What the sum of all grades predicts.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_outputs)
            One dimension or two, as y had in ``fit``; a column for each of several quantiles.
        """
        *_, prediction = self.staged_predict(X)
        return prediction

    def staged_predict(self, X):
        """The prediction after grade 1, 2, ..., in turn.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)

        Returns
        -------
        generator of arrays of shape (n_samples,) or (n_samples, n_outputs)
        """
        for outputs in self._stages(X):
            prediction = outputs * self.y_scale_ + self.y_mean_
            if self._y_limits is not None:
                prediction = np.clip(prediction, *self._y_limits)
            if len(self.loss_.parameter) > 1:
                prediction = np.sort(prediction, axis=1)  # quantiles do not cross (Chernozhukov et al., 2010)
            yield prediction[:, 0] if self._y_is_flat else prediction

    def predict_interval(self, X, coverage: float = 0.9):
        """Intervals that hold so large a share of new targets, if these are like the training rows (solver="auto").

        The half width is a quantile of the errors that members made on the rows they had left out (split conformal
        prediction: Papadopoulos et al., 2002); it is the same for all rows.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
        coverage : share of the targets inside

        Returns
        -------
        low, high : arrays of the shape of ``predict``
        """
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must be between 0 and 1; got {coverage!r}")
        prediction = self.predict(X)
        if self._left_out is None or len(self.loss_.parameter) > 1:
            raise ValueError("predict_interval needs solver='auto' and one prediction for each target")
        num = len(self.y_mean_)
        errors = np.abs(self._left_out[:, :num] - self._left_out[:, num : 2 * num]) * self.y_scale_
        weights = self._left_out[:, -1]
        share = coverage * (1 + np.max(weights) / np.sum(weights))  # as if the new row's error were among them
        if share > 1:
            raise ValueError(f"coverage must be below {coverage / share:.3f} for {len(weights)} training rows")
        half = np.quantile(errors, share, axis=0, weights=weights, method="inverted_cdf")
        half = half[0] if self._y_is_flat else half
        return prediction - half, prediction + half

    def _targets_of(self, y):
        targets = np.asarray(y, np.float64).reshape(len(y), -1)
        return (np.broadcast_to(targets, (len(y), len(self.y_mean_))) - self.y_mean_) / self.y_scale_

    def _learned(self) -> dict:
        return {"y_is_flat": self._y_is_flat, "y_limits": None if self._y_limits is None else self._y_limits.tolist()}

    def _set_learned(self, learned: dict) -> None:
        self._y_is_flat, limits = learned["y_is_flat"], learned.get("y_limits")
        if limits is not None and np.shape(limits) != (2, len(self.y_mean_)):
            raise ValueError(f"y_limits must be two for each of {len(self.y_mean_)} targets; got {limits!r}")
        self._y_limits = None if limits is None else np.array(limits, float)


class MultiGradeRegressor(GradedRegressor):
    """Multi-grade deep learning (MGDL): shallow networks, each fitted to what the earlier ones leave over.

    Parameters
    ----------
    n_grades : int or "auto"
        Number of grades. With solver="auto" it is the largest number that may be kept, grade 1 included. "auto" is 3.
    hidden_layer_sizes : int, tuple of int, list of such tuples, or "auto"
        Widths of the hidden layers of each grade. A list has one tuple per grade (not with solver="auto"). "auto" is
        (64, 64), and (128, 128) with solver="auto" and 4096 or more rows.
    loss : str
        squared_error, absolute_error (the median), huber (bent where an error passes the quartile distance of y over
        1.35), quantile, or poisson (counts y >= 0). A
        grade adds to the scores of the grades before it, and the loss sees the sum.
    quantile : float or list of float
        Which quantile loss="quantile" predicts; several with solver="auto", which then do not cross. Other losses
        do not read it.
    activation : str, list of str, or "auto"
        One of relu, tanh, softplus, gelu, silu, sine, gauss, srelu, s2relu, bspline, or a list of one per grade
        (not with solver="auto").
        "auto" is silu with solver="auto" and relu otherwise.
    solver : str
        "auto" is made for tables. It decides everything on training rows that it leaves out. Grade 1 is linear in the
        columns, in their quantile bins, in what the levels of codes are like, and (below 4096 rows) in random sines or
        steps of them, and it is solved. Idle columns of wide tables are left out. Further grades
        are networks, trained by Adam with dropout. Eight members (four from 4096 rows on) are trained in one compiled
        program; each leaves out an eighth of the rows. A grade that does not surely lower the loss on the rows left out
        is not added. The prediction is the mean of the members. It lies at most a tenth of the range of y beyond that
        range. standardize, residual_scaling, early_stopping and what belongs to it must keep their defaults; warm_start
        and a checkpoint are refused.
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
    categorical_features : array-like or "auto"
        Columns of categories (solver="auto"): names, numbers or a mask. "auto" takes those of text, of dtype category,
        and finds columns of numbers that are codes by the rows left out.
    time_limit : float or None
        Seconds after which networks end where they are (solver="auto"). Grade 1 is always solved.
    warm_start : bool
        A further ``fit`` with a larger ``n_grades`` adds grades to those fitted before. It keeps their scales of inputs
        and targets and their seed. A last grade that diverged is fitted again.
    random_state : int, RandomState or None
        Draws the initial weights and the batches. A fit with a checkpoint needs an integer.
    verbose : int
        Above 0, show the live view.

    Attributes
    ----------
    grades_ : tuple of FittedGrade
        The grades, in NumPy; ``model_`` makes a ``MultiGrade`` of them.
    columns_used_, codes_ : list of str
        Columns that play a part, and those that are read by what the targets of their levels are like.
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
        **REGRESSION_CONSTRAINTS,
        **GRADES_CONSTRAINTS,
        "solver": [StrOptions({*SOLVERS, "auto", "convex"})],
        "precision": [StrOptions({"single", "high"})],
        "residual_scaling": ["boolean"],
        "solved_output": ["boolean"],
    }
    _auto_values: ClassVar[dict] = {
        "n_grades": 3, "hidden_layer_sizes": (64, 64), "activation": "relu", "alpha": 1e-3, "max_iter": 300,
    }  # fmt: skip

    def __init__(
        self,
        n_grades="auto",
        hidden_layer_sizes="auto",
        *,
        loss="squared_error",
        quantile=0.5,
        activation="auto",
        solver="auto",
        learning_rate=None,
        alpha="auto",
        max_iter="auto",
        batch_size="auto",
        precision="single",
        residual_scaling=True,
        solved_output=False,
        standardize=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=20,
        tol=0.0001,
        categorical_features="auto",
        time_limit=None,
        warm_start=False,
        random_state=None,
        verbose=0,
    ):
        self.n_grades = n_grades
        self.hidden_layer_sizes = hidden_layer_sizes
        self.loss = loss
        self.quantile = quantile
        self.activation = activation
        self.solver = solver
        self.learning_rate = learning_rate
        self.alpha = alpha
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.precision = precision
        self.residual_scaling = residual_scaling
        self.solved_output = solved_output
        self.standardize = standardize
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.categorical_features = categorical_features
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _check_fit(self, X, groups, checkpoint, num_outputs) -> None:
        super()._check_fit(X, groups, checkpoint, num_outputs)
        is_descent = self.precision == "single" and self.solver not in ("auto", "convex")
        if self.solved_output and not (is_descent and self.loss == "squared_error"):
            raise ValueError(
                "solved_output must be False but for loss='squared_error', precision='single' and a solver that "
                f"descends, for example 'muon'; got {self.loss!r}, {self.precision!r} and {self.solver!r}"
            )


class SingleGradeRegressor(GradedRegressor):
    """Standard deep learning (SGDL): one network, trained at once.

    Parameters
    ----------
    hidden_layer_sizes : int, tuple of int or "auto"
        Widths of the hidden layers. "auto" is six times 64.
    loss : str
        squared_error, absolute_error (the median), huber (bent where an error passes the quartile distance of y over
        1.35), quantile, or poisson (counts y >= 0).
    quantile : float
        Which quantile loss="quantile" predicts. Other losses do not read it.
    activation : str or "auto"
        One of relu, tanh, softplus, gelu, silu, sine, gauss, srelu, s2relu, bspline. "auto" is relu.
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

    _parameter_constraints: ClassVar[dict] = REGRESSION_CONSTRAINTS
    _auto_values: ClassVar[dict] = {
        "hidden_layer_sizes": (64,) * 6, "activation": "relu", "alpha": 1e-3, "max_iter": 900,
    }  # fmt: skip

    def __init__(
        self,
        hidden_layer_sizes="auto",
        *,
        loss="squared_error",
        quantile=0.5,
        activation="auto",
        solver="muon",
        learning_rate=None,
        alpha="auto",
        max_iter="auto",
        batch_size="auto",
        standardize=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=20,
        tol=0.0001,
        random_state=None,
        verbose=0,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.loss = loss
        self.quantile = quantile
        self.activation = activation
        self.solver = solver
        self.learning_rate = learning_rate
        self.alpha = alpha
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.standardize = standardize
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose


class MultiScaleRegressor(GradedRegressor):
    """Multi-scale deep learning (MSDL): sub-networks on the input times each of ``scales``, outputs summed.

    Parameters
    ----------
    hidden_layer_sizes : int, tuple of int or "auto"
        Widths of the hidden layers of each sub-network. "auto" is three times 32.
    scales : array-like of float
        What the input of each sub-network is multiplied by.
    loss : str
        squared_error, absolute_error (the median), huber (bent where an error passes the quartile distance of y over
        1.35), quantile, or poisson (counts y >= 0).
    quantile : float
        Which quantile loss="quantile" predicts. Other losses do not read it.
    activation : str or "auto"
        One of relu, tanh, softplus, gelu, silu, sine, gauss, srelu, s2relu, bspline. "auto" is relu.
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
        **REGRESSION_CONSTRAINTS,
        "activation": [StrOptions({*ACTIVATIONS, "auto"})],
        "scales": ["array-like"],
    }
    _auto_values: ClassVar[dict] = {
        "hidden_layer_sizes": (32, 32, 32), "activation": "relu", "alpha": 1e-3, "max_iter": 900,
    }  # fmt: skip

    def __init__(
        self,
        hidden_layer_sizes="auto",
        *,
        loss="squared_error",
        quantile=0.5,
        activation="auto",
        solver="muon",
        learning_rate=None,
        alpha="auto",
        max_iter="auto",
        batch_size="auto",
        scales=(1.0, 2.0, 4.0, 8.0),
        standardize=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=20,
        tol=0.0001,
        random_state=None,
        verbose=0,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.loss = loss
        self.quantile = quantile
        self.activation = activation
        self.solver = solver
        self.learning_rate = learning_rate
        self.alpha = alpha
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.scales = scales
        self.standardize = standardize
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose


def _limits(y: np.ndarray) -> np.ndarray:
    """The range of each target and a tenth of it beyond, (2, targets): no row's error then outweighs all others."""
    low, high = y.min(axis=0), y.max(axis=0)
    return np.stack([low - MARGIN * (high - low), high + MARGIN * (high - low)])
