"""What the authors' own recorded runs gave, as claims: does a replay with their numbers end where theirs did?

``recorded.json`` has what their public notebooks print, curves and eigenvalues read off the notebooks' pictures (a
pixel is about 0.01), and four whole searches over rate, lambda and beta. A calm run is held to 0.2 %; a run that
oscillates is held to the range of its copies, since rounding decides where it ends.
"""

import dataclasses
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from multigrade.training.record import RunRecord, starts

from ..job import Job, Result, Saved
from ..numbers import CHART_RECORDED_RATE, SYNTHETIC_RATES
from .ledger import Cells, Claim, Finding, Need
from .measures import ends_restless
from .spectral_rules import UNSEEN

CALM = 2e-3  # relative, of a loss
DECIBEL = 0.01
FIRST_GRADE = 1e-3  # of grade 1 of setting 1, whose training loss is the same at both of its ends
PIXELS = 0.03  # of an eigenvalue, three or four pixels
PIXEL_OF_LOSS = 0.022  # relative, of a loss read off a picture with a logarithmic axis
WINDOW = 5000  # epochs to either side of a place on such a picture


@functools.cache
def runs() -> dict[str, Mapping[str, Any]]:
    """The recorded runs and searches by name."""
    told = json.loads(files("multigrade_paper").joinpath("recorded.json").read_text())["runs"]
    return {run["experiment"]: run for run in told}


@dataclasses.dataclass(frozen=True)
class Reference:
    """A recorded run: its short name, its name in ``recorded.json``, where in the paper, and what replays it."""

    name: str
    experiment: str
    place: str
    need: Need

    @property
    def recorded(self) -> Mapping[str, Any]:
        return runs()[self.experiment]["recorded"]

    @property
    def digitised(self) -> Mapping[str, Any]:
        return runs()[self.experiment]["digitised"]


def _synthetic(setting: int, method: str) -> Need:
    rate = SYNTHETIC_RATES[str(setting), method]
    where = {"config": "synthetic spectrum", "setting": setting, "method": method, "learning_rate": rate}
    return Need(f"setting {setting} {method}", "descent", where)


def _chart(method: str, rate: float) -> Need:
    where = {"config": "image spectrum", "image": "resolution_chart", "method": method, "learning_rate": rate}
    return Need(f"Resolution chart {method}", "descent", where)


def _denoising(method: str) -> Need:
    where = {"config": "denoising spectrum", "image": "butterfly", "noise": 10, "method": method, "variant": ""}
    return Need(f"Butterfly, noise 10 {method}", "denoising descent", where)


def _table(task: str, method: str, **level) -> Need:
    return Need(f"{task} butterfly {method}", "restoration",
                {"task": task, "image": "butterfly", "method": method, **level})  # fmt: skip


REFERENCES = (
    Reference("synthetic-1-mgdl", "synthetic setting 1, MGDL (eigenvalues, learning rate, MSDL comparison)", "Figure 2",
              _synthetic(1, "MGDL")),
    Reference("synthetic-2-sgdl", "synthetic setting 2, SGDL", "Figure 16", _synthetic(2, "SGDL")),
    Reference("synthetic-1-msdl", "synthetic setting 1, MSDL", "Figure 25", _synthetic(1, "MSDL")),
    Reference("chart-sgdl", "eigenvalues, image regression, Resolution chart, SGDL", "Figure 3",
              _chart("SGDL", CHART_RECORDED_RATE)),
    Reference("chart-mgdl", "eigenvalues, image regression, Resolution chart, MGDL", "Figure 3", _chart("MGDL", 0.2)),
    Reference("denoising-sgdl", "eigenvalues, denoising, Butterfly 64x64, noise 10, SGDL", "Figure 21",
              _denoising("SGDL")),
    Reference("denoising-mgdl", "eigenvalues, denoising, Butterfly 64x64, noise 10, MGDL", "Figure 21",
              _denoising("MGDL")),
    Reference("noise-10-mgdl", "Table 2, Butterfly, noise 10, MGDL", "Table 2", _table("denoise", "MGDL", noise=10)),
    Reference("noise-10-sgdl", "Table 2, Butterfly, noise 10, SGDL", "Table 2", _table("denoise", "SGDL", noise=10)),
    Reference("blur-3-mgdl", "Table 3, Butterfly, blur 3, MGDL", "Table 3", _table("deblur", "MGDL", blur=3)),
    Reference("blur-3-sgdl", "Table 3, Butterfly, blur 3, SGDL", "Table 3", _table("deblur", "SGDL", blur=3)),
)  # fmt: skip
# Grade 1 of setting 1 by itself, in copies: it takes seconds.
GRADE_1 = Need("grade 1 of setting 1", "descent",
               {"config": "synthetic sweep", "setting": 1, "method": "MGDL grade 1", "grades": 1})  # fmt: skip
