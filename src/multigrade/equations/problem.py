"""A problem is what must vanish: an equation inside, conditions on the boundary, data at points."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from jax import Array

from .derivatives import Function
from .domains import Domain

Residual = Callable[[Function, Array], Array]  # (u, x) -> number or (k,), for one point x


def _check_weight(weight: float) -> None:
    if not 0 < weight < np.inf:
        raise ValueError(f"weight must be a positive number; got {weight!r}")


@dataclasses.dataclass(frozen=True)
class Condition:
    """``residual(u, x)`` vanishes on the boundary, or on a part of it.

    Parameters
    ----------
    residual : function (u, x) -> number or (k,)
        A plain JAX function of one point x (d,).
    where : function of points (N, d) -> N times True or False, optional
        The part of the boundary on which the condition holds; all of it if not given.
    weight : float
        How much the condition counts beside the equation; positive.
    """

    residual: Residual
    where: Callable[[np.ndarray], np.ndarray] | None = None
    weight: float = 1.0

    def __post_init__(self):
        if not callable(self.residual) or not (self.where is None or callable(self.where)):
            raise TypeError(f"a condition needs functions residual(u, x) and where(points); got {self!r}")
        _check_weight(self.weight)


@dataclasses.dataclass(frozen=True)
class Data:
    """What is known of u at points: ``observe(u, x)`` is ``values``.

    Parameters
    ----------
    points : array (N, d)
    values : array (N,) or (N, k)
    observe : function (u, x) -> number or (k,)
        What is known; u(x) itself if not given.
    weight : float
        How much the data count beside the equation; positive.
    """

    points: np.ndarray
    values: np.ndarray
    observe: Residual = lambda u, x: u(x)
    weight: float = 1.0

    def __post_init__(self):
        points, values = np.asarray(self.points, float), np.asarray(self.values, float)
        if points.ndim != 2 or len(points) != len(values) or not len(points):
            raise ValueError(f"data needs points (N, d) and N values; got {points.shape} and {values.shape}")
        if not (np.isfinite(points).all() and np.isfinite(values).all()):
            raise ValueError("data must be finite; got NaN or infinity")
        _check_weight(self.weight)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "values", values.reshape(len(values), -1))


@dataclasses.dataclass(frozen=True)
class Problem:
    """Find u with ``interior(u, x)`` = 0 in ``domain``, its ``conditions`` on the boundary, and its ``data``.

    Parameters
    ----------
    domain : Domain
    interior : function (u, x) -> number or (k,)
        A plain JAX function of one point x (d,). ``u(x)`` is a number, or (num_unknowns,) where there are several.
    conditions : sequence of Condition
    data : sequence of Data
    num_unknowns : int
        Number of unknown functions: real and imaginary part, a solution and its coefficient, ...
    is_linear : bool
        Promise that all of it is linear in u up to a constant: it is then solved in one step, and the promise checked.
    start : sequence of float, function of points (N, d) -> (N,) or (N, num_unknowns), or Solution; optional
        What the unknowns start from in a problem that is not linear: constants, or functions, which are fitted first.
        A Solution of a problem nearby continues from it. 0 if not given.
    name : str

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from multigrade.equations import Box, Condition, Problem, laplacian, solve
    >>> problem = Problem(Box((0.0,), (1.0,)), lambda u, x: laplacian(u, x) + jnp.sin(x[0]),
    ...                   [Condition(lambda u, x: u(x) - jnp.sin(x[0]))])
    >>> u = solve(problem, quiet=True)
    >>> bool(abs(u([[0.3]])[0, 0] - jnp.sin(0.3)) < 1e-6)
    True
    """

    domain: Domain
    interior: Residual
    conditions: Sequence[Condition] = ()
    data: Sequence[Data] = ()
    num_unknowns: int = 1
    is_linear: bool = True
    start: Sequence[float] | Callable[[np.ndarray], np.ndarray] | None = None
    name: str = "equation"

    def __post_init__(self):
        if not callable(self.interior):
            raise TypeError(f"interior must be a function of u and x; got {self.interior!r}")
        is_given = self.start is not None and not callable(self.start)
        if is_given and np.shape(self.start) != (self.num_unknowns,):  # pyright: ignore
            raise ValueError(
                f"start must be {self.num_unknowns} numbers, one for each unknown, a function of points or a Solution; "
                f"got {self.start!r}"
            )
        if self.num_unknowns < 1:
            raise ValueError(f"num_unknowns must be at least 1; got {self.num_unknowns!r}")
        for name, kind in (("conditions", Condition), ("data", Data)):
            given = getattr(self, name)
            if not isinstance(given, Sequence) or not all(isinstance(part, kind) for part in given):
                raise TypeError(f"{name} must be a list of {kind.__name__}; got {given!r}")
        if not self.conditions and not self.data:
            raise ValueError("a problem needs conditions or data besides its equation, or u = 0 would often do")
