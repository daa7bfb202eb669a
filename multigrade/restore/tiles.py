"""Large pictures in tiles: a function of an image, applied to overlapping parts of it and put together.

A tile's result is used as far as ``margin`` from its border only, except at the picture's own. All tiles of a picture
have one size, so that what is compiled for one serves all.
"""

from collections.abc import Callable, Iterator

import numpy as np

TILE, MARGIN = 640, 32  # pixels; our choice


def tiled(
    function: Callable[[np.ndarray], np.ndarray],
    image: np.ndarray,
    *,
    size: int = TILE,
    margin: int = MARGIN,
    told: Callable[[int, int], None] = lambda done, count: None,
) -> np.ndarray:
    """``function`` of ``image`` (channels, h, w), whose result (..., h, w) depends on what is within ``margin``.

    Parameters
    ----------
    told : called with the number of tiles that are done, and of all.
    """
    height, width = image.shape[1:]
    places = [(rows, columns) for rows in _parts(height, size, margin) for columns in _parts(width, size, margin)]
    result = None
    for count, ((top, rows), (left, columns)) in enumerate(places):
        told(count, len(places))
        part = function(image[:, top : top + size, left : left + size])
        if result is None:
            result = np.empty((*part.shape[:-2], height, width), part.dtype)
        result[..., rows, columns] = part[
            ..., rows.start - top : rows.stop - top, columns.start - left : columns.stop - left
        ]
    told(len(places), len(places))
    assert result is not None
    return result


def num_tiles(shape: tuple[int, int], *, size: int = TILE, margin: int = MARGIN) -> int:
    """How many tiles a picture has."""
    return int(np.prod([len(list(_parts(length, size, margin))) for length in shape]))


def _parts(length: int, size: int, margin: int) -> Iterator[tuple[int, slice]]:
    """Where each tile starts, and which part of the whole is its own."""
    if length <= size:
        yield 0, slice(0, length)
        return
    count = -(-(length - 2 * margin) // (size - 2 * margin))
    starts = np.linspace(0, length - size, count).astype(int)
    ends = [*((starts[1:] + starts[:-1] + size) // 2), length]
    for start, first, last in zip(starts, [0, *ends[:-1]], ends, strict=True):
        yield int(start), slice(int(first), int(last))