# What is printed of a run or of a grade: its name, in words, and where a result of ours has it.
QUANTITIES: dict[str, tuple[str, Callable[[Saved, int], float | None]]] = {
    "train": ("a training loss", lambda saved, grade: _last(saved, grade, "train_loss")),
    "train_loss": ("a training loss", lambda saved, grade: _last(saved, grade, "train_loss")),
    "validation": ("a validation loss", lambda saved, grade: _last(saved, grade, "validation_loss")),
    "test": ("a testing loss", lambda saved, grade: saved.result.metrics.get("test_loss")),
    "psnr": ("a PSNR", lambda saved, grade: _quality(saved, grade)),
    "test_psnr": ("a testing PSNR", lambda saved, grade: _quality(saved, grade)),
    "train_psnr": ("a training PSNR", lambda saved, grade: saved.result.metrics.get("train_psnr")),
}


def _last(saved: Saved, grade: int, column: str) -> float | None:
    records = saved.result.records
    known = grade < len(records) and column in records[grade].columns
    return float(records[grade].columns[column][-1]) if known else None


def _quality(saved: Saved, grade: int) -> float | None:
    each = saved.result.metrics.get("grades_test_psnr") or [saved.result.metrics.get("test_psnr")]
    return each[grade] if grade < len(each) else None


def claims() -> Iterator[Claim]:
    for reference in REFERENCES:
        yield from _ends(reference)
        yield from _curves(reference)


def _ends(reference: Reference) -> Iterator[Claim]:
    """What is printed at the end of the run, or of each of its grades."""
    grades = reference.recorded.get("grades", [reference.recorded])
    for index, told in enumerate(grades):
        of_grade = f"/grade-{index + 1}" if len(grades) > 1 else ""
        for name, (words, ours) in QUANTITIES.items():
            only_at_the_end = name in ("test", "train_psnr") and index < len(grades) - 1  # ours is not kept per grade
            if name not in told or only_at_the_end:
                continue
            value, is_quality = told[name], "psnr" in name
            allowed = DECIBEL if is_quality else CALM * value
            if (reference.name, of_grade, name) == ("synthetic-1-mgdl", "/grade-1", "train"):
                allowed = FIRST_GRADE * value
            unit = " dB" if is_quality else ""
            where = f"grade {index + 1} of {reference.experiment}" if of_grade else reference.experiment
            need = GRADE_1 if (reference.name, index) == ("synthetic-1-mgdl", 0) else reference.need
            yield Claim(
                f"recorded/{reference.name}{of_grade}/{name.removesuffix('_loss')}", f"{reference.place}, recorded run",
                f"{where}: ended at {words} of {value:.6g}{unit}.",
                f"a replay within {allowed:.2g}{unit}, or the copies' range around it", (need,),
                _near(ours, index, value, allowed), recorded=f"{value:.6g}{unit}",
                target=value, is_restless=ends_restless,
            )  # fmt: skip
    for index, epochs in enumerate(reference.digitised.get("epochs_of_grades", [])):
        need = GRADE_1 if (reference.name, index) == ("synthetic-1-mgdl", 0) else reference.need
        yield Claim(
            f"recorded/{reference.name}/grade-{index + 1}/epochs", f"{reference.place}, recorded run",
            f"Grade {index + 1} of {reference.experiment}: ended after {epochs:,} epochs.",
            "a replay within 2,000 epochs, or the copies' range around it", (need,),
            _near(lambda run, at: next((r.num_steps for r in run.result.records[at:]), None), index, epochs, 2000),
            recorded=f"{epochs:,} epochs",
            target=epochs, is_restless=ends_restless,
        )  # fmt: skip


def _near(ours: Callable[[Saved, int], float | None], grade: int, value: float, allowed: float):
    def rule(cells: Cells) -> Finding:
        ((saved, *_),) = cells.values()
        found = ours(saved, grade)
        if found is None:
            return Finding(None, "this run did not record it", {})
        told = f"{found:.6g} for {value:.6g} ({found / value - 1:+.2%})"
        return Finding(abs(found - value) <= allowed, told, {"ours": found})

    return rule


# ---- curves -----------------------------------------------------------------------------------------------------


def _curves(reference: Reference) -> Iterator[Claim]:
    bands = {"synthetic-2-sgdl": (200_000, 400_000, 980_000), "synthetic-1-msdl": (100_000, 300_000, 980_000)}
    for until in bands.get(reference.name, ()):
        is_late = until > 200_000 or reference.name == "synthetic-1-msdl"
        yield Claim(
            f"recorded/{reference.name}/loss-to-{until}", f"{reference.place}, recorded run",
            f"{reference.experiment}: the training loss as it is drawn, up to {until:,} epochs.",
            "at every mark of the picture a replay's loss meets the band that is drawn, give or take a pixel",
            (reference.need,), _inside(reference.digitised["loss_range_by_epoch"], until),
            recorded="read off the picture", is_restless=ends_restless if is_late else lambda cells: False,
        )  # fmt: skip
    if "eigenvalues" in reference.digitised:
        lasts = {"synthetic-2-sgdl": 200_000, "synthetic-1-msdl": 100_000, "chart-sgdl": 130_000,
                 "synthetic-1-mgdl": 30_000, "denoising-sgdl": 50_000}  # fmt: skip
        until = lasts.get(reference.name)
        span = f"up to {until:,} epochs" if until else "in all grades"
        yield Claim(
            f"recorded/{reference.name}/smallest", f"{reference.place}, recorded run",
            f"{reference.experiment}: the smallest eigenvalue of I - eta H as it is drawn, {span}.",
            f"a replay within {PIXELS} at every look but the first, which is drawn on a steep line",
            (reference.need,), _same_eigenvalues(reference, until),
            recorded="read off the picture",
        )  # fmt: skip


