"""What is killed. Each target makes its files in a folder, continuing what it finds there, and is called in a child
process of its own; ``results`` are the files whose bytes count."""

import ctypes
import dataclasses
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import load_file

from multigrade import cli, structures
from multigrade.files import read_arrays, write_arrays
from multigrade.model import grades_to_arrays
from multigrade.tables.files import read_table, write_predictions
from multigrade.training import Checkpointing, Plan, fit_grades
from multigrade.training.record import records_to_arrays
from multigrade_paper.executors import Experiment, run_jobs
from multigrade_paper.job import Job, Result
from multigrade_paper.store import Store

from ..reproduction import small

X = np.linspace(-1, 1, 64)[:, None]
Y = np.abs(np.sin(4 * X))


@dataclasses.dataclass(frozen=True)
class Target:
    """``run(folder)`` makes ``results(folder)``; ``share`` of all kills are of this kind.

    The child process itself is killed, or one of the processes below it whose command has one of ``below`` in it.
    """

    name: str
    run: Callable[[Path], None]
    share: float
    below: tuple[str, ...] = ()


def results(folder: Path) -> dict[str, bytes]:
    """Every file that a run was asked for: neither checkpoints nor what says when and where, nor hidden ones."""
    found = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in inside.parts)
        if path.is_file() and not hidden and path.suffix != ".checkpoint" and path.name != "run.json":
            found[str(inside)] = path.read_bytes()
    return found


def broken(folder: Path) -> list[str]:
    """Files that are there but not whole, by their own checksums and formats."""
    readers = {
        ".safetensors": lambda path: load_file(path),
        ".csv": read_table,
        ".png": lambda path: Image.open(path).load(),
    }
    readers[".json"] = lambda path: json.loads(path.read_text())
    found = []
    for name in results(folder):
        try:
            readers.get(Path(name).suffix, Path.stat)(folder / name)
        except Exception as error:
            found.append(f"{name}: {error}")
    return found


def fit(folder: Path, **options) -> None:
    """Two grades with random batches, the best of their parameters, saved after every chunk of steps."""
    structure = structures.graded(1, [(8,), (8,)], 1)
    plan = Plan(steps=400, learning_rate=0.01, record_every=20, batch_size=16, keep="best", seed=3, **options)
    saving = Checkpointing(folder / "fit.checkpoint", every=0.0)
    done = fit_grades(structure, X, Y, plan, validation=(X[::3], Y[::3]), checkpoint=saving)
    arrays, ends = records_to_arrays([dataclasses.replace(record, seconds=0.0) for record in done.records])
    write_arrays(folder / "result.safetensors", "soak", {**grades_to_arrays(done.model.grades), **arrays}, {"e": ends})


def table_command(folder: Path) -> None:
    """``multigrade fit`` and ``predict``."""
    data = folder / "data.csv"
    if not data.exists():
        new = folder / ".data"
        np.savetxt(new, np.hstack([X, Y]), delimiter=",", header="x,y", comments="")
        new.replace(data)
    model = folder / "model.safetensors"
    _command("fit", data, "--model", model, "--steps", "150", "--width", "8", "--grades", "1", "--quiet")
    _command("predict", model, data, "-o", folder / "out.csv", "--quiet")
    model.unlink()  # it says how long the grades took; the predictions do not


def image_command(folder: Path) -> None:
    """``multigrade denoise`` of a small picture."""
    noisy = folder / "noisy.png"
    if not noisy.exists():
        new = folder / ".noisy.png"
        Image.fromarray(np.random.default_rng(0).integers(60, 190, (16, 16), np.uint8)).save(new)
        new.replace(noisy)
    options = [
        "--recipe",
        "paper",
        "--steps",
        "40",
        "--width",
        "8",
        "--layers",
        "1",
        "--grades",
        "2",
        "--noise-sigma",
        "20",
    ]
    _command("denoise", noisy, "-o", folder / "out.png", *options, "--quiet")


def driver(folder: Path) -> None:
    """The lab's driver, doing its jobs itself."""
    run_jobs(small.jobs(2, epochs=120), Store(folder / "store"), Experiment(small.run), executor="inline")


def workers(folder: Path) -> None:
    """The lab's driver with two workers, one of which is killed while the driver lives on."""
    reports = run_jobs(
        small.jobs(4, epochs=120), Store(folder / "store"), Experiment(small.run), executor="processes", workers=2
    )
    if any(report.status == "failed" for report in reports):
        sys.exit("\n".join(report.sentence for report in reports))


def ray_node(folder: Path) -> None:
    """The same on a cluster of Ray that is started here, of which a worker or the whole node is killed."""
    run_jobs(small.jobs(4, epochs=120), Store(folder / "store"), Experiment(small.run), executor="ray", workers=2)


