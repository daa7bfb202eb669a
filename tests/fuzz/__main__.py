"""``python -m tests.fuzz --cases N`` or ``--seconds N``: how many were read, refused and mishandled."""

import argparse
import collections
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from . import files, options

OPTIONS_SHARE = 0.1
MEMORY = 16 << 30  # bytes of address space: a file that claims to be large must be refused, not believed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="files whose name contains this, or 'options'")
    parser.add_argument("--keep", type=Path, default=None, help="a folder for the files that were mishandled")
    given = parser.parse_args()
    if given.cases is None and given.seconds is None:
        given.seconds = 60.0
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    with tempfile.TemporaryDirectory() as place:
        return _run(given, Path(place))


def _run(given, place: Path) -> int:
    (place / "files").mkdir()
    (place / "options").mkdir()
    (place / "mutated").mkdir()
    kinds = [kind for kind in files.kinds(place / "files") if given.only in kind.name]
    options.fill(place / "options")
    counts, problems = collections.Counter(), []
    started = time.monotonic()
    case = 0
    while not _is_over(given, case, started):
        rng = np.random.default_rng([given.seed, case])
        if given.only == "options" or (not given.only and rng.random() < OPTIONS_SHARE):
            outcome, what = options.run(place / "options", rng)
            name = f"multigrade {what[0]}"
        else:
            kind = kinds[case % len(kinds)]
            outcome, what = files.run(kind, place / "mutated", rng)
            name = kind.name
        counts[name, "mishandled" if outcome.problem else "refused" if outcome.is_refused else "accepted"] += 1
        if outcome.problem:
            problems.append((case, name))
            print(f"case {case}, {name}: {outcome.problem}\n  {what if isinstance(what, list) else ''}", flush=True)
            if given.keep and isinstance(what, bytes):
                given.keep.mkdir(exist_ok=True)
                (given.keep / f"{given.seed}-{case}-{name}").write_bytes(what)
        case += 1
    _print(counts, case, time.monotonic() - started)
    return 1 if problems else 0


def _is_over(given, case: int, started: float) -> bool:
    if given.cases is not None and case >= given.cases:
        return True
    return given.seconds is not None and time.monotonic() - started >= given.seconds


def _print(counts, num_cases: int, seconds: float) -> None:
    print(f"{'':24}{'accepted':>10}{'refused':>10}{'mishandled':>12}")
    for name in sorted({name for name, _ in counts}):
        row = [counts[name, how] for how in ("accepted", "refused", "mishandled")]
        print(f"{name:24}{row[0]:10,}{row[1]:10,}{row[2]:12,}")
    of_files = sum(count for (name, _), count in counts.items() if not name.startswith("multigrade "))
    total = sum(count for (_, how), count in counts.items() if how == "mishandled")
    print(
        f"{of_files:,} mutated files and {num_cases - of_files:,} command lines in {seconds:.0f} s, {total} mishandled"
    )


if __name__ == "__main__":
    sys.exit(main())
