"""When it pays to solve output layers, and to free last layers once all grades are there.

    python -m benchmarks.output_layers
    python -m benchmarks.output_layers --settings 1 --seeds 1
    python -m benchmarks.output_layers --why                    # what one step after a projection does

Two functions with frequencies of the paper's settings, 512 points, three grades of two layers of 64 ReLU neurons, Adam
at 3e-3, 1,500 steps a grade, three seeds. ``plain`` is grade by grade as in the paper; ``solved`` ends every grade with
a solved output layer; ``projected`` also solves it before every 10th step; ``corrected`` solves all output layers
together after ``plain``; ``unfrozen`` trains the last two layers of all grades for 1,500 further steps at 3e-4 after
``plain``. Entries are relative root mean square errors at fresh points, and seconds of a core.
"""

import argparse
import dataclasses
import itertools
import time

import jax
import numpy as np

from multigrade import Plan, fit_grades, structures, synthetic
from multigrade.training import Regression, correct_outputs, unfreeze

STRUCTURE = structures.graded(1, [(64, 64)] * 3, 1)
STEPS = 1500


def data(setting: int, noise: float):
    x, fresh = np.linspace(0, 1, 512)[:, None], np.random.default_rng(1).random((2000, 1))
    y, truth = synthetic.target(setting, x[:, 0])[:, None], synthetic.target(setting, fresh[:, 0])[:, None]
    return x, y + noise * y.std() * np.random.default_rng(0).normal(size=y.shape), fresh, truth


def fits(x, y, seed: int):
    """(name, model, seconds of a core) of every way."""
    started = time.process_time()

    def seconds():
        nonlocal started
        before, started = started, time.process_time()
        return started - before

    plan = Plan(STEPS, learning_rate=3e-3, seed=seed, record_every=500)
    plain = fit_grades(STRUCTURE, x, y, plan, regression=Regression(residual_scaling=True))
    alone = seconds()
    yield "plain", plain.model, alone
    for name, every in (("solved", None), ("projected", 10)):
        regression = Regression(residual_scaling=True, solved_output=True, solved_every=every)
        yield name, fit_grades(STRUCTURE, x, y, plan, regression=regression).model, seconds()
    yield "corrected", correct_outputs(plain.model, x, y), alone + seconds()
    second = Plan(STEPS, learning_rate=3e-4, seed=seed, record_every=500)
    yield "unfrozen", unfreeze(plain, x, y, second).model, alone + seconds()


def step_after_projection(num_seeds: int) -> None:
    """The loss around the second projection, before step 10, and the largest output weight then; one grade."""
    print("| seed | way | loss before step 10 | after it | largest output weight |\n|---|---|---|---|---|")
    x, y, _, _ = data(1, 0.0)
    plan = Plan(11, learning_rate=3e-3, record_every=1)
    for seed, every in itertools.product(range(num_seeds), (None, 10)):
        regression = Regression(solved_output=every is not None, solved_every=every)
        fit = fit_grades(STRUCTURE[:1], x, y, dataclasses.replace(plan, seed=seed), regression=regression)
        before, after = fit.records[0].train_loss[-2:]
        largest = np.abs(
            jax.tree.leaves(fit.model.grades[0].params)[-2]
        ).max()  # the output layer's weights, before its biases
        print(f"| {seed} | {'projected' if every else 'plain'} | {before:.2f} | {after:.2f} | {largest:.2g} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", default="1,2")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--why", action="store_true")
    options = parser.parse_args()
    if options.why:
        return step_after_projection(options.seeds)
    print("| setting | noise | way | error | seconds |\n|---|---|---|---|---|")
    for setting in map(int, options.settings.split(",")):
        for noise in (0.0, 0.1):
            x, y, fresh, truth = data(setting, noise)
            table: dict[str, list] = {}
            for seed in range(options.seeds):
                for name, model, seconds in fits(x, y, seed):
                    error = np.linalg.norm(np.asarray(model(fresh)) - truth) / np.linalg.norm(truth - truth.mean())
                    table.setdefault(name, []).append((error, seconds))
            for name, entries in table.items():
                errors, seconds = zip(*entries, strict=True)
                print(
                    f"| {setting} | {noise:g} | {name} | {np.median(errors):.1e} | {np.median(seconds):.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
