"""Wide holes filled with what is elsewhere in the picture: every patch that touches the hole is like one that is known.

Coarse to fine (Wexler, Shechtman and Irani 2007). At the coarsest scale, where the hole is a few pixels wide, each
patch is compared with all known ones; at finer scales with the matches of its neighbours, moved as they are (Barnes and
others 2009). What is compared counts less the deeper it lies in the hole. A pixel of the hole is the mean of what the
matches of all patches over it have there, weighted by how well they match and how much of them was known. Matching and
filling take turns.
"""

import dataclasses

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import binary_dilation, distance_transform_edt, label

SIDE = 7  # pixels of a patch
WIDE = 6.0  # pixels from the border of a hole to its middle, from which on it is wide
NARROW = 3.0  # pixels from the border of the hole to its middle at the coarsest scale
MOST = 2**14  # pixels of the coarsest scale
FEWEST = 30  # known patches to choose from
FIRST_ROUNDS, ROUNDS = 8, 4  # of matching and filling at the coarsest scale, and at the others
DEEPER = 2.0  # a pixel counts so many times less for each pixel that it is deeper in the hole
SHARP = 0.3  # distance at which a match counts little, over the mean distance of all
LAYER = 2  # pixels that are filled at a time, at first
CHUNK = 256  # patches matched at a time
BESIDE = np.stack(np.meshgrid([-1, 0, 1], [-1, 0, 1], indexing="ij"), axis=-1).reshape(-1, 2)


@dataclasses.dataclass
class Scale:
    """A picture (channels, h, w) at one scale, and its ``hole`` (h, w): what is not known.

    Pixels that are ``blank`` hold nothing yet and don't count. A patch is named by its first row and column, (..., 2).
    """

    image: np.ndarray
    hole: np.ndarray
    blank: np.ndarray | bool = False

    def __post_init__(self):
        unknown = sliding_window_view(self.hole | self.blank, (SIDE, SIDE))
        self.is_source: np.ndarray = np.logical_not(unknown.any(axis=(2, 3)))
        trust = np.where(self.blank, 1e-6, DEEPER ** -_depth(self.hole))
        self.trust = sliding_window_view(trust.astype(np.float32), (SIDE, SIDE))
        self.targets = np.argwhere(sliding_window_view(self.hole, (SIDE, SIDE)).any(axis=(2, 3)))

    @property
    def half(self) -> "Scale":
        """Means of the known ones among 2 x 2 pixels, unknown where more than one is."""
        shares, sums = _quarters((~self.hole).astype(np.float32)), _quarters(np.where(self.hole, 0, self.image))
        hole = shares < 0.7
        return Scale(np.where(hole, 0, sums / np.maximum(shares, 0.25)).astype(np.float32), hole)

    @property
    def is_coarse(self) -> bool:
        """Whether the hole is narrow, and the known patches few enough to compare with all."""
        return _depth(self.hole).max() <= NARROW and self.hole.size <= MOST

    @property
    def can_be_filled(self) -> bool:
        return min(self.hole.shape) >= 2 * SIDE and self.is_source.sum() >= FEWEST

    def patches(self, places: np.ndarray) -> np.ndarray:
        """(..., channels, side, side)"""
        windows = sliding_window_view(self.image, (SIDE, SIDE), axis=(1, 2))
        return np.moveaxis(windows[:, places[..., 0], places[..., 1]], 0, -3)


def wide_holes(known: np.ndarray) -> np.ndarray:
    """(h, w): the pixels of those holes, connected areas that are not ``known``, whose middle is far from what is."""
    holes = np.empty(known.shape, np.int32)
    label(~known, output=holes)
    return np.isin(holes, np.unique(holes[_depth(~known) > WIDE]))


def filled(image: np.ndarray, hole: np.ndarray) -> np.ndarray | None:
    """``image`` (channels, h, w) with ``hole`` (h, w) filled; None if too little of it is known."""
    scales = [Scale(image, hole)]
    while not scales[-1].is_coarse and (half := scales[-1].half).can_be_filled:
        scales.append(half)
    coarsest = scales[-1]
    if not coarsest.can_be_filled:
        return None
    coarsest.image = _peeled(coarsest)
    offsets = _by_turns(coarsest, None, FIRST_ROUNDS)
    for finer, coarser in zip(scales[-2::-1], scales[:0:-1], strict=True):
        finer.image = np.where(finer.hole, _doubled(coarser.image, finer.hole.shape), finer.image)
        places = _places(finer)
        offsets = _by_turns(finer, 2 * np.moveaxis(_doubled(np.moveaxis(offsets, -1, 0), places), 0, -1), ROUNDS)
    return np.where(hole, scales[0].image, image)


