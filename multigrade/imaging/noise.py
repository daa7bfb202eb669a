"""How noisy an image is, from the image alone."""

import numpy as np
from scipy.ndimage import correlate1d

# The highpass filter of Daubechies' wavelet with two vanishing moments: blind to constants and slopes.
_ROOT = 3**0.5
_HIGHPASS = np.array([1 - _ROOT, _ROOT - 3, 3 + _ROOT, -1 - _ROOT]) / (4 * 2**0.5)
_NORMAL_QUARTILE = 0.6744897501960817  # the median of |z|, z standard normal


def estimate_noise_sigma(image: np.ndarray) -> float:
    """Standard deviation of white Gaussian noise in (..., h, w), on the 0..255 scale; the mean over channels.

    The median of the finest diagonal wavelet coefficients over 0.6745 (Donoho and Johnstone 1994): scikit-image's
    ``estimate_sigma``, written out because that needs PyWavelets. Fine texture counts as noise.
    """
    image = np.asarray(image, np.float64)
    channels = image.reshape(-1, *image.shape[-2:])
    return 255 * float(np.mean([_channel_sigma(channel) for channel in channels]))


def _channel_sigma(channel: np.ndarray) -> float:
    detail = np.pad(channel, (0, 3), mode="symmetric")  # one coefficient more at the ends, as scikit-image has it
    for axis in (0, 1):
        detail = correlate1d(detail, _HIGHPASS, axis=axis, mode="reflect")
    height, width = channel.shape
    detail = np.abs(detail[: height + 2 : 2, : width + 2 : 2])
    # Exact zeros are flat areas of drawn or saturated pictures, which say nothing about the noise.
    detail = detail[detail > 0]
    return float(np.median(detail)) / _NORMAL_QUARTILE if detail.size else 0.0
