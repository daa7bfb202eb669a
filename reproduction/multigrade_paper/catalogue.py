"""The paper's tables and figures as items, each a list of independent jobs.

    jobs = expand(["table1", "lr-synthetic"], recipe="paper", images=Path("images"), overrides={"epochs": "1000"})

An item has parts; a part names the configuration it takes (``recipes.CONFIGS``) and lists its cells: one method on one
data set at one rate or noise level. A job's settings are the configuration and the cell together. Items may share jobs.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from multigrade import structures

from . import numbers as paper
from . import recipes
from .images import Pictures
from .job import LABELLED, Job
from .numbers import (
    BLUR_LEVELS,
    METHODS,
    NOISE_LEVELS,
    REGRESSION_IMAGES,
    RESTORATION_IMAGES,
    SNAPSHOT_IMAGE,
    SWEEP_IMAGES,
)

Cell = dict[str, Any]
"""Settings beyond the configuration; "kind" names the experiment, "image" the picture where there is one."""


@dataclasses.dataclass(frozen=True)
class Part:
    config: str
    cells: Callable[[Any], Iterator[Cell]]


@dataclasses.dataclass(frozen=True)
class Item:
    """``place`` is where in the paper."""

    name: str
    title: str
    place: str
    parts: tuple[Part, ...]


VARIANTS = (*METHODS, "no freezing", "deep grades", "no residual", "residual only")  # experiments.steadiness


def _regression(images: Sequence[str]):
    def cells(config) -> Iterator[Cell]:
        for image, method in itertools.product(images, METHODS):
            yield {
                "kind": "regression", "task": "regress", "image": image, "method": method,
                "structure": f"{method}-{paper.REGRESSION_STRUCTURE[image]}", "snapshots": image == SNAPSHOT_IMAGE,
            }  # fmt: skip

    return cells


def _degradation(task: str, level: int) -> tuple[int, int]:
    """Noise and blur of a cell of Table 2 or 3; none in regression."""
    return {"regress": (0, 0), "denoise": (level, 0), "deblur": (paper.BLUR_NOISE, level)}[task]


def _restoration(task: str, levels: Sequence[int]):
    def cells(config) -> Iterator[Cell]:
        for image, level, method in itertools.product(RESTORATION_IMAGES, levels, METHODS):
            (noise, blur), beta, weight = _degradation(task, level), config.beta, config.weight
            if config.has_recorded_strengths:
                recorded_beta, recorded_weight = paper.strengths(task, method, noise)
                beta, weight = beta or recorded_beta, recorded_weight if weight is None else weight
            yield {
                "kind": "restoration", "task": task, "image": image, "method": method, "noise": noise, "blur": blur,
                "structure": f"{method}-{paper.RESTORATION_STRUCTURE}", "beta": beta, "weight": weight,
            }  # fmt: skip

    return cells


def _inputs(task: str, levels: Sequence[int]):
    """The degraded pictures by themselves."""

    def cells(config) -> Iterator[Cell]:
        for image, level in itertools.product(RESTORATION_IMAGES, levels):
            noise, blur = _degradation(task, level)
            yield {"kind": "input", "task": task, "image": image, "method": "input", "noise": noise, "blur": blur}

    return cells


def _baselines(task: str, images: Sequence[str], levels: Sequence[int] = (0,)):
    def cells(config) -> Iterator[Cell]:
        for image, level in itertools.product(images, levels):
            noise, blur = _degradation(task, level)
            cell = {"kind": "baseline", "task": task, "image": image, "method": "baseline"}
            yield {**cell, "noise": noise, "blur": blur}

    return cells


def _synthetic(methods: Sequence[str], *, has_rates: bool):
    def cells(config) -> Iterator[Cell]:
        for setting, method in itertools.product((1, 2), methods):
            for rate in config.rates if has_rates else (paper.SYNTHETIC_RATES[str(setting), method],):
                yield {
                    "kind": "descent", "setting": setting, "method": method, "learning_rate": rate,
                    "structure": "MSDL" if method == "MSDL" else f"{method}-1",
                }  # fmt: skip

    return cells


def _equal_rates(config) -> Iterator[Cell]:
    """SGDL and MGDL at each other's rates, so that their ||H|| can be compared."""
    for setting, (method, other) in itertools.product((1, 2), (METHODS, METHODS[::-1])):
        yield {
            "kind": "descent", "setting": setting, "method": method, "structure": f"{method}-1",
            "learning_rate": paper.SYNTHETIC_RATES[str(setting), other],
        }  # fmt: skip


