"""Extreme eigenvalues against a dense Hessian, and against the supplement's assembly, on one network in one run.

    python -m benchmarks.bench_curvature
    python -m benchmarks.bench_curvature --streamed     only a million parameters over batches

SGDL-1 (3265 parameters, 1024 points) after 20,000 epochs of setting 1. The per-sample Kronecker assembly is timed on a
few samples and scaled to 1024; it is checked against ``relu_hessian`` on those samples.
"""

import sys
import time
from itertools import pairwise

import jax
import numpy as np
import optax
from jax.tree_util import Partial

from multigrade import structures
from multigrade.curvature import (
    ExponentObserver,
    HessianOperator,
    SpectrumObserver,
    dense_hessian,
    extreme_eigenvalues,
    largest_eigenvalue,
    map_spectrum,
)
from multigrade.networks import Network
from multigrade.synthetic import setting
from multigrade.training import Plan, fit_grades
from multigrade.training.objectives import LeastSquares, Rows
from multigrade_paper.relu_hessian import relu_hessian

EPOCHS = 20_000
CADENCE = 10_000  # epochs between spectra in the paper
NUM_KRONECKER_SAMPLES = 4


def seconds(function, repeats: int = 1) -> tuple[float, object]:
    """The fastest of ``repeats`` calls, and what the last one returned."""
    times, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def loss(objective, rows, params):
    return objective(params, (), rows)[0]


def kronecker_hessian(layers, x, y) -> np.ndarray:
    """The supplement's sum over samples of blocks built from Kronecker products; scalar output, the paper's order."""
    sizes = [size for weight, bias in layers for size in (weight.size, bias.size)]
    edges = np.cumsum([0, *sizes])
    hessian = np.zeros((edges[-1], edges[-1]))

    def block(first, second):
        return hessian[edges[first] : edges[first + 1], edges[second] : edges[second + 1]]

    for sample, target in zip(x, y, strict=True):
        features, masks, error = [sample[:, None]], [], None
        for weight, bias in layers[:-1]:
            before = weight.T @ features[-1] + bias[:, None]
            masks.append(np.diag((before[:, 0] > 0).astype(float)))
            features.append(np.maximum(before, 0))
        error = (layers[-1][0].T @ features[-1])[0, 0] + layers[-1][1][0] - target[0]
        signals = [np.ones((1, 1))]  # z_D = 1, z_j = I_j W_{j+1} z_{j+1}
        for mask, (weight, _) in zip(masks[::-1], layers[:0:-1], strict=True):
            signals.insert(0, mask @ weight @ signals[0])
        slopes = [part for a, z in zip(features, signals, strict=True) for part in (np.kron(z, a), z)]
        for i, first in enumerate(slopes):
            for k in range(i, len(slopes)):
                block(i, k)[:] += first @ slopes[k].T
        for j in range(len(masks)):
            chain = masks[j]
            for k in range(j + 1, len(layers)):
                second = np.kron(signals[k].T, chain)
                block(2 * j, 2 * k)[:] += np.kron(second, features[j]) * error
                block(2 * j + 1, 2 * k)[:] += second * error
                if k < len(masks):
                    chain = chain @ layers[k][0] @ masks[k]
    upper = np.triu(hessian) / len(x)
    return upper + np.triu(upper, 1).T


def paper_order(widths) -> np.ndarray:
    """Positions in our parameter vector of the paper's, which stacks weights column by column."""
    order, start = [], 0
    for inputs, outputs in pairwise(widths):
        order.append(start + np.arange(inputs * outputs).reshape(inputs, outputs).T.ravel())
        order.append(start + inputs * outputs + np.arange(outputs))
        start += (inputs + 1) * outputs
    return np.concatenate(order)


def main() -> None:
    data, network = setting(1), structures.SGDL_1[0]
    x, y = data.x_train, data.y_train
    fit_grades(structures.SGDL_1, x, y, Plan(100, "gd", learning_rate=0.08))  # compiles
    training, fit = seconds(lambda: fit_grades(structures.SGDL_1, x, y, Plan(EPOCHS, "gd", learning_rate=0.08)))
    params = fit.model.grades[0].params
    objective = Partial(loss, LeastSquares(network), Rows(jax.numpy.asarray(x), jax.numpy.asarray(y)))

    extreme_eigenvalues(objective, params)  # compiles
    lanczos, found = seconds(lambda: extreme_eigenvalues(objective, params), repeats=5)
    dense_hessian(objective, params)
    automatic, hessian = seconds(lambda: dense_hessian(objective, params))
    eigh, exact = seconds(lambda: np.linalg.eigh(hessian)[0])
    closed, _ = seconds(lambda: relu_hessian(network, params, x, y))
    error = max(abs(found.smallest - exact[:10]).max(), abs(found.largest - exact[::-1][:10]).max()) / found.norm

    few = np.linspace(0, len(x) - 1, NUM_KRONECKER_SAMPLES).astype(int)
    layers = [tuple(np.asarray(a, np.float64) for a in layer) for layer in params]
    x64, y64 = x.astype(np.float64), y.astype(np.float64)
    kronecker, assembled = seconds(lambda: kronecker_hessian(layers, x64[few], y64[few]))
    order = paper_order(network.widths)
    np.testing.assert_allclose(
        assembled, relu_hessian(network, params, x[few], y[few]).hessian[np.ix_(order, order)], atol=1e-10
    )
    scaled = kronecker * len(x) / len(few)

    print(f"SGDL-1 after {EPOCHS} epochs of setting 1: {len(exact)} parameters, {len(x)} points, float64")
    print(
        f"  20 extreme eigenvalues            {lanczos:9.2f} s   {found.num_products} products, error {error:.0e} ||H||"
    )
    print(f"  dense Hessian (autodiff) + eigh   {automatic + eigh:9.2f} s   {(automatic + eigh) / lanczos:6.0f} times")
    print(f"  closed-form Hessian + eigh        {closed + eigh:9.2f} s   {(closed + eigh) / lanczos:6.0f} times")
    print(
        f"  per-sample Kronecker + eigh       {scaled + eigh:9.2f} s   {(scaled + eigh) / lanczos:6.0f} times", end=""
    )
    print(f" ({len(few)} samples measured, scaled to {len(x)})")
    print(
        f"  dense matrix alone: closed form {closed:.2f} s, autodiff {automatic:.2f} s, {automatic / closed:.1f} times"
    )
    share = lanczos / (training * CADENCE / EPOCHS)
    print(
        f"  a spectrum every {CADENCE} epochs adds {100 * share:.1f} % to a run ({training:.1f} s for {EPOCHS} epochs)"
    )
    of_optimisers()
    large_network()


