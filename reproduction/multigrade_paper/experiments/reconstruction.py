"""Tables 1-3: image regression, denoising and deblurring by the restoration tasks, and simple methods beside them."""

import dataclasses
import math
from collections.abc import Sequence

import jax
import numpy as np

from multigrade import restore, structures
from multigrade.draws import noisy
from multigrade.model import MultiGrade
from multigrade.pictures import baselines
from multigrade.pictures.files import add_blur
from multigrade.pictures.graded.restoration import pixel_coordinates
from multigrade.pictures.metrics import psnr
from multigrade.pictures.operators import GaussianBlur
from multigrade.training.observers import Observation, Observer, Snapshot
from multigrade.training.record import Outcome, RunRecord

from .. import numbers as paper
from ..job import Result
from ..setup import Setup
from .context import Context

SNAPSHOT_GRAIN = 10  # records of the paper recipe are that far apart


def regression(context: Context) -> Result:
    """Table 1: an image from every second of its pixels."""
    setup, image = context.setup, context.image
    steps = snapshot_steps(setup)
    grade = 3 if setup.method == "MGDL" else 0
    keeper = (ParametersAt(steps, grade, math.gcd(*steps)),) if steps else ()
    restored = restore.regress(image, options=_options(context, keeper))
    metrics = restored.summary()
    if not _is_diverged(restored):
        train = [psnr(stage[::2, ::2], image[::2, ::2]) for stage in restored.stages]
        test = [psnr(stage, image) for stage in restored.stages]
        metrics |= {"train_psnr": train[-1], "test_psnr": test[-1]}
        metrics |= {"grades_train_psnr": train, "grades_test_psnr": test}
    records, shots = _snapshots(restored.model, restored.records, image.shape)
    metrics["snapshots"] = {step: psnr(shot, image) for step, shot in shots.items()}
    pictures = _pictures(image[::2, ::2], restored.stages, image) | {f"step {k}": shot for k, shot in shots.items()}
    return Result(metrics, records, {}, pictures)


def restoration(context: Context) -> Result:
    """Tables 2 and 3: an image from a noisy, or blurred and noisy, one."""
    setup, image = context.setup, context.image
    observed = degraded(image, setup)
    options = _options(context, (), beta=setup.beta, weight=setup.weight)
    given = {"noise_sigma": setup.noise, "reference": image, "options": options}
    if setup.task == "deblur":
        restored = restore.deblur(observed, blur_sigma=setup.blur, **given)
    else:
        restored = restore.denoise(observed, **given)
    metrics = restored.summary()
    if not _is_diverged(restored):
        metrics["test_psnr"] = metrics["result"]["psnr"]
        metrics["grades_test_psnr"] = [quality["psnr"] for quality in metrics["grades"]]
    return Result(metrics, restored.records, {}, _pictures(observed, restored.stages, image))


def _is_diverged(restored: restore.Restored) -> bool:
    """Whether a grade diverged: such a run has no PSNR, whatever image is there in its place."""
    return any(record.outcome is Outcome.DIVERGED for record in restored.records)


def degraded(image: np.ndarray, setup: Setup) -> np.ndarray:
    blurred = add_blur(image, setup.blur) if setup.blur else image
    return noisy(blurred, setup.noise, seed=setup.noise_seed or 0)


def degraded_input(context: Context) -> Result:
    """How good a degraded picture is before anything is done about it (Figures 7 and 11)."""
    return Result({"input_psnr": psnr(degraded(context.image, context.setup), context.image)})


def _options(context: Context, observers: Sequence[Observer], **strengths) -> restore.Options:
    setup = context.setup
    recipe = {"quick": "paper", "fast": "networks"}.get(setup.recipe, setup.recipe)
    # Walnut is regressed by MGDL-3, where the recipes have MGDL-2.
    layers = len(structures.PAPER[setup.structure][0].widths) - 2
    return restore.Options(
        method=setup.method.lower(),
        recipe=recipe,
        layers=None if recipe == "best" else layers,
        steps=setup.epochs,
        learning_rate=setup.learning_rate,
        seed=setup.seed,
        observers=(*context.observers, *observers),
        checkpoint=context.checkpoint,
        **strengths,
    )


def _pictures(observed, stages, reference) -> dict[str, np.ndarray]:
    grades = {f"grade {index + 1}": stage for index, stage in enumerate(stages)} if len(stages) > 1 else {}
    return {"input": observed, **grades, "result": stages[-1], "reference": reference}


