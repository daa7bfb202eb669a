"""How far a long computation is, and how it ends when its time is over.

A function that takes long has an argument ``progress``: a function that it calls with the share of its work that is
done, from 0 to 1. A time limit is a ``progress`` that raises ``OutOfTime``. Whoever has a result by then catches it.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

Progress = Callable[[float], None]


class OutOfTime(Exception):
    """The time limit is over."""


def unheard(share: float) -> None:
    """The ``progress`` of a computation that nobody watches and that has no time limit."""


def part_of(progress: Progress, first: float, last: float) -> Progress:
    """The ``progress`` of a part: it begins when the share ``first`` of the whole is done, and ends at ``last``."""
    return lambda share: progress(first + share * (last - first))


def is_over(progress: Progress, share: float) -> bool:
    """Call ``progress``; whether there is no time left."""
    try:
        progress(share)
    except OutOfTime:
        return True
    return False


@runtime_checkable
class Preparing(Protocol):
    """An observer that shows what is not training."""

    def prepare(self, share: float) -> None: ...


@dataclasses.dataclass(frozen=True)
class Stopwatch:
    """When a recipe began, when its time is up (both by ``time.monotonic``), and who shows how far it is."""

    begun: float
    until: float | None
    shown: tuple[Preparing, ...]

    @classmethod
    def started(cls, time_limit: float | None, observers: Sequence) -> "Stopwatch":
        """Begins, and shows that it has."""
        now = time.monotonic()
        until = None if time_limit is None else now + time_limit
        watch = cls(now, until, tuple(each for each in observers if isinstance(each, Preparing)))
        watch.show(0.0)
        return watch

    def show(self, share: float) -> None:
        """The share of the work that is done, to all observers that can show it."""
        for observer in self.shown:
            observer.prepare(share)

    def progress(self, share: float) -> None:
        """The same, or ``OutOfTime``."""
        if self.is_over:
            raise OutOfTime
        self.show(share)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    @property
    def is_over(self) -> bool:
        return self.until is not None and time.monotonic() > self.until
