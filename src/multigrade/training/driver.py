"""The one driver of grades: propose a grade, fit it, keep it or leave it out, until nothing more is proposed.

    growth = what there is before
    while a grade is proposed:  fit it to what is left over, on the features so far;  keep it or leave it out

A room of the house (networks that descend, sines that are solved for, convex programs, equations) says what each of
these means by three values: what it carries from grade to grade (its state), ``propose`` and ``fit``. The driver has
the loop, the clock, the records and the observers.
"""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from .observers import Observer
from .record import Outcome, RunRecord

State = TypeVar("State")


class Trial(NamedTuple, Generic[State]):
    """A grade that was fitted.

    Parameters
    ----------
    state : what is carried on if the grade is kept: the model with it, features, what is left over
    record : what happened; with ``is_kept=False`` the grade is left out
    """

    state: State
    record: RunRecord


@dataclasses.dataclass(frozen=True)
class Growth(Generic[State]):
    """The grades so far.

    Parameters
    ----------
    state : what the room carries, with the grades that were kept
    tried : the records of all grades in turn, also of those that were left out
    end : why no further grade was fitted
    """

    state: State
    tried: tuple[RunRecord, ...] = ()
    end: Outcome = Outcome.FINISHED

    @property
    def records(self) -> tuple[RunRecord, ...]:
        """Of the grades that were kept."""
        return tuple(record for record in self.tried if record.is_kept)


class Room(Protocol[State]):
    """How one kind of grade is proposed and fitted."""

    def propose(self, growth: Growth[State]) -> Any:
        """What the next grade is to be, in whatever form ``fit`` reads; an ``Outcome`` where none is to follow."""
        ...

    def fit(self, growth: Growth[State], proposal: Any, time_left: float | None) -> Trial[State]:
        """The state with that grade, and its record. ``time_left`` is in seconds, None without a limit."""
        ...


def grow(
    room: Room[State], start: Growth[State], *, time_limit: float | None = None, observers: Sequence[Observer] = ()
) -> Growth[State]:
    """Fit the grades that ``room`` proposes, one after the other.

    Parameters
    ----------
    room : how a grade is proposed and fitted
    start : what there is before; grades that it has are kept as they are
    time_limit : seconds after which no further grade is begun; the first one always is
    observers : those with ``grade_ended(grade, record)`` are told of every grade, counted from 0

    Returns
    -------
    Growth
        The grades kept, the records of all that were tried, and why none follows.
    """
    started, growth = time.perf_counter(), start
    while not isinstance(proposal := room.propose(growth), Outcome):
        time_left = None if time_limit is None else time_limit - (time.perf_counter() - started)
        if growth.tried and time_left is not None and time_left <= 0:
            return dataclasses.replace(growth, end=Outcome.TIME_LIMIT)
        state, record = room.fit(growth, proposal, time_left)
        number = len(growth.records)
        growth = Growth(state if record.is_kept else growth.state, (*growth.tried, record))
        for observer in observers:
            if tell := getattr(observer, "grade_ended", None):
                tell(number, record)
    return dataclasses.replace(growth, end=proposal)
