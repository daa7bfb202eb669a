"""Photos and their truth: python -m benchmarks.photos FOLDER [--clean FOLDER ...]

Pairs in the folder are NAME_real.EXT and NAME_mean.EXT: a photo as a camera wrote it, and the mean of many shots of the
same scene. Kind and level of the noise are estimated. "level" is the root mean square of their difference, on the
0..255 scale. BM3D (pip install bm3d; its licence is non-commercial), with --bm3d, is told that level; it takes most of
the time.
Clean pictures, those of --clean saved as JPEG at several qualities and drawings made here, should be left alone.

--part first takes the pairs on which the two constants of ``pictures/noise/camera.py`` were chosen (Canon, and those
whose name begins with camera), --part second the others. --only-noise finds the noise and does not remove it.
"""

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
import skimage
from PIL import Image

from multigrade import pictures, restore
from multigrade.pictures import baselines
from multigrade.pictures.denoise.denoising import describe_noise
from multigrade.pictures.layout import to_channels
from multigrade.pictures.metrics import psnr

from .cameras import compressed, drawing, shot

QUALITIES = (75, 85, 95)
PART = 200  # pixels on a side that are drawn
NEAR, WORSE = 0.25, 0.05  # of the level; dB that no picture may lose
FIRST = ("camera", "polyu_Canon")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clean", type=Path, nargs="+", default=[], help="folders of clean pictures")
    parser.add_argument("--drawings", type=int, default=20)
    parser.add_argument("--part", choices=("all", "first", "second"), default="all")
    parser.add_argument("--only-noise", action="store_true")
    parser.add_argument("--bm3d", action="store_true")
    parser.add_argument("--draw", type=Path, help="only draw free pictures, before and after, to this file")
    given = parser.parse_args()
    if given.draw is not None:
        return before_and_after(given.draw)
    rows = [judged(noisy, given) for noisy in sorted(given.folder.glob("*_real.*")) if is_in(noisy, given.part)]
    if rows:
        summarised(rows)
    alone = [describe_noise(to_channels(picture)).sigma == 0 for _, picture in clean_pictures(given)]
    print(f"clean pictures left alone: {sum(alone)} of {len(alone)}")


def is_in(path: Path, part: str) -> bool:
    return part == "all" or path.name.startswith(FIRST) == (part == "first")


def judged(path: Path, given) -> dict[str, float]:
    """Level found over the true one, gain in dB, and that of BM3D."""
    noisy, clean = (pictures.load(str(path).replace("_real.", each)).pixels for each in ("_real.", "_mean."))
    level, before = 255 * float(np.sqrt(np.mean((noisy - clean) ** 2))), psnr(noisy, clean)
    noise = describe_noise(to_channels(noisy))
    row = {"found": 255 * noise.sigma / level}
    if not given.only_noise:
        started = time.process_time()
        row["gain"] = psnr(np.clip(restore.denoise(noisy).image, 0, 1), clean) - before
        row["seconds"] = time.process_time() - started
    if given.bm3d:
        row["bm3d"] = psnr(np.clip(baselines.bm3d_denoise(noisy, noise_sigma=level), 0, 1), clean) - before
    numbers = ", ".join(f"{name} {value:.2f}" for name, value in row.items())
    print(f"{path.stem}: {noise.kind}, level {level:.2f}, as it came {before:.2f} dB, {numbers}", flush=True)
    return row


def before_and_after(path: Path) -> None:
    """Parts of free pictures at 100 %: from simulated cameras, denoised, and without noise."""
    rows = []
    for name, seed, top, left in (("astronaut", 8, 20, 130), ("astronaut", 1, 280, 60), ("coffee", 3, 60, 200)):
        taken = shot(skimage.util.img_as_float32(getattr(skimage.data, name)()), np.random.default_rng(seed))
        result = restore.denoise(taken.noisy)
        part = np.s_[top : top + PART, left : left + PART]
        rows.append(np.hstack([image[part] for image in (taken.noisy, result.image, taken.clean)]))
        before, after = (psnr(np.clip(image, 0, 1), taken.clean) for image in (taken.noisy, result.image))
        print(f"{name}, camera {seed}: {result.noise_kind} {result.noise_sigma:.1f}, {before:.2f} to {after:.2f} dB")
    Image.fromarray(np.uint8(np.rint(255 * np.clip(np.vstack(rows), 0, 1)))).save(path, quality=92)


def summarised(rows: list[dict[str, float]]) -> None:
    found = np.array([row["found"] for row in rows])
    near = np.sum(np.abs(found - 1) < NEAR)
    print(f"noise found in {np.sum(found > 0)} of {len(rows)}, its level within 25 % in {near}")
    for name in ("gain", "bm3d"):
        if name in rows[0]:
            gains = np.array([row[name] for row in rows])
            print(f"{name}: mean {gains.mean():.2f} dB, least {gains.min():.2f}, lost {np.sum(gains < -WORSE)}")


def clean_pictures(given):
    """Name and picture, uint8: the same pictures at every quality, then drawings."""
    files = [path for folder in given.clean for path in sorted(folder.iterdir())
             if path.suffix.lower() in (".png", ".tif", ".jpg") and "_real." not in path.name]  # fmt: skip
    for path, quality in itertools.product(files, QUALITIES):
        with Image.open(path) as image:
            picture = np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))
        yield f"{path.name} {quality}", np.rint(255 * compressed(picture / 255, quality, 2)).astype(np.uint8)
    random = np.random.default_rng(10**6)
    for number in range(given.drawings):
        quality = (*QUALITIES, 100)[number % 4]
        yield f"drawing {number}", np.rint(255 * compressed(drawing(random), quality, 2)).astype(np.uint8)


if __name__ == "__main__":
    main()
