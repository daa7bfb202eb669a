"""Claims and verdicts: which results decide a claim, whether they may, and what its rule says.

A claim needs results (``Need``: a kind of experiment and some of its settings). Of those that were saved, the most
faithful ones are taken: the paper recipe first, then the fewest changed settings, then the epochs nearest to the
paper's. The rule always runs, so that its numbers are seen; whether it decides depends on how the results came about:

quick recipe, stand-in picture, shrunk picture, other hyperparameters, other training, more epochs    never
fewer epochs than the paper's    only in the direction that more epochs could not undo (``Claim.early``), unless the
                                 runs diverged or came to rest: more epochs would have changed nothing
a rate or strength of our choice where the paper's is not recorded    may confirm, never refute
other draws than the authors' (seeds above 0)    are told of beside the verdict; alone they may confirm, never refute

Seed 0 is the authors' own draw. Its copies differ by 1e-7 in their initial weights: where they disagree about a claim,
rounding decides it, and that is the verdict. A claim about where a restless run ends needs ``ENOUGH`` copies.
"""

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from multigrade.files import finite
from multigrade.training.record import Outcome

from .. import recipes
from ..job import Saved
from ..setup import Setup

DRAW = "noise_seed"  # which draw of the noise; any is as good, but all runs of a claim must have seen the same

ENDED = (Outcome.PLATEAU, Outcome.OBSERVER)
PAPER = "paper"  # the printed number among the numbers of a finding


ENOUGH = 5  # copies of a run that oscillates; our choice


class Status(enum.StrEnum):
    HOLDS = "holds"
    CONSTRUCTED = "holds by construction"
    FAILS = "does not hold"
    ROUNDING = "decided by rounding"
    OTHER_DRAWS = "refuted, but with our draws"
    NOT_REACHED = "not reached with our settings"
    NOT_COMPARABLE = "not comparable"
    NOT_RUN = "not yet replayed"

    @property
    def plural(self) -> str:
        """The verdict on several claims: "3 hold"."""
        plurals = {Status.HOLDS: "hold", Status.CONSTRUCTED: "hold by construction", Status.FAILS: "do not hold"}
        return plurals.get(self, str(self))


DECIDED = (Status.HOLDS, Status.CONSTRUCTED, Status.FAILS, Status.ROUNDING)


class Need(NamedTuple):
    """Results of one kind whose settings have these values, named for the rule. Several may match: rates, seeds.

    A tuple of values means any of them.
    """

    role: str
    kind: str
    where: Mapping[str, Any]

    def matches(self, saved: Saved, recipe: str) -> bool:
        settings, setup = saved.job.settings, saved.job.setup
        is_wanted = saved.job.kind == self.kind and (setup.recipe or recipe) == recipe
        is_wanted &= setup.config in recipes.CONFIGS  # not from outside the catalogue
        return is_wanted and all(
            settings.get(name) in value if isinstance(value, tuple) else settings.get(name) == value
            for name, value in self.where.items()
        )


Cells = Mapping[str, list[Saved]]
"""The results for each role."""


class Finding(NamedTuple):
    """What a rule says: whether the claim holds (None: these results cannot tell), why, and the deciding numbers.

    ``alone`` is the sentence without the paper's number, for pictures that are not the paper's.
    """

    holds: bool | None
    sentence: str
    numbers: Mapping[str, float | None]
    alone: str = ""


@dataclasses.dataclass(frozen=True)
class Claim:
    """One claim of the paper.

    ``note`` says what a reader must know to judge the verdict, first of all where hyperparameters were chosen by ground
    truth. ``early`` names the statuses that a run with fewer epochs than the paper's may give. ``any_size`` is for
    theorems, which hold with any settings. ``printed`` is the number where the claim is one. ``cell`` says which simple
    methods did the same. ``is_recorded`` is False where the paper does not say with which rate or strengths it got
    there: ours may miss what theirs reach. ``undecidable`` says why no run can decide. ``constructed`` says why the
    claim holds whatever the method is worth: such verdicts are counted apart. ``recorded`` is the authors' own figure,
    read off their notebooks, and ``target`` the same as a number: copies to both sides of it are decided by rounding.
    ``is_restless`` tells of runs whether rounding may decide about the claim, which is about their end.
    """

    id: str
    place: str
    statement: str
    tolerance: str
    needs: tuple[Need, ...]
    rule: Callable[[Cells], Finding]
    note: str = ""
    early: tuple[Status, ...] = ()
    any_size: bool = False
    printed: float | None = None
    cell: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_recorded: bool = True
    undecidable: str = ""
    constructed: str = ""
    recorded: str = ""
    target: float | None = None
    is_restless: Callable[[Cells], bool] = lambda cells: False


