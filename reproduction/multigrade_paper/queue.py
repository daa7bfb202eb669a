"""The runs that decide, in the order in which they are worth their time, by one process with one thread.

    python -m multigrade_paper.queue runs --images IMAGES [--until 00:50] [--list]

Finished jobs are kept, a job that was interrupted goes on where it was (``unfinished`` brings it from another machine),
and a signal ends the queue within seconds. ``--list`` prints the jobs with their prices.
"""

import argparse
import datetime
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Part(NamedTuple):
    """Jobs of an item whose names hold one of the texts, by one seed, as so many copies."""

    item: str
    texts: tuple[str, ...] = ()
    seed: int = 0
    copies: range = range(1)
    has_variants: bool = True
    has_sweeps: bool = True


COPIES = range(1, 5)
ORDER = (
    Part("eig-image-denoising", ("butterfly noise 10 MGDL",), has_variants=False),  # calm: a reference to four digits
    Part("table2", ("input",)),
    Part("table3", ("input",)),
    Part("table1", ("baseline",)),
    Part("copies", copies=range(6)),
    Part("eig-synthetic", ("setting 1 MGDL",)),
    Part("msdl-synthetic", ("setting 1 MSDL learning_rate 0.004",)),
    Part("eig-synthetic", ("setting 2 SGDL",)),
    Part("eig-image-denoising", ("butterfly noise 10 SGDL",)),
    Part("msdl-synthetic", ("setting 2 MSDL learning_rate 0.006",), has_sweeps=False),
    Part("eig-image-regression", ("resolution_chart MGDL",)),
    Part("eig-synthetic"),
    Part("eig-image-denoising", ("barbara",), has_variants=False),
    Part("eig-image-regression", ("cameraman MGDL", "barbara MGDL")),
    Part("eig-synthetic", ("setting 1 MGDL",), copies=COPIES),
    Part("eig-image-denoising"),
    Part("eig-image-regression", ("MGDL",)),
    Part("alpha-synthetic"),
    Part("msdl-synthetic", ("setting 1 MSDL learning_rate 0.004",), copies=COPIES),
    Part("eig-synthetic", ("setting 2 SGDL", "setting 2 MGDL", "setting 1 SGDL"), copies=COPIES),
    Part("msdl-synthetic", ("setting 2 MSDL learning_rate 0.006",), copies=COPIES, has_sweeps=False),
    Part("eig-image-regression"),
    Part("lr-synthetic"),
    Part("msdl-synthetic"),
    *(Part("eig-synthetic", seed=seed) for seed in (1, 2)),
    *(Part("eig-image-denoising", seed=seed) for seed in (1, 2)),
    *(Part("eig-image-regression", seed=seed) for seed in (1, 2)),
    Part("eig-image-regression", ("SGDL",), copies=COPIES),
    Part("eig-image-denoising", ("SGDL",), copies=COPIES),
    Part("table2", ("butterfly noise 10",)),
    Part("table3", ("butterfly blur 3",)),
    Part("table1", ("cameraman", "barbara", "butterfly")),
    Part("table2", ("butterfly",)),
    Part("table3", ("butterfly",)),
    Part("table1"),
)


def jobs(images: Path | None) -> Iterator:
    """All jobs of the queue, in order, each once."""
    from .catalogue import expand, only

    seen: set[str] = set()
    for part in ORDER:
        kinds = {"copies": str(part.copies.stop)} if part.copies.stop > 1 and part.item != "copies" else {}
        found = expand([part.item], recipe="paper", images=images, overrides=kinds, seeds=part.seed + 1)
        texts = [text.replace("learning_rate", "learning rate") for text in part.texts]
        for job in only(found, texts):
            is_wanted = job.setup.seed == part.seed and job.setup.copy in part.copies
            is_wanted &= part.has_variants or not job.setup.variant
            is_wanted &= part.has_sweeps or "sweep" not in job.setup.config
            if is_wanted and job.key not in seen:
                seen.add(job.key)
                yield job


def main(arguments: list[str] | None = None) -> None:
    """Run the queue."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--until", help="a time of the day, UTC, at which to stop")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args(arguments)

    from multigrade.threads import thread_environment

    os.environ.update(thread_environment(1))  # before JAX starts
    from . import costs
    from .executors import Experiment, execute
    from .experiments import run
    from .store import Store

    if given.list:
        for job in jobs(given.images):
            print(f"{job.key}  {costs.seconds(job) / 60:8.1f} min  {job.item}  {job.label}")
        return
    store, experiment = Store(given.store), Experiment(run, given.images)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by a signal; what is under way goes on from here"))
    if given.until:
        now = datetime.datetime.now(datetime.UTC)
        hour, minute = map(int, given.until.split(":"))
        end = now.replace(hour=hour, minute=minute, second=0)
        end += datetime.timedelta(days=end <= now)
        signal.signal(signal.SIGALRM, lambda *_: sys.exit("the time is up; what is under way goes on from here"))
        signal.alarm(int((end - now).total_seconds()))
    for job in jobs(given.images):
        started = time.strftime("%H:%M:%S", time.gmtime())
        report = execute(store, job, experiment)
        if report.status != "kept":
            told = report.status, job.key, job.item, job.label, f"{report.seconds:.0f} s", report.sentence
            print(started, *told, flush=True)


if __name__ == "__main__":
    main()
