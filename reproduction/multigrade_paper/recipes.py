"""How every experiment is configured: one frozen dataclass per kind, with its values for each recipe.

paper   the paper's structures, optimiser, steps and hyperparameters; every default says where it is from
fast    image tasks by the restoration recipe networks, the paper's structures with our training; gradient descent runs
        a tenth as long, and its rate sweeps of images are shrunk
best    the restoration commands' best recipe, for image tasks alone
quick   shrunk pictures and few steps: a smoke test of the whole catalogue in minutes, which decides no claim

``--set name=value`` replaces a field in every configuration that has it; ``None`` leaves a value to the recipe.
"""

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping, Sequence

from . import numbers as paper
from .numbers import NUM_TRAINING


@dataclasses.dataclass(frozen=True)
class Config:
    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            values = value if isinstance(value, tuple) else (value,)
            lowest = 0 if field.name in MAY_BE_ZERO else None
            for number in values:
                if number is not None and not (0 < number < float("inf") or number == lowest):
                    raise ValueError(
                        f"{field.name} must be {'at least 0' if lowest == 0 else 'positive'}; got {number}"
                    )
        if (points := getattr(self, "points", 1)) > NUM_TRAINING:
            raise ValueError(f"points must be at most {NUM_TRAINING}, which a setting has; got {points}")


MAY_BE_ZERO = ("noise_seed", "tolerance", "weight")
CELLS = ("rates", "copies")  # what lists the cells of a part, and is no setting of a job


@dataclasses.dataclass(frozen=True)
class Regression(Config):
    """Image regression (Table 1); the stopping rule and the initial weights belong to the recipe."""

    size: int | None = None  # our choice: shrink the picture to this side; None keeps it
    epochs: int | None = paper.REGRESSION.steps  # per grade
    learning_rate: float | None = paper.REGRESSION.learning_rate


@dataclasses.dataclass(frozen=True)
class Restoration(Config):
    """Denoising and deblurring (Tables 2 and 3)."""

    size: int | None = None
    epochs: int | None = paper.RESTORATION.steps  # per grade
    learning_rate: float | None = paper.RESTORATION.learning_rate
    beta: float | None = None  # None: the paper's, recorded for two cells (see paper.STRENGTHS)
    weight: float | None = None  # lambda; None: as beta
    noise_seed: int = 0  # 0 is the authors' draw
    has_recorded_strengths: typing.ClassVar[bool] = True


class OurRestoration(Restoration):
    """The same by our training, which chooses beta and lambda from the observation."""

    has_recorded_strengths = False


@dataclasses.dataclass(frozen=True)
class Baseline(Config):
    """Interpolation, ROF, TV deblurring and Wiener on the cells of Tables 1-3; no training."""

    size: int | None = None
    noise_seed: int = 0


@dataclasses.dataclass(frozen=True)
class SyntheticSweep(Config):
    """Gradient descent on settings 1 and 2 at many rates (Section 5, Figure 1)."""

    points: int = paper.NUM_TRAINING
    epochs: int = paper.SYNTHETIC_STEPS  # per grade
    record_every: int = paper.SYNTHETIC_RECORD_EVERY
    tolerance: float = paper.DESCENT_TOLERANCE  # of the stopping rule
    rates: tuple[float, ...] = paper.SYNTHETIC_SWEEP
    copies: int = 1  # weights times 1 + k 1e-7, k = 0, 1, ...: where they part, rounding decides


@dataclasses.dataclass(frozen=True)
class SyntheticSpectrum(Config):
    """The same at the paper's own rates, with eigenvalues of I - eta H (Section 6, Figures 2, 16, 25, 26)."""

    points: int = paper.NUM_TRAINING
    epochs: int = paper.SYNTHETIC_STEPS
    record_every: int = paper.SYNTHETIC_RECORD_EVERY
    tolerance: float = paper.DESCENT_TOLERANCE
    spectrum_every: int = paper.SPECTRUM_EVERY
    num_eigenvalues: int = paper.NUM_EIGENVALUES
    copies: int = 1