def _activations(config) -> Iterator[Cell]:
    """MSDL at its own rates, with the activations that Section 7 suggests."""
    for setting, name in itertools.product((1, 2), structures.BEYOND):
        rate = paper.SYNTHETIC_RATES[str(setting), "MSDL"]
        yield {"kind": "descent", "setting": setting, "method": name, "structure": name, "learning_rate": rate}


def _image_sweep(config) -> Iterator[Cell]:
    for image, method, rate in itertools.product(SWEEP_IMAGES, METHODS, config.rates):
        cell = {"kind": "descent", "image": image, "method": method, "learning_rate": rate}
        yield {**cell, "structure": f"{method}-2"}


def _image_spectrum(config) -> Iterator[Cell]:
    rates = [(image, method, paper.IMAGE_RATES[image, method])
             for image, method in itertools.product(paper.SPECTRUM_IMAGES, METHODS)]  # fmt: skip
    # The run of this figure that the authors recorded has another rate than its caption.
    for image, method, rate in [*rates, ("resolution_chart", "SGDL", paper.CHART_RECORDED_RATE)]:
        yield {
            "kind": "descent", "image": image, "method": method, "structure": f"{method}-4", "learning_rate": rate,
            # The authors end a grade of MGDL, and of MGDL alone, when an eigenvalue falls below -0.95.
            "edge": paper.EDGE if method == "MGDL" else None,
            "tolerance": paper.SPECTRUM_TOLERANCE[method] if config.tolerance is None else config.tolerance,
        }  # fmt: skip


def _denoising_spectrum(config) -> Iterator[Cell]:
    images, levels = paper.DENOISING_SPECTRUM_IMAGES, paper.DENOISING_SPECTRUM_NOISE
    for image, noise, method in itertools.product(images, levels, METHODS):
        rate, beta, weight, every = paper.DENOISING_SPECTRUM[method]
        # Of one grade the text and the authors' code say the same.
        for variant in ("", "as written") if method == "MGDL" else ("",):
            yield {
                "kind": "denoising descent", "image": image, "noise": noise, "method": method,
                "structure": f"{method}-4", "learning_rate": rate, "beta": beta, "weight": weight,
                "spectrum_every": config.spectrum_every or every, "variant": variant,
            }  # fmt: skip


def _grade_1(config) -> Iterator[Cell]:
    """Grade 1 of setting 1 by itself: copies whose weights differ by 1e-7 end in two places."""
    rate = paper.SYNTHETIC_RATES["1", "MGDL"]
    for copy in range(paper.NUM_COPIES):
        yield {
            "kind": "descent", "setting": 1, "method": "MGDL grade 1", "structure": "MGDL-1", "grades": 1,
            "learning_rate": rate, "copy": copy,
        }  # fmt: skip


# Rates at which all variants are compared; ours, high enough for SGDL to meet the edge of stability.
STEADINESS_RATES = {("gd", 1): 0.08, ("gd", 2): 0.05, ("adam", 1): 3e-3, ("adam", 2): 3e-3}
PICTURE_RATES = {"SGDL": 0.1, "MGDL": 0.2, "MSDL": 0.05}  # those of Cameraman; that of MSDL is our choice


def _steadiness(config) -> Iterator[Cell]:
    for optimiser, setting, method in itertools.product(("gd", "adam"), (1, 2), VARIANTS):
        yield {
            "kind": "steadiness", "task": optimiser, "setting": setting, "method": method, "optimiser": optimiser,
            "learning_rate": STEADINESS_RATES[optimiser, setting],
        }  # fmt: skip


def _frequencies(config) -> Iterator[Cell]:
    for method in (*METHODS, "MSDL"):
        for setting in (1, 2):
            networks = "MSDL" if method == "MSDL" else f"{method}-1"
            rate = paper.SYNTHETIC_RATES[str(setting), method]
            yield {
                "kind": "frequencies", "setting": setting, "method": method, "networks": networks, "learning_rate": rate
            }  # fmt: skip
        yield {
            "kind": "frequencies", "image": "cameraman", "method": method, "networks": f"{method}-4",
            "learning_rate": PICTURE_RATES[method],
        }  # fmt: skip


EQUATIONS: dict[str, dict[str, Any]] = {  # ready problems, by their own names of options
    "helmholtz": {"wavenumber": 50.0}, "lens": {"wavenumber": 20.0}, "poisson": {"layer": 0.05}, "heat": {}, "wave": {},
    "burgers": {}, "fredholm": {"wavenumber": 500.0}, "volterra": {}, "inverse": {},
}  # fmt: skip


