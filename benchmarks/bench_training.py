"""Step times of the compiled loop against one dispatch per step (the paper's way) and against PyTorch.

Each line times all rivals in turn, several rounds, and takes the best of each. The limit is the machine's own float32
matrix-product rate, measured on 1024 x 1024 matrices in the same run.
"""

import importlib.util
import os
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from multigrade import GradeProblem, LeastSquares, Plan, Rows, minimise, structures
from multigrade.networks import Network

ROUNDS = 3
CASES = [  # name, network, points, optimiser, steps per round, what we aim for
    ("SGDL-1", structures.SGDL_1[0], 1024, "gd", 2000, 1.5),
    ("MGDL-1 grade 1", structures.MGDL_1[0], 1024, "gd", 10_000, 3.0),
    ("MGDL-1 grades 2-4", structures.MGDL_1[1], 1024, "gd", 4000, 1.5),
    ("SGDL-2", structures.SGDL_2[0], 16_384, "adam", 8, 1.0),
    ("MGDL-2 grade 2", structures.MGDL_2[1], 16_384, "adam", 24, 1.0),
]


def problem(network: Network, num_points: int):
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(num_points, network.widths[0])).astype(np.float32)
    return network.init(jax.random.key(0)), Rows(jnp.asarray(x), jnp.asarray(np.sin(9 * x[:, :1])))


def ours(network, num_points, optimiser, num_steps) -> float:
    """Seconds per step, from the run's own clock; compiled before."""
    params, rows = problem(network, num_points)
    plan = Plan(num_steps, optimiser, learning_rate=1e-3, record_every=num_steps)
    return minimise(GradeProblem(LeastSquares(network), rows), params, plan).record.seconds / num_steps


def plain(network, num_points, optimiser, num_steps) -> float:
    """The same step in plain JAX, jitted and dispatched one at a time."""
    params, rows = problem(network, num_points)
    transformation = optax.sgd(1e-3) if optimiser == "gd" else optax.adam(1e-3)

    def output(params, x):
        for weight, bias in params[:-1]:
            x = jax.nn.relu(x @ weight + bias)
        return x @ params[-1][0] + params[-1][1]

    @jax.jit
    def step(params, state):
        loss = lambda p: 0.5 * jnp.mean((rows.targets - output(p, rows.inputs)) ** 2)  # noqa: E731
        updates, state = transformation.update(jax.grad(loss)(params), state)
        return optax.apply_updates(params, updates), state

    params, state = jax.block_until_ready(step(params, transformation.init(params)))
    started = time.perf_counter()
    for _ in range(num_steps):
        params, state = step(params, state)
    jax.block_until_ready(params)
    return (time.perf_counter() - started) / num_steps


def torch_step(network, num_points, optimiser, num_steps) -> float:
    import torch

    _, rows = problem(network, num_points)
    x, y = torch.tensor(np.asarray(rows.inputs)), torch.tensor(np.asarray(rows.targets))
    pairs = zip(network.widths[:-1], network.widths[1:], strict=True)
    layers = [layer for a, b in pairs for layer in (torch.nn.Linear(a, b), torch.nn.ReLU())][:-1]
    model = torch.nn.Sequential(*layers)
    kind = torch.optim.SGD if optimiser == "gd" else torch.optim.Adam
    descent = kind(model.parameters(), lr=1e-3)
    for step in range(num_steps + 2):
        if step == 2:
            started = time.perf_counter()
        descent.zero_grad()
        (0.5 * torch.mean((model(x) - y) ** 2)).backward()
        descent.step()
    return (time.perf_counter() - started) / num_steps


def flops(network: Network, num_points: int) -> float:
    """Matrix products of a step: forward and weight gradient in all layers, input gradient in all but the first."""
    sizes = [a * b for a, b in zip(network.widths[:-1], network.widths[1:], strict=True)]
    return 2 * num_points * (2 * sum(sizes) + sum(sizes[1:]))


def matrix_rate() -> float:
    a = jnp.ones((1024, 1024), jnp.float32)
    product = jax.jit(lambda a: a @ a)
    product(a).block_until_ready()
    times = []
    for _ in range(20):
        started = time.perf_counter()
        product(a).block_until_ready()
        times.append(time.perf_counter() - started)
    return 2 * 1024**3 / min(times)


SWEEP = """
import sys, time
from multigrade import Plan, fit_grades, structures
from multigrade.synthetic import setting
data = setting(1)
rates = [float(rate) for rate in sys.argv[1:]]
def fit(rate, steps):
    fit_grades(structures.SGDL_1, data.x_train, data.y_train, Plan(steps, "gd", learning_rate=rate))
fit(rates[0], 100)
print("ready", flush=True)
sys.stdin.readline()
for rate in rates:
    fit(rate, 4000)
print("done", flush=True)
"""


def sweep_seconds(groups: list[list[float]], *, single_threaded: bool) -> float:
    """Wall time of the groups of rates, each in its own process, from the moment all are ready."""
    flags = (
        {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"} if single_threaded else {}
    )
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", SWEEP, *map(str, group)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **flags},
        )
        for group in groups
    ]  # fmt: skip
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    started = time.perf_counter()
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
    for worker in workers:
        assert worker.stdout.readline() == "done\n"
    return time.perf_counter() - started


def main() -> None:
    rate = matrix_rate()
    print(f"matrix products, float32, 1024 x 1024: {rate / 1e9:.0f} Gflop/s")
    rivals = {"plain": plain}
    if importlib.util.find_spec("torch"):
        rivals["torch"] = torch_step
    header = "".join(
        f"{name:>14}" for name in ("ours, us", *(f"{r}, us" for r in rivals), "plain/ours", "aim", "of limit")
    )
    print(f"{'':20}{header}")
    for name, network, num_points, optimiser, num_steps, aim in CASES:
        arguments = (network, num_points, optimiser, num_steps)
        ours(*arguments)  # compiles
        best = dict.fromkeys(("ours", *rivals), np.inf)
        for _ in range(ROUNDS):
            for rival, function in {"ours": ours, **rivals}.items():
                best[rival] = min(best[rival], function(*arguments))
        share = flops(network, num_points) / best["ours"] / rate
        times = "".join(f"{1e6 * best[rival]:14.1f}" for rival in best)
        print(f"{name:20}{times}{best['plain'] / best['ours']:14.2f}{aim:14.1f}{share:14.0%}", flush=True)

    rates = list(np.round(np.geomspace(0.001, 0.08, 16), 5))
    alone = min(sweep_seconds([[r]], single_threaded=False) for r in rates[:3])
    together = sweep_seconds([rates[0::2], rates[1::2]], single_threaded=True)
    print(f"sweep of 16 rates, SGDL-1, two single-threaded workers: {together / 16:.2f} s a run, "
          f"{together / 16 / alone:.0%} of one run alone ({alone:.2f} s); aim: at most 60%")  # fmt: skip


if __name__ == "__main__":
    main()
