"""What the paper claims, and what saved results make of it.

    for verdict in verdicts(results):
        print(verdict.status, verdict.claim.id, verdict.sentence)

Every number of Tables 1-3, every degraded PSNR and what the text says that a record can decide is a ``Claim`` with its
place in the paper, our tolerance and a rule. A claim is decided by runs that are the paper's; what is shrunk,
stands in or was trained otherwise is shown beside it as "not comparable", with its numbers.
"""

from collections.abc import Sequence

from ..catalogue import is_ours
from ..images import replaced
from ..job import Saved
from . import rates, reconstruction, spectra, theorems
from .ledger import Claim, Status, Verdict, judge

__all__ = ["Claim", "Status", "Verdict", "claims", "left_out", "verdicts"]


def claims() -> tuple[Claim, ...]:
    """All claims, in the paper's order."""
    return (*theorems.claims(), *reconstruction.claims(), *rates.claims(), *spectra.claims())


def verdicts(results: Sequence[Saved]) -> list[Verdict]:
    """One verdict per claim; a picture that was replaced by another file since does not count."""
    unused = left_out(results)
    results = [saved for saved in results if is_ours(saved.job) and saved.job.key not in unused]
    return [judge(claim, results) for claim in claims()]


def left_out(results: Sequence[Saved]) -> dict[str, str]:
    """Why results of the catalogue do not count, by key: later runs saw another file for their picture."""
    return replaced(saved for saved in results if is_ours(saved.job))
