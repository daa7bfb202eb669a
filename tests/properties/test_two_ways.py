"""The same jobs by every executor, and the same fit on one device and on several, over generated cases.

Number of threads and of devices are fixed when JAX starts, so that each way is a process of its own, for all cases.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from multigrade.threads import thread_environment

from ..reproduction import small

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
NUM_CASES = max(settings.default.max_examples // 500, 4)

RUN = """
import json, sys
from multigrade_paper.executors import Experiment, run_jobs
from multigrade_paper.job import Job
from multigrade_paper.store import Store
from tests.reproduction import small
folder, executor, cases = sys.argv[1:]
jobs = [Job("small", "small", case) for case in json.loads(cases)]
reports = run_jobs(jobs, Store(folder), Experiment(small.run), executor=executor, workers=2)
print({report.status for report in reports})
"""


def _run(*arguments, **environment) -> str:
    done = subprocess.run(
        [sys.executable, "-c", *arguments], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def test_every_executor_gives_the_same_store(tmp_path):
    rng = np.random.default_rng(NUM_CASES)
    cases = [{"seed": int(rng.integers(0, 2**31)), "epochs": int(rng.integers(1, 200))} for _ in range(NUM_CASES)]
    executors = ["inline", "processes", *(["ray"] if importlib.util.find_spec("ray") else [])]
    for name in executors:
        told = _run(RUN, str(tmp_path / name), name, json.dumps(cases), **thread_environment(1))
        assert told == "{'finished'}"
    first, *others = (small.contents(tmp_path / name) for name in executors)
    assert len({Path(name).parent for name in first}) == len(cases)
    assert all(other == first for other in others)


DEVICES = """
import sys
import numpy as np
from multigrade import Plan, Regression, fit_grades, structures

structure = structures.graded(2, [(4,), (4,)], 1)
for case in range(int(sys.argv[1])):
    rng = np.random.default_rng([7, case])
    rows = int(rng.choice([5, 16, 33]))
    x, y = rng.normal(size=(rows, 2)), rng.normal(size=(rows, 1))
    weight = rng.integers(0, 3, rows) + (np.arange(rows) == 0) if rng.random() < 0.5 else None
    plan = Plan(12, "gd", 10.0 ** rng.uniform(-4, -1), batch_size=rng.choice([None, 4]), record_every=4, seed=case)
    regression = Regression(standardise_features=bool(rng.integers(0, 2)), residual_scaling=bool(rng.integers(0, 2)))
    one = fit_grades(structure, x, y, plan, regression=regression, sample_weight=weight)
    several = fit_grades(
        structure, x, y, plan, regression=regression, sample_weight=weight, devices=int(rng.integers(1, 5))
    )
    np.testing.assert_allclose(several.model(x), one.model(x), atol=2e-5 * (1 + np.abs(one.model(x)).max()))
    for ours, theirs in zip(several.records, one.records, strict=True):
        np.testing.assert_allclose(ours.train_loss, theirs.train_loss, rtol=1e-4)
print("agreed")
"""


def test_several_devices_give_the_fit_of_one():
    flags = (os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4").strip()
    assert _run(DEVICES, str(NUM_CASES), XLA_FLAGS=flags) == "agreed"
