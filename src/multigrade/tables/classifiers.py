"""The classifiers: MultiGradeClassifier (MGDL) and SingleGradeClassifier (SGDL), by cross-entropy.

A grade adds to the scores of the classes, and the logistic (two classes) or multinomial loss sees the sum.
"""

import math
import numbers
from typing import ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_X_y, compute_sample_weight
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets

from .base import CONSTRAINTS, GRADES_CONSTRAINTS, SOLVERS, GradedEstimator
from .losses import Logistic, Loss, Multinomial

CLASS_WEIGHT: dict[str, list] = {"class_weight": [dict, StrOptions({"balanced"}), None]}


class GradedClassifier(ClassifierMixin, GradedEstimator):
    """What the classifiers share."""

    class_weight: dict | str | None
    classes_: np.ndarray

    def _make_loss(self) -> Loss:
        return Logistic() if len(self.classes_) == 2 else Multinomial()

    def _check_targets(self, X, y):
        if y is not None and not hasattr(y, "dtype"):
            y = np.asarray(y)
        return check_X_y(X, y, dtype=None, ensure_all_finite=False, estimator=self)[1]

    def _target_moments(self, targets, weights):
        return np.zeros(targets.shape[1]), np.ones(targets.shape[1])

    def _read_targets(self, y, weights):
        kinds = sorted({"None" if label is None else type(label).__name__ for label in y.tolist()})
        if len(kinds) > 1:
            raise ValueError(f"y must hold classes of one kind; got {', '.join(kinds)}. Leave out rows without a class")
        check_classification_targets(y)
        classes, index = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must have at least two classes; got the one class {classes.tolist()[0]!r}")
        if self.warm_start and self.__sklearn_is_fitted__() and not np.array_equal(classes, self.classes_):
            raise ValueError("y must have the same classes as before with warm_start=True")
        if isinstance(self.class_weight, dict):
            for label, weight in self.class_weight.items():
                if not (isinstance(weight, numbers.Real) and math.isfinite(weight) and weight >= 0):
                    raise ValueError(f"class_weight must hold numbers of at least 0; got {weight!r} for {label!r}")
        self.classes_ = classes
        targets = index[:, None] if len(classes) == 2 else np.eye(len(classes))[index]
        return targets.astype(np.float64), weights * compute_sample_weight(self.class_weight, y)

    def predict(self, X):
        """The most likely class of each row.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
        """
        chosen = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[chosen]

    def predict_proba(self, X) -> np.ndarray:
        """The chances of the classes.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_classes)
            In the order of ``classes_``; a row sums to 1.
        """
        return list(self._stages(X))[-1]

    def predict_log_proba(self, X) -> np.ndarray:
        """The logarithms of the chances.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))

    def decision_function(self, X):
        """Scores that are highest for the class that is predicted.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            Two classes: the logarithm of the odds of the second one. More: the logarithms of the chances.
        """
        logarithms = self.predict_log_proba(X)
        return logarithms[:, 1] - logarithms[:, 0] if len(self.classes_) == 2 else logarithms

    def staged_predict_proba(self, X):
        """The chances after grade 1, 2, ..., in turn.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        generator of arrays of shape (n_samples, n_classes)
        """
        yield from self._stages(X)

    def staged_predict(self, X):
        """The most likely classes after grade 1, 2, ..., in turn.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        generator of arrays of shape (n_samples,)
        """
        for chances in self._stages(X):
            yield self.classes_[np.argmax(chances, axis=1)]

    def _targets_of(self, y) -> np.ndarray:
        index = np.searchsorted(self.classes_, y)
        return np.asarray(index[:, None] if len(self.classes_) == 2 else np.eye(len(self.classes_))[index], np.float64)

    def _learned(self) -> dict:
        return {"classes": self.classes_.tolist(), "dtype": self.classes_.dtype.str}

    def _set_learned(self, learned: dict) -> None:
        self.classes_ = np.array(learned["classes"], dtype=np.dtype(learned["dtype"]))
        if self.classes_.shape != (2 if len(self.y_mean_) == 1 else len(self.y_mean_),):
            raise ValueError(f"an estimator of {len(self.y_mean_)} scores cannot have the classes {learned['classes']}")


class MultiGradeClassifier(GradedClassifier):
    """Multi-grade deep learning (MGDL) for classes: shallow networks, each of which adds to the scores so far.

    Parameters
    ----------
    n_grades : int or "auto"
        Number of grades. With solver="auto" it is the largest number that may be kept, grade 1 included. "auto" is 3.
    hidden_layer_sizes : int, tuple of int, list of such tuples, or "auto"
        Widths of the hidden layers of each grade. A list has one tuple per grade (not with solver="auto"). "auto" is
        (64, 64), and (128, 128) with solver="auto" and 4096 or more rows.
    activation : str, list of str, or "auto"
        One of relu, tanh, softplus, gelu, silu, sine, gauss,
        srelu, s2relu, bspline, or a list of one per grade (not with solver="auto").
        "auto" is silu with solver="auto" and relu otherwise.
    solver : str
        "auto" is made for tables. It decides everything on training rows that it leaves out. Grade 1 is linear in the
        columns, in their quantile bins, in what the levels of codes are like, and (below 4096 rows) in random sines or
        steps of them, and it is solved. Idle columns of wide tables are left out. Further grades
        are networks, trained by Adam with dropout. Eight members (four from 4096 rows on) are trained in one compiled
        program; each leaves out an eighth of the rows. A grade that does not surely lower the loss on the rows left out
        is not added. The prediction is the mean of the members. standardize, early_stopping and what belongs to
        it must keep their defaults; warm_start and a checkpoint are refused.
        gd, momentum, adam, muon and lbfgs train one network per grade for ``max_iter`` steps. They are for functions
        without noise, and for the paper's methods.
    learning_rate : float, "auto", schedule or None
        A number is the peak of a warm-up and cosine schedule for auto, adam, muon and momentum, and constant for gd. An
        optax schedule is taken as it is. "auto" (gd, momentum, adam) is the largest rate that the curvature allows,
        looked at again as the grade goes on. None is the solver's default.
    alpha : float or "auto"
        Weight decay: alpha/2 times the sum of squared weights of a grade is added to the loss. "auto" is 1e-3, and 0
        with solver="auto", which has dropout instead.
    max_iter : int or "auto"
        Steps per grade. "auto" is 300. With solver="auto" it is 3000 at most, and the rows left out decide how many are
        taken and kept.
    batch_size : int, "auto" or None
        Rows per step. "auto" takes all up to 4096 rows and 1024 random ones beyond; with solver="auto" it takes 64, and
        256 from 4096 rows on. None takes all (not with solver="auto").
    standardize : bool
        Shift and scale inputs to mean 0 and standard deviation 1.
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
        and their seed. A last grade that diverged is fitted again.
    random_state : int, RandomState or None
        Draws the initial weights and the batches. A fit with a checkpoint needs an integer.
    verbose : int
        Above 0, show the live view.
    class_weight : dict, "balanced" or None
        Weights of the classes, by class; "balanced" gives all classes the same sum.

    Attributes
    ----------
    classes_ : array
        The classes, sorted.
    grades_ : tuple of FittedGrade
        The grades, in NumPy; ``model_`` makes a ``MultiGrade`` of them.
    columns_used_, codes_ : list of str
        Columns that play a part, and those that are read by what the targets of their levels are like.
    records_ : tuple of RunRecord
        What happened in each grade.
    fold_losses_ : tuple of float
        solver="auto": the loss on the rows left out, before any grade and after each.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = MultiGradeClassifier(max_iter=100, random_state=0).fit(X, np.where(X[:, 0] > 0, "up", "down"))
    >>> list(model.predict([[-0.5], [0.5]]))
    [np.str_('down'), np.str_('up')]
    """

    _parameter_constraints: ClassVar[dict] = {
        **CONSTRAINTS,
        **GRADES_CONSTRAINTS,
        **CLASS_WEIGHT,
        "solver": [StrOptions({*SOLVERS, "auto"})],
    }
    _auto_values: ClassVar[dict] = {
        "n_grades": 3, "hidden_layer_sizes": (64, 64), "activation": "relu", "alpha": 1e-3, "max_iter": 300,
    }  # fmt: skip

    def __init__(
        self,
        n_grades="auto",
        hidden_layer_sizes="auto",
        *,
        activation="auto",
        solver="auto",
        learning_rate=None,
        alpha="auto",
        max_iter="auto",
        batch_size="auto",
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
        class_weight=None,
    ):
        self.n_grades = n_grades
        self.hidden_layer_sizes = hidden_layer_sizes
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
        self.categorical_features = categorical_features
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.class_weight = class_weight


class SingleGradeClassifier(GradedClassifier):
    """Standard deep learning (SGDL) for classes: one network, trained at once.

    Parameters
    ----------
    hidden_layer_sizes : int, tuple of int or "auto"
        Widths of the hidden layers. "auto" is six times 64.
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
        Shift and scale inputs to mean 0 and standard deviation 1.
    early_stopping : bool
        Hold out ``validation_fraction`` of the rows. Stop after ``n_iter_no_change`` records (max_iter / 100 steps
        each) without a relative improvement of ``tol``, and keep the best parameters. Without
        it cross-entropy overfits.
    validation_fraction, n_iter_no_change, tol : float, int, float
        See ``early_stopping``.
    random_state : int, RandomState or None
        Draws the initial weights and the batches. A fit with a checkpoint needs an integer.
    verbose : int
        Above 0, show the live view.
    class_weight : dict, "balanced" or None
        Weights of the classes, by class; "balanced" gives all classes the same sum.
    """

    _parameter_constraints: ClassVar[dict] = {**CONSTRAINTS, **CLASS_WEIGHT}
    _auto_values: ClassVar[dict] = {
        "hidden_layer_sizes": (64,) * 6, "activation": "relu", "alpha": 1e-3, "max_iter": 900,
    }  # fmt: skip

    def __init__(
        self,
        hidden_layer_sizes="auto",
        *,
        activation="auto",
        solver="muon",
        learning_rate=None,
        alpha="auto",
        max_iter="auto",
        batch_size="auto",
        standardize=True,
        early_stopping=True,
        validation_fraction=0.1,
        n_iter_no_change=20,
        tol=0.0001,
        random_state=None,
        verbose=0,
        class_weight=None,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
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
        self.class_weight = class_weight
