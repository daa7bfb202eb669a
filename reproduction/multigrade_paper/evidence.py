"""Results that are small enough for a repository: a folder per item, in it a table of runs and a file of their curves.

    evidence/index.csv                     the folders, how many runs each has, checksums of its files
             eig-synthetic/runs.csv        a line per run: what it was, how it ended, what it gave; every cell is JSON
                           curves.safetensors   records and arrays, under each run's key
                           tried.md        what was tried before a claim of the item was refused

    Evidence("evidence").add(thin(saved) for saved in Store("runs").all() if is_paper(saved))

A thinned record keeps some hundred rows of a run's thousands: equally spaced ones, the lowest and the highest between
them, and those around the middle of the run. What rules measure over all rows, the upward moves of a loss, comes as a
column of sums (``claims.measures.sum_rises``), so that the evidence gives the verdicts of the full store. Pictures are
left out: most are made from test images that are not ours to give away.
"""

import csv
import dataclasses
import functools
import hashlib
import io
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from multigrade.curvature.frequencies import METRIC
from multigrade.files import all_or_none, atomic_path, read_arrays, write_arrays
from multigrade.training.record import RunRecord, arrays_under, records_from_arrays, records_to_arrays

from .catalogue import is_ours
from .claims.measures import COUNT, RISES, sum_rises
from .job import LABELLED, Job, Result, Saved
from .store import Store

WHOLE = 640  # rows of a record that is kept whole
STRETCHES = 100  # equal stretches of a long run; steps that rules name are their ends
POINTS = 256  # of other arrays, such as predictions
KEPT_COLUMNS = ("step", "train_loss", "validation_loss", "psnr")
OF_DESCENT, OF_MAPS = ("smallest", "largest"), ("left_real", "left_imag", "radius", "ratio", "held")
KEPT_SPECTRUM = ("step", *OF_DESCENT, *OF_MAPS, "learning_rate", "converged")
KEPT_INFO = ("finished", "processor", "cores", "seconds", "threads", "versions", "full_result")
# The first columns of a table of runs, and what its lines are sorted by; then how the run ended, then its figures.
IDENTIFYING = (*LABELLED, "optimiser", "seed", "copy")
FIGURES = ("train_loss", "validation_loss", "test_loss", "train_psnr", "test_psnr", "input_psnr")
INDEX = ("folder", "runs", "core_hours", "runs_sha256", "curves_sha256")


class Evidence:
    """The results in a folder, read when they are asked for; ``create`` makes the folder."""

    def __init__(self, path: str | os.PathLike, *, create: bool = False):
        self.path = Path(path).absolute()
        if create:
            self.path.mkdir(exist_ok=True)
            if not (self.path / "index.csv").exists():
                (self.path / "index.csv").write_text(_to_csv(INDEX, []))
        if not (self.path / "index.csv").is_file():
            raise ValueError(f"there is no evidence at {path}: it has no index.csv")

    def keys(self) -> list[str]:
        return list(self._read[0])

    def __contains__(self, key: str) -> bool:
        return key in self._read[0]

    def load(self, key: str) -> Saved:
        return self._read[0][key]

    def all(self) -> Iterator[Saved]:
        yield from self._read[0].values()

    def damaged(self) -> dict[str, str]:
        """What is wrong, by folder or key, with what ``all`` leaves out."""
        return dict(self._read[1])

    @functools.cached_property
    def _read(self) -> tuple[dict[str, Saved], dict[str, str]]:
        found, damaged = {}, {}
        for line in csv.DictReader(io.StringIO((self.path / "index.csv").read_text())):
            try:
                for saved in _read_folder(self.path / line["folder"], line):
                    found[saved.job.key] = saved
            except ValueError as error:
                damaged[line["folder"]] = str(error)
        return dict(sorted(found.items())), damaged

    def add(self, results: Iterable[Saved]) -> list[Saved]:
        """Write thinned results that are not there yet; those that the catalogue asked for before them leave."""
        if damaged := self.damaged():
            raise ValueError(f"nothing was added to {self.path}: {'; '.join(damaged.values())}")
        new = {saved.job.key: saved for saved in results if saved.job.key not in self}
        labels = {(saved.job.item, saved.job.kind, saved.job.label) for saved in new.values()}
        old = {key: saved for key, saved in self._read[0].items()
               if is_ours(saved.job) or (saved.job.item, saved.job.kind, saved.job.label) not in labels}  # fmt: skip
        folders: dict[str, list[Saved]] = {}
        for saved in (old | new).values():
            folders.setdefault(saved.job.item, []).append(saved)
        lines = []
        for name, runs in sorted(folders.items()):
            (self.path / name).mkdir(exist_ok=True)
            seconds = sum(saved.info.get("seconds", 0.0) for saved in runs)
            table, curves = _write_folder(self.path / name, runs)
            lines.append(dict(zip(INDEX, (name, len(runs), round(seconds / 3600, 3), table, curves), strict=True)))
        with atomic_path(self.path / "index.csv") as temporary:
            temporary.write_text(_to_csv(INDEX, lines))
        del self._read
        return list(new.values())


