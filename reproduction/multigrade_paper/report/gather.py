"""Reads a store for the report: each result once, its pictures small and encoded, all else as it was saved.

A report is written again and again while a catalogue runs; ``Gatherer`` remembers what it has read, so that each time
costs what is new. Pictures are the bulk of a store: they are encoded one result at a time and never held as numbers.
"""

import base64
import dataclasses
import hashlib
import io
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from PIL import Image

from .. import catalogue
from ..evidence import Evidence
from ..images import replaced
from ..job import Saved
from ..setup import Setup
from ..store import Store

SIDE = 256  # pixels: of a larger picture, the middle is shown, pixel by pixel; our choice


class Shown(NamedTuple):
    """A picture of the page: its name among the pictures, its size when it was whole, whether the middle is shown."""

    digest: str
    height: int
    width: int
    is_cropped: bool = False


@dataclasses.dataclass(frozen=True)
class Cell:
    """A saved result as the page shows it; ``saved.result`` has no pictures any more."""

    saved: Saved
    pictures: Mapping[str, Shown]

    @property
    def key(self) -> str:
        return self.saved.job.key

    @property
    def settings(self) -> Mapping:
        return self.saved.job.settings

    @property
    def setup(self) -> Setup:
        return self.saved.job.setup

    @property
    def metrics(self) -> Mapping:
        return self.saved.result.metrics


class Gathered(NamedTuple):
    """All sound results, the pictures they show by digest (data: addresses), and what is wrong with the others."""

    cells: list[Cell]
    pictures: Mapping[str, str]
    damaged: Mapping[str, str]

    @property
    def of_the_paper(self) -> list[Cell]:
        """Cells of jobs of the catalogue: only those have the settings that the paper's figures and tables ask for."""
        return [cell for cell in self.cells if catalogue.is_ours(cell.saved.job)]


class Gatherer:
    """Reads results and remembers them; ``side`` is the largest side of a picture."""

    def __init__(self, *, side: int = SIDE):
        if side < 16:
            raise ValueError(f"pictures must be at least 16 pixels wide; got {side}")
        self.side = side
        self._cells: dict[str, Cell] = {}
        self._pictures: dict[str, str] = {}

    def read(self, store: Store | Evidence) -> Gathered:
        damaged, keys = store.damaged() if isinstance(store, Evidence) else {}, store.keys()
        for key in keys:
            if key not in self._cells:
                try:
                    self._cells[key] = self._cell(store.load(key))
                except ValueError as error:
                    damaged[key] = str(error)
        return self._gathered([self._cells[key] for key in keys if key in self._cells], damaged)

    def take(self, results: Iterable[Saved]) -> Gathered:
        """Results that are in memory, as if they had been read."""
        return self._gathered([self._cell(saved) for saved in results], {})

    def _gathered(self, cells: list[Cell], damaged: Mapping[str, str]) -> Gathered:
        left_out = replaced(cell.saved for cell in cells if catalogue.is_ours(cell.saved.job))
        return Gathered([cell for cell in cells if cell.key not in left_out], self._pictures, {**damaged, **left_out})

    def _cell(self, saved: Saved) -> Cell:
        pictures = saved.result.pictures
        # The same share of all of them, so that a picture and its half-sized input show the same place.
        share = min(self.side / max((max(pixels.shape[:2]) for pixels in pictures.values()), default=1), 1)
        shown = {name: self._show(pixels, share) for name, pixels in pictures.items()}
        return Cell(saved._replace(result=saved.result._replace(pictures={})), shown)

    def _show(self, pixels: np.ndarray, share: float) -> Shown:
        height, width = pixels.shape[:2]
        content = _png(_middle(pixels, share))
        digest = hashlib.sha256(content).hexdigest()[:16]
        self._pictures[digest] = "data:image/png;base64," + base64.b64encode(content).decode()
        return Shown(digest, height, width, share < 1)


def _middle(pixels: np.ndarray, share: float) -> np.ndarray:
    height, width = (round(share * length) for length in pixels.shape[:2])
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    return pixels[top : top + height, left : left + width]


def _png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    samples = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    Image.fromarray(samples).save(file, format="PNG", optimize=True)
    return file.getvalue()
