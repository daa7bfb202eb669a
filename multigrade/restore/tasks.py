"""Restore an image: regress, denoise, deblur, inpaint, upsample. No ground truth is needed.

Each task takes an image, (h, w) or (h, w, 3) on the unit scale, and returns a ``Restored`` with the image, the image
after every grade, the model, the records and, if a reference is given, PSNR and SSIM. Three recipes:

paper   the paper's structures, initial weights, optimiser, learning rate and number of steps (facts in Appendix C and
        the authors' recorded runs): hours on a laptop for anything but small pictures. lambda follows from the noise,
        RULE[task] * sigma / 255, and beta is 1, as in a recorded winner.
fast    the same structures and the same objective, minimised in two stages: over all images, which takes seconds
        (``variational``), with lambda and beta chosen from the observation (``strengths``); then the grades are fitted
        to that image by random pixels (``target``), with Muon, a warm-up and cosine schedule, features standardised
        between grades, later grades starting from zero output. Judges say how many grades are enough (``judges``).
best    grades on what surrounds a pixel instead of where it is (``surroundings``, ``copies``, ``interpolation``), for
        denoising, deblurring and regression; fast for all else.

The noise level is estimated from the image when it is not given. Where a time limit is too short for the grades to be
of use, or they diverge, the image is the minimiser over all images, the model has no grades, and
``metrics["is_minimiser"]`` says so; ``metrics["is_cut_short"]`` that there was no time for further grades.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..model import MultiGrade
from ..training import Fit
from ..training.record import Outcome, RunRecord
from .judges import EXTRA_NOISE, SecondLook, Unexplained, least, mixed
from .metrics import psnr, ssim
from .noise import estimate_noise_sigma
from .operators import BlockAverage, GaussianBlur, Identity, Mask, Operator
from .recipes import (
    Options,
    by_interpolation,
    by_known_pixels,
    by_pixels,
    by_rows,
    by_smaller_copies,
    by_surroundings,
    by_whole_images,
    estimated_psnr,
    recipe_for,
    strengths_of,
    structure_of,
)
from .strengths import Strengths
from .variational import objective, solve

LEAST_SIGMA = 0.01  # on the 0..255 scale; less is no noise, and derivatives from probes that small drown in rounding


@dataclasses.dataclass(frozen=True)
class Restored:
    """The result of a task. Images are (h, w) or (h, w, 3), not clipped; ``stages`` holds one per grade.

    By the recipes paper and fast the model, at pixel coordinates, is the image. By best it is the grades alone, which
    improve upon an image that no network makes.
    """

    image: np.ndarray
    stages: tuple[np.ndarray, ...]
    model: MultiGrade
    records: tuple[RunRecord, ...]
    metrics: dict[str, Any]


def regress(image, *, reference=None, options: Options = Options()) -> Restored:  # noqa: B008
    """The image as a function of its coordinates, learned from every second pixel in both directions (Table 1)."""
    channels = _channels(image)
    _, height, width = channels.shape
    _check_reference(reference, channels.shape)
    structure = structure_of(options, layers=2, single_layers=8, outputs=len(channels))
    pixels = np.arange(height * width).reshape(height, width)
    rows, held_out = pixels[::2, ::2].ravel(), pixels[1::2, 1::2].ravel()
    if options.recipe != "paper":  # fewer pixels, yet of all three kinds: beside, below and between the known ones
        held_out = np.concatenate([pixels[top::4, left::4].ravel() for top, left in ((0, 1), (1, 0), (1, 1))])
    recipe = recipe_for("regress", (height, width), options)
    train = {"paper": by_rows, "fast": by_known_pixels, "best": by_interpolation}[recipe]
    fit, stages = train(structure, channels, options, rows, held_out)
    facts = {"train_psnr": psnr(stages[-1][:, ::2, ::2], channels[:, ::2, ::2])}
    facts["recipe"] = recipe
    observed, clean = (None, image) if reference is None else (channels, reference)
    return _restored(fit, stages, observed, clean, facts)


def denoise(image, *, noise_sigma=None, reference=None, options: Options = Options()) -> Restored:  # noqa: B008
    """Remove Gaussian noise; ``noise_sigma`` is its standard deviation on the 0..255 scale, estimated if not given."""
    return _restore("denoise", image, Identity(), None, noise_sigma, reference, options)


def deblur(image, *, blur_sigma: float, noise_sigma=None, reference=None, options: Options = Options()) -> Restored:  # noqa: B008
    """Undo a Gaussian blur of ``blur_sigma`` pixels (symmetric padding, truncated at 3 sigma)."""
    return _restore("deblur", image, GaussianBlur(float(blur_sigma)), None, noise_sigma, reference, options)


def inpaint(image, mask, *, noise_sigma=None, reference=None, options: Options = Options()) -> Restored:  # noqa: B008
    """Fill in pixels; ``mask`` (h, w) is nonzero where the pixel is known."""
    mask, shape = np.asarray(mask), _channels(image).shape[1:]
    if mask.shape != shape:
        raise ValueError(f"mask must have the image's size {shape}; got {mask.shape}")
    known = mask != 0
    if not known.any():
        raise ValueError("mask must mark at least one known pixel; it marks none")
    return _restore("inpaint", image, Mask(jnp.asarray(known, jnp.float32)), known, noise_sigma, reference, options)


def upsample(image, *, factor: int = 2, noise_sigma=None, reference=None, options: Options = Options()) -> Restored:  # noqa: B008
    """An image ``factor`` times as large whose block averages are this one."""
    if not isinstance(factor, (int, np.integer)) or factor < 2:
        raise ValueError(f"factor must be an integer of at least 2; got {factor!r}")
    _, height, width = _channels(image).shape
    operator = BlockAverage(int(factor), (height * factor, width * factor))
    return _restore("upsample", image, operator, None, noise_sigma, reference, options)


def _restore(task, image, operator: Operator, known, noise_sigma, reference, options: Options) -> Restored:
    observed = _channels(image)
    if known is not None:
        observed = np.where(known, observed, 0)
    if noise_sigma is not None and not (np.isfinite(noise_sigma) and noise_sigma >= 0):
        raise ValueError(f"noise_sigma must be at least 0 on the 0..255 scale; got {noise_sigma!r}")
    recipe = recipe_for(task, observed.shape[1:], options)
    sigma = estimate_noise_sigma(observed, known) if noise_sigma is None else float(noise_sigma)
    is_noisy = sigma >= LEAST_SIGMA
    shape = (len(observed), *getattr(operator, "shape", observed.shape[1:]))
    _check_reference(reference, shape)
    structure = structure_of(options, layers=3, single_layers=12, outputs=len(observed))
    known_facts = {"recipe": recipe, "noise_sigma": sigma, "noise_was_estimated": noise_sigma is None}
    if recipe == "best" and task == "denoise":
        fit, stages, facts = by_surroundings(observed, max(sigma, LEAST_SIGMA) / 255, options)
        return _restored(fit, stages, observed, reference, {**known_facts, **facts})
    if recipe == "best" and task == "deblur":
        strengths = strengths_of(task, observed, operator, sigma, options)
        fit, stages = by_smaller_copies(observed, operator, strengths, sigma / 255, options)
        facts = {} if fit.model.grades else {"is_minimiser": True}
    elif recipe == "paper":
        strengths = strengths_of(task, observed, operator, sigma, options)
        clean = None if reference is None else _channels(reference)
        fit, stages = by_whole_images(structure, observed, shape, operator, strengths, clean, options)
        facts = {}
    else:
        noisier = EXTRA_NOISE if task == "denoise" and is_noisy else 0.0
        extra = np.random.default_rng(options.seed + 2**32).standard_normal(observed.shape).astype(np.float32)
        first = observed + np.float32(noisier * sigma / 255) * extra
        strengths = strengths_of(task, first, operator, sigma * np.hypot(1, noisier), options)
        target = solve(first, operator, *strengths, shape=shape)
        facts = {"least_objective": objective(target, observed, operator, *strengths)}
        if noisier:
            judge = SecondLook(observed, extra, sigma / 255)
            fit, stages = by_pixels(structure, target, options, judge)
            fit, stages = mixed(fit, stages, judge)
            errors, doubts = ([f(stage) for stage in stages] for f in (judge, judge.doubt))
            facts["estimated_psnr"] = [estimated_psnr(*each) for each in zip(errors, doubts, strict=True)]
            facts["is_worse_than_input"] = errors[-1] - 2 * doubts[-1] > (sigma / 255) ** 2
        elif isinstance(operator, GaussianBlur) and is_noisy:
            judge = Unexplained(observed, operator, sigma / 255)
            fit, stages = least(*by_pixels(structure, target, options, judge), judge)
        else:
            fit, stages = by_pixels(structure, target, options)
    facts |= {**known_facts, **_named(strengths)}
    facts["objective"] = objective(np.float32(stages[-1]), observed, operator, *strengths)
    if fit.outcome in (Outcome.TIME_LIMIT, Outcome.DIVERGED):
        fit, stages, facts = _or_minimiser(fit, stages, facts, observed, shape, operator, strengths)
    return _restored(fit, stages, observed, reference, facts)


def _or_minimiser(fit: Fit, stages, facts, observed, shape, operator, strengths) -> tuple[Fit, list, dict]:
    """The grades, or the minimiser over all images where they were cut off or lost too early: where, by the objective,
    they have not come half way to it from the observation."""
    factor = shape[1] // observed.shape[1]
    plain = observed.repeat(factor, axis=1).repeat(factor, axis=2)
    minimiser = solve(observed, operator, *strengths, shape=shape)
    least, most = (objective(image, observed, operator, *strengths) for image in (minimiser, plain))
    if facts["objective"] <= (least + most) / 2:
        return fit, stages, facts
    facts = {name: value for name, value in facts.items() if name not in ("estimated_psnr", "is_worse_than_input")}
    fit = dataclasses.replace(fit, model=MultiGrade())
    return fit, [minimiser], {**facts, "objective": least, "is_minimiser": True}


def _named(strengths: Strengths) -> dict[str, float]:
    return {"lambda": strengths.weight, "beta": strengths.beta}


def _channels(image) -> np.ndarray:
    image = np.asarray(image)
    if image.dtype.kind not in "f":
        raise ValueError(
            f"an image must be floating point, 0 black and 1 white; got {image.dtype} (divide by its white)"
        )
    image = image.astype(np.float32)
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3) or min(image.shape[:2]) < 2:
        raise ValueError(f"an image must be (h, w) or (h, w, 3) with at least 2 x 2 pixels; got shape {image.shape}")
    if not np.isfinite(image).all():
        raise ValueError("an image must be finite; got NaN or infinity")
    return np.moveaxis(image, -1, 0) if image.ndim == 3 else image[None]


def _check_reference(reference, shape: tuple[int, ...]) -> None:
    if reference is not None and _channels(reference).shape != shape:
        found = _channels(reference).shape
        raise ValueError(f"reference must be as the result, {_in_words(shape)}; got {_in_words(found)}")


def _in_words(shape: tuple[int, ...]) -> str:
    channels, height, width = shape
    return f"{height} x {width} pixels in {'grey' if channels == 1 else 'colour'}"


def _restored(fit: Fit, stages, observed, reference, facts: dict) -> Restored:
    """``stages`` are (channels, h, w), as is ``observed``; what is returned is (h, w) or (h, w, 3)."""
    metrics = {**facts, "outcomes": [str(record.outcome) for record in fit.records]}
    metrics["seconds"] = sum(record.seconds for record in fit.records)
    if fit.is_cut_short:
        metrics["is_cut_short"] = True
    stages = [np.asarray(stage, np.float64) for stage in stages]
    if reference is not None:
        clean = _channels(reference)
        metrics["grades"] = [quality(stage, clean) for stage in stages]
        metrics["result"] = metrics["grades"][-1]
        if observed is not None and observed.shape == clean.shape:
            metrics["input"] = quality(observed, clean)
    pictures = tuple(np.moveaxis(stage, 0, -1) if len(stage) == 3 else stage[0] for stage in stages)
    return Restored(pictures[-1], pictures, fit.model, fit.records, metrics)


def quality(image: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """PSNR and SSIM of images (..., h, w)."""
    return {"psnr": psnr(image, reference), "ssim": ssim(image, reference)}
