"""The iteration map of an optimiser: z -> z', z = (parameters, optimiser state), and its Jacobian J as an operator.

    z = (theta, s);   (u, s') = update(grad F(theta), s, theta);   theta' = theta + rate * u;   z' = (theta', s')

For gradient descent J = I - eta H; with momentum, Adam or Muon the state moves too and J is larger and not symmetric.
J v is one forward derivative of the step (``jax.linearize``), J' v its transpose. Integers, random keys and whatever
the step hands on unchanged (coefficients, say) are held fixed. All in float64, as in ``products``.

Neurons that sleep (0 on all data) have a gradient that is exactly 0, so Adam's second moment is 0 and its root has no
derivative there. Such coordinates are held: the parameter and its moments are taken out of z, for the step leaves them
where they are. ``num_held`` says how many entries of z these are.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from ..training.optimisers import default_rate, make_optimiser
from .arnoldi import Balanced, Krylov
from .products import CPU_FRIENDLY, Loss, apply, as_pytree, is_symmetric, num_parameters, widen

LINE_SEARCHES = (optax.ScaleByZoomLinesearchState, optax.ScaleByBacktrackingLinesearchState)

NOT_FINITE = (
    "the step and its derivative are not finite at this point, and eigenvalues are NaN; look at the loss, at params "
    "and at the optimiser's state"
)


@dataclasses.dataclass(frozen=True)
class OptimiserStep:
    """(loss, rate, (params, state)) -> (params, state) after one step, as the training loop takes it."""

    transformation: optax.GradientTransformationExtraArgs

    def __call__(self, loss, rate, point):
        params, state = point
        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = self.transformation.update(gradient, state, params, value=value, grad=gradient, value_fn=loss)
        return jax.tree.map(lambda p, u: p + jnp.asarray(rate, p.dtype) * u, params, updates), state


class IterationMap:
    """J at a point as an operator on flat float64 vectors: ``map(v)`` is J v, ``map.transpose(v)`` is J' v.

    Entries are in the order of ``ravel_pytree``, the parameters first; ``num_parameters`` of ``size``.
    ``is_held`` marks those that are taken out, as the step has no derivative there; J is 0 in their rows and columns.

    Parameters
    ----------
    step : a ``jax.tree_util.Partial`` that takes the point to the next one
    point : a pytree whose first entry are the parameters
    """

    def __init__(self, step: Partial, point):
        with jax.enable_x64(True):
            self.step, self.point = widen(step), widen(point)
            self.moving = _moving(self.step, self.point)
            after, self._product = _linearise(self.moving, self.step, self.point)
            self.size = sum(leaf.size for leaf in self._leaves(self.point))
        self.num_parameters = num_parameters(point[0])
        self.num_products = 0
        self.is_held = np.zeros(self.size, bool)
        if not np.isfinite(after).all():
            raise FloatingPointError(NOT_FINITE)
        self._hold()

    def _leaves(self, point) -> list:
        return [leaf for leaf, moves in zip(jax.tree.leaves(point), self.moving, strict=True) if moves]

    def _hold(self) -> None:
        """Find the entries without a derivative and take them out, with what belongs to the same parameters."""
        probe = np.random.default_rng(4).standard_normal(self.size)
        bad = ~np.isfinite(self(probe))
        if not bad.any():
            return
        with jax.enable_x64(True):
            held = _spread(self.point, self.moving, bad)
            # In the state any positive number will do where there was 0: what is held is not used. Parameters stay.
            num_own = len(jax.tree.leaves(self.point[0]))
            safe = [
                leaf if index < num_own else jnp.where(hold & (leaf == 0), 1, leaf)
                for index, (leaf, hold) in enumerate(zip(self._leaves(self.point), held, strict=True))
            ]
            leaves, structure = jax.tree.flatten(self.point)
            replaced = iter(safe)
            leaves = [next(replaced) if moves else leaf for leaf, moves in zip(leaves, self.moving, strict=True)]
            _, self._product = _linearise(self.moving, self.step, jax.tree.unflatten(structure, leaves))
            self.is_held = np.concatenate([np.ravel(hold) for hold in held])
        if self.is_held.all() or not np.isfinite(self(probe)).all():
            raise FloatingPointError(NOT_FINITE)

    def __call__(self, v: np.ndarray) -> np.ndarray:
        return self._applied(apply, v)

    def transpose(self, v: np.ndarray) -> np.ndarray:
        """J' v."""
        return self._applied(_apply_transposed, v)

    def _applied(self, product, v: np.ndarray) -> np.ndarray:
        self.num_products += 1
        v = np.where(self.is_held, 0, np.asarray(v, np.float64).reshape(-1))
        with jax.enable_x64(True):
            return np.where(self.is_held, 0, np.asarray(product(self._product, v)))

    def dense(self) -> np.ndarray:
        """J as a matrix, for small maps."""
        return np.stack([self(column) for column in np.eye(self.size)], axis=1)

    @functools.cached_property
    def krylov(self) -> Krylov:
        """A Krylov space of D J D^-1, whose eigenvalues are those of J and whose entries have comparable units."""
        return Krylov(Balanced(self))

    @property
    def num_held(self) -> int:
        """How many entries are held."""
        return int(self.is_held.sum())

    @property
    def is_symmetric(self) -> bool:
        """Whether J is, to rounding, as it is for plain descent; looked for where there is no state alone."""
        return self.size == self.num_parameters and is_symmetric(self)


