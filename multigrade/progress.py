"""Progress of a fit: a live bar on a terminal, plain lines elsewhere. An observer without a period."""

import sys
import time
from typing import Any

from .training.observers import Observation, Snapshot

LINE_SECONDS = 5.0


class ProgressObserver:
    """Shows grade, step, loss and time left; writes to standard error. Use as a context manager to close the bar."""

    name = "progress"
    every = None

    def __init__(self, num_grades: int, title: str = "fit"):
        from rich.console import Console

        self.num_grades, self.title = num_grades, title
        self.console = Console(file=sys.stderr)
        self.bar: Any = _bar(self.console) if self.console.is_terminal else None
        self.task = None
        self.grade = -1
        self.started = self.shown = time.monotonic()
        self.first_step = 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.bar is not None:
            self.bar.stop()

    def observe(self, snapshot: Snapshot, carry) -> Observation | None:
        losses = snapshot.record.train_loss
        loss = f"loss {losses[-1]:.3g}" if len(losses) else "compiling"
        new_grade = snapshot.grade != self.grade
        if new_grade or len(losses) == 1:  # the first chunk compiles: it does not count for the time left
            self.grade, self.started, self.first_step = snapshot.grade, time.monotonic(), snapshot.step
        if self.bar is not None:
            self._show_bar(snapshot, loss)
        elif len(losses) > 1 and (time.monotonic() - self.shown > LINE_SECONDS or snapshot.step == snapshot.num_steps):
            self.shown = time.monotonic()
            self.console.print(self._line(snapshot, loss), highlight=False, soft_wrap=True)
        return None

    def _show_bar(self, snapshot: Snapshot, loss: str) -> None:
        total = self.num_grades * snapshot.num_steps
        if self.task is None:
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=total, grade="", loss="")
        done = snapshot.grade * snapshot.num_steps + snapshot.step
        grade = f"grade {snapshot.grade + 1}/{self.num_grades}"
        self.bar.update(self.task, completed=done, total=total, grade=grade, loss=loss)
        if done == total:
            self.bar.stop()

    def _line(self, snapshot: Snapshot, loss: str) -> str:
        per_step = (time.monotonic() - self.started) / max(snapshot.step - self.first_step, 1)
        left = per_step * (snapshot.num_steps - snapshot.step)
        grade = f"{self.title}: grade {snapshot.grade + 1}/{self.num_grades}"
        return f"{grade}, step {snapshot.step}/{snapshot.num_steps}, {loss}, {left:.0f} s left in this grade"


def _bar(console):
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return Progress(
        TextColumn("[bold]{task.description}"),
        TextColumn("{task.fields[grade]}"),
        BarColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
    )
