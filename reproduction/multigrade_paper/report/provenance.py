"""Where a number comes from: what its run departs from the paper in, and the command that makes it again."""

import dataclasses
import shlex

from .. import catalogue, recipes
from ..images import ENTRIES, Pictures
from ..job import Job

WORDS = {"size": "shrunk to {} pixels", "epochs": "{} epochs", "points": "{} points"}
FREE = Pictures()  # draws one when it is asked for
SAID = (*WORDS, "rates")  # a chart has its rates on an axis


def rank(job: Job) -> tuple:
    """Smaller is nearer to the paper."""
    name, known = job.setup.recipe, recipes.NAMES
    return known.index(name) if name in known else len(known), bool(job.setup.stand_in), len(job.setup.changed)


def variant(job: Job) -> tuple:
    """What runs must share to be drawn together: recipe, changed settings with their values, stand-in or not."""
    changed = tuple((name, str(job.settings.get(name))) for name in job.setup.changed)
    return job.setup.recipe, changed, bool(job.setup.stand_in)


def marks(job: Job) -> list[str]:
    """Short words for what keeps a run from being the paper's, or the recipe's: "quick", "shrunk to 32 pixels"."""
    settings, recipe = job.settings, job.setup.recipe  # simple methods have none
    found = [recipe] if recipe and recipe != "paper" else []
    if job.setup.stand_in:
        found.append("stand-in picture")
    for name in job.setup.changed:
        if settings.get(name) is not None and name in WORDS:
            value = settings[name]
            found.append(WORDS[name].format(f"{value:,}" if isinstance(value, int) else value))
    others = _overrides(job, recipe) if recipe and catalogue.is_ours(job) else {}
    return found + [f"{name.replace('_', ' ')} {value}" for name, value in others.items() if name not in SAID]


def is_comparable(job: Job) -> bool:
    """Whether a number of this run may be held against the paper's: the same picture, whole, and not a smoke test."""
    return job.setup.recipe != "quick" and not job.setup.stand_in and not job.setup.size


def command(job: Job) -> str:
    """The line to type: the job's item, recipe and changed settings, and its key, so that nothing else is run.

    A job from outside the catalogue may name its own; nothing if it does not.
    """
    if not catalogue.is_ours(job):
        return str(job.setup.command)
    parts = ["multigrade", "reproduce", job.item]
    name, seed = job.setup.recipe or _baseline_recipe(job), job.setup.seed
    parts += ["--recipe", name]
    for field, value in _overrides(job, name).items():
        parts += ["--set", f"{field}={value}"]
    parts += ["--seeds", str(seed + 1)] if seed else []
    parts += ["--images", "IMAGES"] if _is_from_a_file(job) else []
    return shlex.join([*parts, "--only", job.key])


def _is_from_a_file(job: Job) -> bool:
    """A stand-in is a free picture of ours, but for the walnut, which is another one wherever it is from."""
    setup = job.setup
    entry = ENTRIES.get(str(setup.image))
    if setup.stand_in is not True or entry is None or entry.is_the_papers:
        return setup.stand_in is False
    return job.data != FREE.get(setup.image).digest


def _baseline_recipe(job: Job) -> str:
    """Simple methods know no recipe: the one whose size is theirs."""
    quick = dataclasses.asdict(recipes.CONFIGS["baseline"]["quick"])
    return "quick" if job.setup.size == quick["size"] else "fast"


def _overrides(job: Job, name: str) -> dict[str, str]:
    settings, kind = job.settings, job.setup.config
    default, paper = recipes.config(kind, name), recipes.CONFIGS[kind]["paper"]
    found = {}
    for field in dataclasses.fields(default):
        # What is not listed as changed has the paper's value: the settings may hold what a cell made of None.
        value = settings[field.name] if field.name in job.setup.changed else getattr(paper, field.name, None)
        if field.name == "rates":
            is_there = job.setup.learning_rate in getattr(default, "rates")  # noqa: B009
            found |= {} if is_there else {"rates": repr(job.setup.learning_rate)}
        elif value is not None and value != getattr(default, field.name):
            found[field.name] = repr(value)
    return found
