"""What the lab runs: a job is one method on one data set, at one rate or noise level, with one seed.

The catalogue makes jobs, an experiment runs one, the store keeps its result, the claims read results. A job is data:
it is written as JSON, sent to other processes and machines, and hashed. What an experiment does is decided by the
job's kind and settings, the images and ``NUMERICS`` alone, so equal keys mean equal results.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from multigrade.training.record import RunRecord

from .setup import Setup, read

# Raised whenever a change of the package changes numbers; results of other numerics are not used again.
NUMERICS = 7
# Numerics of kinds, or of (kind, task, recipe), whose numbers alone have changed since; the results of all others are
# used again. 10: the authors' own draws.
REVISED: dict[tuple[str, ...], int] = {
    ("descent",): 10, ("denoising descent",): 10, ("restoration",): 10,
    ("baseline", "denoise", ""): 10, ("baseline", "deblur", ""): 10,
    ("regression", "regress", "paper"): 10, ("regression", "regress", "quick"): 10,
    ("regression", "regress", "best"): 8,
}  # fmt: skip
# What a job is called by, in this order.
LABELLED = ("task", "image", "setting", "theorem", "noise", "blur", "method", "variant", "learning_rate")


@dataclasses.dataclass(frozen=True)
class Job:
    """``kind`` names the experiment that runs it; ``settings`` (JSON values) are its whole configuration.

    ``data`` is a hash of what the job reads (an image file, say; empty where the settings say it all). ``item`` is the
    catalogue's entry it was made for, a label that does not enter the key: items may share jobs.
    """

    item: str
    kind: str
    settings: Mapping[str, Any]
    data: str = ""

    @functools.cached_property
    def setup(self) -> Setup:
        """The settings by name and type."""
        return read(self.settings)

    @property
    def key(self) -> str:
        """The name of its result: a hash of kind, settings, data and numerics."""
        of_kind = REVISED.get((self.kind,), NUMERICS)
        revised = REVISED.get((self.kind, self.setup.task, self.setup.recipe), of_kind)
        whole = [self.kind, dict(self.settings), self.data, revised]
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:20]

    @property
    def label(self) -> str:
        """The job in a few words, for tables and progress: "denoise butterfly noise 10 MGDL"."""
        named = {"setting", "noise", "blur", "theorem", "learning_rate"}
        parts = [
            f"{name.replace('_', ' ')} {f'{value:g}' if isinstance(value, float) else value}"
            if name in named
            else str(value)
            for name in LABELLED
            if (value := self.settings.get(name))
        ]
        parts += [f"{name} {number}" for name in ("seed", "copy") if (number := getattr(self.setup, name))]
        return " ".join(parts) or self.kind


class Result(NamedTuple):
    """What a job gives. Pictures are (h, w) or (h, w, 3) on the unit scale; metrics are JSON values."""

    metrics: Mapping[str, Any]
    records: tuple[RunRecord, ...] = ()
    arrays: Mapping[str, np.ndarray] = {}
    pictures: Mapping[str, np.ndarray] = {}


class Saved(NamedTuple):
    """A job with its result, as the store hands it to claims and reports; ``info`` says when, where and how it ran.

    Pictures have been rounded to 8 bits.
    """

    job: Job
    result: Result
    info: Mapping[str, Any] = {}
