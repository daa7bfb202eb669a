"""An image at half its size, and back; or smaller by any factor."""

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates, zoom


def halved(image: np.ndarray) -> np.ndarray:
    """Means over 2 x 2 pixels of (channels, h, w); an odd last row or column is repeated."""
    height, width = image.shape[1:]
    even = np.pad(image, ((0, 0), (0, height % 2), (0, width % 2)), mode="symmetric")
    return (even[:, ::2, ::2] + even[:, ::2, 1::2] + even[:, 1::2, ::2] + even[:, 1::2, 1::2]) / 4


def doubled(image: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Bilinear between the centres of the pixels, cut to the height and width at the end of ``shape``."""
    twice = np.asarray(zoom(image, (1, 2, 2), order=1, mode="nearest", grid_mode=True))
    return twice[:, : shape[-2], : shape[-1]]


def smaller(image: np.ndarray, factor: float) -> np.ndarray:
    """``image`` (channels, h, w) with ``factor`` times fewer pixels on a side, what they cannot show filtered out."""
    smooth = gaussian_filter(image, (0, 0.4 * factor, 0.4 * factor), mode="reflect") if factor > 1 else image
    rows, columns = (np.arange(int(n / factor)) * factor + (factor - 1) / 2 for n in image.shape[1:])
    places = np.meshgrid(rows, columns, indexing="ij")
    return np.stack([map_coordinates(channel, places, np.float32, mode="reflect") for channel in smooth])
