"""Results on disk: a folder per job, named by the job's key, that appears whole or not at all.

    runs/3f2a.../result.json          the job, its metrics, how its fits ended, versions, checksums of the other files
                 arrays.safetensors   records and arrays
                 *.png                pictures
                 run.json             what differs between two equal runs: when, where, how long
    runs/.work/3f2a.../               checkpoints of a job under way, and its result before it is whole
    runs/.work/3f2a....lock           held by the process that does the job; the kernel releases it when that dies

All files but ``run.json`` are equal, byte for byte, whenever and wherever the job is run with the same versions and
numerics. Whatever is read is checked first: names against patterns, contents against checksums. Nothing is executed.
"""

import dataclasses
import datetime
import errno
import hashlib
import json
import os
import platform
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import jax
import numpy as np
from filelock import FileLock, Timeout

from multigrade import pictures
from multigrade.files import read_arrays, write_arrays
from multigrade.training.record import arrays_under, records_from_arrays, records_to_arrays
from multigrade.version import __version__

from .job import NUMERICS, Job, Result, Saved

KEY = re.compile(r"[0-9a-f]{20}")
PICTURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]*\.png")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)  # no other job could be written either
SIZE_LIMIT = 1 << 28  # bytes of a JSON file; our choice


class StoreError(OSError):
    """The store cannot be written: the disk is full, read-only or broken."""


