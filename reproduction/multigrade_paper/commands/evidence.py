"""``multigrade evidence``: a store thinned for a repository, and the page of its verdicts."""

from pathlib import Path
from typing import Annotated

import typer


def evidence(
    store: Annotated[Path, typer.Argument(help="Folder of the full results.")] = Path("runs"),
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the thinned ones, made if need be.")] = Path(
        "evidence"
    ),
    page: Annotated[Path | None, typer.Option(help="Markdown page of all verdicts to write, too.")] = None,
) -> None:
    """Thin results of the paper's recipe to a few kilobytes each: multigrade evidence runs -o evidence"""
    from multigrade.files import atomic_path, check_place

    from ..evidence import write
    from ..report import verdicts
    from ..store import Store

    if page is not None:
        check_place(page)
    full = Store(store, create=False)
    if store.resolve() == output.resolve():
        small = full  # nothing to thin: the page alone
    else:
        small = Store(output)
        written = list(write(full, small))
        print(f"{len(written)} results thinned, {len(small.keys())} in {output}")
    if page is not None:
        text = verdicts.page(list(small.all()), verdicts.read_tried(output))
        with atomic_path(page) as temporary:
            Path(temporary).write_text(text)
        print(f"verdicts written to {page}")
