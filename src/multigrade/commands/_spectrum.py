"""The work of ``multigrade spectrum``: follow I - eta H while a setting of the paper, an image or a table is fitted."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..curvature import SpectrumObserver, edge_of_stability
from ..networks import MultiScaleNetwork, Network
from ..structures import graded
from ..synthetic import RATES, setting
from ..tables.files import read_table, split_target
from ..training import Plan, RunRecord, fit_grades
from ..training.observers import Observer
from .spectrum import METHODS, OPTIMISERS, Spectrum

OTHER_RATE = 0.05  # images and tables; our choice, the paper's "Butterfly" rate
# The paper's eigenvalue runs take every second pixel of an image, then every second of those.
IMAGE_STRIDE = 4
LUMA = (0.299, 0.587, 0.114)  # shares of red, green and blue in grey (ITU-R BT.601)


class Problem(NamedTuple):
    """Inputs (N, d), targets (N, s) and the hidden widths of the paper's networks for this kind of data."""

    inputs: np.ndarray
    targets: np.ndarray
    width: int
    scale_width: int


def check_options(given: Spectrum) -> None:
    """ValueError for a method, an optimiser or a number of steps that there is not."""
    if given.method not in METHODS:
        raise ValueError(f"--method must be one of {', '.join(METHODS)}; got {given.method!r}")
    if given.optimiser not in OPTIMISERS:
        raise ValueError(f"--optimiser must be one of {', '.join(OPTIMISERS)}; got {given.optimiser!r}")
    if given.steps < 1:
        raise ValueError(f"--steps must be at least 1; got {given.steps!r}")


def run_spectrum(given: Spectrum, observers: Sequence[Observer] = ()) -> tuple[RunRecord, ...]:
    """Train and record the spectrum of the optimiser's step every so many steps: one record per grade."""
    every = max(given.steps // 50, 1) if given.every is None else given.every
    rules = () if given.edge is None else (edge_of_stability(given.edge),)
    spectrum = SpectrumObserver(every=every, num=given.num, rules=rules)
    problem = load_problem(given.source, target=given.target, stride=given.stride)
    rate = given.learning_rate
    if rate is None and given.optimiser == "gd":
        rate = RATES.get((given.source, given.method.upper()), OTHER_RATE)
    plan = Plan(
        given.steps, given.optimiser, rate, given.batch_size, record_every=math.gcd(every, 100),
        observers=(spectrum, *observers), seed=given.seed,
    )  # fmt: skip
    return fit_grades(structure_for(problem, given.method), problem.inputs, problem.targets, plan).records


def load_problem(source: str, *, target: str | None = None, stride: int | None = None) -> Problem:
    """The data behind ``source``: a setting's number, an image (``stride``), a table (``target``)."""
    is_table = Path(source).suffix.lower() in (".csv", ".npz")
    if target is not None and not is_table:
        raise ValueError(f"target (--target) belongs to a table; got {target!r} for {source}")
    if stride is not None and (is_table or source in ("1", "2")):
        raise ValueError(f"stride (--stride) belongs to an image; got {stride!r} for {source}")
    if source in ("1", "2"):
        data = setting(int(source))
        return Problem(data.x_train, data.y_train, 32, 8)
    if is_table:
        inputs, targets = split_target(read_table(source), target or "y")
        return Problem(_standardised(inputs.values), _standardised(targets.reshape(len(targets), -1)), 32, 8)
    if not source.startswith(":") and not Path(source).is_file():
        raise ValueError(f"source must be 1, 2, or the path of an image or a table; there is no file {source}")
    return Problem(*_pixels(source, IMAGE_STRIDE if stride is None else stride), 48, 12)


def structure_for(problem: Problem, method: str) -> tuple[Network, ...] | tuple[MultiScaleNetwork]:
    """Four hidden layers by the paper's recipe for the method: (SGDL-1), (MGDL-1), MSDL, or (SGDL-4), (MGDL-4)."""
    inputs, outputs = problem.inputs.shape[1], problem.targets.shape[1]
    if method == "msdl":
        widths = (inputs, *(problem.scale_width,) * 4, outputs)
        return (MultiScaleNetwork(Network(widths)),)
    hidden = [(problem.width,) * 4] if method == "sgdl" else [(problem.width,)] * 4
    return graded(inputs, hidden, outputs)


def _standardised(columns: np.ndarray) -> np.ndarray:
    # Gradient descent has one rate for all directions; columns on different scales would leave none that works.
    spread = columns.std(axis=0)
    return (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1)


def _pixels(source: str, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (x, y) in [0, 1) and intensities in [0, 1] of every ``stride``-th pixel in both directions."""
    from ..pictures.files import load

    if stride < 1:
        raise ValueError(f"stride must be at least 1; got {stride!r}")
    picture = load(source)
    grey = picture.pixels @ LUMA if picture.is_colour else picture.pixels
    rows, columns = (np.arange(0, size, stride) / size for size in grey.shape)
    x, y = np.meshgrid(columns, rows)
    return np.stack([x.ravel(), y.ravel()], axis=1), grey[::stride, ::stride].reshape(-1, 1)
