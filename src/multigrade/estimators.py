"""The estimators, by the name that their room had before it was called ``tables``."""

from .tables import (
    MultiGradeClassifier,
    MultiGradeRegressor,
    MultiScaleRegressor,
    SingleGradeClassifier,
    SingleGradeRegressor,
    load_estimator,
)

__all__ = [
    "MultiGradeClassifier",
    "MultiGradeRegressor",
    "MultiScaleRegressor",
    "SingleGradeClassifier",
    "SingleGradeRegressor",
    "load_estimator",
]
