"""Sections 6 and 7: the eigenvalues of I - eta H along training, the oscillations they explain, and MSDL."""

from collections.abc import Iterator

from ..numbers import CHART_RECORDED_RATE, IMAGE_RATES, SYNTHETIC_RATES
from .correlations import CLOSE, goes_with_the_number, smallest_matters_more
from .ledger import Claim, Need, Status
from .measures import OSCILLATES, SLIGHTLY, ends_restless
from .rates import GRID_NOTE, sweep
from .reconstruction import title
from .spectral_rules import (
    ABOVE_ONE,
    FAR_BELOW,
    MUCH_BETTER,
    NEAR,
    NEARLY_ALL,
    REMAINS,
    ROUNDING,
    SENSITIVE,
    above_minus_one,
    below_one,
    drops_after,
    falls_steadily,
    far_below_after,
    more_near_after,
    more_often,
    much_better,
    nearly_all_inside,
    one_then_several,
    oscillates,
    sensitive,
    share_below,
    similar,
    slightly_above,
    smaller_alpha,
    steadier,
    stronger_after,
)

EDGE_NOTE = "The authors' code ends a grade of MGDL, and of MGDL alone, once an eigenvalue is below -0.95; so do we."
RATE_NOTE = "Each method at the rate with the lowest validation loss, as the paper's captions give them."
CHART_NOTE = (
    "The recorded run of SGDL has the rate 0.05, its caption says 0.02; the text describes the picture of 0.05."
)
DENOISING_NOTE = "Rate, beta and lambda are recorded for Butterfly at noise 10; elsewhere the same is our choice."
UPPER_NOTE = (
    "Section 6 calls the largest eigenvalues slightly above 1 elsewhere. Directions in which a ReLU network is only "
    "rescaled, and neurons that sleep, give 1 exactly: the open interval needs a Hessian that no such network has."
)
LOWER, UPPER = (
    "all recorded ones above -1",
    f"all recorded ones at most 1 + {ROUNDING:g}, which the authors' precision resolves",
)
ROSE = f"rises of at least {OSCILLATES} dB per record"
SLIGHT = f"at least {SLIGHTLY} dB per record before, at least {OSCILLATES} and more than that after"


def claims() -> Iterator[Claim]:
    yield from _setting_1()
    yield from _setting_2()
    for number in (1, 2):
        yield from _both(number)
        yield from _multiscale(number)
    for image in ("resolution_chart", "cameraman", "barbara", "butterfly"):
        yield from _regression(image)
    for image in ("butterfly", "barbara"):
        for noise in (10, 30):
            yield from _denoising(image, noise)


def _synthetic(setting: int, method: str, **where) -> Need:
    """The run at the caption's rate, unless ``learning_rate`` says otherwise (None: at any rate)."""
    where = {"learning_rate": SYNTHETIC_RATES[str(setting), method]} | where
    given = {name: value for name, value in where.items() if value is not None}
    return Need(f"setting {setting} {method}", "descent",
                {"config": "synthetic spectrum", "setting": setting, "method": method, **given})  # fmt: skip


def _setting_1() -> Iterator[Claim]:
    place, sgdl, mgdl = "Section 6, Figure 2", _synthetic(1, "SGDL"), _synthetic(1, "MGDL")
    yield Claim(
        "eig-synthetic/1/sgdl-below", place,
        "Setting 1, SGDL: the smallest eigenvalue remains significantly below -1.",
        f"below {FAR_BELOW} in at least {REMAINS:.0%} of the spectra", (sgdl,), share_below(0, FAR_BELOW, REMAINS),
        RATE_NOTE,
    )  # fmt: skip
    yield Claim(
        "eig-synthetic/1/sgdl-several", place, "Setting 1, SGDL: the eigenvalues 1 to 5 stay below or near -1.",
        f"the eigenvalue with index 5 below {NEAR} in at least {REMAINS:.0%} of the spectra", (sgdl,),
        share_below(5, NEAR, REMAINS), RATE_NOTE,
    )  # fmt: skip
    yield Claim(
        "eig-synthetic/1/sgdl-oscillates", place,
        "Setting 1, SGDL: the loss oscillates moderately in the first 100,000 epochs, more strongly after them.",
        SLIGHT, (sgdl,), stronger_after(100_000, first="slightly"), RATE_NOTE,
    )  # fmt: skip
    yield Claim(
        "eig-synthetic/1/sgdl-phases", place,
        "Setting 1, SGDL: three eigenvalues are below or near -1 in the first 100,000 epochs, more of them after.",
        f"number of eigenvalues below {NEAR}: median 2 to 4 before, a larger mean after", (sgdl,),
        more_near_after(100_000, first=3), RATE_NOTE,
    )  # fmt: skip
    yield Claim(
        "eig-synthetic/1/sgdl-largest", place, "Setting 1, SGDL: all ten largest eigenvalues remain slightly above 1.",
        f"all above 1, by at most {ABOVE_ONE}", (sgdl,), slightly_above, RATE_NOTE, (Status.FAILS,),
    )  # fmt: skip
    yield Claim(
        "eig-synthetic/1/similar", "Section 6, Figure 17", "Setting 1: SGDL and MGDL are similarly accurate.",
        f"neither test loss at most {MUCH_BETTER:g} times the other", (sgdl, mgdl), similar, RATE_NOTE,
        is_restless=ends_restless,
    )  # fmt: skip


