"""Denoising, estimate and mixture apart, beside non-local means and BM3D: python -m benchmarks.pictures FOLDER

White noise of seed 0 (numpy) on every grey and colour picture in the folders; level given to all methods.

grey     pictures with one channel, noise not clipped
colour   pictures with three, noise not clipped, beside BM3D's form for colour
clipped  all of these, noisy values rounded to 8 bit between black and white; our level is estimated, and the other
         methods are given what we found
camera   pairs NAME_real.png and NAME_mean.png; kind and level of the noise are estimated

PSNR of results clipped to black and white. "error of the estimate" is the quality that we print, less the true one.
Rows are appended to --results as they are found, and those that are there already are not measured again.
"""

import argparse
import importlib.util
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import skimage

from multigrade import restore
from multigrade.pictures import baselines
from multigrade.pictures.metrics import psnr

LEVELS = (15, 25, 50)
KINDS = ("grey", "colour", "clipped", "camera")
PAIR = ("_real", "_mean")
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--match", default="*", help="which files, as a pattern")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--levels", type=int, nargs="+", default=LEVELS)
    parser.add_argument("--side", type=int, help="only the middle, of so many pixels a side")
    parser.add_argument("--given", action="store_true", help="give the level for clipped pictures, too")
    parser.add_argument("--results", type=Path, default=Path("pictures.jsonl"))
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    known = {_key(row): row for row in rows}
    wanted = []
    for about, noisy, clean in cases(given):
        if _key(about) not in known:
            known[_key(about)] = about | measured(noisy, clean, _level_given(about, given))
            with given.results.open("a") as file:
                print(json.dumps(known[_key(about)]), file=file)
        wanted.append(known[_key(about)])
        print(_line(wanted[-1], str(about["picture"])), flush=True)
    print_means(wanted)


def _key(row: Row) -> tuple:
    return tuple(row[name] for name in ("kind", "level", "picture", "side", "given"))


def _level_given(about: Row, given) -> int | None:
    is_given = about["kind"] in ("grey", "colour") or (given.given and about["kind"] == "clipped")
    return about["level"] if is_given else None


def cases(given) -> Iterator[tuple[Row, np.ndarray, np.ndarray]]:
    """What it is, the noisy and the clean picture; the cheap ones first."""
    about = {"side": given.side, "given": given.given}
    files = [path for folder in given.folders for path in sorted(folder.glob(given.match))]
    for path in files:
        if path.name.endswith("_real.png") and "camera" in given.kinds:
            noisy, clean = (
                middle(_read(file), given.side) for file in (path, Path(str(path).replace("_real.", "_mean.")))
            )
            yield about | {"kind": "camera", "level": None, "picture": path.stem}, noisy, clean
    plain = [path for path in files if path.suffix in (".png", ".tif", ".jpg") and path.stem[-5:] not in PAIR]
    for kind in (kind for kind in KINDS if kind in given.kinds):
        for path in plain:
            clean = middle(_read(path), given.side)
            for level in given.levels if kind in ("clipped", "grey" if clean.ndim == 2 else "colour") else ():
                noisy = clean + level / 255 * np.random.default_rng(0).standard_normal(clean.shape)
                noisy = np.round(255 * np.clip(noisy, 0, 1)) / 255 if kind == "clipped" else noisy
                yield about | {"kind": kind, "level": level, "picture": path.stem}, noisy, clean


def _read(path: Path) -> np.ndarray:
    return skimage.util.img_as_float64(skimage.io.imread(path))


def middle(picture: np.ndarray, side: int | None) -> np.ndarray:
    if side is None:
        return picture
    top, left = (max(size - side, 0) // 2 for size in picture.shape[:2])
    return picture[top : top + side, left : left + side]


def measured(noisy, clean, level) -> Row:
    """PSNR by method, and seconds."""

    def quality(image) -> float:
        return psnr(np.clip(image, 0, 1), clean)

    started = time.perf_counter()
    result = restore.denoise(noisy, noise_sigma=level, options=restore.Options(recipe="best"))
    seconds = time.perf_counter() - started
    found: Row = {"noisy": quality(noisy)}
    stages = dict(zip(result.names, result.stages, strict=True))
    found |= {name: quality(image) for name, image in stages.items()}
    found |= {"best": quality(result.image), "seconds": seconds}
    if (estimated := result.estimated_psnr[-1]) is not None:
        found["error of the estimate"] = estimated - found["best"]
    sigma = found["noise found"] = result.noise_sigma
    found["nlm"] = quality(baselines.nonlocal_means(noisy, noise_sigma=sigma))
    if importlib.util.find_spec("bm3d"):
        started = time.perf_counter()
        found["bm3d"] = quality(baselines.bm3d_denoise(noisy, noise_sigma=sigma))
        found["bm3d seconds"] = time.perf_counter() - started
    return found


def print_means(rows: list[Row]) -> None:
    """Over the pictures of a kind at a level: the means of what all have, and the worst estimate of quality."""
    for kind, level in dict.fromkeys((row["kind"], row["level"]) for row in rows):
        these = [row for row in rows if (row["kind"], row["level"]) == (kind, level)]
        names = [name for name in _numbers(these[0]) if all(name in row for row in these)]
        means = {name: float(np.mean([row[name] for row in these])) for name in names}
        print(_line({"kind": kind, "level": level} | means, f"mean of {len(these)}"))
        errors = [row["error of the estimate"] for row in these if "error of the estimate" in row]
        if errors:
            print(f"    {len(errors)} of them with an estimate, wrong by {min(errors):+.2f} to {max(errors):+.2f} dB")


def _numbers(row: Row) -> list[str]:
    return [name for name, value in row.items() if isinstance(value, float)]


def _line(row: Row, name: str) -> str:
    return " ".join([row["kind"], str(row["level"] or ""), name, *(f"{n} {row[n]:.2f}" for n in _numbers(row))])


if __name__ == "__main__":
    main()
