"""How long a job will take, roughly: (compilation + steps x (overhead + arithmetic / rate)) summed over its grades.

Overhead and rate are this machine's, from two short fits (``calibrate``). Neurons that sleep in restoration are left
out, as the training leaves them out, and so are the epochs that a grade of MGDL does not take because its validation
loss stands still. Another run that stops early, diverges or meets the edge of stability takes less. Estimates order the
jobs and are shown to the user; nothing else depends on them.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from multigrade import structures
from multigrade.networks import MultiScaleNetwork, Network
from multigrade.pictures.recipes.networks import SIDE, STEPS
from multigrade.training import Plan, fit_grades

from .images import ENTRIES, WALNUT_SIZE
from .job import Job
from .setup import Setup

FAST_BATCH = 2048  # pixels that a step of recipe networks sees, on average
FAST_EPOCHS = {"regression": STEPS["regress"], "restoration": STEPS["restore"]}  # left to the recipe
PRODUCTS_PER_SPECTRUM = 400  # Hessian-vector products, each about two steps
# Of the neurons of a layer, and of the features a grade is given, the share that is awake in the paper's restoration
# recipe: 68, 50 and 54 of 128 (docs/worth-it.md).
AWAKE = 0.45
# Of the epochs, the share that a grade of MGDL takes until its plateau: the mean over eig-synthetic in evidence/.
UNTIL_PLATEAU = 0.5
# Pixels between those that a spectrum sees, as recipes.py has it.
EIGENVALUE_STRIDE = {"image spectrum": 2, "denoising spectrum": 8}


@dataclasses.dataclass(frozen=True)
class Speed:
    """Of one worker: seconds of a step besides its arithmetic, operations per second, seconds to compile a grade."""

    overhead: float = 3e-5
    rate: float = 6e10  # eig-synthetic in full: 6.7e13 operations in 1,008 seconds of one core
    compilation: float = 1.0


def calibrate() -> Speed:
    """This machine's speed with the present number of threads, in a few seconds."""
    small, _ = _timed(structures.MGDL_1[:1], 64, 4000)
    large, compilation = _timed(structures.MGDL_2[:1], FAST_BATCH, 20)
    return Speed(small, _operations(structures.MGDL_2[0], FAST_BATCH) / large, compilation)


def _timed(structure: tuple[Network, ...], num_rows: int, num_steps: int) -> tuple[float, float]:
    """Seconds of a step, and seconds spent before the first."""
    x = np.random.default_rng(0).uniform(size=(num_rows, structure[0].widths[0]))
    first, *others = (
        fit_grades(structure, x, np.sin(9 * x[:, :1]), Plan(num_steps, record_every=num_steps)).records[0].seconds
        for _ in range(4)
    )
    best = min(others)  # what else the machine does at the moment is not the job's cost
    return best / num_steps, max(first - best, 0.0)


def seconds(job: Job, speed: Speed = Speed()) -> float:
    """An estimate of the time that one worker needs for the job."""
    setup = job.setup
    if job.kind in ("baseline", "input"):
        return 1.0 + (2e-5 if job.kind == "baseline" else 0.0) * _num_pixels(setup)
    if not setup.structure:  # theory, convex
        return 5.0 + 1e-3 * (setup.epochs or 0)
    grades = structures.NAMED[setup.structure][: setup.grades or None]
    return sum(speed.compilation + _grade(job, network, speed) for network in grades)


def total(jobs: Sequence[Job], speed: Speed, workers: int) -> float:
    """An estimate of the time until all jobs are done: a worker compiles once what several of its jobs share."""
    compiled = {_program(job): _compilation(job, speed) for job in jobs}
    steps = sum(seconds(job, speed) - _compilation(job, speed) for job in jobs)
    return sum(compiled.values()) + steps / workers


def _program(job: Job) -> tuple:
    """What decides which programs a job compiles: the shapes, not the numbers that are arguments of them."""
    setup = job.setup
    shape = setup.size or setup.image
    return job.kind, setup.config, setup.structure, setup.task, shape


def _compilation(job: Job, speed: Speed) -> float:
    return speed.compilation * len(structures.NAMED[job.setup.structure]) if job.setup.structure else 0.0


def _grade(job: Job, network: Network | MultiScaleNetwork, speed: Speed) -> float:
    setup = job.setup
    is_sleepy = job.kind == "restoration" and setup.recipe == "paper"
    step = speed.overhead + _operations(network, _num_rows(job), AWAKE if is_sleepy else 1.0) / speed.rate
    num_steps = setup.epochs or FAST_EPOCHS.get(job.kind, 1000) * _num_pixels(setup) ** 0.5 / SIDE
    num_steps *= UNTIL_PLATEAU if setup.tolerance and setup.method == "MGDL" else 1
    every = setup.spectrum_every
    num_spectra = num_steps // every + 2 if every else 0
    return step * (num_steps + 2 * PRODUCTS_PER_SPECTRUM * num_spectra)


def _num_rows(job: Job) -> int:
    setup = job.setup
    if not setup.image:
        return setup.points
    pixels = _num_pixels(setup) // (1 if "restoration" in job.kind or "denoising" in job.kind else 4)
    is_batch = job.kind in FAST_EPOCHS and setup.recipe not in ("paper", "quick")
    return min(pixels, FAST_BATCH) if is_batch else pixels


def _num_pixels(setup: Setup) -> int:
    if setup.size:
        return setup.size**2
    size, stride = ENTRIES[setup.image].size or WALNUT_SIZE, EIGENVALUE_STRIDE.get(setup.config, 1)
    # What the eigenvalue runs see of Barbara is a quadrant: images.eigenvalue_subset.
    return (size // stride // (2 if setup.image == "barbara" and stride > 1 else 1)) ** 2


def _operations(network: Network | MultiScaleNetwork, num_rows: int, awake: float = 1.0) -> float:
    """Of a gradient: a multiplication and an addition per weight and row, once forward and twice backward."""
    return 6.0 * num_rows * sum(_weights(network, awake))


def _weights(network: Network | MultiScaleNetwork, awake: float) -> Iterator[float]:
    """Between neurons that are awake, a share of each hidden layer."""
    parts = [network.sub] * len(network.scales) if isinstance(network, MultiScaleNetwork) else [network]
    for part in parts:
        first, *hidden, last = part.widths
        first = first if first <= 2 else awake * first  # coordinates do not sleep, features do
        widths = (first, *(awake * width for width in hidden), last)
        yield from (a * b for a, b in pairwise(widths))
