"""Our curves over those that the authors recorded: a calm run, and one that forks.

python -m multigrade_paper.report.replay_figure reproduction/evidence docs/figures/replay.png
"""

import sys
from pathlib import Path

import numpy as np

from multigrade.files import atomic_path
from multigrade.training.record import starts

from ..claims.ledger import Need
from ..claims.recorded import GRADE_1, REFERENCES, Reference, seen
from ..evidence import open_results
from ..job import Saved


def draw(results: list[Saved], path: Path) -> None:
    """Three panels: eigenvalues of the calm run, losses of one that oscillates, copies that fork."""
    from matplotlib.figure import Figure

    by_name = {reference.name: reference for reference in REFERENCES}
    figure = Figure(figsize=(13, 4), layout="constrained")
    calm, wild, forks = figure.subplots(1, 3)
    _eigenvalues(calm, by_name["denoising-mgdl"], _of(results, by_name["denoising-mgdl"].need))
    calm.set_title("calm: denoising spectrum, four grades of MGDL")
    _losses(wild, by_name["synthetic-2-sgdl"], _of(results, by_name["synthetic-2-sgdl"].need))
    wild.set_title("restless: setting 2, SGDL")
    for saved in _of(results, GRADE_1):
        record = saved.result.records[0]
        name = f"copy {saved.job.setup.copy}"
        forks.plot(record.steps / 1e3, record.columns["validation_loss"], linewidth=0.9, label=name)
    forks.axhline(0.500314, color="0.2", linestyle=":", label="recorded end")
    forks.set(title="forks: setting 1, grade 1, six copies", xlabel="thousand epochs", ylim=(0.46, 0.56))
    forks.set_ylabel("validation loss")
    forks.legend(fontsize="small")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=120)


def _of(results: list[Saved], need: Need) -> list[Saved]:
    found = [saved for saved in results if need.matches(saved, "paper") and saved.job.setup.seed == 0]
    return sorted(found, key=lambda saved: saved.job.setup.copy)


def _eigenvalues(axes, reference: Reference, ours: list[Saved]) -> None:
    epochs, theirs = seen(reference)
    axes.plot(epochs / 1e3, theirs[:, 0], ".", color="0.4", markersize=6, label="recorded")
    for saved in ours[:1]:
        for start, record in zip(starts(saved.result.records), saved.result.records, strict=True):
            looks = record.observations["spectrum"]
            axes.plot((start + looks["step"][1:]) / 1e3, looks["smallest"][1:, 0], color="C3", linewidth=1)
    axes.set(xlabel="thousand epochs, all grades", ylabel="smallest eigenvalue of I - eta H")
    axes.legend(fontsize="small")


def _losses(axes, reference: Reference, ours: list[Saved]) -> None:
    bands = np.array(reference.digitised["loss_range_by_epoch"], float)
    axes.fill_between(bands[:, 0] / 1e3, bands[:, 1], bands[:, 2], color="0.75", label="recorded, read off the picture")
    for saved in ours:
        record = saved.result.records[0]
        axes.plot(record.steps / 1e3, record.train_loss, linewidth=0.7, label=f"copy {saved.job.setup.copy}")
    axes.set(xlabel="thousand epochs", ylabel="training loss", yscale="log")
    axes.legend(fontsize="small")


if __name__ == "__main__":
    draw(list(open_results(Path(sys.argv[1])).all()), Path(sys.argv[2]))
