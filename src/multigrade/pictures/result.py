"""What comes back of a task (``Restored``), and how a recipe makes it."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..model import MultiGrade
from ..training import Fit
from ..training.record import Outcome, RunRecord
from .layout import to_picture
from .metrics import psnr, ssim
from .problem import Options, Problem
from .progress import Stopwatch

Quality = dict[str, float]  # "psnr" in decibels, and "ssim"
JSON_NAMES = {"names": "stages", "weight": "lambda", "input_quality": "input", "result_quality": "result"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Restored:
    """The result of a task. Images are (h, w) or (h, w, channels), not clipped. What is not known is None.

    Parameters
    ----------
    image : ndarray
    stages : tuple of ndarray
        The image after every grade; the last is ``image``.
    names : tuple of str
        Of the stages, where they are not grades alone.
    model : MultiGrade
        By the recipes paper and networks the model, at ``pixel_coordinates``, is the image. By best it is the grades
        alone, which improve upon an image that no network makes.
    records : tuple of RunRecord
        How each grade was trained.
    recipe : str
    seconds : float
        Of the whole; by the recipes paper and networks of training.
    noise_sigma : float
        On the 0..255 scale, of all channels together.
    noise_was_estimated, noise_is_assumed : bool
        Whether the level comes from the picture; whether it is 0 because nobody said otherwise.
    noise_kind : str
        "none", "white", "brighter", "camera" or "impulses".
    is_clipped : bool
        Whether values were cut off at black or white.
    weight, beta, strengths_from
        lambda and beta of total variation, and who chose them.
    objective, least_objective : float
        Of the image, and of the minimiser over all images.
    estimated_psnr : tuple
        Of each stage, from the noise alone; None where nothing honest can be said.
    is_worse_than_input : bool
        Whether, by that estimate, the input is nearer to the clean picture.
    is_cut_short : bool
        Whether there was no time for all of it.
    is_minimiser : bool
        The grades are of no use, as after too short a time limit: the image is the minimiser of the objective over all
        images, and the model has no grades.
    input_quality, grades, result_quality : dict
        PSNR and SSIM of the input, after every grade and in the end, where there is a reference.
    fallback : dict
        That of the image where grades diverged, which have no quality.
    train_psnr : float
        At the pixels that were learned from.
    operator_norm : float
    """

    image: np.ndarray
    stages: tuple[np.ndarray, ...]
    model: MultiGrade
    records: tuple[RunRecord, ...]
    recipe: str
    seconds: float
    names: tuple[str, ...] = ()
    noise_sigma: float | None = None
    noise_was_estimated: bool | None = None
    noise_is_assumed: bool | None = None
    noise_kind: str | None = None
    is_clipped: bool | None = None
    weight: float | None = None
    beta: float | None = None
    strengths_from: str | None = None
    objective: float | None = None
    least_objective: float | None = None
    estimated_psnr: tuple[float | None, ...] = ()
    is_worse_than_input: bool | None = None
    is_cut_short: bool = False
    is_minimiser: bool = False
    input_quality: Quality | None = None
    grades: tuple[Quality, ...] = ()
    result_quality: Quality | None = None
    fallback: Quality | None = None
    train_psnr: float | None = None
    operator_norm: float | None = None

    @property
    def outcomes(self) -> list[str]:
        """How the training of each grade ended."""
        return [str(record.outcome) for record in self.records]

    def summary(self) -> dict[str, Any]:
        """All that is known besides images and models, for JSON."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)[4:]}
        known = {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()
                 if value is not None and not (isinstance(value, tuple) and not value)
                 and (value is not False or name in ALWAYS_TOLD)}  # fmt: skip
        return {JSON_NAMES.get(name, name): value for name, value in known.items()} | {"outcomes": self.outcomes}


ALWAYS_TOLD = ("noise_was_estimated", "is_clipped", "is_worse_than_input")


class Recipe(NamedTuple):
    """How to solve a problem.

    Parameters
    ----------
    solve : callable
        (problem, options) -> Restored.
    most_grades : callable
        (options) -> the number of grades that are trained at most: what a view of the progress counts to.
    refusal : callable
        (size, options) -> why a picture of this size cannot be restored with these options, or None.
    reads_noise : bool
        Whether a noise level that is not given is estimated first. Other recipes look at the noise themselves.
    """

    solve: Callable[[Problem, Options], Restored]
    most_grades: Callable[[Options], int]
    refusal: Callable[[tuple[int, int], Options], str | None] = lambda size, options: None
    reads_noise: bool = True


def restored(problem: Problem, fit: Fit, stages: Sequence[np.ndarray], recipe: str, **facts) -> Restored:
    """The result of these grades and images (channels, h, w), with PSNR and SSIM if there is a reference.

    Its ``seconds`` are those of training, unless ``facts`` has those of the whole.
    """
    facts.setdefault("seconds", sum(record.seconds for record in fit.records))
    facts["is_cut_short"] = facts.get("is_cut_short", False) or fit.is_cut_short
    pictures = tuple(to_picture(np.asarray(stage, np.float64), is_grey=problem.is_grey) for stage in stages)
    if problem.reference is not None:
        clean = to_picture(problem.reference, is_grey=problem.is_grey)
        found = tuple(quality(picture, clean) for picture in pictures)
        # Grades that diverged have no quality: what is there instead of them is not their result.
        is_diverged = any(record.outcome is Outcome.DIVERGED for record in fit.records)
        facts |= {"fallback": found[-1]} if is_diverged else {"grades": found, "result_quality": found[-1]}
        if problem.observed.shape == problem.reference.shape and problem.observed is not problem.reference:
            facts["input_quality"] = quality(to_picture(problem.observed, is_grey=problem.is_grey), clean)
    return Restored(
        image=pictures[-1], stages=pictures, model=fit.model, records=fit.records, recipe=recipe, **facts
    )  # fmt: skip


def untrained(problem: Problem, images: dict[str, np.ndarray], watch: Stopwatch) -> Restored:
    """The result of recipe best without training: images (channels, h, w) by name, the last the best."""
    is_assumed = problem.noise_was_estimated and problem.noise_sigma == 0
    return restored(
        problem, Fit(), list(images.values()), "best", names=tuple(images), noise_sigma=problem.noise_sigma,
        noise_was_estimated=problem.noise_was_estimated and not is_assumed, noise_is_assumed=is_assumed or None,
        is_cut_short=watch.is_over, seconds=watch.seconds,
    )  # fmt: skip


def refuse_training(size: tuple[int, int], options: Options) -> str | None:
    """Why recipes that train nothing refuse the options; None if they ask for no training."""
    if options.asks_for_grades:
        return "recipe best trains no grades for this task: leave grades, layers, width, steps and learning rate out"
    if options.has_strengths:
        return "lambda and beta must not be given for recipe best, which has its own"
    return None


def quality(image: np.ndarray, reference: np.ndarray) -> Quality:
    """PSNR and SSIM of a picture, (h, w) or (h, w, channels).

    Parameters
    ----------
    image : (h, w) or (h, w, channels)
    reference : the true picture, of the same shape

    Returns
    -------
    dict
        ``psnr`` in decibels and ``ssim``.
    """
    return {"psnr": psnr(image, reference), "ssim": ssim(image, reference)}
