"""The page of verdicts: every claim, our figure and the run that decided it, as Markdown for the documents.

The page is made from results alone, and from the files ``tried.md`` beside them: what was tried before a claim was said
to fail, by the first letters of its name.
"""

import dataclasses
import functools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

import numpy as np

from .. import catalogue, costs, recipes, rules
from ..claims import Status, Verdict, verdicts
from ..claims.ledger import DECIDED, ENOUGH
from ..claims.measures import ends_restless
from ..job import Job, Saved
from . import searches

COUNTED = tuple(Status)
PARTED = 1e-3  # relative difference of losses at which copies have parted; our choice
# What a reader in a hurry asks, and the claims that answer, by the ends of their names.
QUESTIONS = (
    ("The theorems, measured on small networks", ("theorem/",), ("",)),
    ("The degraded inputs of Tables 2 and 3 have the printed PSNR", ("table2", "table3"), ("/input",)),
    ("MGDL trains more steadily than SGDL or MSDL", ("eig", "msdl"), ("/steadier",)),
    ("MGDL's loss falls steadily", ("eig",), ("/mgdl-steady",)),
    ("SGDL's or MSDL's loss oscillates, in the phases that the text names", ("eig", "msdl"),
     ("oscillates", "sgdl-stronger")),
    ("SGDL's or MSDL's eigenvalues are near or below -1, as often as the text says", ("eig", "msdl"),
     ("below", "several", "drops", "second", "late", "phases", "near", "multiple", "sgdl-first-lower")),
    ("MGDL's eigenvalues stay above -1", ("eig",), ("mgdl-lower", "mgdl-inside")),
    ("Eigenvalues stay below 1, or slightly above it, as the text has it", ("eig",), ("upper", "largest")),
    ("Oscillation goes with the number of eigenvalues near -1, not with the largest; grades are flatter", ("eig",),
     ("count", "/smallest", "alpha")),
    ("MGDL is as accurate, or better, where the text says so", ("eig-synthetic",), ("similar", "better")),
    ("The learning rates that work", ("lr", "msdl"),
     ("range", "fails", "wider", "best", "struggles", "caption", "rates", "better", "stable")),
    ("The numbers and rankings of Tables 1 to 3, and Figure 5", ("table", "figure"),
     ("train", "test", "sgdl", "mgdl", "better", "oscillation", "gains")),
    ("A replay ends where the authors' recorded run ended", ("recorded",), ("",)),
)  # fmt: skip


# Where ``--recipe paper`` is still something else than what the authors ran, and what that does.
DEPARTURES = (
    ("all", "an A100, whose matrix products JAX rounds to 10 bits (TF32) unless told otherwise", "float32 on a CPU",
     "a run that oscillates parts from theirs where rounding decides; calm runs agree to 1e-4"),
    ("synthetic data, MSDL, spectra", "losses recorded after steps 1, 101, 201, ...", "after steps 0, 100, 200, ...",
     "a grade that stands still ends 100 steps earlier"),
    ("spectra", "eigenvalues in single precision, derivative of ReLU's step at 0 taken as 1", "double, to 1e-5; 1/2",
     "step 0 alone; the upper edge is judged to 1e-3"),
    ("Table 1, learning rates on images: SGDL", "the stopping rule looks first after one record", "after 20 records",
     "one window of 20 records"),
    ("synthetic data: learning rates", "rates of the sweep are not recorded", "a grid of 15 with all that are named",
     "a caption's best rate is the best of another grid"),
    ("Table 1", "the rates are not recorded", "1e-3, their default", "one-sided: may confirm, never refute"),
    ("Tables 2 and 3 but for Butterfly at noise 10 and blur 3", "chosen by ground truth, not recorded",
     "those of Butterfly, lambda in proportion to the noise", "one-sided"),
)  # fmt: skip


