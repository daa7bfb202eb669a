"""The authors' four whole searches over rate, lambda and beta: how far does a choice by ground truth reach?

278 runs, decoded from scatter plots in their notebooks (``recorded.json``). The tables print the best run of each
search; here searches are compared as searches, best against best and median against median.
"""

from typing import NamedTuple

import numpy as np

from ..claims.recorded import runs

CELLS = ("Table 2, Butterfly, noise 10", "Table 3, Butterfly, blur 3")


class Search(NamedTuple):
    """PSNRs of all runs, best first, and by settings: (rate, lambda, beta) -> one or several values."""

    psnr: np.ndarray
    by_settings: dict[tuple[float, float, float], list[float]]

    @property
    def twice(self) -> np.ndarray:
        """Differences between two runs of the same settings, where there are two (dB)."""
        return np.array([abs(v[0] - v[1]) for v in self.by_settings.values() if len(v) == 2])


def search(cell: str, method: str) -> Search:
    """One of the four searches."""
    told = runs()[f"whole parameter grid: {cell}, {method}"]["digitised"]["runs"]
    found: dict[tuple[float, float, float], list[float]] = {}
    for run in told:
        found.setdefault((run["learning_rate"], run["lambda"], run["beta"]), []).append(run["psnr"])
    return Search(np.sort([run["psnr"] for run in told])[::-1], found)


def rows() -> list[list[str]]:
    """A line per search for a table: runs, best, next two, median, the same settings run twice."""
    lines = []
    for cell in CELLS:
        for method in ("SGDL", "MGDL"):
            found = search(cell, method)
            twice = found.twice
            same = f"{np.median(twice):.2f}, {twice.mean():.2f}, {twice.max():.2f}" if len(twice) else "none"
            best, *others = (f"{value:.2f}" for value in found.psnr[:3])
            middle, low = np.median(found.psnr), found.psnr[-1]
            lines.append(
                [cell, method, str(len(found.psnr)), best, ", ".join(others), f"{middle:.2f}", f"{low:.2f}", same]
            )
    return lines


def gains(cell: str) -> tuple[float, float, float]:
    """MGDL minus SGDL in dB: best against best, median against median, and over settings that both searches have."""
    sgdl, mgdl = (search(cell, method) for method in ("SGDL", "MGDL"))
    shared = sorted(set(sgdl.by_settings) & set(mgdl.by_settings))
    pairs = [np.mean(mgdl.by_settings[key]) - np.mean(sgdl.by_settings[key]) for key in shared]
    best, middle = sgdl.psnr[0], np.median(sgdl.psnr)
    return float(mgdl.psnr[0] - best), float(np.median(mgdl.psnr) - middle), float(np.median(pairs))
