"""The lab: does a second worker halve the time of a sweep?

Sixteen learning rates of SGDL on setting 1, one thread each, by one worker process and by two, from the first line of
the driver to the last result in the store: starting the workers is part of it. Compiled programs are kept, as
``multigrade reproduce`` keeps them; one job compiles them before. Aim: 1.7 times as fast. In turns, the shorter time
of two for each: neighbours on the same machine slow one half or the other of a single pair. The cores that the
workers got are shown beside: on a machine that is busy otherwise they are fewer than the workers.
"""

import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from multigrade_paper import catalogue, experiments
from multigrade_paper.executors import Experiment, run_jobs
from multigrade_paper.job import Job
from multigrade_paper.store import Store

EPOCHS = 10_000
ROUNDS = 2


def sweep() -> list[Job]:
    rates = ",".join(f"{rate:.4g}" for rate in np.geomspace(0.001, 0.08, 16))
    overrides = {"epochs": str(EPOCHS), "points": "1024", "tolerance": "0", "rates": rates}
    jobs = catalogue.expand(["lr-synthetic"], recipe="quick", images=None, overrides=overrides)
    return [job for job in jobs if (job.settings["setting"], job.settings["method"]) == (1, "SGDL")]


def measure(jobs: list[Job], workers: int) -> tuple[float, float]:
    """Seconds, and processor seconds of the workers."""
    with tempfile.TemporaryDirectory() as folder:
        started, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        reports = run_jobs(jobs, Store(Path(folder)), Experiment(experiments.run), workers=workers)
        assert all(report.status == "finished" for report in reports)
        return time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used


def main() -> None:
    with tempfile.TemporaryDirectory() as programs:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = programs  # read by the workers when JAX starts there
        compare(sweep())


def compare(jobs: list[Job]) -> None:
    measure(jobs[:1], 1)
    taken = {1: [], 2: []}
    for workers in (1, 2) * ROUNDS:
        seconds, used = measure(jobs, workers)
        taken[workers].append(seconds)
        print(f"{len(jobs)} jobs of {EPOCHS} epochs, workers {workers}: {seconds:.1f} s, {used / seconds:.2f} cores",
              flush=True)  # fmt: skip
    print(f"two workers are {min(taken[1]) / min(taken[2]):.2f} times as fast as one; aim 1.7")


if __name__ == "__main__":
    main()
