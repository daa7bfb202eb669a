"""Made-up results for every job of the catalogue: a world in which the paper is right, and one in which it is wrong."""

import dataclasses

import numpy as np

from multigrade.lab import catalogue
from multigrade.lab.claims.reconstruction import PAPER
from multigrade.lab.job import Job, Result, Saved
from multigrade.training.record import RunRecord


def jobs(names=None, recipe="paper", **options) -> list[Job]:
    """The jobs of the catalogue as if all images but the walnut were the paper's."""
    names = names or [item.name for item in catalogue.items()]
    made = catalogue.expand(names, recipe=recipe, images=None, **options)
    return [with_settings(job, stand_in=job.settings["image"] == "walnut") if "image" in job.settings else job
            for job in made]  # fmt: skip


def with_settings(job: Job, **changes) -> Job:
    return dataclasses.replace(job, settings={**job.settings, **changes})


def world(is_right: bool, names=None, **options) -> list[Saved]:
    return [Saved(job, result(job, is_right)) for job in jobs(names, **options)]


def result(job: Job, is_right: bool) -> Result:
    return MAKERS[job.kind](job.settings, is_right)


def curve(steps, *, restless_from=None, fall=1e-3):
    """A loss that falls, and zigzags from a step on by 0.2 dB and, towards the end, by twice as much."""
    loss = 10 ** (-fall * np.arange(len(steps)))
    if restless_from is not None:
        height = 0.02 * (1 + steps / steps[-1])
        loss = loss * 10 ** (height * (np.arange(len(steps)) % 2) * (steps >= restless_from))
    return loss.astype(np.float32)


def record(epochs, *, restless_from=None, spectrum=None, rate=1.0) -> RunRecord:
    steps = np.linspace(0, epochs, 101).astype(np.int32)
    loss = curve(steps, restless_from=restless_from)
    columns = {"step": steps, "train_loss": loss, "psnr": (20 - 10 * np.log10(loss)).astype(np.float32)}
    seen = {}
    if spectrum is not None:
        smallest, largest = spectrum(steps)
        seen = {"spectrum": {"step": steps, "smallest": smallest, "largest": largest,
                             "learning_rate": np.full(101, rate), "converged": np.ones(101)}}  # fmt: skip
    return RunRecord(columns, seen, num_steps=epochs)


def flat(smallest, largest):
    return lambda steps: (np.full((len(steps), 10), smallest), np.full((len(steps), 10), largest))


def from_step(step, before, after, largest):
    """All of the smallest eigenvalues change at a step."""
    return lambda steps: (np.where(steps[:, None] > step, after, before) * np.ones((1, 10)),
                          np.full((len(steps), 10), largest))  # fmt: skip


def grades(settings, **options) -> tuple[RunRecord, ...]:
    return tuple(record(settings["epochs"] or 100, **options) for _ in range(4 if settings["method"] == "MGDL" else 1))


def regression(settings, is_right) -> Result:
    paper, method = PAPER["regression"][settings["image"]][settings["method"]], settings["method"]
    shift = 0 if is_right else {"SGDL": 9.0, "MGDL": -9.0}[method]
    shots = [24, 25, 23, 24] if (method == "SGDL") == is_right else [24.0, 24.1, 24.2, 24.3]
    metrics = {"train_psnr": paper["train"] + shift, "test_psnr": paper["test"] + shift}
    metrics["snapshots"] = dict(zip(("9800", "9850", "9900", "9950"), shots, strict=True))
    is_restless = method == "SGDL" and is_right
    return Result(metrics, grades(settings, restless_from=0 if is_restless else None))


def restoration(settings, is_right) -> Result:
    level = settings["noise"] if settings["task"] == "denoise" else settings["blur"]
    value = PAPER[settings["task"]][settings["image"]][settings["method"]][str(level)]
    shift = 0 if is_right else {"SGDL": 9.0, "MGDL": -9.0}[settings["method"]]
    is_restless = settings["method"] == "SGDL" and is_right
    return Result({"test_psnr": value + shift}, grades(settings, restless_from=0 if is_restless else None))


def baseline(settings, is_right) -> Result:
    metrics = {"methods": {"simple": 25.0}}
    if settings["task"] != "regress":
        level = settings["noise"] if settings["task"] == "denoise" else settings["blur"]
        index = sorted(int(text) for text in PAPER[settings["task"]][settings["image"]]["MGDL"]).index(level)
        value = PAPER["degraded"][settings["task"]][settings["image"]][index]
        metrics["input_psnr"] = value + (0 if is_right else 0.04)
    return Result(metrics)