def _setting_2() -> Iterator[Claim]:
    place, sgdl, mgdl = "Section 6, Figure 16", _synthetic(2, "SGDL"), _synthetic(2, "MGDL")
    start = "Setting 2, SGDL: in the first 200,000 epochs all eigenvalues fall in (-1, 1)"
    yield Claim(
        "eig-synthetic/2/sgdl-first-lower", place, f"{start}: the lower edge.", f"{LOWER}, up to there", (sgdl,),
        above_minus_one(200_000), RATE_NOTE, (Status.FAILS,),
    )  # fmt: skip
    yield Claim(
        "eig-synthetic/2/sgdl-first-upper", place, f"{start}: the upper edge.", f"{UPPER}, up to there", (sgdl,),
        below_one(200_000), f"{UPPER_NOTE} {RATE_NOTE}", (Status.FAILS,),
    )  # fmt: skip
    yield Claim(
        "eig-synthetic/2/sgdl-drops", place,
        "Setting 2, SGDL: after 200,000 epochs the smallest eigenvalue drops to -1.",
        "at or below -1 in some spectrum after that", (sgdl,), drops_after(200_000), RATE_NOTE,
    )  # fmt: skip
    yield Claim(
        "eig-synthetic/2/sgdl-second", place,
        "Setting 2, SGDL: after 200,000 epochs the second smallest eigenvalue approaches -1.",
        f"below {NEAR} in some spectrum after that", (sgdl,), drops_after(200_000, NEAR, index=1), RATE_NOTE,
    )  # fmt: skip
    yield Claim(
        "eig-synthetic/2/sgdl-oscillates", place,
        "Setting 2, SGDL: the loss oscillates after 200,000 epochs, having fallen stably before.",
        f"{ROSE} after 200,000 epochs, less before", (sgdl,), stronger_after(200_000, first="steadily"), RATE_NOTE,
    )  # fmt: skip
    yield Claim(
        "eig-synthetic/2/sgdl-stronger", place,
        "Setting 2, SGDL: the oscillations become even stronger after 600,000 epochs.",
        f"{ROSE} after 600,000 epochs, and more than from 200,000 on", (sgdl,), stronger_after(600_000, since=200_000),
        RATE_NOTE,
    )  # fmt: skip
    yield Claim(
        "eig-synthetic/2/sgdl-late", place,
        "Setting 2, SGDL: after 600,000 epochs the smallest eigenvalue drops significantly below -1, and more "
        "eigenvalues approach -1.",
        f"median of the smallest below {FAR_BELOW}; more eigenvalues below {NEAR} than from 200,000 to 600,000",
        (sgdl,), far_below_after(600_000, since=200_000), RATE_NOTE,
    )  # fmt: skip
    yield Claim(
        "eig-synthetic/2/better", "Section 6, Figure 17", "Setting 2: MGDL is much more accurate than SGDL.",
        f"test loss at most {MUCH_BETTER:g} times SGDL's", (sgdl, mgdl), much_better, RATE_NOTE,
        is_restless=ends_restless,
    )  # fmt: skip


