"""How a fit descends: one frozen record, which the loop, the grades and the checkpoint's identity all read.

A new option of training is a field of ``Plan``: it then reaches the loop, and a checkpoint of other values is refused.
"""

import dataclasses
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import optax

from .observers import Observer
from .optimisers import check_rate, make_optimiser
from .sampling import FullBatch, RandomRows
from .stopping import Never


@dataclasses.dataclass(frozen=True)
class Plan:
    """How many steps to take, how to take them, what to record and when to stop.

    Parameters
    ----------
    steps : int or a sequence of one int per grade
    optimiser : "gd", "momentum", "adam", "muon", "lbfgs" or an optax transformation
        An optax transformation has either unit rate, and its updates are multiplied by ``learning_rate``; or its own
        rate, and no ``learning_rate`` is given.
    learning_rate : a positive number, an optax schedule, or a sequence of one of these per grade
        None takes the default of a named optimiser.
    batch_size : how many rows a step sees, drawn at random with replacement; None for all rows
    record_every : steps between two records of the losses
    stopping : a rule such as ``Plateau`` or ``NoImprovement``
        It watches the validation loss, or the training loss where there is no validation data.
    keep : "last" for the last parameters of a grade, "best" for those with the lowest watched loss
    while_better : whether the first grade that does not lower the validation loss is left out and ends the fit
    observers : what looks at the run while it goes, see ``multigrade.training.observers``
    time_limit : seconds for the whole fit
    seed : of the initial parameters and the random rows
    seed_per_grade : False lets all grades draw the same numbers, as the paper's image runs do

    Examples
    --------
    >>> from multigrade import Plan
    >>> Plan(1000, "gd", learning_rate=[0.06, 0.03]).of_grade(1).learning_rate
    0.03
    """

    steps: int | Sequence[int]
    optimiser: str | optax.GradientTransformation = "adam"
    learning_rate: Any = None
    batch_size: int | None = None
    record_every: int = 100
    stopping: Any = Never()  # noqa: RUF009
    keep: str = "last"
    while_better: bool = False
    observers: Sequence[Observer] = ()
    time_limit: float | None = None
    seed: int = 0
    seed_per_grade: bool = True

    def __post_init__(self):
        put = object.__setattr__
        steps = self.steps if np.ndim(self.steps) == 0 else tuple(self.steps)
        put(self, "steps", _checked_steps(steps))
        if not callable(self.learning_rate) and np.ndim(self.learning_rate) == 1:
            put(self, "learning_rate", tuple(self.learning_rate))
        put(self, "observers", tuple(self.observers))
        self._check()

    def _check(self) -> None:
        make_optimiser(self.optimiser)
        for rate in self.learning_rate if isinstance(self.learning_rate, tuple) else (self.learning_rate,):
            check_rate(rate)
        if self.batch_size is not None and not _is_count(self.batch_size):
            raise ValueError(
                f"batch_size must be an integer of at least 1, or None for all rows; got {self.batch_size!r}"
            )
        if not _is_count(self.record_every):
            raise ValueError(f"record_every must be an integer of at least 1; got {self.record_every!r}")
        if self.keep not in ("last", "best"):
            raise ValueError(f"keep must be 'last' or 'best'; got {self.keep!r}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise ValueError(f"time_limit must be a positive number of seconds; got {self.time_limit!r}")
        _check_observers(self.observers, self.record_every)

    @property
    def recording(self) -> list[Observer]:
        """The observers whose values are recorded; the others, such as a progress bar, change nothing."""
        return [observer for observer in self.observers if observer.every is not None]

    @property
    def sampler(self) -> FullBatch | RandomRows:
        """What draws the rows that a step sees."""
        return FullBatch() if self.batch_size is None else RandomRows(self.batch_size)

    def check_grades(self, num_grades: int) -> None:
        """ValueError unless the values per grade are as many as there are grades."""
        for name in ("steps", "learning_rate"):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != num_grades:
                raise ValueError(f"{name} must be one value, or one per grade ({num_grades}); got {len(value)}")

    def of_grade(self, index: int) -> "Plan":
        """The plan of one grade, with one number of steps and one learning rate."""
        return dataclasses.replace(self, steps=_at(self.steps, index), learning_rate=_at(self.learning_rate, index))

    def identity(self, num_grades: int) -> dict[str, Any]:
        """All fields that the bits of a fit depend on: a checkpoint belongs to them."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del fields["time_limit"]
        fields["observers"] = [(observer.name, observer.every, observer) for observer in self.recording]
        for name in ("steps", "learning_rate"):
            fields[name] = [_at(fields[name], index) for index in range(num_grades)]
        return fields


def _at(value, index: int):
    return value[index] if isinstance(value, tuple) else value


def _is_count(value) -> bool:
    return isinstance(value, Integral) and value >= 1


def _checked_steps(steps):
    counts = steps if isinstance(steps, tuple) else (steps,)
    if not counts or not all(map(_is_count, counts)):
        raise ValueError(f"steps must be an integer of at least 1, or one per grade; got {steps!r}")
    if max(counts) >= 2**31:
        raise ValueError(f"steps must be below 2^31; got {max(counts)}")
    return tuple(map(int, steps)) if isinstance(steps, tuple) else int(steps)


def _check_observers(observers: Sequence[Observer], record_every: int) -> None:
    periods = [(observer.name, observer.every) for observer in observers if observer.every is not None]
    for name, every in periods:
        if every < 1 or every % record_every:
            raise ValueError(
                f"the period of observer {name!r} must be a multiple of record_every = {record_every}; got {every}"
            )
    names = [name for name, _ in periods]
    if len(set(names)) < len(names):
        raise ValueError(f"observers with a period must have different names; got {', '.join(names)}")
