"""How good a picture is after how long: fast and best against the time that the paper's recipe would take here.

    python -m benchmarks.time_to_quality FOLDER --store runs                     every cell of Tables 1-3, hours
    python -m benchmarks.time_to_quality FOLDER --store runs --recipes fast --only "MGDL butterfly" --figure times.png

FOLDER holds the paper's pictures (cameraman.png, ...). The cells are the lab's jobs, one after another on all cores,
and results that the store holds are not made again. Seconds are wall time from the picture to the result, the choice of
strengths included (compilation, too, unless an earlier cell or run has left it in the cache); beside the PSNR after
each grade stand the seconds until it, and "there" are those until the first grade as good as the paper's figure. The
paper's time is that of a plain step, dispatched one at a time, measured here, times the paper's steps; "ratio" is that
time over the seconds until there.
"""

import argparse
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks import bench_restoration, bench_training
from benchmarks.bench_imaging import dense_convolution
from multigrade import structures
from multigrade.pictures.operators import Identity
from multigrade.threads import num_cores
from multigrade_paper import catalogue, executors, experiments
from multigrade_paper.claims.reconstruction import PAPER
from multigrade_paper.job import Saved
from multigrade_paper.store import Store

STEPS = {"regress": 10_000, "denoise": 20_000, "deblur": 20_000}  # per grade, the paper's


def paper_psnr(settings) -> float:
    if settings["task"] == "regress":
        return PAPER["regression"][settings["image"]][settings["method"]]["test"]
    level = settings["blur"] or settings["noise"]
    return PAPER[settings["task"]][settings["image"]][settings["method"]][str(level)]


@cache
def paper_seconds(task: str, structure: str, size: int, blur: int) -> float:
    """Of the paper's recipe on this machine: a plain step of each of its grades, times its steps."""

    @cache
    def step(network) -> float:
        if task == "regress":
            return bench_training.plain(network, (size // 2) ** 2, "adam", 3)
        operator = dense_convolution(float(blur)) if blur else lambda image: image
        return bench_restoration.plain(bench_restoration.wide_awake(Identity(), size, network), operator, 2)

    return sum(step(network) * STEPS[task] for network in structures.PAPER[structure])


def row(saved: Saved, has_paper_time: bool) -> dict:
    """A cell in numbers; "until" are the seconds until each grade's end, what comes before the grades included."""
    settings, metrics = saved.job.settings, saved.result.metrics
    psnrs, seconds = metrics["grades_test_psnr"], [record.seconds for record in saved.result.records]
    until = saved.info["seconds"] - sum(seconds) + np.cumsum(seconds)
    if settings["recipe"] == "best":  # which of its grades to keep, or how to mix them, is known at the end
        psnrs, until = [metrics["test_psnr"]], np.array([saved.info["seconds"]])
    there = [time for time, psnr in zip(until, psnrs, strict=False) if round(psnr, 2) >= paper_psnr(settings)]
    size = len(saved.result.pictures["reference"])
    place = settings["task"], settings["structure"], size, settings.get("blur", 0)
    return {
        "cell": saved.job.label, "recipe": settings["recipe"], "method": settings["method"], "grades": psnrs,
        "until": until[: len(psnrs)], "psnr": metrics["test_psnr"], "paper": paper_psnr(settings),
        "seconds": saved.info["seconds"], "there": there[0] if there else np.nan,
        "paper_seconds": paper_seconds(*place) if has_paper_time else np.nan,
    }  # fmt: skip


def table(rows: Sequence[dict]) -> str:
    head = f"{'':44}{'ours':>7}{'paper':>8}{'':3}{'seconds':>8}{'there':>7}{'paper, h':>10}{'ratio':>8}"
    return "\n".join([head, *(line(row) for row in rows)])


def line(row: dict) -> str:
    mark = "  " if round(row["psnr"], 2) >= row["paper"] else " <"
    quality = f"{row['psnr']:7.2f}{row['paper']:8.2f}{mark:3}{row['seconds']:8.0f}{row['there']:7.0f}"
    hours, ratio = row["paper_seconds"] / 3600, row["paper_seconds"] / row["there"]
    return f"{row['recipe'] + ' ' + row['cell']:44}{quality}{hours:10.1f}{ratio:8.0f}"


def figure(rows: Sequence[dict], path: Path) -> None:
    from matplotlib.figure import Figure

    cells = list(dict.fromkeys(row["cell"].replace(row["method"], "").strip() for row in rows))
    columns = min(len(cells), 3)
    lines = -(-len(cells) // columns)
    drawn = Figure(figsize=(4.2 * columns, 3.2 * lines), layout="constrained")
    panels = drawn.subplots(lines, columns, squeeze=False).ravel()
    for panel in panels[len(cells) :]:
        panel.remove()
    for cell, axes in zip(cells, panels, strict=False):
        for row in rows:
            if row["cell"].replace(row["method"], "").strip() == cell:
                colour = {"fast": "C0", "best": "C2"}.get(row["recipe"], "C1")
                style = (
                    {"marker": "o", "linestyle": "-"} if row["method"] == "MGDL" else {"marker": "s", "linestyle": ":"}
                )
                label = f"{row['recipe']}, {row['method']}"
                axes.semilogx(row["until"], row["grades"], color=colour, markersize=4, label=label, **style)
                if row["recipe"] == "fast":  # once per method
                    shape = "*" if row["method"] == "MGDL" else "x"
                    place = [row["paper_seconds"]], [row["paper"]]
                    axes.semilogx(*place, f"k{shape}", label=f"as printed, {row['method']}")
        axes.set(title=cell, xlabel="seconds here", ylabel="PSNR, dB")
        axes.legend(fontsize="x-small")
    drawn.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description="PSNR against time of the recipes on the paper's pictures.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--items", nargs="+", default=["table1", "table2", "table3"])
    parser.add_argument("--recipes", nargs="+", default=["fast", "best"], choices=["fast", "best"])
    parser.add_argument("--only", action="append", default=[], help='jobs with these words, as "MGDL butterfly"')
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--no-paper-time", action="store_true")
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    store = Store(arguments.store)
    experiment = executors.Experiment(experiments.run, arguments.folder.absolute(), num_cores())
    rows = []
    for recipe in arguments.recipes:
        jobs = catalogue.expand(arguments.items, recipe=recipe, images=arguments.folder, seeds=arguments.seeds)
        trained = [job for job in jobs if job.kind != "baseline" and not job.settings["stand_in"]]
        for job in catalogue.only(trained, arguments.only):
            (report,) = executors.run_jobs([job], store, experiment, executor="inline")
            if report.status == "failed":
                raise SystemExit(f"{job.label}: {report.sentence}")
            rows.append(row(store.load(job.key), not arguments.no_paper_time))
            print(line(rows[-1]), flush=True)
    print(table(rows))
    if arguments.figure:
        figure(rows, arguments.figure)


if __name__ == "__main__":
    main()
