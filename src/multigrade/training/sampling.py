"""What one optimiser step sees of the data. A sampler draws a batch inside the compiled loop; nothing is moved."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class FullBatch:
    """Every step sees everything, as in the paper."""

    def draw(self, key: Array, data):
        """All of the data."""
        return data


@partial(jax.tree_util.register_dataclass, data_fields=["thresholds"], meta_fields=["size", "num_rows"])
@dataclasses.dataclass(frozen=True)
class RandomRows:
    """Every step sees ``size`` rows drawn with replacement from the first ``num_rows``, or from all.

    They are drawn uniformly; or by weight, with the ``thresholds`` of ``random_rows``. The batch then has equal
    weights, so that the mean over it has the weighted mean over all rows as its expectation.

    Parameters
    ----------
    size : rows of a batch
    num_rows : rows to draw from, the first ones of the data; None for all
    thresholds : t_1 <= t_2 <= ... of uint32, by which row n has the probability (t_{n+1} - t_n) / 2^32; None for equal
        probabilities
    """

    size: int
    num_rows: int | None = None
    thresholds: Array | None = None

    def __post_init__(self):
        if self.size < 1:
            raise ValueError(f"size must be at least 1; got {self.size!r}")

    def draw(self, key: Array, data):
        """A batch: every array of the data, with ``size`` of its rows."""
        if self.thresholds is None:
            num_rows = self.num_rows or jax.tree.leaves(data)[0].shape[0]
            rows = jax.random.randint(key, (self.size,), 0, num_rows)
        else:
            rows = jnp.searchsorted(self.thresholds, jax.random.bits(key, (self.size,), jnp.uint32), side="right")
            data = data._replace(weights=None)
        return jax.tree.map(lambda leaf: leaf[rows], data)


def random_rows(size: int, num_rows: int, weights=None) -> RandomRows:
    """Batches of ``size`` of ``num_rows`` rows whose mean loss has the weighted mean over all rows as its expectation.

    Rows are drawn with probability w_n / sum w, in steps of 2^-32. Weighting rows that were drawn uniformly would not
    do: divided by the batch's own weights the loss is biased, and divided by their mean it has a large variance.

    Parameters
    ----------
    size : rows of a batch
    num_rows : rows in all
    weights : (num_rows,); equal ones if not given

    Returns
    -------
    RandomRows
        A sampler, for ``GradeProblem(sampler=)``.
    """
    weights = None if weights is None else np.asarray(weights, np.float64)
    if weights is None or np.all(weights == weights[0]):
        return RandomRows(size, num_rows)
    cumulated = np.cumsum(weights)[: np.flatnonzero(weights)[-1]]  # the last row of positive weight has what is left
    thresholds = np.minimum(np.rint(cumulated / weights.sum() * 2.0**32), 2.0**32 - 1)
    return RandomRows(size, num_rows, jnp.asarray(thresholds.astype(np.uint32)))
