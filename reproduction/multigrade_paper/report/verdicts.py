"""The page of verdicts: every claim, our figure and the run that decided it, as Markdown for the documents.

The page is made from results alone, and from the files ``tried.md`` beside them: what was tried before a claim was said
to fail, by the first letters of its name.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from .. import catalogue, costs, recipes
from ..claims import Status, Verdict, verdicts
from ..claims.ledger import judge
from ..job import Job, Saved

COUNTED = (Status.HOLDS, Status.FAILS, Status.NOT_REACHED, Status.NOT_COMPARABLE, Status.NOT_RUN)
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
)  # fmt: skip


def page(results: Sequence[Saved], tried: Mapping[str, str]) -> str:
    """The whole page, from results and what was tried."""
    found = verdicts(results)
    parts = [_head(found), _hurry(found), _counts(found), _costs(results)]
    for name in dict.fromkeys(verdict.claim.id.partition("/")[0] for verdict in found):
        chosen = [verdict for verdict in found if verdict.claim.id.partition("/")[0] == name]
        parts.append(_item(name, chosen, results, tried))
    return "\n".join(parts)


def _head(found: Sequence[Verdict]) -> str:
    decided = [verdict for verdict in found if verdict.status in (Status.HOLDS, Status.FAILS)]
    reached = sum(verdict.status is Status.HOLDS for verdict in decided)
    return f"""# Verdicts

Of **{len(found)} claims of the paper {len(decided)} are decided: {reached} hold, {len(decided) - reached} do not**.
All runs have the paper's networks, data, rates and epochs. Where the paper does not record its rate or strengths, a run
with ours can confirm a claim; it can't refute it: the verdict is then "not reached with our settings".
What was tried concerns the first seed, unless it says otherwise.

This page is made by `multigrade evidence RUNS -o reproduction/evidence --page docs/verdicts.md` from results, which
lie in `reproduction/evidence/`; `make evidence-check` tells whether it is current.
`multigrade claims reproduction/evidence` prints the same, and
`multigrade report reproduction/evidence` draws the figures.

## For the reader in a hurry
"""


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
    holds, fails = counts[Status.HOLDS], counts[Status.FAILS]
    if not holds + fails:
        return "Nobody has shown it yet."
    if 2 * (holds + fails) < sum(counts.values()):
        return "Most of it is undecided."
    return "Mixed." if holds and fails else "Holds." if holds else "Does not hold."


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
    names = [name for name in job.settings if name not in ("kind", "rates")]
    return job.kind == other.kind and all(job.settings[name] == other.settings.get(name, job.settings[name])
                                          for name in names) and not other.setup.changed  # fmt: skip


def _item(name: str, chosen: Sequence[Verdict], results: Sequence[Saved], tried: Mapping[str, str]) -> str:
    rows = []
    for verdict in chosen:
        claim = verdict.claim
        said = f"{claim.statement} *{claim.place}; holds if: {claim.tolerance}*"
        ours = " ".join(part for part in (verdict.sentence, _seeds(verdict, results), _tried(verdict, tried)) if part)
        keys = ", ".join(f"`{key[:8]}`" for key in verdict.keys[:6]) + (" ..." if len(verdict.keys) > 6 else "")
        rows.append([f"`{claim.id}`", said, f"**{verdict.status}**", ours, keys])
    return f"\n## {name}\n\n" + _table(["claim", "what the paper says", "verdict", "what we found", "runs"], rows)


def _seeds(verdict: Verdict, results: Sequence[Saved]) -> str:
    """The verdict of each seed alone, where there are several."""
    used = [saved for saved in results if saved.job.key in verdict.keys]
    seeds = sorted({saved.job.setup.seed for saved in used})
    if len(seeds) < 2 or verdict.status not in (Status.HOLDS, Status.FAILS, Status.NOT_REACHED):
        return ""
    alone = [judge(verdict.claim, [saved for saved in used if saved.job.setup.seed == seed])
             for seed in seeds]  # fmt: skip
    return f"(seed by seed: {', '.join(str(each.status) for each in alone)})"


def _tried(verdict: Verdict, tried: Mapping[str, str]) -> str:
    """What was tried before a claim was refused; beside one that holds, what a reader should know of it."""
    kinds = {Status.FAILS: "Tried", Status.NOT_REACHED: "Tried", Status.HOLDS: "Note"}
    told = [text for start, text in tried.items() if verdict.claim.id.startswith(start)]
    return f"{kinds[verdict.status]}: {' '.join(told)}" if told and verdict.status in kinds else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
