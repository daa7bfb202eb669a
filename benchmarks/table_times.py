"""Times of the default estimator on tables, and how often a cross-validation compiles.

    python -m benchmarks.table_times              # all; about three minutes on two cores
    python -m benchmarks.table_times --only small

``small`` fits 1,000 rows beside MLPRegressor, in a first process that finds no compiled programs on disk, and in a
second one that finds those of the first; ``large`` fits 100,000 x 20 and predicts a million rows; ``folds`` counts
compiled programs in each fit of a cross-validation. Seconds are those of the clock: run it alone on the machine.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

SMALL = """
import time
from benchmarks.table_times import table
X, y = table(1000, 10)
from sklearn.neural_network import MLPRegressor
from multigrade import MultiGradeRegressor
for name, model in (
    ("MLPRegressor", MLPRegressor(random_state=0)),
    ("MLPRegressor, early stopping", MLPRegressor(early_stopping=True, random_state=0)),
    ("MultiGradeRegressor, first in its process", MultiGradeRegressor(random_state=0)),
    ("MultiGradeRegressor, second", MultiGradeRegressor(random_state=0)),
):
    wall, processor = time.perf_counter(), time.process_time()
    model.fit(X, y)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(f"  {name}: {wall:.2f} s ({processor:.2f} s of the processor)", flush=True)
"""


def table(num_rows: int, num_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal columns; a target with a sine, a product and noise."""
    random = np.random.default_rng(0)
    X = random.normal(size=(num_rows, num_columns))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * random.normal(size=num_rows)


def small() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for state in ("empty", "filled by the process before"):
            print(f"1,000 x 10, programs on disk: {state}", flush=True)
            environment = {**os.environ, "MULTIGRADE_CACHE": folder, "TF_CPP_MIN_LOG_LEVEL": "3"}
            subprocess.run([sys.executable, "-W", "ignore", "-c", SMALL], check=True, env=environment)


def large() -> None:
    from multigrade import MultiGradeRegressor

    X, y = table(100_000, 20)
    started = time.perf_counter()
    model = MultiGradeRegressor(random_state=0).fit(X, y)
    fitted = time.perf_counter()
    print(f"100,000 x 20: fitted in {fitted - started:.1f} s, {model.n_grades_} grades", flush=True)
    model.predict(np.tile(X, (10, 1)))
    print(f"1,000,000 x 20: predicted in {time.perf_counter() - fitted:.1f} s", flush=True)


def folds() -> None:
    import jax
    from sklearn.model_selection import KFold

    from multigrade import MultiGradeRegressor

    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(seconds) if event.endswith("backend_compile_duration") else None
    )
    X, y = table(1000, 10)
    for train, _ in KFold(5).split(X):
        compiled.clear()
        MultiGradeRegressor(random_state=0).fit(X[train], y[train])
        print(f"a fold of 5: {len(compiled)} programs compiled or read from disk", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["small", "large", "folds"])
    only = parser.parse_args().only
    for part in (small, large, folds):
        if only in (None, part.__name__):
            part()


if __name__ == "__main__":
    main()
