"""Where an equation holds: boxes, balls, their unions and differences, and clouds of points.

A domain draws points inside and on its boundary, and says which points it contains.
"""

import dataclasses
from typing import ClassVar, Protocol

import numpy as np


class Domain(Protocol):
    """What a problem needs of a domain. ``bounds`` are the corners of a box around it."""

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]: ...
    def contains(self, points: np.ndarray) -> np.ndarray: ...
    def inside(self, random: np.random.Generator, num_points: int) -> np.ndarray: ...
    def boundary(self, random: np.random.Generator, num_points: int) -> np.ndarray: ...


@dataclasses.dataclass(frozen=True)
class Box:
    """low_j <= x_j <= high_j, in any number of dimensions; an interval in one.

    Parameters
    ----------
    low, high : sequences of float
        One number for each dimension.
    periodic : sequence of int
        Axes along which u repeats itself: there are no conditions at these ends, as waves of this period meet them.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    periodic: tuple[int, ...] = ()

    def __post_init__(self):
        if np.ndim(self.low) != 1 or np.shape(self.low) != np.shape(self.high) or not len(self.low):
            raise ValueError(f"a box needs as many lower as upper ends; got {self.low!r} and {self.high!r}")
        if not (np.isfinite([*self.low, *self.high]).all() and np.all(np.less(self.low, self.high))):
            raise ValueError(f"a box must have every lower end below its upper end; got {self.low!r} and {self.high!r}")
        if not set(self.periodic) < set(range(len(self.low))):
            raise ValueError(
                f"periodic must be axes from 0 to {len(self.low) - 1}, not all of them; got {self.periodic!r}"
            )

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.low, float), np.array(self.high, float)

    def contains(self, points: np.ndarray) -> np.ndarray:
        low, high = self.bounds
        return np.all((points >= low) & (points <= high), axis=1)

    def inside(self, random, num_points: int) -> np.ndarray:
        low, high = self.bounds
        return low + (high - low) * _spread(random, num_points, len(low))

    def boundary(self, random, num_points: int) -> np.ndarray:
        """Equally many points on every side that is not periodic; both ends of an interval."""
        low, high = self.bounds
        open_axes = [axis for axis in range(len(low)) if axis not in self.periodic]
        sides = [(axis, end) for axis in open_axes for end in (low[axis], high[axis])]
        parts = []
        for number, (axis, end) in enumerate(sides):
            count = (num_points + number) // len(sides) or 1
            part = self.inside(random, count)
            part[:, axis] = end
            parts.append(part)
        return np.concatenate(parts)


class _ByRejection:
    """Points inside are drawn in the box around it; those that it does not contain are left out."""

    def inside(self: Domain, random, num_points: int) -> np.ndarray:
        low, high = self.bounds

        def draw(random, count):
            points = low + (high - low) * _spread(random, count, len(low))
            return points[self.contains(points)]

        return _collected(draw, random, num_points, self)


@dataclasses.dataclass(frozen=True)
class Ball(_ByRejection):
    """|x - centre| <= radius; a disc in two dimensions.

    Parameters
    ----------
    centre : sequence of float
        Two numbers or more.
    radius : float
    """

    centre: tuple[float, ...]
    radius: float

    def __post_init__(self):
        if not (len(self.centre) >= 2 and np.isfinite(self.centre).all() and 0 < self.radius < np.inf):
            raise ValueError(f"a ball needs a centre of two numbers or more and a positive radius; got {self!r}")

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.centre) - self.radius, np.array(self.centre) + self.radius

    def contains(self, points: np.ndarray) -> np.ndarray:
        return np.linalg.norm(points - np.array(self.centre), axis=1) <= self.radius * (1 + 1e-12)

    def boundary(self, random, num_points: int) -> np.ndarray:
        directions = random.normal(size=(num_points, len(self.centre)))
        return np.array(self.centre) + self.radius * directions / np.linalg.norm(directions, axis=1, keepdims=True)


@dataclasses.dataclass(frozen=True)
class _Pair(_ByRejection):
    """What is made of two domains. Its boundary is what is left of both boundaries."""

    first: Domain
    second: Domain
    keeps_inner: ClassVar[bool]  # of the second's boundary, what lies inside the first; or outside of it

    def __post_init__(self):
        dimensions = len(self.first.bounds[0]), len(self.second.bounds[0])
        if dimensions[0] != dimensions[1]:
            raise ValueError(f"both domains must have as many dimensions; got {dimensions[0]} and {dimensions[1]}")

    def boundary(self, random, num_points: int) -> np.ndarray:
        def edges(random, count):
            one, other = self.first.boundary(random, count), self.second.boundary(random, count)
            kept = self.first.contains(other) == self.keeps_inner
            return np.concatenate([one[~self.second.contains(one)], other[kept]])

        return _collected(edges, random, num_points, self)


class Union(_Pair):
    """Points of either domain.

    Parameters
    ----------
    first, second : Domain
    """

    keeps_inner = False

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        (low, high), (other_low, other_high) = self.first.bounds, self.second.bounds
        return np.minimum(low, other_low), np.maximum(high, other_high)

    def contains(self, points: np.ndarray) -> np.ndarray:
        return self.first.contains(points) | self.second.contains(points)


class Difference(_Pair):
    """Points of the first domain that are not in the second.

    Parameters
    ----------
    first, second : Domain
    """

    keeps_inner = True

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return self.first.bounds

    def contains(self, points: np.ndarray) -> np.ndarray:
        return self.first.contains(points) & ~self.second.contains(points)


@dataclasses.dataclass(frozen=True)
class PointCloud:
    """Points inside, and points on the boundary, as they are given.

    Parameters
    ----------
    points : array (N, d)
        At least 40 different ones for each unknown, those of the edge among them.
    edge : array (M, d)
        Where conditions hold.
    """

    points: np.ndarray
    edge: np.ndarray

    def __post_init__(self):
        points, edge = np.asarray(self.points, float), np.asarray(self.edge, float)
        if points.ndim != 2 or edge.ndim != 2 or points.shape[1] != edge.shape[1] or not len(points):
            raise ValueError(f"points and edge must have shapes (N, d), (M, d); got {points.shape}, {edge.shape}")
        if not (np.isfinite(points).all() and np.isfinite(edge).all()):
            raise ValueError("a cloud of points must be finite; got NaN or infinity")
        spread = (points - points.mean(axis=0)) / (np.ptp(points, axis=0).max() or 1.0)
        if np.linalg.matrix_rank(spread, tol=1e-9 * np.sqrt(len(points))) < points.shape[1]:
            raise ValueError(
                f"a cloud of points must vary along all {points.shape[1]} axes; these lie on a line or plane"
            )
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "edge", edge)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        every = np.concatenate([self.points, self.edge])
        return every.min(axis=0), every.max(axis=0)

    def contains(self, points: np.ndarray) -> np.ndarray:
        low, high = self.bounds
        return np.all((points >= low) & (points <= high), axis=1)

    def inside(self, random, num_points: int) -> np.ndarray:
        return self.points[random.permutation(len(self.points))[:num_points]]

    def boundary(self, random, num_points: int) -> np.ndarray:
        return self.edge[random.permutation(len(self.edge))[:num_points]]


def _spread(random, num_points: int, num_dimensions: int) -> np.ndarray:
    """Points of the unit box without large gaps: an additive sequence by powers of the generalised golden ratio."""
    ratio = 2.0
    for _ in range(40):
        ratio = (1 + ratio) ** (1 / (num_dimensions + 1))
    steps = ratio ** -np.arange(1, num_dimensions + 1)
    return (random.random(num_dimensions) + np.arange(1, num_points + 1)[:, None] * steps) % 1


def _collected(draw, random, num_points: int, domain: Domain) -> np.ndarray:
    points, count = draw(random, 2 * num_points), 2 * num_points
    while len(points) < num_points:
        count *= 4
        if count > 4000 * num_points + 100_000:
            raise ValueError(f"the domain must have a positive measure; almost no points were found in {domain!r}")
        points = draw(random, count)
    return points[random.permutation(len(points))[:num_points]]
