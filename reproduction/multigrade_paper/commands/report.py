"""``multigrade report``: saved results as one page, and as figures for print."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    store: Annotated[Path, typer.Argument(help="Folder of the results.")] = Path("runs"),
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.")] = Path("report.html"),
    figures: Annotated[
        Path | None, typer.Option(help="Folder for all figures as PNG, SVG and PDF files, made if need be.")
    ] = None,
    side: Annotated[int, typer.Option("--pixels", help="Largest side of a picture; the middle of larger ones.")] = 256,
) -> None:
    """One self-contained page from saved results; nothing is run: multigrade report runs -o report.html"""
    from multigrade.files import all_or_none

    from ..evidence import open_results
    from ..report import export, page
    from ..report.gather import Gatherer

    page.check_output(output)
    if figures is not None:
        export.check_folder(figures)
    results = open_results(store)
    gathered = Gatherer(side=side).read(results)
    with all_or_none():
        page.save(page.build(gathered, title=page.title(results)), output)
        written = [] if figures is None else export.write_figures(gathered, figures)
    print(f"report written to {output}")
    if figures is not None:
        print(f"{len(written)} figures written to {figures}")
