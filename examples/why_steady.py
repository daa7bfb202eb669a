"""Why are grades steady? The table and the figure of docs/why-steady.md, from a store of results.

    multigrade reproduce steadiness --seeds 5 --store steadiness
    python examples/why_steady.py steadiness [more stores]

A window is what lies between two looks at the spectrum. For each it is known how many eigenvalues of the step were
outside and oscillating at its start, how often the recorded loss rose in it (by more than 0.1 %), and how large the
loss was. Intervals are 95 % by the bootstrap: seeds are drawn with replacement, then windows within each seed.
"""

import dataclasses
import sys
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import rankdata

from multigrade.curvature.tracking import loss_rises, num_oscillating
from multigrade_paper.evidence import open_results

NUM_DRAWS = 1000
VARIANTS = ("SGDL", "MGDL", "no freezing", "deep grades", "no residual", "residual only")


@dataclasses.dataclass(frozen=True)
class Window:
    optimiser: str
    setting: int
    method: str
    seed: int
    num_below: int  # eigenvalues below -1, or outside and oscillating
    edge: float  # eta lambda_max / 2, or lambda_max(P^-1 H) / threshold: 1 at the edge
    rises: float
    loss: float


def windows(saved) -> list[Window]:
    """The windows of one run, over all of its grades."""
    settings, found = saved.job.settings, []
    for record in saved.result.records:
        seen = record.observations["spectrum"]
        if "radius" in seen:
            counts, edges = num_oscillating(seen), seen["ratio"]
        else:
            counts, edges = np.count_nonzero(seen["smallest"] <= -1, axis=1), (1 - seen["smallest"][:, 0]) / 2
        for index, start in enumerate(seen["step"][:-1]):
            inside = (record.steps >= start) & (record.steps <= seen["step"][index + 1])
            losses = record.train_loss[inside]
            if len(losses) > 2:
                names = (settings["optimiser"], settings["setting"], settings["method"], settings["seed"])
                rises, loss = loss_rises(losses), float(np.median(losses))
                found.append(Window(*names, int(counts[index]), float(edges[index]), rises, loss))
    return found


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman's; NaN where one of them does not vary."""
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


def interval(sample: Sequence[Window], statistic: Callable[[Sequence[Window]], float]) -> tuple[float, float]:
    """95 % by the bootstrap over seeds and windows."""
    random, by_seed = np.random.default_rng(0), {}
    for window in sample:
        by_seed.setdefault(window.seed, []).append(window)
    groups, values = list(by_seed.values()), []
    for _ in range(NUM_DRAWS):
        drawn = [groups[i] for i in random.integers(len(groups), size=len(groups))]
        values.append(statistic([group[j] for group in drawn for j in random.integers(len(group), size=len(group))]))
    values = np.array(values)[np.isfinite(values)]
    return tuple(np.quantile(values, [0.025, 0.975])) if len(values) else (float("nan"), float("nan"))


def correlation(sample: Sequence[Window], name: str = "num_below") -> float:
    return rank_correlation(np.array([getattr(w, name) for w in sample]), np.array([w.rises for w in sample]))


def mean_rises(sample: Sequence[Window]) -> float:
    return 100 * float(np.mean([w.rises for w in sample]))


def matched_difference(sample: Sequence[Window], method: str, by: str) -> float:
    """Mean of (rises of ``method`` - rises of SGDL), each window beside the SGDL window nearest in ``by``; in percent.

    Windows without one within 0.05 (of the edge) or 10 % (of the loss) are left out.
    """
    theirs = [w for w in sample if w.method == "SGDL" and np.isfinite(w.edge)]
    scale, width = (np.log, 0.1) if by == "loss" else (lambda value: value, 0.05)
    keys = np.array([scale(getattr(w, by)) for w in theirs])
    differences = []
    for window in sample:
        if window.method == method and np.isfinite(window.edge) and len(keys):
            nearest = int(np.argmin(np.abs(keys - scale(getattr(window, by)))))
            if abs(keys[nearest] - scale(getattr(window, by))) <= width:
                differences.append(window.rises - theirs[nearest].rises)
    return 100 * float(np.mean(differences)) if len(differences) >= 3 else float("nan")


