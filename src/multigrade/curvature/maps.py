"""The iteration map of an optimiser: z -> z', z = (parameters, optimiser state), and its Jacobian J as an operator.

    z = (theta, s);   (u, s') = update(grad F(theta), s, theta);   theta' = theta + rate * u;   z' = (theta', s')

For gradient descent J = I - eta H; with momentum, Adam or Muon the state moves too and J is larger and not symmetric.
The step is the training loop's own, ``training.program.take_update``. Its derivative, traced once, takes changes of the
gradient, of the state and of the parameters; the change of the gradient is H times that of the parameters. So J v costs
one product with H, which may be one over batches. Integers, random keys and whatever the step hands on unchanged
(coefficients, say) are held fixed. All in float64, as in ``products``.

Neurons that sleep (0 on all data) have a gradient that is exactly 0, so Adam's second moment is 0 and its root has no
derivative there. Such coordinates are held: the parameter and its moments are taken out of z, for the step leaves them
where they are. ``num_held`` says how many entries of z these are.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from ..training.optimisers import default_rate, make_optimiser
from ..training.program import take_update
from .arnoldi import Balanced, Krylov
from .products import Loss, Operator, as_operator, check_params, is_symmetric, num_parameters
from .tracing import linearise, run, run_transposed

LINE_SEARCHES = (optax.ScaleByZoomLinesearchState, optax.ScaleByBacktrackingLinesearchState)

NOT_FINITE = (
    "the step and its derivative are not finite at this point, and eigenvalues are NaN; look at the loss, at params "
    "and at the optimiser's state"
)


class IterationMap:
    """J at a point as an operator on flat float64 vectors: ``map(v)`` is J v, ``map.transpose(v)`` is J' v.

    Entries are in the order of ``ravel_pytree``, the parameters first; ``num_parameters`` of ``size``.
    ``is_held`` marks those that are taken out, as the step has no derivative there; J is 0 in their rows and columns.

    Parameters
    ----------
    step : takes the point to the next one; ((loss, gradient), point) to it if there is a ``hessian``
    point : a pytree whose first entry are the parameters
    hessian : of the loss whose gradient the step is given
    """

    def __init__(self, step, point, hessian: Operator | None = None):
        check_params(point[0])
        self.step, self.point, self.hessian, self.num_products = step, point, hessian, 0
        self.num_parameters = num_parameters(point[0])
        self._gradient = np.zeros(0)
        if hessian is not None:
            value, gradient = hessian.value_and_gradient
            self._gradient = np.append(value, gradient)
        at, x = linearise(self._flat_step, (step, point))
        after, _, self._product = at.at(x)
        self._x, self.size = np.array(x), len(after)
        self.is_held = np.zeros(self.size, bool)
        if not np.isfinite(after).all():
            raise FloatingPointError(NOT_FINITE)
        probe = np.random.default_rng(4).standard_normal(self.size)
        bad = ~np.isfinite(self(probe))
        if not bad.any():
            return
        # Entries without a derivative are taken out, with what belongs to the same parameters. In the state any
        # positive number will do where there was 0: what is held is not used. Parameters stay.
        self.is_held = self._with_same_owners(bad)
        state = slice(len(self._gradient) + self.num_parameters, None)
        self._x[state][self.is_held[self.num_parameters :] & (self._x[state] == 0)] = 1
        _, _, self._product = at.at(self._x)
        if self.is_held.all() or not np.isfinite(self(probe)).all():
            raise FloatingPointError(NOT_FINITE)

    def _flat_step(self, given, _):
        """The step as a function of z, and of the loss and its gradient if there is a Hessian; and these."""
        step, point = given
        unravel_params = ravel_pytree(point[0])[1]

        def taken(slope, point):
            return step((slope[0], unravel_params(slope[1:])), point) if len(slope) else step(point)

        # In z are the leaves that are floating, and changed by the step.
        slope = jnp.asarray(self._gradient, jnp.result_type(float))
        traced = jax.make_jaxpr(lambda point: taken(slope, point))(point).jaxpr
        leaves, structure = jax.tree.flatten(point)
        self._moving = tuple(
            bool(jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating) and before is not after)
            for leaf, before, after in zip(leaves, traced.invars, traced.outvars, strict=True)
        )

        def of_moving(given):
            slope, moved = given
            replaced = iter(moved)
            here = [next(replaced) if moves else leaf for leaf, moves in zip(leaves, self._moving, strict=True)]
            return self._moved(jax.tree.leaves(taken(slope, jax.tree.unflatten(structure, here)))), []

        return of_moving, (self._gradient, self._moved(leaves))

    def _moved(self, leaves) -> list:
        return [leaf for leaf, moves in zip(leaves, self._moving, strict=True) if moves]

    def _with_same_owners(self, bad: np.ndarray) -> np.ndarray:
        """Entries like ``bad``, and those of the same parameters elsewhere in z.

        A leaf of the state belongs to the parameters whose path ends its own, if their shapes agree (optax's do).
        """
        moved = self._moved(jax.tree_util.tree_leaves_with_path(self.point))
        parts = np.split(bad, np.cumsum([np.size(leaf) for _, leaf in moved])[:-1])
        owners = [owner_of(path, leaf, self.point[0]) for path, leaf in moved]
        return np.concatenate(
            [
                np.logical_or.reduce([part for part, owner in zip(parts, owners, strict=True) if owner == mine])
                for mine in owners
            ]
        )

    def __call__(self, v: np.ndarray) -> np.ndarray:
        self.num_products += 1
        v = np.where(self.is_held, 0, np.asarray(v, np.float64).reshape(-1))
        if self.hessian is not None:
            change = v[: self.num_parameters]
            v = np.concatenate([[self._gradient[1:] @ change], self.hessian(change), v])
        with jax.enable_x64(True):
            return np.where(self.is_held, 0, np.asarray(run(self._product, v)))

    def transpose(self, v: np.ndarray) -> np.ndarray:
        """J' v."""
        self.num_products += 1
        v = np.where(self.is_held, 0, np.asarray(v, np.float64).reshape(-1))
        with jax.enable_x64(True):
            found = np.array(run_transposed(self._product, self._x, v))
        slope, out = np.split(found, [len(self._gradient)])
        if self.hessian is not None:
            out[: self.num_parameters] += self.hessian(slope[1:]) + slope[0] * self._gradient[1:]
        return np.where(self.is_held, 0, out)

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
    loss : from parameters to a number; any JAX function, or a ``HessianOperator`` made of one at ``params``
    params : the pytree of arrays at which the step is taken
    optimiser : a name ("gd", "momentum", "adam", "muon") or any optax transformation
    state : the optimiser's state at this point; that of its start if None
    learning_rate : multiplies the updates; that of the name, or 1 for an optax transformation, if None

    Returns
    -------
    IterationMap
        Its products with J and J', as a linear operator.
    """
    check_params(params)
    transformation, state, rate = started(optimiser, params, state, learning_rate)

    def step(slope, point):
        loss, gradient = slope
        return take_update(transformation, rate, point, loss, gradient, value_fn=no_other_point)

    return IterationMap(step, (params, state), as_operator(loss, params))


def no_other_point(_):
    raise ValueError("optimiser must not ask for the loss at other points for its map to have a derivative")


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

    def step(point):
        params, state, u = point
        u = objective.move(params, u, data)
        loss, gradient = jax.value_and_grad(objective.at)(params, u, data)
        return *take_update(transformation, rate, (params, state), loss, gradient, no_other_point), u

    return IterationMap(step, (params, state, auxiliary))


def started(optimiser, params, state=None, learning_rate: float | None = None):
    """The transformation, its state (that of its start if None) and the rate (that of its name, or 1, if None).

    ValueError for an optimiser that searches along a line: where the search ends is no smooth function.
    """
    if isinstance(optimiser, optax.MultiSteps):
        optimiser = optimiser.gradient_transformation()
    transformation = make_optimiser(optimiser)
    rate = default_rate(optimiser) if learning_rate is None else float(learning_rate)
    state = transformation.init(jax.tree.map(jnp.asarray, params)) if state is None else state
    nodes = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, LINE_SEARCHES))
    if any(isinstance(node, LINE_SEARCHES) for node in nodes):
        raise ValueError("optimiser must not search along lines, as lbfgs does, for its map to have a derivative")
    return transformation, state, rate


def owner_of(path, leaf, params) -> tuple[Any, ...]:
    """The path, in ``params``, of the parameters that a leaf belongs to; its own path where there are none."""
    for other, owner in jax.tree_util.tree_leaves_with_path(params):
        if path[len(path) - len(other) :] == other and np.shape(owner) == np.shape(leaf):
            return other
    return ("state", *path)
