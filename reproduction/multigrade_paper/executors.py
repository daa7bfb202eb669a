"""Where jobs run: here (``inline``), in worker processes (``processes``), or on a cluster (``ray_executor``).

    reports = run_jobs(jobs, Store("runs"), executor="processes", workers=2)

An executor decides where a job runs and nothing else: each calls ``execute``, which locks the job, runs it or continues
it from its checkpoint, and stores the result. Finished jobs are kept, damaged results made again, a job that another
process is at is waited for. A job that fails is reported and stops no other; a store that cannot be written stops all.

A job has one thread unless told otherwise, wherever it runs: XLA splits matrix products and sums by the number of
threads, so another number gives other last bits. Environment variables set the number before JAX starts in a worker.
"""

import os
import signal
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, NamedTuple

from multigrade.threads import num_cores, thread_environment

from .job import Job, Result
from .progress import Pulse, Silent
from .store import FULL, Store, StoreError

NAMES = ("inline", "processes", "ray")
ATTEMPTS = 3  # of a job whose worker dies; our choice


class Report(NamedTuple):
    """What became of a job: "finished", "kept" (it was there) or "failed", with a sentence.

    On the way there, to be tried again: "busy" (another process is at it) and "died" (its worker).
    """

    job: Job
    status: str
    sentence: str = ""
    seconds: float = 0.0


class Experiment(NamedTuple):
    """What workers need to run any job: ``run(job, images=, checkpoint=, observers=)``, its images, its threads."""

    run: Callable[..., Result]
    images: Any = None
    threads: int = 1


def run_jobs(
    jobs: Iterable[Job],
    store: Store,
    experiment: Experiment,
    *,
    executor: str = "processes",
    workers: int | None = None,
    cost: Callable[[Job], float] = lambda job: 0.0,
    progress=None,
    **options,
) -> list[Report]:
    """Run what the store does not hold yet, the costliest first; a report for every job, in the order of ``jobs``.

    ``progress`` has ``started(job)`` and ``ended(report)``; ``options`` go to the cluster (``ray_executor.on_ray``).
    """
    if executor not in NAMES:
        raise ValueError(f"executor must be one of {', '.join(NAMES)}; got {executor!r}")
    workers = default_workers(experiment.threads) if workers is None else workers
    if workers < 1:
        raise ValueError(f"jobs at a time must be at least 1; got {workers}")
    jobs = list({job.key: job for job in jobs}.values())
    reports = {job.key: report for job in jobs if (report := kept(store, job))}
    progress = progress or Silent()
    for report in reports.values():
        progress.ended(report)
    todo = sorted((job for job in jobs if job.key not in reports), key=cost, reverse=True)
    for report in _stream(executor, todo, store, experiment, workers, progress, options):
        progress.ended(report)
        reports[report.job.key] = report
    return [reports[job.key] for job in jobs]


