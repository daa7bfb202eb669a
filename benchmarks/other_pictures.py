"""Deblurring, inpainting, upsampling by recipe best beside simple methods: python -m benchmarks.other_pictures FOLDER

Blur of 2 and 3 pixels with noise 3 (seed 0, level given) beside the minimiser and total variation; a half and four
fifths of the pixels missing at random (seed 0), and 4 rows in every 16, beside the biharmonic equation; block
averages of 2 and 3 pixels a side beside cubic splines. PSNR / SSIM of results clipped to black and white.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import skimage

from multigrade import restore
from multigrade.restore import baselines

from .pictures import middle

BEST = restore.Options(recipe="best")
NOISE = 3
Case = tuple[str, restore.Restored, dict[str, np.ndarray]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--match", default="*", help="which files, as a pattern")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--side", type=int, help="only the middle, of so many pixels a side")
    given = parser.parse_args()
    rows: dict[str, list[dict[str, tuple[float, float]]]] = {}
    for path in sorted(given.folder.glob(given.match)):
        if path.suffix not in (".png", ".tif", ".jpg"):
            continue
        clean = middle(skimage.util.img_as_float64(skimage.io.imread(path)), given.side)
        clean = clean[: clean.shape[0] // 6 * 6, : clean.shape[1] // 6 * 6]  # both factors divide it
        for task in given.tasks:
            started = time.perf_counter()
            for name, result, others in TASKS[task](clean):
                found = dict(zip(result.metrics["stages"], result.stages, strict=True)) | others
                rows.setdefault(name, []).append({method: _quality(image, clean) for method, image in found.items()})
                print(name, path.name, *map(_shown, rows[name][-1].items()), f"{time.perf_counter() - started:.0f} s")
                started = time.perf_counter()
    for name, found in rows.items():
        means = {method: tuple(np.mean([row[method] for row in found], axis=0)) for method in found[0]}
        print("mean", name, *map(_shown, means.items()))


def _quality(image: np.ndarray, clean: np.ndarray) -> tuple[float, float]:
    found = restore.quality(np.clip(image, 0, 1), clean)
    return found["psnr"], found["ssim"]


def _shown(item: tuple[str, tuple[float, ...]]) -> str:
    return f"{item[0]} {item[1][0]:.2f}/{item[1][1]:.3f}"


def deblur(clean: np.ndarray) -> Iterator[Case]:
    noise = NOISE / 255 * np.random.default_rng(0).standard_normal(clean.shape)
    for width in (2.0, 3.0):
        blur = restore.GaussianBlur(width)
        observed = np.asarray(blur(jnp.asarray(clean))) + noise
        result = restore.deblur(observed, blur_sigma=width, noise_sigma=NOISE, options=BEST)
        yield f"blur {width:g}", result, {"TV": baselines.tv_deblur(observed, blur, noise_sigma=NOISE)}


def inpaint(clean: np.ndarray) -> Iterator[Case]:
    random = np.random.default_rng(0).uniform(size=clean.shape[:2])
    lines = (np.arange(clean.shape[0]) % 16 < 4)[:, None] | np.zeros(clean.shape[:2], bool)
    for name, known in (("half missing", random < 0.5), ("four fifths missing", random < 0.2), ("lines", ~lines)):
        result = restore.inpaint(clean, known, options=BEST)
        yield name, result, {"biharmonic": baselines.inpaint_biharmonic(clean, known)}


def upsample(clean: np.ndarray) -> Iterator[Case]:
    for factor in (2, 3):
        small = np.asarray(restore.BlockAverage(factor, clean.shape[:2])(jnp.asarray(clean)))
        yield f"factor {factor}", restore.upsample(small, factor=factor, options=BEST), {}


TASKS = {"deblur": deblur, "inpaint": inpaint, "upsample": upsample}


if __name__ == "__main__":
    main()
