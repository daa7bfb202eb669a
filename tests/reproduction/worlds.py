"""Made-up results for every job of the catalogue: a world in which the paper is right, and one in which it is wrong."""

import dataclasses

import numpy as np

from multigrade.training.record import RunRecord
from multigrade_paper import catalogue
from multigrade_paper.claims.reconstruction import PAPER
from multigrade_paper.job import Job, Result, Saved
from multigrade_paper.numbers import SYNTHETIC_RATES


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


SLIGHT, STRONG, STRONGER = 0.02, 0.2, 0.5  # heights of a zigzag in dB


def restless(*phases):
    """A zigzag of (first step, height in dB), each until the next."""

    def height(steps):
        return np.select([steps > first for first, _ in reversed(phases)], [high for _, high in reversed(phases)], 0.0)

    return height


def record(epochs, *, zigzag=None, fall=1e-3, spectrum=None, rate=1.0) -> RunRecord:
    """A loss that falls a little and zigzags; 1001 records and 101 looks at the spectrum."""
    steps = np.linspace(0, epochs, 1001).astype(np.int32)
    decibel = -10 * fall * np.arange(1001) / 10
    if zigzag is not None:
        decibel = decibel + zigzag(steps) * (np.arange(1001) % 2)
    loss = (10 ** (decibel / 10)).astype(np.float32)
    columns = {"step": steps, "train_loss": loss, "psnr": (20 - 10 * np.log10(loss)).astype(np.float32)}
    seen = {}
    if spectrum is not None:
        smallest, largest = spectrum(steps[::10])
        seen = {"spectrum": {"step": steps[::10], "smallest": smallest, "largest": largest,
                             "learning_rate": np.full(101, rate), "converged": np.ones(101)}}  # fmt: skip
    return RunRecord(columns, seen, num_steps=epochs)


# Spectra that a ReLU network can have. Rescaling a neuron's two sides leaves the network as it is, and a neuron that
# sleeps has no gradient: so the ten largest eigenvalues of I - eta H are at least 1, whatever the other end does.
AT_ONE = np.ones(10)
ABOVE_ONE = np.linspace(1.02, 1.001, 10)
FAR_ABOVE = np.linspace(1.4, 1.2, 10)


def low(*values):
    """The ten smallest eigenvalues: the given ones, then rising to 0.6."""
    rest = np.linspace(max(values[-1], -0.4), 0.6, 11 - len(values))[1:]
    return np.concatenate([values, rest])


CALM = low(0.2)
ONE, THREE = low(-0.97), low(-1.3, -1.05, -0.95)
EIGHT = low(-1.5, -1.4, -1.3, -1.2, -1.1, -1.05, -1.0, -0.95)
WILD = np.full(10, -60.0)


def flat(smallest, largest):
    return phases((-1, smallest), largest=largest)