_ITEMS = (
    Item("table1", "Image regression, six images", "Section 4, Table 1, Figure 6", (
        Part("regression", _regression(REGRESSION_IMAGES)),
        Part("baseline", _baselines("regress", REGRESSION_IMAGES)),
    )),
    Item("figure-cameraman", "Cameraman: loss curves and predictions near the end", "Section 4, Figure 5", (
        Part("regression", _regression([SNAPSHOT_IMAGE])),
        Part("baseline", _baselines("regress", [SNAPSHOT_IMAGE])),
    )),
    Item("table2", "Denoising, three images at six noise levels", "Section 4, Table 2, Figures 7-10", (
        Part("restoration", _restoration("denoise", NOISE_LEVELS)),
        Part("baseline", _inputs("denoise", NOISE_LEVELS)),
        Part("baseline", _baselines("denoise", RESTORATION_IMAGES, NOISE_LEVELS)),
    )),
    Item("table3", "Deblurring, three images at three blur levels", "Section 4, Table 3, Figures 11-14", (
        Part("restoration", _restoration("deblur", BLUR_LEVELS)),
        Part("baseline", _inputs("deblur", BLUR_LEVELS)),
        Part("baseline", _baselines("deblur", RESTORATION_IMAGES, BLUR_LEVELS)),
    )),
    Item("lr-synthetic", "Learning rates on settings 1 and 2", "Section 5, Figure 1", (
        Part("synthetic sweep", _synthetic(METHODS, has_rates=True)),
    )),
    Item("lr-image", "Learning rates on four images", "Section 5, Figure 15", (
        Part("image sweep", _image_sweep),
    )),
    Item("eig-synthetic", "Eigenvalues along training, settings 1 and 2", "Section 6, Figures 2, 16, 17", (
        Part("synthetic spectrum", _synthetic(METHODS, has_rates=False)),
    )),
    Item("alpha-synthetic", "Eigenvalues of SGDL and MGDL at each other's rates", "Section 3, after Theorem 2", (
        Part("synthetic spectrum", _equal_rates),
    )),
    Item("eig-image-regression", "Eigenvalues along image regression", "Section 6, Figures 3, 18-20", (
        Part("image spectrum", _image_spectrum),
    )),
    Item("eig-image-denoising", "Eigenvalues along image denoising", "Section 6, Figures 21-24", (
        Part("denoising spectrum", _denoising_spectrum),
    )),
    Item("msdl-synthetic", "MSDL beside MGDL: spectra, predictions, rates", "Section 7, Figures 25-28", (
        Part("synthetic spectrum", _synthetic(("MSDL", "MGDL"), has_rates=False)),
        Part("synthetic sweep", _synthetic(("MSDL", "MGDL"), has_rates=True)),
    )),
    Item("theory", "Theorems 1, 2, 4 and 5 in numbers", "Sections 2, 3 and 6", (
        Part("theory", lambda config: ({"kind": "theory", "theorem": number} for number in (1, 2, 4, 5))),
    )),
    Item("convex", "Theorem 3: a grade as a convex program", "Section 3, Appendix A", (
        Part("convex", lambda config: ({"kind": "convex", "theorem": 3, "setting": number} for number in (1, 2))),
    )),
)  # fmt: skip
BEYOND = (
    Item("copies", "Six copies of grade 1 of setting 1: when do they part?", "beyond the paper", (
        Part("synthetic sweep", _grade_1),
    )),
    Item("msdl-activations", "MSDL with compactly supported activations", "beyond the paper", (
        Part("synthetic spectrum", _activations),
    )),
    Item("steadiness", "Why are grades steady? One cause switched off at a time", "beyond the paper", (
        Part("steadiness", _steadiness),
    )),
    Item("spectral-bias", "Errors by frequency along training", "beyond the paper", (
        Part("frequencies", _frequencies),
    )),
    Item("equations", "Equations, solved by grades, against references", "beyond the paper", (
        Part("equations", lambda config: (
            {"kind": "equation", "task": name, "options": options} for name, options in EQUATIONS.items()
        )),
    )),
)  # fmt: skip
ITEMS = {item.name: item for item in (*_ITEMS, *BEYOND)}
IDENTIFYING = ("kind", "structure", "variant", *LABELLED)
KEY_START = 8  # digits of a key that tables show, and that name a job
UNSEEDED = ("baseline", "input")  # no training, so that other seeds give the same


