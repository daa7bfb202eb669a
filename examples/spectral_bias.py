"""Which frequencies are learned when? The figure of docs/spectrum.md, from a store of results.

multigrade reproduce spectral-bias --recipe paper --store bias
python examples/spectral_bias.py bias spectral_bias.png
"""

import sys

from multigrade.curvature import frequency_figure
from multigrade_paper.evidence import open_results

METHODS = ("SGDL", "MGDL", "MSDL")


def main(store: str, output: str = "spectral_bias.png", setting: str = "2") -> None:
    results = [saved for saved in open_results(store).all() if saved.job.kind == "frequencies"]
    runs = {
        saved.job.setup.method: saved.result.records for saved in results if saved.job.setup.setting == int(setting)
    }
    frequency_figure({method: runs[method] for method in METHODS}).savefig(output, dpi=130)
    for saved in sorted(results, key=lambda saved: saved.job.label):
        last = saved.result.records[-1]
        errors = {name: float(last.columns[name][-1]) for name in last.columns if name.startswith("relative error")}
        ordered = sorted(errors, key=lambda name: float(name.split()[-3]))
        print(saved.job.label, " ".join(f"{errors[name]:.2f}" for name in ordered), sep=": ")


if __name__ == "__main__":
    main(*sys.argv[1:])