def descent(settings, is_right) -> Result:
    makers = {"synthetic sweep": synthetic_sweep, "image sweep": image_sweep, "synthetic spectrum": synthetic_spectrum,
              "image spectrum": image_spectrum}  # fmt: skip
    return makers[settings["config"]](settings, is_right)


def synthetic_sweep(settings, is_right) -> Result:
    rate, method = settings["learning_rate"], settings["method"]
    good = {
        (1, "SGDL"): 0.03 <= rate <= 0.08, (1, "MGDL"): 0.01 <= rate <= 0.3, (1, "MSDL"): rate == 0.003,
        (2, "SGDL"): rate == 0.005, (2, "MGDL"): 0.08 <= rate <= 0.3, (2, "MSDL"): rate == 0.006,
    }[settings["setting"], method]  # fmt: skip
    if settings["setting"] == 2 and method == "SGDL":  # best is not good
        loss = 0.36 if good else 0.4
        loss = loss if is_right else (0.001 if rate > 0.006 else 0.4)
    elif is_right:
        loss = 1e-4 if good else 0.5
    else:
        loss = 0.5 if method != "MSDL" and good else 1e-4
    return Result({"train_loss": loss, "is_diverged": False})


def image_sweep(settings, is_right) -> Result:
    is_near_one = settings["learning_rate"] >= 0.8
    if is_right:
        psnr = 25.0 if settings["method"] == "MGDL" else 15.0 if is_near_one else 20.0
    else:
        psnr = 20.0 if settings["method"] == "SGDL" else 12.0 if is_near_one else 19.0
    return Result({"test_psnr": psnr, "constant_psnr": 14.5, "is_diverged": False})


def synthetic_spectrum(settings, is_right) -> Result:
    method, number, rate = settings["method"], settings["setting"], settings["learning_rate"]
    is_wild = (method != "MGDL") == is_right
    if method == "MGDL":
        spectrum = flat(0.5, 0.999) if is_right else flat(-60.0, 1.2)
    elif number == 1:
        spectrum = flat(-1.5, 1.01) if is_right else flat(0.99, 0.9)
    else:
        spectrum = from_step(200_000, -0.5, -1.5, 1.01) if is_right else from_step(200_000, -1.5, 0.99, 0.9)
    start = None if not is_wild else {1: 100_000, 2: 200_000}[number] if method == "SGDL" else 0
    is_accurate = (number == 1 or method == "MGDL") if is_right else (number == 1 and method == "SGDL")
    records = grades(settings, restless_from=start, spectrum=spectrum, rate=rate)
    return Result({"test_loss": 1e-4 if is_accurate else 0.3, "is_diverged": False}, records)


def image_spectrum(settings, is_right) -> Result:
    is_sgdl = settings["method"] == "SGDL"
    spectrum = (
        (flat(-0.95, 1.0) if is_sgdl else flat(0.2, 0.999)) if is_right else flat(-0.5 if is_sgdl else -1.0, 1.01)
    )
    start = 0 if is_sgdl == is_right else None
    return Result({"test_psnr": 20.0}, grades(settings, restless_from=start, spectrum=spectrum))


def theory(settings, is_right) -> Result:
    error = 0.0 if is_right else 1e-3
    descent = {"rate": 0.1, "alpha": 10.0, "limit": 0.2, "is_stable": True, "rises": 0 if is_right else 1,
               "first_gradient": 1.0, "last_gradient": 0.1, "outside_rises": 3}  # fmt: skip
    linearised = {"tau": 0.9, "is_contraction": True, "largest_distance": 1.0, "last_distance": error,
                  "linearised_late_change": error, "tau_without_penalty": 0.9 if is_right else 1.1}  # fmt: skip
    return Result(descent if settings["theorem"] in (1, 2) else linearised)


def convex(settings, is_right) -> Result:
    return Result({"objective": 2.0, "network_objective": 2.0 if is_right else 2.001, "gap": 1e-7, "is_full": True,
                   "dual_bound": 2.0, "descent_objective": 2.1, "neurons": 3})  # fmt: skip


MAKERS = {
    "regression": regression, "restoration": restoration, "baseline": baseline, "descent": descent,
    "denoising descent": image_spectrum, "theory": theory, "convex": convex,
}  # fmt: skip