def items() -> tuple[Item, ...]:
    """The paper's items, in its order; ``BEYOND`` are ours."""
    return _ITEMS


def named(name: str) -> Item:
    """The item of this name; ValueError if there is none."""
    if name not in ITEMS:
        known = ", ".join(ITEMS)
        raise ValueError(f"there is no item {name!r}{recipes.close(name, list(ITEMS))}; there are {known}")
    return ITEMS[name]


def expand(
    names: Sequence[str],
    *,
    recipe: str,
    images: Path | None,
    overrides: Mapping[str, str] | None = None,
    seeds: int = 1,
) -> list[Job]:
    """The jobs of the named items, in order, those that items share once; ValueError for what does not exist."""
    overrides = overrides or {}
    wanted = [named(name) for name in names]
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1; got {seeds}")
    kinds = [part.config for item in wanted for part in item.parts]
    recipes.check_names(recipe, kinds, overrides)
    pictures = Pictures(images)
    jobs = (job for item in wanted for job in _jobs(item, recipe, pictures, overrides, seeds))
    first: dict[str, Job] = {}
    for job in jobs:
        first.setdefault(job.key, job)
    return list(first.values())


def _jobs(item: Item, recipe: str, pictures: Pictures, overrides: Mapping[str, str], seeds: int) -> Iterator[Job]:
    for part in item.parts:
        config = recipes.config(part.config, recipe, overrides)
        common = {name: value for name, value in dataclasses.asdict(config).items() if name not in recipes.CELLS}
        common |= {"config": part.config, "changed": recipes.changed(part.config, config)}
        for cell in part.cells(config):
            settings = {**common, **cell}
            kind, data = settings.pop("kind"), ""
            if "image" in cell:
                source = pictures.get(cell["image"])
                settings["stand_in"], data = source.stand_in, source.digest
            if kind in UNSEEDED:
                yield Job(item.name, kind, settings, data)
                continue
            for seed, copy in itertools.product(range(seeds), range(getattr(config, "copies", 1))):
                own = {**settings, "recipe": recipe, "seed": seed, **({"copy": copy} if copy else {})}
                yield Job(item.name, kind, own, data)


def only(jobs: Sequence[Job], wanted: Sequence[str]) -> list[Job]:
    """The jobs that one of the texts means, "MGDL", "denoise butterfly" or a key's start; all if there is no text."""
    for text in wanted:
        if not any(_is_meant(job, text) for job in jobs):
            raise ValueError(
                f"none of the {len(jobs)} jobs is {text!r}; words stand in names like {jobs[0].label!r}, and a "
                "key needs the items, recipe, settings, seeds and images it was made with"
            )
    return [job for job in jobs if not wanted or any(_is_meant(job, text) for text in wanted)]


def _is_meant(job: Job, text: str) -> bool:
    """All words stand in the label; "blur 3" does not mean a blur of 5 with noise 3."""
    label, words = job.label.split(), text.split()
    levels = {name: level for name, level in itertools.pairwise(label) if level[0].isdigit()}
    are_right = all(levels.get(name, level) == level for name, level in itertools.pairwise(words) if level[0].isdigit())
    is_key = len(text) >= KEY_START and job.key.startswith(text)
    return is_key or (set(words) <= set(label) and are_right)


def is_ours(job: Job) -> bool:
    """Whether a job is of the catalogue, with the settings that figures and tables ask for, not someone's own."""
    config = recipes.CONFIGS.get(job.setup.config)
    if job.item not in ITEMS or config is None:
        return False
    fields = {field.name for field in dataclasses.fields(config["paper"])} - set(recipes.CELLS)
    return fields <= set(job.settings)  # an older catalogue may have asked for something else under this name


def is_of(item: Item, job: Job) -> bool:
    """Whether the item asks for such a job, whichever item it was made for."""
    settings = {"kind": job.kind, **job.settings}
    for part in item.parts:
        if part.config == job.setup.config:  # a job from outside the catalogue has none
            config = recipes.config(part.config, "paper")
            known = {field.name: settings[field.name] for field in dataclasses.fields(config) if field.name in settings}
            if hasattr(config, "rates"):
                known["rates"] = (job.setup.learning_rate,)
            cells = part.cells(dataclasses.replace(config, **known))
            if any(all(settings[name] == cell[name] for name in IDENTIFYING if name in cell) for cell in cells):
                return True
    return False