@dataclasses.dataclass(frozen=True)
class ImageSweep(Config):
    """Gradient descent on images at many rates (Section 5, Figure 15)."""

    size: int | None = None
    epochs: int = paper.IMAGE_SWEEP_STEPS
    record_every: int = paper.IMAGE_SWEEP_RECORD_EVERY
    tolerance: float = paper.DESCENT_TOLERANCE
    rates: tuple[float, ...] = paper.IMAGE_SWEEP
    copies: int = 1


@dataclasses.dataclass(frozen=True)
class ImageSpectrum(Config):
    """Eigenvalues along image regression (Section 6, Figures 3, 18-20)."""

    size: int | None = None  # of the subset of pixels that these runs see
    epochs: int = paper.IMAGE_SPECTRUM_STEPS
    record_every: int = 100  # our choice
    tolerance: float | None = None  # None: paper.SPECTRUM_TOLERANCE, of the method
    spectrum_every: int = paper.SPECTRUM_EVERY
    num_eigenvalues: int = paper.NUM_EIGENVALUES
    copies: int = 1


@dataclasses.dataclass(frozen=True)
class DenoisingSpectrum(Config):
    """Eigenvalues along image denoising (Section 6, Figures 21-24)."""

    size: int | None = None
    epochs: int = paper.DENOISING_SPECTRUM_STEPS  # per grade
    record_every: int = 100  # our choice
    spectrum_every: int | None = None  # None: paper.DENOISING_SPECTRUM's, of the method
    num_eigenvalues: int = paper.NUM_EIGENVALUES
    noise_seed: int = 0  # 0 is the authors' draw
    copies: int = 1


@dataclasses.dataclass(frozen=True)
class Theory(Config):
    """Theorems 1, 2, 4 and 5 on small smooth networks; all numbers are our choice."""

    points: int = 64
    width: int = 6
    # Of Theorems 1 and 2, whose gradients fade in flat directions, too; 4 and 5 take 15 times as many.
    epochs: int = 4000
    share: float = 0.95  # of 2 / alpha: the rate of Theorems 1 and 2
    penalty: float = 1e-2  # of Theorems 4 and 5: small enough to leave the network at work
    push: float = 0.02  # how far from a minimum descent starts, as a share of the weights' length


@dataclasses.dataclass(frozen=True)
class Convex(Config):
    """Theorem 3 on points of settings 1 and 2; all numbers are our choice."""

    points: int = 64
    regularisation: float = 0.1
    gap: float = 1e-6
    epochs: int = 20_000  # of gradient descent on the same grade
    learning_rate: float = 2e-3


@dataclasses.dataclass(frozen=True)
class Steadiness(Config):
    """Beyond the paper: one cause of steadiness switched off at a time; all numbers are our choice."""

    points: int = 128
    epochs: int = 1500  # per grade; SGDL takes four times as many
    record_every: int = 10
    spectrum_every: int = 300
    num_eigenvalues: int = 10


@dataclasses.dataclass(frozen=True)
class Frequencies(Config):
    """Beyond the paper: errors by frequency along training; all numbers are our choice."""

    points: int = 512
    size: int | None = 32
    epochs: int = 10_000  # per grade; SGDL and MSDL take four times as many
    record_every: int = 100


@dataclasses.dataclass(frozen=True)
class Equations(Config):
    """Beyond the paper: ready equations; all numbers are our choice."""

    max_features: int = 3000


