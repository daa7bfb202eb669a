"""How much memory a fit over features that do not fit into it takes.

    python -m benchmarks.streamed_features 10

Grade 1 makes features of so many GB, which go to a file; grade 2 reads them, a batch at a time. Prints the size, the
largest resident memory of the process, and seconds of the processor.
"""

import argparse
import logging
import resource
import time

import jax
import jax.numpy as jnp
import numpy as np

from multigrade import Batches, Plan, fit_grades
from multigrade.networks import adapters

NUM_ROWS, BATCH = 50_000, 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gigabytes", type=float)
    parser.add_argument("--folder", help="where the file is made")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    width = round(given.gigabytes * 2**30 / 4 / NUM_ROWS)
    x = np.random.default_rng(0).normal(size=(NUM_ROWS, 8)).astype(np.float32)
    y = np.sin(x[:, :1])
    wide = adapters.functions(
        lambda key: (jax.random.normal(key, (8, width)), jnp.zeros((width, 1))),
        lambda weight, x: jax.nn.relu(x @ weight), lambda weight, h: h @ weight,
    )  # fmt: skip
    narrow = adapters.functions(
        lambda key: (jnp.zeros((width, 16)), jax.random.normal(key, (16, 1)) / 4),
        lambda weight, x: x @ weight, lambda weight, h: h @ weight,
    )  # fmt: skip
    plan = Plan((5, 40), learning_rate=1e-5, batch_size=BATCH, record_every=40)
    started = time.process_time()
    fit = fit_grades((wide, narrow), Batches((x, y), keep="file", folder=given.folder), None, plan)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    losses = [float(record.train_loss[-1]) for record in fit.records]
    print(f"features of {4 * width * NUM_ROWS / 2**30:.1f} GB; at most {peak / 2**30:.2f} GB of memory; "
          f"{time.process_time() - started:.0f} s of the processor; losses {losses}")  # fmt: skip


if __name__ == "__main__":
    main()