def page(results: Sequence[Saved], tried: Mapping[str, str]) -> str:
    """The whole page, from results and what was tried."""
    found = verdicts(results)
    alone = sum(_is_alone(verdict, results) for verdict in found)
    parts = [
        _head(found, alone),
        _hurry(found),
        _counts(found),
        _beside(),
        _copies(results),
        _audited(found),
        _costs(results),
    ]
    for name in dict.fromkeys(verdict.claim.id.partition("/")[0] for verdict in found):
        chosen = [verdict for verdict in found if verdict.claim.id.partition("/")[0] == name]
        parts.append(_item(name, chosen, results, tried))
    return "\n".join(parts)


def _head(found: Sequence[Verdict], alone: int) -> str:
    replays = [verdict for verdict in found if verdict.claim.id.startswith("recorded/")]
    papers = [verdict for verdict in found if verdict not in replays]
    changed = [verdict.claim.id for verdict in found if rules.changed(verdict.claim.id)]
    return f"""# Verdicts

Of **{len(papers)} claims of the paper {_decided(papers)}**.
Of {len(found) - len(papers)} outcomes that the authors recorded, {_decided(replays)}: does a replay end where their run
ended?
{alone} of these verdicts rest on one copy of a run that oscillates, and say so.

Only runs by `--recipe paper` decide. They start from the authors' own random numbers (weights, points, noise) and take
their networks, derivative of ReLU at 0, rates, epochs and stopping rules, experiment by experiment; what still departs
stands in a table below. What was decided before by other draws, or with another derivative at 0, is undecided again
until it is replayed: [what one point decides](what-one-point-decides.md) tells why.
[What was not done](what-was-not-done.md) says whom we did not ask.

- **holds by construction**: the authors' code ends or forbids what would refute it. Counted apart.
- **decided by rounding**: copies of a run whose initial weights differ by 1e-7 disagree. Seed 0 is the authors' draw;
  the verdict is that of its copies, and further seeds are told of beside it. Where a restless run ends needs {ENOUGH}
  copies.
- **refuted, but with our draws**: no run with the authors' draw is there.
- **not reached with our settings**: the paper's rate or strengths are not recorded. Such a claim is one-sided.

Each line has three figures: what is printed or said, what the authors' notebooks recorded, what our run gives.
The rules are frozen since {rules.FROZEN} (hash `{rules.digest()[:16]}` of their sources, kept in
`reproduction/multigrade_paper/rules.json`). The rules of {len(changed)} verdicts were changed after a look at runs,
by an audit of November 2026; their lines say so.

This page is made by `multigrade evidence RUNS -o reproduction/evidence --page docs/verdicts.md` from results, which
lie in `reproduction/evidence/`; `make evidence-check` tells whether it is current.
`multigrade claims reproduction/evidence` prints the same, and
`multigrade report reproduction/evidence` draws the figures.

## For the reader in a hurry
"""


def _decided(found: Sequence[Verdict]) -> str:
    counts = Counter(verdict.status for verdict in found)
    each = ", ".join(f"{counts[status]} {status if counts[status] == 1 else status.plural}"
                     for status in DECIDED if counts[status])  # fmt: skip
    return f"{sum(counts[status] for status in DECIDED)} are decided: {each}"


def _copies(results: Sequence[Saved]) -> str:
    """For each run that has copies: until when their losses agree, and where they end."""
    groups: dict[str, list[Saved]] = {}
    for saved in results:
        if saved.result.records and saved.job.setup.recipe == "paper" and saved.job.setup.seed == 0:
            groups.setdefault(f"{saved.job.item}: {saved.job.label.split(' copy ')[0]}", []).append(saved)
    rows = []
    for name, copies in sorted(groups.items()):
        if len(copies) < 2:
            continue
        first, *others = sorted(copies, key=lambda saved: saved.job.setup.copy)
        steps = functools.reduce(np.intersect1d, (saved.result.records[0].steps for saved in copies))
        losses = [r.train_loss[np.isin(r.steps, steps)] for r in (s.result.records[0] for s in (first, *others))]
        apart = np.flatnonzero(np.ptp(losses, axis=0) > PARTED * np.min(losses, axis=0))
        when = f"{steps[apart[0] - 1]:,} to {steps[apart[0]]:,}" if apart.size and apart[0] else "never"
        ends = np.array([saved.result.metrics["grades_train_loss"][-1] for saved in copies])
        rows.append([name, str(len(copies)), when, f"{np.median(ends):.4g} ({ends.min():.4g} to {ends.max():.4g})"])
    head = ["run", "copies", f"they part by {PARTED:.1%} between epochs", "training loss at the end: median (range)"]
    return f"\n## Where copies part\n\n{_table(head, rows)}" if rows else ""


