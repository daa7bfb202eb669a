"""The rules of Sections 6 and 7: what recorded eigenvalues of I - eta H and losses say.

The same words have the same rule for every method. "All eigenvalues in (-1, 1)" is two claims: ``above_minus_one`` for
the lower edge, below which descent oscillates, and ``below_one`` for the upper one.
"""

import functools
import itertools
from collections.abc import Callable

import numpy as np

from .ledger import Cells, Finding
from .measures import (
    OSCILLATES,
    SLIGHTLY,
    counts_near,
    eigenvalues,
    has_diverged,
    mean,
    named,
    restlessness,
    shared_rates,
)

# Our readings of the text's words, in eigenvalues and shares of the looks at a spectrum.
NEAR = -0.9  # "near -1" and "approaches -1"
FAR_BELOW = -1.1  # "significantly below -1"
REMAINS = 0.8  # "remains below", "stay below": in this share of the looks at least
NEARLY_ALL = 0.95  # "all", where rounding or one odd look must not decide
ABOVE_ONE = 0.1  # "slightly above 1": by at most this
# Neurons that sleep, and directions that rescale a ReLU network, give 1 exactly. Ours are found to 1e-5; those of the
# authors are in single precision, with products rounded to 10 bits: "above 1" by less than this is not resolved there.
ROUNDING = 1e-3
MUCH_BETTER = 0.1  # "much better accuracy": at most this share of the other's test loss; else "similar"
SENSITIVE = 10  # a rate works if its loss is within this factor of the best of both methods

Rule = Callable[[Cells], Finding]


UNSEEN = Finding(None, "no spectrum was found there", {})


def of_eigenvalues(end: str, *, index: int = 0, **span) -> Callable[[Callable[[np.ndarray], Finding]], Rule]:
    """A rule on the one role's ``eigenvalues`` at this end; where none was found, it cannot tell."""

    def as_rule(judged: Callable[[np.ndarray], Finding]) -> Rule:
        @functools.wraps(judged)
        def rule(cells: Cells) -> Finding:
            (cell,) = cells.values()
            found = eigenvalues(cell, end, index=index, **span)
            return judged(found) if len(found) else UNSEEN

        return rule

    return as_rule


# ---- where eigenvalues are --------------------------------------------------------------------------------------


def share_below(index: int, bound: float, share: float) -> Rule:
    """The eigenvalue with this index is at or below the bound in at least this share of the spectra."""

    @of_eigenvalues("smallest", index=index)
    def rule(found: np.ndarray) -> Finding:
        seen = float(np.mean(found[:, index] <= bound))
        numbers = {"share": seen, "lowest": float(np.min(found[:, index]))}
        return Finding(seen >= share, f"in {seen:.0%} of {len(found)} spectra", numbers)

    return rule


def above_minus_one(until: float = np.inf) -> Rule:
    """No eigenvalue at or below -1 up to this step."""

    @of_eigenvalues("smallest", until=until)
    def rule(found: np.ndarray) -> Finding:
        lowest = float(np.nanmin(found))
        return Finding(lowest > -1, f"lowest {lowest:.4f}", {"lowest": lowest})

    return rule


def below_one(until: float = np.inf) -> Rule:
    """No eigenvalue above 1, by more than rounding, up to this step."""

    @of_eigenvalues("largest", until=until)
    def rule(found: np.ndarray) -> Finding:
        highest = float(np.nanmax(found))
        return Finding(highest <= 1 + ROUNDING, f"highest {highest:.6f}", {"highest": highest})

    return rule


@of_eigenvalues("smallest")
def nearly_all_inside(found: np.ndarray) -> Finding:
    """Nearly all of the recorded smallest eigenvalues are above -1."""
    share, lowest = float(np.mean(found[~np.isnan(found)] > -1)), float(np.nanmin(found))
    return Finding(share >= NEARLY_ALL, f"{share:.1%} inside, lowest {lowest:.3f}", {"share": share, "lowest": lowest})


def drops_after(step: int, bound: float = -1.0, index: int = 0) -> Rule:
    @of_eigenvalues("smallest", index=index, after=step)
    def rule(found: np.ndarray) -> Finding:
        lowest = float(np.min(found[:, index]))
        return Finding(lowest <= bound, f"lowest {lowest:.4f}", {"lowest": lowest})

    return rule


@of_eigenvalues("largest")
def slightly_above(found: np.ndarray) -> Finding:
    low, high = float(np.nanmin(found)), float(np.nanmax(found))
    is_slight = low > 1 - ROUNDING and 1 + ROUNDING < high <= 1 + ABOVE_ONE
    return Finding(is_slight, f"from {low:.6f} to {high:.6f}", {"lowest": low, "highest": high})


