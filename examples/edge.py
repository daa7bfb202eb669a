"""Where full-batch runs settle: the largest eigenvalue of P^-1 H beside the threshold of gd, momentum and Adam.

    python examples/edge.py [edge.png [number of seeds, 5]]

SGDL-1 on 128 points of setting 1, 6,000 steps, a look every 100. Prints, for each optimiser, the median of
lambda_max / threshold over the second half of the steps, of each seed, and draws docs/figures/edge.png.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

from multigrade import structures
from multigrade.curvature import preconditioned_curvature
from multigrade.synthetic import training_points
from multigrade.training import Observation, Plan, fit_grades

STEPS, EVERY = 6000, 100
# Rates at which SGDL-1 meets the edge within the steps; our choice.
CASES = {"gd": (0.08, r"2/\eta"), "momentum": (0.01, r"(2+2\beta)/\eta"), "adam": (0.003, r"38/\eta")}


class Ratio:
    """lambda_max(P^-1 H) / threshold along a run."""

    name, every = "ratio", EVERY

    def observe(self, snapshot, carry):
        of_step = snapshot.loss, snapshot.params, snapshot.optimiser, snapshot.optimiser_state
        start = carry["start"] if carry else None
        options = {"learning_rate": snapshot.learning_rate, "tolerance": 1e-3, "start": start}
        found = preconditioned_curvature(*of_step, **options)
        return Observation({"ratio": found.ratio}, carry={"start": found.vectors})


def run(optimiser: str, rate: float, seed: int):
    x, y = training_points(1, 128)
    plan = Plan(STEPS, optimiser, learning_rate=rate, record_every=EVERY, seed=seed, observers=[Ratio()])
    seen = fit_grades(structures.SGDL_1, x, y, plan).records[0].observations["ratio"]
    return seen["step"], seen["ratio"]


def main(path: str = "edge.png", num_seeds: str = "5") -> None:
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    for axes, (optimiser, (rate, threshold)) in zip(figure.subplots(1, 3, sharey=True), CASES.items(), strict=True):
        medians = []
        for seed in range(int(num_seeds)):
            steps, ratios = run(optimiser, rate, seed)
            medians.append(float(np.median(ratios[steps > STEPS / 2])))
            axes.plot(steps, ratios, linewidth=0.9, color=f"C{seed}")
        axes.axhline(1, color="0.2", linestyle="--", linewidth=0.9)
        axes.set_title(rf"{optimiser}, $\eta$ = {rate:g}: threshold ${threshold}$", fontsize=10)
        axes.set(xlabel="steps", ylim=(0, 1.6))
        print(f"{optimiser:9s} rate {rate:g}: {', '.join(f'{median:.2f}' for median in medians)} of the threshold")
        sys.stdout.flush()
    figure.axes[0].set_ylabel(r"$\lambda_{\max}(P^{-1}H)$ / threshold")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