def _audited(found: Sequence[Verdict]) -> str:
    """Verdicts of before the replays that an audit looked at: all that refuted, and some of those that confirmed."""
    audit = json.loads(files("multigrade_paper").joinpath("audit.json").read_text())
    now = {verdict.claim.id: verdict for verdict in found}
    rows = [[f"`{name}`", told["before"], told["audit"], f"**{now[name].status}**", now[name].sentence]
            for name, told in audit["claims"].items()]  # fmt: skip
    before = ", ".join(
        f"{count} {status}" for status, count in sorted(audit["counts"].items(), key=lambda kind: -kind[1])
    )
    return (
        "\n## What became of the verdicts of before\n\nBefore the replays, by other draws, this page said of "
        f"{sum(audit['counts'].values())} claims: {before}. An audit of November 2026 looked at all that did not "
        "hold and at 25 of those that did, drawn by `random.Random(0)`.\n\n"
    ) + _table(["claim", "before", "what the audit said", "now", "why"], rows)


def _beside() -> str:
    """What still departs from the authors' runs, and their four whole searches."""
    departures = (
        "\n## Where the paper's recipe still departs from the authors' runs\n\nWhere the text says something else than "
        'what was run, the run decides about the recorded figures, and a variant "as written" is run beside it.\n\n'
    ) + _table(["experiment", "the authors", "ours", "effect"], DEPARTURES)
    told = f"{departures}\n## The searches, as searches\n\nThe tables print the best run of a search by ground truth. "
    told += "The authors' notebooks show the whole of four searches, 278 runs. "
    for cell in searches.CELLS:
        best, middle, same = searches.gains(cell)
        told += (f"{cell}: MGDL is ahead by {best:.2f} dB best against best, {middle:.2f} dB median against median, "
                 f"{same:.2f} dB in the median at equal settings. ")  # fmt: skip
    head = ["cell", "method", "runs", "best (printed)", "next two", "median", "lowest",
            "the same settings run twice differ by (median, mean, most)"]  # fmt: skip
    return f"{told}\n\n{_table(head, searches.rows())}"


def _hurry(found: Sequence[Verdict]) -> str:
    lines = []
    for question, starts, ends in QUESTIONS:
        asked = [v for v in found if v.claim.id.startswith(starts) and v.claim.id.endswith(ends)]
        counts = Counter(verdict.status for verdict in asked)
        told = ", ".join(
            f"{counts[status]} {status if counts[status] == 1 else status.plural}"
            for status in COUNTED
            if counts[status]
        )
        lines.append(f"- **{_answer(counts)}** {question}: {told}.")
    return "\n".join(lines) + "\n"


def _answer(counts: Mapping[Status, int]) -> str:
    holds, fails = counts[Status.HOLDS] + counts[Status.CONSTRUCTED], counts[Status.FAILS] + counts[Status.ROUNDING]
    if not holds + fails:
        return "Nobody has shown it yet."
    if 2 * (holds + fails) < sum(counts.values()):
        return "Most of it is undecided."
    return (
        "Mixed."
        if holds and fails
        else "Holds."
        if holds
        else "Does not hold."
        if counts[Status.FAILS]
        else "Rounding decides."
    )


def _counts(found: Sequence[Verdict]) -> str:
    names = dict.fromkeys(verdict.claim.id.partition("/")[0] for verdict in found)
    rows = []
    for name in (*names, "all"):
        of_item = [v for v in found if name in ("all", v.claim.id.partition("/")[0])]
        counts = Counter(verdict.status for verdict in of_item)
        rows.append([name, str(len(of_item)), *(str(counts[status] or "") for status in COUNTED)])
    return "## Counts\n\n" + _table(["item", "claims", *(str(status) for status in COUNTED)], rows)


