"""How long before a spike of the loss ``SpikeWarning`` warns, how often it is right, how often in vain.

    python -m benchmarks.spike_warning

SGDL-1 on 128 points of settings 1 and 2, full batch, at rates at which the loss spikes. A spike is a loss above 1.5
times the median of the 50 steps before it; it is over when the loss is back at 1.1 times that median. A warning is
right if a spike begins within 50 steps of it; a spike is foreseen if a warning came within the 50 steps before it.
"By chance" is the share of all steps within 50 of which a spike begins: what warnings at random moments would reach.
Level 1 is the theory's threshold; lower levels warn earlier.
"""

import sys

import numpy as np

from multigrade import structures
from multigrade.curvature import SpikeWarning
from multigrade.synthetic import training_points
from multigrade.training import Plan, fit_grades

RUNS = (("adam", 1, 0.01), ("adam", 2, 0.01), ("momentum", 1, 0.01), ("momentum", 1, 0.03), ("momentum", 2, 0.03))
STEPS, EVERY, HORIZON, WINDOW = 4000, 10, 50, 50
LEVELS = (0.9, 0.95, 1.0)


def find_spikes(losses: np.ndarray) -> np.ndarray:
    """The steps at which spikes begin."""
    found, step = [], WINDOW
    while step < len(losses):
        usual = np.median(losses[step - WINDOW : step])
        if losses[step] > 1.5 * usual:
            found.append(step)
            while step < len(losses) and losses[step] > 1.1 * usual:
                step += 1
            step += WINDOW
        step += 1
    return np.array(found, int)


def judge(losses: np.ndarray, warnings: np.ndarray) -> dict:
    spikes = find_spikes(losses)
    next_spike = [np.min(spikes[spikes >= step] - step, initial=STEPS) for step in range(len(losses))]
    leads = [spike - warnings[warnings <= spike] for spike in spikes]
    leads = [int(lead[lead <= HORIZON].max()) for lead in leads if (lead <= HORIZON).any()]
    return {
        "spikes": len(spikes), "foreseen": len(leads), "leads": leads, "warnings": len(warnings),
        "right": sum(next_spike[step] <= HORIZON for step in warnings if step < len(losses)),
        "chance": float(np.mean(np.array(next_spike) <= HORIZON)),
    }  # fmt: skip


def one(optimiser: str, setting: int, rate: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Losses at every step; the looks, and lambda_max / threshold at each."""
    x, y = training_points(setting, 128)
    watch = SpikeWarning(every=EVERY, tell=lambda sentence: None)
    plan = Plan(STEPS, optimiser, learning_rate=rate, record_every=1, seed=seed, observers=[watch])
    record = fit_grades(structures.SGDL_1, x, y, plan).records[0]
    seen = record.observations[watch.name]
    return record.train_loss, seen["step"], seen["ratio"]


def warnings(steps: np.ndarray, ratios: np.ndarray, level: float) -> np.ndarray:
    return steps[1:][(ratios[:-1] < level) & (ratios[1:] >= level)]


def line(name: str, judged: list[dict]) -> str:
    total = {key: sum(result[key] for result in judged) for key in ("spikes", "foreseen", "warnings", "right")}
    leads = [lead for result in judged for lead in result["leads"]] or [0]
    low, middle, high = np.quantile(leads, [0.1, 0.5, 0.9])
    false = (total["warnings"] - total["right"]) / (len(judged) * STEPS) * 1000
    return (
        f"{name:24s} {total['spikes']:3d} spikes, {total['foreseen']:3d} foreseen, {middle:3.0f} steps before "
        f"[{low:.0f}, {high:.0f}]; {total['warnings']:3d} warnings, {total['right']:3d} right (by chance "
        f"{100 * np.mean([result['chance'] for result in judged]):.0f} %), {false:.1f} false in 1000 steps"
    )


def main(num_seeds: int = 3) -> None:
    runs = {case: [one(*case, seed) for seed in range(num_seeds)] for case in RUNS}
    for level in LEVELS:
        print(f"level {level:g}")
        judged = {
            case: [judge(losses, warnings(steps, ratios, level)) for losses, steps, ratios in of_seeds]
            for case, of_seeds in runs.items()
        }
        for optimiser, setting, rate in RUNS:
            print(line(f"  {optimiser} {rate:g}, setting {setting}", judged[optimiser, setting, rate]), flush=True)
        print(line("  all", [result for results in judged.values() for result in results]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