def _by_turns(scale: Scale, offsets: np.ndarray | None, rounds: int) -> np.ndarray:
    """Fills the scale; from each patch to its match, (places down, places along, 2).

    Without offsets to begin with, every known patch may be the match.
    """
    found_offsets = np.zeros((*_places(scale), 2), np.int64) if offsets is None else offsets
    for _ in range(rounds):
        found = [_matched(scale, scale.targets[i : i + CHUNK], offsets) for i in range(0, len(scale.targets), CHUNK)]
        matches, distances = (np.concatenate(part) for part in zip(*found, strict=True))
        scale.image = _voted(scale, matches, distances)
        found_offsets[tuple(scale.targets.T)] = matches - scale.targets
    return found_offsets


def _matched(scale: Scale, targets: np.ndarray, offsets: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The known patch that is most like each target, and their mean square distance; infinite where there was none."""
    own, trust = scale.patches(targets), scale.trust[tuple(targets.T)][:, None]
    trust = np.broadcast_to(trust / trust.mean(axis=(2, 3), keepdims=True), own.shape)
    if offsets is None:
        sources = np.argwhere(scale.is_source)
        there, here, counts = (part.reshape(len(part), -1) for part in (scale.patches(sources), own, trust))
        distances = np.sum(counts * here**2, axis=1)[:, None] + counts @ (there**2).T - 2 * (counts * here) @ there.T
        best = np.argmin(distances, axis=1)
        return sources[best], np.maximum(distances[np.arange(len(best)), best], 0) / here.shape[1]
    limits = np.array(_places(scale)) - 1
    beside = np.clip(targets[:, None] + BESIDE, 0, limits)
    moved = targets[:, None, None] + offsets[tuple(np.moveaxis(beside, -1, 0))][:, :, None] + BESIDE
    candidates = np.clip(moved, 0, limits).reshape(len(targets), -1, 2)
    distances = np.mean(trust[:, None] * (scale.patches(candidates) - own[:, None]) ** 2, axis=(2, 3, 4))
    distances[~scale.is_source[tuple(np.moveaxis(candidates, -1, 0))]] = np.inf
    best = np.argmin(distances, axis=1)
    return candidates[np.arange(len(best)), best], distances[np.arange(len(best)), best]


def _voted(scale: Scale, matches: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """The image with every pixel of the hole the weighted mean of what the matches have there."""
    usual = np.mean(distances[np.isfinite(distances)]) if np.isfinite(distances).any() else 1.0
    weights = np.exp(-distances / (SHARP * usual + 1e-9)) + 1e-6 * np.isfinite(distances)
    weights *= scale.trust[tuple(scale.targets.T)].mean(axis=(1, 2))
    values = scale.patches(matches) * weights[:, None, None, None]
    sums, total = np.zeros_like(scale.image), np.zeros(scale.hole.shape)
    for row in range(SIDE):
        for column in range(SIDE):
            rows, columns = scale.targets[:, 0] + row, scale.targets[:, 1] + column  # each place once
            sums[:, rows, columns] += values[:, :, row, column].T
            total[rows, columns] += weights
    voted = scale.hole & (total > 0)
    return np.where(voted, sums / np.where(voted, total, 1), scale.image).astype(np.float32)


def _peeled(scale: Scale) -> np.ndarray:
    """The hole filled from its border inwards, each layer by patches that match what is there before it."""
    image, blank = scale.image, scale.hole
    while blank.any():
        rim = blank & binary_dilation(~blank, iterations=LAYER)
        layer = Scale(image, rim, blank)
        _by_turns(layer, None, 1)
        image, blank = layer.image, blank & ~rim
    return image


def _depth(hole: np.ndarray) -> np.ndarray:
    """Distance to the nearest pixel that is not of the hole."""
    return np.asarray(distance_transform_edt(hole))


def _places(scale: Scale) -> tuple[int, int]:
    height, width = scale.is_source.shape
    return height, width


def _quarters(image: np.ndarray) -> np.ndarray:
    height, width = (size // 2 * 2 for size in image.shape[-2:])
    part = image[..., :height, :width]
    return (part[..., ::2, ::2] + part[..., ::2, 1::2] + part[..., 1::2, ::2] + part[..., 1::2, 1::2]) / 4


def _doubled(image: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """(..., h, w) of this size, every pixel four times and the last ones once more."""
    twice = image.repeat(2, axis=-2).repeat(2, axis=-1)
    missing = [(0, max(size - there, 0)) for size, there in zip(shape, twice.shape[-2:], strict=True)]
    return np.pad(twice, [(0, 0)] * (image.ndim - 2) + missing, mode="edge")[..., : shape[0], : shape[1]]
