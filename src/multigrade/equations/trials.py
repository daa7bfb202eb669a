"""Small grades that are tried out: which coordinates, and how much finer the waves are along one axis."""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from ..sines import lattice
from .coordinates import Coordinates, SteepLayer, steep_layers
from .correction import with_waves
from .derivatives import gradient
from .problem import Problem
from .rows import Basis, Group, draw_groups, norm, residual_of, usual_scales

NUM_WAVES = {1: 40, 2: 120, 3: 200}  # of a trial
WIDER = 3  # times as many in the last comparison
STRETCHES = (0.5, 2.0)  # along one axis
MAX_LOOKS = 10  # for layers, each with the coordinates that the one before has found
NUM_JUDGES = 400  # points
BETTER = 0.7  # of the residual, for a choice to be made
MUCH_BETTER = 0.3  # and for waves that are stretched further than layers ask for
IS_SMOOTH = 1e-4  # a trial whose residual relative to that of u = 0 is below needs no layers
IS_COARSE = 0.01  # and one above resolves too little to be trusted


def choose_coordinates(problem: Problem, basis: Basis, shape: np.ndarray) -> tuple[Coordinates, np.ndarray]:
    """Coordinates that are fine where u is steep, and the stretch of the waves along each axis.

    A small grade is solved, coordinates are made fine where it is steep, and it is solved again, until the layers stay
    as they are. A trial that does not resolve a layer yet can be worse than the one before and still show it better.
    Where the sides of the box have different lengths, waves that are as fine along all of them are tried first: a side
    may be time.
    """
    trial = _Trial(problem, basis, shape)
    if np.ptp(shape) > 0:
        even = _Trial(problem, basis, np.ones(len(shape)))
        trial = even if even.is_better_than(trial, BETTER) else trial
    best = trial
    for _ in range(0 if trial.relative_residual < IS_SMOOTH else MAX_LOOKS):
        layers = steep_layers(trial.steepness, trial.start.coordinates, np.random.default_rng(2))
        choices = [choice for choice in _choices(layers) if not _are_alike(choice, trial.start.coordinates.layers)]
        if len(choices) < max(len(_choices(layers)), 1):
            break
        trials = [_Trial.with_layers(problem, choice) for choice in choices]
        trial = reduce(lambda old, new: new if new.is_better_than(old) else old, trials)
        best = trial if trial.is_better_than(best, BETTER) else best
    # The last trial knows best where the layers are. Small grades that resolve little can mislead; wider ones decide.
    if trial is not best and best.relative_residual > IS_COARSE and trial.wider().is_better_than(best.wider(), BETTER):
        best = trial
    return best.start.coordinates, _stretched(best).shape


def _choices(layers: Sequence[SteepLayer]) -> list[tuple[SteepLayer, ...]]:
    """Each layer alone, and all of them; a coarse trial rings, and shows some that are not there."""
    return [(layer,) for layer in layers] + ([tuple(layers)] if len(layers) > 1 else [])


def _are_alike(layers: Sequence[SteepLayer], others: Sequence[SteepLayer]) -> bool:
    return len(layers) == len(others) and all(
        a.axis == b.axis and 0.7 < a.width / b.width < 1.4 and abs(a.centre - b.centre) < 0.1 * a.width
        for a, b in zip(layers, others, strict=True)
    )


class _Trial:
    """A small grade in these coordinates, with waves of this shape."""

    def __init__(self, problem: Problem, start: Basis, shape: np.ndarray, num_times: int = 1):
        self.problem, self.start, self.shape = problem, start, shape
        waves = lattice(len(shape), num_times * NUM_WAVES.get(len(shape), 200), shape)
        self.solved, _ = with_waves(problem, start, waves, np.random.default_rng(1))
        self.judges = draw_groups(problem, start, np.random.default_rng(3), NUM_JUDGES, NUM_JUDGES)
        self.scales = usual_scales(start, self.judges)

    @staticmethod
    def with_layers(problem: Problem, layers: tuple[SteepLayer, ...]) -> "_Trial":
        """Twice as fine along the axes of the layers."""
        low, high = problem.domain.bounds
        shape = np.ones(len(low))
        shape[[layer.axis for layer in layers]] = 2.0
        return _Trial(problem, Basis.of(problem, Coordinates(low, high, layers)), shape)

    def wider(self) -> "_Trial":
        """The same with more waves, which tell more of these coordinates."""
        return _Trial(self.problem, self.start, self.shape, WIDER)

    @property
    def relative_residual(self) -> float:
        return self._residual(self.solved) / (self._residual(self.start) or 1.0)

    def _residual(self, basis: Basis) -> float:
        return norm(basis, self.judges, self.scales)

    def steepness(self, points: np.ndarray) -> np.ndarray:
        """|du/dx_j| relative to the range of u, the largest over the unknowns."""
        slopes = residual_of(self.solved, Group("slopes", _slopes, points))
        slopes = np.abs(slopes).reshape(len(points), -1, points.shape[1])
        ranges = np.ptp(self.solved.values(points), axis=0)
        return np.max(slopes / np.where(ranges > 0, ranges, np.inf)[:, None], axis=1)

    def is_better_than(self, other: "_Trial", factor: float = 1.0) -> bool:
        """Whether the residual is smaller, by a factor, at the points of both."""
        ours, theirs = (np.hypot(self._residual(t.solved), other._residual(t.solved)) for t in (self, other))
        return bool(ours < factor * theirs)


def _slopes(u, x):
    return gradient(u, x).ravel()


def _stretched(trial: _Trial) -> _Trial:
    """The trial, or one whose waves are finer or coarser along an axis, if that is clearly better.

    Waves across layers are finer already. What more helps a few of them there need not help many.
    """
    dimensions, best = len(trial.shape), trial
    factor = MUCH_BETTER if trial.start.coordinates.layers else BETTER
    shapes = {tuple(trial.shape / trial.shape.max())}
    for axis in range(dimensions if dimensions > 1 else 0):
        for stretch in STRETCHES:
            shape = trial.shape * np.where(np.arange(dimensions) == axis, stretch, 1.0)
            if tuple(shape / shape.max()) not in shapes:
                shapes.add(tuple(shape / shape.max()))
                other = _Trial(trial.problem, trial.start, shape / shape.max())
                best = other if other.is_better_than(best, factor) else best
    return best