def more_often(cells: Cells) -> Finding:
    found = {name: eigenvalues(cell, "smallest") for name, cell in cells.items()}
    if not all(len(each) for each in found.values()):
        return UNSEEN
    shares = {name: float(np.mean(each[~np.isnan(each)] <= NEAR)) for name, each in found.items()}
    msdl, mgdl = shares.values()
    told = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    return Finding(msdl > mgdl, f"below {NEAR}: {told}", shares)


# ---- phases of a run --------------------------------------------------------------------------------------------


def more_near_after(step: int, first: int | None = None) -> Rule:
    """More eigenvalues are near or below -1 after the step than before; about ``first`` of them before, if given."""

    def rule(cells: Cells) -> Finding:
        (cell,) = cells.values()
        before, after = counts_near(cell, NEAR, until=step), counts_near(cell, NEAR, after=step)
        if not len(before) or not len(after):
            return UNSEEN
        typical, numbers = float(np.median(before)), {"before": float(before.mean()), "after": float(after.mean())}
        is_as_told = first is None or abs(typical - first) <= 1
        told = f"{numbers['before']:.1f} eigenvalues at or below {NEAR} before (median {typical:g}), "
        return Finding(
            bool(is_as_told and after.mean() > before.mean()), f"{told}{numbers['after']:.1f} after", numbers
        )

    return rule


def one_then_several(step: int) -> Rule:
    """Up to the step the smallest eigenvalue comes near -1 and the second is mostly away; after it, that is more often
    near, too."""

    def rule(cells: Cells) -> Finding:
        (cell,) = cells.values()
        before, after = (eigenvalues(cell, "smallest", index=1, **span) for span in ({"until": step}, {"after": step}))
        if not len(before) or not len(after):
            return UNSEEN
        lowest = float(np.nanmin(before[:, 0]))
        early, late = (float(np.mean(each[:, 1] <= NEAR)) for each in (before, after))
        told = f"before: smallest down to {lowest:.3f}, the second near -1 in {early:.0%} of spectra; after: {late:.0%}"
        numbers = {"lowest before": lowest, "second near before": early, "second near after": late}
        return Finding(lowest <= NEAR and early < 0.5 and late > early, told, numbers)

    return rule


def far_below_after(step: int, since: int) -> Rule:
    """After the step the smallest eigenvalue is mostly far below -1, and more are near than from ``since`` on."""

    def rule(cells: Cells) -> Finding:
        (cell,) = cells.values()
        found = eigenvalues(cell, "smallest", after=step)
        between, after = counts_near(cell, NEAR, after=since, until=step), counts_near(cell, NEAR, after=step)
        if not len(found) or not len(between):
            return UNSEEN
        typical = float(np.median(found[:, 0]))
        numbers = {"median smallest": typical, "near before": float(between.mean()), "near after": float(after.mean())}
        told = f"median {typical:.3f}; eigenvalues near -1: {between.mean():.1f} before, {after.mean():.1f} after"
        return Finding(bool(typical <= FAR_BELOW and after.mean() > between.mean()), told, numbers)

    return rule


def stronger_after(step: int, since: int = 0, first: str = "") -> Rule:
    """The loss oscillates after this step, more than from ``since`` to it.

    ``first`` is what the text says of the time before: it oscillates "slightly", or falls "steadily".
    """

    def rule(cells: Cells) -> Finding:
        (cell,) = cells.values()
        if any(saved.result.records[0].num_steps <= step for saved in cell):
            return Finding(None, f"the run ended before {step:,} epochs", {})
        before, after = restlessness(cell, first=since, last=step), restlessness(cell, first=step)
        is_as_told = {"slightly": SLIGHTLY <= before < after, "steadily": before < OSCILLATES}.get(first, True)
        told = f"{before:.4f} dB per record before, {after:.4f} after"
        holds = is_as_told and after >= OSCILLATES and after > before
        return Finding(holds, told, {"before": before, "after": after})

    return rule


# ---- losses -----------------------------------------------------------------------------------------------------


def oscillates(cells: Cells) -> Finding:
    ((name, cell),) = cells.items()
    if has_diverged(cell):
        return Finding(True, f"{name} diverged", {})
    wild = restlessness(cell)
    return Finding(wild >= OSCILLATES, f"{wild:.4f} dB per record", {name: wild})


