"""Observers: what looks at a run between chunks of compiled steps, and may end it or change its rate.

An observer has a ``name``, a period ``every`` in steps, and ``observe(snapshot, carry)``. It is called at step 0, at
every multiple of ``every`` and after the last of ``num_steps``, but not where a stopping rule, a divergence or the
clock ends a grade before that. With ``every = None`` (a progress bar) it is called between any two chunks, wherever
they happen to fall, and once more when the grade has ended: the record then has a sentence. What it returns in
``values`` is recorded; ``carry`` comes back at its next call and is saved in checkpoints, so that a resumed run repeats
the original one bit for bit.

An observer may have a ``companion``: what must see every step and therefore runs inside the compiled loop. It is a
static pytree with ``init(now) -> state`` and ``step(step, now, state) -> (next, loss, state)``, which takes the step.
Snapshots then have its state. One companion a run.

An observer may have ``grade_ended(grade, record)``: it is told of every grade once it is known whether it is kept
(``record.is_kept``), also of those that are solved for and take no steps. These two are optional; there are no others.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from .record import RunRecord


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A run at one moment: what an observer is given.

    Parameters
    ----------
    grade : the grade that is being trained, counted from 0
    step : how many steps of this grade were taken
    num_steps : how many steps it takes at most
    params : the present parameters
    loss : params -> loss on the full training data; a pytree (``jax.tree_util.Partial``)
    learning_rate : of the next step; NaN for an optax transformation given without one, which may hold its own
    record : what was recorded of this grade so far
    optimiser, optimiser_state : the optax transformation of the run, and its state
    companion : the state of the observer's companion, if it has one
    """

    grade: int
    step: int
    num_steps: int
    params: Any
    loss: Callable[[Any], Any]
    learning_rate: float
    record: RunRecord
    optimiser: Any = None
    optimiser_state: Any = None
    companion: Any = ()


@dataclasses.dataclass(frozen=True)
class Observation:
    """What an observer saw, and what it asks for.

    Parameters
    ----------
    values : numbers or arrays to record, by name; of one shape at every call
    carry : arrays that come back at the observer's next call and are saved in checkpoints
    stop : a sentence that says why the run should end, or None to go on
    learning_rate : the rate from now on, or None to leave it
    """

    values: Mapping[str, np.ndarray | float] = dataclasses.field(default_factory=dict)
    carry: Mapping[str, np.ndarray] | None = None
    stop: str | None = None
    learning_rate: float | None = None


class Observer(Protocol):
    """What looks at a run: it has a name, a period ``every`` in steps (or None), and ``observe``."""

    @property
    def name(self) -> str: ...
    @property
    def every(self) -> int | None: ...
    def observe(self, snapshot: Snapshot, carry: Mapping[str, np.ndarray] | None) -> Observation | None:
        """Look at the run; ``carry`` is what the last observation carried, None at first."""
        ...
