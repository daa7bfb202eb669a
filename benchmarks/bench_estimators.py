"""Estimators on made-up tables and on the paper's functions, and how long fits and predictions take.

R2 on held-out data, against scikit-learn's MLPRegressor; ``benchmarks.tables`` has real tables and more rivals. Every
method runs with its defaults and seed 0, "muon" with solver="muon", which trains one network per grade for 300 steps.
This is no neutral comparison: the learning rate and alpha of "muon" were picked among 12 trials by held-out scores on
these problems (diabetes and the two settings with the same data, the others with other draws); MLPRegressor's were not,
and SingleGrade and MultiScale took over what was picked. The columns with standardised inputs and with ten times its
iterations give MLPRegressor some of that back.

The times of ``benchmarks.table_times`` come first.
"""

import time
import warnings

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multigrade import MultiGradeRegressor, MultiScaleRegressor, SingleGradeRegressor
from multigrade.synthetic import setting

from . import table_times

METHODS = {
    "MLP": lambda: MLPRegressor(random_state=0),
    "scaled MLP": lambda: make_pipeline(StandardScaler(), MLPRegressor(random_state=0)),
    "scaled MLP, 2000": lambda: make_pipeline(StandardScaler(), MLPRegressor(random_state=0, max_iter=2000)),
    "MultiGrade": lambda: MultiGradeRegressor(random_state=0),
    "muon": lambda: MultiGradeRegressor(solver="muon", random_state=0),
    "SingleGrade": lambda: SingleGradeRegressor(random_state=0),
    "MultiScale": lambda: MultiScaleRegressor(random_state=0),
}


def california_like(num_rows: int = 3000, seed: int = 0):
    """Made-up house prices: income, age, rooms, occupancy, place and population; capped, noisy, ranges far apart."""
    random = np.random.default_rng(seed)
    income, age = random.lognormal(1.2, 0.45, num_rows), random.uniform(1, 52, num_rows)
    rooms, occupancy = random.lognormal(1.6, 0.3, num_rows), random.lognormal(1, 0.25, num_rows)
    north, east = random.uniform(32.5, 42, num_rows), random.uniform(-124.3, -114, num_rows)
    population = random.lognormal(7, 0.7, num_rows)
    coast = np.exp(-(((east + 118 - 0.6 * (37 - north)) / 2) ** 2))
    price = 0.42 * income + 1.2 * coast + 0.3 * np.sin(1.5 * north) * coast + 0.005 * age
    price += 0.1 * np.log(rooms) - 0.2 * np.log(occupancy) + random.normal(0, 0.35, num_rows)
    return np.column_stack([income, age, rooms, occupancy, north, east, population]), np.clip(price, 0.15, 5)


def problems():
    yield "diabetes", *load_diabetes(return_X_y=True)
    yield "friedman1", *make_friedman1(1000, noise=1.0, random_state=7)
    yield "friedman2", *make_friedman2(1000, noise=20.0, random_state=7)
    yield "friedman3", *make_friedman3(1000, noise=0.1, random_state=7)
    yield "california-like", *california_like(seed=7)


def main() -> None:
    table_times.small()
    table_times.large()
    warnings.filterwarnings("ignore", module="sklearn")
    print(f"{'R2 on held-out data':18}" + "".join(f"{name:>18}" for name in METHODS))
    for name, X, y in problems():
        folds = list(KFold(5, shuffle=True, random_state=7).split(X))
        scores, seconds = [], []
        for make in METHODS.values():
            started = time.perf_counter()
            scores.append(np.mean([make().fit(X[a], y[a]).score(X[b], y[b]) for a, b in folds]))
            seconds.append(time.perf_counter() - started)
        _print(name, scores, [s / len(folds) for s in seconds])
    for number in (1, 2):
        data = setting(number)
        scores, seconds = [], []
        for make in METHODS.values():
            started = time.perf_counter()
            fitted = make().fit(data.x_train, data.y_train[:, 0])
            scores.append(fitted.score(data.x_test, data.y_test[:, 0]))
            seconds.append(time.perf_counter() - started)
        _print(f"setting {number}", scores, seconds)


def _print(name: str, scores, seconds) -> None:
    print(
        f"{name:18}" + "".join(f"{f'{r:.3f} ({s:.1f} s)':>18}" for r, s in zip(scores, seconds, strict=True)),
        flush=True,
    )


if __name__ == "__main__":
    main()
