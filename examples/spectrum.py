"""The figures of docs/spectrum.md: setting 1 by one deep network and by four grades, with the spectrum followed.

python examples/spectrum.py                          # a few minutes on two cores
python examples/spectrum.py --steps 2000 -o .       # a quick look
"""

import argparse
from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

from multigrade import structures
from multigrade.curvature import SafeRate, SpectrumObserver, extreme_eigenvalues, spectral_density
from multigrade.curvature.figure import spectrum_figure
from multigrade.curvature.tracking import summarise_spectrum
from multigrade.synthetic import setting
from multigrade.training import Plan, fit_grades
from multigrade.training.objectives import LeastSquares, Rows

RATES = {"SGDL-1": 0.08, "MGDL-1": 0.06}  # the paper's


def record_period(steps: int) -> int:
    return min(100, max(steps // 50, 1))


def train(name: str, steps: int, observers, learning_rate: float):
    data = setting(1)
    return fit_grades(
        structures.PAPER[name], data.x_train, data.y_train,
        Plan(steps, "gd", learning_rate, observers=observers, record_every=record_period(steps)),
    )  # fmt: skip


def loss_of(fit):
    """The training loss of a single-grade fit, as a function of its parameters."""
    data = setting(1)
    rows = Rows(*(jax.numpy.asarray(a) for a in (data.x_train, data.y_train)))
    return lambda params: LeastSquares(fit.model.grades[0].network)(params, (), rows)[0]


def density_figure(fit) -> Figure:
    """The whole spectrum of H by stochastic Lanczos quadrature, its extreme eigenvalues as ticks."""
    loss, params = loss_of(fit), fit.model.grades[0].params
    density, ends = spectral_density(loss, params), extreme_eigenvalues(loss, params)
    width = ends.norm / 200
    grid = np.linspace(ends.smallest[0] - 8 * width, ends.largest[0] + 8 * width, 1200)
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(grid, 1e-6, np.maximum(density.density(grid, width), 1e-6), color="C0", alpha=0.4)
    axes.plot(np.concatenate([ends.smallest, ends.largest]), np.full(20, 2e-6), "|", color="C3", markersize=14)
    axes.axvline(2 / RATES["SGDL-1"], color="0.3", linestyle="--", linewidth=1)
    axes.annotate(r"$2/\eta$", (2 / RATES["SGDL-1"], 1), (4, -4), xycoords=axes.get_xaxis_transform(),
                  textcoords="offset points", va="top")  # fmt: skip
    axes.set(yscale="log", ylim=(1e-6, None), xlabel="eigenvalues of H", ylabel="density")
    print(f"{100 * density.fraction_below(-width):.2f} % of the eigenvalues of H are below {-width:.2g}")
    return figure


def safe_rate_figure(runs) -> Figure:
    """Loss and rate of SGDL with the paper's constant rate and with the largest safe one."""
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    above, beneath = figure.subplots(2, sharex=True, height_ratios=(3, 2))
    for index, (label, record) in enumerate(runs.items()):
        above.semilogy(record.steps, record.train_loss, color=f"C{index}", linewidth=0.7, label=label)
    looks = runs["safe rate"].observations["safe rate"]
    beneath.semilogy(looks["step"], looks["learning_rate"], color="C1", linewidth=0.9)
    beneath.axhline(RATES["SGDL-1"], color="C0", linewidth=0.9)
    above.set_ylabel("training loss")
    above.legend()
    beneath.set(xlabel="steps", ylabel=r"learning rate $\eta$")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="per grade")
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/figures"), help="folder of the figures")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    every = max(arguments.steps // 50, 1)
    fits = {}
    for name, rate in RATES.items():
        fits[name] = train(name, arguments.steps, [SpectrumObserver(every=every)], rate)
        print(f"{name}, eta = {rate}")
        for summary in summarise_spectrum(fits[name].records):
            print(" ", summary.sentence, flush=True)
        if name == "SGDL-1":
            density_figure(fits[name]).savefig(arguments.output / "spectrum_density.png", dpi=110)
    titles = {rf"{name}, $\eta$ = {RATES[name]}": fit.records for name, fit in fits.items()}
    spectrum_figure(titles).savefig(arguments.output / "spectrum_setting1.png", dpi=110)
    safe = train("SGDL-1", arguments.steps, [SafeRate(every=5 * record_period(arguments.steps))], RATES["SGDL-1"])
    runs = {"constant rate 0.08": fits["SGDL-1"].records[0], "safe rate": safe.records[0]}
    safe_rate_figure(runs).savefig(arguments.output / "spectrum_safe_rate.png", dpi=110)
    for label, record in runs.items():
        rises = np.mean(np.diff(record.train_loss) > 1e-3 * record.train_loss[:-1])
        end = record.train_loss[-1]
        print(f"SGDL-1, {label}: the loss rose at {100 * rises:.1f} % of its records and ended at {end:.3g}")


if __name__ == "__main__":
    main()
