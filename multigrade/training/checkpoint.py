"""Checkpoints of a fit: one file with the finished grades, their records, and the run that was under way.

A checkpoint belongs to its settings, its data and the versions that wrote it; anything else is refused, because only
then does a resumed fit end with the same bits as an uninterrupted one.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ..files import read_arrays, write_arrays
from ..model import MultiGrade, model_from_arrays, model_to_arrays
from ..version import __version__
from .record import RunRecord, arrays_under, records_from_arrays, records_to_arrays

Arrays = dict[str, np.ndarray]


class Saved(NamedTuple):
    model: MultiGrade
    records: tuple[RunRecord, ...]
    auxiliary: Any
    running: Arrays | None


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Where a fit saves itself, for which settings, and how often (seconds)."""

    path: Path
    settings: Mapping
    every: float = 30.0

    def save(self, model: MultiGrade, records: tuple[RunRecord, ...], auxiliary, running: Arrays | None) -> None:
        """``auxiliary`` is what the last finished grade hands to the next: an array, or () for nothing."""
        arrays, description = model_to_arrays(model)
        arrays = {f"model/{name}": array for name, array in arrays.items()}
        of_records, ends = records_to_arrays(records)
        arrays |= of_records
        arrays |= {f"running/{name}": array for name, array in (running or {}).items()}
        arrays |= {f"auxiliary/{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(auxiliary))}
        header = {"settings": self.settings, "jax": jax.__version__, "model": description, "records": ends}
        write_arrays(self.path, "checkpoint", arrays, header)

    def load(self) -> "Saved | None":
        """What was saved, or None if nothing was; ValueError if it is damaged or belongs to another fit."""
        if not self.path.exists():
            return None
        arrays, header, version = read_arrays(self.path, "checkpoint")
        self._refuse(header, version)
        records = records_from_arrays(arrays, header["records"])
        model = model_from_arrays(arrays_under(arrays, "model/"), header["model"])
        auxiliary = arrays.get("auxiliary/0", ())
        return Saved(model, records, auxiliary, arrays_under(arrays, "running/") or None)

    def _refuse(self, header: Mapping, version: str) -> None:
        if (version, header["jax"]) != (__version__, jax.__version__):
            raise ValueError(
                f"checkpoint {self.path} was written by multigrade {version} with jax {header['jax']}, this is "
                f"{__version__} with {jax.__version__}: remove it to start anew"
            )
        theirs, ours = header["settings"], json.loads(json.dumps(self.settings))
        if theirs != ours:
            different = sorted(k for k in {*theirs, *ours} if theirs.get(k) != ours.get(k))
            raise ValueError(
                f"checkpoint {self.path} belongs to other settings ({', '.join(different)} differ): "
                "remove it to start anew"
            )


def fingerprint(*arrays) -> str:
    """A hash of arrays, their types and shapes (None is allowed)."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is not None:
            array = np.ascontiguousarray(array)
            digest.update(f"{array.dtype.str} {array.shape} ".encode() + array.tobytes())
        digest.update(b";")
    return digest.hexdigest()


def describe(value) -> str:
    """A setting as text that is the same in another process: never an address."""
    if dataclasses.is_dataclass(value) or isinstance(value, (str, int, float, bool, type(None), dict)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(describe(v) for v in value) + ")"
    if isinstance(value, jax.tree_util.Partial):
        leaves = [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(value)]
        return f"{describe(value.func)}{leaves}"
    return f"{getattr(value, '__module__', '?')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