def _inside(bands, until: int) -> Callable[[Cells], Finding]:
    def rule(cells: Cells) -> Finding:
        ((saved, *_),) = cells.values()
        record, apart, seen = saved.result.records[0], [], 0
        for epoch, low, high in bands:
            near = np.abs(record.steps - epoch) <= WINDOW
            if epoch > until or not near.any():
                continue
            seen += 1
            ours = record.train_loss[near]
            if ours.min() > high * (1 + PIXEL_OF_LOSS) or ours.max() < low * (1 - PIXEL_OF_LOSS):
                apart.append(epoch)
        told = f"inside at {seen - len(apart)} of {seen} marks" + (f"; first apart at {apart[0]:,}" if apart else "")
        if record.num_steps < until:
            told, apart = f"{told}; the replay ended after {record.num_steps:,} epochs", [until, *apart]
        return Finding(not apart, told, {"marks": seen, "apart": len(apart)})

    return rule


def seen(reference: Reference) -> tuple[np.ndarray, np.ndarray]:
    """(looks,), (looks, 6): epochs, counted over all grades, and eigenvalues by index; NaN where a line is hidden."""
    told = reference.digitised["eigenvalues"]
    lines = [told["smallest_by_index"][str(index)] for index in range(6)]
    return np.array(told["epochs"]), np.array([[np.nan if v is None else v for v in line] for line in lines]).T


def _same_eigenvalues(reference: Reference, until: int | None) -> Callable[[Cells], Finding]:
    def rule(cells: Cells) -> Finding:
        ((saved, *_),) = cells.values()
        ours: dict[int, float] = {}
        for start, record in zip(starts(saved.result.records), saved.result.records, strict=True):
            spectrum = record.observations.get("spectrum")
            if spectrum is None:
                return UNSEEN
            steps = spectrum["step"][spectrum["step"] > 0]
            # In single precision, as thinned evidence has them.
            smallest = spectrum["smallest"][spectrum["step"] > 0, 0].astype(np.float32)
            ours |= {int(start + step): float(value) for step, value in zip(steps, smallest, strict=True)}
        if not ours:
            return UNSEEN
        epochs, theirs = seen(reference)
        spacing = np.min(np.diff(epochs))
        apart = {
            int(epoch): abs(ours[near] - value)
            for epoch, value in zip(epochs, theirs[:, 0], strict=True)
            if spacing < epoch <= (until or np.inf) and np.isfinite(value)
            and abs((near := min(ours, key=lambda step: abs(step - epoch))) - epoch) < spacing / 2
        }  # fmt: skip
        if not apart:
            return Finding(None, "no look in common", {})
        worst = max(apart, key=lambda epoch: apart[epoch])
        told = f"at {len(apart)} looks apart by {np.median(list(apart.values())):.3f} in the median, at most "
        told += f"{apart[worst]:.3f} (at {worst:,})"
        return Finding(apart[worst] <= PIXELS, told, {"largest difference": apart[worst]})

    return rule


# ---- what the record says of the paper's own claims -----------------------------------------------------------------

# Claims whose rule reads the smallest eigenvalues by their index alone, and so can be put to the recorded pictures.
BY_INDEX = ("lower", "sgdl-below", "sgdl-several", "drops", "second", "sgdl-near", "sgdl-multiple")
UPPER = ("upper", "largest")


def said(claim: Claim) -> str:
    """What the authors' recorded pictures say of a claim on spectra, by the claim's own rule; "" if nothing."""
    if len(claim.needs) != 1 or claim.id.startswith("recorded"):
        return ""
    wanted = claim.needs[0]
    for reference in REFERENCES:
        names = ("config", "setting", "image", "noise", "method")
        same = all(wanted.where.get(name) == reference.need.where.get(name) for name in names)
        if not same or wanted.kind != reference.need.kind or "eigenvalues" not in reference.digitised:
            continue
        if claim.id.endswith(UPPER):
            return f"highest {reference.digitised['largest']['highest']}, at any time"
        if claim.id.endswith(BY_INDEX):
            epochs, smallest = seen(reference)
            smallest = smallest[:, :1] if claim.id.endswith("lower") else smallest
            observed = {"step": epochs, "smallest": smallest, "largest": np.full_like(smallest, np.nan)}
            record = RunRecord({"step": epochs}, {"spectrum": observed}, num_steps=int(epochs[-1]))
            job = Job("recorded", reference.need.kind, dict(reference.need.where))
            finding = claim.rule({wanted.role: [Saved(job, Result({}, (record,)))]})
            verdict = {True: "holds", False: "does not hold", None: "cannot tell"}[finding.holds]
            return f"{verdict}: {finding.sentence}"
    return ""
