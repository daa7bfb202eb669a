"""What the noise of a picture is like, from the picture alone: its level, its colour, whether it follows brightness.

The picture is cut into blocks, and each block into the bands of a Haar pyramid. In the quietest blocks there is little
but noise, and the mean squares of their bands are its spectrum. White noise has the same in all bands; noise that went
through demosaicking and JPEG has less in the finest. Blocks with clipped pixels do not count. Noise is in every pixel:
where most blocks are flat for the most part, the rest is the edges of a drawing.

Where a picture has texture everywhere, its quietest blocks have texture, too. Texture differs from noise in two ways:
its coefficients have heavy tails, and its energy rises from band to band. So the energy e of the finest band is that of
the smaller three quarters of its coefficients. If noise has the share w of it, the energy of the next band is
(w + (1 - w) q) e, and that of all coefficients about (1 + (1 - w)^2 (t - 1)) e, with q and t those of texture alone.
Each of the two gives a w, and the larger one counts: a level that is 15 % too low costs two decibels, one that is 15 %
too high a tenth of one.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

LEVELS, BLOCK = 4, 32  # of the pyramid; pixels on a side of a block, twice 2^LEVELS
QUIET, LESS_QUIET = 0.04, 0.1  # shares of the blocks
FEWEST = 8  # blocks to say anything
FLAT = 0.75  # of the pixels of a block, from which on it is drawn; noise of 0.3 rounded to integers leaves fewer alike
SELECTION = 1.01  # of white noise, over that of the blocks that are quietest by chance
# The second band over the finest in brightness and in colours, the less quiet blocks over the quietest, the standard
# deviation: texture looks like correlated noise, which has more, more, no more and no more than these. Our choice, on
# five camera pictures and the training pictures.
COARSER, COARSER_COLOURS, EVEN, MOST = 1.8, 1.8, 1.3, 25 / 255
# The third band over the second, and the kurtosis of the second: texture has more. On the same pictures.
LEVELLING, HEAVY = 2.1, 6.0
# Where both colours rise by more than the first, and the standard deviation is below the second, texture in brightness
# does not hide that there is noise as well: cameras smooth colours most. On crops of the same pictures.
SMOOTHED_COLOURS, FAINT = 2.5, 12 / 255
TEXTURE_RISE, TEXTURE_TAILS = 4.5, 2.5  # q and t; our choice, on the training pictures
SMALLER, NORMAL_SMALLER = 0.75, 0.3684  # share of the coefficients; their mean square, of a standard normal sample
BINS = 6  # classes of brightness
# Variance in the brightest class over that in the darkest, correlation with brightness, median kurtosis of the classes:
# noise that follows brightness has at least, at least and at most these, in either row. On the training pictures.
LINES = ((2.0, 0.9, 5.0), (1.4, 0.97, 3.6))
SHIFTS = tuple(itertools.product((0, BLOCK // 2), repeat=2))  # of the grid of blocks, down and along
MOST_CLIPPED = 0.02  # of a block that counts


class NoiseModel(NamedTuple):
    """Noise of channels (brightness first) on their own scale.

    Parameters
    ----------
    sigma : standard deviation, if it is white.
    bands : (channels, LEVELS) mean square of the coefficients of an orthonormal Haar pyramid, finest first.
    is_white : whether all bands have the same.
    """

    sigma: float
    bands: np.ndarray
    is_white: bool


def noise_model(channels: np.ndarray, clipped: np.ndarray | None = None) -> NoiseModel | None:
    """Of decorrelated channels (channels, h, w); None for a drawing, or if there are too few blocks to say.

    ``clipped`` (h, w) is true at pixels that show a limit of the scale.
    """
    energies, kurtoses = np.stack([_bands(channel) for channel in channels], axis=1)  # each (channels, levels, blocks)
    usable = energies[0, 0] > 1e-12  # not a flat frame
    if clipped is not None:
        usable &= _blocks(clipped.astype(np.float32)) < MOST_CLIPPED
    if usable.sum() < FEWEST or np.median(_blocks(_is_flat(channels[0]))[usable]) > FLAT:
        return None
    energies, kurtoses = energies[..., usable], kurtoses[..., usable]
    order = np.argsort(np.mean(energies[0, :3] / np.median(energies[0, :3], axis=1, keepdims=True), axis=0))
    quiet, more = (order[: max(round(share * len(order)), FEWEST)] for share in (QUIET, LESS_QUIET))
    found, tails = energies[..., quiet].mean(axis=-1), kurtoses[..., quiet].mean(axis=-1)
    rises = found[:, 1:] / found[:, :-1]
    is_even = total(energies[0][:, more].mean(axis=-1)) < min(EVEN**2 * total(found[0]), MOST**2)
    is_levelling = rises[0, 1] < LEVELLING**2 and tails[0, 1] < HEAVY
    is_coarse = rises[0, 0] > COARSER**2 and np.all(rises[1:, 0] > COARSER_COLOURS**2)
    is_faint = len(channels) > 1 and np.all(rises[1:, 0] > SMOOTHED_COLOURS**2) and total(found[0]) < FAINT**2
    # Differences of colours have less texture than brightness: the smallest is noise alone, if any is.
    least = channels[int(np.argmin(found[:, 0]))]
    variance = _noise_energy(_cut_out(least, np.flatnonzero(usable)[quiet]))
    return NoiseModel(SELECTION * variance**0.5, found, not (is_coarse and is_even and (is_levelling or is_faint)))


def noise_share(rise: float, tails: float) -> float:
    """w, the share of noise in the energy of the finest band.

    Parameters
    ----------
    rise : energy of the next band over that of the finest: 1 for noise.
    tails : energy of all coefficients of the finest band over that of the smaller ones: 1 for noise.
    """
    by_rise = 1 - (rise - 1) / (TEXTURE_RISE - 1)
    by_tails = 1 - np.sqrt(max(tails - 1, 0) / (TEXTURE_TAILS - 1))
    return float(np.clip(max(by_rise, by_tails), 0, 1))


def _noise_energy(blocks: np.ndarray) -> float:
    """w e of blocks (count, BLOCK, BLOCK)."""
    fine, coarse = (np.sort(details**2, axis=None) for details in itertools.islice(_details(blocks), 2))
    energy, above = (squares[: int(SMALLER * squares.size)].mean() / NORMAL_SMALLER for squares in (fine, coarse))
    return float(noise_share(above / energy, fine.mean() / energy) * energy) if energy > 0 else 0.0


def total(bands: np.ndarray) -> float:
    """Variance of a pixel from the mean squares of the bands: each level has 3/4 of the coefficients that are left."""
    weights = 0.75 * 0.25 ** np.arange(len(bands))
    return float(weights @ bands + 0.25 ** len(bands) * bands[-1])


def _bands(channel: np.ndarray) -> np.ndarray:
    """(2, LEVELS, blocks) mean squares and kurtoses, of blocks at four shifts of the grid."""
    found = []
    for top, left in SHIFTS:
        levels = []
        for level, details in enumerate(_details(_cut(channel[top:, left:])), 1):
            squares = details**2
            first, second = (_means(each.mean(axis=0), BLOCK >> level) for each in (squares, squares**2))
            levels.append((first, second / np.maximum(first**2, 1e-30)))
        found.append(np.swapaxes(levels, 0, 1))
    return np.concatenate(found, axis=-1)


def _details(image: np.ndarray) -> Iterator[np.ndarray]:
    """(3, ..., h, w) coefficients of each band of images (..., h, w), the finest first."""
    for _ in range(LEVELS):
        a, b = image[..., ::2, ::2], image[..., ::2, 1::2]
        c, d = image[..., 1::2, ::2], image[..., 1::2, 1::2]
        yield np.stack([a - b + c - d, a + b - c - d, a - b - c + d]) / 2
        image = (a + b + c + d) / 2


def _is_flat(channel: np.ndarray) -> np.ndarray:
    """1 where a pixel has the value of the next one below and of the next one to the right, 0 elsewhere."""
    below, right = np.diff(channel, axis=0, append=channel[-1:]), np.diff(channel, axis=1, append=channel[:, -1:])
    return ((below == 0) & (right == 0)).astype(np.float32)


def _blocks(image: np.ndarray) -> np.ndarray:
    """The same blocks' means."""
    return np.concatenate([_means(_cut(image[top:, left:]), BLOCK) for top, left in SHIFTS])


