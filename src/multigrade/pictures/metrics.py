"""How near a restored picture is to a reference: (h, w) or (h, w, channels), from 0 to 1 or uint8 or uint16."""

import numpy as np
from skimage.metrics import structural_similarity

from .layout import channels_first

SMALLEST_FOR_SSIM = 7  # pixels a side: the window of the usual definition


def psnr(image: np.ndarray, reference: np.ndarray) -> float:
    """-10 log10 of the mean squared error, in dB; nothing is clipped first (eq. (PSNR) of the paper).

    Parameters
    ----------
    image : (h, w) or (h, w, channels)
    reference : the truth, of the same shape

    Returns
    -------
    float
        Decibels; infinite for equal pictures.
    """
    image, reference = _alike(image, reference)
    error = float(np.mean((image - reference) ** 2))
    return -10 * float(np.log10(error)) if error > 0 else float("inf")


def ssim(image: np.ndarray, reference: np.ndarray) -> float:
    """Mean structural similarity over pixels and channels, 1 for equal pictures; NaN for too small ones.

    Parameters
    ----------
    image : (h, w) or (h, w, channels)
    reference : the truth, of the same shape

    Returns
    -------
    float
        At most 1.
    """
    image, reference = _alike(image, reference)
    if image.ndim not in (2, 3):
        raise ValueError(f"image must be (h, w) or (h, w, channels); got shape {image.shape}")
    if min(image.shape[:2]) < SMALLEST_FOR_SSIM:
        return float("nan")
    flat = (channels_first(array).reshape(-1, *array.shape[:2]) for array in (image, reference))
    return float(np.mean([structural_similarity(a, b, data_range=1.0) for a, b in zip(*flat, strict=True)]))


def _alike(image: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    image, reference = _unit(image), _unit(reference)
    if image.shape != reference.shape:
        raise ValueError(f"image and reference must have one shape; got {image.shape} and {reference.shape}")
    return image, reference


def _unit(image: np.ndarray) -> np.ndarray:
    """float64, integers over the largest of their type. What is not clipped may be anything, so no range is checked."""
    image = np.asarray(image)
    white = np.iinfo(image.dtype).max if image.dtype in (np.uint8, np.uint16) else 1
    return np.asarray(image, np.float64) / white
