"""The noise that a camera leaves in a photo, from the photo alone: how much by brightness, by channel and by scale.

Light comes in quanta, and demosaicking, smoothing, gamma and JPEG follow. So the variance depends on brightness and
the noise is correlated; JPEG rounds faint noise away where a picture is flat and lets it pass where it is not.

The picture is cut as JPEG cuts it, into blocks of 8 x 8 pixels, and their cosine transforms into bands: frequencies 4
to 7, 2 and 3, 1, and what differs between neighbouring blocks. A window has 2 x 2 blocks, and windows are put into
classes by brightness. In each class the quiet windows are sought by one half of their blocks, those on one diagonal,
and measured by the other. Noise is independent in the two halves, texture is not: a half that was not looked at is as
quiet as the one that was looked at in the one case alone.

What these numbers say of the noise was learned from simulated cameras (``benchmarks/train_noise.py``), by two models of
multigrade: one for the energies of the noise in each band, one for the odds that there is any. Clipped windows do not
count: noise shows neither in black nor in white.
"""

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.fft import dctn

from ...model import MultiGrade
from ..colour import decorrelated

SIDE = 8  # of JPEG's blocks
_HIGHER = np.maximum.outer(np.arange(SIDE), np.arange(SIDE))
BANDS = (_HIGHER >= 4, (_HIGHER >= 2) & (_HIGHER < 4), _HIGHER == 1)
NUM_BANDS = len(BANDS) + 1  # and the differences of neighbouring blocks
SHARES = 0.75 * 0.25 ** np.arange(NUM_BANDS) + 0.25**NUM_BANDS * (np.arange(NUM_BANDS) == NUM_BANDS - 1)  # of a pixel
LEAST = np.array(
    [0.05, 0.1, 0.3, 0.6], np.float32
)  # mean squares, on the 0..255 scale, below which bands do not differ
FAINTEST = np.array([0.02, 0.05, 0.2, 0.3], np.float32)  # the same, of features
MOST_CLASSES, WINDOWS = 8, 120  # of brightness; of windows in a class, at least
QUIET = ((0, 0.03), (0.03, 0.1), (0.1, 0.2), (0.2, 0.4))  # shares of the windows of a class, the quietest first
ROUNDED_AWAY = 0.45  # on the 0..255 scale: a coefficient below it was 0 in a JPEG file
MOST_CLIPPED, DARKEST, BRIGHTEST = 0.1, 3, 252  # of a window that counts
NUM_FEATURES = 44
# Odds from which on there is noise, as their logarithm, and how much more photos have than simulations say: chosen on
# sixteen pairs (``benchmarks/photos.py --part first``), judged on nine of other cameras.
LEAST_ODDS, MORE = -0.65, 1.2


class CameraNoise(NamedTuple):
    """Noise of decorrelated channels, brightness first, on the unit scale.

    Parameters
    ----------
    odds : logarithm of the odds that there is noise at all.
    brightness : (classes,), rising.
    energies : (channels, bands, classes) mean square of the coefficients of an orthonormal transform, finest first.
    sigma : standard deviation of a pixel, of all channels together.
    """

    odds: float
    brightness: np.ndarray
    energies: np.ndarray
    sigma: float

    @property
    def is_there(self) -> bool:
        """Whether there is noise, by these odds."""
        return self.odds > LEAST_ODDS

    @property
    def is_white(self) -> bool:
        """Whether each channel has about as much in the finest band as in the next one."""
        fine, coarse = self.energies[:, 0].mean(axis=-1), self.energies[:, 1].mean(axis=-1)
        return bool(np.all(coarse < 2 * fine))

    def variances(self, brightness: np.ndarray, finest: int, coarsest: int) -> np.ndarray:
        """(channels, h, w): variance of a pixel that these bands make, where the picture is so bright (h, w)."""
        shares = np.where(np.arange(NUM_BANDS) < coarsest, SHARES, 0)[finest:]
        by_class = np.tensordot(self.energies[:, finest:], shares, axes=(1, 0))
        return np.stack([np.interp(brightness, self.brightness, each) for each in by_class])


def camera_noise(observed: np.ndarray) -> CameraNoise | None:
    """Of a picture (channels, h, w) on the unit scale, grey or colour; None if there is too little to say."""
    if len(classes := brightness_classes(observed)) == 0:
        return None
    level, evidence = models()
    features, brightness, counts = (np.stack(part) for part in zip(*classes, strict=True))
    energies = np.maximum(np.exp(np.asarray(level(features))) - np.tile(LEAST, 2), 0).reshape(-1, 2, NUM_BANDS)
    # Logarithms of odds by class; one class that shows noise is evidence, many that hide it are none.
    odds = float(np.log(np.mean(np.exp(np.clip(np.asarray(evidence(features)), -15, 15)))))
    kinds = [0] if len(observed) == 1 else [0, 1, 1]  # brightness, and the differences of colours
    found = len(observed) * energies[:, kinds].transpose(1, 2, 0) * (MORE / 255) ** 2
    variance = np.average(np.tensordot(found, SHARES, axes=(1, 0)).mean(axis=0), weights=counts)
    return CameraNoise(odds, brightness / 255, found, float(np.sqrt(variance)))


