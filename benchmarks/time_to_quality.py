"""How good a picture is after how long: fast and best against the time that the paper's recipe would take here.

    python -m benchmarks.time_to_quality FOLDER -o cells.jsonl            every cell of Tables 1-3, hours
    python -m benchmarks.time_to_quality FOLDER -o cells.jsonl --only butterfly --recipes fast --methods mgdl

FOLDER holds the paper's pictures (cameraman.png, ...). Each finished cell is one line of the output file, and a cell
that is there is not run again. Seconds are wall time from the first call to the result, compilation and the choice of
strengths included; the PSNR after each grade stands beside the seconds until it. The paper's time is that of a plain
step, dispatched one at a time, measured here, times the paper's steps. ``--figure`` draws PSNR against time.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import bench_restoration, bench_training
from benchmarks.bench_imaging import dense_convolution
from multigrade import structures
from multigrade.imaging import restore
from multigrade.imaging.images import add_blur, add_noise, load
from multigrade.lab.claims.reconstruction import PAPER

BLUR_NOISE = 3
STEPS = {"regress": 10_000, "denoise": 20_000, "deblur": 20_000}  # per grade, the paper's
SIZES = {"cameraman": 256, "barbara": 512, "butterfly": 512, "pirate": 1024, "chest": 1024}


class Cell(NamedTuple):
    task: str
    image: str
    level: int
    method: str
    recipe: str
    seed: int


def cells(arguments) -> Iterator[Cell]:
    levels = {"regress": (0,), "denoise": (10, 20, 30, 40, 50, 60), "deblur": (3, 5, 7)}
    for task in arguments.tasks:
        for image in SIZES if task == "regress" else ("butterfly", "pirate", "chest"):
            for level in levels[task]:
                for recipe in arguments.recipes:
                    for method in arguments.methods:
                        for seed in arguments.seeds:
                            if not arguments.only or image in arguments.only:
                                yield Cell(task, image, level, method, recipe, seed)


def paper_psnr(cell: Cell) -> float:
    if cell.task == "regress":
        return PAPER["regression"][cell.image][cell.method.upper()]["test"]
    return PAPER[cell.task][cell.image][cell.method.upper()][str(cell.level)]


def run(cell: Cell, folder: Path) -> dict:
    clean = load(folder / f"{cell.image}.png").pixels
    options = restore.Options(method=cell.method, recipe=cell.recipe, seed=cell.seed)
    given = {"reference": clean, "options": options}
    started = time.perf_counter()
    if cell.task == "regress":
        restored = restore.regress(clean, options=options)
    elif cell.task == "denoise":
        noisy = add_noise(clean, cell.level, seed=0)
        restored = restore.denoise(noisy, noise_sigma=cell.level, **given)
    else:
        blurred = add_noise(add_blur(clean, cell.level), BLUR_NOISE, seed=0)
        restored = restore.deblur(blurred, blur_sigma=cell.level, noise_sigma=BLUR_NOISE, **given)
    seconds = time.perf_counter() - started
    before = seconds - sum(record.seconds for record in restored.records)  # strengths, target, features
    until = before + np.cumsum([record.seconds for record in restored.records])
    psnrs = [grade["psnr"] for grade in restored.metrics["grades"]]
    return {
        **cell._asdict(), "psnr": psnrs[-1], "paper": paper_psnr(cell), "seconds": seconds, "grades": psnrs,
        "until": until[: len(psnrs)].tolist(), "estimated": restored.metrics.get("estimated_psnr"),
    }  # fmt: skip


def paper_seconds(task: str, size: int, level: int, method: str) -> float:
    """Of the paper's recipe on this machine: a plain step of each of its grades, times its steps."""
    layers = "2" if task == "regress" else "3"
    total, known = 0.0, {}
    for network in structures.PAPER[f"{method.upper()}-{layers}"]:
        if network not in known:
            if task == "regress":
                known[network] = bench_training.plain(network, (size // 2) ** 2, "adam", 3)
            else:
                operator = dense_convolution(float(level)) if task == "deblur" else lambda image: image
                known[network] = bench_restoration.plain(operator, 2, network, size)
        total += known[network] * STEPS[task]
    return total


def table(rows: list[dict]) -> str:
    lines = [
        f"{'cell':32}{'recipe':8}{'seed':>5}{'ours':>8}{'paper':>8}{'':3}{'seconds':>9}{'paper, h':>10}{'ratio':>8}"
    ]
    for row in rows:
        name = f"{row['task']} {row['image']} {row['level'] or ''} {row['method'].upper()}"
        mark = "  " if round(row["psnr"], 2) >= row["paper"] else " <"
        hours, ratio = row.get("paper_seconds", np.nan) / 3600, row.get("paper_seconds", np.nan) / row["seconds"]
        numbers = f"{row['psnr']:8.2f}{row['paper']:8.2f}{mark:3}{row['seconds']:9.0f}{hours:10.1f}{ratio:8.0f}"
        lines.append(f"{name:32}{row['recipe']:8}{row['seed']:5}{numbers}")
    return "\n".join(lines)


def figure(rows: list[dict], path: Path) -> None:
    from matplotlib.figure import Figure

    kinds = sorted({(row["task"], row["image"], row["level"]) for row in rows})
    columns = min(len(kinds), 3)
    lines = -(-len(kinds) // columns)
    drawn = Figure(figsize=(4.2 * columns, 3.2 * lines), layout="constrained")
    panels = drawn.subplots(lines, columns, squeeze=False).ravel()
    for kind, axes in zip(kinds, panels, strict=False):
        for row in rows:
            if (row["task"], row["image"], row["level"]) == kind:
                style = {"marker": "o" if row["method"] == "mgdl" else "s", "markersize": 4}
                axes.semilogx(row["until"], row["grades"], label=f"{row['recipe']}, {row['method'].upper()}", **style)
                if "paper_seconds" in row:
                    axes.semilogx([row["paper_seconds"]], [row["paper"]], "k*" if row["method"] == "mgdl" else "kx")
        axes.set(title=" ".join(str(part) for part in kind if part), xlabel="seconds", ylabel="PSNR, dB")
        axes.legend(fontsize="x-small")
    drawn.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description="PSNR against time of the recipes on the paper's pictures.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", default=list(STEPS), choices=STEPS)
    parser.add_argument("--only", nargs="+", choices=SIZES)
    parser.add_argument("--recipes", nargs="+", default=["fast", "best"], choices=restore.RECIPES)
    parser.add_argument("--methods", nargs="+", default=["mgdl", "sgdl"], choices=restore.METHODS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--no-paper-time", action="store_true")
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    rows = [json.loads(line) for line in arguments.output.read_text().splitlines()] if arguments.output.exists() else []
    done = {tuple(row[name] for name in Cell._fields): row for row in rows}
    wanted, times = list(cells(arguments)), {}
    for cell in wanted:
        if cell in done:
            continue
        row = run(cell, arguments.folder)
        if not arguments.no_paper_time:
            kind = cell.task, SIZES[cell.image], cell.level if cell.task == "deblur" else 0, cell.method
            times[kind] = times.get(kind) or paper_seconds(*kind)
            row["paper_seconds"] = times[kind]
        with arguments.output.open("a") as file:
            file.write(json.dumps(row) + "\n")
        done[cell] = row
        print(table([row]).splitlines()[-1], flush=True)
    print(table([done[cell] for cell in wanted]))
    if arguments.figure:
        figure([done[cell] for cell in wanted], arguments.figure)


if __name__ == "__main__":
    main()
