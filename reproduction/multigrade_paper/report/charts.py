"""Charts as plain data, made from records: what both the page and the files for print are drawn from.

A chart has lines, and what a reader needs to judge them: where grades begin, the band (-1, 1), levels of other methods,
runs that were lost. Long curves are thinned so that the lowest and the highest value of every stretch stay: an
oscillation looks as large as it was.
"""
# ruff: noqa: RUF001  (signs that readers see)

import base64
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from multigrade.training.record import Outcome, RunRecord, starts

POINTS = 800  # of a thinned curve; our choice, about one to a pixel


@dataclasses.dataclass(frozen=True, eq=False)
class Line:
    """``role`` is what it stands for ("sgdl", "mgdl", "grade1", "target", ...) and decides its colour and marker."""

    name: str
    role: str
    x: np.ndarray
    y: np.ndarray
    has_markers: bool = False
    is_legend: bool = True


@dataclasses.dataclass(frozen=True, eq=False)
class Spectra:
    """Eigenvalues of I - eta H at each look, (looks, 2 num): the smallest, outside in, then the largest."""

    at: np.ndarray
    grade: np.ndarray
    step: np.ndarray
    values: np.ndarray
    loss: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Chart:
    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    log_y: bool = False
    log_x: bool = False
    grades: tuple[tuple[float, str], ...] = ()  # where each begins, and its name
    levels: tuple[tuple[float, str], ...] = ()  # horizontal lines for comparison
    lost: tuple[tuple[float, str, str], ...] = ()  # x, role, sentence: runs without a number
    band: bool = False  # (-1, 1)
    spectra: Spectra | None = None

    @property
    def can_be_log(self) -> bool:
        return (
            not self.band
            and "dB" not in self.y_label
            and all((line.y[np.isfinite(line.y)] > 0).all() for line in self.lines)
        )


def thin(x: np.ndarray, y: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """At most about ``points`` of a curve: ends, and the lowest and highest of equal stretches, in their order."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if len(x) <= points:
        return x, y
    stretches = np.array_split(np.arange(len(x)), max(points // 2 - 1, 1))
    filled = np.where(np.isfinite(y), y, -np.inf), np.where(np.isfinite(y), y, np.inf)
    kept = {0, len(x) - 1}
    for stretch in stretches:
        kept |= {int(stretch[np.argmax(filled[0][stretch])]), int(stretch[np.argmin(filled[1][stretch])])}
    order = np.array(sorted(kept))
    return x[order], y[order]


def boundaries(records: Sequence[RunRecord]) -> tuple[tuple[float, str], ...]:
    if len(records) < 2:
        return ()
    return tuple((float(start), f"grade {index + 1}") for index, start in enumerate(starts(records)))


def curve(records: Sequence[RunRecord], column: str, name: str, role: str) -> Line | None:
    """A column of all grades in a row; a gap between grades, since each has a loss of its own to start from."""
    if not all(column in record.columns for record in records):
        return None
    xs, ys = [], []
    for start, record in zip(starts(records), records, strict=True):
        x, y = thin(start + record.steps, record.columns[column], max(POINTS // len(records), 50))
        xs += [x, [x[-1]]] if len(x) else []
        ys += [y, [np.nan]] if len(y) else []
    if not xs:
        return None
    return Line(name, role, np.concatenate(xs)[:-1], np.concatenate(ys)[:-1])


def ends(records: Sequence[RunRecord], role: str) -> tuple[tuple[float, str, str], ...]:
    """Where a run diverged."""
    return tuple(
        (float(start + record.num_steps), role, f"grade {index + 1} diverged: {record.sentence}")
        for index, (start, record) in enumerate(zip(starts(records), records, strict=True))
        if record.outcome is Outcome.DIVERGED
    )


def spectra(records: Sequence[RunRecord]) -> Spectra | None:
    """What ``SpectrumObserver`` saw in all grades, in a row."""
    if not all("spectrum" in record.observations for record in records):
        return None
    seen = [record.observations["spectrum"] for record in records]
    values = [np.concatenate([each["smallest"], each["largest"]], axis=1) for each in seen]
    return Spectra(
        np.concatenate([start + each["step"] for start, each in zip(starts(records), seen, strict=True)]),
        np.concatenate([np.full(len(each["step"]), k + 1) for k, each in enumerate(seen)]),
        np.concatenate([each["step"] for each in seen]),
        np.concatenate(values),
        np.concatenate([_loss_at(record, each["step"]) for record, each in zip(records, seen, strict=True)]),
    )


def _loss_at(record: RunRecord, steps: np.ndarray) -> np.ndarray:
    """The training loss recorded last at or before each step; NaN before the first."""
    if not len(record.steps):
        return np.full(len(steps), np.nan)
    index = np.searchsorted(record.steps, steps, side="right") - 1
    return np.where(index >= 0, np.asarray(record.train_loss, np.float64)[np.maximum(index, 0)], np.nan)


def spectrum_chart(records: Sequence[RunRecord], title: str) -> Chart | None:
    """Smallest and largest eigenvalues along training with the band (-1, 1); index 0 is the outermost."""
    seen = spectra(records)
    if seen is None:
        return None
    num = seen.values.shape[1] // 2
    breaks = np.flatnonzero(np.diff(seen.grade)) + 1
    at = np.insert(seen.at.astype(np.float64), breaks, np.nan)
    lines = []
    for column in range(2 * num):
        end, index = ("smallest", column) if column < num else ("largest", column - num)
        values = np.insert(seen.values[:, column], breaks, np.nan)
        name = f"{num} {end}" if index == 0 else f"{end}, index {index}"
        lines.append(Line(name, end, at, values, has_markers=len(seen.at) < 12, is_legend=index == 0))
    return Chart(
        title, _epochs(records), "eigenvalues of I − ηH", tuple(lines), grades=boundaries(records), band=True,
        spectra=seen,
    )  # fmt: skip


def _epochs(records: Sequence[RunRecord]) -> str:
    return "epochs, grade after grade" if len(records) > 1 else "epochs"


# ---- what the page is given ---------------------------------------------------------------------------------------


def described(chart: Chart) -> str:
    """The chart in words, for who cannot see it."""
    parts = []
    for line in chart.lines:
        finite = line.y[np.isfinite(line.y)]
        if line.is_legend and len(finite):
            parts.append(f"{line.name} from {finite[0]:.3g} to {finite[-1]:.3g}")
    parts += [sentence for _, _, sentence in chart.lost]
    return f"{chart.title}: {chart.y_label} against {chart.x_label}. " + "; ".join(parts)


def data(chart: Chart) -> dict[str, Any]:
    made = {name: getattr(chart, name) for name in ("x_label", "y_label", "log_x", "log_y", "grades", "levels", "band")}
    made |= {"lines": [_line(line) for line in chart.lines], "lost": chart.lost, "spectra": None}
    seen = chart.spectra
    if seen is not None:
        arrays = {name: _floats(getattr(seen, name)) for name in ("at", "step", "grade", "values", "loss")}
        made["spectra"] = {**arrays, "num": seen.values.shape[1] // 2}
    return made


def _line(line: Line) -> dict[str, Any]:
    fields = {name: getattr(line, name) for name in ("name", "role", "has_markers", "is_legend")}
    return {**fields, "x": _floats(line.x), "y": _floats(line.y)}


def _floats(values: np.ndarray) -> str:
    return base64.b64encode(np.asarray(values, "<f4").tobytes()).decode()
