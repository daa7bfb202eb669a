"""The part of the image commands that needs JAX: from options to a restored picture, its table and its figure."""

import dataclasses
import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import pictures, restore
from ..files import printable
from ..pictures import baselines
from ..pictures.figure import FIGURE_FORMATS, Panel, comparison_figure
from ..pictures.inverse.strengths import LEAST_NOISE
from ..pictures.recipes import most_grades
from ._live import print_outcomes, watching
from .image import Deblur, Denoise, ImageCommand, Inpaint, RestoreCommand, Upsample

NOISE_KINDS = {
    "white": "",
    "brighter": ", more of it where it is brighter",
    "camera": ", as cameras leave it",
    "impulses": ", after salt and pepper was filled in",
}
OPTIONS = ("method", "recipe", "grades", "layers", "width", "steps", "learning_rate", "seed", "time_limit")


@dataclasses.dataclass(frozen=True)
class Result:
    picture: pictures.Picture  # to be written
    restored: restore.Restored
    metrics: dict[str, Any]  # for JSON
    rows: list[tuple[str, float, float]]  # name, PSNR, SSIM; simple methods come last
    panels: list[Panel]
    reference: np.ndarray | None
    was_chosen: bool  # whether the recipe was left to us
    is_unchanged: bool  # whether the picture is the one that was read

    def draw(self, path: Path) -> None:
        comparison_figure(self.panels, path, reference=self.reference)

    def print(self, output: Path) -> None:
        from rich.console import Console
        from rich.table import Table

        console = Console()
        if self.rows:
            table = Table("", "PSNR", "SSIM")
            for name, *values in self.rows:
                table.add_row(name, f"{values[0]:.2f}", f"{values[1]:.3f}")
            console.print(table)
        print_outcomes(self.restored.records)
        for line in remarks(self.restored, was_chosen=self.was_chosen):
            console.print(line, soft_wrap=True)
        ended = f"written to {printable(output)} after {self.metrics['seconds']:.0f} s"
        console.print(ended, soft_wrap=True, markup=False)

    @property
    def line(self) -> str:
        """What there is to say in one line."""
        told = [*remarks(self.restored, was_chosen=self.was_chosen), f"{self.metrics['seconds']:.0f} s"]
        return ", ".join(told)


def remarks(result: restore.Restored, *, was_chosen: bool) -> Iterator[str]:
    """What a user should know of the result, a line each."""
    if was_chosen and result.recipe != "best":
        yield f"by recipe {result.recipe}: recipe best does not do this"
    if result.is_minimiser:
        yield "the grades are of no use here: this is what minimises the objective, without a network"
    elif result.is_cut_short:
        count = len(result.records)
        yield f"the time limit left no time for a grade after these {count}" if count else "cut short by the time limit"
    if result.noise_kind == "none" and result.noise_was_estimated:
        yield "no noise found: the picture is as it was; --noise-sigma says how much there is, if you see some"
    elif result.noise_sigma is not None:
        how = "estimated" if result.noise_was_estimated else "given"
        how = "assumed; --noise-sigma gives another" if result.noise_is_assumed else how
        weight = "" if result.weight is None else f", lambda {result.weight:.3g}, beta {result.beta:.3g}"
        yield f"noise {result.noise_sigma:.1f} ({how}{NOISE_KINDS[result.noise_kind or 'white']}){weight}"
    if result.strengths_from is not None:
        yield f"lambda and beta are {result.strengths_from}"
    if result.estimated_psnr and result.estimated_psnr[-1] is not None:
        yield f"PSNR about {result.estimated_psnr[-1]:.1f} dB, estimated from the noise alone"
    if result.is_worse_than_input:
        yield "the input is nearer to the clean picture than this: try --recipe best, or more --steps"


@dataclasses.dataclass(frozen=True)
class Case:
    """A picture to restore, all checked: what is given to the task, and the clean picture if there is one."""

    observed: np.ndarray
    reference: np.ndarray | None
    arguments: dict[str, Any]  # the task's own: blur_sigma, mask, factor

    @property
    def seen(self) -> np.ndarray:
        """The observation, black where it is unknown."""
        mask = self.arguments.get("mask")
        if mask is None:
            return self.observed
        return np.where(mask if self.observed.ndim == 2 else mask[..., None], self.observed, 0)


def run(given: ImageCommand, picture: pictures.Picture) -> Result:
    started = time.perf_counter()
    if given.figure is not None and given.figure.suffix.lower() not in FIGURE_FORMATS:
        raise ValueError(f"--figure must end in {', '.join(FIGURE_FORMATS)}; got {given.figure.name!r}")
    options = _options(given)
    case = prepared(given, picture)
    factor = case.arguments.get("factor", 1)
    size = (case.observed.shape[0] * factor, case.observed.shape[1] * factor)
    view = {"quiet": given.quiet, "tensorboard": given.tensorboard, "checkpoint": given.checkpoint}
    with watching(most_grades(given.task, size, options), given.task, **view) as observers:
        options = dataclasses.replace(options, observers=observers)
        if isinstance(given, RestoreCommand):
            common = {"noise_sigma": given.noise_sigma, "reference": case.reference, "options": options}
            restored = getattr(restore, given.task)(case.observed, **case.arguments, **common)
        else:
            restored = restore.regress(case.observed, options=options)
    metrics = {**restored.summary(), "seconds": time.perf_counter() - started}
    found = []
    if given.baselines and case.reference is not None:
        simple = simple_methods(given.task, case, restored.noise_sigma or 0.0)
        found = [(name, restore.quality(image, case.reference)) for name, image in simple.items()]
    metrics["baselines"] = [{"name": name, **quality} for name, quality in found]
    stages = zip(_stage_names(restored), restored.stages, strict=True)
    rows = [*_rows(restored), *((f"baseline: {name}", quality) for name, quality in found)]
    alpha = picture.alpha
    if alpha is not None and factor > 1:
        alpha = baselines.upsample(alpha, factor)  # bilinear: between the values that are there
    return Result(
        dataclasses.replace(picture, pixels=restored.image, alpha=alpha),
        restored,
        metrics,
        [(name, quality["psnr"], quality["ssim"]) for name, quality in rows],
        [Panel(name, image) for name, image in [("input", case.seen), *stages]],
        case.reference,
        given.recipe is None,
        restored.noise_kind == "none" and case.observed is picture.pixels,
    )