def writer(folder: Path) -> None:
    """Files of arrays and tables, each written twice: first with other contents, then with those that count."""
    for number in range(40):
        values = np.random.default_rng(number).normal(size=(50, 4))
        path = folder / f"{number}.safetensors"
        for content in ({"a": values},) if path.exists() else ({"a": values[:0]}, {"a": values}):
            write_arrays(path, "soak", content, {})
        write_predictions(folder / f"{number}.csv", list("abcd"), values)


def filled_store(folder: Path) -> None:
    """Results put into a store, as the lab does when a job ends."""
    store = Store(folder / "store")
    for number in range(20):
        job = Job("soak", "soak", {"seed": number})
        with store.lock(job.key, wait=True):
            if job.key not in store:
                values = np.random.default_rng(number).random((24, 24))
                store.save(
                    job, Result({"psnr": float(number)}, (), {"values": values}, {"result": values}), {"seconds": 0}
                )


def full_disk(folder: Path) -> None:
    """A fit whose files may not grow beyond a random size: it warns, or ends with one OSError, and is begun again."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit = random.SystemRandom().randrange(0, 40_000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fit(folder)
        except OSError:
            leftover = [path.name for path in folder.iterdir() if path.name.startswith(".")]
            if leftover:
                sys.exit(f"a full disk left {leftover}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    fit(folder)


def full_tmpfs(folder: Path) -> None:
    """The same on a real file system that is too small, whose checkpoints are copied back and forth."""
    disk, kept = folder / ".disk", folder / ".kept.checkpoint"
    disk.mkdir(exist_ok=True)
    ctypes.CDLL(None).unshare(0x00020000)  # mounts of its own, which end with the process, also when it is killed
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    size = random.SystemRandom().randrange(8, 80)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", disk], check=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fit(disk)
            except OSError:
                if leftover := [path.name for path in disk.iterdir() if path.name.startswith(".")]:
                    sys.exit(f"a full file system left {leftover}")
        if (disk / "fit.checkpoint").exists():
            read_arrays(disk / "fit.checkpoint", "checkpoint")  # whole
            shutil.copy(disk / "fit.checkpoint", kept)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    if kept.exists():
        kept.replace(folder / "fit.checkpoint")
    fit(folder)


def two_at_once(folder: Path) -> None:
    """Two processes with one checkpoint: one fits, the other is refused, and tries again until it may."""
    child = os.fork()
    while True:
        try:
            fit(folder)
            break
        except ValueError as error:
            if "is in use by another run" not in str(error):
                raise
            time.sleep(0.05)
    if not child:
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        sys.exit("the second process failed")


def jumping_clock(folder: Path) -> None:
    """A fit while the clocks that the process sees jump by hours, forth and back."""
    jump, clocks = random.SystemRandom(), {name: getattr(time, name) for name in ("time", "monotonic", "perf_counter")}
    for name, clock in clocks.items():
        setattr(time, name, lambda clock=clock: clock() + jump.choice([0, 0, 0, 3600.0, -3600.0, 1e6]))
    fit(folder)


def _command(*arguments) -> None:
    sys.argv = ["multigrade", *map(str, arguments)]
    try:
        cli.main()
    except SystemExit as stop:
        if stop.code:
            raise


def known() -> list[Target]:
    """Ray's only where it is installed."""
    made = [
        Target("a writer of files", writer, 0.15),
        Target("a store being filled", filled_store, 0.15),
        Target("fit", fit, 0.3),
        Target("multigrade fit and predict", table_command, 0.1),
        Target("multigrade denoise", image_command, 0.1),
        Target("the lab's driver", driver, 0.1),
        Target("a worker of the lab", workers, 0.02, below=("popen_loky",)),
        Target("a full disk", full_disk, 0.03),
        Target("a jumping clock", jumping_clock, 0.04),
        Target("two fits at once", two_at_once, 0.1),
    ]
    if os.geteuid() == 0:  # who else may mount
        made.append(Target("a file system that is full", full_tmpfs, 0.05))
    try:
        import ray  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        return made
    return [*made, Target("a worker or node of Ray", ray_node, 0.01, below=("ray::", "ray/raylet/raylet"))]


def descendants(pid: int, names: tuple[str, ...]) -> list[int]:
    """Processes below this one whose command has one of these in it, from /proc."""
    parents, chosen = {}, set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path("/proc", entry, "stat").read_text()
                command = Path("/proc", entry, "cmdline").read_bytes().split(b"--")[0].decode(errors="replace")
            except OSError:
                continue
            parents[int(entry)] = int(text.rpartition(")")[2].split()[1])
            if any(name in command for name in names):
                chosen.add(int(entry))
    found, front = [], [pid]
    while front:
        front = [child for child, parent in parents.items() if parent in front]
        found += front
    return [child for child in found if child in chosen]
