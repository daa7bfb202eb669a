"""scikit-learn estimators."""

from .base import load_estimator
from .regressors import MultiGradeRegressor, MultiScaleRegressor, SingleGradeRegressor

__all__ = ["MultiGradeRegressor", "MultiScaleRegressor", "SingleGradeRegressor", "load_estimator"]
