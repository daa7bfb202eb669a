"""Restoration's own step beside the paper's: in the step u moves with Theta, in the paper's I - eta H it is frozen.

    python examples/restoration_step.py [restoration_step.png]

A free picture (camera, 32 x 32 pixels, noise 30), one network of two hidden layers, full batch. By gradient descent for
u <- prox(alpha B g + (1 - alpha) u), Theta <- Theta - eta grad L(Theta, u), at a rate that meets the edge of stability.
"""

import sys

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from multigrade.curvature import auxiliary_map, iteration_spectrum, spectrum_of_map
from multigrade.networks import Network
from multigrade.pictures.files import add_noise
from multigrade.pictures.free import draw_picture
from multigrade.pictures.graded.restoration import RestorationTask, pixel_coordinates
from multigrade.pictures.operators import Identity
from multigrade.training import Observation, Plan, train_grades
from multigrade_paper import numbers as paper
from multigrade_paper.images import shrunk

SIZE, NOISE, STEPS, EVERY, RATE, BETA = 32, 30, 4000, 500, 5e-4, 1.0  # our choice
WEIGHTS = (0.05, 0.005)  # lambda: few entries of u are not 0, and most are
COLUMNS = ("frozen", "whole", "frozen largest", "whole largest", "share of u")


class BothSteps:
    """The leftmost eigenvalue of I - eta H with u frozen, and of the Jacobian of the whole step on (Theta, u)."""

    name, every = "both", EVERY

    def observe(self, snapshot, carry):
        objective, u, data = snapshot.loss.args
        rate, params = snapshot.learning_rate, snapshot.params
        frozen = iteration_spectrum(snapshot.loss, params, rate, 1)
        whole = auxiliary_map(objective, params, u, data, "gd", learning_rate=rate)
        leftmost, leading = spectrum_of_map(whole, 1, end="leftmost"), spectrum_of_map(whole, 1)
        values = frozen.smallest[0], leftmost.values[0].real, frozen.largest[0], np.abs(leading.values[0])
        return Observation(dict(zip(COLUMNS, (*values, float(jnp.mean(u != 0))), strict=True)))


def run(weight: float):
    image = shrunk(np.asarray(draw_picture("camera"), float) / 255, SIZE)
    observed = jnp.asarray(add_noise(image, NOISE, seed=0)[None], jnp.float32)
    coordinates = jnp.asarray(pixel_coordinates(SIZE, SIZE))
    task = RestorationTask(coordinates, observed, jnp.zeros_like(observed), Identity(), weight, BETA, paper.ALPHA)
    plan = Plan(STEPS, "gd", learning_rate=RATE, record_every=20, observers=[BothSteps()])
    return train_grades([Network((2, 32, 32, 1), bias_std=0.1)], task, plan).records[0].observations["both"]


def main(path: str = "restoration_step.png") -> None:
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    for axes, weight in zip(figure.subplots(1, 2, sharey=True), WEIGHTS, strict=True):
        seen = run(weight)
        print(f"lambda {weight:g}\n step  u frozen  whole step   largest: u frozen  whole step (modulus)  u not 0")
        for step, *row in zip(seen["step"], *(seen[name] for name in COLUMNS), strict=True):
            print(f"{step:5d} {row[0]:9.4f} {row[1]:11.4f} {row[2]:19.4f} {row[3]:11.4f} {100 * row[4]:18.0f} %")
        axes.plot(seen["step"][1:], seen["frozen"][1:], "o-", label=r"$I - \eta H$, $u$ frozen (the paper's)")
        axes.plot(seen["step"][1:], seen["whole"][1:], "s--", label=r"whole step on $(\Theta, u)$")
        axes.axhline(-1, color="0.4", linestyle=":")
        axes.set(xlabel="steps", title=rf"$\lambda$ = {weight:g}")
    figure.axes[0].set_ylabel("leftmost eigenvalue, real part")
    figure.axes[0].legend(frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
