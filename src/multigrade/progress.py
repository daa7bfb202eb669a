"""Progress of a fit: a live view on a terminal, plain lines elsewhere. An observer without a period.

The live view is a bar for the whole fit and, beneath it, one line per grade: the curve of its loss (logarithmic, on
the grade's own scale), its first and last value, and how the grade ended.
"""

import dataclasses
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from .training.observers import Observation, Snapshot
from .training.record import Outcome, RunRecord

LINE_SECONDS, FIRST_SECONDS = 5.0, 1.0  # between lines; before the first that says how long it takes
VALUES_WIDTH = 24  # of "  0.735 → 4.05e-05"
LEVELS = "▁▂▃▄▅▆▇█"
LEFT_OUT = "left out"
LAST_OUTCOMES = (Outcome.DIVERGED, Outcome.TIME_LIMIT)  # no grade follows


def sparkline(values, width: int) -> str:
    """A curve of at most ``width`` characters, lowest value to highest; logarithmic where all values are positive."""
    values = np.asarray(values, np.float64)
    values = values[np.isfinite(values)]
    if not len(values) or width < 1:
        return ""
    heights = np.log(values) if values.min() > 0 else values
    means = np.array([part.mean() for part in np.array_split(heights, min(width, len(heights)))])
    spread = means.max() - means.min()
    levels = np.zeros(len(means)) if spread == 0 else (means - means.min()) / spread * (len(LEVELS) - 1)
    return "".join(LEVELS[round(level)] for level in levels)


class ProgressObserver:
    """Shows grade, step, loss and time left; writes to standard error. Use as a context manager to close the view."""

    name = "progress"
    every = None

    def __init__(self, num_grades: int, title: str = "fit"):
        from rich.console import Console

        self.num_grades, self.title = num_grades, title
        self.console = Console(file=sys.stderr)
        self.records: dict[int, RunRecord] = {}
        self.view: Any = None
        self.grade = -1
        self.started = self.shown = time.monotonic()
        self.first_step, self.has_estimate = 0, False
        self.begun: tuple[float, float] | None = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.view is not None:
            self.view.stop()

    def prepare(self, share: float) -> None:
        """The share that is done of what comes before any training. How long it takes is told after a second of it."""
        now = time.monotonic()
        if share > 0 and self.begun is None:
            self.begun, self.shown = (now, share), now
        if self.console.is_terminal:
            if self.view is None:
                self.view = _View(self.console, self.title, self.records)
            self.view.update(share, 1, "")
        elif share == 0 or now - self.shown > (LINE_SECONDS if self.has_estimate else FIRST_SECONDS):
            self.has_estimate, self.shown = share > 0, now
            line = f"{self.title}: {100 * share:.0f} % done"
            if self.begun is not None:  # at the pace since the first part: what came before it comes once
                started, first = self.begun
                line += f", about {(now - started) / max(share - first, 1e-9) * (1 - share):.0f} s left"
            self.console.print(line, highlight=False, soft_wrap=True)

    def observe(self, snapshot: Snapshot, carry) -> Observation | None:
        record = snapshot.record
        losses = record.train_loss
        if snapshot.grade != self.grade or len(losses) == 1:  # the first chunk compiles: not counted for the time left
            self.grade, self.started, self.first_step = snapshot.grade, time.monotonic(), snapshot.step
        self.records[snapshot.grade] = record
        if self.console.is_terminal:
            self._show(snapshot)
        elif record.sentence or (len(losses) > 1 and time.monotonic() - self.shown > LINE_SECONDS):
            self.shown = time.monotonic()
            self.console.print(self._line(snapshot), highlight=False, soft_wrap=True, markup=False)
        return None

    def grade_ended(self, grade: int, record: RunRecord) -> None:
        """A grade that did not lower the validation loss ends the fit, and is told of."""
        if record.is_kept or record.outcome is Outcome.TIME_LIMIT:
            return
        sentence = "did not help on the rows held out, and was left out"
        if self.view is not None:
            self.records[grade] = dataclasses.replace(self.records[grade], sentence=LEFT_OUT)
            self.view.update(1, 1, f"{grade} of {self.num_grades} grades")
            self.view.stop()
        else:
            self.console.print(f"{self.title}: grade {grade + 1} {sentence}", highlight=False, soft_wrap=True)

    def _show(self, snapshot: Snapshot) -> None:
        total, ended = self.num_grades * snapshot.num_steps, bool(snapshot.record.sentence)
        if self.view is None:
            self.view = _View(self.console, self.title, self.records)
        done = snapshot.grade * snapshot.num_steps + (snapshot.num_steps if ended else snapshot.step)
        is_last = ended and (snapshot.grade + 1 == self.num_grades or snapshot.record.outcome in LAST_OUTCOMES)
        self.view.update(done, total, f"grade {snapshot.grade + 1}/{self.num_grades}")
        if is_last:
            self.view.stop()

    def _line(self, snapshot: Snapshot) -> str:
        record = snapshot.record
        loss = f"loss {record.train_loss[-1]:.3g}" if len(record.train_loss) else "no finite loss"
        line = f"{self.title}: grade {snapshot.grade + 1}/{self.num_grades}, "
        line += f"step {snapshot.step}/{snapshot.num_steps}, {loss}, "
        if record.sentence:
            return line + f"{record.outcome} in {record.seconds:.1f} s: {record.sentence}"
        per_step = (time.monotonic() - self.started) / max(snapshot.step - self.first_step, 1)
        return line + f"{per_step * (snapshot.num_steps - snapshot.step):.0f} s left in this grade"


