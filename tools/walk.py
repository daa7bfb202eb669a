"""python tools/walk.py: how far data walks from a door to the arithmetic: files, functions and frames, as a table.

A call is traced by Python's profiler. A file or function counts if it belongs to this project and was entered during
the call, not while modules are imported. Depth counts the project's frames on the stack where the arithmetic stands:
the update rule of the loop for ``fit``, the non-local pass for ``denoise``, the least squares for ``solve``.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
HOUSES = (str(ROOT / "src" / "multigrade"), str(ROOT / "reproduction" / "multigrade_paper"))


def walk(call: Callable[[], object], target: str) -> tuple[int, int, int | None]:
    """Files, functions, and the least number of the project's frames above a function whose name is ``target``."""
    files, functions, depths = set(), set(), []

    def enter(frame, event, _):
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(HOUSES) or code.co_name == "<module>":
            return
        files.add(code.co_filename)
        functions.add((code.co_filename, code.co_qualname))
        if code.co_name == target:
            depth = 0
            while frame is not None:
                is_ours = frame.f_code.co_filename.startswith(HOUSES) and not frame.f_code.co_name.startswith("<")
                depth, frame = depth + is_ours, frame.f_back
            depths.append(depth)

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(files), len(functions), min(depths, default=None)


def fit() -> None:
    from multigrade import MultiGradeRegressor

    x = np.random.default_rng(0).normal(size=(300, 4))
    MultiGradeRegressor(random_state=0).fit(x, x[:, 0] * x[:, 1])


def fit_functions() -> None:
    from multigrade import Plan, fit_grades, structures

    x = np.linspace(0, 1, 64)[:, None]
    fit_grades(structures.graded(1, [[8], [8]], 1), x, np.sin(6 * x), Plan(20))


def command(*arguments: str) -> Callable[[], None]:
    def call() -> None:
        from multigrade.cli import main

        before, sys.argv = os.getcwd(), ["multigrade", *arguments]
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            grey = np.uint8(np.clip(np.random.default_rng(0).normal(128, 10, (48, 48)), 0, 255))
            Image.fromarray(grey).save("noisy.png")
            try:
                main()
            except SystemExit as end:
                if end.code:
                    raise
            finally:
                os.chdir(before)

    return call


WALKS: dict[str, tuple[Callable[[], object], str]] = {
    "MultiGradeRegressor().fit": (fit, "_plain_step"),
    "fit_grades": (fit_functions, "_plain_step"),
    "multigrade denoise": (command("denoise", "noisy.png", "-o", "a.png", "-q"), "one_pass"),
    "multigrade solve": (command("solve", "helmholtz", "-q"), "solve_blocks"),
    "multigrade reproduce": (command("reproduce", "steadiness", "--recipe", "quick", "--store", "runs",
                                     "--executor", "inline", "-q"), "_plain_step"),
}  # fmt: skip


if __name__ == "__main__":
    for name in sys.argv[1:] or WALKS:
        files, functions, depth = walk(*WALKS[name])
        print(f"{name:28} {files:3} files {functions:4} functions, {depth} frames to {WALKS[name][1]}")
