"""Functions of one and two variables: relative errors on fresh points and seconds of a core, with and without noise.

    python -m benchmarks.functions                          # all functions and methods
    python -m benchmarks.functions --only kink,jump --methods high,ridge
    python -m benchmarks.functions --others --methods high  # functions and inputs that chose no setting

Methods, all without a setting by hand: ``high`` is MultiGradeRegressor(precision="high"); ``wide`` one grade with as
many sines, of normal frequencies whose scale leave-one-out chooses among 12 (with at most 500 of the sines), and the
same solver; ``sgdl`` is SingleGradeRegressor() with its defaults; ``mlp`` scikit-learn's MLPRegressor of three layers
of 64 for 1,000 epochs; ``ridge`` kernel ridge with a Gaussian kernel, width and ridge by leave-one-out on at most 1,200
rows; ``siren`` a sine network of Sitzmann et al. (2020; three layers of 128, omega_0 = 30), Adam at 1e-4 on all rows,
where torch is installed. ``mlp`` and ``siren`` end after MAX_SECONDS of a core. ``smoother`` is the best linear
smoother: of Gaussian kernel ridge regression on all rows (with at most 1,200 centres, 14 widths, 25 ridges) and, in one
dimension, the cubic smoothing spline (25 strengths), the one whose *true* error is smallest. No method can know that
one; it says what the noise allows. It is compared with ``high`` alone where there is noise.

An entry is the root mean square error divided by the function's deviation, and seconds. Nearly all of the error of a
function with a jump is in the one gap between two points that the jump lies in; ``--median`` prints medians instead.
"""

import argparse
import importlib.util
import itertools
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from multigrade import MultiGradeRegressor, SingleGradeRegressor, solve_least_squares, synthetic

FREQUENCIES = np.arange(10, 201, 10)
MAX_SECONDS = 10.0  # of a core, for mlp and siren


class Case(NamedTuple):
    num_rows: int
    num_inputs: int
    function: Callable[[np.ndarray], np.ndarray]
    is_grid: bool = False
    place: Callable[[np.ndarray], np.ndarray] = lambda x: x  # from the unit box to the inputs


CASES = {
    "setting 1": Case(1024, 1, lambda x: synthetic.target(1, x[:, 0]), True),
    "setting 2": Case(1024, 1, lambda x: synthetic.target(2, x[:, 0]), True),
    "sin(100 x)": Case(1000, 1, lambda x: np.sin(100 * x[:, 0])),
    "10 to 200": Case(6000, 1, lambda x: np.sin(2 * np.pi * x * FREQUENCIES + FREQUENCIES) @ (10 / FREQUENCIES), True),
    "chirp": Case(3000, 1, lambda x: np.sin(2 * np.pi * 90 * x[:, 0] ** 2)),
    "Runge": Case(1500, 1, lambda x: 1 / (1 + 25 * (2 * x[:, 0] - 1) ** 2) + 0.5 * np.sin(60 * x[:, 0])),
    "kink": Case(1500, 1, lambda x: np.abs(x[:, 0] - 0.37) + 0.3 * np.sin(20 * x[:, 0])),
    "jump": Case(1500, 1, lambda x: (x[:, 0] > 0.37) + 0.3 * np.sin(20 * x[:, 0])),
    "plane": Case(
        4000, 2, lambda x: np.sin(20 * x[:, 0]) * np.cos(14 * x[:, 1]) + 0.5 * np.sin(25 * x[:, 0] * x[:, 1])
    ),
}
# Functions and inputs that chose no setting.
OTHERS = {
    "AM and FM": Case(
        2000, 1, lambda x: (1 + 0.5 * np.cos(19 * x[:, 0])) * np.sin(250 * x[:, 0] + 3 * np.sin(12.6 * x[:, 0]))
    ),
    "incommensurate": Case(
        1000, 1, lambda x: np.sin(np.outer(x[:, 0], 37.1 * np.array([1, 2**0.5, np.pi]))).sum(axis=1)
    ),
    "wave packet": Case(2000, 1, lambda x: np.exp(-(((x[:, 0] - 0.3) / 0.03) ** 2)) * np.sin(400 * x[:, 0])),
    "layer of 0.01": Case(1500, 1, lambda x: np.tanh((x[:, 0] - 0.4) / 0.01)),
    "square root": Case(1000, 1, lambda x: np.sqrt(x[:, 0])),
    "20 points": Case(20, 1, lambda x: np.sin(6 * x[:, 0])),
    "uneven points": Case(800, 1, lambda x: np.sin(50 * x[:, 0]), place=lambda x: np.sin(np.pi / 2 * x) ** 2),
    "a gap in the points": Case(800, 1, lambda x: np.sin(20 * x[:, 0]), place=lambda x: x + 0.1 * (x > 0.4)),
    "repeated points": Case(900, 1, lambda x: np.sin(30 * x[:, 0]), place=lambda x: np.round(299 * x) / 299),
    "tiny inputs and targets": Case(800, 1, lambda x: 1e-12 * np.sin(3e10 * x[:, 0]), place=lambda x: 1e-9 * x),
    "inputs from 1e6 to 1e6 + 1": Case(800, 1, lambda x: np.sin(30 * (x[:, 0] - 1e6)), place=lambda x: x + 1e6),
    "targets near 1e8": Case(800, 1, lambda x: 1e8 + np.sin(30 * x[:, 0])),
    "constant": Case(100, 1, lambda x: 7 + 0 * x[:, 0]),
    "ripples in the plane": Case(3000, 2, lambda x: np.cos(30 * np.hypot(x[:, 0] - 0.3, x[:, 1] + 0.2))),
    "plane of unequal sides": Case(
        2000, 2, lambda x: np.sin(60 * x[:, 0]) + 1e-3 * x[:, 1], place=lambda x: x * [1.0, 1000.0]
    ),
    "smooth in space": Case(2000, 3, lambda x: np.exp(-x[:, 0]) * np.sin(3 * x[:, 1]) * np.cos(2 * x[:, 2])),
    "Friedman, five inputs": Case(
        2000,
        5,
        lambda x: 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4],
    ),
}