def _cut_out(image: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The blocks (count, BLOCK, BLOCK) of these numbers, in the order of ``_blocks``."""
    places = [
        (row, column)
        for top, left in SHIFTS
        for row in range(top, image.shape[0] - BLOCK + 1, BLOCK)
        for column in range(left, image.shape[1] - BLOCK + 1, BLOCK)
    ]
    return np.stack([image[row : row + BLOCK, column : column + BLOCK] for row, column in (places[i] for i in numbers)])


def _cut(image: np.ndarray) -> np.ndarray:
    height, width = (size // BLOCK * BLOCK for size in image.shape)
    return image[:height, :width]


def _means(image: np.ndarray, side: int) -> np.ndarray:
    height, width = (size // side for size in image.shape)
    return np.mean(image.reshape(height, side, width, side), axis=(1, 3)).ravel()


def variance_line(channels: np.ndarray, clipped: np.ndarray) -> tuple[float, float] | None:
    """(a, b) with noise of variance a x + b at brightness x, where it follows brightness; None where it does not.

    Fitted to the quietest blocks of each class of brightness, in the last channel, where texture is least.
    """
    means, (energies, kurtoses) = _blocks(channels[0]), _bands(channels[-1])[:, 0]
    usable = (energies > 1e-12) & (_blocks(clipped.astype(np.float32)) < MOST_CLIPPED)
    means, energies, kurtoses = means[usable], energies[usable], kurtoses[usable]
    if len(means) < BINS * FEWEST:
        return None
    bins = np.array_split(np.argsort(means), BINS)
    points = []
    for members in bins:
        quiet = members[np.argsort(energies[members])[: max(len(members) // 8, 3)]]
        points.append((means[quiet].mean(), energies[quiet].mean(), kurtoses[quiet].mean()))
    x, v, tails = np.transpose(points)
    slope, offset = np.polyfit(x, v, 1, w=1 / v)
    ends = slope * np.array([x[0], x[-1]]) + offset
    ratio, correlation = ends[1] / max(ends[0], 1e-12), np.corrcoef(x, v)[0, 1]
    is_line = any(
        ratio >= least and correlation >= close and np.median(tails) <= heavy for least, close, heavy in LINES
    )
    if slope <= 0 or not is_line:
        return None
    return float(slope), float(offset)
