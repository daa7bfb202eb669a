"""Theorems 1 to 5 as measured on small problems. They are proved; a run that contradicts one has found a mistake."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .ledger import Cells, Claim, Finding, Need

FADED = 0.5  # the gradient's norm at the end, as a share of that at the start
TOGETHER = 1e-8  # distance of descent and its linearisation at the end, as a share of the largest
EQUAL = 1e-6  # relative difference of the two optimal values
SIZE_NOTE = "On a small tanh network; alpha and tau are suprema over the iterates that were looked at."


def claims() -> Iterator[Claim]:
    for number, subject in ((1, "one network (SGDL)"), (2, "a grade of MGDL")):
        yield Claim(
            f"theorem/{number}", f"Theorem {number}",
            f"Gradient descent on {subject} at a rate in (0, 2/alpha): the loss falls, the gradient tends to 0.",
            f"no rise at half of 2/alpha or less, gradient down to {FADED:g} of its start",
            (Need(f"theorem {number}", "theory", {"theorem": number}),), _every_seed(_descends), SIZE_NOTE,
            any_size=True,
        )  # fmt: skip
    yield Claim(
        "theorem/3", "Theorem 3, Appendix A",
        "The convex program of a two-layer ReLU grade has the optimal value of the network's own problem.",
        f"gap and difference of the two objectives below {EQUAL:g}; descent on twice the neurons never below the bound",
        tuple(Need(f"setting {k}", "convex", {"setting": k}) for k in (1, 2)), _same_optimum, any_size=True,
    )  # fmt: skip
    yield Claim(
        "theorem/4", "Theorem 4", "If tau < 1, the linearised iteration converges.",
        f"its loss, whose only minimum it approaches, changes by less than {TOGETHER:g} in the second half",
        (Need("theorem 4", "theory", {"theorem": 4}),), _every_seed(_converges), SIZE_NOTE, any_size=True,
    )  # fmt: skip
    yield Claim(
        "theorem/5", "Theorem 5", "If tau < 1, gradient descent and its linearisation converge to the same point.",
        f"their distance falls below {TOGETHER:g} of its maximum", (Need("theorem 5", "theory", {"theorem": 5}),),
        _every_seed(_meet), f"{SIZE_NOTE} tau < 1 needs a positive definite Hessian, here by a penalty: an "
        "over-parametrised network has none of itself.", any_size=True,
    )  # fmt: skip


def _every_seed(rule: Callable[[Mapping[str, Any]], Finding]) -> Callable[[Cells], Finding]:
    """The rule on the metrics of each seed: the finding of the first that contradicts, or cannot tell, or holds."""

    def every(cells: Cells) -> Finding:
        (cell,) = cells.values()
        findings = [rule(saved.result.metrics) for saved in cell]
        return min(findings, key=lambda finding: (False, None, True).index(finding.holds))

    return every


def _descends(found: Mapping[str, Any]) -> Finding:
    fades = found["last_gradient"] / found["first_gradient"]
    holds = found["rises"] == 0 and fades <= FADED if found["is_stable"] else None  # outside nothing is claimed
    told = (
        f"rate {found['rate']:.3g} of (0, {found['limit']:.3g}): {found['rises']} rises, gradient down to {fades:.2g}; "
        f"outside, {found['outside_rises']} rises"
    )
    names = ("rate", "alpha", "limit", "rises", "first_gradient", "last_gradient", "outside_rises")
    return Finding(holds, told, {name: found[name] for name in names})


def _same_optimum(cells: Cells) -> Finding:
    holds, is_solved, told, numbers = True, True, [], {}
    runs = [(name, saved) for name, cell in cells.items() for saved in cell]
    for name, saved in runs:
        found, seed = saved.result.metrics, saved.job.settings.get("seed")
        name = f"{name}, seed {seed}" if seed else name
        difference = abs(found["network_objective"] - found["objective"]) / found["objective"]
        is_above = found["descent_objective"] >= found["dual_bound"] * (1 - EQUAL)
        is_solved &= found["is_full"] and found["gap"] <= EQUAL
        holds &= difference <= EQUAL and is_above
        told.append(f"{name}: {found['objective']:.6g} with {found['neurons']} neurons, gap {found['gap']:.1e}")
        numbers |= {
            f"{name} {key}": found[key] for key in ("objective", "network_objective", "gap", "descent_objective")
        }
    return Finding(bool(holds) if is_solved else None, "; ".join(told), numbers)


def _converges(found: Mapping[str, Any]) -> Finding:
    holds = found["linearised_late_change"] <= TOGETHER if found["is_contraction"] else None
    told = f"tau {found['tau']:.3f}; its loss changes by {found['linearised_late_change']:.1e}"
    return Finding(holds, told, {name: found[name] for name in ("tau", "linearised_late_change")})


def _meet(found: Mapping[str, Any]) -> Finding:
    holds = found["last_distance"] <= TOGETHER * found["largest_distance"] if found["is_contraction"] else None
    ends = f"{found['largest_distance']:.1e} at most, {found['last_distance']:.1e} in the end"
    told = f"tau {found['tau']:.3f} ({found['tau_without_penalty']:.3f} without the penalty); distance {ends}"
    names = ("tau", "tau_without_penalty", "last_distance", "largest_distance")
    return Finding(holds, told, {name: found[name] for name in names})