num_sines = 400  # of the last fit by ``high``; one wide grade has as many


def high(x, y, fresh):
    global num_sines
    model = MultiGradeRegressor(precision="high", random_state=0).fit(x, y)
    num_sines = model.model_.grades[-1].network.num_features  # pyright: ignore
    return model.predict(fresh)


def wide(x, y, fresh):
    random = np.random.default_rng(0)
    draws, phases = random.normal(size=(num_sines, x.shape[1])), random.uniform(0, 2 * np.pi, num_sines)

    def solved(scale, count):
        return solve_least_squares(np.sin(x @ (scale * draws[:count]).T + phases[:count]), y)

    scale = min(2.0 ** np.arange(12), key=lambda scale: solved(scale, 500).leave_one_out)
    return solved(scale, num_sines)(np.sin(fresh @ (scale * draws).T + phases))[:, 0]


def sgdl(x, y, fresh):
    return SingleGradeRegressor(random_state=0).fit(x, y).predict(fresh)


def mlp(x, y, fresh):
    from sklearn.neural_network import MLPRegressor

    low, high, mean, deviation = x.mean(axis=0), x.std(axis=0), y.mean(), y.std()
    model = MLPRegressor(hidden_layer_sizes=(64, 64, 64), random_state=0)
    for _ in steps(1000):
        model.partial_fit((x - low) / high, (y - mean) / deviation)
    return model.predict((fresh - low) / high) * deviation + mean


def steps(most: int):
    """As many steps as ``most``, or as fit into MAX_SECONDS of a core."""
    started = time.process_time()
    return itertools.takewhile(lambda _: time.process_time() - started < MAX_SECONDS, range(most))


def ridge(x, y, fresh, truth=None):
    """Gaussian kernel ridge by leave-one-out; by the error at ``fresh`` on all rows where the truth is given."""
    centres = np.random.default_rng(0).permutation(len(x))[:1200]
    if truth is None:
        x, y, centres = x[centres], y[centres], slice(None)
    mean, best, prediction = y.mean(), np.inf, fresh[:, 0]
    for length in np.geomspace(0.003, 1, 14):
        kernel, across = (np.exp(-cdist(z, x[centres], "sqeuclidean") / (2 * length**2)) for z in (x, fresh))
        values, vectors = np.linalg.eigh(kernel[centres])
        kept = values > 1e-13 * values[-1]
        half = vectors[:, kept] / np.sqrt(values[kept])
        left, singular, right = np.linalg.svd(kernel @ half, full_matrices=False)
        across, rotated = across @ half @ right.T, left.T @ (y - mean)
        for strength in np.geomspace(1e-12, 1, 25):
            shrink = singular**2 / (singular**2 + strength)
            candidate = across @ (shrink / singular * rotated) + mean
            if truth is None:
                error = np.mean(((y - mean - left @ (shrink * rotated)) / (1 - left**2 @ shrink).clip(1e-12)) ** 2)
            else:
                error = np.mean((candidate - truth) ** 2)
            if error < best:
                best, prediction = error, candidate
    return prediction


