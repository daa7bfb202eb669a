"""What an experiment is given."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from multigrade.training.observers import Observer

from ..images import Source, shrunk
from ..setup import Setup


class Context(NamedTuple):
    """A job's setup, its picture, where it may keep a checkpoint, and who looks on."""

    setup: Setup
    source: Source | None
    checkpoint: Path | None
    observers: tuple[Observer, ...]

    @property
    def image(self) -> np.ndarray:
        """The picture at the size that the settings ask for."""
        return shrunk(self.pixels, self.setup.size)

    @property
    def pixels(self) -> np.ndarray:
        """The picture as it came."""
        assert self.source is not None
        return self.source.pixels
