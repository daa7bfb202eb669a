"""Commands with options from a pool of good and odd values, in a folder of good and odd files."""

import os
from pathlib import Path

import numpy as np
from PIL import Image

from multigrade import MultiGradeRegressor
from multigrade.files import read_arrays, write_arrays

from . import judge

NUMBERS = ("0", "-1", "1", "2", "1000000000", "99999999999999999999", "1.5", "nan", "inf", "-inf", "1e400", "", "x")
PATHS = ("missing.csv", "folder", "loop", "loop/a.png", "/proc/a.png", "/proc/a.safetensors", "/dev/full/a.csv", "",
         "good.csv", "good.png", "empty.csv", "empty.png", "none/a.png", "a" * 300 + ".png", "out.png", "out.csv",
         "out.safetensors", "OUT.PNG", "out", ".png", "known.safetensors", "nan.safetensors", "huge.csv",
         "semicolon.csv", "complex.npz", "good.npz", "text.csv", "\u00e9.csv")  # fmt: skip
WORDS = (
    "mgdl",
    "sgdl",
    "msdl",
    "y",
    "a",
    "a,b",
    "a,b,y",
    "y,y",
    "nosuch",
    "gd",
    "adam",
    "muon",
    "fast",
    "best",
    "paper",
    "",
    "-",
)
# Options with the pool of their values; those that make a run long are always given small values besides.
COMMANDS = {
    "fit": {"--target": WORDS, "--model": PATHS, "--method": WORDS, "--grades": NUMBERS, "--width": NUMBERS,
            "--layers": NUMBERS, "--optimiser": WORDS, "--learning-rate": NUMBERS, "--seed": NUMBERS,
            "--tensorboard": PATHS},
    "predict": {"-o": PATHS},
    "spectrum": {"--method": WORDS, "--learning-rate": NUMBERS, "--every": NUMBERS, "--num": NUMBERS, "--edge": NUMBERS,
                 "--target": WORDS, "--stride": NUMBERS, "-o": PATHS, "--record": PATHS, "--seed": NUMBERS},
    "denoise": {"-o": PATHS, "--method": WORDS, "--recipe": WORDS, "--grades": NUMBERS, "--layers": NUMBERS,
                "--width": NUMBERS, "--learning-rate": NUMBERS, "--lambda": NUMBERS, "--noise-sigma": NUMBERS,
                "--reference": PATHS, "--figure": PATHS, "--json": PATHS, "--time-limit": NUMBERS, "--seed": NUMBERS,
                "--add-noise": NUMBERS, "--steps": NUMBERS, "--tensorboard": PATHS},
    "deblur": {"-o": PATHS, "--blur-sigma": NUMBERS, "--reference": PATHS, "--recipe": WORDS},
    "inpaint": {"-o": PATHS, "--mask": PATHS, "--reference": PATHS},
    "upsample": {"-o": PATHS, "--factor": NUMBERS},
    "runs": {"--item": WORDS, "--where": WORDS, "--method": WORDS},
    "claims": {"--item": WORDS, "--status": WORDS, "--json": PATHS},
    "report": {"-o": PATHS, "--figures": PATHS, "--pixels": NUMBERS},
    "info": {},
}  # fmt: skip
SHORT = {"fit": ["--steps", "2", "--width", "3", "--grades", "1"], "spectrum": ["--steps", "2"]}
GOOD = {
    "fit": ["good.csv"],
    "predict": ["known.safetensors", "good.npz"],
    "spectrum": ["good.csv"],
    "denoise": ["good.png"],
}
ARGUMENTS = {
    "fit": 1,
    "predict": 2,
    "spectrum": 1,
    "denoise": 1,
    "deblur": 1,
    "inpaint": 1,
    "upsample": 1,
    "runs": 1,
    "claims": 1,
    "report": 1,
}


def fill(folder: Path) -> None:
    """The files that the paths name."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(9, 3))
    text = "a,b,y\n" + "\n".join(",".join(f"{cell:.3g}" for cell in row) for row in rows) + "\n"
    for name in ("good.csv", "\u00e9.csv"):
        (folder / name).write_text(text)
    (folder / "huge.csv").write_text(text + "1e300,1,1\n")
    (folder / "semicolon.csv").write_text(text.replace(",", ";"))
    (folder / "text.csv").write_text("not a table")
    for name in ("empty.csv", "empty.png"):
        (folder / name).write_bytes(b"")
    np.savez(folder / "good.npz", X=rows[:, :2], y=rows[:, 2])
    np.savez(folder / "complex.npz", X=rows[:, :2] * 1j, y=rows[:, 2])
    Image.fromarray(rng.integers(0, 256, (8, 8), np.uint8)).save(folder / "good.png")
    (folder / "folder").mkdir()
    os.symlink("loop", folder / "loop")
    model = MultiGradeRegressor(1, (3,), solver="muon", max_iter=2, random_state=0)
    model.fit(rows[:, :2], rows[:, 2]).save(folder / "known.safetensors")
    arrays, description, _ = read_arrays(folder / "known.safetensors", "estimator")
    nan = {name: np.full_like(array, np.nan) if name.startswith("grade") else array for name, array in arrays.items()}
    write_arrays(folder / "nan.safetensors", "estimator", nan, description)


def draw(rng: np.random.Generator) -> list[str]:
    """A command line. Most are refused; whatever is not trains for two steps."""
    name = str(rng.choice(list(COMMANDS)))
    options = COMMANDS[name]
    line = [name] + [_pick(PATHS, rng) for _ in range(ARGUMENTS.get(name, 0))]
    if name in GOOD and rng.random() < 0.6:
        line = [name, *GOOD[name]]
    chosen = rng.permutation(list(options))[: int(rng.integers(1, 5))] if options else []
    for option in chosen:
        line += [str(option), _pick(options[str(option)], rng)]
    if "-o" in options and "-o" not in chosen:
        line += ["-o", _pick(PATHS, rng)]
    for option, value in zip(SHORT.get(name, [])[::2], SHORT.get(name, [])[1::2], strict=True):
        if option not in chosen:
            line += [option, value]
    if name in ("denoise", "deblur", "inpaint", "upsample") and not _is_refused(line):
        return [name, *line[1:], "--steps", "x"]  # restoration takes too long for a fuzzer: its reading is tried alone
    return line


def _is_refused(line: list[str]) -> bool:
    """Whether the picture cannot be read, so that nothing is trained."""
    return line[1] != "good.png"


def _pick(pool, rng: np.random.Generator) -> str:
    return str(pool[int(rng.integers(0, len(pool)))])


def run(folder: Path, rng: np.random.Generator) -> tuple[judge.Outcome, list[str]]:
    line = draw(rng)
    before = set(judge.contents(folder))
    outcome = judge.command(line, folder)
    for name in set(judge.contents(folder)) - before:  # what a success has made
        Path(name).unlink()
    return outcome, line