def optimiser_map(loss: Loss, params, optimiser, state=None, *, learning_rate: float | None = None) -> IterationMap:
    """The map of an optimiser on a loss, at ``params`` and the optimiser's ``state`` (that of its start if None).

    Parameters
    ----------
    loss : from parameters to a number; any JAX function
    params : the pytree of arrays at which the step is taken
    optimiser : a name ("gd", "momentum", "adam", "muon") or any optax transformation
    state : the optimiser's state at this point; that of its start if None
    learning_rate : multiplies the updates; that of the name, or 1 for an optax transformation, if None

    Returns
    -------
    IterationMap
        Its products with J and J', as a linear operator.
    """
    transformation, state, rate = started(optimiser, params, state, learning_rate)
    return IterationMap(Partial(OptimiserStep(transformation), as_pytree(loss), rate), (params, state))


@dataclasses.dataclass(frozen=True)
class AuxiliaryStep:
    """(objective, data, rate, (params, state, u)) after one step: u moves first, then the parameters at the new u."""

    transformation: optax.GradientTransformationExtraArgs

    def __call__(self, objective, data, rate, point):
        params, state, u = point
        u = objective.move(params, u, data)
        step = OptimiserStep(self.transformation)
        params, state = step(lambda theta: objective.at(theta, u, data), rate, (params, state))
        return params, state, u


def auxiliary_map(
    objective, params, auxiliary, data, optimiser, state=None, *, learning_rate: float | None = None
) -> IterationMap:
    """The map of a step that moves an auxiliary variable u as well, as restoration does: z = (parameters, state, u).

    ``objective.move(params, u, data)`` is the next u, ``objective.at(params, u, data)`` the loss at a given u, and the
    step is theta' = theta + rate * update(grad_theta at(theta, u'), ...) with u' = move(theta, u). The paper's matrix
    I - eta H (its supplement) freezes u'; this one lets it move.

    Parameters
    ----------
    objective : with ``move`` and ``at``
    params : the pytree of arrays at which the step is taken
    auxiliary : u
    data : what the objective reads
    optimiser : a name ("gd", "momentum", "adam", "muon") or any optax transformation
    state : the optimiser's state at this point; that of its start if None
    learning_rate : multiplies the updates; that of the name, or 1 for an optax transformation, if None

    Returns
    -------
    IterationMap
        Of parameters, state and u.
    """
    transformation, state, rate = started(optimiser, params, state, learning_rate)
    return IterationMap(Partial(AuxiliaryStep(transformation), objective, data, rate), (params, state, auxiliary))


def started(optimiser, params, state=None, learning_rate: float | None = None):
    """The transformation, its state (that of its start if None) and the rate (that of its name, or 1, if None).

    ValueError for an optimiser that searches along a line: where the search ends is no smooth function.
    """
    transformation = make_optimiser(optimiser)
    rate = default_rate(optimiser) if learning_rate is None else float(learning_rate)
    state = transformation.init(jax.tree.map(jnp.asarray, params)) if state is None else state
    nodes = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, LINE_SEARCHES))
    if any(isinstance(node, LINE_SEARCHES) for node in nodes):
        raise ValueError("optimiser must not search along lines, as lbfgs does, for its map to have a derivative")
    return transformation, state, rate


def _moving(step, point) -> tuple[bool, ...]:
    """Which leaves of the point are in z: floating, and changed by the step."""
    traced = _after.trace(step, point).jaxpr.jaxpr
    before, after = traced.invars, traced.outvars
    kinds = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in map(jnp.asarray, jax.tree.leaves(point))]
    return tuple(bool(k and a is not b) for k, b, a in zip(kinds, before[-len(kinds) :], after, strict=True))


@jax.jit  # never run; it remembers steps that were traced before
def _after(step, point):
    return step(point)


@jax.jit(static_argnums=0, compiler_options=CPU_FRIENDLY)
def _linearise(moving: tuple[bool, ...], step, point):
    leaves, structure = jax.tree.flatten(point)
    flat, unravel = ravel_pytree([leaf for leaf, moves in zip(leaves, moving, strict=True) if moves])

    def flat_step(z):
        replaced = iter(unravel(z))
        here = [next(replaced) if moves else leaf for leaf, moves in zip(leaves, moving, strict=True)]
        there = jax.tree.leaves(step(jax.tree.unflatten(structure, here)))
        return ravel_pytree([leaf for leaf, moves in zip(there, moving, strict=True) if moves])[0]

    return jax.linearize(flat_step, flat)


@jax.jit(compiler_options=CPU_FRIENDLY)
def _apply_transposed(product, v):
    return jax.linear_transpose(product, v)(v)[0]


def _spread(point, moving, bad: np.ndarray) -> list[np.ndarray]:
    """For each moving leaf, which entries are held: those of ``bad``, and those of the same parameters elsewhere.

    A leaf of the state belongs to the parameters whose path ends its own, if their shapes agree (optax's moments do).
    """
    paths = [(path, leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(point)[0]]
    moved = [entry for entry, moves in zip(paths, moving, strict=True) if moves]
    parts = np.split(bad, np.cumsum([leaf.size for _, leaf in moved])[:-1])
    own = [part.reshape(leaf.shape) for part, (_, leaf) in zip(parts, moved, strict=True)]
    owners = [owner_of(path, leaf, point[0]) for path, leaf in moved]
    return [
        np.logical_or.reduce([other for other, owner in zip(own, owners, strict=True) if owner == mine])
        for mine in owners
    ]


def owner_of(path, leaf, params) -> tuple[Any, ...]:
    """The path, in ``params``, of the parameters that a leaf belongs to; its own path where there are none."""
    names = [(other, tree) for other, tree in jax.tree_util.tree_flatten_with_path(params)[0]]
    for other, owner in names:
        if path[len(path) - len(other) :] == other and np.shape(owner) == np.shape(leaf):
            return other
    return ("state", *path)
