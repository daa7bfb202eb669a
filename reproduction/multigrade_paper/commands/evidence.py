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

    from ..evidence import Evidence, is_paper, open_results, read_tried, thin
    from ..report import verdicts

    if page is not None:
        check_place(page)
    full = open_results(store)
    small = full
    if store.resolve() != output.resolve():  # else there is nothing to thin: the page alone
        small = Evidence(output, create=True)
        added = small.add(thin(saved) for saved in full.all() if is_paper(saved) and saved.job.key not in small)
        print(f"{len(added)} results thinned, {len(small.keys())} in {output}")
    if page is not None:
        text = verdicts.page(list(small.all()), read_tried(small.path))
        with atomic_path(page) as temporary:
            Path(temporary).write_text(text)
        print(f"verdicts written to {page}")
