"""A full-batch restoration step of ours against a plain one with a dense convolution; and the memory of large images.

    python -m benchmarks.bench_restoration

512 x 512, MGDL-3 grade 2, Adam: the paper's recipe. The plain iteration is the algorithm as printed, a proximal step
and a gradient step, each jitted and dispatched by itself. The limit is the time of the network's own matrix products at
the machine's rate, measured in the same run.
"""

import resource
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.bench_imaging import dense_convolution
from benchmarks.bench_training import flops, matrix_rate
from multigrade import minimise, structures
from multigrade.imaging.operators import GaussianBlur, Identity
from multigrade.imaging.restoration import DIFFERENCES, ImageData, Restoration, soft_threshold

SIZE = 512
NETWORK = structures.MGDL_3[1]
CASES = [  # name, our operator, the plain one, what we aim for
    ("denoising", Identity(), lambda image: image, 1.3),
    ("deblurring, sigma 7", GaussianBlur(7.0), dense_convolution(7.0), 5.0),
]


def data(operator, size: int = SIZE, num_features: int = 128) -> ImageData:
    generator = np.random.default_rng(0)
    observed = jnp.asarray(generator.uniform(size=(1, size, size)), jnp.float32)
    features = jnp.asarray(generator.uniform(size=(size * size, num_features)), jnp.float32)
    numbers = (jnp.float32(v) for v in (0.1, 0.01, 1.0, 0.99))
    return ImageData(features, observed, 0.5 * observed, operator, *numbers)


def ours(operator, num_steps: int) -> float:
    params = NETWORK.init(jax.random.key(0))
    options = {"optimiser": "adam", "learning_rate": 1e-3, "record_every": num_steps}
    run = minimise(Restoration(NETWORK), params, data(operator), num_steps=num_steps, **options)
    return run.record.seconds / (num_steps + 1)  # two records beside the steps cost a forward pass each


def plain(operator, num_steps: int, network=NETWORK, size: int = SIZE) -> float:
    problem, params = data(None, size, network.widths[0]), network.init(jax.random.key(0))
    transformation = optax.adam(1e-3)

    def loss(params, u):
        h = problem.features
        for weight, bias in params[:-1]:
            h = jax.nn.relu(h @ weight + bias)
        values = (h @ params[-1].weight + params[-1].bias).reshape(problem.before.shape)
        image = problem.before + problem.scale * values
        misfit = 0.5 * jnp.sum((problem.observed[0] - operator(image[0])) ** 2)
        return misfit + 0.5 * problem.beta * jnp.sum((u - DIFFERENCES(image)) ** 2), image

    @jax.jit
    def proximal_step(params, u):
        moved = problem.alpha * DIFFERENCES(loss(params, u)[1]) + (1 - problem.alpha) * u
        return soft_threshold(moved, problem.alpha * problem.weight / problem.beta)

    @jax.jit
    def gradient_step(params, state, u):
        updates, state = transformation.update(jax.grad(loss, has_aux=True)(params, u)[0], state)
        return optax.apply_updates(params, updates), state

    def iteration(params, state, u):
        u = proximal_step(params, u)
        return *gradient_step(params, state, u), u

    carry = (params, transformation.init(params), jnp.zeros_like(DIFFERENCES(problem.before)))
    carry = jax.block_until_ready(iteration(*carry))
    started = time.perf_counter()
    for _ in range(num_steps):
        carry = iteration(*carry)
    jax.block_until_ready(carry)
    return (time.perf_counter() - started) / num_steps


def peak_memory(size: int) -> float:
    """GiB of a process that takes full-batch steps on a picture of this size."""
    return float(subprocess.check_output([sys.executable, "-m", "benchmarks.bench_restoration", str(size)], text=True))


def main() -> None:
    limit = flops(NETWORK, SIZE**2) / matrix_rate()
    print(f"limit: the matrix products of a step take {limit:.3f} s at the machine's rate")
    for name, operator, dense, aim in CASES:
        ours(operator, 4)  # compiles
        best = {"ours": np.inf, "plain": np.inf}
        for _ in range(2):
            best["ours"] = min(best["ours"], ours(operator, 4))
            best["plain"] = min(best["plain"], plain(dense, 3))
        ratio = best["plain"] / best["ours"]
        print(
            f"{name:22} ours {best['ours']:.3f} s, plain {best['plain']:.3f} s a step: {ratio:.1f} times; aim {aim}",
            flush=True,
        )
    print(f"peak memory of full-batch steps at 1024 x 1024: {peak_memory(1024):.2f} GiB; aim: below 4")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        problem = data(Identity(), int(sys.argv[1]))
        minimise(Restoration(NETWORK), NETWORK.init(jax.random.key(0)), problem, num_steps=1, record_every=1)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
    else:
        main()
