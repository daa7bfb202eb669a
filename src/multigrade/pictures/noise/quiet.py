"""White noise, and noise of a variance that follows brightness, from the quietest blocks of a picture.

The picture is cut into blocks, and each block into the bands of a Haar pyramid. In the quietest blocks there is little
but noise. Blocks with clipped pixels do not count.

Where a picture has texture everywhere, its quietest blocks have texture, too. Texture differs from noise in two ways:
its coefficients have heavy tails, and its energy rises from band to band. So the energy e of the finest band is that of
the smaller three quarters of its coefficients. If noise has the share w of it, the energy of the next band is
(w + (1 - w) q) e, and that of all coefficients about (1 + (1 - w)^2 (t - 1)) e, with q and t those of texture alone.
Each of the two gives a w, and the larger one counts: a level that is 15 % too low costs two decibels, one that is 15 %
too high a tenth of one.
"""

import itertools
from collections.abc import Iterator

import numpy as np

LEVELS, BLOCK = 4, 32  # of the pyramid; pixels on a side of a block, twice 2^LEVELS
QUIET = 0.04  # share of the blocks
FEWEST = 8  # blocks to say anything
SELECTION = 1.01  # of white noise, over that of the blocks that are quietest by chance
TEXTURE_RISE, TEXTURE_TAILS = 4.5, 2.5  # q and t; our choice, on the training pictures
SMALLER, NORMAL_SMALLER = 0.75, 0.3684  # share of the coefficients; their mean square, of a standard normal sample
BINS = 6  # classes of brightness
# Variance in the brightest class over that in the darkest, correlation with brightness, median kurtosis of the classes:
# noise that follows brightness has at least, at least and at most these, in either row. On the training pictures.
LINES = ((2.0, 0.9, 5.0), (1.4, 0.97, 3.6))
SHIFTS = tuple(itertools.product((0, BLOCK // 2), repeat=2))  # of the grid of blocks, down and along
MOST_CLIPPED = 0.02  # of a block that counts


def white_level(channels: np.ndarray, clipped: np.ndarray) -> float | None:
    """Standard deviation of white noise in decorrelated channels (channels, h, w), on their own scale; None if there
    are too few blocks to say.

    ``clipped`` (h, w) is true at pixels that show a limit of the scale.
    """
    energies = np.stack([_bands(channel)[0] for channel in channels])  # (channels, levels, blocks)
    usable = (energies[0, 0] > 1e-12) & (_blocks(clipped.astype(np.float32)) < MOST_CLIPPED)  # not a flat frame
    if usable.sum() < FEWEST:
        return None
    energies = energies[..., usable]
    order = np.argsort(np.mean(energies[0, :3] / np.median(energies[0, :3], axis=1, keepdims=True), axis=0))
    quiet = order[: max(round(QUIET * len(order)), FEWEST)]
    # Differences of colours have less texture than brightness: the smallest is noise alone, if any is.
    least = channels[int(np.argmin(energies[:, 0][:, quiet].mean(axis=-1)))]
    return SELECTION * _noise_energy(_cut_out(least, np.flatnonzero(usable)[quiet])) ** 0.5


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