def phases(*given, largest, noise=0.0, late=None):
    """The smallest eigenvalues after each of the given steps; the largest, those of the second half, their noise."""

    def spectrum(steps):
        rows = np.stack([next(row for first, row in reversed(given) if step > first) for step in steps])
        tops = np.tile(largest, (len(steps), 1))
        tops[len(steps) // 2 :] = largest if late is None else late
        jitter = noise * np.random.default_rng(0).uniform(size=(len(steps), 1)) * (tops > 1)
        return rows, tops + jitter

    return spectrum


def grades(settings, **options) -> tuple[RunRecord, ...]:
    return tuple(record(settings["epochs"] or 100, **options) for _ in range(4 if settings["method"] == "MGDL" else 1))


def regression(settings, is_right) -> Result:
    paper, method = PAPER["regression"][settings["image"]][settings["method"]], settings["method"]
    shift = 0 if is_right else {"SGDL": 9.0, "MGDL": -9.0}[method]
    shots = [24, 25, 23, 24] if (method == "SGDL") == is_right else [24.0, 24.1, 24.2, 24.3]
    metrics = {"train_psnr": paper["train"] + shift, "test_psnr": paper["test"] + shift}
    metrics["snapshots"] = dict(zip(("9800", "9850", "9900", "9950"), shots, strict=True))
    return Result(metrics, grades(settings, zigzag=strong(method == "SGDL" and is_right)))


def restoration(settings, is_right) -> Result:
    level = settings["noise"] if settings["task"] == "denoise" else settings["blur"]
    value = PAPER[settings["task"]][settings["image"]][settings["method"]][str(level)]
    shift = 0 if is_right else {"SGDL": 9.0, "MGDL": -9.0}[settings["method"]]
    return Result(
        {"test_psnr": value + shift}, grades(settings, zigzag=strong(settings["method"] == "SGDL" and is_right))
    )


def strong(is_restless):
    return restless((-1, STRONG)) if is_restless else None


def baseline(settings, is_right) -> Result:
    given = {} if settings["task"] == "regress" else degraded_input(settings, is_right).metrics
    return Result({"methods": {"simple": 25.0}, **given})


def degraded_input(settings, is_right) -> Result:
    level = settings["noise"] if settings["task"] == "denoise" else settings["blur"]
    index = sorted(int(text) for text in PAPER[settings["task"]][settings["image"]]["MGDL"]).index(level)
    value = PAPER["degraded"][settings["task"]][settings["image"]][index]
    return Result({"input_psnr": value + (0 if is_right else 0.04)})


def descent(settings, is_right) -> Result:
    makers = {"synthetic sweep": synthetic_sweep, "image sweep": image_sweep, "synthetic spectrum": synthetic_spectrum,
              "image spectrum": image_spectrum}  # fmt: skip
    return makers[settings["config"]](settings, is_right)


def sweep_losses(settings, is_right) -> dict:
    """Losses at a rate; the caption's rate has the lowest validation loss where the paper is right."""
    rate, method = settings["learning_rate"], settings["method"]
    good = {
        (1, "SGDL"): 0.03 <= rate <= 0.08, (1, "MGDL"): 0.01 <= rate <= 0.3, (1, "MSDL"): rate == 0.004,
        (2, "SGDL"): rate == 0.005, (2, "MGDL"): 0.08 <= rate <= 0.3, (2, "MSDL"): rate == 0.006,
    }[settings["setting"], method]  # fmt: skip
    if settings["setting"] == 2 and method == "SGDL":  # best is not good
        loss = 0.36 if good else 0.4
        loss = loss if is_right else (0.001 if rate > 0.006 else 0.4)
    elif is_right:
        loss = 1e-4 if good else 0.5
    else:
        loss = 0.5 if method != "MSDL" and good else 1e-4
    is_captions = rate == SYNTHETIC_RATES[str(settings["setting"]), method]
    return {"train_loss": loss, "validation_loss": 1e-5 if is_captions == is_right else 0.6, "is_diverged": False}


def synthetic_sweep(settings, is_right) -> Result:
    if settings.get("grades"):
        return Result({}, (record(1000),))
    return Result(sweep_losses(settings, is_right))


def image_sweep(settings, is_right) -> Result:
    is_near_one = settings["learning_rate"] >= 0.8
    if is_right:
        psnr = 25.0 if settings["method"] == "MGDL" else 15.0 if is_near_one else 20.0
    else:
        psnr = 20.0 if settings["method"] == "SGDL" else 12.0 if is_near_one else 19.0
    return Result({"test_psnr": psnr, "constant_psnr": 14.5, "is_diverged": False})


def synthetic_spectrum(settings, is_right) -> Result:
    method, number = settings["method"], settings["setting"]
    records = grades(settings, zigzag=_zigzag(method, number, is_right), rate=settings["learning_rate"],
                     spectrum=_spectrum(method, number, is_right))  # fmt: skip
    is_accurate = (number == 1 or method == "MGDL") if is_right else (number == 1 and method == "SGDL")
    return Result({"test_loss": 1e-4 if is_accurate else 0.3, **sweep_losses(settings, is_right)}, records)


def _spectrum(method, number, is_right):
    if method == "MGDL":  # "confined" and "slightly above 1" contradict each other
        return flat(CALM, ABOVE_ONE) if is_right else phases((-1, WILD), largest=FAR_ABOVE, late=FAR_ABOVE + 1)
    if not is_right:  # fewer and fewer near -1
        return phases((-1, THREE if method == "SGDL" else CALM), (200_000, CALM), largest=AT_ONE + 1e-2 * (number == 2))
    if number == 1:
        return phases((-1, THREE), (100_000, EIGHT), largest=ABOVE_ONE, noise=0.01)
    first = (200_000, low(-1.05, -0.95))
    return phases((-1, CALM), first, (600_000, EIGHT), largest=AT_ONE, late=ABOVE_ONE, noise=0.01)


def _zigzag(method, number, is_right):
    if method == "MGDL":
        return None if is_right else restless((500_000, STRONGER))  # with the largest eigenvalue
    if not is_right:
        return restless((200_000, SLIGHT))  # when fewer are near -1
    if method == "MSDL":
        return strong(True)
    return {1: restless((-1, SLIGHT), (100_000, STRONG)), 2: restless((200_000, STRONG), (600_000, STRONGER))}[number]


def image_spectrum(settings, is_right) -> Result:
    """All of these end at 1 at best: the upper edge holds up to rounding."""
    is_sgdl, change = settings["method"] == "SGDL", CHANGES[settings["image"]] if "edge" in settings else 0
    if is_right:
        spectrum = phases((-1, ONE), (change, EIGHT), largest=AT_ONE) if is_sgdl else flat(CALM, AT_ONE)
        zigzag = restless((-1, SLIGHT), (change, STRONG)) if is_sgdl else None
    else:
        spectrum, zigzag = flat(CALM if is_sgdl else ONE - 0.1, ABOVE_ONE), strong(not is_sgdl)
    return Result({"test_psnr": 20.0}, grades(settings, zigzag=zigzag, spectrum=spectrum))


CHANGES = {"resolution_chart": 130_000, "cameraman": 50_000, "barbara": 80_000, "butterfly": 200_000}


def theory(settings, is_right) -> Result:
    descent = {"rate": 0.19, "alpha": 10.0, "limit": 0.2, "share": 0.95, "violations": 0 if is_right else 1,
               "num_steps": 10, "first_gradient": 1.0, "last_gradient": 0.005, "outside_rises": 3}  # fmt: skip
    linearised = {"tau": 0.9, "is_contraction": True, "first_error": 1.0, "last_error": 1e-8, "last_distance": 1e-12,
                  "last_linearised_error": 1e-8, "order": 2.0 if is_right else 1.0, "explained": 0.9,
                  "pace": 1.0, "linearised_pace": 1.0 if is_right else 1.05, "worst_contraction": 0.9,
                  "smallest_eigenvalue": 0.1}  # fmt: skip
    return Result(descent if settings["theorem"] in (1, 2) else linearised)


def convex(settings, is_right) -> Result:
    return Result({"objective": 2.0, "network_objective": 2.0 if is_right else 2.001, "gap": 1e-7, "is_full": True,
                   "dual_bound": 2.0, "descent_objective": 2.1, "neurons": 3})  # fmt: skip


MAKERS = {
    "regression": regression, "restoration": restoration, "baseline": baseline, "input": degraded_input,
    "descent": descent,
    "denoising descent": image_spectrum, "theory": theory, "convex": convex,
}  # fmt: skip
