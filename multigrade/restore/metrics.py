"""How near a restored image is to a reference, both on the unit scale."""

import numpy as np
from skimage.metrics import structural_similarity

SMALLEST_FOR_SSIM = 7  # pixels a side: the window of the usual definition


def psnr(image: np.ndarray, reference: np.ndarray) -> float:
    """-10 log10 of the mean squared error, in dB; nothing is clipped first (eq. (PSNR) of the paper)."""
    image, reference = np.asarray(image, np.float64), np.asarray(reference, np.float64)
    if image.shape != reference.shape:
        raise ValueError(f"image and reference must have one shape; got {image.shape} and {reference.shape}")
    error = float(np.mean((image - reference) ** 2))
    return -10 * float(np.log10(error)) if error > 0 else float("inf")


def ssim(image: np.ndarray, reference: np.ndarray) -> float:
    """Mean structural similarity of images (..., h, w), 1 for equal ones; NaN for images too small for its window."""
    image, reference = np.asarray(image, np.float64), np.asarray(reference, np.float64)
    if image.shape != reference.shape:
        raise ValueError(f"image and reference must have one shape; got {image.shape} and {reference.shape}")
    if min(image.shape[-2:]) < SMALLEST_FOR_SSIM:
        return float("nan")
    flat = (array.reshape(-1, *array.shape[-2:]) for array in (image, reference))
    return float(np.mean([structural_similarity(a, b, data_range=1.0) for a, b in zip(*flat, strict=True)]))
