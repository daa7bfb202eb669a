"""Section 5 and Figure 28: which learning rates work."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from ..numbers import SYNTHETIC_RATES
from .ledger import Cells, Claim, Finding, Need
from .measures import by_rate, ends_restless, missing_rates, named, shared_rates
from .reconstruction import title

NOT_CONVERGED = 0.01  # a training loss above it, or divergence; our reading of "fails to converge" in setting 1
NEAR_ONE = 0.8  # rates from here on are "near 1"
COLLAPSED = 1.0  # dB: a network no better than the constant image by this much has failed to train
ACCURATE = 1.0  # dB below its best at any rate is still "accurate"
GRID_NOTE = "Which rates the paper tried is not recorded; ours are a grid that holds the ends of the quoted ranges."


# A run with spectra is the same training, looked at: it is the sweep's run at its rate.
CONFIGS = ("synthetic sweep", "synthetic spectrum")


def sweep(setting: int, method: str) -> Need:
    return Need(f"setting {setting} {method}", "descent", {"config": CONFIGS, "setting": setting, "method": method})


def claims() -> Iterator[Claim]:
    yield from _setting_1()
    yield from _setting_2()
    for setting, method in itertools.product((1, 2), ("SGDL", "MGDL", "MSDL")):
        yield _caption(setting, method)
    for image in ("resolution_chart", "cameraman", "barbara", "pirate"):
        yield from _image(image)


def _setting_1() -> Iterator[Claim]:
    place, sgdl, mgdl = "Section 5, Figure 1", sweep(1, "SGDL"), sweep(1, "MGDL")
    for need, low, high in ((sgdl, 0.03, 0.08), (mgdl, 0.01, 0.3)):
        method = need.where["method"]
        yield Claim(
            f"lr-synthetic/1/{method.lower()}-range", place,
            f"Setting 1: {method} has a loss below 0.001 for rates in [{low}, {high}].",
            "training loss below 0.001 at every rate of the sweep in the range", (need,), below(0.001, low, high),
            GRID_NOTE, is_restless=ends_restless,
        )  # fmt: skip
    yield Claim(
        "lr-synthetic/1/sgdl-fails", place, "Setting 1: SGDL does not converge for rates above 0.3.",
        f"diverged or training loss above {NOT_CONVERGED} at every rate of the sweep above 0.3", (sgdl,),
        fails_above(0.3), GRID_NOTE,
        is_restless=ends_restless,
    )  # fmt: skip
    yield Claim(
        "lr-synthetic/1/wider", place, "Setting 1: MGDL works for a wider range of rates than SGDL.",
        "ratio of the ends of the longest stretch of rates with training loss below 0.001", (sgdl, mgdl), wider(0.001),
        GRID_NOTE, is_restless=ends_restless,
    )  # fmt: skip


def _setting_2() -> Iterator[Claim]:
    place, sgdl, mgdl = "Section 5, Figure 1", sweep(2, "SGDL"), sweep(2, "MGDL")
    yield Claim(
        "lr-synthetic/2/sgdl-best", place, "Setting 2: SGDL does best at the rate 0.005.",
        "lowest training loss of the sweep", (sgdl,), best_at(0.005), GRID_NOTE,
        is_restless=ends_restless,
    )  # fmt: skip
    yield Claim(
        "lr-synthetic/2/sgdl-struggles", place, "Setting 2: SGDL struggles to converge for rates above 0.006.",
        "diverged or a training loss above that at 0.005, at every rate of the sweep above 0.006", (sgdl,),
        worse_above(0.006, 0.005), GRID_NOTE,
        is_restless=ends_restless,
    )  # fmt: skip
    yield Claim(
        "lr-synthetic/2/mgdl-range", place,
        "Setting 2: MGDL is stable, with a loss below 0.01, for rates in [0.08, 0.3].",
        "training loss below 0.01 at every rate of the sweep in the range", (mgdl,), below(0.01, 0.08, 0.3), GRID_NOTE,
        is_restless=ends_restless,
    )  # fmt: skip
    yield Claim(
        "lr-synthetic/2/wider", place, "Setting 2: MGDL works for a significantly wider range of rates than SGDL.",
        "number of rates of the sweep with training loss below 0.01", (sgdl, mgdl), more_rates(0.01), GRID_NOTE,
        is_restless=ends_restless,
    )  # fmt: skip


def _caption(setting: int, method: str) -> Claim:
    rate, item = SYNTHETIC_RATES[str(setting), method], "msdl-synthetic" if method == "MSDL" else "lr-synthetic"
    return Claim(
        f"{item}/{setting}/{method.lower()}-caption", "Section 7" if method == "MSDL" else "Section 6",
        f"Setting {setting}: {rate} is {method}'s rate of lowest validation loss in [0.001, 0.5].",
        "lowest validation loss of the sweep and the caption's rate", (sweep(setting, method),),
        best_at(rate, "validation_loss"), GRID_NOTE, is_restless=ends_restless,
    )  # fmt: skip


def _image(image: str) -> Iterator[Claim]:
    sgdl, mgdl = (
        Need(f"{image} {method}", "descent", {"config": "image sweep", "image": image, "method": method})
        for method in ("SGDL", "MGDL")
    )
    place = "Section 5, Figure 15"
    yield Claim(
        f"lr-image/{image}/better", place, f"{title(image)}: MGDL is more accurate than SGDL at all rates.",
        "testing PSNR at every rate of the sweep", (sgdl, mgdl), _better_everywhere, GRID_NOTE,
    )  # fmt: skip
    if image in ("cameraman", "pirate"):
        yield Claim(
            f"lr-image/{image}/sgdl-fails", place, f"{title(image)}: SGDL fails to train at rates near 1.",
            f"rates from {NEAR_ONE}: diverged or within {COLLAPSED} dB of the constant image at one of them at least",
            (sgdl,), _fails_near_one, GRID_NOTE,
        )  # fmt: skip
        yield Claim(
            f"lr-image/{image}/mgdl-stable", place, f"{title(image)}: MGDL stays stable and accurate at rates near 1.",
            f"rates from {NEAR_ONE}: at most {ACCURATE} dB below its best rate", (mgdl,), _stable_near_one, GRID_NOTE,
        )  # fmt: skip


# ---- rules ------------------------------------------------------------------------------------------------------


def below(threshold: float, low: float, high: float) -> Callable[[Cells], Finding]:
    """The training loss is below the threshold at every rate in [low, high]. One rate of ours refutes it."""

    def rule(cells: Cells) -> Finding:
        (cell,) = cells.values()
        losses = {rate: loss for rate, loss in by_rate(cell, "train_loss").items() if low <= rate <= high}
        bad = [rate for rate, loss in losses.items() if loss is None or loss >= threshold]
        missing = missing_rates(cell, losses, low, high)
        told = f"not below {threshold:g} at {_rates(bad)}" if bad else f"below {threshold:g} at all {len(losses)} rates"
        return _unless(bad, missing, told, named("loss", losses))

    return rule


def fails_above(limit: float) -> Callable[[Cells], Finding]:
    def rule(cells: Cells) -> Finding:
        (cell,) = cells.values()
        above = {rate: loss for rate, loss in by_rate(cell, "train_loss").items() if rate > limit}
        good = [rate for rate, loss in above.items() if loss is not None and loss <= NOT_CONVERGED]
        missing = missing_rates(cell, above, low=np.nextafter(limit, 1))
        told = f"converges at {_rates(good)}" if good else f"diverges or stays above {NOT_CONVERGED} at {_rates(above)}"
        return _unless(good, missing, told, named("loss", above))

    return rule


def worse_above(limit: float, best: float) -> Callable[[Cells], Finding]:
    def rule(cells: Cells) -> Finding:
        (cell,) = cells.values()
        losses = by_rate(cell, "train_loss")
        above = {rate: loss for rate, loss in losses.items() if rate > limit}
        reference, missing = losses.get(best), missing_rates(cell, above, low=np.nextafter(limit, 1))
        if reference is None:
            return Finding(None, f"the sweep must hold {best}", named("loss", losses))
        good = [rate for rate, loss in above.items() if loss is not None and loss <= reference]
        told = f"as good as {best} at {_rates(good)}" if good else f"worse than at {best} at all {len(above)} above"
        return _unless(good, missing, told, named("loss", losses))

    return rule


def best_at(rate: float, metric: str = "train_loss") -> Callable[[Cells], Finding]:
    def rule(cells: Cells) -> Finding:
        (cell,) = cells.values()
        losses, missing = by_rate(cell, metric), missing_rates(cell, by_rate(cell, metric))
        finite = {each: loss for each, loss in losses.items() if loss is not None}
        if rate not in losses or not finite:
            return Finding(None, f"the sweep must hold {rate}", named("loss", losses))
        best = min(finite, key=lambda each: finite[each])
        told = f"lowest {finite[best]:.3g} at {best:g}"
        told += "" if best == rate else f", at {rate:g} {losses[rate] or np.nan:.3g}"
        return _unless([best] if best != rate else [], missing, told, named("loss", losses))

    return rule


def _unless(refuting: list[float], missing: str, told: str, numbers: dict[str, float | None]) -> Finding:
    """It holds unless a rate refutes it; what no rate refutes is open as long as rates are missing."""
    if missing and not refuting:
        return Finding(None, missing, numbers)
    return Finding(not refuting, f"{told} ({missing})" if missing else told, numbers)


def wider(threshold: float) -> Callable[[Cells], Finding]:
    """The second role reaches the threshold over a larger ratio of rates, without a gap."""

    def rule(cells: Cells) -> Finding:
        losses, missing = shared_rates(cells, "train_loss")
        good = {name: _longest(each, _good(each, threshold)) for name, each in losses.items()}
        ratios = {name: max(rates) / min(rates) if rates else 0.0 for name, rates in good.items()}
        first, second = ratios.values()
        told = "; ".join(f"{name}: {_rates(rates) if rates else 'none'}" for name, rates in good.items())
        return Finding(None if missing else second > first, missing or f"below {threshold:g} at {told}", ratios)

    return rule


def more_rates(threshold: float) -> Callable[[Cells], Finding]:
    def rule(cells: Cells) -> Finding:
        losses, missing = shared_rates(cells, "train_loss")
        counts = {name: float(len(_good(each, threshold))) for name, each in losses.items()}
        first, second = counts.values()
        told = ", ".join(f"{name} {count:.0f}" for name, count in counts.items())
        told = missing or f"rates with a loss below {threshold:g}: {told}"
        return Finding(None if missing else second > first, told, counts)

    return rule


def _good(losses: dict[float, float | None], threshold: float) -> list[float]:
    return [rate for rate, loss in losses.items() if loss is not None and loss < threshold]


def _longest(losses: dict[float, float | None], good: list[float]) -> list[float]:
    """The longest stretch of good rates that are neighbours in the sweep."""
    stretches = (list(group) for is_good, group in itertools.groupby(losses, lambda rate: rate in good) if is_good)
    return max(stretches, key=lambda stretch: stretch[-1] / stretch[0], default=[])


def _better_everywhere(cells: Cells) -> Finding:
    values, missing = shared_rates(cells, "test_psnr")
    low, high = values.values()
    numbers = named("SGDL", low) | named("MGDL", high)
    bad = [rate for rate in low if high[rate] is None or (low[rate] is not None and high[rate] <= low[rate])]
    if bad or not missing:  # one rate refutes it
        return Finding(not bad, f"not better at {_rates(bad)}" if bad else f"better at all {len(low)} rates", numbers)
    return Finding(None, missing, numbers)


def _fails_near_one(cells: Cells) -> Finding:
    (cell,) = cells.values()
    near = {rate: value for rate, value in by_rate(cell, "test_psnr").items() if rate >= NEAR_ONE}
    if not near:
        return Finding(None, f"the sweep must hold rates from {NEAR_ONE}", {})
    constant = cell[0].result.metrics["constant_psnr"]
    failed = [rate for rate, value in near.items() if value is None or value < constant + COLLAPSED]
    told = f"fails at {_rates(failed)}" if failed else f"trains at {_rates(near)}"
    return Finding(bool(failed), told, {**named("PSNR", near), "constant image": constant})


def _stable_near_one(cells: Cells) -> Finding:
    (cell,) = cells.values()
    values = by_rate(cell, "test_psnr")
    near = {rate: value for rate, value in values.items() if rate >= NEAR_ONE}
    if not 0 < len(near) < len(values):
        return Finding(None, f"the sweep must hold rates from {NEAR_ONE}, and below it", named("PSNR", values))
    best = max((value for value in values.values() if value is not None), default=0.0)
    bad = [rate for rate, value in near.items() if value is None or value < best - ACCURATE]
    told = f"falls behind at {_rates(bad)}" if bad else f"within {ACCURATE} dB of its best, {best:.2f}"
    return Finding(not bad, told, {**named("PSNR", near), "best": best})


def _rates(rates) -> str:
    return ", ".join(f"{rate:g}" for rate in rates)