class Verdict(NamedTuple):
    """``keys`` name the deciding jobs, ``baselines`` what simple methods reach on the same cell (dB).

    ``copies`` is how many copies of the authors' draw decided, ``others`` the verdict of each further draw.
    """

    claim: Claim
    status: Status
    sentence: str
    numbers: Mapping[str, float | None]
    keys: tuple[str, ...]
    baselines: Mapping[str, float]
    recipe: str | None
    copies: int = 0
    others: tuple[Status, ...] = ()

    def to_json(self) -> dict[str, Any]:
        told = {
            name: getattr(self.claim, name) for name in ("id", "place", "statement", "tolerance", "note", "recorded")
        }
        found = {"status": str(self.status), "sentence": self.sentence, "numbers": finite(self.numbers)}
        found |= {"copies": self.copies, "other draws": [str(status) for status in self.others]}
        return {**told, **found, "keys": list(self.keys), "baselines": finite(self.baselines), "recipe": self.recipe}


def judge(claim: Claim, results: Sequence[Saved]) -> Verdict:
    """The verdict on one claim, from the most faithful results that there are."""
    relevant = [saved for saved in results if any(saved.job.kind == need.kind for need in claim.needs)]
    most: dict[str, list[Saved]] = {}
    for recipe in recipes.NAMES:
        matching = {need.role: [s for s in relevant if need.matches(s, recipe)] for need in claim.needs}
        cells = _of_shared_seeds({role: _most_faithful(found) for role, found in _paired(matching).items()})
        found = {role: cell for role, cell in cells.items() if cell}
        if len(found) == len(cells):
            return _decide(claim, cells, results)
        most = max(most, found, key=len)
    if claim.undecidable:
        return Verdict(claim, Status.NOT_COMPARABLE, claim.undecidable, {}, _keys(most), {}, None)
    missing = [need.role for need in claim.needs if need.role not in most]
    share = f"{len(missing)} of {len(claim.needs)} results are missing: " if most else "no result: "
    told = ", ".join(missing[:4]) + (" and more" if len(missing) > 4 else "")
    return Verdict(claim, Status.NOT_RUN, share + told, {}, _keys(most), {}, None)


def _paired(matching: Cells) -> Cells:
    """Results of one length and one draw of the noise, where every role has such: only they can be compared.

    Of several such sets, the one whose least faithful member is the most faithful.
    """
    variants = [{_variant(saved) for saved in found} for found in matching.values()]
    shared = set.intersection(*variants) if variants else set()

    def of(variant: tuple) -> dict[str, list[Saved]]:
        return {role: [saved for saved in found if _variant(saved) == variant] for role, found in matching.items()}

    def distance(variant: tuple) -> tuple:
        return max(min(map(_faithfulness, found)) for found in of(variant).values())

    return of(min(shared, key=distance)) if shared else matching


def _variant(saved: Saved) -> tuple:
    epochs, full = _epochs(saved.job.setup)
    return saved.job.setup.noise_seed, epochs / full if full else 0.0


def _most_faithful(matching: Sequence[Saved]) -> list[Saved]:
    """Those of the most faithful variant: one for each rate and seed, seeds rising."""
    if not matching:
        return []
    best = min(_faithfulness(saved) for saved in matching)
    chosen = (saved for saved in matching if _faithfulness(saved) == best)
    return sorted(chosen, key=lambda saved: (saved.job.setup.seed, saved.job.setup.copy))


def _of_shared_seeds(cells: Cells) -> Cells:
    """The runs of those seeds that there are for every role and rate, if any: others would favour one side."""
    seeds: dict[tuple, set[int]] = {}
    for role, cell in cells.items():
        for saved in cell:
            seeds.setdefault((role, saved.job.setup.learning_rate), set()).add(saved.job.setup.seed)
    shared = set.intersection(*seeds.values()) if seeds else set()
    if not shared:
        return cells
    return {role: [saved for saved in cell if saved.job.setup.seed in shared] for role, cell in cells.items()}


