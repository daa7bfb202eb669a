"""How many cases of a law are tried, and arrays to try it on.

A profile says how many cases a law gets that takes a millisecond; others get fewer, by what they cost.
"""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

middle = settings(max_examples=max(settings.default.max_examples // 4, 10))
"""For a law that computes for some milliseconds."""

dear = settings(max_examples=max(settings.default.max_examples // 200, 3))
"""For a law that fits, writes or solves something."""

seeds = st.integers(0, 2**32 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


def arrays(shape, *, bound: float = 1e6, dtype=np.float64, width: int = 64):
    """Finite numbers of at most this size."""
    elements = st.floats(-bound, bound, allow_nan=False, allow_infinity=False, width=width)
    return hnp.arrays(dtype, shape, elements=elements)


def matrix(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Points as data has them: normal, on a grid, with equal rows and columns, zeros, and wide ranges of scale."""
    points = rng.normal(size=(rows, columns)) * 10.0 ** rng.integers(-3, 4, columns)
    if rng.random() < 0.3:
        points = np.round(points)
    if rng.random() < 0.3:
        points[rng.integers(0, rows, rows // 2)] = points[0]
    if rng.random() < 0.2:
        points[:, -1] = points[:, 0]
    if rng.random() < 0.2:
        points += 10.0 ** rng.integers(0, 9)
    return points