def open_results(path: str | os.PathLike) -> Store | Evidence:
    """The store or the evidence in a folder; ValueError if there is neither."""
    return Evidence(path) if (Path(path) / "index.csv").is_file() else Store(path, create=False)


def read_tried(folder: Path) -> dict[str, str]:
    """What was tried, by the first letters of a claim's name: the paragraphs under each heading of ``*/tried.md``."""
    told: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*/tried.md")):
        lines: list[str] = []
        for line in path.read_text().splitlines():
            if line.startswith("## "):
                lines = told.setdefault(line[3:].strip(), [])
            else:
                lines.append(line.strip())
    return {name: " ".join(filter(None, lines)) for name, lines in told.items()}


# ---- a folder ---------------------------------------------------------------------------------------------------


def _write_folder(folder: Path, runs: list[Saved]) -> tuple[str, str]:
    """Write both files, if they change; their checksums."""

    def order(saved: Saved):
        settings = saved.job.settings
        return saved.job.kind, [(str(type(v)), v) for v in (settings.get(n, "") for n in IDENTIFYING)], saved.job.key

    lines, arrays = [], {}
    for saved in sorted(runs, key=order):
        job, result, key = saved.job, saved.result, saved.job.key
        of_records, ends = records_to_arrays(result.records)
        arrays |= {f"{key}/records/{name}": array for name, array in of_records.items()}
        arrays |= {f"{key}/arrays/{name}": np.asarray(array) for name, array in result.arrays.items()}
        line = {"kind": job.kind, "outcome": " / ".join(end["outcome"] for end in ends), "key": key}
        line |= {(n if n in IDENTIFYING else f"setting {n}"): v for n, v in job.settings.items()}
        line |= {(n if n in FIGURES else f"metric {n}"): v for n, v in result.metrics.items()}
        line |= {f"info {n}": saved.info[n] for n in KEPT_INFO if n in saved.info}
        lines.append({**line, "data": job.data, "ends": ends})
    present = {name for line in lines for name in line}
    others = [sorted(name for name in present if name.startswith(kind)) for kind in ("setting ", "metric ", "info ")]
    columns = ["kind", *IDENTIFYING, "outcome", *FIGURES, "key", *itertools.chain(*others), "data", "ends"]
    columns = [name for name in columns if name in present]
    with all_or_none():
        with atomic_path(folder / "runs.csv") as temporary:
            temporary.write_text(_to_csv(columns, lines))
        write_arrays(folder / "curves.safetensors", "evidence", arrays, {})
    return _sha256(folder / "runs.csv"), _sha256(folder / "curves.safetensors")


