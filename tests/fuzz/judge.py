"""What may happen: success, or one line. Anything else is a failure of ours."""

import contextlib
import io
import os
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from multigrade import cli

CAUGHT = (ValueError, TypeError, OSError, MemoryError, RuntimeError)  # what ``cli.main`` turns into one line


class Outcome(NamedTuple):
    """``problem`` is None where all is well; ``line`` is what the user was told."""

    is_refused: bool
    line: str
    problem: str | None


def read(function, *arguments) -> Outcome:
    """A reader as a command calls it: it returns, or raises what becomes one line; and it never warns."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            function(*arguments)
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
