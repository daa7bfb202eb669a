"""``multigrade demo``: the paper's setting 1 by one deep network and by four grades; then a picture denoised."""

from pathlib import Path
from typing import Annotated

import typer

from ..extras import find_missing


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the picture.")] = Path(
        "multigrade-demo.png"
    ),
    steps: Annotated[int, typer.Option(help="Gradient descent steps for SGDL, and for each grade of MGDL.")] = 50_000,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    picture: Annotated[bool, typer.Option(help="Denoise a free picture as well.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Fit an oscillating function with one deep network and with four shallow grades, then denoise a picture.

    Both have four hidden layers of 32 neurons in all, start from the weights of the paper's authors (seed 0), see the
    same 1024 points and take the same number of gradient descent steps, per grade for MGDL, as in the paper; a step of
    a grade is cheaper, so the time is about the same.
    A minute for the function, another for the picture.
    """
    from ..files import check_output

    check_output(output, (".png", ".svg", ".pdf"))
    if steps < 1:
        raise ValueError(f"--steps must be at least 1; got {steps}")
    if not 0 <= seed < 2**32:
        raise ValueError(f"--seed must be from 0 to 2**32 - 1; got {seed}")
    from .. import structures
    from ..draws import from_chain
    from ..progress import ProgressObserver
    from ..synthetic import RATES, setting
    from ..training import Plan, fit_grades

    data = setting(1)
    fits = {}
    for method in ("SGDL", "MGDL"):
        name = f"{method}-1"
        structure, rate = from_chain(structures.PAPER[name], seed=seed), RATES["1", method]
        with ProgressObserver(len(structure), name) as progress:
            fits[name] = fit_grades(
                structure, data.x_train, data.y_train,
                Plan(steps, "gd", rate, seed=seed, observers=() if quiet else (progress,)),
                validation=(data.x_validation, data.y_validation),
            )  # fmt: skip
    _print(fits, data)
    if find_missing("plots"):
        print("no figure is drawn: pip install 'multigrade[pictures,plots]' brings what that needs")
        return
    _draw(fits, data, output)
    print(f"figure written to {output}")
    if not picture:
        return
    if find_missing("pictures"):
        print("no picture is denoised: pip install 'multigrade[pictures,plots]' brings what that needs")
        return
    beside = output.with_name(f"{output.stem}-picture{output.suffix}")
    _denoise(beside, seed, quiet)
    print(f"figure written to {beside}")


def _denoise(path: Path, seed: int, quiet: bool) -> None:
    """Draw a free picture with noise of level 20, restored by four grades that are not told how noisy it is."""
    from .. import pictures, restore
    from ..pictures.figure import Panel, comparison_figure
    from ..progress import ProgressObserver

    clean = pictures.load(":camera").pixels[:384:3, 96:480:3]
    noisy = pictures.add_noise(clean, 20, seed=seed)
    with ProgressObserver(4, "denoise") as progress:
        options = restore.Options(
            recipe="networks", width=64, steps=1000, seed=seed, observers=() if quiet else (progress,)
        )
        restored = restore.denoise(noisy, reference=clean, options=options)
    panels = [Panel("noisy", noisy), *(Panel(f"grade {i}", stage) for i, stage in enumerate(restored.stages, 1))]
    comparison_figure(panels, path, reference=clean)
    values = " / ".join(f"{grade['psnr']:.2f}" for grade in restored.grades)
    before, sigma = (restored.input_quality or {})["psnr"], restored.noise_sigma
    print(f"denoising a picture (noise 20, estimated {sigma:.1f}): {before:.2f} dB, after each grade {values} dB")


def _print(fits, data) -> None:
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "model", "grade", "training loss", "validation loss", "test loss", "seconds", "outcome",
        title="sum of three sines, 1024 points, gradient descent",
    )  # fmt: skip
    for name, fit in fits.items():
        for index, (record, stage) in enumerate(zip(fit.records, fit.model.staged(data.x_test), strict=True)):
            test = 0.5 * float(np.mean((np.asarray(stage) - data.y_test) ** 2))
            table.add_row(
                name, str(index + 1), f"{record.train_loss[-1]:.2e}", f"{record.validation_loss[-1]:.2e}",
                f"{test:.2e}", f"{record.seconds:.1f}", record.outcome,
            )  # fmt: skip
        table.add_section()
    Console().print(table)


def _draw(fits, data, path: Path) -> None:
    """Target and fits above, loss curves beneath, one column per model."""
    from matplotlib.figure import Figure

    from ..files import atomic_path
    from ..training.record import starts

    figure = Figure(figsize=(11, 6.5), layout="constrained")
    axes = figure.subplots(2, len(fits), sharey="row")
    for (name, fit), (above, beneath) in zip(fits.items(), axes.T, strict=True):
        above.plot(data.x_test, data.y_test, color="0.75", linewidth=4, label="target")
        stages = list(fit.model.staged(data.x_test))
        for index, stage in enumerate(stages[:-1]):
            above.plot(
                data.x_test, stage, linewidth=0.8, alpha=0.6, label=f"grades 1 to {index + 1}" if index else "grade 1"
            )
        above.plot(data.x_test, stages[-1], color="C3", linewidth=1.5, label=f"{name}, all")
        above.set_title(f"{name}: test loss {0.5 * float(((stages[-1] - data.y_test) ** 2).mean()):.1e}")
        above.legend(fontsize="small", ncols=2)
        for index, (start, record) in enumerate(zip(starts(fit.records), fit.records, strict=True)):
            if index:
                beneath.axvline(start, color="0.6", linewidth=0.8, linestyle=":")
            beneath.semilogy(
                start + record.steps, record.train_loss, color=f"C{index}", linewidth=0.8, label=f"grade {index + 1}"
            )
        beneath.set_xlabel("gradient descent steps")
        beneath.legend(fontsize="small")
    axes[0, 0].set_ylabel("g(x)")
    axes[1, 0].set_ylabel("training loss")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=130)
