"""Training: one compiled loop, and the grades that use it."""

from .grades import Fit
from .loop import Run, minimise
from .observers import Observation, Observer, Snapshot
from .optimisers import OPTIMISERS, warmup_cosine
from .record import Outcome, RunRecord
from .regression import fit_grades
from .stopping import Never, NoImprovement, Plateau

__all__ = [
    "OPTIMISERS",
    "Fit",
    "Never",
    "NoImprovement",
    "Observation",
    "Observer",
    "Outcome",
    "Plateau",
    "Run",
    "RunRecord",
    "Snapshot",
    "fit_grades",
    "minimise",
    "warmup_cosine",
]