def _faithfulness(saved: Saved) -> tuple:
    """Smaller is nearer to the paper; the changed values themselves are last, so that variants are not mixed."""
    setup = saved.job.setup
    values = tuple(str(saved.job.settings.get(name)) for name in setup.changed)
    epochs, full = _epochs(setup)
    return bool(setup.stand_in), len(_departures(setup)), abs(epochs - full), tuple(setup.changed), values


def _departures(setup: Setup) -> list[str]:
    """Settings that make another training of it than the paper's; fewer epochs are not among them."""
    epochs, full = _epochs(setup)
    harmless = [DRAW, *(["epochs"] if epochs <= full else [])]
    # Where nothing ends a grade by its eigenvalues, it does not matter how often they are looked at.
    harmless += ["spectrum_every"] if setup.edge is None else []
    return [name for name in setup.changed if name not in harmless]


def _epochs(setup: Setup) -> tuple[int, int]:
    """Of the run and of the paper; 0 where a recipe counts otherwise."""
    full = getattr(recipes.CONFIGS[setup.config]["paper"], "epochs", None)
    return setup.epochs or 0, full or 0


def _decide(claim: Claim, cells: Cells, results: Sequence[Saved]) -> Verdict:
    used = [saved for cell in cells.values() for saved in cell]
    # Theorems have no draw of the authors: their rules look at all seeds.
    seeds = [0] if claim.any_size else sorted({saved.job.setup.seed for saved in used})
    draws = [cells] if claim.any_size else [
        {role: [s for s in cell if s.job.setup.seed == seed] or cell for role, cell in cells.items()} for seed in seeds
    ]  # fmt: skip
    first, *others = [_of_copies(claim, draw) for draw in draws]
    status, sentence, numbers, copies = first
    if seeds[0] > 0 and status is Status.FAILS:
        status, sentence = Status.OTHER_DRAWS, f"seed {seeds[0]}, not the authors' draw: {sentence}"
    recipe = next((saved.job.setup.recipe for saved in used if saved.job.setup.recipe), None)
    keys, simple = _keys(cells), _baselines(claim, used, results)
    return Verdict(claim, status, sentence, numbers, keys, simple, recipe, copies, tuple(each[0] for each in others))


def _of_copies(claim: Claim, cells: Cells) -> tuple[Status, str, Mapping[str, float | None], int]:
    """What the copies of one draw say together: status, sentence, numbers, how many copies there are."""
    copies = [0] if claim.any_size else sorted({saved.job.setup.copy for cell in cells.values() for saved in cell})
    found = [_of_one(claim, cells if claim.any_size else _of_copy(cells, copy)) for copy in copies]
    statuses = [status for status, _, _ in found]
    status, sentence, numbers = found[0]
    for name in numbers if len(found) > 1 else ():
        values = [each[name] for _, _, each in found if each.get(name) is not None]
        numbers = {**numbers, f"{name} min": min(values, default=None), f"{name} max": max(values, default=None)}
    decided = [each for each in statuses if each in DECIDED]
    ours = [each["ours"] for _, _, each in found if each.get("ours") is not None] if claim.target is not None else []
    if set(decided) == {Status.FAILS} and ours and min(ours) <= claim.target <= max(ours):
        told = f"from {min(ours):.6g} to {max(ours):.6g} in {len(found)} copies, {claim.target:.6g} recorded"
        return Status.ROUNDING, told, numbers, len(found)
    if len(set(decided)) > 1:
        say: dict[Status, str] = {}
        for each, each_told, _ in found:
            say.setdefault(each, each_told)
        told = "; ".join(f"{each} in {statuses.count(each)} of {len(found)} copies ({say[each]})" for each in say)
        return Status.ROUNDING, told, numbers, len(found)
    if status in DECIDED and len(copies) < ENOUGH and claim.is_restless(cells):
        told = f"{status} so far, in {len(copies)} of the {ENOUGH} copies that such a run needs: {sentence}"
        return Status.NOT_RUN, told, numbers, len(found)
    told = f"{sentence} (the same in {len(found)} copies)" if len(found) > 1 else sentence
    return status, told, numbers, len(found)


