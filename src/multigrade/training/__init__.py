"""Training: one compiled loop, and the grades that use it."""

from .checkpoint import Checkpointing, fingerprint
from .corrective import correct_outputs
from .grades import Fit, train_grades
from .high_precision import fit_high_precision
from .loop import Run, Saving, minimise
from .objectives import accuracy
from .observers import Observation, Observer, Snapshot
from .optimisers import OPTIMISERS, warmup_cosine
from .plan import Plan
from .problem import GradeProblem, Task
from .record import Outcome, RunRecord
from .regression import Regression, fit_grades
from .stopping import Never, NoImprovement, Plateau
from .streams import Batches, crop_and_flip
from .unfreeze import unfreeze

__all__ = [
    "OPTIMISERS",
    "Batches",
    "Checkpointing",
    "Fit",
    "GradeProblem",
    "Never",
    "NoImprovement",
    "Observation",
    "Observer",
    "Outcome",
    "Plan",
    "Plateau",
    "Regression",
    "Run",
    "RunRecord",
    "Saving",
    "Snapshot",
    "Task",
    "accuracy",
    "correct_outputs",
    "crop_and_flip",
    "fingerprint",
    "fit_grades",
    "fit_high_precision",
    "minimise",
    "train_grades",
    "unfreeze",
    "warmup_cosine",
]