class Looks:
    """A ``SpectrumObserver`` that keeps what it was shown, and the seconds of the processor that each look took."""

    name, every = "looks", CADENCE

    def __init__(self):
        self.observer, self.seen, self.took = SpectrumObserver(every=CADENCE), [], []

    def observe(self, snapshot, carry):
        start = time.process_time()
        found = self.observer.observe(snapshot, carry)
        self.took.append(time.process_time() - start)
        self.seen.append(snapshot)
        return found


def of_optimisers() -> None:
    """What looks at Adam's own map add to a run, ten leading eigenvalues of it, and what Lyapunov exponents cost.

    By the processor's time, which other processes disturb less than the clock.
    """
    data, steps = setting(1), 4 * CADENCE

    def fit(steps, *observers, rate=0.001):
        start = time.process_time()
        plan = Plan(steps, "adam", rate, record_every=1000, observers=observers)
        fit_grades(structures.SGDL_1, data.x_train, data.y_train, plan)
        return time.process_time() - start

    def ten_leading(snapshot):
        start = time.process_time()
        arguments = snapshot.loss, snapshot.params, snapshot.optimiser, snapshot.optimiser_state
        found = map_spectrum(*arguments, learning_rate=snapshot.learning_rate)
        return time.process_time() - start, found.num_products, np.count_nonzero(~np.isnan(found.values))

    first = Looks()
    fit(100, first)  # compiles
    ten_leading(first.seen[0])
    print(f"SGDL-1 by Adam, {steps} steps, at every {CADENCE}th a look of SpectrumObserver and ten leading eigenvalues")
    for rate in (0.001, 0.003, 0.01):
        looks = Looks()
        plain, took = fit(steps, looks, rate=rate) - sum(looks.took), looks.took[1:]
        leading = [ten_leading(snapshot) for snapshot in looks.seen[1:]]
        shown = ", ".join(f"{each:.2f}" for each in took)
        print(f"  rate {rate:g}: looks of {shown} s add {100 * sum(took) / plain:.0f} % to {plain:.1f} s;", end=" ")
        print(", ".join(f"{number} converged in {num} products and {each:.2f} s" for each, num, number in leading))
    times = [(fit(1000), fit(1000, ExponentObserver(every=1000))) for _ in range(4)][1:]  # the first compiles
    plain, exponents = np.min(times, axis=0)
    print(f"  Lyapunov exponents of 4 vectors: {exponents / plain:.1f} times a plain step")


def large_network() -> None:
    network = Network((2, 700, 700, 700, 1), bias_std=0.1)
    random, params = np.random.default_rng(0), network.init(jax.random.key(0))
    rows = Rows(random.uniform(size=(64, 2)), random.normal(size=(64, 1)))
    objective = Partial(loss, LeastSquares(network), rows)
    took, found = seconds(lambda: extreme_eigenvalues(objective, params, 3))
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    print(
        f"{size} parameters, 64 points: 6 extreme eigenvalues in {took:.1f} s, compilation included; {found.sentence}"
    )


def streamed() -> None:
    """A million parameters, convolutions and attention, 64 rows that come in four batches; seconds of the processor."""
    random, labels = np.random.default_rng(0), np.random.default_rng(1).integers(0, 10, 64)
    cases = {
        "convolutions": (structures.convolutional(1, [(64, 128, 256, 256)], 10)[0], (64, 8, 8, 1)),
        "transformer": (structures.transformer(1, 128, 1, 10, blocks=5)[0], (64, 16, 1)),
    }
    for name, (network, shape) in cases.items():
        x = random.normal(size=shape).astype(np.float32)
        params = network.init(jax.random.key(0))
        batches = [(x[i : i + 16], labels[i : i + 16]) for i in range(0, 64, 16)]

        def loss(params, batch, network=network):
            return optax.softmax_cross_entropy_with_integer_labels(network(params, batch[0]), batch[1]).mean()

        start = time.process_time()
        hessian = HessianOperator(loss, params, batches)
        found = largest_eigenvalue(hessian, tolerance=1e-3)
        print(
            f"{name}: {hessian.size} parameters; largest eigenvalue {found.largest[0]:.4g}, {found.sentence}", end="; "
        )
        print(f"{time.process_time() - start:.0f} s, compilation included", flush=True)


if __name__ == "__main__":
    streamed() if sys.argv[1:] == ["--streamed"] else main()
