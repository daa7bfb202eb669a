"""The layout of images in all public functions: (h, w) or (h, w, channels), floating point 0 to 1, or uint8 or uint16.

Inside, recipes work on float32 arrays (channels, h, w); these functions go between the two.
"""

import numpy as np

MOST_CHANNELS = 4  # grey or colour, either with transparency
FAR_OUTSIDE = 10  # of 0..1: no noise does that, but 0..255 does

Size = tuple[int, int]


def to_unit(image, name: str = "an image") -> np.ndarray:
    """The image in floating point, 0 black and 1 white: integers are divided by the largest of their type.

    ValueError for anything that is not an image, and for floating point on the scale 0 to 255.
    """
    image = np.asarray(image)
    if image.ndim not in (2, 3) or (image.ndim == 3 and not 1 <= image.shape[2] <= MOST_CHANNELS):
        raise ValueError(
            f"{name} must be (h, w) or (h, w, channels), 1 to {MOST_CHANNELS} channels; got shape {image.shape}"
        )
    if image.dtype in (np.uint8, np.uint16):
        return image / float(np.iinfo(image.dtype).max)
    if image.dtype.kind != "f":
        raise ValueError(f"{name} must be floating point from 0 to 1, uint8 or uint16; got {image.dtype}")
    if not np.isfinite(image).all():
        raise ValueError(f"{name} must be finite; got NaN or infinity")
    if image.size and np.abs(image).max() > FAR_OUTSIDE:
        limits = f"{image.min():.4g} to {image.max():.4g}"
        raise ValueError(f"{name} in floating point must be on the scale 0 to 1; got {limits}: divide it by its white")
    return image


def to_channels(image, name: str = "an image") -> np.ndarray:
    """(channels, h, w), float32; ValueError also for less than 2 x 2 pixels."""
    image = to_unit(image, name).astype(np.float32)
    if min(image.shape[:2]) < 2:
        raise ValueError(f"{name} must have at least 2 x 2 pixels; got shape {image.shape}")
    return np.moveaxis(image, -1, 0) if image.ndim == 3 else image[None]


def to_picture(channels: np.ndarray, *, is_grey: bool) -> np.ndarray:
    """(h, w) or (h, w, channels) of (channels, h, w)."""
    return channels[0] if is_grey else np.moveaxis(channels, 0, -1)


def channels_first(image: np.ndarray) -> np.ndarray:
    """(h, w) stays; (h, w, channels) becomes (channels, h, w): the layout in which methods take each channel alike."""
    return np.moveaxis(image, -1, 0) if image.ndim == 3 else image


def channels_last(image: np.ndarray) -> np.ndarray:
    """The way back."""
    return np.moveaxis(image, 0, -1) if image.ndim == 3 else image
