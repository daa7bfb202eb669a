"""``multigrade runs``: what a store holds; filter it, remove from it."""

import math
import sys
from pathlib import Path
from typing import Annotated

import typer


def runs(
    store: Annotated[Path, typer.Argument(help="Folder of the results.")] = Path("runs"),
    item: Annotated[str | None, typer.Option(help="Only jobs of this item of the paper.")] = None,
    method: Annotated[str | None, typer.Option(help="Only this method: SGDL, MGDL, MSDL, baseline.")] = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", metavar="NAME=VALUE", help="Only jobs with this setting.")
    ] = None,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Only results that are damaged or of other numerics.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove what is listed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before removing.")] = False,
) -> None:
    """List, filter and remove results: multigrade runs --item table1 --where image=barbara --remove"""
    from .. import catalogue
    from ..evidence import open_results
    from ..store import Store

    results = open_results(store)
    asked = None if item is None else catalogue.named(item)
    pairs = [_pair(text) for text in where or []]
    wanted = pairs + ([] if method is None else [("method", method)])
    has_filter = item is not None or bool(wanted)
    if damaged and has_filter:
        raise ValueError("--damaged goes with no filter: what is in a damaged result is not known")
    saved, known = [], set()
    for each in [] if damaged else results.all():
        settings = each.job.settings
        known.update(settings)
        is_wanted = all(name in settings and _is(settings[name], text) for name, text in wanted)
        if is_wanted and (asked is None or catalogue.is_of(asked, each.job)):
            saved.append(each)
    _check_names(pairs, known)
    broken = {} if has_filter else results.damaged()
    _print(saved, broken)
    keys = [*(s.job.key for s in saved), *broken]
    if remove and keys:
        if not isinstance(results, Store):
            raise ValueError(f"--remove is for a store of results; {store} is evidence, of which git keeps the past")
        if not yes:
            typer.confirm(f"Remove {len(keys)} results from {store}?", abort=True)
        results.remove(keys)
        print(f"{len(keys)} removed")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--where must be name=value; got {text!r}")
    return name, value


def _check_names(pairs: list[tuple[str, str]], known: set[str]) -> None:
    for name, _ in pairs:
        if known and name not in known:
            raise ValueError(f"--where must name a setting of a result: {', '.join(sorted(known))}; got {name!r}")


def _is(value, text: str) -> bool:
    """Numbers are compared as numbers: 5e-05 is 0.00005, and three times 0.01 is 0.03."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value) == text
    try:
        return math.isclose(value, float(text), rel_tol=1e-9)
    except ValueError:
        return False


def _print(saved, broken: dict[str, str]) -> None:
    from ..progress import duration

    rows = []
    for job, result, info in saved:
        outcome = ", ".join(dict.fromkeys(str(record.outcome) for record in result.records))
        mark = "stand-in" if job.setup.stand_in else ""
        recipe, took = str(job.setup.recipe), duration(info.get("seconds", 0))
        finished = info.get("finished", "")[:16]
        rows.append((job.key[:8], job.item, recipe, job.label, took, finished, outcome, mark))
    if sys.stdout.isatty() and rows:
        _table(rows)
    else:
        for row in rows:
            print("\t".join(row))
    for reason in broken.values():
        print(reason)
    total = sum(info.get("seconds", 0) for _, _, info in saved)
    print(f"{len(saved)} results, {duration(total)} of work" + (f"; {len(broken)} not usable" if broken else ""))


def _table(rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("key", "item", "recipe", "job", "time", "finished", "outcome", "")
    for row in rows:
        table.add_row(*(Text(part) for part in row))  # names of pictures are not markup
    Console(soft_wrap=True).print(table)
