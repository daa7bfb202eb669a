"""Denoising, estimate, mixture and grades apart, beside non-local means and BM3D: python -m benchmarks.pictures FOLDER

White noise of seed 0 (numpy), not clipped unless --clip, level given to all methods. With --camera, FOLDER holds pairs
NAME_real.png and NAME_mean.png, and the level is estimated. PSNR of results clipped to black and white.
"""

import argparse
import importlib.util
import time
from pathlib import Path

import numpy as np
import skimage

from multigrade import restore
from multigrade.restore import baselines
from multigrade.restore.metrics import psnr

LEVELS = (15, 25, 50)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--match", default="*", help="which files, as a pattern")
    parser.add_argument("--levels", type=int, nargs="+", default=LEVELS)
    parser.add_argument("--side", type=int, help="only the middle, of so many pixels a side")
    parser.add_argument("--clip", action="store_true", help="clip to 8 bit, and estimate the level")
    parser.add_argument("--camera", action="store_true")
    parser.add_argument("--grades", type=int, help="grades of the picture's own on top")
    given = parser.parse_args()
    rows: dict[object, list[dict[str, float]]] = {}
    for level, name, noisy, clean in cases(given):
        found = measured(noisy, clean, None if given.clip or given.camera else level, given.grades)
        rows.setdefault(level, []).append(found)
        print(level, name, *(f"{method} {value:.2f}" for method, value in found.items()), flush=True)
    for level, found in rows.items():
        names = [name for name in found[0] if all(name in row for row in found)]
        print("mean", level, *(f"{name} {np.mean([row[name] for row in found]):.2f}" for name in names))


def cases(given):
    """Level, name, noisy and clean picture."""
    files = sorted(given.folder.glob(f"{given.match}_real.png" if given.camera else given.match))
    for path in files:
        if path.suffix not in (".png", ".tif", ".jpg"):
            continue
        picture = middle(skimage.util.img_as_float64(skimage.io.imread(path)), given.side)
        if given.camera:
            truth = path.with_name(path.name.replace("_real", "_mean"))
            clean = skimage.util.img_as_float64(skimage.io.imread(truth))
            yield "camera", path.name, picture, middle(clean, given.side)
            continue
        for level in given.levels:
            noisy = picture + level / 255 * np.random.default_rng(0).standard_normal(picture.shape)
            yield level, path.name, np.round(255 * np.clip(noisy, 0, 1)) / 255 if given.clip else noisy, picture


def middle(picture: np.ndarray, side: int | None) -> np.ndarray:
    if side is None:
        return picture
    top, left = (max(size - side, 0) // 2 for size in picture.shape[:2])
    return picture[top : top + side, left : left + side]


def measured(noisy, clean, level, grades) -> dict[str, float]:
    """PSNR by method, and seconds."""

    def quality(image) -> float:
        return psnr(np.clip(image, 0, 1), clean)

    started = time.perf_counter()
    result = restore.denoise(noisy, noise_sigma=level, options=restore.Options(recipe="best", grades=grades))
    seconds = time.perf_counter() - started
    found = {"noisy": quality(noisy)}
    found |= {name: quality(image) for name, image in zip(result.metrics["stages"], result.stages, strict=True)}
    found["seconds"] = seconds
    sigma = result.metrics["noise_sigma"]
    found["nlm"] = quality(baselines.nonlocal_means(noisy, noise_sigma=sigma))
    if importlib.util.find_spec("bm3d"):
        started = time.perf_counter()
        found["bm3d"] = quality(baselines.bm3d_denoise(noisy, noise_sigma=sigma))
        found["bm3d seconds"] = time.perf_counter() - started
    return found


if __name__ == "__main__":
    main()
