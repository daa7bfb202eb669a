"""The paper's images by name, from a folder of the user's; a free picture stands in for what is missing.

The classic test images are not ours to give away. ``Pictures(folder).get("butterfly")`` looks for ``butterfly.png`` (or
another format that is read) of the paper's size. A stand-in is marked wherever it goes, and so is the walnut: the
paper's own file is not to be had, so whatever is found under its name is another one.
"""

import dataclasses
import functools
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from skimage.transform import resize

from multigrade.pictures.files import FORMATS, load
from multigrade.pictures.free import draw_phantom, draw_picture
from multigrade.training.checkpoint import fingerprint

from .job import Job, Saved
from .numbers import IMAGE_SIZES


@dataclasses.dataclass(frozen=True)
class Entry:
    """One of the paper's images. ``size`` is its side in pixels (None: not known), ``stand_in`` a free picture."""

    size: int | None
    stand_in: str
    file: str
    is_inverted: bool = False
    is_the_papers: bool = True


# That the chart is used as 255 - x is recorded by the authors. Stand-ins: our choice.
ENTRIES = {
    "cameraman": Entry(IMAGE_SIZES["cameraman"], "camera", "cameraman"),
    "barbara": Entry(IMAGE_SIZES["barbara"], "astronaut", "barbara"),
    "butterfly": Entry(IMAGE_SIZES["butterfly"], "coffee", "butterfly"),
    "pirate": Entry(IMAGE_SIZES["pirate"], "hubble_deep_field", "pirate"),
    "chest": Entry(IMAGE_SIZES["chest"], "retina", "chest"),
    "walnut": Entry(IMAGE_SIZES["walnut"], "phantom", "walnut_substitute", is_the_papers=False),
    "resolution_chart": Entry(IMAGE_SIZES["resolution_chart"], "chart", "resolution_chart", is_inverted=True),
}
WALNUT_SIZE = 1024  # of the stand-in; our choice


class Source(NamedTuple):
    """A grey picture on the unit scale, (h, w) float64, whether it stands in for the paper's, and its hash."""

    pixels: np.ndarray
    stand_in: bool
    digest: str


class Pictures:
    """The paper's images from a folder, or stand-ins where there is no folder or no file; each is read once."""

    def __init__(self, folder: Path | None = None):
        if folder is not None:
            folder = Path(folder)
            if not folder.is_dir():
                raise ValueError(f"images must be a folder with the paper's images; there is none at {folder}")
            if not any(_find(folder, entry) for entry in ENTRIES.values()):
                names = ", ".join(entry.file for entry in ENTRIES.values())
                raise ValueError(
                    f"the folder {folder} has none of the paper's images: {names} (.png or another format)"
                )
        self.folder = folder
        self._read: dict[str, Source] = {}

    def get(self, name: str) -> Source:
        if name not in ENTRIES:
            raise ValueError(f"image must be one of {', '.join(ENTRIES)}; got {name!r}")
        if name not in self._read:
            self._read[name] = self._source(ENTRIES[name])
        return self._read[name]

    def _source(self, entry: Entry) -> Source:
        path = _find(self.folder, entry) if self.folder else None
        pixels = _stand_in(entry) if path is None else _from_file(path, entry)
        pixels = 1 - pixels if entry.is_inverted else pixels
        return Source(pixels, path is None or not entry.is_the_papers, fingerprint(pixels)[:16])


OWN_STORE = "results are not used: later runs saw other files for their pictures; use one store for each image folder"


def replaced(results: Iterable[Saved]) -> dict[str, str]:
    """What is wrong, by key, with results on a picture in whose place the last runs saw another file.

    Both may be called "cameraman": they are neither seeds of one cell nor methods to compare.
    """
    ordered = sorted((saved for saved in results if saved.job.data), key=lambda saved: saved.info.get("finished", ""))
    last = {_name(saved.job): saved.job.data for saved in ordered}
    return {
        saved.job.key: f"result {saved.job.key} is not used: later runs saw another file for {_name(saved.job)[0]}"
        for saved in ordered
        if saved.job.data != last[_name(saved.job)]
    }


def _name(job: Job) -> tuple[str, bool]:
    return job.setup.image or job.label, bool(job.setup.stand_in)


def shrunk(image: np.ndarray, size: int | None) -> np.ndarray:
    """The image, or the first square of it, as ``size`` x ``size`` means of equal squares; None: as it is."""
    if size is None:
        return image
    side = min(image.shape)
    if size > side:
        raise ValueError(f"size must be at most the image's own, {side}; got {size}")
    image = image[:side, :side]
    if side % size == 0:
        return image.reshape(size, side // size, size, side // size).mean((1, 3))
    edges, pixels = np.linspace(0, side, size + 1)[:, None], np.arange(side)
    shares = np.clip(np.minimum(edges[1:], pixels + 1) - np.maximum(edges[:-1], pixels), 0, 1) * size / side
    return shares @ image @ shares.T


def eigenvalue_subset(name: str, image: np.ndarray, stride: int = 1) -> np.ndarray:
    """What the eigenvalue runs see: every second pixel (Barbara: of the top right quadrant), then every stride-th."""
    if name == "barbara":
        image = image[: image.shape[0] // 2, image.shape[1] // 2 :]
    return image[::2, ::2][::stride, ::stride]


def _find(folder: Path, entry: Entry) -> Path | None:
    paths = (folder / f"{entry.file}{suffix}" for suffix in FORMATS)
    return next((path for path in paths if path.is_file()), None)


def _from_file(path: Path, entry: Entry) -> np.ndarray:
    pixels = load(path).pixels
    if pixels.ndim == 3:
        if np.ptp(pixels, axis=2).any():
            raise ValueError(f"{path} must be grey, as in the paper; it has colours")
        pixels = pixels[..., 0]
    expected = (entry.size,) * 2 if entry.size else pixels.shape
    if pixels.shape != expected:
        size = " x ".join(map(str, pixels.shape))
        raise ValueError(f"{path} must have {entry.size} x {entry.size} pixels, as in the paper; it has {size}")
    return pixels


@functools.cache
def _stand_in(entry: Entry) -> np.ndarray:
    """The middle square of a free picture, grey, brought to the paper's size."""
    size = entry.size or WALNUT_SIZE
    if entry.stand_in == "phantom":
        return draw_phantom(size)
    samples = draw_picture(entry.stand_in)
    pixels = samples / (255 if samples.dtype == np.uint8 else 1)
    pixels = pixels.mean(axis=2) if pixels.ndim == 3 else pixels
    side = min(pixels.shape)
    top, left = ((length - side) // 2 for length in pixels.shape)
    return np.asarray(resize(pixels[top : top + side, left : left + side], (size, size), anti_aliasing=side > size))
