"""Files of arrays: safetensors with a JSON description in the header, written atomically, checked when read.

Models, checkpoints and results all go through these two functions. Nothing read from a file is ever executed.
"""

import hashlib
import json
import math
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from .version import __version__

try:
    import fcntl
except ImportError:  # Windows: files are not locked there
    fcntl = None

FORMAT = "2"  # in "1", which is still read, the checksum was that of the arrays alone
MOST_NESTED = 64  # a description nests less than ten levels deep

_written: ContextVar[ExitStack | None] = ContextVar("_written", default=None)
_checkpoints: set[str] = set()  # that this process has written, or has read and found sound


@contextmanager
def atomic_path(path: str | os.PathLike):
    """Yield a temporary path beside ``path`` that replaces it when the block succeeds and vanishes when it fails.

    The new file has the permissions of the one that it replaces. A symbolic link is replaced, not followed.
    """
    path = Path(path)
    check_place(path)
    temporary = _new_file_beside(path, stat.S_IMODE(path.stat().st_mode) if path.exists() else None)
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if (together := _written.get()) is not None:
        together.push(partial(_named, temporary, path))
    else:
        _named(temporary, path)


@contextmanager
def all_or_none():
    """The files written in this block take their names when it ends; where it fails, none of them is there."""
    with ExitStack() as written:
        token = _written.set(written)
        try:
            yield
        finally:
            _written.reset(token)


def _named(temporary: Path, path: Path, kind=None, *error) -> None:
    """Give a whole file its name, unless the block that wrote it and others has failed."""
    try:
        if kind is None:
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _new_file_beside(path: Path, mode: int | None = None) -> Path:
    """An empty file of a new name, with these permissions, or those that the process gives to its files."""
    new = path.with_name(f".{path.stem[:40]}-{secrets.token_hex(6)}{path.suffix}")
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else mode & 0o666))
    if mode is not None:
        new.chmod(mode)
    return new


def check_place(path: Path) -> None:
    """ValueError where no file can be written, before any work is done for it."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise ValueError(f"the folder of {path} does not exist; create it first")
    if path.exists() and not os.access(path, os.W_OK):
        raise ValueError(f"{path} cannot be written: you have no permission")
    try:  # a folder may refuse files whatever its permissions say, as those of /proc do
        _new_file_beside(path).unlink()
    except PermissionError:
        raise ValueError(f"{path} cannot be written: you have no permission") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror}") from None


def is_same_file(path: str | os.PathLike, other: str | os.PathLike) -> bool:
    """Whether both name one file, also by links; they need not exist."""
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


def check_output(path: Path, suffixes: tuple[str, ...]) -> None:
    """The same, for a file that must be of one of these kinds."""
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"{path} must end in {' or '.join(suffixes)}")
    check_place(path)


@contextmanager
def alone_with(path: str | os.PathLike | None):
    """No other process or thread enters this block for the same file; ValueError in one line for the second.

    A hidden file beside it is locked for as long. The kernel unlocks it when the process ends, however it ends, so that
    one that was left by a kill locks nothing. Where the system has no such locks, nothing is locked.
    """
    if path is None or fcntl is None:
        yield
        return
    path = Path(path)
    name = path.with_name(f".{path.name}.lock")
    while True:
        lock = os.open(name, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise ValueError(f"{path} is in use by another run; wait for it, or give this one another name") from None
        except OSError:  # a file system without locks
            break
        if name.exists() and os.path.samestat(os.fstat(lock), name.stat()):
            break
        os.close(lock)  # whoever held it has removed it meanwhile
    try:
        yield
    finally:
        name.unlink(missing_ok=True)  # while it is locked: whoever opened it meanwhile looks again
        os.close(lock)


def remove_checkpoint(path: str | os.PathLike) -> None:
    """Remove a checkpoint whose result is safe, if this process wrote it or continued from it; nothing else."""
    if os.path.abspath(path) in _checkpoints:
        _checkpoints.discard(os.path.abspath(path))
        Path(path).unlink(missing_ok=True)


def printable(text: object) -> str:
    """Text for a terminal: what a file or its name says, with control characters shown instead of obeyed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def finite(value):
    """For JSON, which has neither NaN nor infinity: None in their place, however deep."""
    if isinstance(value, Mapping):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_arrays(path: str | os.PathLike, kind: str, arrays: Mapping[str, np.ndarray], description: Mapping) -> None:
    """Write named arrays and a JSON description as one file of the given kind ("model", "checkpoint", ...)."""
    arrays = {name: np.array(array, order="C") for name, array in arrays.items()}
    text = json.dumps(description)
    header = {
        "multigrade": __version__,
        "format": FORMAT,
        "kind": kind,
        "description": text,
        "digest": _digest(arrays, text),
    }
    content = _with_sorted_header(save(arrays, metadata=header))
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
    if kind == "checkpoint":
        _checkpoints.add(os.path.abspath(path))


def _with_sorted_header(content: bytes) -> bytes:
    """The same safetensors file with its metadata in order: the library's own order changes from run to run."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors start at a multiple of 8
    return b"".join([len(text).to_bytes(8, "little"), text, memoryview(content)[8 + size :]])


def read_arrays(path: str | os.PathLike, kind: str) -> tuple[dict[str, np.ndarray], dict, str]:
    """Arrays, description and the version that wrote them; ValueError in one line if the file is not sound."""
    if not Path(path).is_file():
        raise ValueError(f"there is no file {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, AttributeError, TypeError) as error:  # the latter for FP8, which NumPy has not
        raise ValueError(f"{path} is damaged or not a multigrade {kind} ({error})") from None
    if header.get("kind") != kind or "description" not in header:
        found = f"a multigrade {header['kind']}" if "kind" in header else "some other file"
        raise ValueError(f"{path} is not a multigrade {kind}, but {found}")
    if header.get("format") not in ("1", FORMAT):
        raise ValueError(f"{path} has format {header.get('format')!r}; this version of multigrade reads {FORMAT!r}")
    if header.get("digest") != _digest(arrays, header["description"] if header["format"] == FORMAT else ""):
        raise ValueError(f"{path} is damaged: its contents do not match its checksum")
    try:
        description = json.loads(header["description"])
        _check_nesting(description)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: its description cannot be read ({error})") from None
    if not isinstance(description, dict):
        raise ValueError(f"{path} is damaged: its description must be an object; got {type(description).__name__}")
    if kind == "checkpoint":
        _checkpoints.add(os.path.abspath(path))
    return arrays, description, header.get("multigrade", "unknown")


def _check_nesting(value, depth: int = 0) -> None:
    """ValueError for JSON that is nested so deep that what walks through it would reach Python's limit."""
    if depth > MOST_NESTED:
        raise ValueError(f"it is nested more than {MOST_NESTED} deep")
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_nesting(inner, depth + 1)


@contextmanager
def telling_damage(path: str | os.PathLike, kind: str):
    """A part that is missing or of another kind, met while a file's contents are made an object, is one ValueError."""
    try:
        with np.errstate(invalid="raise", over="raise"):
            yield
    except (LookupError, AttributeError, TypeError, ArithmeticError) as error:
        raise ValueError(f"{path} is damaged: a part of the {kind} is missing or wrong ({error!r})") from None


def _digest(arrays: Mapping[str, np.ndarray], description: str) -> str:
    digest = hashlib.sha256(description.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