class _View:
    """The bar and the lines of the grades, redrawn by rich a few times a second."""

    def __init__(self, console, title: str, records: dict[int, RunRecord]):
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self.console, self.records = console, records
        self.bar = Progress(
            TextColumn("[bold]{task.description}"), TextColumn("{task.fields[grade]}"), BarColumn(30),
            TimeElapsedColumn(), TextColumn("·"), TimeRemainingColumn(), TextColumn("left"), console=console,
        )  # fmt: skip
        self.task = self.bar.add_task(title, total=1, grade="")
        self.live = Live(get_renderable=self._draw, console=console, refresh_per_second=4)
        self.live.start()

    def update(self, done: float, total: float, grade: str) -> None:
        self.bar.update(self.task, completed=done, total=total, grade=grade)

    def stop(self) -> None:
        self.live.stop()

    def _draw(self):
        from rich.console import Group

        return Group(self.bar, *grade_lines(dict(self.records), self.console.width))


def grade_lines(records: Mapping[int, RunRecord], width: int) -> list:
    """``grade 2  █▆▄▃▂▁  0.35 → 0.0124  3.1 s``, the curves as long as the width of the terminal allows."""
    from rich.text import Text

    ends = {grade: _end(record) for grade, record in records.items()}
    room = max(min(width, 100) - 2 - len("  grade 1  ") - VALUES_WIDTH - max(map(len, ends.values())), 8)
    lines = []
    for grade, record in records.items():
        losses, name = record.train_loss, f"  grade {grade + 1}  "
        has_diverged = record.outcome is Outcome.DIVERGED
        if len(losses):
            curve = (sparkline(losses, room).ljust(room), "red" if has_diverged else "cyan")
            values = f"  {losses[0]:.3g} → {losses[-1]:.3g}".ljust(VALUES_WIDTH)
            line = Text.assemble(name, curve, values, (ends[grade], "bold red" if has_diverged else "dim"))
        else:
            line = Text(f"{name}{record.sentence or 'compiling'}", style="dim")
        line.truncate(width, overflow="ellipsis")
        lines.append(line)
    return lines


def _end(record: RunRecord) -> str:
    """How long the grade took, and how it ended unless all its steps were taken; nothing while it runs."""
    if not record.sentence:
        return ""
    how = "" if record.outcome is Outcome.FINISHED else f", {record.outcome}"
    how = f", {LEFT_OUT}" if record.sentence == LEFT_OUT else how
    return f"{record.seconds:.1f} s{how}"
