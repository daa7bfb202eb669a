"""Estimates of a noisy image that need no training on it, and how they move with it.

The last pass of ``nonlocal_estimate``, and that image after each of the ``learned`` grades, which correct the first
channel alone: on ten of their training pictures they did no good to differences of colours. Last comes that image with
its means over 2 x 2 pixels moved towards those that the same estimate finds in the picture at half the size, where the
noise is half as strong and a group of patches reaches twice as far. Channels are decorrelated (``colour``) and have
white noise. How an estimate z moves at a pixel with that pixel's noisy value is found from one
random probe b of signs, as for ``minimisers``: dz_p/df_p ~ b_p (z(f + t b) - z(f))_p / t, right on average.
"""

import functools
from collections.abc import Callable

import jax
import numpy as np

from ..progress import Progress, part_of, unheard
from ..scales import doubled, halved
from ..tiles import tiled
from . import learned
from .nonlocal_estimate import nonlocal_passes

STEP = 0.1  # size of the probe, in units of the noise
# Of the means of half the size in those of the picture, and how often the size is halved: our choice, on Kodak's
# pictures, where a mixture with it gained 0.04, 0.06 and 0.1 dB at noise 15, 25 and 50.
TRUST, SCALES = 0.5, 2
SMALLEST = 128  # pixels on a side of a picture that is halved; a group of half the size is looked for in 37 of 64
FINEST = 0.75  # of the time goes to the finest scale


def estimates(
    observed: np.ndarray,
    noise: float,
    *,
    progress: Progress = unheard,
    otherwise: Callable[[np.ndarray], np.ndarray] | None = None,
) -> np.ndarray:
    """(estimates, channels, h, w): the non-local one, what each learned grade makes of it, and what coarser scales do.

    ``otherwise`` is what becomes of the tiles that there was no time for, in all estimates.
    """

    def quickly(part: np.ndarray) -> np.ndarray:
        assert otherwise is not None
        return np.stack([otherwise(part)] * (2 + len(learned.trained())))

    function = functools.partial(_estimates, noise=np.float32(noise))
    return tiled(function, observed, progress=progress, otherwise=otherwise and quickly)


def _estimates(observed: np.ndarray, progress: Progress, noise: np.float32, scale: int = 0) -> np.ndarray:
    height, width = observed.shape[1:]
    even = np.pad(observed, ((0, 0), (0, height % 2), (0, width % 2)), mode="symmetric")
    passes = nonlocal_passes(even, noise, part_of(progress, 0, FINEST))
    seen = learned.seen_by(even[:1], [image[:1] for image in passes], np.full(1, noise))
    images = [passes[-1]]
    for correction in _corrections(learned.trained(), seen):
        images.append(images[-1].copy())
        images[-1][:1] += noise * learned.unfolded(np.asarray(correction))
    images.append(images[-1])
    if scale < SCALES and min(height, width) >= SMALLEST:
        means = _estimates(halved(even), part_of(progress, FINEST, 1), noise / 2, scale + 1)[-1]
        images[-1] = images[-2] + np.float32(TRUST) * doubled(means - halved(images[-2]), even.shape)
    return np.stack(images)[..., :height, :width]


_corrections = jax.jit(learned.corrections)
