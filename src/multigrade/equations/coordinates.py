"""Coordinates that are fine where u is steep, and how they are found.

    z = [x, asinh((x_j - c_k) / delta_k) for every layer k],   s_j = sum of asinh over the layers across axis j, or x_j.

The waves of a problem with layers run over s instead of x. A layer of width delta, such as tanh((x - c) / delta), is as
smooth in s as a function without one is in x, so that as few waves do (the sinh map of spectral methods).
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from ..networks import Layer

STEEP = 0.12  # a layer is thinner than this part of the domain
LOCAL = 10.0  # and is found within this many of its widths, wherever it is looked for
NUM_CELLS = 400  # along an axis, in which slopes are looked at


@dataclasses.dataclass(frozen=True)
class SteepLayer:
    """u varies within ``width`` around x_axis = ``centre``."""

    axis: int
    centre: float
    width: float


@dataclasses.dataclass(frozen=True)
class Coordinates:
    """s(x) of a box with these layers; x itself without any."""

    low: np.ndarray
    high: np.ndarray
    layers: tuple[SteepLayer, ...] = ()

    @property
    def first_layer(self) -> Layer:
        """V, v of z = [x, asinh(x V + v)]."""
        weight, bias = np.zeros((len(self.low), len(self.layers))), np.zeros(len(self.layers))
        for number, layer in enumerate(self.layers):
            weight[layer.axis, number] = 1 / layer.width
            bias[number] = -layer.centre / layer.width
        return Layer(weight, bias)

    @property
    def mixing(self) -> np.ndarray:
        """M of s = z M."""
        mixing = np.zeros((len(self.low) + len(self.layers), len(self.low)))
        stretched = {layer.axis for layer in self.layers}
        for axis in range(len(self.low)):
            mixing[axis, axis] = float(axis not in stretched)
        for number, layer in enumerate(self.layers):
            mixing[len(self.low) + number, layer.axis] = 1.0
        return mixing

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """s at points (N, d)."""
        first = self.first_layer
        return np.hstack([points, np.arcsinh(points @ first.weight + first.bias)]) @ self.mixing

    def fineness(self, points: np.ndarray) -> np.ndarray:
        """The product of ds_j / dx_j over the axes with layers, (N,)."""
        first = self.first_layer
        slopes = np.abs(first.weight).sum(axis=0) / np.sqrt(1 + (points @ first.weight + first.bias) ** 2)
        along = slopes @ self.mixing[len(self.low) :] + np.diag(self.mixing)
        return np.prod(along, axis=1)

    def inverse(self, s: np.ndarray) -> np.ndarray:
        """The points with these s, by bisection."""
        low, high = np.broadcast_to(self.low, s.shape).copy(), np.broadcast_to(self.high, s.shape).copy()
        for _ in range(60):
            middle = (low + high) / 2
            is_below = self(middle) < s
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        return (low + high) / 2


def steep_layers(steepness: Callable[[np.ndarray], np.ndarray], before: Coordinates, random) -> list[SteepLayer]:
    """Where u is steep in one place: for each axis, the peaks of its slope, if they are thin and stay where they are.

    ``steepness`` gives |du/dx_j| relative to the range of u at points: (N, d). It is looked at as finely as the
    coordinates ``before`` are.
    """
    corners = before(np.stack([before.low, before.high]))
    low, lengths = corners[0], corners[1] - corners[0]
    unit = random.random((20 * NUM_CELLS, len(low)))
    found, steep = [], steepness(before.inverse(low + lengths * unit))
    for axis in range(len(low)):
        profile = np.zeros(NUM_CELLS)
        np.maximum.at(profile, (unit[:, axis] * NUM_CELLS).astype(int), steep[:, axis])
        middles = np.tile(low, (NUM_CELLS, 1))
        middles[:, axis] += lengths[axis] * (np.arange(NUM_CELLS) + 0.5) / NUM_CELLS
        found += _peaks(axis, profile, before.inverse(middles)[:, axis])
    return found


def _peaks(axis: int, profile: np.ndarray, x: np.ndarray) -> list[SteepLayer]:
    """A layer at each of at most two peaks of the largest slope over x, if hardly any of the axis is as steep."""
    layers, profile, cells = [], profile.copy(), np.gradient(x)
    for _ in range(2):
        peak = int(np.argmax(profile))
        width = 1 / (2 * profile[peak]) if profile[peak] else np.inf
        if width > STEEP * np.ptp(x) or cells[profile > 0.5 * profile[peak]].sum() > LOCAL * width:
            break
        layers.append(SteepLayer(axis, float(x[peak]), float(width)))
        profile[np.abs(x - x[peak]) < LOCAL * width] = 0.0
    return layers
