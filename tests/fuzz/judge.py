"""What may happen: success, or one line. Anything else is a failure of ours."""

import contextlib
import io
import os
import sys
import tempfile
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from multigrade import cli

CAUGHT = (ValueError, TypeError, OSError, MemoryError, RuntimeError)  # what ``cli.main`` turns into one line


# For one small file, of the processor; a first one may compile, and a busy machine must not matter. Our choice.
MOST_SECONDS, MOST_MEGABYTES = 8.0, 600.0


class Differs(Exception):
    """What was read, written and read again is not the same."""


class Outcome(NamedTuple):
    """``problem`` is None where all is well; ``line`` is what the user was told."""

    is_refused: bool
    line: str
    problem: str | None


def read(function, *arguments) -> Outcome:
    """A reader as a command calls it: it returns, or raises what becomes one line. It never warns, C libraries write
    nothing past Python, and neither time nor memory goes far beyond what the file is worth."""
    seconds, memory = time.process_time(), _peak(is_new=True)
    with _descriptors() as written:
        outcome = _read(function, *arguments)
    seconds = time.process_time() - seconds
    memory = _peak() - memory
    if outcome.problem is None and written:
        return outcome._replace(problem=f"a library wrote {bytes(written[:200])!r} to the terminal")
    if outcome.problem is None and (seconds > MOST_SECONDS or memory > MOST_MEGABYTES):
        return outcome._replace(problem=f"took {seconds:.1f} s and {memory:.0f} MB")
    return outcome


def _peak(*, is_new: bool = False) -> float:
    """The most megabytes that this process has had, since the last call with ``is_new`` where Linux can count anew."""
    try:
        if is_new:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0.0
    return float(status.split("VmHWM:")[1].split()[0]) / 1024


@contextlib.contextmanager
def _descriptors():
    """What is written to descriptors 1 and 2, by whomever, collected when the block ends."""
    written = bytearray()
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as file:
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            yield written
        finally:
            for number, copy in enumerate(kept, 1):
                os.dup2(copy, number)
                os.close(copy)
            file.seek(0)
            written += file.read()


def _read(function, *arguments) -> Outcome:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            function(*arguments)
    except Differs as differs:
        return Outcome(False, "", str(differs))
    except Warning as warning:
        return Outcome(False, "", f"warned: {warning!r}")
    except CAUGHT as error:
        line = cli._one_line(error)
        return Outcome(True, line or "", None if line else f"would be a traceback: {error!r}")
    except Exception as error:
        return Outcome(True, "", f"would be a traceback: {error!r}")
    return Outcome(False, "", None)


def command(arguments: list[str], folder: Path) -> Outcome:
    """The whole command in ``folder``: exit code 0, or 2 with one line, no new file and no input changed."""
    before = contents(folder)
    out, err = io.StringIO(), io.StringIO()
    code, failure = 0, None
    where, argv = Path.cwd(), sys.argv
    try:
        os.chdir(folder)
        sys.argv = ["multigrade", *arguments]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("error")
            cli.main()
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException as error:
        failure = f"{type(error).__name__}: {error}"
    finally:
        os.chdir(where)
        sys.argv = argv
    # That an option has a new name is told beside the one line.
    lines = [line for line in err.getvalue().splitlines() if line.strip() and " is now called " not in line]
    after = contents(folder)
    changed = sorted(name for name in before if after.get(name) != before[name])
    if code == 0:  # an option may name a file that is there and is written anew
        values = [value for option, value in pairwise(arguments) if option.startswith("-")]
        changed = [name for name in changed if Path(name).name not in values]
    problem = failure
    if not problem and code not in (0, 2):
        problem = f"exit code {code}"
    elif not problem and code == 2 and len(lines) != 1:
        problem = f"{len(lines)} lines: {lines[:3]}"
    elif not problem and code == 2 and set(after) - set(before):
        problem = f"left behind: {sorted(set(after) - set(before))}"
    elif not problem and changed:
        problem = f"changed: {changed}"
    return Outcome(code == 2, lines[-1] if lines else "", problem)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Of every file under a folder."""
    found: dict[str, bytes | None] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path)] = os.readlink(path).encode()
        elif path.is_file():
            found[str(path)] = path.read_bytes()
    return found
