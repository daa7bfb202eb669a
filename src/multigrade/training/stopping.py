"""Stopping rules that run inside the compiled loop: ``init`` gives a state, ``update`` sees one recorded row.

Being part of the compiled program, a rule ends a run at the very record that satisfies it, wherever chunks fall.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Never:
    """Run all steps."""

    sentence = ""

    def init(self) -> tuple[()]:
        """The state before the first record."""
        return ()

    def update(self, state: tuple[()], watched: Array) -> tuple[tuple[()], Array]:
        """The next state, and whether to stop, after a record with the loss ``watched``."""
        return state, jnp.bool_(False)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Plateau:
    """Stop when |m_k - m_{k-1}| < tolerance * m_{k-1}, with m the means of consecutive windows of records.

    This is the paper's rule. The windows do not overlap: a chance meeting of two oscillating losses does not end a run.

    Parameters
    ----------
    window : records in a window; 20 in the paper
    tolerance : 1e-4 for images and 1e-6 for synthetic data in the paper; 0 never stops
    """

    window: int = 20
    tolerance: float = 1e-4

    def __post_init__(self):
        if self.window < 1:
            raise ValueError(f"window must be at least 1; got {self.window!r}")

    @property
    def sentence(self) -> str:
        return f"the mean of {self.window} records changed by less than {self.tolerance:g} relatively"

    def init(self) -> tuple[Array, Array, Array]:
        """The state before the first record."""
        return jnp.int32(0), jnp.float32(0), jnp.float32(jnp.nan)  # records in window, their sum, last mean

    def update(self, state, watched: Array):
        """The next state, and whether to stop, after a record with the loss ``watched``."""
        count, total, last = state
        count, total = count + 1, total + watched
        mean = total / self.window
        full = count == self.window
        stop = full & (jnp.abs(mean - last) < self.tolerance * last)
        empty = jnp.where(full, 0, count), jnp.where(full, 0.0, total), jnp.where(full, mean, last)
        return empty, stop


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class NoImprovement:
    """Stop when none of the last records was better than the best one before.

    Parameters
    ----------
    patience : how many records may pass without an improvement
    tolerance : a record is an improvement if it is below the best one by more than this share of it
    """

    patience: int = 10
    tolerance: float = 1e-4

    def __post_init__(self):
        if self.patience < 1:
            raise ValueError(f"patience must be at least 1; got {self.patience!r}")

    @property
    def sentence(self) -> str:
        return f"no improvement by {self.tolerance:g} relatively in {self.patience} records"

    def init(self) -> tuple[Array, Array]:
        """The state before the first record."""
        return jnp.float32(jnp.inf), jnp.int32(0)  # best, records since

    def update(self, state, watched: Array):
        """The next state, and whether to stop, after a record with the loss ``watched``."""
        best, since = state
        better = watched < best * (1 - self.tolerance)
        since = jnp.where(better, 0, since + 1)
        return (jnp.where(better, watched, best), since), since >= self.patience
