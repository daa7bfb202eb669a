"""python tools/rerun_evidence.py: a random part of the evidence is run again and compared with what is stored.

Runs are drawn by ``--seed`` until ``--share`` of them, or ``--minutes`` by their recorded times, are used up. Runs of
pictures that are not at hand (``--images``) are left out. Each run ends in one of four ways:

    equal      every loss that is stored has the same bits
    close      all of them agree within 1e-4, relatively
    parted     they agree within 1e-3 up to a step that is told, at least for the first hundredth of the run. This is
               what follows from other rounding (another processor, another release of JAX) where a run oscillates.
    different  they do not agree from the start: the arithmetic has changed

The exit code is 1 if a run is different, or if one that had the same versions and processor is not equal.
"""

import argparse
import platform
import random
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from multigrade_paper import experiments
from multigrade_paper.evidence import Evidence, thin
from multigrade_paper.images import Pictures
from multigrade_paper.store import processor_name

ROOT = Path(__file__).parent.parent
CLOSE, TOGETHER, START = 1e-4, 1e-3, 0.01


def compare(stored, again) -> tuple[str, str]:
    """How a run ended beside its stored records, and a remark."""
    worst, equal = 0.0, True
    for index, (old, new) in enumerate(zip(stored.result.records, again.records, strict=False)):
        common, rows, others = np.intersect1d(old.steps, new.steps, return_indices=True)
        ours, theirs = (np.asarray(r.train_loss)[i] for r, i in ((new, others), (old, rows)))
        difference = np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-30)
        difference[(ours == theirs) | (np.isnan(ours) & np.isnan(theirs))] = 0
        equal &= not difference.any() and old.num_steps == new.num_steps
        worst = max(worst, float(difference.max(initial=0)))
        apart = np.flatnonzero(~(difference <= TOGETHER))
        if apart.size:
            step = int(common[apart[0]])
            is_late = index > 0 or step > START * old.num_steps
            return ("parted" if is_late else "different"), f"grade {index + 1}, step {step} of {old.num_steps}"
    if not stored.result.records:  # an experiment without training: its numbers are compared
        for name, value in stored.result.metrics.items():
            if isinstance(value, float) and "seconds" not in name and isinstance(new := again.metrics.get(name), float):
                equal &= new == value
                worst = max(worst, abs(new - value) / max(abs(value), 1e-12))
    if equal:
        return "equal", ""
    return ("close" if worst <= CLOSE else "different" if worst > TOGETHER else "parted"), f"by {worst:.1e}"


def is_same_machine(info) -> bool:
    versions = info.get("versions", {})
    here = {name: version(name) for name in ("jax", "numpy")} | {"python": platform.python_version()}
    return info.get("processor") == processor_name() and all(versions.get(name) == here[name] for name in here)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--evidence", type=Path, default=ROOT / "reproduction" / "evidence")
    parser.add_argument("--share", type=float, default=0.1, help="of the runs, at most")
    parser.add_argument("--minutes", type=float, default=60, help="of recorded time, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="an item")
    parser.add_argument("--images", type=Path, help="a folder of the paper's pictures")
    given = parser.parse_args()
    if not 0 < given.share <= 1:
        parser.error(f"--share must be above 0 and at most 1; got {given.share:g}")
    runs = [saved for saved in Evidence(given.evidence).all() if given.only in ("", saved.job.item)]
    random.Random(given.seed).shuffle(runs)
    pictures, left, wanted, failed = Pictures(given.images), 60 * given.minutes, given.share * len(runs), 0
    counts: dict[str, int] = {}
    for saved in runs:
        cost, image = saved.info.get("seconds", 0.0), saved.job.setup.image
        if sum(counts.values()) >= wanted:
            break
        if cost > left or (image and pictures.get(image).digest != saved.job.data):
            continue
        left -= cost
        started = time.perf_counter()
        again = thin(saved._replace(result=experiments.run(saved.job, images=given.images))).result
        ended, remark = compare(saved, again)
        exact = is_same_machine(saved.info)
        failed += ended == "different" or (exact and ended != "equal")
        counts[ended] = counts.get(ended, 0) + 1
        told = " ".join(
            filter(None, [saved.job.item, saved.job.label, ended, remark, "(same machine)" if exact else ""])
        )
        print(f"{told}, {time.perf_counter() - started:.0f} s (recorded: {cost:.0f} s)", flush=True)
    print(", ".join(f"{count} {ended}" for ended, count in sorted(counts.items())) or "no run fits into the time")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
