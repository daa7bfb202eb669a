"""Large pictures in tiles: a function of an image, applied to overlapping parts of it and put together.

A tile's result is used as far as ``margin`` from its border only, except at the picture's own. All tiles of a picture
have one size, so that what is compiled for one serves all.
"""

from collections.abc import Callable, Iterator

import numpy as np

from .progress import OutOfTime, Progress, part_of, unheard

TILE, MARGIN = 640, 32  # pixels; our choice


def tiled(
    function: Callable[[np.ndarray, Progress], np.ndarray],
    image: np.ndarray,
    *,
    size: int = TILE,
    margin: int = MARGIN,
    progress: Progress = unheard,
    otherwise: Callable[[np.ndarray], np.ndarray] | None = None,
) -> np.ndarray:
    """``function`` of ``image`` (channels, h, w), whose result (..., h, w) depends on what is within ``margin``.

    Parameters
    ----------
    function : of a tile (channels, size, size) and of a function that it tells how far it is.
    progress : called with the share that is done.
    otherwise : a quicker function, for the tiles that there was no time for. Without one, ``OutOfTime`` ends it all.
    """
    height, width = image.shape[1:]
    places = [(rows, columns) for rows in _parts(height, size, margin) for columns in _parts(width, size, margin)]
    result, is_over = None, False
    for count, ((top, rows), (left, columns)) in enumerate(places):
        tile = image[:, top : top + size, left : left + size]
        try:
            part = (
                None if is_over else function(tile, part_of(progress, count / len(places), (count + 1) / len(places)))
            )
        except OutOfTime:
            if otherwise is None:
                raise
            part, is_over = None, True
        if part is None:
            assert otherwise is not None
            part = otherwise(tile)
        if result is None:
            result = np.empty((*part.shape[:-2], height, width), part.dtype)
        result[..., rows, columns] = part[
            ..., rows.start - top : rows.stop - top, columns.start - left : columns.stop - left
        ]
    assert result is not None
    return result


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
