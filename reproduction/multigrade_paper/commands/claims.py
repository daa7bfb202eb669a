"""``multigrade claims``: what saved results make of every claim of the paper."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

STYLES = {
    "holds": "green",
    "holds by construction": "dim green",
    "does not hold": "red",
    "decided by rounding": "cyan",
    "refuted, but with our draws": "magenta",
    "not reached with our settings": "magenta",
    "not comparable": "yellow",
    "not yet replayed": "dim",
}


def claims(
    store: Annotated[Path, typer.Argument(help="Folder of the results.")] = Path("runs"),
    item: Annotated[str | None, typer.Option(help="Only claims whose name begins so, like table2/butterfly.")] = None,
    status: Annotated[str | None, typer.Option(help=f"Only one of these: {', '.join(STYLES)}.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All that is known of each claim, as JSON.")] = False,
) -> None:
    """The ledger: every claim of the paper, whether it holds, by which numbers, and what simple methods reach."""
    if status is not None and status not in STYLES:
        raise ValueError(f"--status must be one of {', '.join(STYLES)}; got {status!r}")
    from ..claims import left_out, verdicts
    from ..evidence import open_results
    from ..images import OWN_STORE

    results = open_results(store)
    found = verdicts(saved := list(results.all()))
    if unusable := results.damaged():
        print(f"{len(unusable)} results are not usable; see multigrade runs {store} --damaged", file=sys.stderr)
    if unused := left_out(saved):
        print(f"{len(unused)} {OWN_STORE}", file=sys.stderr)
    chosen = [v for v in found if v.claim.id.startswith(item or "") and status in (None, str(v.status))]
    if not chosen and item is not None and not any(v.claim.id.startswith(item) for v in found):
        names = ", ".join(dict.fromkeys(v.claim.id.partition("/")[0] for v in found))
        raise ValueError(f"no claim's name begins with {item!r}; they begin with {names}")
    if as_json:
        print(json.dumps([verdict.to_json() for verdict in chosen], indent=1))
    elif sys.stdout.isatty():
        _table(chosen)
    else:
        _lines(chosen)


def _counts(verdicts) -> str:
    counts = Counter(str(verdict.status) for verdict in verdicts)
    return ", ".join(f"{counts[status]} {status}" for status in STYLES) + f": {len(verdicts)} claims"


def _numbers(baselines) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in baselines.items())


def _lines(verdicts) -> None:
    for verdict in verdicts:
        simple = f" [{_numbers(verdict.baselines)}]" if verdict.baselines else ""
        print(f"{verdict.status}\t{verdict.claim.id}\t{verdict.claim.place}\t{verdict.sentence}{simple}")
    print(_counts(verdicts))


def _table(verdicts) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("verdict", "claim", "in the paper", "found", "simple methods")
    for verdict in verdicts:
        claim, style = verdict.claim, STYLES[str(verdict.status)]
        found = Text(verdict.sentence)
        table.add_row(
            Text(str(verdict.status), style=style),
            Text(claim.statement),
            claim.place,
            found,
            _numbers(verdict.baselines),
        )
    console = Console()
    console.print(table)
    console.print(_counts(verdicts))
