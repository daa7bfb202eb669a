"""scikit-learn estimators."""

from .classifiers import MultiGradeClassifier, SingleGradeClassifier
from .regressors import MultiGradeRegressor, MultiScaleRegressor, SingleGradeRegressor
from .storage import load_estimator

__all__ = [
    "MultiGradeClassifier",
    "MultiGradeRegressor",
    "MultiScaleRegressor",
    "SingleGradeClassifier",
    "SingleGradeRegressor",
    "load_estimator",
]
