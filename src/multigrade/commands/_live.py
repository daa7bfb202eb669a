"""What a user watches while a command trains: the live view, and TensorBoard files if asked for."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..progress import ProgressObserver
from ..tensorboard import TensorBoardObserver
from ..training import Observer, Outcome, RunRecord


@contextmanager
def watching(
    num_grades: int, title: str, *, quiet: bool, tensorboard: Path | None, checkpoint: Path | None = None
) -> Iterator[tuple[Observer, ...]]:
    """The observers of one fit, closed at its end; an interrupt is told that it can be continued, where it can."""
    with ExitStack() as stack:
        observers: list[Observer] = []
        if tensorboard is not None:
            observers.append(stack.enter_context(TensorBoardObserver(tensorboard)))
        if not quiet:
            observers.append(stack.enter_context(ProgressObserver(num_grades, title)))
        try:
            yield tuple(observers)
        except KeyboardInterrupt:
            if checkpoint is None or not checkpoint.exists():
                raise
            raise KeyboardInterrupt(f"; run the same command again to continue from {checkpoint}") from None


def print_outcomes(records: Sequence[RunRecord]) -> None:
    """A line for every grade that did not take all its steps: why, and what may help."""
    for grade, record in enumerate(records, 1):
        if record.outcome is not Outcome.FINISHED:
            print(f"grade {grade}: {record.outcome}; {record.sentence}")
        elif record.has_risen:
            first, last = record.train_loss[[0, -1]]
            print(f"grade {grade}: the loss rose from {first:.3g} to {last:.3g}; try a lower learning rate")