def _costs(results: Sequence[Saved]) -> str:
    """What is left to run, in core-days, and how."""
    rows = []
    for item in catalogue.items():
        jobs = _jobs(item)
        missing = [job for job in jobs if not any(_is_same(job, saved.job) for saved in results)]
        days = sum(costs.seconds(job) for job in missing) / 86400
        if missing:
            command = f"`multigrade reproduce {item.name} --recipe paper --images IMAGES --executor ray`"
            rows.append([item.name, f"{len(jobs) - len(missing)} of {len(jobs)}", f"{days:.2g}", command])
    told = (
        "\n## What is left to run\n\nEstimates for one core of the machine that `costs.Speed` describes; `multigrade "
        "reproduce --list --recipe paper` gives them for yours. With `--executor ray` a cluster shares the work; "
        "without it the same command runs on one machine, and can be stopped and continued.\n\n"
    )
    return told + _table(["item", "jobs done", "core-days left", "command"], rows) if rows else ""


def _jobs(item: catalogue.Item) -> list[Job]:
    """The item's jobs by the paper's recipe, seed 0, whatever files their pictures are."""
    made = []
    for part in item.parts:
        config = recipes.config(part.config, "paper")
        common = {**dataclasses.asdict(config), "config": part.config, "recipe": "paper", "seed": 0}
        made += [Job(item.name, cell["kind"], {**common, **cell}) for cell in part.cells(config)]
    return made


def _is_same(job: Job, other: Job) -> bool:
    names = [name for name in job.settings if name not in ("kind", *recipes.CELLS)]
    return job.kind == other.kind and all(job.settings[name] == other.settings.get(name, job.settings[name])
                                          for name in names) and not other.setup.changed  # fmt: skip


def _item(name: str, chosen: Sequence[Verdict], results: Sequence[Saved], tried: Mapping[str, str]) -> str:
    rows = []
    for verdict in chosen:
        claim = verdict.claim
        said = f"{claim.statement} *{claim.place}; holds if: {claim.tolerance}*"
        others = f"(further draws: {', '.join(map(str, verdict.others))})" if verdict.others else ""
        few = "(one copy of a run that oscillates: others may end elsewhere)" if _is_alone(verdict, results) else ""
        notes = [few, others, _tried(verdict, tried), rules.changed(claim.id)]
        if claim.constructed and verdict.status is Status.CONSTRUCTED:
            notes.append(claim.constructed)
        ours = " ".join(part for part in (verdict.sentence, *notes) if part)
        keys = ", ".join(f"`{key[:8]}`" for key in verdict.keys[:6]) + (" ..." if len(verdict.keys) > 6 else "")
        rows.append([f"`{claim.id}`", said, f"**{verdict.status}**", claim.recorded, ours, keys])
    head = ["claim", "what the paper says", "verdict", "recorded by the authors", "ours", "runs"]
    return f"\n## {name}\n\n" + _table(head, rows)


def _is_alone(verdict: Verdict, results: Sequence[Saved]) -> bool:
    """Whether a verdict rests on a single copy of a run whose loss rises so often that rounding steers it."""
    if verdict.copies != 1 or verdict.status not in (Status.HOLDS, Status.FAILS):
        return False
    used = [saved for saved in results if saved.job.key in verdict.keys and saved.job.kind.endswith("descent")]
    return ends_restless({"": used})


def _tried(verdict: Verdict, tried: Mapping[str, str]) -> str:
    """What was tried before a claim was refused; beside one that holds, what a reader should know of it."""
    kinds = {Status.FAILS: "Tried", Status.NOT_REACHED: "Tried", Status.HOLDS: "Note"}
    told = [text for start, text in tried.items() if verdict.claim.id.startswith(start)]
    return f"{kinds[verdict.status]}: {' '.join(told)}" if told and verdict.status in kinds else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
