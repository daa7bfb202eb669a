"""Where full-batch runs settle: the largest eigenvalue of P^-1 H beside the threshold of gd, momentum and Adam.

    python examples/edge.py [edge.png [number of seeds, 5]]

SGDL-1 on setting 1 (1,024 points), 10,000 steps, a look every 100. Prints, for each optimiser, lambda_max / threshold
over the second half of the steps: the median of each seed, the range of nine looks in ten, and how many looks are above
1. Draws docs/figures/edge.png.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

from multigrade import structures
from multigrade.curvature import preconditioned_curvature
from multigrade.synthetic import setting
from multigrade.training import Observation, Plan, fit_grades

STEPS, EVERY = 10_000, 100
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
    data = setting(1)
    plan = Plan(STEPS, optimiser, learning_rate=rate, record_every=EVERY, seed=seed, observers=[Ratio()])
    seen = fit_grades(structures.SGDL_1, data.x_train, data.y_train, plan).records[0].observations["ratio"]
    return seen["step"], seen["ratio"]


def main(path: str = "edge.png", num_seeds: str = "5") -> None:
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    for axes, (optimiser, (rate, threshold)) in zip(figure.subplots(1, 3, sharey=True), CASES.items(), strict=True):
        late = []
        for seed in range(int(num_seeds)):
            steps, ratios = run(optimiser, rate, seed)
            late.append(ratios[steps > STEPS / 2])
            axes.plot(steps, ratios, linewidth=0.8, color=f"C{seed}", label=f"seed {seed}")
        axes.axhline(1, color="0.2", linestyle="--", linewidth=0.9)
        axes.set_title(rf"{optimiser}, $\eta$ = {rate:g}: threshold ${threshold}$", fontsize=10)
        axes.set(xlabel="steps", ylim=(0, 1.6))
        medians = ", ".join(f"{median:.2f}" for median in np.median(late, axis=1))
        low, high = np.quantile(late, [0.05, 0.95])
        above = 100 * np.mean(np.array(late) > 1)
        print(f"{optimiser:9s} rate {rate:g}: medians {medians} of the threshold", end="; ")
        print(f"nine looks in ten within {low:.2f} to {high:.2f}, {above:.0f} % above 1", flush=True)
    figure.axes[0].set_ylabel(r"$\lambda_{\max}(P^{-1}H)$ / threshold")
    figure.axes[0].legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
