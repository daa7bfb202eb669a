"""Checkpoints of a fit: one file with the finished grades, their records, and the run that was under way.

A checkpoint belongs to its settings, its data and the versions that wrote it; anything else is refused, because only
then does a resumed fit end with the same bits as an uninterrupted one.
"""

import dataclasses
import enum
import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, MethodType, ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..files import check_place, read_arrays, telling_damage, write_arrays
from ..model import MultiGrade, grades_from_arrays, grades_to_arrays
from ..networks import AnyNetwork
from ..version import __version__
from .record import RunRecord, arrays_under, records_from_arrays, records_to_arrays

Arrays = dict[str, np.ndarray]


class Saved(NamedTuple):
    model: MultiGrade
    records: tuple[RunRecord, ...]
    auxiliary: Any
    running: Arrays | None


@dataclasses.dataclass(frozen=True)
class Checkpointing:
    """Where a fit keeps what it has done, and how often it writes it.

    Parameters
    ----------
    path : the file to resume from, if it is there, and to write to; it stays when the fit is done
    every : seconds between two writes
    identity : what the fit depends on beside its structure, its plan and its start, such as a ``fingerprint`` of data
        A checkpoint with another identity is refused. ``fit_grades`` adds its data and its ``Regression``.
    """

    path: str | os.PathLike
    every: float = 30.0
    identity: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def belonging_to(self, identity: Mapping[str, Any]) -> "Checkpointing":
        """The same, which depends on these values, too."""
        return dataclasses.replace(self, identity={**self.identity, **identity})


def as_checkpointing(checkpoint: "str | os.PathLike | Checkpointing | None") -> Checkpointing | None:
    """A path as a ``Checkpointing`` with defaults."""
    if checkpoint is None or isinstance(checkpoint, Checkpointing):
        return checkpoint
    return Checkpointing(checkpoint)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The file of a ``Checkpointing``, with all that it belongs to as text."""

    path: Path
    settings: Mapping
    every: float = 30.0

    @classmethod
    def of(cls, checkpointing: Checkpointing, identity: Mapping[str, Any]) -> "Checkpoint":
        """ValueError if the file cannot be written."""
        path = Path(checkpointing.path)
        check_place(path)
        everything = {**identity, **checkpointing.identity, "precision": str(jnp.result_type(float))}
        return cls(path, {name: describe(value) for name, value in everything.items()}, checkpointing.every)

    def save(self, model: MultiGrade, records: tuple[RunRecord, ...], auxiliary, running: Arrays | None) -> None:
        """``auxiliary`` is what the last finished grade hands to the next: an array, or () for nothing."""
        if jax.process_index():  # of several processes the first one writes
            return
        arrays = {f"model/{name}": array for name, array in grades_to_arrays(model.grades).items()}
        of_records, ends = records_to_arrays(records)
        arrays |= of_records
        arrays |= {f"running/{name}": array for name, array in (running or {}).items()}
        arrays |= {f"auxiliary/{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(auxiliary))}
        networks = [describe(grade.network) for grade in model.grades]
        header = {"settings": self.settings, "jax": jax.__version__, "model": networks, "records": ends}
        try:
            write_arrays(self.path, "checkpoint", arrays, header)
        except (OSError, ValueError) as error:  # hours of work do not end because the disk is full
            warnings.warn(f"the checkpoint was not written, the run goes on without it: {error}", stacklevel=2)

    def load(self, structure: Sequence[AnyNetwork]) -> "Saved | None":
        """What was saved of this structure, or None if nothing was; ValueError if it is damaged or of another fit."""
        if not self.path.exists():
            return None
        arrays, header, version = read_arrays(self.path, "checkpoint")
        with telling_damage(self.path, "checkpoint"):
            self._refuse(header, version)
            records = records_from_arrays(arrays, header["records"])
            networks = structure[: len(header["model"])]
            model = MultiGrade(grades_from_arrays(arrays_under(arrays, "model/"), networks))
            if len(records) != len(model.grades):
                raise ValueError(f"{self.path} is damaged: {len(records)} records of {len(model.grades)} grades")
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
    """A hash of arrays, their types and shapes (None is allowed).

    Parameters
    ----------
    *arrays : any number of them

    Returns
    -------
    str
        Hexadecimal digits.
    """
    digest = hashlib.sha256()
    for array in arrays:
        if array is not None:
            array = np.asarray(array)
            digest.update(f"{array.dtype.str} {array.shape} ".encode() + array.tobytes())
        digest.update(b";")
    return digest.hexdigest()


def describe(value, within: tuple = ()) -> str:
    """A setting as text that is the same in another process: never an address.

    A function is described by its name, its code, its defaults, what it closes over (two schedules of one factory
    differ in that alone), and the numbers, strings and arrays of its module that it names; an object, also that of a
    method, by its class and its attributes. ``within`` are the values that this one is part of.
    """
    if any(value is outer for outer in within):
        return "..."  # a function may close over itself

    def part(inner) -> str:
        return describe(inner, (*within, value))

    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, type) or value is None or isinstance(value, (str, int, float, complex, bytes, np.generic)):
        return repr(value)
    if dataclasses.is_dataclass(value):
        fields = ", ".join(f"{f.name}={part(getattr(value, f.name))}" for f in dataclasses.fields(value))
        return f"{type(value).__qualname__}({fields})"
    if isinstance(value, (np.ndarray, jax.Array)):
        return part(value.tolist()) if value.size == 1 else fingerprint(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{part(key)}: {part(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(map(part, value)) + ")"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(part, value))) + "}"
    if isinstance(value, partial):
        return f"{part(value.func)}{part(value.args)}{part(value.keywords)}"
    if isinstance(value, CodeType):
        return part((value.co_code.hex(), value.co_names, value.co_consts))
    name = f"{getattr(value, '__module__', '?')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    inside = [getattr(value, key, None) for key in ("__code__", "__defaults__", "__kwdefaults__", "__wrapped__")]
    inside += [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    inside += [_named_globals(value) or None, _attributes(value) or None]
    return name + "".join(map(part, (inner for inner in inside if inner is not None)))


PLAIN = (str, int, float, np.generic, np.ndarray, jax.Array)


def _named_globals(function) -> dict:
    """What its code names of its module, if it is plain."""
    known = getattr(function, "__globals__", {})
    return {name: known[name] for name in _names(function) if isinstance(known.get(name), PLAIN)}


def _names(value) -> list[str]:
    """Names in the code of a function, and of those defined in it."""
    code = getattr(value, "__code__", value)
    if not isinstance(code, CodeType):
        return []
    return sorted({*code.co_names, *(name for inner in code.co_consts for name in _names(inner))})


def _attributes(value) -> dict:
    """Of an object, or of that whose method it is; classes, functions and modules have none that count."""
    if isinstance(value, MethodType):
        value = value.__self__
    elif isinstance(value, ModuleType) or hasattr(value, "__code__") or hasattr(value, "__wrapped__"):
        return {}
    if isinstance(value, type):
        return {}
    slots = [name for kind in type(value).__mro__ for name in np.atleast_1d(getattr(kind, "__slots__", ())).tolist()]
    return {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})
