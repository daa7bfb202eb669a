"""Compiled programs: let go of where a process has too many of them, and kept on disk between processes.

JAX compiles a program for every shape, and never lets one go. Each takes some 50 of the 65,530 memory maps that Linux
gives a process, and the compiler crashes where none is left: after some 235 fits of 235 shapes.
"""

import contextlib
import ctypes
import os
import stat
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.experimental.compilation_cache import compilation_cache

MOST_MAPS = 12_000  # beside those that the last clearing left, with which programs are kept; our choice
PROGRAMS_BETWEEN = 64  # compiled between two looks at the maps, which take a few milliseconds; our choice
MOST_PROGRAMS = 512  # where maps cannot be counted
MOST_BYTES = 2**30  # of programs on disk; our choice
MAPS = Path("/proc/self/maps")


class _Count:
    """Programs compiled, by whomever, at all and up to the last look; maps that the last clearing left."""

    compiled = looked = cleared = maps_left = 0
    lock = threading.Lock()
    is_stuck = False  # in a process that was forked from one in which JAX ran


def _count(event: str, seconds: float, **_) -> None:
    _Count.compiled += event == "/jax/core/compile/backend_compile_duration"


def _after_fork() -> None:
    _Count.is_stuck, _Count.lock = _Count.compiled > 0, threading.Lock()


jax.monitoring.register_event_duration_secs_listener(_count)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def refuse_fork() -> None:
    """RuntimeError in a process where JAX would wait for ever, for threads that a fork did not copy."""
    if _Count.is_stuck:
        raise RuntimeError(
            "this process was forked from one in which JAX had run, and JAX would hang here: start processes by "
            "multiprocessing.get_context('spawn'), or by joblib, which does so"
        )


def bound_programs() -> None:
    """Have JAX forget all compiled programs where there are too many; what is used again is compiled again.

    Called where a run begins, never within one. It costs a comparison unless many programs were compiled since the last
    look. Programs that the caller holds (``jax.jit(f).lower(x).compile()``) stay.
    """
    refuse_fork()
    if _Count.compiled < _Count.looked + PROGRAMS_BETWEEN or not _Count.lock.acquire(blocking=False):
        return
    try:
        _Count.looked = _Count.compiled
        if MAPS.exists():
            is_full = num_maps() > _Count.maps_left + MOST_MAPS
        else:
            is_full = _Count.compiled > _Count.cleared + MOST_PROGRAMS
        if is_full and not isinstance(jnp.zeros(()), Tracer):  # while a function is traced it needs the caches
            jax.clear_caches()
            with contextlib.suppress(OSError, AttributeError, TypeError):  # C libraries other than glibc have none
                ctypes.CDLL(None).malloc_trim(0)  # which keeps what was freed: half of the process, after 14 fits
            _Count.cleared, _Count.maps_left = _Count.compiled, num_maps()
    finally:
        _Count.lock.release()


def num_maps() -> int:
    """Memory maps of this process; 0 where the system does not tell."""
    return MAPS.read_bytes().count(b"\n") if MAPS.exists() else 0


@contextlib.contextmanager
def programs_on_disk():
    """Keep what is compiled inside in ~/.cache/multigrade, unless JAX was given a folder; MULTIGRADE_CACHE=off turns it
    off, and any other value is the folder.

    A program is native code, so the folder must be one that others cannot write to. Where there is no home or no such
    folder can be made there, nothing is kept. Where JAX was imported before multigrade, XLA might print a screen of
    text for every program that it finds; nothing is kept then, unless MULTIGRADE_CACHE names a folder. The settings of
    JAX are as before afterwards.
    """
    refuse_fork()
    folder = None if jax.config.values["jax_compilation_cache_dir"] else folder_of_programs()
    if folder is None:
        yield
        return
    shortest = jax.config.values["jax_persistent_cache_min_compile_time_secs"]
    _use(str(folder), 0.0)
    try:
        yield
    finally:
        _use(None, shortest)


def folder_of_programs() -> Path | None:
    """The folder for programs on disk, made and trimmed once; ValueError if MULTIGRADE_CACHE names one that others can
    write to."""
    named = os.environ.get("MULTIGRADE_CACHE")
    if named == "off" or (not named and os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "3"):
        return None
    try:
        folder = Path(named) if named else Path.home() / ".cache" / "multigrade"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder not in _trimmed:
            if not named:
                folder.chmod(0o700)
            _trim(folder)
            _trimmed.add(folder)
        found = folder.stat()
        can_be_used = os.access(folder, os.R_OK | os.W_OK | os.X_OK)
    except (OSError, RuntimeError) as error:  # Path.home() raises the latter
        if named:
            raise ValueError(f"MULTIGRADE_CACHE must be a folder or 'off'; got {named!r} ({error})") from None
        return None
    is_ours = not hasattr(os, "getuid") or (found.st_uid in (0, os.getuid()) and not found.st_mode & stat.S_IWOTH)
    if named and not (is_ours and can_be_used):
        raise ValueError(f"MULTIGRADE_CACHE must be a folder of yours that others cannot write to; got {named!r}")
    return folder if is_ours and can_be_used else None


_trimmed: set[Path] = set()  # folders that this process has looked at


def _trim(folder: Path) -> None:
    """Remove the oldest programs until half as many bytes are left, where there are too many."""
    with contextlib.suppress(FileNotFoundError):  # another process trims it, too
        files = [(file.stat().st_mtime, file.stat().st_size, file.path) for file in os.scandir(folder)]
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files) if total > MOST_BYTES else ():
            if total > MOST_BYTES // 2:
                os.unlink(path)
                total -= size


def _use(folder: str | None, shortest: float) -> None:
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", shortest)
    compilation_cache.reset_cache()  # JAX looks at the settings once