def _read_folder(folder: Path, expected: Mapping[str, str]) -> Iterator[Saved]:
    for name in ("runs", "curves"):
        path = folder / f"{name}.{'csv' if name == 'runs' else 'safetensors'}"
        if not path.is_file() or _sha256(path) != expected[f"{name}_sha256"]:
            raise ValueError(f"{path} does not match its checksum in index.csv")
    arrays, _, _ = read_arrays(folder / "curves.safetensors", "evidence")
    of_runs: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        key, _, rest = name.partition("/")
        of_runs.setdefault(key, {})[rest] = array
    for line in csv.DictReader(io.StringIO((folder / "runs.csv").read_text())):
        cells = {name: _from_cell(text) for name, text in line.items() if text}
        of_kind: dict[str, dict[str, Any]] = {"setting": {}, "metric": {}, "info": {}}
        for name, value in cells.items():
            kind, _, rest = name.partition(" ")
            if rest:
                of_kind[kind][rest] = value
        settings = of_kind["setting"] | {name: cells[name] for name in IDENTIFYING if name in cells}
        metrics = of_kind["metric"] | {name: cells[name] for name in FIGURES if name in cells}
        job = Job(folder.name, cells["kind"], settings, cells["data"])
        if job.key != cells["key"]:
            raise ValueError(f"run {cells['key']} of {folder / 'runs.csv'} was made by other numerics, or was changed")
        curves = of_runs.get(job.key, {})
        records = records_from_arrays(arrays_under(curves, "records/"), cells["ends"])
        yield Saved(job, Result(metrics, records, arrays_under(curves, "arrays/")), of_kind["info"])


def _to_csv(columns: Iterable[str], lines: Iterable[Mapping[str, Any]]) -> str:
    text, columns = io.StringIO(), list(columns)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_to_cell(line[name]) if name in line else "" for name in columns] for line in lines)
    return text.getvalue()


def _to_cell(value: Any) -> str:
    """JSON, but for texts that could be nothing else, which stand without quotation marks."""
    text = json.dumps(value)
    return value if isinstance(value, str) and value and _from_cell(value) is value else text


def _from_cell(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---- thinning ---------------------------------------------------------------------------------------------------


def is_paper(saved: Saved) -> bool:
    """Whether a result is of the catalogue, by the paper's recipe."""
    return is_ours(saved.job) and saved.job.setup.recipe in ("", "paper")


def thin(saved: Saved) -> Saved:
    """The result without pictures, its records and arrays with fewer rows."""
    result = saved.result
    # Copies of a short run are compared record by record.
    is_short = bool(saved.job.setup.grades)
    records = tuple(_thin_record(record, len(record.steps) if is_short else WHOLE) for record in result.records)
    strides = {name: max(array.shape[-1] // POINTS, 1) if array.ndim else 1 for name, array in result.arrays.items()}
    arrays = {name: array[..., :: strides[name]] if array.ndim else array for name, array in result.arrays.items()}
    return saved._replace(result=Result(result.metrics, records, arrays))


def _thin_record(record: RunRecord, whole: int) -> RunRecord:
    rows = _choose_rows(record, whole)
    columns = {name: column[rows] for name, column in record.columns.items()
               if name in KEPT_COLUMNS or name.startswith(METRIC)}  # fmt: skip
    for name in ("train_loss", "psnr"):
        if name in record.columns:
            heights, counts = sum_rises(record, name)
            columns |= {RISES.format(name): heights[rows], COUNT: np.asarray(counts[rows], np.int32)}
    observations = {}
    if "spectrum" in record.observations:  # eigenvalues are known to five digits; single precision has seven
        seen = record.observations["spectrum"]
        observations["spectrum"] = {name: seen[name].astype(np.float32) if seen[name].ndim == 2 else seen[name]
                                    for name in KEPT_SPECTRUM if name in seen}  # fmt: skip
    return dataclasses.replace(record, columns=columns, observations=observations)


def _choose_rows(record: RunRecord, whole: int) -> np.ndarray:
    """Which rows are kept: every k-th, the extremes between them, those around the middle step, the last."""
    num, loss = len(record.steps), record.train_loss
    if num <= whole:
        return np.arange(num)
    stride = 100 if num >= 5000 else max(num // STRETCHES, 1)
    starts = np.arange(0, num, stride)
    kept = {0, num - 1, *starts}
    for first in starts:
        kept |= {int(first + extreme(loss[first : first + stride])) for extreme in (np.argmin, np.argmax)}
    middle = int(np.searchsorted(record.steps, 0.5 * record.num_steps))
    kept |= {row for row in (middle - 1, middle, middle + 1) if 0 <= row < num}
    return np.array(sorted(int(row) for row in kept))