def shown(value: float, ends: tuple[float, float], digits: int = 2) -> str:
    return "cannot be told" if np.isnan(value) else f"{value:.{digits}f} [{ends[0]:.{digits}f}, {ends[1]:.{digits}f}]"


def final_losses(runs, key) -> str:
    losses = [run.result.metrics["train_loss"] for run in runs if _key(run.job.settings) == key]
    return f"{np.median(losses):.2g} [{min(losses):.2g}, {max(losses):.2g}]"


def _key(settings) -> tuple:
    return settings["optimiser"], settings["setting"], settings["method"]


def main(stores: Sequence[str]) -> None:
    runs = [saved for store in stores for saved in open_results(store).all() if saved.job.kind == "steadiness"]
    everything = [window for run in runs for window in windows(run)]
    header = "| optimiser, setting | variant | seeds | looks below -1 | loss rises, % | rank correlation | final loss |"
    print(header, "|---|---|---|---|---|---|---|", sep="\n")
    for optimiser, setting in sorted({(w.optimiser, w.setting) for w in everything}, reverse=True):
        for method in VARIANTS:
            key = optimiser, setting, method
            sample = [w for w in everything if (w.optimiser, w.setting, w.method) == key]
            if not sample:
                continue
            below = 100 * np.mean([w.num_below > 0 for w in sample])
            rises, related = (shown(f(sample), interval(sample, f), d) for f, d in ((mean_rises, 1), (correlation, 2)))
            cells = (f"{optimiser}, {setting}", method, len({w.seed for w in sample}), f"{below:.0f} %", rises, related)
            print("|", *(f"{cell} |" for cell in (*cells, final_losses(runs, key))))
    print()
    for optimiser in sorted({w.optimiser for w in everything}):
        pooled = [w for w in everything if w.optimiser == optimiser and np.isfinite(w.edge)]
        for name, what in (("num_below", "number below -1"), ("edge", "distance from the edge")):

            def statistic(sample, name=name):
                return correlation(sample, name)

            value = shown(statistic(pooled), interval(pooled, statistic))
            print(f"pooled, {optimiser}: rank correlation of rises with {what} {value}")
        for setting in (1, 2):
            pool = [w for w in pooled if w.setting == setting]
            for method in VARIANTS[1:]:
                for by in ("edge", "loss"):

                    def difference(sample, method=method, by=by):
                        return matched_difference(sample, method, by)

                    value = shown(difference(pool), interval(pool, difference), 1)
                    print(f"{optimiser}, setting {setting}, {method} - SGDL at equal {by}: rises {value} points")
    figure(everything).savefig("why_steady.png", dpi=130)


def figure(everything: Sequence[Window]):
    """How often the loss rises, by variant, with intervals; and against the distance from the edge, by window."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(11, 3.8), layout="constrained")
    left, right = drawn.subplots(1, 2, width_ratios=(3, 2))
    for offset, setting in ((-0.15, 1), (0.15, 2)):
        for place, method in enumerate(VARIANTS):
            sample = [w for w in everything if (w.optimiser, w.setting, w.method) == ("gd", setting, method)]
            if sample:
                low, high = interval(sample, mean_rises)
                left.plot([place + offset] * 2, [low, high], color=f"C{setting - 1}", linewidth=2)
                label = f"setting {setting}" if place == 0 else None
                left.plot(place + offset, mean_rises(sample), "o", color=f"C{setting - 1}", label=label)
    left.set_xticks(range(len(VARIANTS)), VARIANTS)
    left.set_ylabel("records at which the loss rose, %")
    left.legend(frameon=False)
    for method, colour in (("SGDL", "C3"), ("MGDL", "C2")):
        sample = [w for w in everything if w.optimiser == "gd" and w.method == method]
        right.plot(
            [w.edge for w in sample], [100 * w.rises for w in sample], ".", color=colour, label=method, alpha=0.6
        )
    right.axvline(1, color="0.4", linestyle=":")
    right.set_xlabel(r"$\eta\lambda_{\max}/2$ at the start of a window (1: the edge)")
    right.set_ylabel("rises in the window, %")
    right.legend(frameon=False)
    return drawn


if __name__ == "__main__":
    main(sys.argv[1:])
