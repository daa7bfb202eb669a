"""A fit over two devices, of one process or of two: ``python -m tests.several_processes file [port process]``."""

import os
import sys

import jax
import numpy as np

from multigrade import Batches, Checkpointing, Plan, fit_grades, structures


class Die:
    """Ends the second process after some steps of grade 2, once."""

    name, every = "die", 20

    def observe(self, snapshot, carry):
        if jax.process_index() == 1 and snapshot.grade == 1 and snapshot.step == 20 and "DIE" in os.environ:
            os._exit(3)


def main() -> None:
    path, *place = sys.argv[1:]
    if place:
        # JAX then leaves it to the program what to do about a lost process, also at the end of a run.
        jax.config.update("jax_enable_recoverability", "DIE" in os.environ)
        jax.distributed.initialize(f"127.0.0.1:{place[0]}", 2, int(place[1]), heartbeat_timeout_seconds=20)
    random = np.random.default_rng(0)
    x = random.normal(size=(120, 3)).astype(np.float32)
    y = np.sin(2 * x[:, :1]) + x[:, 1:2]
    structure = structures.graded(3, [(8,), (8,)], 1)
    plan = Plan(40, learning_rate=0.02, batch_size=32, record_every=20, observers=[Die()])
    place = Checkpointing(path + ".checkpoint", every=0.0)
    fit = fit_grades(structure, Batches((x, y)), None, plan, devices=2, checkpoint=place)
    losses = np.concatenate([record.train_loss for record in fit.records])
    if jax.process_index() == 0:
        fit.model.save(path)
        np.save(path + ".npy", losses)
    print("done", jax.process_count(), jax.device_count())


if __name__ == "__main__":
    main()