def _both(number: int) -> Iterator[Claim]:
    place = "Section 6, Figure 2" if number == 1 else "Section 6, Figure 16"
    sgdl, mgdl, name = _synthetic(number, "SGDL"), _synthetic(number, "MGDL"), f"Setting {number}, MGDL"
    yield Claim(
        f"eig-synthetic/{number}/mgdl-inside", place,
        f"{name}: nearly all of the ten smallest eigenvalues stay within (-1, 1) in all grades.",
        f"at least {NEARLY_ALL:.0%} of those recorded above -1", (mgdl,), nearly_all_inside,
        f"The upper edge is a claim of the largest. {RATE_NOTE}",
    )  # fmt: skip
    yield Claim(
        f"eig-synthetic/{number}/mgdl-largest", place, f"{name}: the largest eigenvalues remain slightly above 1.",
        f"all above 1, by at most {ABOVE_ONE}", (mgdl,), slightly_above, RATE_NOTE, (Status.FAILS,),
    )  # fmt: skip
    yield from _edges(f"eig-synthetic/{number}", "Section 1", f"Setting {number}", mgdl, "confined", RATE_NOTE)
    yield from _calm(f"eig-synthetic/{number}", place, f"Setting {number}", sgdl, mgdl, RATE_NOTE, has_wild=False)
    yield Claim(
        f"eig-synthetic/{number}/count", "Section 6",
        f"Setting {number}, SGDL: oscillations are closely linked to the number of eigenvalues near or below -1.",
        f"rank correlation of rises with the number of eigenvalues below {NEAR}, over windows between spectra: its "
        f"95 % interval (by blocks of windows) above 0, and up to {CLOSE} at least", (sgdl,), goes_with_the_number,
        RATE_NOTE,
    )  # fmt: skip
    yield Claim(
        f"eig-synthetic/{number}/smallest", "Section 6",
        f"Setting {number}: the smallest eigenvalue has more influence on the loss than the largest.",
        "the larger rank correlation with rises over windows of both methods: the difference's 95 % interval above 0",
        (sgdl, mgdl), smallest_matters_more, RATE_NOTE,
    )  # fmt: skip
    yield Claim(
        f"eig-synthetic/{number}/alpha", "Section 3, after Theorem 2",
        f"Setting {number}: alpha_l, the largest ||H|| of a grade, is far below SGDL's alpha.",
        "at every rate at which both were run, every grade's largest recorded ||H|| at most half of SGDL's",
        tuple(_synthetic(number, method, learning_rate=None) for method in ("SGDL", "MGDL")), smaller_alpha,
        "Descent tends to where ||H|| is about 2 / rate, so that unlike rates would compare the rates.",
    )  # fmt: skip


def _edges(
    name: str, place: str, what: str, mgdl: Need, word: str, note: str, *, edge: str = "", **options
) -> Iterator[Claim]:
    statement = f"{what}: all of MGDL's eigenvalues are {word} within (-1, 1)"
    for end, rule, tolerance in (("lower", above_minus_one(), LOWER), ("upper", below_one(), UPPER)):
        notes = note if end == "lower" else f"{UPPER_NOTE} {note}"
        yield Claim(f"{name}/mgdl-{end}", place, f"{statement}: the {end} edge.", tolerance, (mgdl,), rule, notes,
                    (Status.FAILS,), constructed=edge if end == "lower" else "", **options)  # fmt: skip


def _calm(
    name: str,
    place: str,
    what: str,
    sgdl: Need,
    mgdl: Need,
    note: str,
    *,
    has_wild: bool = True,
    edge: str = "",
    **options,
) -> Iterator[Claim]:
    """SGDL oscillates, MGDL falls steadily, and more steadily than SGDL: three claims."""
    if has_wild:
        yield Claim(f"{name}/sgdl-oscillates", place, f"{what}: SGDL's loss oscillates.", ROSE, (sgdl,), oscillates,
                    note, **options)  # fmt: skip
    yield Claim(
        f"{name}/mgdl-steady", place, f"{what}: MGDL's loss falls steadily.",
        f"rises under {OSCILLATES} dB per record, every grade ends below its start", (mgdl,), falls_steadily, note,
        constructed=edge, **options,
    )  # fmt: skip
    yield Claim(
        f"{name}/steadier", place, f"{what}: MGDL trains more steadily than SGDL.",
        "rises per record under half of SGDL's", (sgdl, mgdl), steadier, note, **options,
    )  # fmt: skip


def _multiscale(number: int) -> Iterator[Claim]:
    place = f"Section 7, Figure {24 + number}"
    msdl, mgdl = _synthetic(number, "MSDL"), _synthetic(number, "MGDL")
    yield Claim(
        f"msdl-synthetic/{number}/below", place, f"Setting {number}: MSDL has eigenvalues near or below -1 more often.",
        f"share of recorded smallest eigenvalues below {NEAR}", (msdl, mgdl), more_often, RATE_NOTE,
    )  # fmt: skip
    yield Claim(
        f"msdl-synthetic/{number}/oscillates", place, f"Setting {number}: MSDL's loss oscillates.", ROSE, (msdl,),
        oscillates, RATE_NOTE,
    )  # fmt: skip
    yield Claim(
        f"msdl-synthetic/{number}/steadier", place, f"Setting {number}: MGDL trains more steadily than MSDL.",
        "rises per record under half of MSDL's", (msdl, mgdl), steadier, RATE_NOTE,
    )  # fmt: skip
    yield Claim(
        f"msdl-synthetic/{number}/rates", "Section 7, Figure 28",
        f"Setting {number}: MSDL is more sensitive to the learning rate than MGDL.",
        f"fewer rates of the sweep with a training loss within a factor of {SENSITIVE} of the best of both",
        (sweep(number, "MSDL"), sweep(number, "MGDL")), sensitive, GRID_NOTE, is_restless=ends_restless,
    )  # fmt: skip


