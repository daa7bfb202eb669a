"""What a job does: one function per kind, from settings to a result.

    result = run(job, images=folder, checkpoint=path, observers=())

A result depends on the job, the images and the package alone, never on the clock or the process; times are kept apart
under "seconds". Training goes through the package's one loop, so a run that was interrupted resumes from ``checkpoint``
and ends with the same bits.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from multigrade.files import finite
from multigrade.training.observers import Observer

from ..images import Pictures
from ..job import Job, Result
from . import convex, denoising, descent, equations, frequencies, reconstruction, steadiness, theory
from .context import Context

KINDS: dict[str, Callable[[Context], Result]] = {
    "regression": reconstruction.regression,
    "restoration": reconstruction.restoration,
    "input": reconstruction.degraded_input,
    "baseline": reconstruction.baseline,
    "descent": descent.descent,
    "denoising descent": denoising.denoising_descent,
    "theory": theory.theory,
    "convex": convex.convex,
    "steadiness": steadiness.steadiness,
    "frequencies": frequencies.frequencies,
    "equation": equations.equation,
}


def run(
    job: Job, *, images: Path | None = None, checkpoint: Path | None = None, observers: Sequence[Observer] = ()
) -> Result:
    """The result of one job; ValueError if it is of no known kind or its image is not the one it was made for."""
    if job.kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {job.kind!r}")
    source = None
    if job.setup.image:
        source = _pictures(images).get(job.setup.image)
        if source.digest != job.data:
            name = job.setup.image
            raise ValueError(f"the image {name} is not the one that job {job.key} was made for; make the jobs again")
    result = KINDS[job.kind](Context(job.setup, source, checkpoint, tuple(observers)))
    marked = {**result.metrics, "stand_in": source.stand_in} if source else result.metrics
    # A run that diverged may leave pictures that are no pictures any more.
    pictures = {name: picture for name, picture in result.pictures.items() if np.isfinite(picture).all()}
    return result._replace(metrics=finite(marked), pictures=pictures)


@functools.cache
def _pictures(images: Path | None) -> Pictures:
    return Pictures(images)