# ---- predictions near the end of a run (Figure 5) ---------------------------------------------------------------


def snapshot_steps(setup: Setup) -> tuple[int, ...]:
    """9800, 9850, 9900, 9950 of 10,000 iterations, and the like of fewer; none in training of our own."""
    epochs = setup.epochs
    if not setup.snapshots or epochs is None or setup.recipe not in ("paper", "quick"):
        return ()
    spacing = max(epochs // 200 // SNAPSHOT_GRAIN, 1) * SNAPSHOT_GRAIN
    last = epochs // spacing * spacing
    return tuple(step for k in range(paper.NUM_SNAPSHOTS, 0, -1) if (step := last - k * spacing) > 0)


@dataclasses.dataclass(frozen=True)
class ParametersAt:
    """Keeps the parameters of one grade at given steps."""

    steps: tuple[int, ...]
    grade: int
    every: int
    name: str = "parameters"

    def observe(self, snapshot: Snapshot, carry) -> Observation | None:
        if snapshot.grade != self.grade or snapshot.step not in self.steps:
            return None
        flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(snapshot.params)])
        return Observation({"params": flat})


def _snapshots(
    model: MultiGrade, records: tuple[RunRecord, ...], shape: tuple[int, int]
) -> tuple[tuple[RunRecord, ...], dict[str, np.ndarray]]:
    """The records without the parameters that were kept, and the image that those give, by step."""
    kept = records[-1].observations.get("parameters")
    if kept is None:
        return records, {}
    coordinates, last, shots = pixel_coordinates(*shape), model.grades[-1], {}
    leaves, treedef = jax.tree.flatten(last.params)
    ends = np.cumsum([leaf.size for leaf in leaves])
    for step, flat in zip(kept["step"], kept["params"], strict=True):
        parts = [part.reshape(leaf.shape) for part, leaf in zip(np.split(flat, ends[:-1]), leaves, strict=True)]
        grade = dataclasses.replace(last, params=jax.tree.unflatten(treedef, parts))
        prediction = MultiGrade((*model.grades[:-1], grade))(coordinates)
        shots[str(int(step))] = np.asarray(prediction, np.float64).reshape(shape)
    others = {name: seen for name, seen in records[-1].observations.items() if name != "parameters"}
    return (*records[:-1], dataclasses.replace(records[-1], observations=others)), shots


# ---- simple methods ---------------------------------------------------------------------------------------------


def baseline(context: Context) -> Result:
    """What simple methods make of the cell; "best" is at the strength that ground truth prefers, an upper limit."""
    setup, image = context.setup, context.image
    if setup.task == "regress":
        observed = image[::2, ::2]
        found = {kind: baselines.interpolate_grid(observed, image.shape, kind=kind) for kind in baselines.ORDERS}
        strengths, given = {}, {}
    else:
        observed = degraded(image, setup)
        methods = _denoised if setup.task == "denoise" else _deblurred
        found, strengths = methods(observed, image, setup)
        given = {"input_psnr": psnr(observed, image)}
    quality = {name: psnr(picture, image) for name, picture in found.items()}
    metrics = {**given, "methods": quality, "strengths": strengths}
    return Result(metrics, (), {}, {"input": observed, **found, "reference": image})


def _denoised(observed, image, setup: Setup):
    start = baselines.tv_denoise_strength(setup.noise)
    best = baselines.tuned(lambda strength: baselines.tv_denoise(observed, strength), image, start)
    found = {"ROF": baselines.tv_denoise(observed, start), "ROF best": best.image}
    return found, {"ROF": start, "ROF best": best.strength}


def _deblurred(observed, image, setup: Setup):
    blur, noise = GaussianBlur(float(setup.blur)), setup.noise
    methods = {
        "TV": (baselines.tv_deblur, baselines.tv_deblur_strength(noise)),
        "Wiener": (baselines.wiener, baselines.wiener_strength(noise)),
    }
    found, strengths = {}, {}
    for name, (method, start) in methods.items():
        best = baselines.tuned(lambda strength, method=method: method(observed, blur, strength), image, start)
        found |= {name: method(observed, blur, start), f"{name} best": best.image}
        strengths |= {name: start, f"{name} best": best.strength}
    return found, strengths