def falls_steadily(cells: Cells) -> Finding:
    """Rises under the bound in the mean, and every grade ends below its start."""
    ((name, cell),) = cells.items()
    if has_diverged(cell):
        return Finding(False, f"{name} diverged", {})
    calm = restlessness(cell)
    falls = all(record.train_loss[-1] < record.train_loss[0] for saved in cell for record in saved.result.records)
    told = f"{calm:.4f} dB per record, {'every grade' if falls else 'not every grade'} ends below its start"
    return Finding(calm < OSCILLATES and falls, told, {name: calm})


def steadier(cells: Cells) -> Finding:
    """The second's loss rises by less than half of the first's."""
    wild, calm = (restlessness(cell) for cell in cells.values())
    first, second = cells
    if has_diverged(cells[second]):
        return Finding(False, f"{second} diverged", {first: wild})
    told = f"{first} {wild:.4f} dB per record, {second} {calm:.4f}"
    return Finding(calm < wild / 2, told, {first: wild, second: calm})


def similar(cells: Cells) -> Finding:
    losses = {name: mean(cell, "test_loss") for name, cell in cells.items()}
    finite = [loss for loss in losses.values() if loss is not None]
    holds = len(finite) == len(losses) and min(finite) > MUCH_BETTER * max(finite)
    return Finding(holds, _losses(losses), losses)


def much_better(cells: Cells) -> Finding:
    losses = {name: mean(cell, "test_loss") for name, cell in cells.items()}
    sgdl, mgdl = losses.values()
    holds = mgdl is not None and (sgdl is None or mgdl <= MUCH_BETTER * sgdl)
    return Finding(holds, _losses(losses), losses)


def _losses(losses: dict[str, float | None]) -> str:
    told = (f"{name} {'diverged' if loss is None else format(loss, '.3g')}" for name, loss in losses.items())
    return "test losses: " + ", ".join(told)


def sensitive(cells: Cells) -> Finding:
    losses, missing = shared_rates(cells, "train_loss")
    finite = {name: [loss for loss in each.values() if loss is not None] for name, each in losses.items()}
    best = min(itertools.chain(*finite.values()), default=0.0)
    msdl, mgdl = (sum(loss <= SENSITIVE * best for loss in each) for each in finite.values())
    numbers = {label: loss for name, each in losses.items() for label, loss in named(name, each).items()}
    told = missing or f"rates near the best: MSDL {msdl}, MGDL {mgdl}"
    return Finding(None if missing else msdl < mgdl, told, numbers)


# ---- alpha ------------------------------------------------------------------------------------------------------


def smaller_alpha(cells: Cells) -> Finding:
    """||H|| = max |1 - mu| / eta over the recorded eigenvalues mu of I - eta H and all seeds, at every rate of both."""
    sgdl, mgdl = {}, {}
    for cell, at in zip(cells.values(), (sgdl, mgdl), strict=True):
        for rate in {saved.job.setup.learning_rate for saved in cell}:
            runs = [saved for saved in cell if saved.job.setup.learning_rate == rate]
            if not has_diverged(runs):
                at[rate] = runs
    numbers, told = {}, []
    for rate in sorted(set(sgdl) & set(mgdl)):
        (alpha,), grades = _alphas(sgdl[rate]), _alphas(mgdl[rate])
        if np.isnan([alpha, *grades]).any():
            return UNSEEN
        numbers |= {f"SGDL at {rate:g}": alpha, f"MGDL's largest at {rate:g}": max(grades)}
        told.append(f"at {rate:g}: alpha {alpha:.3g}, grades {' / '.join(f'{value:.3g}' for value in grades)}")
    if not told:
        return Finding(None, "no rate at which both were looked at and did not diverge", {})
    pairs = zip(*[iter(numbers.values())] * 2, strict=True)
    return Finding(all(largest <= alpha / 2 for alpha, largest in pairs), "; ".join(told), numbers)


def _alphas(cell) -> list[float]:
    """The largest ||H|| of each grade, NaN where it was never found."""
    if not len(eigenvalues(cell, "smallest")):
        return [np.nan] * max(len(saved.result.records) for saved in cell)
    found = []
    for records in itertools.zip_longest(*(saved.result.records for saved in cell)):  # a seed may have fewer grades
        norms = [np.nan]
        for seen in (record.observations["spectrum"] for record in records if record is not None):
            ends = np.stack([seen["smallest"][:, 0], seen["largest"][:, 0]])
            norms.extend(np.ravel(np.abs(1 - ends) / seen["learning_rate"]))
        found.append(float(np.fmax.reduce(norms)))
    return found
