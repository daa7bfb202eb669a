"""A full-batch restoration step of ours against a plain one with a dense convolution; and the memory of large images.

    python -m benchmarks.bench_restoration

512 x 512, MGDL-3 grade 2, Adam: the paper's recipe. The plain iteration is the algorithm as printed, a proximal step
and a gradient step, each jitted and dispatched by itself. The limit is the time of the network's own matrix products at
the machine's rate, measured in the same run. Both read the features of a first grade that was trained on a free picture
by the paper's recipe, and ours has taken a few steps of the second: from then on, for nearly all of 20,000 steps, many
neurons are 0 at all pixels, and ours leaves them out of the gradient. To plain steps it makes no difference. The last
line has the very first steps, in which nearly all are awake, on features of which none is 0.
"""

import resource
import subprocess
import sys
import time
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.bench_imaging import dense_convolution
from benchmarks.bench_training import flops, matrix_rate
from multigrade import GradeProblem, Plan, minimise, pictures, restore, structures
from multigrade.model import Grade
from multigrade.pictures.graded.active_neurons import apply_active
from multigrade.pictures.graded.restoration import DIFFERENCES, RestorationTask, pixel_coordinates, soft_threshold
from multigrade.pictures.operators import GaussianBlur, Identity
from multigrade.restore import Options
from multigrade.training import Run

ROUNDS = 3
SIZE = 512
GRADE_1_STEPS, SETTLING_STEPS = 1000, 60
NETWORK = structures.with_init(structures.MGDL_3, weight_init="glorot", bias_std=0.01)[1]
CASES = [  # name, our operator, the plain one, what we aim for
    ("denoising", Identity(), lambda image: image, 1.3),
    ("deblurring, sigma 7", GaussianBlur(7.0), dense_convolution(7.0), 5.0),
]


@cache
def first_grade() -> Grade:
    """Trained by the paper's recipe on a small copy of a picture."""
    clean = pictures.load(":camera").pixels.reshape(128, 4, 128, 4).mean((1, 3))
    options = Options(recipe="paper", grades=1, steps=GRADE_1_STEPS)
    fit = restore.denoise(pictures.add_noise(clean, 10, seed=0), noise_sigma=10, options=options)
    return fit.model.grades[0]


def second_grade(operator) -> GradeProblem:
    """What grade 2 is trained on after it, for the whole picture."""
    clean = jnp.asarray(pictures.load(":camera").pixels, jnp.float32)
    observed = operator(clean) + 10 / 255 * jax.random.normal(jax.random.key(1), clean.shape)
    coordinates = jnp.asarray(pixel_coordinates(*clean.shape))
    task = RestorationTask(coordinates, observed[None], jnp.zeros((1, *clean.shape)), operator, 0.01, 1.0, 0.99)
    return task.after(first_grade(), None).problem(NETWORK, 1)


def wide_awake(operator, size: int = SIZE, network=NETWORK) -> GradeProblem:
    """A grade that reads random features, of which none is 0 at all pixels."""
    features = jax.random.uniform(jax.random.key(1), (size * size, network.widths[0]))
    observed = jax.random.uniform(jax.random.key(2), (1, size, size))
    return RestorationTask(features, observed, 0.5 * observed, operator, 0.01, 1.0, 0.99).problem(network, 1)


def steps_of(problem: GradeProblem, params, num_steps: int) -> Run:
    return minimise(problem, params, Plan(num_steps, "adam", learning_rate=5e-3, record_every=num_steps))


def ours(problem: GradeProblem, params, num_steps: int) -> float:
    few, more = (steps_of(problem, params, steps).record.seconds for steps in (1, 1 + num_steps))
    return (more - few) / num_steps  # both have the records at the start and at the end


def plain(problem: GradeProblem, operator, num_steps: int) -> float:
    data, network = problem.data, problem.objective.network
    params = network.init(jax.random.key(0))
    transformation = optax.adam(5e-3)
    # Of all features, those that are 0 everywhere included.
    features = jnp.zeros((len(data.features), network.widths[0])).at[:, data.active].set(data.features)

    def loss(params, u):
        h = features
        for weight, bias in params[:-1]:
            h = jax.nn.relu(h @ weight + bias)
        values = (h @ params[-1].weight + params[-1].bias).reshape(data.before.shape)
        image = data.before + data.scale * values
        misfit = 0.5 * jnp.sum((data.observed[0] - operator(image[0])) ** 2)
        return misfit + 0.5 * data.beta * jnp.sum((u - DIFFERENCES(image)) ** 2), image

    @jax.jit
    def proximal_step(params, u):
        moved = data.alpha * DIFFERENCES(loss(params, u)[1]) + (1 - data.alpha) * u
        return soft_threshold(moved, data.alpha * data.weight / data.beta)

    @jax.jit
    def gradient_step(params, state, u):
        updates, state = transformation.update(jax.grad(loss, has_aux=True)(params, u)[0], state)
        return optax.apply_updates(params, updates), state

    def iteration(params, state, u):
        u = proximal_step(params, u)
        return *gradient_step(params, state, u), u

    carry = (params, transformation.init(params), jnp.zeros_like(DIFFERENCES(data.before)))
    carry = jax.block_until_ready(iteration(*carry))
    started = time.perf_counter()
    for _ in range(num_steps):
        carry = iteration(*carry)
    jax.block_until_ready(carry)
    return (time.perf_counter() - started) / num_steps


def peak_memory(size: int) -> float:
    """GiB of a process that takes full-batch steps on a picture of this size."""
    return float(subprocess.check_output([sys.executable, "-m", "benchmarks.bench_restoration", str(size)], text=True))


def compare(name: str, problem: GradeProblem, dense, aim: str, settling_steps: int) -> None:
    params = steps_of(problem, NETWORK.init(jax.random.key(0)), settling_steps).params  # compiles, too
    awake = apply_active(NETWORK, problem.data.reading(params), problem.data.features)[1]
    counts = ", ".join(str(layer.sum()) for layer in awake)
    print(f"of 128, ours reads {len(problem.data.active)} features; awake in its layers are {counts} neurons")
    best = {"ours": np.inf, "plain": np.inf}
    for _ in range(ROUNDS):
        best["ours"] = min(best["ours"], ours(problem, params, 10))
        best["plain"] = min(best["plain"], plain(problem, dense, 3))
    ratio = best["plain"] / best["ours"]
    print(
        f"{name:40} ours {best['ours']:.3f} s, plain {best['plain']:.3f} s a step: {ratio:.1f} times; {aim}", flush=True
    )


def main() -> None:
    limit = flops(NETWORK, SIZE**2) / matrix_rate()
    print(f"limit: the matrix products of a step, all features awake, take {limit:.3f} s at the machine's rate")
    for name, operator, dense, aim in CASES:
        compare(name, second_grade(operator), dense, f"aim {aim}", SETTLING_STEPS)
    name, operator, dense, _ = CASES[1]
    compare(f"{name}, first steps", wide_awake(operator), dense, "no aim", 1)
    print(f"peak memory of full-batch steps at 1024 x 1024: {peak_memory(1024):.2f} GiB; aim: below 4")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        steps_of(wide_awake(Identity(), int(sys.argv[1])), NETWORK.init(jax.random.key(0)), 1)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
    else:
        main()
