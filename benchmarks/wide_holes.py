"""Wide holes filled by recipe best beside patches alone and the biharmonic equation: python -m benchmarks.wide_holes

Square holes of 16, 20 and 28 pixels in a random crop of 192 x 192 pixels of five free pictures of scikit-image and of
all pictures in the folders that are given. PSNR / SSIM of the whole crop, clipped to black and white.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import skimage

from multigrade import restore

SIDE, HOLES, APART = 192, (20, 28, 16), 8
FREE = ("astronaut", "camera", "chelsea", "coffee", "rocket")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--match", default="*.png", help="which files, as a pattern")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rows = []
    for name, picture in pictures(given):
        clean, known = with_holes(picture, given.seed)
        result = restore.inpaint(clean, known, options=restore.Options(recipe="best"))
        stages = dict(zip(result.names, result.stages, strict=True))
        found = {"best": result.image, **{name: stages[name] for name in ("biharmonic", "patches") if name in stages}}
        rows.append({method: restore.quality(np.clip(image, 0, 1), clean) for method, image in found.items()})
        _show(name, rows[-1])
    _show("mean", {m: {k: float(np.mean([row[m][k] for row in rows])) for k in rows[0][m]} for m in rows[0]})
    worst = min(row["best"]["psnr"] - row["biharmonic"]["psnr"] for row in rows)
    print(f"best less biharmonic, at worst: {worst:+.2f} dB")


def pictures(given) -> Iterator[tuple[str, np.ndarray]]:
    for name in FREE:
        yield name, skimage.util.img_as_float64(getattr(skimage.data, name)())
    for path in [path for folder in given.folders for path in sorted(folder.glob(given.match))]:
        yield path.stem, skimage.util.img_as_float64(skimage.io.imread(path))


def with_holes(picture: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A crop, and which of its pixels are known."""
    random = np.random.default_rng(seed)
    top, left = (random.integers(0, size - SIDE + 1) for size in picture.shape[:2])
    known = np.ones((SIDE, SIDE), bool)
    for hole in HOLES:
        row, column = random.integers(APART, SIDE - hole - APART, 2)
        while not known[row - APART : row + hole + APART, column - APART : column + hole + APART].all():
            row, column = random.integers(APART, SIDE - hole - APART, 2)
        known[row : row + hole, column : column + hole] = False
    return picture[top : top + SIDE, left : left + SIDE], known


def _show(name: str, row: dict[str, dict[str, float]]) -> None:
    print(name, *(f"{m} {q['psnr']:.2f}/{q['ssim']:.4f}" for m, q in row.items()), flush=True)


if __name__ == "__main__":
    main()
