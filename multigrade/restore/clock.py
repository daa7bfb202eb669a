"""How far a long computation is, told as it goes, and how it ends when its time is over.

Whatever takes long takes a function ``told`` and calls it with the share of its work that is done, from 0 to 1. That
function may raise ``OutOfTime``. Who can do with less catches it; ``part_of`` places a part within the whole.
"""

from collections.abc import Callable

Told = Callable[[float], None]


class OutOfTime(Exception):
    """The time limit is over."""


def nobody(share: float) -> None:
    """Is told."""


def part_of(told: Told, first: float, last: float) -> Told:
    """What a part is given that begins when the share ``first`` of the whole is done, and ends at ``last``."""
    return lambda share: told(first + share * (last - first))


def is_over(told: Told, share: float) -> bool:
    """Tells, and whether there is no time left."""
    try:
        told(share)
    except OutOfTime:
        return True
    return False
