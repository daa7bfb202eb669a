"""scikit-learn estimators."""

from .base import load_estimator
from .classifiers import MultiGradeClassifier, SingleGradeClassifier
from .regressors import MultiGradeRegressor, MultiScaleRegressor, SingleGradeRegressor

__all__ = [
    "MultiGradeClassifier",
    "MultiGradeRegressor",
    "MultiScaleRegressor",
    "SingleGradeClassifier",
    "SingleGradeRegressor",
    "load_estimator",
]
