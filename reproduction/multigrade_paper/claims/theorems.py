"""Theorems 1 to 5 as measured on small problems. They are proved; a run that contradicts one has found a mistake."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .ledger import Cells, Claim, Finding, Need

SHARES = (0.9, 0.95)  # of 2 / alpha: the rates of Theorems 1 and 2
FADED = 1e-2  # the gradient's norm at the end, as a share of that at the start
THERE = 1e-6  # distance from the minimum at the end, as a share of that at the start
ORDER = 1.8  # of the remainder in the length of the step: 2 for the right Hessian, 1 for a wrong one
PACE = 0.01  # relative error of the long-run contraction
WORKS = 0.5  # of the target's mean square: a network that accounts for less has been switched off by the penalty
EQUAL = 1e-6  # relative difference of the two optimal values
SIZE_NOTE = "On a small tanh network in float64; alpha is the largest ||H|| of all iterates."
NEAR_NOTE = (
    "On a small tanh network in float64 near a strict local minimum: tau < 1 needs a positive definite Hessian, which "
    "no over-parametrised network has elsewhere. The printed proof of Theorem 4 shows boundedness; see the errata."
)


def claims() -> Iterator[Claim]:
    for number, subject in ((1, "one network (SGDL)"), (2, "a grade of MGDL")):
        yield Claim(
            f"theorem/{number}", f"Theorem {number}",
            f"Gradient descent on {subject} at a rate in (0, 2/alpha): the loss falls, the gradient tends to 0.",
            f"at {SHARES[0]:g} to {SHARES[1]:g} of 2/alpha every step obeys the descent inequality, and the gradient "
            f"falls to {FADED:g} of its start",
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
        f"its iterates end within {THERE:g} of their first distance from the minimum, at the pace 1 - eta lambda_min, "
        f"within {PACE:.0%}; no step of descent shrinks its error by less than tau",
        (Need("theorem 4", "theory", {"theorem": 4}),), _every_seed(_converges), NEAR_NOTE, any_size=True,
    )  # fmt: skip
    yield Claim(
        "theorem/5", "Theorem 5", "If tau < 1, gradient descent and its linearisation converge to the same point.",
        f"both within {THERE:g} of their first distance from one minimum; the remainder that the linearisation leaves "
        f"out is of order {ORDER:g} or more in the length of the step", (Need("theorem 5", "theory", {"theorem": 5}),),
        _every_seed(_meet), NEAR_NOTE, any_size=True,
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
    is_asked = SHARES[0] <= found["share"] <= SHARES[1] + 1e-9  # outside nothing is claimed
    # A step may break the inequality; a gradient that has not faded yet refutes no limit.
    holds = None if not is_asked else False if found["violations"] else True if fades <= FADED else None
    told = (
        f"at {found['share']:.2f} of 2/alpha = {found['limit']:.3g}: the inequality fails at {found['violations']} of "
        f"{found['num_steps']} steps, gradient down to {fades:.1g}; at 1.1 of it, {found['outside_rises']} rises"
    )
    names = ("rate", "alpha", "limit", "share", "violations", "first_gradient", "last_gradient", "outside_rises")
    return Finding(holds, told, {name: found[name] for name in names})


def _same_optimum(cells: Cells) -> Finding:
    holds, is_solved, told, numbers = True, True, [], {}
    runs = [(name, saved) for name, cell in cells.items() for saved in cell]
    for name, saved in runs:
        found, seed = saved.result.metrics, saved.job.setup.seed
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
    share, pace = found["last_linearised_error"] / found["first_error"], found["linearised_pace"]
    holds = share <= THERE and abs(pace - 1) <= PACE and found["worst_contraction"] <= found["tau"] * (1 + 1e-9)
    told = (
        f"tau {found['tau']:.5f}; {share:.1e} of the first distance is left, at {pace:.4f} of the pace that lambda_min "
        f"= {found['smallest_eigenvalue']:.2g} foretells; the network explains {found['explained']:.0%} of the target"
    )
    names = ("tau", "first_error", "last_linearised_error", "linearised_pace", "worst_contraction", "explained")
    return Finding(_if_asked(found, holds), told, {name: found[name] for name in names})


def _meet(found: Mapping[str, Any]) -> Finding:
    shares = [found[name] / found["first_error"] for name in ("last_error", "last_linearised_error")]
    holds = max(shares) <= THERE and found["order"] >= ORDER
    told = (
        f"tau {found['tau']:.5f}; {shares[0]:.1e} and {shares[1]:.1e} of the first distance are left, they are "
        f"{found['last_distance']:.1e} apart; the remainder is of order {found['order']:.2f}"
    )
    names = ("tau", "first_error", "last_error", "last_linearised_error", "last_distance", "order", "explained")
    return Finding(_if_asked(found, holds), told, {name: found[name] for name in names})


def _if_asked(found: Mapping[str, Any], holds: bool) -> bool | None:
    """None outside the theorem's condition, or where the penalty has switched the network off."""
    return bool(holds) if found["is_contraction"] and found["explained"] >= WORKS else None