CONFIGS: dict[str, dict[str, Config]] = {
    "regression": {
        "paper": Regression(),
        "fast": Regression(epochs=None, learning_rate=None),
        "quick": Regression(size=32, epochs=100),
    },
    "restoration": {
        "paper": Restoration(),
        "fast": OurRestoration(epochs=None, learning_rate=None),
        "quick": Restoration(size=32, epochs=10),
    },
    "baseline": {"paper": Baseline(), "fast": Baseline(), "quick": Baseline(size=32)},
    "synthetic sweep": {
        "paper": SyntheticSweep(),
        "fast": SyntheticSweep(epochs=100_000),
        "quick": SyntheticSweep(points=128, epochs=2000, rates=(0.005, 0.08, 0.3)),
    },
    "synthetic spectrum": {
        "paper": SyntheticSpectrum(),
        "fast": SyntheticSpectrum(epochs=100_000),
        "quick": SyntheticSpectrum(points=128, epochs=2000, spectrum_every=1000),
    },
    "image sweep": {
        "paper": ImageSweep(),
        # Full size and all rates would take days on two cores.
        "fast": ImageSweep(size=128, epochs=10_000, rates=(0.01, 0.1, 0.5, 1.0)),
        "quick": ImageSweep(size=32, epochs=100, rates=(0.05, 1.0)),
    },
    "image spectrum": {
        "paper": ImageSpectrum(),
        "fast": ImageSpectrum(epochs=50_000),
        "quick": ImageSpectrum(size=16, epochs=400, spectrum_every=200),
    },
    "denoising spectrum": {
        "paper": DenoisingSpectrum(),
        "fast": DenoisingSpectrum(epochs=10_000, spectrum_every=1000),
        "quick": DenoisingSpectrum(size=16, epochs=200, spectrum_every=200, num_eigenvalues=6),
    },
    "theory": {"paper": Theory(), "fast": Theory(), "quick": Theory(points=32, epochs=1200)},
    "steadiness": {
        "paper": Steadiness(),
        "fast": Steadiness(),
        "quick": Steadiness(points=32, epochs=40, spectrum_every=20, num_eigenvalues=3),
    },
    "frequencies": {
        "paper": Frequencies(),
        "fast": Frequencies(),
        "quick": Frequencies(points=32, size=8, epochs=200),
    },
    "equations": {
        "paper": Equations(),
        "fast": Equations(),
        "quick": Equations(max_features=300),
    },
    "convex": {"paper": Convex(), "fast": Convex(), "quick": Convex(points=16, epochs=2000)},
}
IMAGE_TASKS = ("regression", "restoration", "baseline")
NAMES = ("paper", "fast", "best", "quick")  # of the recipes, nearest to the paper first


def config(kind: str, recipe: str, overrides: Mapping[str, str] | None = None) -> Config:
    """The configuration of a kind under a recipe; overrides that it has no field for are left out."""
    if recipe == "best" and kind not in IMAGE_TASKS:
        raise ValueError(f"recipe best is for image tasks alone (table1, table2, table3, figure-cameraman), not {kind}")
    default = CONFIGS[kind]["fast" if recipe == "best" else recipe]
    hints = typing.get_type_hints(type(default))
    values = {name: _parse(name, text, hints[name]) for name, text in (overrides or {}).items() if name in hints}
    return dataclasses.replace(default, **values)


def changed(kind: str, config: Config) -> list[str]:
    """The fields in which a configuration differs from the paper's; rates and copies are not among them."""
    paper = CONFIGS[kind]["paper"]
    names = (field.name for field in dataclasses.fields(config))
    return sorted(name for name in names if name not in CELLS and getattr(config, name) != getattr(paper, name))


def check_names(recipe: str, kinds: Sequence[str], overrides: Mapping[str, str]) -> None:
    """ValueError for a recipe that there is not, or an override that none of the kinds has a field for."""
    if recipe not in NAMES:
        raise ValueError(f"recipe must be one of {', '.join(NAMES)}; got {recipe!r}{close(recipe, NAMES)}")
    known = sorted({field.name for kind in kinds for field in dataclasses.fields(CONFIGS[kind]["paper"])})
    for name in overrides:
        if name not in known:
            raise ValueError(f"there is no setting {name!r} here{close(name, known)}; there are {', '.join(known)}")


def close(name: str, known: Sequence[str]) -> str:
    """ " (did you mean x?)", or nothing."""
    matches = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(matches)}?)" if matches else ""


def _parse(name: str, text: str, hint) -> int | float | tuple[float, ...] | None:
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    wanted = "whole number" if int in kinds else "number" if float in kinds else "list of numbers like 0.01,0.1"
    try:
        if int in kinds or float in kinds:
            number = float(text)
            if int in kinds and not number.is_integer():
                raise ValueError
            return int(number) if int in kinds else number
        return tuple(float(part) for part in text.split(","))
    except (ValueError, OverflowError):
        raise ValueError(f"{name} must be a {wanted}; got {text!r}") from None
