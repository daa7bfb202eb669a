"""The page while a catalogue runs: a progress that passes everything on to another, and writes the page now and then.

with LivePage(progress, store, path, num_jobs=len(jobs)) as live:
    run_jobs(jobs, store, experiment, progress=live)
"""

import sys
import time
from pathlib import Path

from ..store import Store
from .gather import Gatherer
from .page import Progress, write_page

EVERY = 30.0  # seconds between two pages
SHARE = 20  # and so many times as long as the last one took to write; our choice: 5 % of one core


class LivePage:
    """Writes the page at the start, after jobs that end, and for good at the end.

    Results matter more than their page: a disk that refuses it, or a result of someone's own that it cannot show, stops
    no job, and is told of at the end.
    """

    def __init__(self, progress, store: Store, path: Path, *, num_jobs: int):
        self.progress, self.store, self.path, self.num_jobs = progress, store, path, num_jobs
        self.gatherer, self.done, self.due = Gatherer(), set(), 0.0
        self.problem = ""

    def __enter__(self):
        self.progress.__enter__()
        self.write(is_running=True)
        return self

    def __exit__(self, *error):
        self.progress.__exit__(*error)
        self.write(is_running=False)
        if self.problem:
            print(self.problem, file=sys.stderr)

    def started(self, job) -> None:
        self.progress.started(job)

    def ended(self, report) -> None:
        self.progress.ended(report)
        if report.status in ("finished", "kept", "failed"):
            self.done.add(report.job.key)
        if time.monotonic() >= self.due:
            self.write(is_running=True)

    def write(self, *, is_running: bool) -> None:
        begun = time.monotonic()
        progress = Progress(len(self.done), self.num_jobs) if is_running else None
        try:
            write_page(self.store, self.path, gatherer=self.gatherer, progress=progress)
            self.problem = ""
        except Exception as error:
            reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            self.problem = f"the report {self.path} could not be written: {reason}"
        ended = time.monotonic()
        self.due = ended + max(EVERY, SHARE * (ended - begun))
