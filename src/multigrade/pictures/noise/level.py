"""How noisy an image is, from the image alone."""

import numpy as np
from scipy.ndimage import binary_dilation, correlate1d

from ..layout import channels_first, to_unit

# The highpass filter of Daubechies' wavelet with two vanishing moments: blind to constants and slopes.
_ROOT = 3**0.5
_HIGHPASS = np.array([1 - _ROOT, _ROOT - 3, 3 + _ROOT, -1 - _ROOT]) / (4 * 2**0.5)
_NORMAL_QUARTILE = 0.6744897501960817  # the median of |z|, z standard normal
ROUNDING = 1e-9  # a coefficient below it is one of a flat area
FEWEST = 30  # coefficients, where pixels are missing


def estimate_noise_sigma(image: np.ndarray, mask: np.ndarray | None = None) -> float:
    """Standard deviation of white Gaussian noise on the 0..255 scale; the mean over channels.

    The median of the finest diagonal wavelet coefficients over 0.6745 (Donoho and Johnstone 1994): scikit-image's
    ``estimate_sigma``, written out because that needs PyWavelets. Fine texture counts as noise.

    Parameters
    ----------
    image : (h, w) or (h, w, channels)
    mask : (h, w); only pixels where it is true count

    Returns
    -------
    float
        On the 0..255 scale.
    """
    return estimate_noise(channels_first(to_unit(image)), mask)


def estimate_noise(image: np.ndarray, known: np.ndarray | None = None) -> float:
    """The same of (..., h, w)."""
    image = np.asarray(image, np.float64)
    channels = image.reshape(-1, *image.shape[-2:])
    coefficients, usable = _coefficients, np.bool_(True)
    if known is not None:
        usable = _coefficients(1.0 - known, np.abs(_HIGHPASS)) == 0
        if usable.sum() < FEWEST:  # seldom are 4 x 4 pixels all known; 2 x 2 will do
            beside = known[:, 1:] & known[:, :-1]
            coefficients, usable = _haar, beside[1:] & beside[:-1]
        if usable.sum() < FEWEST:
            raise ValueError("noise_sigma must be given: too few pixels are known to estimate it from")
    return 255 * float(np.mean([_channel_sigma(np.abs(coefficients(each)), usable) for each in channels]))


def _channel_sigma(detail: np.ndarray, usable: np.ndarray | np.bool_) -> float:
    # Flat areas of drawn or saturated pictures say nothing about the noise.
    flat = usable & (detail <= ROUNDING)
    uneven = usable & ~flat
    # Noise fills areas. What lies along flat areas for the most part is the edges of a drawing.
    inside = uneven & ~binary_dilation(flat, np.ones((3, 3)))
    if not uneven.any() or 2 * inside.sum() < uneven.sum():
        return 0.0
    return float(np.median(detail[uneven])) / _NORMAL_QUARTILE


def _coefficients(channel: np.ndarray, highpass: np.ndarray = _HIGHPASS) -> np.ndarray:
    filtered = np.pad(channel, (0, 3), mode="symmetric")  # one coefficient more at the ends, as scikit-image has it
    for axis in (0, 1):
        filtered = correlate1d(filtered, highpass, axis=axis, mode="reflect")
    height, width = channel.shape
    return filtered[: height + 2 : 2, : width + 2 : 2]


def _haar(channel: np.ndarray) -> np.ndarray:
    """Of all 2 x 2 pixels; blind to planes, too."""
    return np.diff(np.diff(channel, axis=0), axis=1) / 2
