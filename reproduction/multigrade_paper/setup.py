"""The settings of the catalogue's jobs, by name and type.

A job is stored and hashed as plain JSON (``Job.settings``). Everything that reads a job asks ``job.setup`` instead, so
that a misspelt name is found by the type checker. A setting that a job does not have keeps its default here.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Setup:
    # What the job is.
    config: str = ""  # the entry of recipes.CONFIGS it was made from; empty for a job from outside the catalogue
    recipe: str = ""
    changed: Sequence[str] = ()  # the fields in which its configuration differs from the paper's
    command: str = ""  # the line that makes it, where the catalogue does not know
    seed: int = 0  # 0 is the authors' draw of the initial weights, others are further draws by the same laws
    copy: int = 0  # its initial weights are those of the seed times 1 + copy 1e-7
    # What it is about.
    task: str = ""
    image: str = ""
    stand_in: bool | None = None  # whether a free picture stands in for the paper's; None without a picture
    setting: int = 0  # of the synthetic data, 1 or 2
    theorem: int = 0
    method: str = ""
    structure: str = ""  # a name in structures.NAMED
    grades: int = 0  # so many of its first grades alone; 0 for all
    networks: str = ""  # as structure, where a picture has networks of its own
    # Data.
    size: int | None = None
    points: int = 0
    noise: float = 0
    noise_seed: int | None = None  # None where no noise is added
    blur: float = 0
    # Training.
    optimiser: str = "gd"
    learning_rate: float | None = None
    epochs: int | None = None
    record_every: int = 1
    tolerance: float = 0.0
    beta: float | None = None
    weight: float | None = None
    snapshots: bool = False
    variant: str = ""  # "as written" where the text says something else than what the authors ran
    # Spectra.
    spectrum_every: int | None = None
    num_eigenvalues: int = 0
    edge: float | None = None
    # Theorems.
    width: int = 0
    share: float = 0.0
    penalty: float = 0.0
    push: float = 0.0
    regularisation: float = 0.0
    gap: float = 0.0
    # Equations.
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the ready problem
    max_features: int = 0


NAMES = frozenset(field.name for field in dataclasses.fields(Setup))


def read(settings: Mapping[str, Any]) -> Setup:
    """The settings that the catalogue knows; those of a stranger's job that it does not know are left out."""
    return Setup(**{name: value for name, value in settings.items() if name in NAMES})
