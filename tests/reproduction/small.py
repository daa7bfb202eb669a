"""A small real experiment for tests of store and executors, and a driver that can be killed (``python -m``)."""

import os
import sys
import time
from pathlib import Path

import numpy as np

from multigrade import structures
from multigrade.synthetic import setting
from multigrade.training import Checkpointing, Plan, fit_grades
from multigrade_paper.executors import Experiment, run_jobs
from multigrade_paper.job import Job, Result
from multigrade_paper.store import Store

STRUCTURE = structures.graded(1, [(8,), (8,)], 1)


def jobs(num: int, *, epochs: int = 200, **settings) -> list[Job]:
    return [Job("small", "small", {"seed": seed, "epochs": epochs, **settings}) for seed in range(num)]


def run(job: Job, *, images=None, checkpoint=None, observers=()) -> Result:
    """Two grades on a few points; ``fail`` and ``die`` name the seeds whose job does so, ``log`` a file of who ran."""
    settings = job.settings
    if "log" in settings:
        with open(settings["log"], "a") as log:
            log.write(f"{job.key} {os.getpid()}\n")
    if settings["seed"] in settings.get("fail", ()):
        raise ArithmeticError("the small experiment\nwas told to fail")
    if settings["seed"] in settings.get("die", ()):
        os.kill(os.getpid(), 9)
    data, epochs = setting(1), settings["epochs"]
    fit = fit_grades(
        STRUCTURE, data.x_train[::8], data.y_train[::8],
        Plan(
            epochs, record_every=max(epochs // 40, 1), batch_size=32, seed=settings["seed"], observers=observers
        ),
        checkpoint=checkpoint and Checkpointing(checkpoint, every=0.0),
    )  # fmt: skip
    time.sleep(settings.get("sleep", 0.0))
    curve = np.asarray(fit.model(data.x_test[::50]))
    metrics = {"loss": float(fit.records[-1].train_loss[-1]), "seconds": fit.records[-1].seconds}
    return Result(metrics, fit.records, {"curve": curve}, {"result": np.clip(np.outer(curve, curve), 0, 1)})


def contents(store: Path) -> dict[str, bytes]:
    """All files of all results but those that say when and where."""
    files = (path for path in store.glob("[!.]*/*") if path.name != "run.json")
    return {str(path.relative_to(store)): path.read_bytes() for path in files}


if __name__ == "__main__":
    folder, executor, num, epochs, *log = sys.argv[1:]
    extra = {"log": log[0], "sleep": 0.2} if log else {}
    reports = run_jobs(
        jobs(int(num), epochs=int(epochs), **extra), Store(folder), Experiment(run), executor=executor, workers=2
    )
    print(*(report.status for report in reports))
    sys.exit(any(report.status == "failed" for report in reports))
