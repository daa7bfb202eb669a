"""The rules by which claims are judged are frozen before runs: their hash, their date, what was changed after a look.

python -m multigrade_paper.rules        prints the present hash, to be written into ``rules.json`` with the reason
"""

import functools
import hashlib
import json
from importlib.resources import files
from typing import Any

RULES = ("measures", "spectral_rules", "correlations", "rates", "reconstruction", "spectra", "theorems", "recorded")


def digest() -> str:
    """SHA-256 of the sources of all rules."""
    folder = files("multigrade_paper").joinpath("claims")
    return hashlib.sha256(b"".join(folder.joinpath(f"{name}.py").read_bytes() for name in RULES)).hexdigest()


@functools.cache
def history() -> dict[str, Any]:
    """``rules.json``: the frozen hash, its date, and what was changed after a look at runs, by names of claims."""
    return json.loads(files("multigrade_paper").joinpath("rules.json").read_text())


FROZEN = history()["frozen"]


def changed(claim: str) -> str:
    """What was changed of a claim's rule after a look at runs; "" if nothing."""
    told = [change["what"] for change in history()["changed"]
            if claim.startswith(tuple(change["starts"])) and claim.endswith(tuple(change["ends"]))]  # fmt: skip
    return f"Rule changed: {' '.join(told)}" if told else ""


if __name__ == "__main__":
    print(digest())
