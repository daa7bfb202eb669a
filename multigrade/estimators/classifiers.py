"""The classifiers: MultiGradeClassifier (MGDL) and SingleGradeClassifier (SGDL), by cross-entropy.

A grade adds to the scores of the classes, and the logistic (two classes) or multinomial loss sees the sum.
"""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets

from ..objectives import Logistic, Loss, Multinomial
from .base import GradedEstimator
from .parameters import ManyGrades, OneGrade


@dataclass(eq=False, repr=False)
class GradedClassifier(ClassifierMixin, GradedEstimator):
    """What the classifiers share; a subclass gives its own parameters and its structure."""

    _parameter_constraints: ClassVar[dict] = {"class_weight": [dict, StrOptions({"balanced"}), None]}

    _: KW_ONLY
    class_weight: dict | str | None = None

    def _loss(self) -> Loss:
        return Logistic() if len(self.classes_) == 2 else Multinomial()

    def _is_target_scaled(self) -> bool:
        return False

    def _read_targets(self, y, weights):
        kinds = sorted({"None" if label is None else type(label).__name__ for label in y.tolist()})
        if len(kinds) > 1:
            raise ValueError(f"y must hold classes of one kind; got {', '.join(kinds)}. Leave out rows without a class")
        check_classification_targets(y)
        classes, index = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must have at least two classes; got the one class {classes.tolist()[0]!r}")
        if (
            getattr(self, "warm_start", False)
            and hasattr(self, "model_")
            and not np.array_equal(classes, self.classes_)
        ):
            raise ValueError("y must have the same classes as before with warm_start=True")
        self.classes_ = classes
        targets = index[:, None] if len(classes) == 2 else np.eye(len(classes))[index]
        return targets.astype(np.float64), weights * compute_sample_weight(self.class_weight, y)

    def predict(self, X):
        """The most likely class of each row."""
        chosen = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[chosen]

    def predict_proba(self, X) -> np.ndarray:
        """The chances of the classes, (n_samples, n_classes), in the order of ``classes_``."""
        return list(self._stages(X))[-1]

    def predict_log_proba(self, X) -> np.ndarray:
        """The logarithms of the chances."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))

    def decision_function(self, X):
        """Two classes: the logarithm of the second one's odds, (n_samples,); more: those of the chances."""
        logarithms = self.predict_log_proba(X)
        return logarithms[:, 1] - logarithms[:, 0] if len(self.classes_) == 2 else logarithms

    def staged_predict_proba(self, X):
        """The chances after grade 1, 2, ..., in turn."""
        yield from self._stages(X)

    def staged_predict(self, X):
        """The most likely classes after grade 1, 2, ..., in turn."""
        for chances in self._stages(X):
            yield self.classes_[np.argmax(chances, axis=1)]

    def _learned(self) -> dict:
        return {"classes": self.classes_.tolist(), "dtype": self.classes_.dtype.str}

    def _set_learned(self, learned: dict) -> None:
        self.classes_ = np.array(learned["classes"], dtype=np.dtype(learned["dtype"]))


@dataclass(eq=False, repr=False)
class MultiGradeClassifier(ManyGrades, GradedClassifier):
    """Multi-grade deep learning (MGDL) for classes: shallow networks, each of which adds to the scores so far.

    Parameters as in ``MultiGradeRegressor``, without its losses, and

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Weights of the classes, by class; "balanced" gives all classes the same sum.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = MultiGradeClassifier(max_iter=100, random_state=0).fit(X, np.where(X[:, 0] > 0, "up", "down"))
    >>> list(model.predict([[-0.5], [0.5]]))
    [np.str_('down'), np.str_('up')]
    """


@dataclass(eq=False, repr=False)
class SingleGradeClassifier(OneGrade, GradedClassifier):
    """Standard deep learning (SGDL) for classes: one network, trained at once. Parameters as in
    ``MultiGradeClassifier``; a tenth of the rows is held out by default, without which cross-entropy overfits.
    """

    _: KW_ONLY
    early_stopping: bool = True
