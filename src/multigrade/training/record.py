"""What happened in a run: losses and metrics at recorded steps, what observers saw, and how it ended."""

import dataclasses
import enum
from collections.abc import Mapping, Sequence

import numpy as np


class Outcome(enum.StrEnum):
    """How a run or a fit ended, in all rooms.

    All was done; a stopping rule; a loss that was not finite; an observer; the clock; the error that was asked for is
    reached; the last grade did not help; or what was asked is not solved.
    """

    FINISHED = "finished"
    PLATEAU = "validation plateau"
    DIVERGED = "diverged"
    OBSERVER = "stopped by an observer"
    TIME_LIMIT = "time limit"
    REACHED = "tolerance reached"
    NO_BETTER = "no better"
    UNSOLVED = "not solved"


@dataclasses.dataclass(frozen=True, eq=False)
class RunRecord:
    """What happened in one run of the loop: of a grade, or of a whole single-grade network.

    Two records are equal if all fields but ``seconds`` are equal to the bit.

    Parameters
    ----------
    columns : "step", "train_loss", "validation_loss" (if there is validation data) and the caller's metrics
        One row per recorded step; the losses of all rows are finite.
    observations : what each observer recorded, by its name, with the steps under "step"
    outcome : how the run ended
    sentence : the same for a reader, with a remedy where there is one
    num_steps : how many steps were taken
    seconds : how long they took; 0 in a model that was read from a file, which does not say
    is_kept : whether the grade is part of the model; otherwise it did not help, and was left out
    """

    columns: Mapping[str, np.ndarray]
    observations: Mapping[str, Mapping[str, np.ndarray]] = dataclasses.field(default_factory=dict)
    outcome: Outcome = Outcome.FINISHED
    sentence: str = ""
    num_steps: int = 0
    seconds: float = 0.0
    is_kept: bool = True

    @classmethod
    def solved(cls, num_features: int, train_loss: float, *, sentence: str, seconds: float, **columns) -> "RunRecord":
        """Of a grade that was solved for at once: one row, with the number of features as its step."""
        numbers = {name: np.array([value]) for name, value in {"train_loss": train_loss, **columns}.items()}
        row = {"step": np.array([num_features], np.int32), **numbers}
        return cls(row, sentence=sentence, num_steps=1, seconds=seconds)

    def __eq__(self, other) -> bool:
        return self._bits() == other._bits() if isinstance(other, RunRecord) else NotImplemented

    def _bits(self) -> tuple:
        arrays, end = dataclasses.replace(self, seconds=0.0).to_arrays()
        return end, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}

    @property
    def steps(self) -> np.ndarray:
        """The recorded steps."""
        return self.columns["step"]

    @property
    def train_loss(self) -> np.ndarray:
        """The training loss at each recorded step."""
        return self.columns["train_loss"]

    @property
    def validation_loss(self) -> np.ndarray | None:
        """The validation loss at each recorded step; None without validation data."""
        return self.columns.get("validation_loss")

    @property
    def has_risen(self) -> bool:
        """Whether the last loss is above the first, as after steps that were too long."""
        return len(self.train_loss) > 1 and bool(self.train_loss[-1] > self.train_loss[0])

    def followed_by(self, other: "RunRecord") -> "RunRecord":
        """One record of two runs, the second of which went on where the first had been, without observers."""
        later = {**other.columns, "step": other.columns["step"] + np.int32(self.num_steps)}
        return dataclasses.replace(
            other,
            columns={name: np.concatenate([column, later[name]]) for name, column in self.columns.items()},
            observations=self.observations,
            num_steps=self.num_steps + other.num_steps,
            seconds=self.seconds + other.seconds,
        )

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict]:
        """Arrays and a JSON description, for a file."""
        arrays = {f"column/{name}": column for name, column in self.columns.items()}
        for name, values in self.observations.items():
            arrays |= {f"observation/{path_of(name, key)}": value for key, value in values.items()}
        fields = ("outcome", "sentence", "num_steps", "seconds")
        end = {field: getattr(self, field) for field in fields}
        return arrays, end if self.is_kept else {**end, "is_kept": False}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], description: Mapping) -> "RunRecord":
        """The record that ``to_arrays`` described."""
        columns, observations = {}, {}
        for path, array in arrays.items():
            kind, _, rest = path.partition("/")
            if kind == "column":
                columns[rest] = array
            elif kind == "observation":
                name, key = names_of(rest)
                observations.setdefault(name, {})[key] = array
        return cls(columns, observations, **{**description, "outcome": Outcome(description["outcome"])})


def starts(records: Sequence[RunRecord]) -> np.ndarray:
    """The step at which each grade begins when grades are drawn one after the other."""
    return np.cumsum([0, *(record.num_steps for record in records)])[: len(records)]


def path_of(name: str, key: str) -> str:
    """``name/key``, with slashes of their own written as %2F."""
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in (name, key))


def names_of(path: str) -> tuple[str, str]:
    """Name and key of ``path_of``."""
    name, _, key = path.rpartition("/")
    name, key = (part.replace("%2F", "/").replace("%25", "%") for part in (name, key))
    return name, key


def records_to_arrays(records: Sequence[RunRecord]) -> tuple[dict[str, np.ndarray], list[dict]]:
    """The records of all grades, numbered, for a file."""
    arrays, ends = {}, []
    for index, record in enumerate(records):
        of_record, end = record.to_arrays()
        arrays |= {f"record{index}/{name}": array for name, array in of_record.items()}
        ends.append(end)
    return arrays, ends


def records_from_arrays(arrays: Mapping[str, np.ndarray], ends: Sequence[Mapping]) -> tuple[RunRecord, ...]:
    return tuple(RunRecord.from_arrays(arrays_under(arrays, f"record{i}/"), end) for i, end in enumerate(ends))


def arrays_under(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
