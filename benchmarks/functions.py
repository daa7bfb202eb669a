"""Functions of one and two variables: relative errors on fresh points and seconds of a core, with and without noise.

    python -m benchmarks.functions                          # all functions and methods: about ten minutes
    python -m benchmarks.functions --only kink,jump --methods high,ridge
    python -m benchmarks.functions --methods siren          # where torch is installed

Methods, all without a setting by hand: ``high`` is MultiGradeRegressor(precision="high"); ``wide`` one grade with as
many sines, of normal frequencies whose scale leave-one-out chooses among 12, and the same solver; ``sgdl`` is
SingleGradeRegressor() with its defaults; ``mlp`` scikit-learn's MLPRegressor of three layers of 64 for 1,000 epochs;
``ridge`` kernel ridge with a Gaussian kernel, width and ridge by leave-one-out on at most 1,500 rows; ``siren`` a sine
network of Sitzmann et al. (2020; three layers of 128, omega_0 = 30), 1,000 steps of Adam on all rows.
``oracle`` is the best linear smoother: Gaussian kernels and splines whose width and ridge the *true* error chooses. No
method can know it; it says what noise allows. Errors are root mean squares divided by the function's deviation; the
error of a function with a jump is nearly all in the one gap between two points that the jump lies in, so the median is
given as well.
"""

import argparse
import importlib.util
import itertools
import time
import warnings
from typing import NamedTuple

import numpy as np

from multigrade import MultiGradeRegressor, SingleGradeRegressor, solve_least_squares, synthetic

FREQUENCIES = np.arange(10, 201, 10)


class Case(NamedTuple):
    num_rows: int
    num_inputs: int
    function: object
    is_grid: bool = False


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


def high(x, y, fresh):
    return MultiGradeRegressor(precision="high", random_state=0).fit(x, y).predict(fresh)


def wide(x, y, fresh):
    sines = MultiGradeRegressor(precision="high", random_state=0).fit(x, y)
    num_sines = sines.model_.grades[-1].network.num_features  # pyright: ignore
    draws = np.random.default_rng(0).normal(size=(num_sines, x.shape[1]))
    phases = np.random.default_rng(1).uniform(0, 2 * np.pi, num_sines)
    fits = []
    for scale in 2.0 ** np.arange(12):
        fits.append((solve_least_squares(np.sin(x @ (scale * draws).T + phases), y), scale))
    fit, scale = min(fits, key=lambda pair: pair[0].leave_one_out)
    return fit(np.sin(fresh @ (scale * draws).T + phases))[:, 0]


def sgdl(x, y, fresh):
    return SingleGradeRegressor(random_state=0).fit(x, y).predict(fresh)


def mlp(x, y, fresh):
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=(64, 64, 64), max_iter=1000, tol=0.0, random_state=0)
    )
    return model.fit(x, y).predict(fresh)


def ridge(x, y, fresh, truth=None):
    """Gaussian kernel ridge by leave-one-out; by the error at ``fresh`` where the truth is given."""
    rows = np.random.default_rng(0).permutation(len(x))[:1500]
    x, mean, y = x[rows], y[rows].mean(), y[rows] - y[rows].mean()
    best, prediction = np.inf, fresh[:, 0]
    for length in np.geomspace(0.003, 1, 14):
        kernel, across = (np.exp(-((z[:, None] - x[None]) ** 2).sum(-1) / (2 * length**2)) for z in (x, fresh))
        values, vectors = np.linalg.eigh(kernel)
        across, rotated = across @ vectors, vectors.T @ y
        for strength in np.geomspace(1e-12, 1, 25):
            shrink = 1 / (values.clip(0) + strength)
            candidate = across @ (shrink * rotated) + mean
            if truth is None:
                error = np.mean(((vectors @ (shrink * rotated)) / (vectors**2 @ shrink)) ** 2)
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


def oracle(x, y, fresh, truth):
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
    for _ in range(1000):
        optimiser.zero_grad()
        torch.mean((network(scaled(x)) - target) ** 2).backward()
        optimiser.step()
    with torch.no_grad():
        return network(scaled(fresh)).numpy().astype(float) * deviation + mean


METHODS = {"high": high, "wide": wide, "sgdl": sgdl, "mlp": mlp, "ridge": ridge, "siren": siren, "oracle": oracle}


def rows(case: Case, noise: float):
    random = np.random.default_rng(0)
    x = np.linspace(0, 1, case.num_rows)[:, None] if case.is_grid else random.random((case.num_rows, case.num_inputs))
    fresh = x.min(axis=0) + np.ptp(x, axis=0) * np.random.default_rng(1).random((2000, case.num_inputs))
    y = case.function(x)
    return x, y + noise * y.std() * random.normal(size=len(y)), fresh, case.function(fresh)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CASES))
    usual = [name for name in METHODS if name != "siren" or importlib.util.find_spec("torch")]
    parser.add_argument("--methods", default=",".join(usual))
    parser.add_argument("--noise", default="0,0.01")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("| function | noise | method | error | median | seconds of a core |\n|---|---|---|---|---|---|")
    for name in options.only.split(","):
        for noise in map(float, options.noise.split(",")):
            x, y, fresh, truth = rows(CASES[name], noise)
            for method in options.methods.split(","):
                if method == "oracle" and not noise:
                    continue
                started = time.process_time()
                extra = (truth,) if method == "oracle" else ()
                error = METHODS[method](x, y, fresh, *extra) - truth
                seconds = time.process_time() - started
                root, median = (v / truth.std() for v in (np.sqrt(np.mean(error**2)), np.median(np.abs(error))))
                print(f"| {name} | {noise:g} | {method} | {root:.1e} | {median:.1e} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
