"""The ``best`` recipe for regression: what bilinear interpolation misses, learned from the known pixels.

The known pixels, every second one, are themselves an image of half the size: from every second of them the grades learn
what bilinear interpolation misses, and then do it to the known pixels.
"""

from collections.abc import Iterator

import numpy as np

REACH = 2  # known pixels on either side of the four around a missing one
PHASES = ((0, 1), (1, 0), (1, 1))  # of the missing pixels, relative to the known one before them
MOST_ROWS = 2**20  # pixels that are learned from at most, so that memory is bounded


def neighbours(known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(channels, h, w) of known pixels: those around each, less their mean, and bilinear values at the three phases."""
    height, width = known.shape[1:]
    margin = REACH + 1
    padded = np.pad(known, ((0, 0), (margin, margin), (margin, margin)), mode="symmetric")

    def at(down, right):
        return padded[:, margin + down : margin + down + height, margin + right : margin + right + width].ravel()

    reach = range(-REACH, REACH + 2)
    inputs = np.stack([at(down, right) for down in reach for right in reach], axis=1)
    corner, right, below, across = at(0, 0), at(0, 1), at(1, 0), at(1, 1)
    bilinear = np.stack([(corner + right) / 2, (corner + below) / 2, (corner + right + below + across) / 4], axis=1)
    return inputs - bilinear[:, 2:], bilinear


def interpolation_rows(known: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and what bilinear interpolation misses, from every second known pixel, in all orientations."""
    inputs, targets = [], []
    for turned in orientations(known):
        for top, left in ((0, 0), (0, 1), (1, 0), (1, 1)):
            coarse = turned[:, top::2, left::2]
            around, bilinear = neighbours(coarse)
            values = np.full((*coarse.shape, 3), np.nan, np.float32)
            for phase, (down, right) in enumerate(PHASES):
                part = turned[:, top + down :: 2, left + right :: 2]
                values[:, : part.shape[1], : part.shape[2], phase] = part
            missed = values.reshape(-1, 3) - bilinear
            inside = np.isfinite(missed).all(axis=1)
            inputs.append(around[inside])
            targets.append(missed[inside])
    inputs, targets = np.concatenate(inputs), np.concatenate(targets)
    if len(inputs) > MOST_ROWS:
        chosen = np.random.default_rng(seed).choice(len(inputs), MOST_ROWS, replace=False)
        inputs, targets = inputs[chosen], targets[chosen]
    return inputs, targets


def orientations(image: np.ndarray) -> Iterator[np.ndarray]:
    """All eight: turned and mirrored."""
    for turns in range(4):
        turned = np.rot90(image, turns, axes=(1, 2))
        yield turned
        yield np.swapaxes(turned, 1, 2)


def between(known: np.ndarray, missing: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The image (channels, h, w) with ``known`` at every second pixel and the three phases (rows, 3) between them."""
    channels, height, width = known.shape
    image = np.empty((channels, 2 * height, 2 * width), np.float32)
    image[:, ::2, ::2] = known
    for (down, right), values in zip(PHASES, missing.T, strict=True):
        image[:, down::2, right::2] = values.reshape(known.shape)
    return image[:, : shape[1], : shape[2]]
