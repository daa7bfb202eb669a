"""``python -m tests.soak.shapes --fits N``: fits and predictions of ever new shapes in one process.

Rows, columns and widths differ in every fit, so that nothing that was compiled fits the next one. Memory maps, resident
memory and descriptors are printed as they go, the most of each at the end. ``--threads`` fit at once; ``--fixed`` keeps
one shape, to see what looking at the maps costs where it is of no use.
"""

import argparse
import itertools
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MULTIGRADE_CACHE", "off")

import numpy as np

from multigrade import MultiGradeClassifier, MultiGradeRegressor, programs


def fits(solver: str, seed: int, is_fixed: bool) -> Iterator[float]:
    """Fit, predict other numbers of rows, and yield how far predictions of equal rows are apart (by rounding)."""
    rng = np.random.default_rng(seed)
    for index in itertools.count():
        rows, columns, width = (64, 3, 8) if is_fixed else (int(rng.integers(*x)) for x in ((24, 400), (1, 9), (2, 40)))
        x = rng.normal(size=(rows, columns))
        kind = MultiGradeClassifier if index % 5 == 4 else MultiGradeRegressor
        y = x[:, 0] > 0 if index % 5 == 4 else np.sin(x[:, 0])
        chosen = solver if solver != "both" else ("muon", "auto")[index % 8 == 7]
        model = kind(1, (width,), solver=chosen, max_iter=3, random_state=index).fit(x, y)
        predict = model.predict_proba if index % 5 == 4 else model.predict
        whole = predict(x)
        others = (1, rows // 2, rows - 1)
        yield float(max(np.max(np.abs(predict(x[:n]) - whole[:n])) for n in others))


def resident() -> float:
    """Megabytes of this process."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=100)
    parser.add_argument("--solver", default="both", choices=["muon", "auto", "both"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--most-maps", type=int, default=programs.MOST_MAPS, help="see multigrade.programs")
    given = parser.parse_args()
    programs.MOST_MAPS = given.most_maps
    warnings.simplefilter("ignore")
    todo, most, worst, lock = iter(range(given.fits)), np.zeros(3), [0.0], threading.Lock()

    def work(seed: int) -> None:
        for apart in fits(given.solver, seed, given.fixed):
            with lock:
                worst[0] = max(worst[0], apart)
                now = np.array([programs.num_maps(), resident(), len(os.listdir("/proc/self/fd"))])
                most[:] = np.maximum(most, now)
                if (index := next(todo, None)) is None:
                    return
                if index % 20 == 0:
                    print(f"{index:6} fits {now[0]:8,.0f} maps {now[1]:8,.0f} MB {now[2]:4.0f} files", flush=True)

    started = time.process_time()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(given.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(
        f"{given.fits:,} fits, {time.process_time() - started:.0f} s of the processor: at most {most[0]:,.0f} maps, "
        f"{most[1]:,.0f} MB and {most[2]:.0f} files; equal rows differ by {worst[0]:.1g} at most"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
