"""The part of the image commands that needs JAX: from options to a restored picture, its table and its figure."""

import dataclasses
import importlib.util
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .. import pictures, restore
from ..pictures.figure import FIGURE_FORMATS, Panel, comparison_figure
from ..restore import baselines
from ..restore.operators import GaussianBlur
from ..restore.recipes import num_grades
from ..restore.strengths import LEAST_NOISE
from ..training import RunRecord
from ._live import print_outcomes, watching

TASK_ARGUMENTS = {"deblur": ("blur_sigma",), "upsample": ("factor",)}


@dataclasses.dataclass(frozen=True)
class Result:
    picture: pictures.Picture  # to be written
    metrics: dict
    rows: list[tuple[str, float, float]]  # name, PSNR, SSIM; simple methods come last
    records: Sequence[RunRecord]
    panels: list[Panel]
    reference: np.ndarray | None

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
        print_outcomes(self.records)
        if self.metrics.get("is_minimiser"):
            console.print("the grades are of no use here: this is what minimises the objective, without a network")
        elif self.metrics.get("is_cut_short"):
            console.print(f"the time limit left no time for a grade after these {len(self.records)}")
        if "noise_sigma" in self.metrics:
            how = "estimated" if self.metrics["noise_was_estimated"] else "given"
            weight = f", lambda {self.metrics['lambda']:.3g}" if "lambda" in self.metrics else ""
            console.print(f"noise {self.metrics['noise_sigma']:.1f} ({how}){weight}")
        estimated = self.metrics.get("estimated_psnr", [None])[-1]
        if estimated is not None:
            console.print(f"PSNR about {estimated:.1f} dB, estimated from the noise alone")
        if self.metrics.get("is_worse_than_input"):
            console.print("the input is nearer to the clean picture than this: try --recipe best, or more --steps")
        console.print(f"written to {output} after {self.metrics['seconds']:.0f} s", soft_wrap=True)


def run(task: str, picture: pictures.Picture, given: dict, checkpoint: Path) -> Result:
    started = time.perf_counter()
    if given["figure"] is not None and given["figure"].suffix.lower() not in FIGURE_FORMATS:
        raise ValueError(f"--figure must end in {', '.join(FIGURE_FORMATS)}; got {given['figure'].name!r}")
    names = ("method", "recipe", "grades", "layers", "width", "epochs", "learning_rate", "weight", "beta", "seed")
    options = restore.Options(**{name: given.get(name) for name in (*names, "time_limit")}, checkpoint=checkpoint)
    observed, reference, extra = _prepared(task, picture, given)
    view = {"quiet": given["quiet"], "tensorboard": given["tensorboard"], "checkpoint": checkpoint}
    with watching(num_grades(task, observed.shape[:2], options), task, **view) as observers:
        options = dataclasses.replace(options, observers=observers)
        restored = _call(task, observed, reference, extra, options, given)
    metrics = {**restored.metrics, "seconds": time.perf_counter() - started}
    if task == "inpaint":  # what was seen
        observed = np.where(extra["mask"] if observed.ndim == 2 else extra["mask"][..., None], observed, 0)
    found = _simple(task, observed, reference, extra, restored, given)
    metrics["baselines"] = [{"name": name, **quality} for name, quality in found]
    rows = [*_rows(reference, restored), *((f"baseline: {name}", quality) for name, quality in found)]
    rows = [(name, quality["psnr"], quality["ssim"]) for name, quality in rows]
    alpha = picture.alpha
    if task == "upsample" and alpha is not None:
        alpha = baselines.upsample(alpha, extra["factor"])  # bilinear: between the values that are there
    written = dataclasses.replace(picture, pixels=restored.image, alpha=alpha)
    return Result(written, metrics, rows, restored.records, _panels(observed, restored), reference)