class Store:
    """The results in a folder, which is made if it is not there (its parent must be), unless ``create`` is False."""

    def __init__(self, path: str | os.PathLike, *, create: bool = True):
        self.path = Path(path).absolute()
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"the store must be a folder; {path} is a file")
        if create:
            self._make()
        elif not self.path.is_dir():
            raise ValueError(f"there is no store at {path}")

    def _make(self) -> None:
        if not self.path.parent.is_dir():
            raise ValueError(f"the folder of the store {self.path} does not exist; create it first")
        with self._writing():
            (self.path / ".work").mkdir(parents=True, exist_ok=True)
            identity = self.path / ".work" / "store"
            if not identity.exists():
                identity.write_text(uuid.uuid4().hex)
            probe = self.path / ".work" / f"probe-{uuid.uuid4().hex}"
            probe.write_text("writable")
            probe.unlink()

    @property
    def identity(self) -> str:
        """A name that no other store has: whoever reads the same one at a path sees the same folder."""
        return (self.path / ".work" / "store").read_text()

    # ---- reading ------------------------------------------------------------------------------------------------

    def keys(self) -> list[str]:
        return sorted(entry.name for entry in self.path.iterdir() if KEY.fullmatch(entry.name))

    def __contains__(self, key: str) -> bool:
        return (self._folder(key) / "result.json").is_file()

    def check(self, key: str) -> dict:
        """The checked contents of ``result.json``; ValueError in one line if anything in the folder is not sound."""
        return self._checked(self._folder(key), key)[0]

    def load(self, key: str) -> Saved:
        """A job and its result; ValueError in one line if there is none or it is damaged."""
        folder = self._folder(key)
        content, run = self._checked(folder, key)
        arrays, _, _ = read_arrays(folder / "arrays.safetensors", "result")
        with _telling_damage(key):
            ends = [{**end, "seconds": s} for end, s in zip(content["records"], run["record_seconds"], strict=True)]
            result = Result(
                {**content["metrics"], **run["timings"]},
                records_from_arrays(arrays_under(arrays, "records/"), ends),
                arrays_under(arrays, "arrays/"),
                _Pictures(folder, [name[:-4] for name in content["files"] if name.endswith(".png")]),
            )
            info = {k: v for k, v in run.items() if k not in ("record_seconds", "timings")}
            return Saved(Job(**content["job"]), result, {**info, "versions": content["versions"]})

    def all(self) -> Iterator[Saved]:
        """All sound results of these numerics; see ``damaged`` for the others."""
        for key in self.keys():
            try:
                yield self.load(key)
            except ValueError:
                continue

    def damaged(self) -> dict[str, str]:
        """What is wrong, by key, with results that ``all`` leaves out."""
        found = {}
        for key in self.keys():
            try:
                self.load(key)
            except ValueError as error:
                found[key] = str(error)
        return found

    def _checked(self, folder: Path, key: str) -> tuple[dict, dict]:
        """The contents of ``result.json`` and ``run.json`` in a folder that claims to hold this job's result."""
        result, run = (_read_json(folder / name, key) for name in ("result.json", "run.json"))
        if result.get("numerics") != NUMERICS:
            raise ValueError(f"result {key} was made by other numerics ({result.get('numerics')}, now {NUMERICS})")
        with _telling_damage(key):
            if Job(**result["job"]).key != key:
                raise ValueError(f"result {key} is damaged: it holds another job")
            for name, digest in result["files"].items():
                path = folder / name
                if not (name == "arrays.safetensors" or PICTURE.fullmatch(name)) or path.is_symlink():
                    raise ValueError(f"result {key} is damaged: {name!r} is not one of its files")
                if not path.is_file() or _sha256(path) != digest:
                    raise ValueError(f"result {key} is damaged: {name} does not match its checksum")
        return result, run

    # ---- writing ------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, key: str, *, wait: bool = False):
        """Yield whether the job is ours: False at once, or a wait, while another process does it."""
        path = self._folder(key, ".work").with_suffix(".lock")
        with self._writing():
            path.parent.mkdir(exist_ok=True)
            lock = FileLock(path, timeout=-1 if wait else 0)
            try:
                lock.acquire()
            except Timeout:
                lock = None
        try:
            yield lock is not None
        finally:
            if lock is not None:
                path.unlink(missing_ok=True)  # while it is still held: whoever waits for it looks again
                lock.release()

    def checkpoint(self, key: str, *, threads: int) -> Path:
        """Where the job under way saves itself. Checkpoints that could not be continued to the bit are removed."""
        work = self._folder(key, ".work")
        folder = work / f"{__version__}-{jax.__version__}-{threads}"
        with self._writing():
            folder.mkdir(parents=True, exist_ok=True)
            for other in work.iterdir():
                if other != folder:
                    shutil.rmtree(other)
            for path in folder.iterdir():
                if not _is_sound(path):
                    path.unlink()
        return folder / "fit.checkpoint"

    def save(self, job: Job, result: Result, run: Mapping) -> None:
        """Put the result of a job there, whole, and remove its checkpoints. ``run`` is what two runs do not share."""
        timings = {name: value for name, value in result.metrics.items() if name.endswith("seconds")}
        with self._writing():
            folder = self._new_folder(job.key)
            _write_result(folder, job, result, timings)
            seconds = [record.seconds for record in result.records]
            _write_json(folder / "run.json", {**_circumstances(), **run, "record_seconds": seconds, "timings": timings})
            self._publish(folder, job.key)

    def files(self, key: str) -> dict[str, bytes]:
        """The files of a result, to be sent to another store."""
        names = ("run.json", "result.json", *self.check(key)["files"])
        return {name: (self._folder(key) / name).read_bytes() for name in names}

    def put(self, key: str, files: Mapping[str, bytes]) -> None:
        """Put there what ``files`` of another store gave; refused, and what is there kept, unless it is sound."""
        for name in files:
            if name not in ("result.json", "run.json", "arrays.safetensors") and not PICTURE.fullmatch(name):
                raise ValueError(f"{name!r} is not a file of a result")
        with self._writing():
            folder = self._new_folder(key)
            for name, content in files.items():
                (folder / name).write_bytes(content)
            try:
                self._checked(folder, key)
            except ValueError:
                shutil.rmtree(folder)
                raise
            self._publish(folder, key)

    def remove(self, keys) -> None:
        """Remove results, and what interrupted runs of theirs left behind; ValueError where one is under way."""
        for key in keys:
            with self.lock(key) as is_ours, self._writing():
                if not is_ours:
                    raise ValueError(f"job {key} is being done by another process; its result was not removed")
                for folder in (self._folder(key), self._folder(key, ".work")):
                    if folder.exists():
                        shutil.rmtree(folder)

    # ---- paths --------------------------------------------------------------------------------------------------

    def _folder(self, key: str, *under: str) -> Path:
        if not KEY.fullmatch(key):
            raise ValueError(f"a key has 20 hexadecimal digits; got {key!r}")
        return self.path.joinpath(*under, key)

    def _new_folder(self, key: str) -> Path:
        folder = self._folder(key, ".work") / "result"
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        return folder

    def _publish(self, folder: Path, key: str) -> None:
        """Make all of it durable, then move it to its place with one rename; checkpoints go last."""
        for path in (*folder.iterdir(), folder):
            _sync(path)
        final = self._folder(key)
        if final.exists():  # a damaged one
            shutil.rmtree(final)
        folder.rename(final)
        _sync(self.path)
        shutil.rmtree(folder.parent)

    @contextmanager
    def _writing(self):
        try:
            yield
        except OSError as error:
            what = error.strerror or str(error)
            raise StoreError(f"the store {self.path} cannot be written: {what}; finished results are kept") from error


