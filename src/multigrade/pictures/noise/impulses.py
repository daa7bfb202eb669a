"""Salt and pepper: pixels that lost their value and show black or white instead.

Such a pixel differs from its neighbours by far more than the others do, and whether it is lost does not depend on
whether the next one is. So neither the noise of a sensor, nor stars, nor letters are taken for it.
"""

import numpy as np
from scipy.ndimage import median_filter

AROUND = 5  # pixels on a side of what a median is taken over
FAR, FARTHEST = 4.0, 0.1  # from the median: so many standard deviations of the other pixels, and at least so much
FEWEST = 0.002  # share of the pixels that must be black so, and white so
TOGETHER = 3.0  # times as often as by chance may two neighbours be lost


def lost_pixels(observed: np.ndarray) -> np.ndarray | None:
    """(h, w), true where a channel of (channels, h, w) has salt or pepper; None if there is no such noise.

    Parameters
    ----------
    observed : (channels, h, w) on the unit scale.
    """
    found = [lost for channel in observed if (lost := _lost(channel)) is not None]
    return np.logical_or.reduce(found) if len(found) == len(observed) else None


def without(observed: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """The image with medians of what is around them in place of the lost pixels."""
    return np.where(lost, median_filter(observed, (1, AROUND, AROUND)), observed)


def _lost(channel: np.ndarray) -> np.ndarray | None:
    is_black, is_white = channel <= 0, channel >= 1
    others = ~(is_black | is_white)
    if others.mean() < 0.5:
        return None
    apart = np.abs(channel - median_filter(channel, AROUND))
    lost = ~others & (apart > max(FAR * 1.4826 * np.median(apart[others]), FARTHEST))
    share = lost.mean()
    pairs = max(np.mean(lost[:, 1:] & lost[:, :-1]), np.mean(lost[1:] & lost[:-1]))
    is_random = pairs < TOGETHER * share**2
    is_both = min(np.mean(lost & is_black), np.mean(lost & is_white)) > FEWEST
    return lost if is_both and is_random else None
