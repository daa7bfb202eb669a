"""``python -m tests.soak --kills N``: kills of every kind, and whether anything was lost.

This process never starts JAX: it imports everything once and forks a child for every run, which starts its own and
finds compiled programs in a folder that all share. A kill then costs a fraction of a second.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

KILLS_PER_RUN = 8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="targets whose name contains one of these, with commas between")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        _prepare(Path(place) / "cache")
        return _soak(given, Path(place))


def _prepare(cache: Path) -> None:
    """The environment of the children. One thread: XLA would change last bits with their number."""
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": str(cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    warnings.simplefilter("ignore")  # of JAX, about forks: it has not started here


def _soak(given, place: Path) -> int:
    from . import targets

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rng = random.Random(given.seed)
    chosen = [target for target in targets.known() if any(part in target.name for part in given.only.split(","))]
    alone = {target.name: _left_alone(target, place) for target in chosen}
    books = {target.name: _Book() for target in chosen}
    started, told = time.monotonic(), 0
    try:
        while (done := sum(book.kills for book in books.values())) < given.kills:
            if done >= told + 50:
                told = done
                _print(books, time.monotonic() - started)
            # The kind that is furthest behind its share is next.
            target = min(chosen, key=lambda target: books[target.name].kills / target.share)
            folder = Path(tempfile.mkdtemp(dir=place))
            wanted = min(KILLS_PER_RUN, given.kills - done)
            kills, problem = _killed_run(target, folder, *alone[target.name], wanted, rng)
            books[target.name].add(kills, problem)
            if problem:
                print(f"{target.name}: {problem}", flush=True)
            shutil.rmtree(folder)
    except KeyboardInterrupt:  # what was done until then counts
        print("interrupted")
    _print(books, time.monotonic() - started)
    return 1 if any(book.lost for book in books.values()) else 0


class _Book:
    """Kills, runs that were killed and begun again, and how many of them lost something."""

    def __init__(self):
        self.kills = self.runs = self.lost = 0

    def add(self, kills: int, problem: str | None) -> None:
        self.kills, self.runs, self.lost = self.kills + kills, self.runs + 1, self.lost + bool(problem)


def _print(books: dict[str, _Book], seconds: float) -> None:
    for name, book in books.items():
        print(f"{name:28}{book.kills:6,} kills{book.runs:6,} runs{book.lost:4} lost")
    kills, lost = (sum(getattr(book, name) for book in books.values()) for name in ("kills", "lost"))
    print(f"{kills:,} kills in {seconds:.0f} s; {lost} runs ended otherwise than those left alone", flush=True)


def _left_alone(target, place: Path) -> tuple[dict[str, bytes], float]:
    """The bytes of runs that nobody disturbs, the second of which finds its programs compiled; and its seconds."""
    from . import targets

    found = []
    for _ in range(2):
        folder = Path(tempfile.mkdtemp(dir=place))
        started = time.monotonic()
        code = _wait(_start(target, folder), None)
        seconds = time.monotonic() - started
        found.append(targets.results(folder))
        shutil.rmtree(folder)
        if code:
            raise SystemExit(f"{target.name} fails when it is left alone")
    if found[0] != found[1]:
        raise SystemExit(
            f"{target.name}: two runs differ in {sorted(k for k in found[0] if found[0][k] != found[1].get(k))}"
        )
    return found[0], seconds


def _killed_run(target, folder: Path, whole, seconds: float, num_kills: int, rng) -> tuple[int, str | None]:
    """Kill and start again, then let it end: how many kills met a living process, and what was lost, if anything."""
    from . import targets

    kills = 0
    for _ in range(num_kills):
        child = _start(target, folder)
        code = _wait(child, rng.uniform(0, 1.1 * seconds))
        if code is not None:
            break
        if target.below:
            below = targets.descendants(child, target.below)
            if below:
                os.kill(rng.choice(below), signal.SIGKILL)
                kills += 1
            _wait(child, None)
            continue
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1
        if broken := targets.broken(folder):
            return kills, f"half a file after a kill: {broken}"
    code = _wait(_start(target, folder), None)
    if code:
        return kills, f"exit code {code} when it was started again"
    found = targets.results(folder)
    if found != whole:
        names = sorted(name for name in {*found, *whole} if found.get(name) != whole.get(name))
        return kills, f"other bytes: {names}"
    return kills, None


def _start(target, folder: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        target.run(folder)
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 1
    os._exit(code)


def _wait(pid: int, seconds: float | None) -> int | None:
    """The exit code, or None if it still runs after so many seconds."""
    if seconds is None:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(min(0.01, max(ends - time.monotonic(), 0)))
    return None


if __name__ == "__main__":
    sys.exit(main())
