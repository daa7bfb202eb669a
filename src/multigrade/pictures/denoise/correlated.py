"""Noise that is correlated between neighbours, as after demosaicking and JPEG: coarse scales are denoised, too.

A group of patches is combined by the energy of its noise alone (``nonlocal_estimate``), so that correlation within a
patch does no harm; but what is wider than a patch stays. So the picture at half the size is denoised first, what that
changed is taken from the picture, and the finest band is left to denoise.
"""

import numpy as np

from ..noise.model import NoiseModel, total
from ..progress import Progress, part_of, unheard
from ..scales import doubled, halved
from .nonlocal_estimate import SIDE, from_guide, three_passes

SCALES = 2  # the picture, and one of half its size
COARSE = 0.2  # of the time goes to the picture of half the size
COUNT_FIRST = 32  # patches of a group in the first pass, where correlated patches look more alike than they are
CAUTION = 2.0  # over the noise of the quietest blocks, which is less than that of all; our choice, on five pictures


def correlated_estimate(
    observed: np.ndarray, model: NoiseModel, progress: Progress = unheard, scale: int = 0
) -> np.ndarray:
    """An estimate of decorrelated channels (channels, h, w) whose noise has these bands."""
    if scale + 1 < SCALES:
        half = halved(observed)
        change = correlated_estimate(half, model, part_of(progress, 0, COARSE), scale + 1) - half
        observed = observed + doubled(change, observed.shape)
        variances = 0.75 * model.bands[:, scale]
    else:
        variances = np.array([total(bands[scale:]) for bands in model.bands])
    noise = (CAUTION * 0.5**scale * np.sqrt(variances)).astype(np.float32)
    progress = part_of(progress, COARSE, 1) if scale + 1 < SCALES else progress
    return three_passes(observed, noise, (SIDE, COUNT_FIRST, from_guide), progress)[-1]
