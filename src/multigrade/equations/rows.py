"""u as features times coefficients, and the rows of least squares: everything that must vanish, at points."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify

from ..model import Grade, MultiGrade
from ..networks import Layer
from ..sines import Box as UnitBox
from ..sines import LayerNetwork, SineNetwork, lattice
from .coordinates import Coordinates
from .problem import Problem

POINTS_PER_BLOCK = 512  # at a time, so that memory is bounded
# Points and sines are filled up to a few numbers: the time of a small problem is that of compiling programs.
BLOCK_SIZES = (8, POINTS_PER_BLOCK)
SINE_SIZES = (256, 512, 1024)  # and beyond that multiples of 512
LAYERS_PER_AXIS = 2  # at most, see ``coordinates``
START_WAVES = {1: 60, 2: 150}  # that a function to start from is fitted by
START_PRECISION = 1e-10  # relative to the largest singular value: the start needs no more
POOL = 30  # points of the boundary from which one is drawn, where there are layers


@dataclasses.dataclass(frozen=True)
class Basis:
    """u(x) = [z, sin(z W + b), 1] C, where z(x) are the coordinates; the model holds the grades that are closed."""

    coordinates: Coordinates
    box: UnitBox  # of s
    layer: Layer  # W, b
    coefficients: np.ndarray  # (z + sines + 1, num_unknowns)
    model: MultiGrade
    periodic: tuple[int, ...] = ()  # axes along which all features are

    @staticmethod
    def of(problem: Problem, coordinates: Coordinates | None = None) -> "Basis":
        """u as a problem starts from it; a function is fitted by the first waves of the lattice."""
        is_function = callable(problem.start)
        start = np.zeros(problem.num_unknowns) if problem.start is None or is_function else problem.start
        basis = Basis.constant(coordinates or Coordinates(*problem.domain.bounds), start)  # pyright: ignore
        basis = dataclasses.replace(basis, periodic=getattr(problem.domain, "periodic", ()))
        if not is_function:
            return basis
        dimensions = len(basis.box.low)
        grown = basis.grown(lattice(dimensions, START_WAVES.get(dimensions, 300)))
        points = problem.domain.inside(np.random.default_rng(5), 3 * grown.num_features)
        return grown.fitted(points, problem.start(points)).closed(basis)  # pyright: ignore

    def fitted(self, points: np.ndarray, values) -> "Basis":
        """With the coefficients of a small norm for which u has these values at points."""
        values = np.asarray(values, float).reshape(len(points), -1)
        if values.shape[1] != self.coefficients.shape[1] or not np.isfinite(values).all():
            raise ValueError(
                f"start must give {self.coefficients.shape[1]} finite numbers for each point; got shape {values.shape}"
            )
        coefficients = np.linalg.lstsq(self.features(points), values, rcond=START_PRECISION)[0]
        return dataclasses.replace(self, coefficients=coefficients)

    @staticmethod
    def constant(coordinates: Coordinates, values: Sequence[float] | np.ndarray) -> "Basis":
        """Without waves: the unknowns are constants."""
        ends = coordinates(np.stack([coordinates.low, coordinates.high]))
        num_inputs, num_layers = len(coordinates.low), len(coordinates.layers)
        coefficients = np.zeros((num_inputs + num_layers + 1, len(values)))
        coefficients[-1] = values
        model = MultiGrade()
        if num_layers:
            network = LayerNetwork(num_inputs, num_layers, len(values))
            model = model.add(Grade(network, (coordinates.first_layer,), 1.0))
        empty = Layer(np.empty((num_inputs + num_layers, 0)), np.empty(0))
        return Basis(coordinates, UnitBox(ends[0], ends[1] - ends[0]), empty, coefficients, model)

    @property
    def num_features(self) -> int:
        return len(self.coefficients)

    @property
    def num_waves(self) -> int:
        return len(self.layer.bias) // 2

    def grown(self, frequencies: np.ndarray) -> "Basis":
        """With further waves, given on the unit box of s, whose coefficients are 0."""
        twice = [2.0 if axis in self.periodic else 1.0 for axis in range(len(self.box.low))]
        new = self.box.first_layer(frequencies * twice)  # whole periods, where halves are usual
        new = Layer(self.coordinates.mixing @ new.weight, new.bias)
        layer = Layer(*(np.concatenate([old, more], axis=-1) for old, more in zip(self.layer, new, strict=True)))
        zeros = np.zeros((len(new.bias), self.coefficients.shape[1]))
        coefficients = np.concatenate([self.coefficients[:-1], zeros, self.coefficients[-1:]])
        return dataclasses.replace(self, layer=layer, coefficients=coefficients)

    def moved(self, step: np.ndarray) -> "Basis":
        return dataclasses.replace(self, coefficients=self.coefficients + step)

    def closed(self, before: "Basis") -> "Basis":
        """With the grade that holds what was added to ``before``."""
        num_z, num_old = len(self.layer.weight), len(before.layer.bias)
        added = self.coefficients.copy()
        if num_old:
            added[: num_z + num_old] -= before.coefficients[:-1]
            added[-1] -= before.coefficients[-1]
        network = SineNetwork(num_z, num_old, len(self.layer.bias) - num_old, added.shape[1])
        first = Layer(self.layer.weight[:, num_old:], self.layer.bias[num_old:])
        model = before.model.add(Grade(network, (first, Layer(added[:-1], added[-1])), 1.0))
        return dataclasses.replace(self, model=model)

    def features(self, points: np.ndarray) -> np.ndarray:
        """[z, sin(z W + b), 1] at points."""
        first = self.coordinates.first_layer
        z = np.hstack([points, np.arcsinh(points @ first.weight + first.bias)])
        features = np.column_stack([z, np.sin(z @ self.layer.weight + self.layer.bias), np.ones(len(z))])
        features[:, list(self.periodic)] = 0  # the coordinate itself is not periodic
        return features

    def values(self, points: np.ndarray) -> np.ndarray:
        """u at points, (N, num_unknowns)."""
        return self.features(points) @ self.coefficients

    def change_from(self, before: "Basis", points: np.ndarray) -> float:
        """Root mean square of the difference of u at points, relative to that of u."""
        old, new = before.values(points), self.values(points)
        return float(np.linalg.norm(new - old) / (np.linalg.norm(new) or 1.0))


@dataclasses.dataclass(frozen=True)
class Group:
    """One of the things that must vanish, its points, and what its rows are multiplied by."""

    name: str
    residual: Callable
    points: np.ndarray
    values: np.ndarray | None = None  # of data
    weight: float = 1.0
    row_weights: np.ndarray | None = None


def _u(first: Layer, layer: Layer, coefficients):
    """The function of one point that the problem's functions are given."""

    def u(x):
        z = jnp.concatenate([x, jnp.arcsinh(x @ first.weight + first.bias)])
        values = jnp.concatenate([z, jnp.sin(z @ layer.weight + layer.bias), jnp.ones(1)]) @ coefficients
        return values[0] if coefficients.shape[1] == 1 else values

    return u


