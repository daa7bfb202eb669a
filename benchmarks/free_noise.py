"""Noise as a user has it, on free pictures of scikit-image, kind and level estimated: python -m benchmarks.free_noise

The middle of each picture, without noise, with faint and with strong noise, counts of light and salt and pepper, all
rounded to 8 bits. "itself" is the PSNR of the denoised clean picture against the clean one, which should come back as
it is. BM3D, where it is installed, and non-local means are given the true level.
"""

import argparse
import importlib.util

import numpy as np
import skimage
from scipy.ndimage import median_filter

from multigrade import restore
from multigrade.pictures import baselines
from multigrade.pictures.metrics import psnr

from .pictures import middle

PICTURES = ("brick", "camera", "coffee", "grass", "immunohistochemistry", "rocket")
FAINT, STRONG = 5, 100
COUNTS = 80  # of light, at white
LOST = 0.1  # share of the pixels with salt or pepper


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", nargs="+", default=PICTURES)
    parser.add_argument("--side", type=int, default=160)
    parser.add_argument("--only-clean", action="store_true", help="only pictures without noise")
    given = parser.parse_args()
    for name in given.pictures:
        clean = middle(skimage.util.img_as_float64(getattr(skimage.data, name)()), given.side)
        result = restore.denoise(clean)
        print(name, "clean", _found(result), f"itself {_decibels(result.image, clean):.1f}", flush=True)
        for kind, noisy in {} if given.only_clean else degraded(clean).items():
            result = restore.denoise(noisy)
            others = " ".join(f"{method} {_decibels(image, clean):.2f}" for method, image in rivals(kind, noisy, clean))
            print(
                name, kind, _found(result), f"noisy {_decibels(noisy, clean):.2f}",
                f"best {_decibels(result.image, clean):.2f}", others, flush=True,
            )  # fmt: skip


def degraded(clean: np.ndarray) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    found = {f"noise {sigma}": clean + sigma / 255 * random.standard_normal(clean.shape) for sigma in (FAINT, STRONG)}
    found["counts"] = random.poisson(clean * COUNTS) / COUNTS
    place = random.uniform(size=clean.shape)
    found["salt and pepper"] = np.where(place < LOST / 2, 0, np.where(place > 1 - LOST / 2, 1, clean))
    return {kind: np.round(255 * np.clip(image, 0, 1)) / 255 for kind, image in found.items()}


def rivals(kind: str, noisy: np.ndarray, clean: np.ndarray):
    """Names and images of other methods at the true level."""
    if kind == "salt and pepper":
        yield "median", median_filter(noisy, (3, 3, 1)[: noisy.ndim])
        return
    sigma = int(kind.split()[1]) if kind.startswith("noise") else 255 * float(np.sqrt(np.mean((noisy - clean) ** 2)))
    yield "nlm", baselines.nonlocal_means(noisy, noise_sigma=sigma)
    if importlib.util.find_spec("bm3d"):
        yield "bm3d", baselines.bm3d_denoise(noisy, noise_sigma=sigma)


def _decibels(image: np.ndarray, clean: np.ndarray) -> float:
    return psnr(np.clip(image, 0, 1), clean)


def _found(result: restore.Restored) -> str:
    return f"{result.noise_kind} {result.noise_sigma:.1f}"


if __name__ == "__main__":
    main()
