"""Which rates diverge in settings 1 and 2, beside what the paper says; and setting 1 with MGDL-1 from five seeds.

    python -m benchmarks.learning_rates [epochs of the sweep] [epochs of the five seeds]

Gradient descent, per grade for MGDL. The paper ran 1,000,000 epochs; what diverges does so early, what a small rate
reaches in the end is not seen here.
"""

import sys

import numpy as np
from joblib import Parallel, delayed

RATES = (0.005, 0.02, 0.05, 0.08, 0.1, 0.2, 0.3, 0.4, 0.5)
PAPER = {
    (1, "SGDL-1"): "loss < 1e-3 for [0.03, 0.08]; fails to converge above 0.3",
    (1, "MGDL-1"): "loss < 1e-3 for [0.01, 0.3]",
    (2, "SGDL-1"): "struggles above 0.006; best at 0.005",
    (2, "MGDL-1"): "loss < 1e-2 for [0.08, 0.3]",
}


def run(number: int, name: str, rate: float, epochs: int, seed: int):
    from multigrade import Plan, fit_grades, structures
    from multigrade.synthetic import setting

    data = setting(number)
    plan = Plan(epochs, "gd", learning_rate=rate, seed=seed)
    fit = fit_grades(structures.PAPER[name], data.x_train, data.y_train, plan)
    return [float(record.train_loss[-1]) for record in fit.records], str(fit.outcome)


def main(sweep_epochs: int = 20_000, seed_epochs: int = 100_000) -> None:
    workers = Parallel(n_jobs=2)
    print(f"last training loss after {sweep_epochs} epochs (per grade), seed 0; NaN: diverged")
    print(f"{'':20}" + "".join(f"{rate:>9}" for rate in RATES))
    for (number, name), claim in PAPER.items():
        results = workers(delayed(run)(number, name, rate, sweep_epochs, 0) for rate in RATES)
        cells = ["NaN" if outcome == "diverged" else f"{losses[-1]:.1e}" for losses, outcome in results]
        print(
            f"setting {number}, {name:9}" + "".join(f"{cell:>9}" for cell in cells) + f"   paper: {claim}", flush=True
        )
    print(f"\nsetting 1, MGDL-1, rate 0.06, {seed_epochs} epochs a grade: training loss after each grade")
    results = workers(delayed(run)(1, "MGDL-1", 0.06, seed_epochs, seed) for seed in range(5))
    for seed, (losses, outcome) in enumerate(results):
        print(f"seed {seed}: " + " / ".join(f"{loss:.2e}" for loss in losses) + f"  {outcome}")
    below = np.sum([losses[-1] < 0.02 for losses, _ in results])
    print(f"below 0.02 in grade 4: {below} of 5 seeds")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
