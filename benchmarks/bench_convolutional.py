"""Steps of convolutional grades: through the loop, by hand with optax, and end to end. Seconds of the processor.

Two blocks of two 3 x 3 convolutions with 16 and 32 channels on pictures of 28 x 28, batches of 128, Adam. All take
turns, and the least of several rounds counts.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from multigrade import GradeProblem, Plan, RandomRows, Rows, minimise, structures
from multigrade.networks import EndToEnd, Variables
from multigrade.training.objectives import LossInTraining, Multinomial

ROUNDS, STEPS, BATCH, NUM_ROWS = 6, 12, 128, 1024


def ours(network, rows: Rows):
    """A run of the loop; its records, of a few rows, are part of it."""
    params, objective = network.init(jax.random.key(0)), LossInTraining(network, loss=Multinomial())
    few = jax.tree.map(lambda leaf: leaf[:1], rows)
    auxiliary = params.state, jax.random.key_data(jax.random.key(1))
    problem = GradeProblem(
        objective, rows, auxiliary=auxiliary, sampler=RandomRows(BATCH), recorded=few, is_stepwise=True
    )
    plan = Plan(STEPS, learning_rate=1e-3, record_every=STEPS)
    return lambda: minimise(problem, params.trained, plan).params


def by_hand(network, rows: Rows):
    """The same step as a user of optax writes it."""
    start, adam = network.init(jax.random.key(0)), optax.adam(1e-3)

    @jax.jit
    def step(key, trained, state, optimiser):
        key, batch_key, own = jax.random.split(key, 3)
        chosen = jax.random.randint(batch_key, (BATCH,), 0, NUM_ROWS)

        def loss(trained):
            scores, after = network.train(Variables(trained, state), rows.inputs[chosen], own)
            return jnp.mean(optax.softmax_cross_entropy(scores, rows.targets[chosen])), after

        (_, after), gradient = jax.value_and_grad(loss, has_aux=True)(trained)
        updates, optimiser = adam.update(gradient, optimiser, trained)
        return key, optax.apply_updates(trained, updates), after, optimiser

    def run():
        moving = jax.random.key(0), start.trained, start.state, adam.init(start.trained)
        for _ in range(STEPS):
            moving = step(*moving)
        return moving[1]

    return run


def main() -> None:
    random = np.random.default_rng(0)
    first, second = structures.convolutional(1, [(16, 16), (32, 32)], 10)
    targets = jax.nn.one_hot(jnp.asarray(random.integers(0, 10, NUM_ROWS)), 10)
    pictures = Rows(jnp.asarray(random.uniform(size=(NUM_ROWS, 28, 28, 1)), jnp.float32), targets)
    features = pictures._replace(inputs=first.hidden(first.init(jax.random.key(0)), pictures.inputs))
    cases = {
        "grade 1, ours": ours(first, pictures), "grade 1, by hand": by_hand(first, pictures),
        "grade 2, ours": ours(second, features), "end to end, by hand": by_hand(EndToEnd((first, second)), pictures),
    }  # fmt: skip
    best = dict.fromkeys(cases, np.inf)
    for number in range(ROUNDS + 1):  # the first one compiles
        for name, run in cases.items():
            started = time.process_time()
            jax.block_until_ready(run())
            best[name] = min(best[name], (time.process_time() - started) / STEPS) if number else np.inf
    for name, seconds in best.items():
        print(f"{name:24}{1e3 * seconds:8.1f} ms a step")
    print(f"grade 1, ours / by hand: {best['grade 1, ours'] / best['grade 1, by hand']:.2f}; aim: at most 1.1")
    print(f"grade 2 / end to end: {best['grade 2, ours'] / best['end to end, by hand']:.2f}; aim: below 1")


if __name__ == "__main__":
    main()