def default_workers(threads: int) -> int:
    """So many that every core is used once."""
    return max(num_cores() // threads, 1)


def _stream(executor, jobs: Sequence[Job], store: Store, experiment: Experiment, workers: int, progress, options):
    if not jobs:
        return iter(())
    if executor == "inline":
        return inline(jobs, store, experiment, progress)
    if executor == "processes":
        return processes(jobs, store, experiment, workers, progress)
    from .ray_executor import on_ray

    return on_ray(jobs, store, experiment, workers=workers, progress=progress, **options)


# ---- one job -------------------------------------------------------------------------------------------------------


def kept(store: Store, job: Job) -> Report | None:
    """A report if the store holds the job's result; None if it does not, or not soundly."""
    if job.key not in store:
        return None
    try:
        store.check(job.key)
    except ValueError:
        return None
    return Report(job, "kept")


def execute(store: Store, job: Job, experiment: Experiment, *, wait: bool = False, has_lock: bool = False) -> Report:
    """Do one job unless its result is there or another process is at it (``wait`` for that one then)."""
    if has_lock:
        return kept(store, job) or _run(store, job, experiment)
    with store.lock(job.key, wait=wait) as is_ours:
        if not is_ours:
            return Report(job, "busy", "another process is at it")
        return kept(store, job) or _run(store, job, experiment)


def _run(store: Store, job: Job, experiment: Experiment) -> Report:
    started = time.perf_counter()
    damage = "its result was damaged and has been made again" if job.key in store else ""
    try:
        checkpoint = store.checkpoint(job.key, threads=experiment.threads)
        pulse = Pulse(checkpoint.with_name("pulse"))
        result = experiment.run(job, images=experiment.images, checkpoint=checkpoint, observers=(pulse,))
        # A continued job took what its records say, most of it before it was interrupted.
        seconds = max(time.perf_counter() - started, sum(record.seconds for record in result.records))
        store.save(job, result, {"seconds": round(seconds, 3), "threads": experiment.threads})
    except StoreError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise StoreError(
                f"the store {store.path} cannot be written: {error.strerror}; finished results are kept"
            ) from error
        return Report(job, "failed", _sentence(error), time.perf_counter() - started)
    return Report(job, "finished", damage, seconds)


def _sentence(error: Exception) -> str:
    """The error in one line, with the place of those that are not a caller's mistake."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ValueError):
        return text
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {text} ({os.path.basename(place.filename)}, line {place.lineno})"


# ---- here, and in processes ----------------------------------------------------------------------------------------


def inline(jobs: Sequence[Job], store: Store, experiment: Experiment, progress) -> Iterator[Report]:
    """One after the other in this process; set ``thread_environment`` before JAX starts in it."""
    queue = deque((job, False) for job in jobs)
    while queue:
        job, waits = queue.popleft()
        progress.started(job)
        report = execute(store, job, experiment, wait=waits)
        if report.status == "busy":
            queue.append((job, True))
            progress.ended(report)
        else:
            yield report


def processes(jobs: Sequence[Job], store: Store, experiment: Experiment, workers: int, progress) -> Iterator[Report]:
    """In ``workers`` processes that start afresh (never forked). One whose worker dies is tried again.

    Every worker is a pool of one: when it dies it is known which job it was at, and the others go on.
    """
    # A worker that grew is replaced between two jobs, which is nobody's concern.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
    queue = deque((job, False) for job in jobs)
    attempts = dict.fromkeys((job.key for job in jobs), 0)
    idle, running = [_start_worker(experiment.threads) for _ in range(min(workers, len(jobs)))], {}
    try:
        while queue or running:
            while queue and idle:
                job, waits = queue.popleft()
                worker = idle.pop()
                progress.started(job)
                attempts[job.key] += 1
                running[worker.submit(execute, store, job, experiment, wait=waits)] = job, worker
            for future in wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done:
                job, worker = running.pop(future)
                report, worker = _outcome(future, job, worker, experiment)
                idle.append(worker)
                if report.status == "busy" or (report.status == "died" and attempts[job.key] < ATTEMPTS):
                    queue.append((job, report.status == "busy"))
                    progress.ended(report)
                    continue
                yield report._replace(status="failed") if report.status == "died" else report
    finally:
        for worker in [*idle, *(worker for _, worker in running.values())]:
            worker.shutdown(wait=True, kill_workers=True)


def _outcome(future: Future, job: Job, worker, experiment: Experiment):
    """The report of a job that ended, and a worker that is fit for the next."""
    from joblib.externals.loky.process_executor import BrokenProcessPool

    try:
        return future.result(), worker
    except BrokenProcessPool:
        worker.shutdown(wait=False, kill_workers=True)
        sentence = "its worker process died (killed, or out of memory)"
        return Report(job, "died", sentence), _start_worker(experiment.threads)


def _start_worker(threads: int):
    from joblib.externals.loky.process_executor import ProcessPoolExecutor

    environment = thread_environment(threads)
    return ProcessPoolExecutor(max_workers=1, env=environment, initializer=_end_with_parent, initargs=(os.getpid(),))


def _end_with_parent(parent: int) -> None:
    """End this worker when its driver is gone: it would wait for work for ever. Ctrl-C is the driver's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch():
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
