"""Non-local estimates: what the same texture elsewhere in the picture says about a pixel.

A patch y of n pixels is stacked with the k patches around it that are most like it, Y (k, n), and each patch is
replaced by a linear combination T Y of them. For patches X with uncorrelated noise of variance s^2 the combination of
least expected square error (Herbreteau and Kervrann 2022, "Towards a unified view of unsupervised non-local methods
for image denoising: the NL-Ridge approach") is

    T = X X' (X X' + n s^2 I)^{-1}.

The first pass puts in Y Y' - n s^2 I for the unknown X X', later passes the patches of an image denoised before, which
also says which patches are alike. Patches overlap; a pixel is the mean of all estimates of it, weighted by the inverse
of the variance of the noise that T leaves. The noise may be correlated inside a patch: only n s^2, its energy, counts.

T takes every group towards 0 by the share s^2 / k of its mean square. That is little for brightness, but half and more
for a difference of colours at high noise. So groups of all channels but the first are centred: their mean, whose noise
is s / (k n)^(1/2), is taken off before and put back after.
"""

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from ..progress import Progress, part_of, unheard

WINDOW = 37  # pixels on a side of the area where like patches are looked for
STRIDE = 4  # pixels between the patches that are matched
BLOCK = 4  # so many patches each way share one area
BLOCKS = 16  # worked on at a time
FLOOR = 1e-3  # of n s^2, added to Y Y': equal patches, as of clipped areas, can't be told apart
PRECISE = 1e-7  # n s^2 over the energy of a group's patches, below which single precision does not see the noise
FIRST = ((20, 7), (40, 9), (np.inf, 11))  # noise on the 0..255 scale up to which patches of the first pass have a side
FIRST_COUNT, SIDE, COUNT = 18, 7, 64  # patches in a group of the first pass; side and count in the others
CHEAPER = 0.2  # of the time of all three passes goes to the first
MIXED = 0.5  # of the second estimate in the guide of the third; the rest is of the first, which keeps more detail

# Programs of XLA that call LAPACK wait for each other for ever, if two threads run them on two cores.
ONE_AT_A_TIME = threading.Lock()

# (groups, patch, pixel) of observed and guide, n s^2 of all groups or of each (groups, 1, 1)
# -> how much of each patch makes each, (groups, patch, patch)
Combine = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def nonlocal_estimate(observed: np.ndarray, noise) -> np.ndarray:
    """An image without most of its white noise, by three passes over groups of like patches.

    Parameters
    ----------
    observed : (channels, h, w). One grouping, by the first channel, serves all: colours come decorrelated.
    noise : standard deviation in the unit of ``observed``, one number or one for each channel.

    Returns
    -------
    The estimate of the same shape, float32.
    """
    return nonlocal_passes(observed, noise)[-1]


