"""The lab: does a second worker halve the time of a sweep?

Sixteen learning rates of SGDL on setting 1, one thread each, by one worker process and by two, from the first line of
the driver to the last result in the store: starting the workers and compiling are part of it. Aim: 1.7 times as fast.
The cores that the workers got are shown beside: on a machine that is busy otherwise they are fewer than the workers.
"""

import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from multigrade.lab import catalogue, experiments
from multigrade.lab.executors import Experiment, run_jobs
from multigrade.lab.job import Job
from multigrade.lab.store import Store

EPOCHS = 10_000


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
    jobs, taken = sweep(), {}
    for workers in (1, 2):
        taken[workers], used = measure(jobs, workers)
        print(f"{len(jobs)} jobs of {EPOCHS} epochs, workers {workers}: {taken[workers]:.1f} s, "
              f"{used / taken[workers]:.2f} cores", flush=True)  # fmt: skip
    print(f"two workers are {taken[1] / taken[2]:.2f} times as fast as one; aim 1.7")


if __name__ == "__main__":
    main()
