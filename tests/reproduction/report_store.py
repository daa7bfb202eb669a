"""A small store of real results: most kinds of jobs at the smallest sizes, a run that diverges, a hostile record."""

import dataclasses
import time
from pathlib import Path

import numpy as np

from multigrade.training.record import Outcome, RunRecord
from multigrade_paper import catalogue, experiments
from multigrade_paper.job import Job, Result
from multigrade_paper.store import Store

HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"><a href='//a.b'>c</a>"
DIVERGING = 1e6  # a learning rate
SMALL = {"size": "16", "epochs": "20", "points": "32", "spectrum_every": "10", "record_every": "10"}
SMALL["num_eigenvalues"] = "6"
# Items, and which of their cells are run.
CELLS = (
    ("table1", {"image": "cameraman", "method": "MGDL"}),
    ("table1", {"image": "cameraman", "method": "baseline"}),
    ("table2", {"image": "butterfly", "noise": 20, "method": "MGDL"}),
    ("table2", {"image": "butterfly", "noise": 20, "method": "baseline"}),
    ("table3", {"image": "butterfly", "blur": 3, "method": "baseline"}),
    ("lr-synthetic", {"setting": 1}),
    ("eig-synthetic", {"setting": 1}),
    ("theory", {"theorem": 1}),
    ("convex", {"setting": 1}),
)


def jobs() -> list[Job]:
    made = []
    for item, where in CELLS:
        known = {name: value for name, value in SMALL.items() if _knows(item, name)}
        rates = {"rates": f"0.05,{DIVERGING:g}"} if item == "lr-synthetic" else {}
        expanded = catalogue.expand([item], recipe="quick", images=None, overrides=known | rates)
        made += [job for job in expanded if all(job.settings.get(name) == value for name, value in where.items())]
    return made


def _knows(item: str, name: str) -> bool:
    from multigrade_paper import recipes

    configs = [recipes.CONFIGS[part.config]["quick"] for part in catalogue.ITEMS[item].parts]
    return any(field.name == name for config in configs for field in dataclasses.fields(config))


def fill(path: Path) -> Store:
    """Make what is not there; several processes may do so at once and share the work."""
    store = Store(path)
    for job in jobs():
        with store.lock(job.key, wait=True):
            if job.key not in store:
                begun = time.perf_counter()
                store.save(job, experiments.run(job), {"seconds": time.perf_counter() - begun})
    job, result = hostile()
    with store.lock(job.key, wait=True):
        if job.key not in store:
            store.save(job, result, {"seconds": 0.0})
    return store


def hostile() -> tuple[Job, Result]:
    """A result from a stranger, whose every text wants to be more than text."""
    settings = {"task": HOSTILE, "image": HOSTILE, "method": HOSTILE, "command": HOSTILE, HOSTILE: HOSTILE}
    columns = {"step": np.arange(3), "train_loss": np.array([3.0, 2.0, 1.0], np.float32)}
    record = RunRecord(columns, outcome=Outcome.DIVERGED, sentence=HOSTILE, num_steps=3)
    metrics = {"grades_test_psnr": [], "note": HOSTILE, HOSTILE: 1.0}
    return Job(HOSTILE, "stranger", settings), Result(metrics, (record,), {}, {"result": np.eye(8)})
