"""Losses, metrics and observations of a run as TensorBoard event files, while it goes. An observer without a period.

    with TensorBoardObserver("runs/first") as board:
        fit_grades(structure, x, y, Plan(1000, observers=[board]))

writes ``runs/first/grade1``, ``grade2``, ...: one run each, so that ``tensorboard --logdir runs`` lays the grades over
one another. Needs the extra ``multigrade[tensorboard]``; TensorFlow is not involved.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from .extras import require
from .training.observers import Observation, Snapshot

TAGS = {"train_loss": "loss/training", "validation_loss": "loss/validation"}


class TensorBoardObserver:
    """Writes every recorded row once: losses under ``loss/``, metrics under ``metric/``, observations by their name.

    Of observations that are vectors (eigenvalues, outside in) the first entry is written.
    """

    name = "tensorboard"
    every = None

    def __init__(self, folder: str | os.PathLike):
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"the TensorBoard folder must be a folder; {self.folder} is a file")
        require("tensorboard")
        from tensorboard.summary import Writer

        self._writer = Writer
        self._open: Any = None
        self._grade = -1
        self._written: dict[str, int] = {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open, self._grade = None, -1

    def observe(self, snapshot: Snapshot, carry) -> Observation | None:
        if snapshot.grade != self._grade:
            self.close()
            self._open = self._writer(str(self.folder / f"grade{snapshot.grade + 1}"))
            self._grade, self._written = snapshot.grade, {}
        record = snapshot.record
        for name, column in record.columns.items():
            if name != "step":
                self._write(TAGS.get(name, f"metric/{name}"), record.steps, column)
        for name, values in record.observations.items():
            for key, column in values.items():
                if key != "step":
                    self._write(f"{name}/{key}", values["step"], column)
        self._open.add_scalar("learning_rate", snapshot.learning_rate, snapshot.step)
        self._open.flush()
        return None

    def _write(self, tag: str, steps: np.ndarray, column: np.ndarray) -> None:
        """The rows that are new since the last call."""
        start = self._written.get(tag, 0)
        for step, value in zip(steps[start:], column[start:], strict=True):
            first = np.ravel(value)[:1]
            if first.size and first.dtype.kind in "biuf":
                self._open.add_scalar(tag, float(first[0]), int(step))
        self._written[tag] = len(steps)
