"""How far a long computation is, and how it ends when its time is over.

A function that takes long has an argument ``progress``: a function that it calls with the share of its work that is
done, from 0 to 1. A time limit is a ``progress`` that raises ``OutOfTime``. Whoever has a result by then catches it.
"""

from collections.abc import Callable

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