class _Pictures(Mapping):
    """The pictures of a result by name, read when they are looked at: the ledger of a large store never does."""

    def __init__(self, folder: Path, names: Sequence[str]):
        self.folder, self.names = folder, tuple(names)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.names:
            raise KeyError(name)
        return pictures.load(self.folder / f"{name}.png").pixels

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _write_result(folder: Path, job: Job, result: Result, timings: Mapping) -> None:
    arrays, ends = records_to_arrays(result.records)
    arrays = {f"records/{name}": array for name, array in arrays.items()}
    arrays |= {f"arrays/{name}": np.asarray(array) for name, array in result.arrays.items()}
    write_arrays(folder / "arrays.safetensors", "result", arrays, {})
    for name, pixels in result.pictures.items():
        if not PICTURE.fullmatch(f"{name}.png"):
            raise ValueError(f"a picture's name must be letters, digits, spaces and _.-; got {name!r}")
        pictures.save(folder / f"{name}.png", pictures.Picture(np.asarray(pixels, np.float64)))
    content = {
        "job": dataclasses.asdict(job),
        "key": job.key,
        "metrics": {name: value for name, value in result.metrics.items() if name not in timings},
        "records": [{k: v for k, v in end.items() if k != "seconds"} for end in ends],
        "numerics": NUMERICS,
        "versions": _versions(),
        "files": {path.name: _sha256(path) for path in sorted(folder.iterdir())},
    }
    _write_json(folder / "result.json", content)


def _versions() -> dict[str, str]:
    return {
        "multigrade": __version__, "jax": jax.__version__, "numpy": np.__version__, "python": platform.python_version(),
    }  # fmt: skip


def _circumstances() -> dict:
    return {
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "system": platform.platform(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
    }


def processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


@contextmanager
def _telling_damage(key: str):
    """Files with a right checksum may lack what we look for."""
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"result {key} is damaged: {type(error).__name__}, {error}") from None


def _write_json(path: Path, content: Mapping) -> None:
    text = json.dumps(content, indent=1)
    digest = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps({**content, "sha256": digest}, indent=1))


def _read_json(path: Path, key: str) -> dict:
    """JSON that was written by ``_write_json``; the checksum is over its text without the checksum."""
    if path.is_symlink() or not path.is_file():
        raise ValueError(f"result {key} is damaged: it has no {path.name}")
    if path.stat().st_size > SIZE_LIMIT:
        raise ValueError(f"result {key} is damaged: {path.name} is larger than {SIZE_LIMIT >> 20} MB")
    try:
        content = json.loads(path.read_text())
        digest = content.pop("sha256")
        sound = hashlib.sha256(json.dumps(content, indent=1).encode()).hexdigest() == digest
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        sound, content = False, {}
    if not sound:
        raise ValueError(f"result {key} is damaged: {path.name} does not match its checksum")
    return content


def _is_sound(checkpoint: Path) -> bool:
    try:
        read_arrays(checkpoint, "checkpoint")
    except ValueError:
        return False
    return True


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
