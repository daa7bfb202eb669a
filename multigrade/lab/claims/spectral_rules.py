"""The rules of Sections 6 and 7: what recorded eigenvalues of I - eta H and losses say."""

import itertools
from collections.abc import Callable

import numpy as np

from .ledger import Cells, Finding
from .measures import OSCILLATES, eigenvalues, has_diverged, mean, named, restlessness, shared_rates

# Our readings of the text's words, in eigenvalues and shares of the looks at a spectrum.
NEAR = -0.9  # "near -1" and "approaches -1"
FAR_BELOW = -1.1  # "significantly below -1"
REMAINS = 0.8  # "remains below": in this share of the looks at least
NEARLY_ALL = 0.95
SLIGHTLY = 0.1  # "slightly above 1": by at most this
MUCH_BETTER = 0.1  # "much better accuracy": at most this share of the other's test loss; else "similar"
SENSITIVE = 10  # a rate works if its loss is within this factor of the best of both methods


def share_below(index: int, bound: float, share: float) -> Callable[[Cells], Finding]:
    """The eigenvalue with this index is below the bound in at least this share of the spectra."""

    def rule(cells: Cells) -> Finding:
        (cell,) = cells.values()
        found = eigenvalues(cell, "smallest", index=index)
        if not len(found):
            return _unseen()
        seen = float(np.mean(found[:, index] <= bound))
        numbers = {"share": seen, "lowest": float(np.min(found[:, index]))}
        return Finding(seen >= share, f"in {seen:.0%} of {len(found)} spectra", numbers)

    return rule


def inside_until(last: int) -> Callable[[Cells], Finding]:
    """No eigenvalue at or below -1 up to this step."""

    def rule(cells: Cells) -> Finding:
        (cell,) = cells.values()
        found = eigenvalues(cell, "smallest", until=last)
        if not len(found):
            return _unseen()
        lowest = float(np.min(found[:, 0]))
        return Finding(lowest > -1, f"lowest {lowest:.4f}", {"lowest": lowest})

    return rule


def drops_after(step: int, bound: float = -1.0, index: int = 0) -> Callable[[Cells], Finding]:
    def rule(cells: Cells) -> Finding:
        (cell,) = cells.values()
        found = eigenvalues(cell, "smallest", index=index, after=step)
        if not len(found):
            return _unseen()
        lowest = float(np.min(found[:, index]))
        return Finding(lowest <= bound, f"lowest {lowest:.4f}", {"lowest": lowest})

    return rule


def stronger_after(step: int, since: int = 0) -> Callable[[Cells], Finding]:
    """The loss oscillates after this step, and more than from ``since`` to it."""

    def rule(cells: Cells) -> Finding:
        (cell,) = cells.values()
        if any(saved.result.records[0].num_steps <= step for saved in cell):
            return Finding(None, f"the run ended before {step:,} epochs", {})
        before, after = restlessness(cell, first=since, last=step), restlessness(cell, first=step)
        told = f"{before:.3f} dB per record before, {after:.3f} after"
        return Finding(after >= OSCILLATES and after > before, told, {"before": before, "after": after})

    return rule


def _unseen() -> Finding:
    return Finding(None, "no spectrum was found there", {})


def slightly_above(cells: Cells) -> Finding:
    (cell,) = cells.values()
    found = eigenvalues(cell, "largest")
    if not len(found):
        return _unseen()
    low, high = float(np.nanmin(found)), float(np.nanmax(found))
    return Finding(low > 1 and high <= 1 + SLIGHTLY, f"from {low:.4f} to {high:.4f}", {"lowest": low, "highest": high})


def nearly_inside(cells: Cells) -> Finding:
    (cell,) = cells.values()
    found = eigenvalues(cell, "smallest")
    if not len(found):
        return _unseen()
    share, lowest = float(np.mean(np.abs(found[~np.isnan(found)]) < 1)), float(np.nanmin(found))
    return Finding(share >= NEARLY_ALL, f"{share:.1%} inside, lowest {lowest:.3f}", {"share": share, "lowest": lowest})


def confined(cells: Cells) -> Finding:
    (cell,) = cells.values()
    low, high = eigenvalues(cell, "smallest"), eigenvalues(cell, "largest")
    if not len(low) or not len(high):
        return _unseen()
    lowest, highest = float(np.nanmin(low)), float(np.nanmax(high))
    told = f"from {lowest:.4f} to {highest:.6f}"
    return Finding(lowest > -1 and highest < 1, told, {"lowest": lowest, "highest": highest})


def steadier(cells: Cells) -> Finding:
    wild, calm = (restlessness(cell) for cell in cells.values())
    first, second = cells
    if has_diverged(cells[second]):
        return Finding(False, f"{second} diverged", {first: wild})
    told = f"{first} {wild:.4f} dB per record, {second} {calm:.4f}"
    return Finding(wild >= OSCILLATES and calm < wild / 2, told, {first: wild, second: calm})


def smaller_alpha(cells: Cells) -> Finding:
    """||H|| = max |1 - mu| / eta over the recorded eigenvalues mu of I - eta H, over all seeds."""
    (alpha,), grades = (_alphas(cell) for cell in cells.values())
    if np.isnan([alpha, *grades]).any() or not all(len(eigenvalues(cell, "smallest")) for cell in cells.values()):
        return _unseen()
    told = f"alpha {alpha:.3g}, grades {' / '.join(f'{value:.3g}' for value in grades)}"
    numbers = {"SGDL": alpha} | {f"grade {index + 1}": value for index, value in enumerate(grades)}
    return Finding(max(grades) <= alpha / 2, told, numbers)


def _alphas(cell) -> list[float]:
    """The largest ||H|| of each grade, NaN where it was never found."""
    found = []
    for records in itertools.zip_longest(*(saved.result.records for saved in cell)):  # a seed may have fewer grades
        norms = [np.nan]
        for seen in (record.observations["spectrum"] for record in records if record is not None):
            ends = np.stack([seen["smallest"][:, 0], seen["largest"][:, 0]])
            norms.extend(np.ravel(np.abs(1 - ends) / seen["learning_rate"]))
        found.append(float(np.fmax.reduce(norms)))
    return found


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


def more_often(cells: Cells) -> Finding:
    found = {name: eigenvalues(cell, "smallest") for name, cell in cells.items()}
    if not all(len(each) for each in found.values()):
        return _unseen()
    shares = {name: float(np.mean(each[~np.isnan(each)] <= NEAR)) for name, each in found.items()}
    msdl, mgdl = shares.values()
    told = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    return Finding(msdl > mgdl, f"below {NEAR}: {told}", shares)


def sensitive(cells: Cells) -> Finding:
    losses, missing = shared_rates(cells, "train_loss")
    finite = {name: [loss for loss in each.values() if loss is not None] for name, each in losses.items()}
    best = min(itertools.chain(*finite.values()), default=0.0)
    msdl, mgdl = (sum(loss <= SENSITIVE * best for loss in each) for each in finite.values())
    numbers = {label: loss for name, each in losses.items() for label, loss in named(name, each).items()}
    told = missing or f"rates near the best: MSDL {msdl}, MGDL {mgdl}"
    return Finding(None if missing else msdl < mgdl, told, numbers)