@partial(jax.jit, static_argnums=0)
def _residual_rows(residual, first, layer, coefficients, points):
    return jax.vmap(lambda x: jnp.atleast_1d(residual(_u(first, layer, coefficients), x)))(points)


def index_error(basis: Basis, group: Group) -> str | None:
    """What is wrong with an index such as that of x[2] in the plane: JAX takes the last part instead, without a word.

    Indices that JAX knows to be there are slices in its program. Only where it has others they are looked at.
    """
    arrays, _ = _filled(basis)
    program = str(_residual_rows.trace(group.residual, *arrays, next(_blocks(group.points))[1]).jaxpr)
    if "gather[" not in program and "dynamic_slice[" not in program:
        return None
    checked = checkify.checkify(partial(_residual_rows, group.residual), errors=checkify.index_checks)
    return checked(*arrays, group.points[:1])[0].get()


@partial(jax.jit, static_argnums=0)
def _jacobian_rows(residual, first, layer, coefficients, points):
    def one(x):
        value, pull = jax.vjp(lambda c: jnp.atleast_1d(residual(_u(first, layer, c), x)), coefficients)
        return value, jax.vmap(lambda e: pull(e)[0].ravel())(jnp.eye(len(value)))

    return jax.vmap(one)(points)


def sines_with_filling(num_sines: int) -> int:
    """How many sines the programs compute where there are ``num_sines``."""
    return next((size for size in SINE_SIZES if size >= num_sines), -(-num_sines // 512) * 512)


def _filled(basis: Basis) -> tuple[tuple[Layer, Layer, np.ndarray], np.ndarray]:
    """What the programs are given: layers and sines filled up with zeros, and the features that are not filling."""
    first, num_sines = basis.coordinates.first_layer, len(basis.layer.bias)
    no_layers = LAYERS_PER_AXIS * len(basis.box.low) - len(first.bias)
    no_sines = sines_with_filling(num_sines) - num_sines
    num_z = len(basis.layer.weight)
    coefficients = np.zeros((len(basis.coefficients) + no_layers + no_sines, basis.coefficients.shape[1]))
    kept = np.r_[:num_z, num_z + no_layers : num_z + no_layers + num_sines, len(coefficients) - 1]
    coefficients[kept] = basis.coefficients
    filled = Layer(np.pad(first.weight, ((0, 0), (0, no_layers))), np.pad(first.bias, (0, no_layers)))
    layer = Layer(np.pad(basis.layer.weight, ((0, no_layers), (0, no_sines))), np.pad(basis.layer.bias, (0, no_sines)))
    return (filled, layer, coefficients), kept


def _blocks(points: np.ndarray):
    """Parts of equally many points, the last one filled up, and which rows they are."""
    size = next(size for size in BLOCK_SIZES if size >= min(len(points), POINTS_PER_BLOCK))
    for start in range(0, len(points), size):
        part = points[start : start + size]
        yield slice(start, start + len(part)), np.resize(part, (size, points.shape[1]))


def jacobian(basis: Basis, group: Group) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks of (derivatives of the residual with respect to the coefficients, residual), not yet weighted."""
    arrays, kept = _filled(basis)
    for rows, part in _blocks(group.points):
        count = rows.stop - rows.start
        values, slopes = (np.asarray(array)[:count] for array in _jacobian_rows(group.residual, *arrays, part))
        slopes = slopes.reshape(*values.shape, -1, basis.coefficients.shape[1])[:, :, kept]
        slopes[:, :, list(basis.periodic)] = 0
        if group.values is not None:
            values = values - group.values[rows]
        if group.row_weights is not None:
            weights = group.row_weights[rows]
            values, slopes = values * weights[:, None], slopes * weights[:, None, None, None]
        yield slopes.reshape(-1, basis.coefficients.size), values.ravel()


def residual_of(basis: Basis, group: Group) -> np.ndarray:
    arrays, _ = _filled(basis)
    parts = [
        np.asarray(_residual_rows(group.residual, *arrays, part))[: rows.stop - rows.start]
        for rows, part in _blocks(group.points)
    ]
    values = np.concatenate(parts)
    values = values if group.values is None else values - group.values
    return values if group.row_weights is None else values * group.row_weights[:, None]


def norm(basis: Basis, groups: Sequence[Group], scales) -> float:
    """Root of the sum of squares of all rows."""
    squares = [np.sum((scale * residual_of(basis, g)) ** 2) for g, scale in zip(groups, scales, strict=True)]
    return float(np.sqrt(sum(squares)))


def rms(values: np.ndarray) -> float:
    """Root mean square length of rows (N, k)."""
    return float(np.linalg.norm(values) / np.sqrt(len(values)))


def row_scales(basis: Basis, groups: Sequence[Group]) -> list[float]:
    """Weights that give each group the same say: one over the root mean square length of its rows, over root N."""
    scales = []
    for group in groups:
        rows, _ = next(jacobian(basis, first_rows(group, POINTS_PER_BLOCK)))
        length = np.sqrt(np.mean(np.sum(rows**2, axis=1)))
        if not length > 0:
            raise ValueError(
                f"the {group.name} must depend on u; its residual does not change with u at the start. If it is not "
                "linear, give the problem is_linear=False and another start"
            )
        scales.append(float(group.weight / (length * np.sqrt(len(group.points)))))
    return scales


def first_rows(group: Group, count: int) -> Group:
    """The group at its first ``count`` points."""
    arrays = {name: getattr(group, name) for name in ("points", "values", "row_weights")}
    return dataclasses.replace(group, **{name: a if a is None else a[:count] for name, a in arrays.items()})


def usual_scales(basis: Basis, groups: Sequence[Group], num_waves: int = 50) -> list[float]:
    """``row_scales`` by waves of the lattice; those that the operator lets through have rows of rounding alone."""
    num_z = len(basis.layer.weight)
    empty = Layer(np.empty((num_z, 0)), np.empty(0))
    ends = np.concatenate([basis.coefficients[:num_z], basis.coefficients[-1:]])
    usual = dataclasses.replace(basis, layer=empty, coefficients=ends)
    waves = lattice(len(basis.box.low), num_waves)
    try:
        return row_scales(usual.grown(waves), groups)
    except ValueError:
        if not basis.num_waves:
            raise
        return row_scales(basis.grown(waves), groups)  # without its waves u is where nothing depends on it


# ---- points ----------------------------------------------------------------------------------------------------


def draw_groups(problem: Problem, basis: Basis, random, num_inside: int, num_edge: int) -> list[Group]:
    """All that must vanish, at points spread over s; a fifth more where the grades so far leave a large residual."""
    inside = _inside(problem, basis, random, num_inside)
    group = _interior(problem, basis, inside)
    if basis.num_waves:
        pool = _interior(problem, basis, _inside(problem, basis, random, num_inside))
        power = np.sum(residual_of(basis, pool) ** 2, axis=1)
        if power.sum() > 0:
            count = min(num_inside // 5, np.count_nonzero(power))
            drawn = random.choice(len(pool.points), count, replace=False, p=power / power.sum())
            group = _interior(problem, basis, np.concatenate([inside, pool.points[drawn]]))
    groups = [group]
    for number, condition in enumerate(problem.conditions, 1):
        points = _edge(problem, basis, condition.where, random, num_edge, number)
        groups.append(Group(f"condition {number}", condition.residual, points, None, condition.weight))
    for number, data in enumerate(problem.data, 1):
        groups.append(Group(f"data {number}", data.observe, data.points, data.values, data.weight))
    return groups


def _interior(problem: Problem, basis: Basis, points: np.ndarray) -> Group:
    """The equation inside. Rows within a layer, where derivatives are large, count less: by dx / ds."""
    weights = None
    if basis.coordinates.layers:
        weights = 1 / basis.coordinates.fineness(points)
        weights /= weights.max()
    return Group("equation inside", problem.interior, points, row_weights=weights)


def _inside(problem: Problem, basis: Basis, random, num_points: int) -> np.ndarray:
    """Points spread evenly over s."""
    points = problem.domain.inside(random, num_points)
    if not basis.coordinates.layers:
        return points
    low, high = problem.domain.bounds
    moved = basis.coordinates.inverse(basis.box.low + basis.box.lengths * (points - low) / (high - low))
    return moved[problem.domain.contains(moved)]


def is_where(where: Callable, points: np.ndarray, number: int) -> np.ndarray:
    """Whether the condition of this number holds, for each of the points."""
    holds = np.asarray(where(points))
    if holds.shape != (len(points),):
        raise ValueError(
            f"where of condition {number} must give True or False for each of {len(points)} points; got {holds.shape}: "
            "`where` receives all points (N, d): write x[:, 0]"
        )
    return holds.astype(bool)


def _edge(problem: Problem, basis: Basis, where, random, num_points: int, number: int) -> np.ndarray:
    """Points of the part of the boundary where a condition holds, as fine as the coordinates are."""
    wanted, points = num_points * (POOL if basis.coordinates.layers else 1), np.empty((0, 1))
    for factor in 3 ** np.arange(8):
        points = problem.domain.boundary(random, int(factor) * wanted)
        if where is not None:
            points = points[is_where(where, points, number)]
        if where is None or len(points) >= wanted:
            break
    if not len(points):
        raise ValueError(f"condition {number} must hold somewhere on the boundary; no points of it were found")
    if where is None and not basis.coordinates.layers:
        return points
    density = basis.coordinates.fineness(points)
    return points[random.choice(len(points), min(num_points, len(points)), replace=False, p=density / density.sum())]
