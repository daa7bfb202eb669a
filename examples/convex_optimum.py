"""Gradient descent from 20 seeds at growing width, against the certified optimum of the same grade.

    python examples/convex_optimum.py [figure.png]

One grade, a two-layer ReLU network with bias and weight decay, is fitted to 64 points of the paper's setting 1. Its
convex program has 128 activation patterns, so its optimum over networks of *every* width is known, with a proof.
Gradient descent starts at small random weights and takes 20,000 steps.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from multigrade import convex
from multigrade.networks import Layer
from multigrade.synthetic import setting

REGULARISATION = 0.02
WIDTHS = (2, 4, 8, 16, 32, 64, 128)
NUM_SEEDS, NUM_STEPS, LEARNING_RATE = 20, 20_000, 2e-3
BLUE, ORANGE, GREY = "#2166ac", "#d6604d", "#888888"


def descend(x, y, width: int) -> tuple[Layer, Layer]:
    """Parameters after gradient descent on the grade's own objective, for all seeds at once (leading axis)."""

    def loss(params):
        hidden, outer = params
        error = jnp.maximum(x @ hidden.weight + hidden.bias, 0) @ outer.weight - y
        decay = sum(jnp.sum(part**2) for part in (hidden.weight, hidden.bias, outer.weight))
        return 0.5 * jnp.sum(error**2) + 0.5 * REGULARISATION * decay

    def run(key):
        keys = jax.random.split(key, 3)
        shapes = ((x.shape[1], width), (width,), (width, y.shape[1]))
        weight, bias, outer = (0.5 * jax.random.normal(k, shape) for k, shape in zip(keys, shapes, strict=True))
        start = (Layer(weight, bias), Layer(outer / width**0.5, jnp.zeros(y.shape[1])))

        def step(_, params):
            slope = jax.grad(loss)(params)
            return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, slope)

        return jax.lax.fori_loop(0, NUM_STEPS, step, start)

    return jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(width), NUM_SEEDS))


def main(path: str = "convex_optimum.png") -> None:
    data = setting(1)
    x, y = np.asarray(data.x_train[::16], float), np.asarray(data.y_train[::16], float)
    solution = convex.solve_newton(convex.convex_program(x, y, regularisation=REGULARISATION))
    network, params = convex.to_network(solution)
    optimum = solution.certificate.objective
    print(f"convex optimum, {network.widths[1]} neurons: {solution.certificate}")

    objectives, runs = [], {}
    for width in WIDTHS:
        runs[width] = jax.tree.map(lambda a: np.asarray(a, float), descend(jnp.asarray(x), jnp.asarray(y), width))
        seeds = [jax.tree.map(lambda a, k=k: a[k], runs[width]) for k in range(NUM_SEEDS)]
        objectives.append([convex.network_objective(s, x, y, regularisation=REGULARISATION) for s in seeds])
        found = np.array(objectives[-1]) / optimum
        print(f"width {width:4d}: objective / optimum {found.min():.4f} best, {np.median(found):.4f} median")
    draw(path, x, y, np.asarray(data.x_test, float), params, runs, np.array(objectives) / optimum)
    print(f"wrote {Path(path).name}")


def draw(path, x, y, grid, params, runs, ratios) -> None:
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    middle = WIDTHS[len(WIDTHS) // 2]
    for k in range(NUM_SEEDS):
        seed = jax.tree.map(lambda a, k=k: a[k], runs[middle])
        label = f"gradient descent, width {middle}, {NUM_SEEDS} seeds" if k == 0 else None
        left.plot(grid, predict(seed, grid), color=GREY, alpha=0.35, linewidth=0.8, label=label)
    left.plot(grid, predict(params, grid), color=ORANGE, linewidth=2, label="convex optimum")
    left.plot(x, y, ".", color="black", markersize=4, label="data")
    left.set(xlabel="x", ylabel="y", title="One grade on 64 points of setting 1")
    left.legend(frameon=False, fontsize=8, loc="upper right")
    spread = np.random.default_rng(0).uniform(-0.08, 0.08, ratios.shape)
    right.plot(np.array(WIDTHS)[:, None] * 2**spread, ratios, ".", color=BLUE, alpha=0.5, markersize=5)
    right.plot(WIDTHS, np.median(ratios, axis=1), color=BLUE, label="gradient descent: seeds and their median")
    right.axhline(1, color=ORANGE, linewidth=2, label="convex optimum: no network of any width is below")
    right.set_xscale("log", base=2)
    right.set_xticks(WIDTHS, [str(width) for width in WIDTHS])
    right.set(
        xlabel="width (neurons)",
        ylabel="objective / optimum",
        title=f"{NUM_STEPS:,} steps from {NUM_SEEDS} seeds at each width",
    )
    right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def predict(params, grid):
    hidden, outer = params
    return np.maximum(grid @ hidden.weight + hidden.bias, 0) @ outer.weight


if __name__ == "__main__":
    main(*sys.argv[1:])
