"""What an experiment is given."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...training.observers import Observer
from ..images import Source, shrunk


class Context(NamedTuple):
    """A job's settings, its picture, where it may keep a checkpoint, and who looks on."""

    settings: Mapping[str, Any]
    source: Source | None
    checkpoint: Path | None
    observers: tuple[Observer, ...]

    @property
    def image(self) -> np.ndarray:
        """The picture at the size that the settings ask for."""
        return shrunk(self.pixels, self.settings["size"])

    @property
    def pixels(self) -> np.ndarray:
        """The picture as it came."""
        assert self.source is not None
        return self.source.pixels
