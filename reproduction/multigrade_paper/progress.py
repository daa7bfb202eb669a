"""Progress of many jobs: a live table on a terminal, plain lines elsewhere; and the pulse of a job under way.

Time left is the cost of what is left over the number of workers, in the seconds that a unit of cost has taken so far.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from multigrade.training.observers import Observation, Snapshot

from .job import Job

PULSE_SECONDS = 1.0  # between two signs of life of a job
SHOWN = 24  # running jobs in the table; our choice


class Silent:
    """Progress that shows nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *error): ...

    def started(self, job: Job) -> None: ...
    def ended(self, report) -> None: ...


class Pulse:
    """An observer that writes where a job stands into a small file, for whoever shows the table."""

    name = "pulse"
    every = None

    def __init__(self, path: Path):
        self.path, self.written = path, 0.0

    def observe(self, snapshot: Snapshot, carry) -> Observation | None:
        if time.monotonic() - self.written > PULSE_SECONDS:
            self.written = time.monotonic()
            self.path.write_text(json.dumps([snapshot.grade, snapshot.step, snapshot.num_steps]))
        return None


def read_pulse(work: Path) -> str:
    """ "grade 2, step 300/1000", or nothing: a job that has not come to its first step, or a file half written."""
    for path in work.glob("*/pulse"):
        try:
            grade, step, num_steps = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        return f"grade {grade + 1}, step {step}/{num_steps}"
    return ""


class Progress:
    """Follows jobs by ``started`` and ``ended``, and writes to standard error. Use as a context manager."""

    def __init__(self, jobs: Sequence[Job], store_path: Path, *, workers: int = 1, cost: Callable[[Job], float]):
        from rich.console import Console

        self.work, self.workers, self.cost = store_path / ".work", workers, cost
        self.left = {job.key: job for job in jobs}
        self.num_jobs = len(self.left)
        self.running: dict[str, tuple[Job, float]] = {}
        self.counts = {"finished": 0, "kept": 0, "failed": 0}
        self.spent = self.paid = 0.0  # seconds, and the cost they were for
        self.console = Console(file=sys.stderr)
        self.live: Any = None

    def __enter__(self):
        if self.console.is_terminal:
            from rich.live import Live

            self.live = Live(console=self.console, get_renderable=self._table, refresh_per_second=2, transient=True)
            self.live.start()
        return self

    def __exit__(self, *error):
        if self.live is not None:
            self.live.stop()

    def started(self, job: Job) -> None:
        self.running[job.key] = job, time.monotonic()

    def ended(self, report) -> None:
        self.running.pop(report.job.key, None)
        if report.status not in self.counts:  # busy elsewhere, or to be tried again
            self._line(f"{report.job.label}: {report.sentence}; later again")
            return
        self.left.pop(report.job.key, None)
        self.counts[report.status] += 1
        if report.status == "finished":
            self.spent, self.paid = self.spent + report.seconds, self.paid + self.cost(report.job)
        if report.status != "kept":
            self._line(self._sentence(report))

    def _sentence(self, report) -> str:
        done = self.num_jobs - len(self.left)
        text = (
            f"[{done}/{self.num_jobs}] {report.status}: {report.job.item}, {report.job.label}, {report.seconds:.1f} s"
        )
        return f"{text} ({report.sentence})" if report.sentence else f"{text}; {self.time_left()}"

    def _line(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)

    def time_left(self) -> str:
        now = time.monotonic()
        left = sum(self.cost(job) for job in self.left.values())
        seconds = left * (self.spent / self.paid if self.paid else 1.0)
        seconds -= sum(min(now - begun, self.cost(job)) for job, begun in self.running.values())
        return f"about {duration(max(seconds, 0) / self.workers)} left"

    def _table(self):
        from rich.table import Table
        from rich.text import Text

        counts = ", ".join(f"{number} {status}" for status, number in self.counts.items())
        waiting = len(self.left) - len(self.running)
        table = Table("job", "item", "time", "at", title=f"{counts}, {waiting} waiting; {self.time_left()}")
        for job, begun in list(self.running.values())[:SHOWN]:
            at = read_pulse(self.work / job.key)
            table.add_row(Text(job.label), Text(job.item), duration(time.monotonic() - begun), at)
        return table


def duration(seconds: float) -> str:
    """Seconds in words: "45 s", "12 min", "3.4 h", "2.1 days"."""
    for limit, unit, name in ((100, 1, "s"), (6000, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.1f} {name}" if name == "h" else f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86400:.1f} days"
