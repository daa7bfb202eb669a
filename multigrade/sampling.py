"""What one optimiser step sees of the data. A sampler draws a batch inside the compiled loop; nothing is moved."""

import dataclasses

import jax
from jax import Array


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class FullBatch:
    """Every step sees everything, as in the paper."""

    def draw(self, key: Array, data):
        return data


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class RandomRows:
    """Every step sees ``size`` rows drawn uniformly with replacement from the first ``num_rows``, or from all."""

    size: int
    num_rows: int | None = None

    def __post_init__(self):
        if self.size < 1:
            raise ValueError(f"size must be at least 1; got {self.size!r}")

    def draw(self, key: Array, data):
        num_rows = self.num_rows or jax.tree.leaves(data)[0].shape[0]
        rows = jax.random.randint(key, (self.size,), 0, num_rows)
        return jax.tree.map(lambda leaf: leaf[rows], data)
