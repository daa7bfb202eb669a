"""Wide holes filled by a mixture of fillings, whose shares are learned beside the hole.

Smooth fillings miss texture; patches from elsewhere bring texture, and are far off where nothing like the hole is in
the picture. Which of them serves here is rehearsed: holes of the same form are made in what is known nearby and filled
as well, and the shares with which the fillings come closest to what was there serve for the hole itself.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from scipy.ndimage import label

from ..mixtures import mixture
from .patch_fill import SIDE

COPIES = 4  # of a hole are made nearby
GAP = 4  # pixels between them
REACH = 6  # times its size from the hole, they are looked for

# image (channels, h, w) and hole (h, w) -> the image filled, by name
Fillings = Callable[[np.ndarray, np.ndarray], Mapping[str, np.ndarray]]


def mixed_fillings(image: np.ndarray, wide: np.ndarray, known: np.ndarray, fillings: Fillings) -> dict[str, np.ndarray]:
    """``image`` (channels, h, w) with the holes in ``wide`` (h, w) filled, by name; the last is the mixture.

    Parameters
    ----------
    known : (h, w), where holes may be made to rehearse.
    fillings : what is mixed. All fillings have equal shares in a hole that nothing can be rehearsed for.
    """
    holes = np.empty(wide.shape, np.int32)
    count = label(wide, output=holes)
    free, copies = known & ~wide, []
    for number in range(1, count + 1):
        copies.append(copies_beside(holes == number, free))
        free &= ~copies[-1]
    found, rehearsed = fillings(image, wide), fillings(image, wide | (known & ~wide & ~free))
    names = [name for name in found if name in rehearsed]
    mixed = image.copy()
    for number, copy in enumerate(copies, 1):
        hole, shares = holes == number, np.full(len(names), 1 / len(names))
        if copy.any():
            shares = mixture([rehearsed[name][:, copy] for name in names], image[:, copy])
        mixed[:, hole] = sum(share * found[name][:, hole] for share, name in zip(shares, names, strict=True))
    return {**found, "mixture": mixed}


def copies_beside(hole: np.ndarray, free: np.ndarray) -> np.ndarray:
    """(h, w): the nearest places for copies of ``hole`` where all is ``free``; of its form halved where none fits."""
    rows, columns = np.nonzero(hole)
    top, left = int(rows.min()), int(columns.min())
    form = hole[top : rows.max() + 1, left : columns.max() + 1]
    copies, taken, count = np.zeros_like(hole), ~free, 0
    while count == 0 and min(form.shape) >= SIDE:
        height, width = form.shape
        for row, column in _nearby(form.shape, hole.shape, (top, left)):
            around = np.s_[max(row - GAP, 0) : row + height + GAP, max(column - GAP, 0) : column + width + GAP]
            if count < COPIES and not taken[around].any():
                here = np.s_[row : row + height, column : column + width]
                copies[here] |= form
                taken[here] |= form
                count += 1
        form = form[::2, ::2]
    return copies


def _nearby(form: tuple[int, ...], shape: tuple[int, ...], near: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Where a form may start, the nearest place first."""
    step = max(min(form) // 4, 1)
    rows, columns = (
        np.arange(max(at - REACH * size, 0), min(at + REACH * size, whole - size) + 1, step)
        for at, size, whole in zip(near, form, shape, strict=True)
    )
    places = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
    order = np.argsort(np.sum((places - near) ** 2, axis=1), kind="stable")
    yield from ((int(row), int(column)) for row, column in places[order])
