"""Photos, whose noise is correlated between neighbours and follows brightness: coarse scales are denoised, too.

A group of patches is combined by the energy of its noise alone (``nonlocal_estimate``), so that correlation within a
patch does no harm; but what is wider than a patch stays, as blotches of colour. So the picture at half the size is
denoised first, and before it one of a quarter. What that changed is taken from the picture, and the finest band is left
to denoise. At each scale a group has the noise of its own brightness.
"""

import numpy as np
from scipy.ndimage import gaussian_filter

from ..noise.camera import NUM_BANDS, CameraNoise
from ..progress import Progress, part_of, unheard
from ..scales import doubled, halved
from .nonlocal_estimate import SIDE, from_guide, three_passes

SCALES = 3  # the picture, and those of half and of a quarter of its size
SMALLEST = 64  # pixels on a side of a picture that is halved
COARSE = 0.2  # of the time goes to the smaller pictures
COUNT_FIRST = 32  # patches of a group in the first pass, where correlated patches look more alike than they are
# Over the noise that was found: the first pass is guided by the noisy picture, which hides noise from it. Our choice,
# on simulated cameras.
CAUTION = 2.0
FAINTEST = 0.1 / 255  # noise that a patch has at least: equal patches without any would leave nothing to solve for
SMOOTH = 2.0  # pixels; brightness is read from the picture smoothed so far


def photo_estimate(observed: np.ndarray, noise: CameraNoise, progress: Progress = unheard) -> np.ndarray:
    """An estimate of decorrelated channels (channels, h, w).

    Parameters
    ----------
    observed : (channels, h, w), brightness first.
    noise : what was found in the picture, or in a larger one.
    progress : called with the share that is done.
    """
    brightness = gaussian_filter(observed[0], SMOOTH) / len(observed) ** 0.5
    return _scale(observed, brightness, noise, progress, 0)


def _scale(observed, brightness, noise: CameraNoise, progress: Progress, scale: int) -> np.ndarray:
    """The estimate of a picture that was halved so often."""
    is_coarsest = scale + 1 == SCALES or min(observed.shape[1:]) < SMALLEST
    if not is_coarsest:
        half, below = halved(observed), halved(brightness[None])[0]
        change = _scale(half, below, noise, part_of(progress, 0, COARSE), scale + 1) - half
        observed, progress = observed + doubled(change, observed.shape), part_of(progress, COARSE, 1)
    variances = noise.variances(brightness, scale, NUM_BANDS if is_coarsest else scale + 1)
    return three_passes(
        observed,
        np.float32(np.maximum(CAUTION * np.sqrt(variances), FAINTEST)),
        (SIDE, COUNT_FIRST, from_guide),
        progress,
    )[-1]