def _options(given: ImageCommand) -> restore.Options:
    chosen = {name: getattr(given, name) for name in OPTIONS}
    if isinstance(given, RestoreCommand):
        chosen |= {"weight": given.weight, "beta": given.beta}
    if isinstance(given, Denoise):
        chosen |= {"strength": given.strength}
    return restore.Options(**chosen, checkpoint=given.checkpoint)


def prepared(given: ImageCommand, picture: pictures.Picture) -> Case:
    """What is restored: the picture, blurred and made noisy first if that is asked for."""
    observed, arguments = picture.pixels, {}
    if not isinstance(given, RestoreCommand):
        return Case(observed, observed, arguments)
    if isinstance(given, Inpaint):
        arguments["mask"] = _mask(given.mask)
    if isinstance(given, Upsample):
        arguments["factor"] = given.factor
    add_blur = given.add_blur if isinstance(given, Deblur) else None
    is_trial = (given.add_noise is not None or add_blur is not None) and not isinstance(given, Upsample)
    reference = observed if is_trial else None
    if given.reference is not None:
        reference = pictures.load(given.reference).pixels
    if given.baselines and reference is None:
        trying = "" if isinstance(given, Upsample) else ", or --add-noise to a clean picture"
        raise ValueError(f"--baselines needs a clean picture to measure against: give --reference{trying}")
    if isinstance(given, Deblur):
        if given.blur_sigma is None and add_blur is None:
            raise ValueError("--blur-sigma must be given: the width of the blur in pixels")
        arguments["blur_sigma"] = add_blur if given.blur_sigma is None else given.blur_sigma
        restore.GaussianBlur(float(arguments["blur_sigma"]))  # refuses what is not a width
    if add_blur is not None:
        observed = pictures.add_blur(observed, add_blur)
    if given.add_noise is not None:
        observed = pictures.add_noise(observed, given.add_noise, seed=given.seed)
    return Case(observed, reference, arguments)


def _mask(source: str) -> np.ndarray:
    mask = pictures.load(source)
    known = np.atleast_3d(mask.pixels).max(axis=2) >= 0.5  # what a soft brush leaves of black is not quite black
    known = known if mask.alpha is None else known & (mask.alpha >= 0.5)
    if known.all():
        raise ValueError("--mask must be dark or transparent where pixels are unknown; it is so nowhere")
    return known


def _rows(result: restore.Restored) -> list[tuple[str, dict[str, float]]]:
    """Names and quality of input, grades and result; nothing without a reference."""
    rows = [] if result.input_quality is None else [("input", result.input_quality)]
    rows += zip(_stage_names(result), result.grades, strict=False)
    return rows + ([] if result.fallback is None else [("instead of the grades", result.fallback)])


def _stage_names(result: restore.Restored) -> list[str]:
    names = result.names or [f"grade {i}" for i in range(1, len(result.stages) + 1)]
    return [*names[:-1], "result"]


def simple_methods(task: str, case: Case, noise_sigma: float) -> dict[str, np.ndarray]:
    """Simple methods on the same input, their strength from the noise level by their own rule: no ground truth."""
    image = case.seen
    if task == "regress":
        shape = image.shape
        return {k: baselines.interpolate_grid(image[::2, ::2], shape, kind=k) for k in baselines.ORDERS}
    if task == "denoise":
        found = {
            "TV (ROF)": baselines.tv_denoise(image, noise_sigma=noise_sigma),
            "non-local means": baselines.nonlocal_means(image, noise_sigma=noise_sigma),
            "non-local estimate": baselines.nonlocal_denoise(image, noise_sigma=noise_sigma),
        }
        if importlib.util.find_spec("bm3d"):
            found["BM3D"] = baselines.bm3d_denoise(image, noise_sigma=noise_sigma)
        return found
    if task == "deblur":
        blur = restore.GaussianBlur(float(case.arguments["blur_sigma"]))
        noise_sigma = max(noise_sigma, 255 * LEAST_NOISE)  # without noise they would divide by nothing
        methods = {"Wiener": baselines.wiener, "TV": baselines.tv_deblur}
        return {name: method(image, blur, noise_sigma=noise_sigma) for name, method in methods.items()}
    if task == "inpaint":
        return {"biharmonic": baselines.inpaint_biharmonic(image, case.arguments["mask"])}
    return {kind: baselines.upsample(image, case.arguments["factor"], kind=kind) for kind in baselines.ORDERS}
