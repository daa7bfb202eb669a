"""Multi-grade deep learning (MGDL): deep networks trained as a sequence of shallow ones, on JAX.

The names below are public; each is imported when it is first used, so that ``import multigrade`` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING

from .version import __version__

# name: module that holds it (None: the name is a module itself)
_PUBLIC = {
    "MultiGradeRegressor": "estimators",
    "SingleGradeRegressor": "estimators",
    "MultiScaleRegressor": "estimators",
    "load_estimator": "estimators",
    "Grade": "model",
    "MultiGrade": "model",
    "Network": "networks",
    "MultiScaleNetwork": "networks",
    "FourierFeatures": "networks",
    "LeastSquares": "objectives",
    "Rows": "objectives",
    "solve_least_squares": "least_squares",
    "Plan": "training",
    "Regression": "training",
    "Checkpointing": "training",
    "Fit": "training",
    "fit_grades": "training",
    "train_grades": "training",
    "GradeProblem": "training",
    "minimise": "training",
    "warmup_cosine": "training",
    "Outcome": "training",
    "Observation": "training",
    "Snapshot": "training",
    "Plateau": "training",
    "NoImprovement": "training",
    "convex": None,
    "curvature": None,
    "pictures": None,
    "restore": None,
    "structures": None,
    "synthetic": None,
    "training": None,
}

__all__ = ["__version__", *_PUBLIC]

if TYPE_CHECKING:
    from . import convex, curvature, pictures, restore, structures, synthetic, training
    from .estimators import MultiGradeRegressor, MultiScaleRegressor, SingleGradeRegressor, load_estimator
    from .least_squares import solve_least_squares
    from .model import Grade, MultiGrade
    from .networks import FourierFeatures, MultiScaleNetwork, Network
    from .objectives import LeastSquares, Rows
    from .training import (
        Checkpointing,
        Fit,
        GradeProblem,
        NoImprovement,
        Observation,
        Outcome,
        Plan,
        Plateau,
        Regression,
        Snapshot,
        fit_grades,
        minimise,
        train_grades,
        warmup_cosine,
    )


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'multigrade' has no attribute {name!r}")
    module = importlib.import_module(f".{_PUBLIC[name] or name}", __name__)
    return getattr(module, name) if _PUBLIC[name] else module


def __dir__() -> list[str]:
    return sorted(__all__)
