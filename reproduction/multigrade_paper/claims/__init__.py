"""What the paper claims, and what saved results make of it.

    for verdict in verdicts(results):
        print(verdict.status, verdict.claim.id, verdict.sentence)

Every number of Tables 1-3, every degraded PSNR and what the text says that a record can decide is a ``Claim`` with its
place in the paper, our tolerance and a rule. A claim is decided by runs that are the paper's; what is shrunk,
stands in or was trained otherwise is shown beside it as "not comparable", with its numbers.
"""

import dataclasses
import itertools
from collections.abc import Sequence

from ..catalogue import is_ours
from ..images import replaced
from ..job import Saved
from . import rates, reconstruction, recorded, spectra, theorems
from .ledger import Claim, Status, Verdict, judge

__all__ = ["Claim", "Status", "Verdict", "claims", "left_out", "verdicts"]


ONE_SIDED = "; one-sided: the paper's settings are not recorded, so ours can confirm it and cannot refute it"


def claims() -> tuple[Claim, ...]:
    """All claims, in the paper's order."""
    told = itertools.chain(theorems.claims(), reconstruction.claims(), rates.claims(), spectra.claims())
    return (
        *(dataclasses.replace(claim, recorded=recorded.said(claim),
                              tolerance=claim.tolerance + ("" if claim.is_recorded else ONE_SIDED)) for claim in told),
        *recorded.claims(),
    )  # fmt: skip


def verdicts(results: Sequence[Saved]) -> list[Verdict]:
    """One verdict per claim; a picture that was replaced by another file since does not count."""
    unused = left_out(results)
    results = [saved for saved in results if is_ours(saved.job) and saved.job.key not in unused]
    return [judge(claim, results) for claim in claims()]


def left_out(results: Sequence[Saved]) -> dict[str, str]:
    """Why results of the catalogue do not count, by key: later runs saw another file for their picture."""
    return replaced(saved for saved in results if is_ours(saved.job))