def _prepared(task: str, picture: pictures.Picture, given: dict):
    """The image to restore, the reference (None if unknown) and the task's own arguments, all checked."""
    observed, extra = picture.pixels, {name: given[name] for name in TASK_ARGUMENTS.get(task, ())}
    if task == "inpaint":
        mask = pictures.load(given["mask"])
        known = np.atleast_3d(mask.pixels).max(axis=2) >= 0.5  # what a soft brush leaves of black is not quite black
        extra["mask"] = known if mask.alpha is None else known & (mask.alpha >= 0.5)
        if extra["mask"].all():
            raise ValueError("--mask must be dark or transparent where pixels are unknown; it is so nowhere")
    reference = pictures.load(given["reference"]).pixels if given.get("reference") is not None else None
    if reference is None and (
        task == "regress" or given.get("add_noise") is not None or given.get("add_blur") is not None
    ):
        reference = observed if task != "upsample" else None
    if given["baselines"] and reference is None:
        trying = "" if task == "upsample" else ", or --add-noise to a clean picture"
        raise ValueError(f"--baselines needs a clean picture to measure against: give --reference{trying}")
    if task == "deblur":
        if given["blur_sigma"] is None and given["add_blur"] is None:
            raise ValueError("--blur-sigma must be given: the width of the blur in pixels")
        extra["blur_sigma"] = given["add_blur"] if given["blur_sigma"] is None else given["blur_sigma"]
        GaussianBlur(float(extra["blur_sigma"]))  # refuses what is not a width
        if given["add_blur"] is not None:
            observed = pictures.add_blur(observed, given["add_blur"])
    if given.get("add_noise") is not None:
        observed = pictures.add_noise(observed, given["add_noise"], seed=given["seed"])
    return observed, reference, extra


def _call(task: str, observed, reference, extra: dict, options: restore.Options, given: dict) -> restore.Restored:
    function = getattr(restore, task)
    if task == "regress":
        return function(observed, options=options)
    return function(observed, **extra, noise_sigma=given["noise_sigma"], reference=reference, options=options)


def _rows(reference, restored: restore.Restored) -> list[tuple[str, dict[str, float]]]:
    """Names and quality of input, grades and result; nothing without a reference."""
    if reference is None:
        return []
    metrics, last = restored.metrics, len(restored.stages)
    rows = [("input", metrics["input"])] if "input" in metrics else []
    return rows + [(f"grade {i}" if i < last else "result", found) for i, found in enumerate(metrics["grades"], 1)]


def _simple(task: str, observed, reference, extra: dict, restored: restore.Restored, given: dict):
    """Names and quality of simple methods, if they are asked for."""
    if not given["baselines"]:
        return []
    clean = _channels_first(reference)
    found = _baselines(task, _channels_first(observed), extra, restored.metrics.get("noise_sigma"))
    return [(name, restore.quality(image, clean)) for name, image in found]


def _channels_first(image: np.ndarray) -> np.ndarray:
    return np.moveaxis(image, -1, 0) if image.ndim == 3 else image


def _baselines(task: str, image, extra: dict, noise_sigma):
    """Simple methods on the same input, their strength from the noise level by their own rule: no ground truth."""
    if task == "regress":
        found = {
            k: baselines.interpolate_grid(image[..., ::2, ::2], image.shape[-2:], kind=k) for k in baselines.ORDERS
        }
    elif task == "denoise":
        found = {
            "TV (ROF)": baselines.tv_denoise(image, noise_sigma=noise_sigma),
            "non-local means": baselines.nonlocal_means(image, noise_sigma=noise_sigma),
            "non-local estimate": baselines.nonlocal_denoise(image, noise_sigma=noise_sigma),
        }
        if importlib.util.find_spec("bm3d"):
            found["BM3D"] = baselines.bm3d_denoise(image, noise_sigma=noise_sigma)
    elif task == "deblur":
        blur = GaussianBlur(float(extra["blur_sigma"]))
        methods = {"Wiener": baselines.wiener, "TV": baselines.tv_deblur}
        noise_sigma = max(noise_sigma, 255 * LEAST_NOISE)  # without noise they would divide by nothing
        found = {name: method(image, blur, noise_sigma=noise_sigma) for name, method in methods.items()}
    elif task == "inpaint":
        found = {"biharmonic": baselines.inpaint_biharmonic(image, extra["mask"])}
    else:
        found = {kind: baselines.upsample(image, extra["factor"], kind=kind) for kind in baselines.ORDERS}
    return found.items()


def _panels(observed, restored: restore.Restored) -> list[Panel]:
    last = len(restored.stages)
    names = [f"grade {i}" if i < last else "result" for i in range(1, last + 1)]
    stages = zip(["input", *names], [observed, *restored.stages], strict=True)
    return [Panel(name, image) for name, image in stages]
