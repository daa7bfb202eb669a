"""The same jobs on a Ray cluster (``pip install 'multigrade-paper[ray]'``): an existing one, or one started here.

A worker that sees the store's folder (a shared file system) writes there itself, and a job whose node is lost continues
from its checkpoint on another. One that does not works in a folder of its own and sends the files of the result, which
the driver checks and puts into the store. The paper's images travel the same way. The driver holds the locks.
"""

import logging
import os
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from multigrade.threads import thread_environment

from .executors import Experiment, Report, execute
from .images import ENTRIES
from .job import Job
from .progress import Silent
from .store import Store, StoreError

RETRIES = 5  # of a job whose worker or node is lost; our choice
SPARE = 2  # jobs handed to the cluster beyond what it can run now, so that no worker waits for the driver


def on_ray(
    jobs: Sequence[Job],
    store: Store,
    experiment: Experiment,
    *,
    workers: int = 1,
    address: str | None = None,
    gpus: float = 0,
    progress=None,
) -> Iterator[Report]:
    """Reports as jobs end; each asks for the experiment's threads as CPUs and for ``gpus``.

    ``address`` is a cluster's ("auto", "host:port", "ray://..."); without one a local cluster of ``workers`` is started
    and ended.
    """
    ray = _import_ray()
    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(ray, address, workers * experiment.threads)
    try:
        yield from _stream(ray, jobs, store, experiment, gpus, progress or Silent())
    finally:
        if is_ours:
            ray.shutdown()


def _import_ray():
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # pyright: ignore[reportMissingImports]  (an extra)
    except ImportError:
        raise ValueError("the executor ray needs Ray: pip install 'multigrade-paper[ray]'") from None
    return ray


def _connect(ray, address: str | None, num_cpus: int) -> None:
    # Without "local" Ray would join whatever cluster was last started here, be it dead.
    local: dict[str, Any] = {"address": "local", "num_cpus": num_cpus, "include_dashboard": False}
    where = {"address": address} if address else local
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **where)
    except (ConnectionError, RuntimeError, ValueError) as error:
        what = " ".join(str(error).split())
        raise ValueError(f"no Ray cluster was reached at {address or 'this machine'}: {what}") from None


def _stream(ray, jobs: Sequence[Job], store: Store, experiment: Experiment, gpus: float, progress) -> Iterator[Report]:
    environment = thread_environment(experiment.threads)
    task = ray.remote(remote_job).options(
        num_cpus=experiment.threads, num_gpus=gpus, max_retries=RETRIES, runtime_env={"env_vars": environment}
    )
    packed = ray.put(_packed(experiment.images))
    queue, running = deque((job, False) for job in jobs), {}
    try:
        while queue or running:
            while queue and len(running) < _slots(ray, experiment.threads):
                job, waits = queue.popleft()
                held = ExitStack()
                progress.started(job)
                if held.enter_context(store.lock(job.key, wait=waits and not running)):
                    reference = task.remote(str(store.path), store.identity, job, experiment, packed)
                    running[reference] = job, held
                    continue
                held.close()
                progress.ended(Report(job, "busy", "another process is at it"))
                queue.append((job, True))
                if running:
                    break
            done, _ = ray.wait(list(running), timeout=1.0) if running else ([], [])
            for reference in done:
                job, held = running.pop(reference)
                with held:
                    report = _gathered(ray, reference, job, store)
                yield report
    finally:
        for reference, (_, held) in running.items():
            ray.cancel(reference, force=True)
            held.close()


def _slots(ray, threads: int) -> int:
    """Jobs to have on the cluster: it may grow and shrink while we look."""
    return int(ray.cluster_resources().get("CPU", 0)) // threads + SPARE


def _gathered(ray, reference, job: Job, store: Store) -> Report:
    try:
        report, files = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, StoreError):
            raise error.cause from None
        return Report(job, "failed", " ".join(str(error.cause).split()))
    except ray.exceptions.RayError as error:
        reason = " ".join(str(error).split())[:200]
        return Report(job, "failed", f"its worker was lost {RETRIES + 1} times ({type(error).__name__}: {reason})")
    if files is not None:
        try:
            store.put(job.key, files)
        except ValueError as error:
            return Report(job, "failed", f"what its worker sent is not sound: {error}")
    return report


# ---- on the worker's side ------------------------------------------------------------------------------------------


def remote_job(
    path: str, identity: str, job: Job, experiment: Experiment, packed: Mapping[str, bytes]
) -> tuple[Report, dict[str, bytes] | None]:
    """The report, and the files of the result where the driver's store is not in sight."""
    with ExitStack() as folders:
        if packed and not Path(experiment.images).is_dir():
            images = Path(folders.enter_context(tempfile.TemporaryDirectory(prefix="multigrade-images-")))
            for name, content in packed.items():
                (images / name).write_bytes(content)
            experiment = experiment._replace(images=images)
        if _is_in_sight(Path(path), identity):
            return execute(Store(path), job, experiment, has_lock=True), None
        own = Store(folders.enter_context(tempfile.TemporaryDirectory(prefix="multigrade-store-")))
        report = execute(own, job, experiment)
        return report, own.files(job.key) if report.status == "finished" else None


def _is_in_sight(path: Path, identity: str) -> bool:
    try:
        return Store(path, create=False).identity == identity
    except (ValueError, OSError):
        return False


def _packed(images: Path | None) -> dict[str, bytes]:
    """The paper's images, by file name."""
    if images is None:
        return {}
    stems = {entry.file for entry in ENTRIES.values()}
    return {path.name: path.read_bytes() for path in Path(images).iterdir() if path.stem in stems}