def spline(x, y, fresh, truth):
    from scipy.interpolate import make_smoothing_spline

    order = np.argsort(x[:, 0])
    x, kept = np.unique(x[order, 0], return_index=True)
    fits = [make_smoothing_spline(x, y[order][kept], lam=lam)(fresh[:, 0]) for lam in np.geomspace(1e-14, 1e-2, 25)]
    return min(fits, key=lambda fit: np.mean((fit - truth) ** 2))


def smoother(x, y, fresh, truth):
    fits = [ridge(x, y, fresh, truth)] + ([spline(x, y, fresh, truth)] if x.shape[1] == 1 else [])
    return min(fits, key=lambda fit: np.mean((fit - truth) ** 2))


def siren(x, y, fresh):
    import torch

    torch.manual_seed(0)
    widths = [x.shape[1], 128, 128, 128]
    layers = [torch.nn.Linear(a, b) for a, b in itertools.pairwise(widths)]
    last = torch.nn.Linear(128, 1)
    for number, layer in enumerate(layers):
        bound = 1 / layer.in_features if number == 0 else np.sqrt(6 / layer.in_features) / 30
        torch.nn.init.uniform_(layer.weight, -bound, bound)

    def network(z):
        for layer in layers:
            z = torch.sin(30 * layer(z))
        return last(z)[:, 0]

    def scaled(z):
        return torch.tensor(2 * z - 1, dtype=torch.float32)

    mean, deviation = y.mean(), y.std()
    target = torch.tensor((y - mean) / deviation, dtype=torch.float32)
    optimiser = torch.optim.Adam([p for layer in (*layers, last) for p in layer.parameters()], 1e-4)
    for _ in steps(10_000):
        optimiser.zero_grad()
        torch.mean((network(scaled(x)) - target) ** 2).backward()
        optimiser.step()
    with torch.no_grad():
        return network(scaled(fresh)).numpy().astype(float) * deviation + mean


METHODS = {"high": high, "wide": wide, "sgdl": sgdl, "mlp": mlp, "ridge": ridge, "siren": siren, "smoother": smoother}


def rows(case: Case, noise: float):
    random = np.random.default_rng(0)
    x = np.linspace(0, 1, case.num_rows)[:, None] if case.is_grid else random.random((case.num_rows, case.num_inputs))
    x = case.place(x)
    fresh = x.min(axis=0) + np.ptp(x, axis=0) * np.random.default_rng(1).random((2000, case.num_inputs))
    y = case.function(x)
    return x, y + noise * y.std() * random.normal(size=len(y)), fresh, case.function(fresh)


def entry(method: str, x, y, fresh, truth, median: bool) -> tuple[float, str]:
    """The error, and how it is printed."""
    started = time.process_time()
    error = METHODS[method](x, y, fresh, *((truth,) if method == "smoother" else ())) - truth
    size = float(np.median(np.abs(error)) if median else np.sqrt(np.mean(error**2))) / (truth.std() or 1.0)
    return size, f"{size:.1e}, {time.process_time() - started:.1f} s"


def table(cases, names, methods: list[str], noise: float, median: bool) -> None:
    ratio = ["high / smoother"] if {"high", "smoother"} <= set(methods) else []
    print(f"\n| noise {noise:g} | {' | '.join(methods + ratio)} |\n|{'---|' * (1 + len(methods + ratio))}")
    for name in names:
        data = rows(cases[name], noise)
        entries = {method: entry(method, *data, median) for method in methods}
        printed = [text for _, text in entries.values()]
        printed += [f"{entries['high'][0] / entries['smoother'][0]:.2f}"] if ratio else []
        print(f"| {name} | {' | '.join(printed)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--methods", default="", help="all without noise, high and smoother with it, if not given")
    parser.add_argument("--noise", default="0,0.01")
    parser.add_argument("--median", action="store_true")
    parser.add_argument("--others", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    rivals = [name for name in METHODS if name != "smoother" and (name != "siren" or importlib.util.find_spec("torch"))]
    cases = OTHERS if options.others else CASES
    for noise in map(float, options.noise.split(",")):
        methods = options.methods.split(",") if options.methods else ["high", "smoother"] if noise else rivals
        table(cases, options.only.split(",") if options.only else cases, methods, noise, options.median)


if __name__ == "__main__":
    main()
