"""Our curves over those that the authors recorded: a calm run, and one that forks.

python -m multigrade_paper.report.replay_figure reproduction/evidence docs/figures/replay.png
"""

import sys
from pathlib import Path

import numpy as np

from multigrade.files import atomic_path
from multigrade.training.record import starts

from ..claims.ledger import Need
from ..claims.recorded import GRADE_1, REFERENCES, seen
from ..evidence import open_results
from ..job import Saved


def draw(results: list[Saved], path: Path) -> None:
    """Three panels: eigenvalues of the calm run, losses of one that oscillates, copies that fork."""
    from matplotlib.figure import Figure

    by_name = {reference.name: reference for reference in REFERENCES}
    figure = Figure(figsize=(13, 4), layout="constrained")
    calm, wild, forks = figure.subplots(1, 3)
    reference = by_name["denoising-mgdl"]
    epochs, theirs = seen(reference)
    calm.plot(epochs / 1e3, theirs[:, 0], ".", color="0.4", markersize=6, label="recorded")
    for saved in _of(results, reference.need)[:1]:
        for start, record in zip(starts(saved.result.records), saved.result.records, strict=True):
            looks = record.observations["spectrum"]
            calm.plot((start + looks["step"][1:]) / 1e3, looks["smallest"][1:, 0], color="C3", linewidth=1)
    calm.set(title="calm: denoising spectrum, four grades of MGDL", xlabel="thousand epochs, all grades")
    calm.set_ylabel("smallest eigenvalue of I - eta H")
    reference = by_name["synthetic-2-sgdl"]
    bands = np.array(reference.digitised["loss_range_by_epoch"], float)
    wild.fill_between(bands[:, 0] / 1e3, bands[:, 1], bands[:, 2], color="0.75", label="recorded, off the picture")
    for saved in _of(results, reference.need):
        record = saved.result.records[0]
        wild.plot(record.steps / 1e3, record.train_loss, linewidth=0.7, label=f"copy {saved.job.setup.copy}")
    wild.set(title="restless: setting 2, SGDL", xlabel="thousand epochs", ylabel="training loss", yscale="log")
    for saved in _of(results, GRADE_1):
        record = saved.result.records[0]
        name = f"copy {saved.job.setup.copy}"
        forks.plot(record.steps / 1e3, record.columns["validation_loss"], linewidth=0.9, label=name)
    forks.axhline(0.500314, color="0.2", linestyle=":", label="recorded end")
    forks.set(title="forks: setting 1, grade 1, six copies", xlabel="thousand epochs", ylim=(0.46, 0.56))
    forks.set_ylabel("validation loss")
    for axes in (calm, wild, forks):
        axes.legend(fontsize="small")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=120)


def _of(results: list[Saved], need: Need) -> list[Saved]:
    found = [saved for saved in results if need.matches(saved, "paper") and saved.job.setup.seed == 0]
    return sorted(found, key=lambda saved: saved.job.setup.copy)


if __name__ == "__main__":
    draw(list(open_results(Path(sys.argv[1])).all()), Path(sys.argv[2]))