def nonlocal_passes(
    observed: np.ndarray, noise, progress: Progress = unheard
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The estimates after each of the three passes; ``progress`` is called with the share that is done."""
    observed = np.asarray(observed, np.float32)
    noise = np.broadcast_to(np.asarray(noise, np.float32), len(observed))
    if not (noise > 0).any():
        return observed, observed, observed
    height, width = observed.shape[1:]
    wide = [(0, max(FIRST[-1][1] + 1 - size, 0)) for size in (height, width)]
    padded = np.pad(observed, ((0, 0), *wide), mode="symmetric")
    side = next(side for limit, side in FIRST if 255 * noise[0] <= limit)
    first, second, third = three_passes(padded, noise, (side, FIRST_COUNT, from_noisy), progress)
    return first[:, :height, :width], second[:, :height, :width], third[:, :height, :width]


def three_passes(
    observed: np.ndarray, noise: np.ndarray, first_pass: tuple[int, int, Combine], progress: Progress = unheard
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of a picture no smaller than a patch; ``first_pass`` has side and number of patches, and what combines
    them."""
    parts = [part_of(progress, *ends) for ends in itertools.pairwise((0, CHEAPER, (1 + CHEAPER) / 2, 1))]
    first = one_pass(observed, observed, noise, *first_pass, progress=parts[0])
    second = one_pass(observed, first, noise, SIDE, COUNT, from_guide, progress=parts[1])
    guide = (1 - MIXED) * first + MIXED * second
    return first, second, one_pass(observed, guide, noise, SIDE, COUNT, from_guide, progress=parts[2])


def from_noisy(noisy: np.ndarray, _: np.ndarray, energy: np.ndarray) -> np.ndarray:
    """T = I - n s^2 (Y Y')^{-1}, in double precision: of equal patches Y Y' is singular but for FLOOR."""
    noisy = noisy.astype(np.float64)
    products = noisy @ noisy.swapaxes(1, 2)
    diagonal = np.arange(products.shape[1])
    products[:, diagonal, diagonal] += FLOOR * np.reshape(energy, (-1, 1))
    combination = -energy * np.linalg.inv(products)
    combination[:, diagonal, diagonal] += 1
    return combination.astype(np.float32)


def from_guide(_: np.ndarray, guide: np.ndarray, energy: np.ndarray) -> np.ndarray:
    """T = X X' (X X' + n s^2 I_k)^{-1} = X (X'X + n s^2 I_n)^{-1} X', the smaller matrix solved."""
    if np.min(energy) < PRECISE * np.einsum("gpn,gpn->g", guide, guide).max():
        guide = guide.astype(np.float64)
    turned = guide.swapaxes(1, 2)
    _, count, size = guide.shape
    small = turned @ guide if size <= count else guide @ turned
    noisy = small.copy()
    diagonal = np.arange(min(size, count))
    noisy[:, diagonal, diagonal] += np.reshape(energy, (-1, 1))
    if size > count:
        return np.linalg.solve(noisy, small).swapaxes(1, 2).astype(np.float32)
    if guide.dtype == np.float64:
        return (guide @ np.linalg.solve(noisy, turned)).astype(np.float32)
    half = _half(noisy, guide)
    return half @ half.swapaxes(1, 2)


def _half(matrices: np.ndarray, patches: np.ndarray) -> np.ndarray:
    """X L^{-T} of X and M = L L'. XLA's solution takes a third of the time of ``numpy.linalg.solve``."""
    groups = len(matrices)
    spare = ((0, BLOCKS * BLOCK**2 - groups), (0, 0), (0, 0))  # one program serves all
    filled = np.pad(matrices, spare)
    filled[groups:] = np.eye(matrices.shape[1])
    patches = np.pad(patches, spare)
    with ONE_AT_A_TIME:
        return np.asarray(_whitened(filled, patches))[:groups]


@jax.jit
def _whitened(matrices, patches):
    factors = jax.lax.linalg.cholesky(matrices, symmetrize_input=False)
    return jax.lax.linalg.triangular_solve(factors, patches, left_side=False, lower=True, transpose_a=True)


class Places(NamedTuple):
    """Where the patches of an image start: all of them, numbered along rows, and those that are matched."""

    height: int
    width: int
    rows: np.ndarray
    columns: np.ndarray

    @classmethod
    def of(cls, shape: tuple[int, int], side: int, stride: int) -> "Places":
        height, width = (size - side + 1 for size in shape)
        return cls(height, width, _every(stride, height), _every(stride, width))

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for top in range(0, len(self.rows), BLOCK):
            for left in range(0, len(self.columns), BLOCK):
                yield self.rows[top : top + BLOCK], self.columns[left : left + BLOCK]

    def area(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The patches around those of a block, as many for every block."""
        starts = []
        for near, every, size in ((rows, self.rows, self.height), (columns, self.columns, self.width)):
            extent = min(WINDOW + int(every[min(BLOCK, len(every)) - 1]), size)
            start = int(np.clip((near[0] + near[-1]) // 2 - extent // 2, 0, size - extent))
            starts.append(np.arange(start, start + extent))
        return (starts[0][:, None] * self.width + starts[1]).ravel()


def _every(stride: int, size: int) -> np.ndarray:
    return np.unique(np.append(np.arange(0, size, stride), size - 1))


# The threads below are all there are: those of the BLAS would wait for each other, at four times the cost.
@threadpool_limits.wrap(limits=1, user_api="blas")
def one_pass(
    observed,
    guide,
    noise,
    side: int,
    count: int,
    combine: Combine,
    *,
    stride: int = STRIDE,
    progress: Progress = unheard,
) -> np.ndarray:
    """Every patch combined with those that are like it in the first channel of ``guide``, and all put together.

    ``noise`` is the standard deviation of each channel, (channels,), or of each pixel, (channels, h, w).
    """
    places = Places.of(observed.shape[1:], side, stride)
    energies = np.asarray(side**2 * np.square(noise), np.float32)
    if noise.ndim > 1:  # of the patch around which a group is built
        energies = np.stack([_patches(each, side).mean(axis=1) for each in energies])
    noisy = [_patches(channel, side) for channel in observed]
    guides = noisy if guide is observed else [_patches(channel, side) for channel in guide]
    squares = np.einsum("pn,pn->p", guides[0], guides[0])
    count = min(count, len(places.area(places.rows[:1], places.columns[:1])))

    def groups(block) -> tuple[np.ndarray, np.ndarray]:
        rows, columns = block
        own, area = (rows[:, None] * places.width + columns).ravel(), places.area(rows, columns)
        distances = squares[area] - 2 * (guides[0][own] @ guides[0][area].T)
        distances[np.arange(len(own)), np.searchsorted(area, own)] = -np.inf  # a patch is its own first likeness
        return own, area[np.argpartition(distances, count - 1, axis=1)[:, :count]]

    def work(blocks) -> tuple[slice, list[tuple[np.ndarray, np.ndarray]]]:
        own, group = (np.concatenate(parts) for parts in zip(*map(groups, blocks), strict=True))
        reach = slice(int(group.min()), int(group.max()) + 1)
        flat = group.ravel() - reach.start
        sums = []
        for channel, energy in enumerate(energies):
            y, x = noisy[channel][group], guides[channel][group]
            mean = np.mean(y, axis=(1, 2), keepdims=True) if channel else np.float32(0)
            if channel:
                y, x = y - mean, x - np.mean(x, axis=(1, 2), keepdims=True)
            combination = combine(y, x, energy[own, None, None] if energy.ndim else energy)
            weights = 1 / np.clip(np.sum(combination**2, axis=2), 1 / count, 1).ravel()
            estimates = (combination @ y + mean).reshape(-1, side**2)
            gather = csr_matrix((weights, flat, np.arange(flat.size + 1)), shape=(flat.size, reach.stop - reach.start))
            sums.append((gather.T @ estimates, np.bincount(flat, weights, reach.stop - reach.start)))
        return reach, sums

    totals = np.zeros((len(observed), places.height * places.width, side**2), np.float32)
    weights = np.zeros(totals.shape[:2], np.float32)
    every = list(places.blocks())
    shares = [every[i : i + BLOCKS] for i in range(0, len(every), BLOCKS)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # numpy's products and solutions leave Python's lock
        for done, (reach, sums) in enumerate(pool.map(work, shares), 1):
            for channel, (total, weight) in enumerate(sums):
                totals[channel, reach] += total
                weights[channel, reach] += weight
            progress(done / len(shares))
    return _overlaid(totals, weights, places, side)


def _patches(channel: np.ndarray, side: int) -> np.ndarray:
    """(places, pixels)"""
    windows = sliding_window_view(channel, (side, side))
    return np.ascontiguousarray(windows.reshape(-1, side**2))


def _overlaid(totals: np.ndarray, weights: np.ndarray, places: Places, side: int) -> np.ndarray:
    """The weighted mean, at every pixel, of the patches that cover it."""
    channels, height, width = len(totals), places.height, places.width
    totals = totals.reshape(channels, height, width, side, side)
    weights = weights.reshape(channels, height, width)
    # Columns first, for each row of a patch apart: the large array is read ``side`` times, not ``side``^2.
    along = np.zeros((channels, side, height, width + side - 1), np.float32)
    covered_along = np.zeros((channels, height, width + side - 1), np.float32)
    for column in range(side):
        part = np.s_[..., column : column + width]
        along[part] += np.moveaxis(totals[..., column], 3, 1)
        covered_along[part] += weights
    image, covered = np.zeros((2, channels, height + side - 1, width + side - 1), np.float32)
    for row in range(side):
        image[:, row : row + height] += along[:, row]
        covered[:, row : row + height] += covered_along
    return image / covered
