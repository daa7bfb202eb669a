"""Whatever is killed, shared or damaged, the store ends with the same bytes, and every job is done once."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from multigrade.threads import num_cores, thread_environment
from multigrade.training.record import RunRecord
from multigrade_paper import executors
from multigrade_paper.executors import Experiment, run_jobs
from multigrade_paper.job import Result
from multigrade_paper.store import Store, StoreError

from . import small

ROOT = Path(__file__).parents[2]
EPOCHS = 40_000  # a job of about a second
DRIVER = [sys.executable, "-m", "tests.reproduction.small"]


def drive(store: Path, executor: str, num: int, epochs: int, *log) -> subprocess.Popen:
    """A driver with one thread for each job, in a process that can be killed."""
    arguments = [*DRIVER, str(store), executor, str(num), str(epochs), *map(str, log)]
    environment = {**os.environ, **thread_environment(1)}
    return subprocess.Popen(arguments, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def ended(driver: subprocess.Popen) -> str:
    output, _ = driver.communicate(timeout=300)
    assert driver.returncode == 0
    return output


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict[str, bytes]:
    """What three jobs give inline."""
    store = tmp_path_factory.mktemp("inline") / "runs"
    assert ended(drive(store, "inline", 3, EPOCHS)) == "finished finished finished\n"
    return small.contents(store)


def workers_of(driver: int) -> list[int]:
    children = Path(f"/proc/{driver}/task/{driver}/children").read_text().split()
    commands = {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    return [child for child, command in commands.items() if b"popen_loky" in command]


def wait_for_work(driver: subprocess.Popen, store: Path) -> None:
    """Until a job that this driver started has written a checkpoint."""
    started = time.time()
    while driver.poll() is None:
        written = [path.stat().st_mtime for path in (store / ".work").glob("*/*/fit.checkpoint")]
        if any(moment > started for moment in written):
            return
        time.sleep(0.01)


def kill_and_restart(store: Path, num_kills: int, num: int, epochs: int, seed: int) -> int:
    """Kill the driver, or a worker and then its driver, at random moments; how many kills met a living process.

    After the last one, a worker's, the driver goes on.
    """
    generator, kills = np.random.default_rng(seed), 0
    for kill in range(num_kills):
        driver = drive(store, "processes", num, epochs)
        wait_for_work(driver, store)
        time.sleep(generator.uniform(0, 0.5))
        if driver.poll() is None:
            kills += 1
            if kill % 2:
                os.kill(int(generator.choice(workers_of(driver.pid))), signal.SIGKILL)
                time.sleep(generator.uniform(0, 0.5))
            if kill < num_kills - 1:
                driver.kill()
        driver.communicate()
    return kills


@pytest.mark.skipif(sys.platform != "linux", reason="finds workers in /proc")
def test_killed_drivers_and_workers_leave_the_store_of_an_uninterrupted_run(tmp_path, uninterrupted):
    store = tmp_path / "runs"
    assert kill_and_restart(store, 2, 3, EPOCHS, seed=0) == 2
    ended(drive(store, "processes", 3, EPOCHS))
    assert small.contents(store) == uninterrupted
    assert [path.name for path in (store / ".work").iterdir()] == ["store"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds workers in /proc")
def test_ten_kills_leave_the_store_of_an_uninterrupted_run(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    ended(drive(whole, "processes", 8, 4 * EPOCHS))
    assert kill_and_restart(killed, 10, 8, 4 * EPOCHS, seed=1) == 10
    ended(drive(killed, "processes", 8, 4 * EPOCHS))
    assert small.contents(killed) == small.contents(whole)


def test_two_drivers_on_one_store_do_every_job_once(tmp_path):
    store, log = tmp_path / "runs", tmp_path / "log"
    drivers = [drive(store, "inline", 4, 100, log) for _ in range(2)]
    statuses = [ended(driver).split() for driver in drivers]
    runs = Counter(line.split()[0] for line in log.read_text().splitlines())
    assert sorted(runs) == Store(store).keys()
    assert set(runs.values()) == {1}
    assert sum(status.count("finished") for status in statuses) == 4
    assert all(set(status) <= {"finished", "kept"} for status in statuses)


class Watcher:
    """Progress that remembers."""

    def __init__(self):
        self.statuses = []

    def started(self, job):
        self.statuses.append((job.settings["seed"], "started"))

    def ended(self, report):
        self.statuses.append((report.job.settings["seed"], report.status))


def test_failed_jobs_and_dead_workers_stop_nothing_and_say_why(tmp_path):
    store, watcher = Store(tmp_path / "runs"), Watcher()
    jobs = small.jobs(3, epochs=20, fail=[0], die=[1])
    reports = run_jobs(jobs, store, Experiment(small.run), workers=1, progress=watcher)
    assert [report.status for report in reports] == ["failed", "failed", "finished"]
    assert reports[0].sentence.startswith("ArithmeticError: the small experiment was told to fail (small.py, line ")
    assert "its worker process died" in reports[1].sentence
    assert watcher.statuses.count((1, "started")) == executors.ATTEMPTS
    assert store.keys() == [jobs[2].key]


def test_finished_jobs_are_kept_and_damaged_ones_made_again(tmp_path):
    store, jobs = Store(tmp_path / "runs"), small.jobs(2, epochs=20)
    statuses = lambda: [r.status for r in run_jobs(jobs, store, Experiment(small.run), executor="inline")]  # noqa: E731
    assert statuses() == ["finished", "finished"]
    before = small.contents(store.path)
    assert statuses() == ["kept", "kept"]
    (store.path / jobs[1].key / "arrays.safetensors").write_bytes(b"\0" * 100)
    reports = run_jobs(jobs, store, Experiment(small.run), executor="inline")
    assert [(r.status, r.sentence) for r in reports] == [
        ("kept", ""), ("finished", "its result was damaged and has been made again"),
    ]  # fmt: skip
    assert small.contents(store.path) == before


def test_the_costliest_job_starts_first_and_reports_keep_their_order(tmp_path):
    watcher, jobs = Watcher(), small.jobs(3, epochs=20)
    cost = lambda job: [1.0, 3.0, 2.0][job.settings["seed"]]  # noqa: E731
    reports = run_jobs(
        [*jobs, jobs[0]],
        Store(tmp_path / "runs"),
        Experiment(small.run),
        executor="inline",
        cost=cost,
        progress=watcher,
    )
    assert [seed for seed, status in watcher.statuses if status == "started"] == [1, 2, 0]
    assert [report.job.settings["seed"] for report in reports] == [0, 1, 2]


def continued(job, **_):
    """An experiment that finds a hundred seconds of work in its checkpoint."""
    columns = {"step": np.arange(2), "train_loss": np.ones(2, np.float32)}
    return Result({"loss": 1.0}, (RunRecord(columns, num_steps=1, seconds=100.0),))


def test_the_time_of_a_continued_job_is_that_of_its_records(tmp_path):
    store, (job,) = Store(tmp_path / "runs"), small.jobs(1)
    (report,) = run_jobs([job], store, Experiment(continued), executor="inline")
    assert report.seconds == store.load(job.key).info["seconds"] == 100


def full(job, **_):
    raise OSError(28, "No space left on device")


def test_a_full_disk_stops_all_with_one_line(tmp_path):
    store = Store(tmp_path / "runs")
    with pytest.raises(StoreError, match="cannot be written: No space left on device; finished results are kept"):
        run_jobs(small.jobs(2), store, Experiment(full), executor="inline")


def test_bad_arguments_are_refused_before_any_work(tmp_path):
    store = Store(tmp_path / "runs")
    for options, match in [
        ({"executor": "threads"}, "executor must be one of inline, processes, ray; got 'threads'"),
        ({"workers": 0}, "at least 1; got 0"),
    ]:
        with pytest.raises(ValueError, match=match):
            run_jobs(small.jobs(1), store, Experiment(small.run), **options)
    with pytest.raises(ValueError, match="threads must be at least 1"):
        thread_environment(0)
    assert executors.default_workers(10**6) == 1
    assert executors.default_workers(1) == num_cores()