def _of_copy(cells: Cells, copy: int) -> Cells:
    """The runs of this copy, and of those at whose rate there is no such one, the first."""
    chosen: dict[str, list[Saved]] = {}
    for role, cell in cells.items():
        at: dict[float | None, dict[int, Saved]] = {}
        for saved in cell:
            at.setdefault(saved.job.setup.learning_rate, {})[saved.job.setup.copy] = saved
        chosen[role] = [copies.get(copy) or copies[min(copies)] for copies in at.values()]
    return chosen


def _of_one(claim: Claim, cells: Cells) -> tuple[Status, str, Mapping[str, float | None]]:
    used = [saved for cell in cells.values() for saved in cell]
    try:
        finding = claim.rule(cells)
    except (KeyError, IndexError, TypeError, AttributeError) as error:  # one odd result must not end the whole ledger
        return Status.NOT_COMPARABLE, f"a result lacks what the rule reads ({type(error).__name__}: {error})", {}
    if finding.alone and any(_is_other_picture(saved) for saved in used):
        numbers = {name: number for name, number in finding.numbers.items() if name != PAPER}
        finding = finding._replace(sentence=finding.alone, numbers=numbers)
    return *_status(claim, finding, used), finding.numbers


def _is_other_picture(saved: Saved) -> bool:
    """Whether a run saw another picture than the paper's, or a shrunk one: no paper number is compared with it."""
    return bool(saved.job.setup.stand_in) or "size" in saved.job.setup.changed


def _status(claim: Claim, finding: Finding, used: Sequence[Saved]) -> tuple[Status, str]:
    if reason := claim.undecidable.rstrip(".") or _obstacle(claim, used):
        return Status.NOT_COMPARABLE, f"{reason}; {finding.sentence}"
    if finding.holds is None:
        return Status.NOT_COMPARABLE, finding.sentence
    if finding.holds:
        seen = Status.CONSTRUCTED if claim.constructed else Status.HOLDS
    else:
        seen = Status.FAILS if claim.is_recorded else Status.NOT_REACHED
    share = _share_of_epochs(used)
    if share is None:
        return seen, finding.sentence
    epochs, full = share
    told = f"{finding.sentence}, after {epochs:,} of {full:,} epochs"
    if seen in claim.early:
        return seen, told
    return Status.NOT_COMPARABLE, f"{seen} so far: {told}"


def _obstacle(claim: Claim, used: Sequence[Saved]) -> str | None:
    """Why these results may not decide, or None."""
    setups = [saved.job.setup for saved in used]
    recipe = next((each.recipe for each in setups if each.recipe), "paper")
    if recipe == "quick":
        return "quick recipe"
    if any(each.stand_in for each in setups):
        return "stand-in picture"
    if claim.any_size:
        return None
    if len({each.noise_seed for each in setups} - {None}) > 1:
        return "different draws of the noise"
    if recipe != "paper" and any(each.config in recipes.IMAGE_TASKS for each in setups):
        return f"{recipe} recipe, not the paper's training"
    changed = {name for each in setups for name in _departures(each)}
    return f"changed: {', '.join(sorted(changed))}" if changed else None


def _share_of_epochs(used: Sequence[Saved]) -> tuple[int, int] | None:
    """Fewest epochs of a run, and the paper's, if they are fewer and more would have made a difference."""
    shares = (_epochs(saved.job.setup) for saved in used if not _is_final(saved))
    return min(((epochs, full) for epochs, full in shares if 0 < epochs < full), default=None)


def _is_final(saved: Saved) -> bool:
    """Whether a run ended before its epochs did: it diverged, or every grade of it stood still or met its edge."""
    outcomes = [record.outcome for record in saved.result.records]
    return Outcome.DIVERGED in outcomes or (bool(outcomes) and all(outcome in ENDED for outcome in outcomes))


def _baselines(claim: Claim, used: Sequence[Saved], results: Sequence[Saved]) -> dict[str, float]:
    """Simple methods on the same cell of the same picture at the same size, with the same noise."""
    if not claim.cell:
        return {}
    given = used[0].job.settings
    same = {**{name: given[name] for name in ("size", DRAW) if name in given}, **claim.cell}
    for saved in results:
        is_same = saved.job.kind == "baseline" and saved.job.data == used[0].job.data
        if is_same and all(saved.job.settings.get(name) == value for name, value in same.items()):
            return dict(saved.result.metrics["methods"])
    return {}


def _keys(cells: Cells) -> tuple[str, ...]:
    return tuple(dict.fromkeys(saved.job.key for cell in cells.values() for saved in cell))