def _regression(image: str) -> Iterator[Claim]:
    figure = {"resolution_chart": 3, "cameraman": 18, "barbara": 19, "butterfly": 20}[image]
    where = {"config": "image spectrum", "image": image}
    place, name = f"Section 6, Figure {figure}", f"eig-image-regression/{image}"
    note = f"{EDGE_NOTE} {CHART_NOTE}" if image == "resolution_chart" else EDGE_NOTE
    rates = {"SGDL": CHART_RECORDED_RATE, "MGDL": 0.2} if image == "resolution_chart" else {}
    yield from _image_pair(name, place, title(image), "descent", where, note, rates=rates, edge=EDGE_NOTE)
    calm = {"resolution_chart": 130_000, "cameraman": 50_000, "barbara": 80_000, "butterfly": 200_000}[image]
    sgdl = (_need(title(image), "SGDL", "descent", where, rates),)
    if rates:
        (caption,) = (_need(title(image), "SGDL", "descent", where, {"SGDL": IMAGE_RATES[image, "SGDL"]}),)
        yield Claim(
            f"{name}/caption/sgdl-oscillates", place,
            f"{title(image)}: SGDL's loss oscillates at the caption's rate, {IMAGE_RATES[image, 'SGDL']}.", ROSE,
            (caption,), oscillates, CHART_NOTE,
        )  # fmt: skip
    yield Claim(
        f"{name}/sgdl-stronger", place,
        f"{title(image)}: SGDL's loss oscillates slightly in the first {calm:,} epochs, more strongly after them.",
        SLIGHT, sgdl, stronger_after(calm, first="slightly"), EDGE_NOTE,
    )  # fmt: skip
    yield Claim(
        f"{name}/sgdl-multiple", place,
        f"{title(image)}, SGDL: only the smallest eigenvalue is close to -1 in the first {calm:,} epochs, several "
        "are after them.",
        f"before: the smallest below {NEAR} at some look, the second in under half of them; after: that more often",
        sgdl, one_then_several(calm), EDGE_NOTE,
    )  # fmt: skip


def _denoising(image: str, noise: int) -> Iterator[Claim]:
    figure = {("butterfly", 10): 21, ("butterfly", 30): 22, ("barbara", 10): 23, ("barbara", 30): 24}[image, noise]
    where = {"config": "denoising spectrum", "image": image, "noise": noise, "variant": ""}
    yield from _image_pair(f"eig-image-denoising/{image}/{noise}", f"Section 6, Figure {figure}",
                           f"{title(image)}, noise {noise}", "denoising descent", where, DENOISING_NOTE,
                           is_recorded=(image, noise) == ("butterfly", 10))  # fmt: skip


def _image_pair(
    name: str,
    place: str,
    what: str,
    kind: str,
    where: dict,
    note: str,
    *,
    is_recorded: bool = True,
    rates: dict | None = None,
    edge: str = "",
) -> Iterator[Claim]:
    """``edge`` says which rule of the method keeps it from oscillating, where there is one."""
    sgdl, mgdl = (_need(what, method, kind, where, rates or {}) for method in ("SGDL", "MGDL"))
    yield Claim(
        f"{name}/sgdl-near", place, f"{what}: SGDL's smallest eigenvalue comes close to -1 or below.",
        f"below {NEAR} in some spectrum", (sgdl,), drops_after(0, NEAR), note, (Status.HOLDS,),
        is_recorded=is_recorded,
    )  # fmt: skip
    yield from _edges(name, place, what, mgdl, "kept", note, is_recorded=is_recorded, edge=edge)
    yield from _calm(name, place, what, sgdl, mgdl, note, is_recorded=is_recorded, edge=edge)


def _need(what: str, method: str, kind: str, where: dict, rates: dict) -> Need:
    rate = {"learning_rate": rates[method]} if method in rates else {}
    return Need(f"{what} {method}", kind, {**where, "method": method, **rate})
