"""``multigrade report``: saved results as one page, and as figures for print."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    store: Annotated[Path, typer.Argument(help="Folder of the results.")] = Path("runs"),
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.")] = Path("report.html"),
    side: Annotated[int, typer.Option("--pixels", help="Largest side of a picture; the middle of larger ones.")] = 256,
) -> None:
    """One self-contained page from saved results; nothing is run: multigrade report runs -o report.html"""
    from ..lab.store import Store
    from ..report.gather import Gatherer
    from ..report.page import check_output, write_page

    check_output(output)
    write_page(Store(store, create=False), output, gatherer=Gatherer(side=side))
    print(f"report written to {output}")
