"""python tools/processors.py: what twenty short fits give under two sets of the processor's instructions.

XLA compiles for the processor that it finds. The same fits are run with AVX2 as the most that it may use, and with
whatever this processor has; both in processes of their own, with one thread. What differs is told: parameters to the
bit, and the largest difference of predictions, relative to the largest prediction.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SOLVERS, SEEDS = ("gd", "momentum", "adam", "muon", "lbfgs"), range(4)
SETTINGS = {"AVX2": "--xla_cpu_max_isa=AVX2", "its best": ""}


def fit_all(path: str) -> None:
    from multigrade import MultiGradeRegressor

    x = np.random.default_rng(0).uniform(-1, 1, (128, 2))
    y = np.sin(6 * x[:, 0]) * x[:, 1]
    found = {}
    for solver in SOLVERS:
        for seed in SEEDS:
            model = MultiGradeRegressor(2, (16,), solver=solver, max_iter=200, random_state=seed).fit(x, y)
            found[f"{solver} {seed}"] = model.predict(x)
    np.savez(path, **found)


def main() -> None:
    if len(sys.argv) > 1:
        fit_all(sys.argv[1])
        return
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, flags in SETTINGS.items():
            path = str(Path(folder) / f"{name}.npz")
            flags = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
            environment = os.environ | {"XLA_FLAGS": flags, "NPROC": "1", "MULTIGRADE_CACHE": "off"}
            subprocess.run([sys.executable, "-W", "ignore", __file__, path], check=True, env=environment)
            with np.load(path) as file:
                results.append(dict(file))
    one, other = results
    for solver in SOLVERS:
        names = [name for name in one if name.startswith(f"{solver} ")]
        equal = sum(np.array_equal(one[name], other[name]) for name in names)
        apart = max(np.max(np.abs(one[n] - other[n])) / np.max(np.abs(other[n])) for n in names)
        print(f"{solver:9} {equal} of {len(names)} fits equal to the bit, predictions at most {apart:.1e} apart")


if __name__ == "__main__":
    main()
