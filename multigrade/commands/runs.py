"""``multigrade runs``: what a store holds; filter it, remove from it."""

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
    from ..lab import catalogue
    from ..lab.store import Store

    results = Store(store, create=False)
    asked = None if item is None else catalogue.named(item)
    wanted = dict(_pair(text) for text in where or [])
    if method is not None:
        wanted["method"] = method
    broken = results.damaged()
    saved = (
        []
        if damaged
        else [s for s in results.all() if _matches(s.job, wanted) and (asked is None or catalogue.is_of(asked, s.job))]
    )
    has_filter = item is not None or wanted
    broken = {} if has_filter and not damaged else broken
    _print(saved, broken)
    keys = [*(s.job.key for s in saved), *broken]
    if remove and keys:
        if not yes:
            typer.confirm(f"Remove {len(keys)} results from {store}?", abort=True)
        results.remove(keys)
        print(f"{len(keys)} removed")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--where must be name=value; got {text!r}")
    return name, value


def _matches(job, wanted: dict[str, str]) -> bool:
    return all(name in job.settings and _text(job.settings[name]) == value for name, value in wanted.items())


def _text(value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _print(saved, broken: dict[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table

    from ..lab.progress import duration

    table = Table("key", "item", "recipe", "job", "time", "finished", "outcome", "")
    for job, result, info in saved:
        outcome = ", ".join(dict.fromkeys(str(record.outcome) for record in result.records))
        mark = "stand-in" if job.settings.get("stand_in") else ""
        recipe, took = str(job.settings.get("recipe", "")), duration(info["seconds"])
        table.add_row(job.key[:8], job.item, recipe, job.label, took, info["finished"][:16], outcome, mark)
    if saved:
        Console(soft_wrap=True).print(table)
    for reason in broken.values():
        print(reason)
    total = sum(info["seconds"] for _, _, info in saved)
    print(f"{len(saved)} results, {duration(total)} of work" + (f"; {len(broken)} not usable" if broken else ""))
