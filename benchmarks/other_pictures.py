"""Deblurring, inpainting, upsampling by recipe best beside simple methods: python -m benchmarks.other_pictures FOLDER

Blur of 2 and 3 pixels with noise 3 (seed 0, level given) beside total variation and the Wiener filter; a half and four
fifths of the pixels missing at random (seed 0), and 4 rows in every 16, beside the biharmonic equation; block averages
of 2 and 3 pixels a side beside cubic splines. PSNR / SSIM of results clipped to black and white, and processor seconds,
the compiling of programs included. The means are over grey and over colour pictures apart.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import skimage

from multigrade import restore
from multigrade.pictures import baselines

from .pictures import middle

BEST = restore.Options(recipe="best")
NOISE = 3
# What was done to the picture, and how each method undoes it.
Case = tuple[str, dict[str, Callable[[], np.ndarray]]]
Row = dict[str, tuple[float, float, float]]  # PSNR, SSIM, processor seconds by method


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--match", nargs="+", default=["*"], help="which files, as patterns")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--side", type=int, help="only the middle, of so many pixels a side")
    given = parser.parse_args()
    rows: dict[tuple[str, str], list[Row]] = {}
    for path in sorted({path for pattern in given.match for path in given.folder.glob(pattern)}):
        if path.suffix not in (".png", ".tif", ".jpg"):
            continue
        clean = middle(skimage.util.img_as_float64(skimage.io.imread(path)), given.side)
        clean = clean[: clean.shape[0] // 6 * 6, : clean.shape[1] // 6 * 6]  # both factors divide it
        for name, methods in (case for task in given.tasks for case in TASKS[task](clean)):
            row = {method: _measured(restored, clean) for method, restored in methods.items()}
            rows.setdefault((name, "grey" if clean.ndim == 2 else "colour"), []).append(row)
            print(name, path.name, *map(_shown, row.items()), flush=True)
    for (name, kind), found in rows.items():
        means = {method: tuple(np.mean([row[method] for row in found], axis=0)) for method in found[0]}
        print("mean", name, kind, *map(_shown, means.items()))


def _measured(restored: Callable[[], np.ndarray], clean: np.ndarray) -> tuple[float, float, float]:
    started = time.process_time()
    image = restored()
    seconds = time.process_time() - started
    found = restore.quality(np.clip(image, 0, 1), clean)
    return found["psnr"], found["ssim"], seconds


def _shown(item: tuple[str, tuple[float, ...]]) -> str:
    method, (decibels, similarity, seconds) = item
    return f"{method} {decibels:.2f}/{similarity:.3f} {seconds:.1f} s"


def deblur(clean: np.ndarray) -> Iterator[Case]:
    noise = NOISE / 255 * np.random.default_rng(0).standard_normal(clean.shape)
    for width in (2.0, 3.0):
        blur = restore.GaussianBlur(width)
        observed = np.asarray(blur(jnp.asarray(clean))) + noise
        best = partial(restore.deblur, observed, blur_sigma=width, noise_sigma=NOISE, options=BEST)
        simple = {"TV": baselines.tv_deblur, "Wiener": baselines.wiener}
        others = {name: partial(method, observed, blur, noise_sigma=NOISE) for name, method in simple.items()}
        yield f"blur {width:g}", {"best": _image_of(best), **others}


def inpaint(clean: np.ndarray) -> Iterator[Case]:
    random = np.random.default_rng(0).uniform(size=clean.shape[:2])
    lines = (np.arange(clean.shape[0]) % 16 < 4)[:, None] | np.zeros(clean.shape[:2], bool)
    for name, known in (("half missing", random < 0.5), ("four fifths missing", random < 0.2), ("lines", ~lines)):
        best = partial(restore.inpaint, clean, known, options=BEST)
        yield name, {"best": _image_of(best), "biharmonic": partial(baselines.inpaint_biharmonic, clean, known)}


def upsample(clean: np.ndarray) -> Iterator[Case]:
    for factor in (2, 3):
        small = np.asarray(restore.BlockAverage(factor, clean.shape[:2])(jnp.asarray(clean)))
        best = partial(restore.upsample, small, factor=factor, options=BEST)
        yield (
            f"factor {factor}",
            {"best": _image_of(best), "cubic": partial(baselines.upsample, small, factor, kind="cubic")},
        )


def _image_of(task: Callable[[], restore.Restored]) -> Callable[[], np.ndarray]:
    return lambda: task().image


TASKS = {"deblur": deblur, "inpaint": inpaint, "upsample": upsample}


if __name__ == "__main__":
    main()
