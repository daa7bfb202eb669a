"""Estimates of a noisy image that need no training on it, and how they move with it.

The last pass of ``nonlocal_estimate``, and that image after each of the ``learned`` grades, which correct the first
channel alone: on ten of their training pictures they did no good to differences of colours. Channels are decorrelated
(``colour``) and have white noise. How an estimate z moves at a pixel with that pixel's noisy value is found from one
random probe b of signs, as for ``minimisers``: dz_p/df_p ~ b_p (z(f + t b) - z(f))_p / t, right on average.
"""

import functools
from collections.abc import Callable

import jax
import numpy as np

from . import learned
from .clock import Told, nobody
from .nonlocal_estimate import nonlocal_passes
from .tiles import tiled

STEP = 0.1  # size of the probe, in units of the noise


def estimates(
    observed: np.ndarray,
    noise: float,
    *,
    told: Told = nobody,
    otherwise: Callable[[np.ndarray], np.ndarray] | None = None,
) -> np.ndarray:
    """(estimates, channels, h, w): the non-local estimate, and what each learned grade makes of it.

    ``otherwise`` is what becomes of the tiles that there was no time for, in all estimates.
    """

    def quickly(part: np.ndarray) -> np.ndarray:
        assert otherwise is not None
        return np.stack([otherwise(part)] * (1 + len(learned.trained())))

    function = functools.partial(_estimates, noise=np.float32(noise))
    return tiled(function, observed, told=told, otherwise=otherwise and quickly)


def _estimates(observed: np.ndarray, told: Told, noise: np.float32) -> np.ndarray:
    height, width = observed.shape[1:]
    even = np.pad(observed, ((0, 0), (0, height % 2), (0, width % 2)), mode="symmetric")
    passes = nonlocal_passes(even, noise, told)
    seen = learned.seen_by(even[:1], [image[:1] for image in passes], np.full(1, noise))
    added = [learned.unfolded(np.asarray(each)) for each in _corrections(learned.trained(), seen)]
    images = np.stack([passes[-1]] * (1 + len(added)))
    images[1:, :1] += noise * np.cumsum(added, axis=0)
    return images[..., :height, :width]


_corrections = jax.jit(learned.corrections)
