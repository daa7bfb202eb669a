"""Multi-grade deep learning (MGDL): deep networks trained as a sequence of shallow ones, on JAX.

Each *grade* is a shallow network. It is fitted to what the earlier grades left over, on top of their frozen features,
and the model is the sum of all grades.

    from multigrade import MultiGradeRegressor
    model = MultiGradeRegressor(n_grades=3).fit(X, y)              # a scikit-learn estimator

    from multigrade import Plan, fit_grades, structures
    fit = fit_grades(structures.graded(1, [(32,), (32,)], 1), x, y, Plan(1000, learning_rate=0.01))

Where to look:

    tables          MultiGradeRegressor, SingleGradeRegressor, MultiScaleRegressor, MultiGradeClassifier,
                    SingleGradeClassifier, load_estimator
    training        fit_grades, train_grades, minimise; Plan, Regression, Checkpointing, GradeProblem; Fit, Outcome
    networks        Network, MultiScaleNetwork, FourierFeatures; structures.graded and the paper's structures
    observers       Observation, Snapshot; stopping rules Plateau, NoImprovement
    curvature       spectra of I - eta H for any loss, safe learning rates
    convex          two-layer grades solved to their global optimum
    equations       differential and integral equations, solved by grades
    restore         denoise, deblur, inpaint, upsample, regress, invert pictures; pictures reads and writes them

Every public name has an example in docs/api.md. Each is imported when it is first used, so that ``import multigrade``
costs nothing.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING

from .version import __version__

# On some machines XLA prints a screen of text for every program that it finds in a cache, about preferences of the
# compiler. It reads this before its first message; what really fails is raised as well.
if "jax" not in sys.modules:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# name: module that holds it (None: the name is a module itself)
_PUBLIC = {
    "MultiGradeRegressor": "tables",
    "SingleGradeRegressor": "tables",
    "MultiScaleRegressor": "tables",
    "MultiGradeClassifier": "tables",
    "SingleGradeClassifier": "tables",
    "load_estimator": "tables",
    "Grade": "model",
    "MultiGrade": "model",
    "Network": "networks",
    "MultiScaleNetwork": "networks",
    "FourierFeatures": "networks",
    "LeastSquares": "training.objectives",
    "Rows": "training.objectives",
    "FullBatch": "training.sampling",
    "RandomRows": "training.sampling",
    "random_rows": "training.sampling",
    "solve_least_squares": "least_squares",
    "Batches": "training",
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
    "equations": None,
    "pictures": None,
    "restore": None,
    "structures": None,
    "synthetic": None,
    "training": None,
}

__all__ = ["__version__", *_PUBLIC]

if TYPE_CHECKING:
    from . import convex, curvature, equations, pictures, restore, structures, synthetic, training
    from .least_squares import solve_least_squares
    from .model import Grade, MultiGrade
    from .networks import FourierFeatures, MultiScaleNetwork, Network
    from .tables import (
        MultiGradeClassifier,
        MultiGradeRegressor,
        MultiScaleRegressor,
        SingleGradeClassifier,
        SingleGradeRegressor,
        load_estimator,
    )
    from .training import (
        Batches,
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
    from .training.objectives import LeastSquares, Rows
    from .training.sampling import FullBatch, RandomRows, random_rows


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'multigrade' has no attribute {name!r}")
    module = importlib.import_module(f".{_PUBLIC[name] or name}", __name__)
    return getattr(module, name) if _PUBLIC[name] else module


def __dir__() -> list[str]:
    return sorted(__all__)