@functools.cache
def models() -> tuple[MultiGrade, MultiGrade]:
    """Energies and evidence, as ``benchmarks/train_noise.py`` writes them."""
    here = Path(__file__).parent
    return MultiGrade.load(here / "level.safetensors"), MultiGrade.load(here / "evidence.safetensors")


def brightness_classes(observed: np.ndarray) -> list[tuple[np.ndarray, float, int]]:
    """Of each class: its features, (NUM_FEATURES,), its mean brightness of 255, and how many windows it has."""
    energies, zeros, lowest, means, clipped = _windows(observed)
    usable = np.flatnonzero((clipped < MOST_CLIPPED) & (means > DARKEST) & (means < BRIGHTEST))
    if len(usable) < WINDOWS:
        return []
    members = np.array_split(usable[np.argsort(means[usable])], np.clip(len(usable) // WINDOWS, 1, MOST_CLASSES))
    return [
        (_features(energies[..., part], zeros[..., part], lowest[:, part], means[part]), means[part].mean(), len(part))
        for part in members
    ]


def _windows(observed: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of all windows: energies (channels, 3, 2 halves, n) and shares of zeros (3, 2, n) by band, energies of the
    differences of blocks (channels, n), means and shares of clipped pixels (n,)."""
    scaled = decorrelated(observed).astype(np.float32) * 255 / len(observed) ** 0.5
    high, wide = (size // SIDE for size in observed.shape[1:])

    def blocks(image: np.ndarray) -> np.ndarray:
        cut = image[..., : SIDE * high, : SIDE * wide]
        return cut.reshape(*cut.shape[:-2], high, SIDE, wide, SIDE).swapaxes(-3, -2)

    def diagonals(image: np.ndarray) -> tuple[np.ndarray, ...]:
        """The four blocks of all windows, one diagonal first."""
        corners = image[..., :-1, :-1], image[..., 1:, 1:], image[..., :-1, 1:], image[..., 1:, :-1]
        return tuple(each.reshape(*image.shape[:-2], -1) for each in corners)

    def halves(image: np.ndarray) -> np.ndarray:
        a, b, c, d = diagonals(image)
        return np.stack([(a + b) / 2, (c + d) / 2], axis=-2)

    coefficients = np.asarray(dctn(blocks(scaled), axes=(-2, -1), norm="ortho"))
    energies = np.stack([(coefficients[..., band] ** 2).mean(axis=-1) for band in BANDS], axis=1)
    zeros = np.stack([(np.abs(coefficients[0][..., band]) < ROUNDED_AWAY).mean(axis=-1) for band in BANDS])
    a, b, c, d = diagonals(coefficients[..., 0, 0])
    lowest = ((a + c - b - d) ** 2 + (a + d - b - c) ** 2 + (a + b - c - d) ** 2) / 12
    ends = ((observed <= 0) | (observed >= 1)).any(axis=0).astype(np.float32)
    clipped = np.max(diagonals(blocks(ends).mean(axis=(-2, -1))), axis=0)
    means = np.add.reduce(diagonals(coefficients[0, ..., 0, 0])) / (4 * SIDE)
    return halves(energies), halves(zeros), lowest, means, clipped


def _features(energies: np.ndarray, zeros: np.ndarray, lowest: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Logarithms of mean energies in the quiet windows of a class, and what else bears on the noise."""
    count, brightness = energies.shape[-1], energies[0] + FAINTEST[:3, None, None]
    loudness = np.log(brightness[1]) + np.log(brightness[2]) + 0.5 * np.log(brightness[0])
    ranks = np.argsort(loudness, axis=-1, kind="stable")
    held, sought, away, below, colours = ([] for _ in range(5))
    for first, last in QUIET:
        chosen = ranks[:, int(first * count) : max(int(last * count), int(first * count) + 1)]
        held.append(np.mean([brightness[:, 1 - half, own].mean(axis=-1) for half, own in enumerate(chosen)], axis=0))
        sought.append(np.mean([brightness[:, half, own].mean(axis=-1) for half, own in enumerate(chosen)], axis=0))
        away.append(np.mean([zeros[:, 1 - half, own].mean(axis=-1) for half, own in enumerate(chosen)], axis=0))
        below.append(lowest[0][chosen].mean())
        whole = np.concatenate([energies[1:].mean(axis=2), lowest[1:, None]], axis=1)
        colours.append(whole[..., chosen].mean(axis=(0, 2, 3)) if len(whole) else np.zeros(NUM_BANDS))
    is_colour = len(energies) > 1
    mean = means.mean() / 128 - 1
    some, more = 1, 3  # of QUIET
    return np.asarray([
        *np.log(held).ravel(), *np.log(sought).ravel(), *away[0], *away[2],
        *np.log(np.array(below)[[some, more]] + FAINTEST[-1]),
        *(np.log(np.array(colours)[[some, more]] + FAINTEST).ravel() * is_colour),
        mean, mean**2, np.std(means) / 20, is_colour,
    ], np.float32)  # fmt: skip
