"""Preconditioned curvature: the eigenvalues of P^-1 H, and the one that an optimiser can bear.

With a preconditioner P that is frozen, momentum a and a quadratic loss, a step is (Cohen and others 2022,
arXiv 2207.14484, for Adam)

    m' = a m + b g,   theta' = theta - eta (P^-1 (c m' + d g) + w theta),   g = H theta

and along an eigenvector of P^-1 H with eigenvalue lambda its two eigenvalues are the roots of

    z^2 - (1 - eta w + a - eta lambda (c b + d)) z + a (1 - eta w) - a d eta lambda.

One of them is -1, and descent begins to oscillate, at the threshold

    eta lambda = (2 - eta w) (1 + a) / (c b + d (1 + a)):

2 for gradient descent (a = 0, d = 1), 2 + 2 beta for the heavy ball (b = c = 1), (2 + 2 beta) / (1 + 2 beta) for
Nesterov's (c = beta, d = 1), (2 + 2 beta_1) / (1 - beta_1) = 38 for Adam at 0.9 (b = 1 - beta_1, c = 1).

P, a, b, c, d and w are not asked for but read off the optimiser: its update is differentiated at gradient 0, where
second moments, being squares, do not change. What is not of this form (Muon, sign descent) is refused.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .maps import no_other_point, owner_of, started
from .products import Loss, Operator, as_operator, check_params
from .spectrum import extreme_eigenvalues, largest_eigenvalue
from .tracing import widen


class NoPreconditioner(ValueError):
    """The optimiser's step is not of the form that has a threshold."""


@dataclasses.dataclass(frozen=True)
class Preconditioner:
    """P^-1 and the numbers of the step.

    Parameters
    ----------
    inverse : the diagonal of P^-1, 0 where a second moment is 0 (neurons that sleep)
    momentum, intake : a and b, the shares of the old momentum m and of the gradient g in the new momentum
    from_momentum, from_gradient : c and d, the factors of the momentum and of the gradient in the update
    decay : w, the weight decay
    """

    inverse: np.ndarray
    momentum: float
    intake: float
    from_momentum: float
    from_gradient: float
    decay: float

    def limit(self, learning_rate: float) -> float:
        """eta lambda at the threshold."""
        a, gain = self.momentum, self.from_momentum * self.intake + self.from_gradient * (1 + self.momentum)
        return (2 - learning_rate * self.decay) * (1 + a) / gain

    def roots(self, product: np.ndarray, learning_rate: float) -> np.ndarray:
        """The two eigenvalues of the step (..., 2) for each value of eta lambda."""
        product, a, kept = np.asarray(product, complex), self.momentum, 1 - learning_rate * self.decay
        trace = kept + a - product * (self.from_momentum * self.intake + self.from_gradient)
        root = np.sqrt(trace**2 / 4 - (a * kept - a * self.from_gradient * product))
        return np.stack([trace / 2 + root, trace / 2 - root], axis=-1)


@dataclasses.dataclass(frozen=True)
class PreconditionedCurvature:
    """The largest eigenvalues of P^-1 H, and the one that the optimiser can bear.

    Parameters
    ----------
    values : falling; NaN where not found
    threshold : the eigenvalue at which descent begins to oscillate
    learning_rate : eta
    preconditioner : P and the numbers of the step
    converged : whether none is NaN
    vectors : rows, which warm-start the next call
    """

    values: np.ndarray
    threshold: float
    learning_rate: float
    preconditioner: Preconditioner
    converged: bool
    vectors: np.ndarray = dataclasses.field(repr=False)

    @property
    def ratio(self) -> float:
        """lambda_max / threshold: below 1 inside, above 1 outside, for every optimiser."""
        return float(self.values[0] / self.threshold)

    @property
    def is_inside(self) -> bool:
        """Whether the largest eigenvalue is below the threshold."""
        return self.ratio < 1

    @property
    def safe_rate(self) -> float:
        """The rate at which lambda_max would be at the threshold; infinite where nothing curves upwards."""
        largest = float(self.values[0])
        return float("inf") if largest <= 0 else self.preconditioner.limit(0.0) / largest

    @property
    def sentence(self) -> str:
        """Inside or outside, in words."""
        if not self.converged:
            return "the largest eigenvalue of P^-1 H was not found, nor whether it is inside"
        side = "inside" if self.is_inside else "outside"
        return f"{side}: the largest eigenvalue of P^-1 H is {self.values[0]:.4g}, the threshold {self.threshold:.4g}"


def preconditioned_curvature(
    loss: Loss, params, optimiser, state=None, num: int = 1, *, learning_rate=None, tolerance=1e-5, start=None
) -> PreconditionedCurvature:
    """The ``num`` largest eigenvalues of P^-1 H and the threshold of the optimiser at (params, state).

    Parameters
    ----------
    loss : from parameters to a number, any JAX function; or an operator that knows its gradient
    params : the pytree of arrays at which the step is taken
    optimiser : a name ("gd", "momentum", "adam", "muon") or any optax transformation
    state : the optimiser's state at this point; that of its start if None
    num : how many eigenvalues
    learning_rate : multiplies the updates; that of the name, or 1 for an optax transformation, if None
    tolerance : largest residual, relative to the largest eigenvalue
    start : vectors of an earlier call

    Returns
    -------
    PreconditionedCurvature
        Eigenvalues, threshold, and a sentence that says inside or outside.

    Examples
    --------
    >>> found = preconditioned_curvature(lambda w: 10 * w @ w, jnp.ones(3), "momentum", learning_rate=0.1)
    >>> found.sentence  # 20 against (2 + 2 * 0.9) / 0.1
    'inside: the largest eigenvalue of P^-1 H is 20, the threshold 38'
    """
    _, state, rate = started(optimiser, params, state, learning_rate)
    hessian = as_operator(loss, params)
    known = preconditioner(hessian, params, optimiser, state)
    root = np.sqrt(known.inverse)
    scaled = Operator(lambda v: root * hessian(root * v), hessian.size)  # similar to P^-1 H
    if num == 1:
        found = largest_eigenvalue(scaled, tolerance=tolerance, start=start)
    else:
        found = extreme_eigenvalues(scaled, num=num, tolerance=tolerance, start=start)
    is_found = not np.isnan(found.largest).any()
    threshold = known.limit(rate) / rate if rate > 0 else float("inf")
    return PreconditionedCurvature(found.largest, threshold, rate, known, is_found, found.vectors)


def preconditioner(loss: Loss, params, optimiser, state=None) -> Preconditioner:
    """P and the numbers of an optimiser's step, read off its update; NoPreconditioner if it has none.

    Parameters
    ----------
    loss : from parameters to a number, any JAX function; or an operator that knows its gradient
    params : the pytree of arrays at which H is taken
    optimiser : its name, or an optax transformation
    state : the optimiser's; that of a first step if not given

    Returns
    -------
    Preconditioner
        The diagonal of P^-1, and the numbers that decide the threshold.
    """
    check_params(params)
    value, gradient = as_operator(loss, params).value_and_gradient
    transformation, state, _ = started(optimiser, params, state)
    with jax.enable_x64(True):
        params, state = widen(jax.tree.map(jnp.asarray, params)), widen(state)
        slots = _slots(params, state)
        probed = jax.tree.map(np.asarray, _probe(transformation, slots, value, gradient, params, state))
    return _read_off(*probed)


def _slots(params, state) -> tuple[tuple[int, ...], ...]:
    """The groups of state leaves that are shaped like the whole of params: moments, traces."""
    groups: dict[tuple, list[tuple[tuple, int]]] = {}
    for index, (path, leaf) in enumerate(jax.tree_util.tree_flatten_with_path(state)[0]):
        owner = owner_of(path, leaf, params)
        if jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating) and owner[:1] != ("state",):
            groups.setdefault(path[: len(path) - len(owner)], []).append((owner, index))
    order = [path for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]]
    if any([owner for owner, _ in group] != order for group in groups.values()):
        raise NoPreconditioner("the optimiser treats some parameters unlike others; it has no one threshold")
    return tuple(tuple(index for _, index in group) for group in groups.values())


@jax.jit(static_argnums=(0, 1))
def _probe(transformation, slots, value, gradient, params, state):
    """Derivatives of the update at gradient 0 by gradient, moments and params, and the update itself."""
    leaves, structure = jax.tree.flatten(state)
    flat, unravel = ravel_pytree(params)

    def update(gradient, moments, w):
        here = list(leaves)
        for group, moment in zip(slots, moments, strict=True):
            for index, leaf in zip(group, jax.tree.leaves(unravel(moment)), strict=True):
                here[index] = leaf
        params = unravel(w)
        updates, after = transformation.update(
            unravel(gradient), jax.tree.unflatten(structure, here), params,
            value=value, grad=unravel(gradient), value_fn=no_other_point,
        )  # fmt: skip
        after = jax.tree.leaves(after)
        return ravel_pytree(updates)[0], [_flat([after[i] for i in group]) for group in slots]

    none, ones = jnp.zeros_like(flat), jnp.ones_like(flat)
    moments = [_flat([leaves[i] for i in group]) for group in slots]
    taken_step, after = update(gradient, moments, flat)
    zeros = [none] * len(slots)

    def along(at, to_gradient, to_moments, to_params):
        return jax.jvp(update, (none, at, flat), (to_gradient, to_moments, to_params))[1]

    def only(index, direction):
        return [direction if i == index else none for i in range(len(slots))]

    safe = [jnp.where(moment == 0, 1, moment) for moment in moments]
    kept = [along(safe, none, only(i, ones), none)[1][i] for i in range(len(slots))]
    taken = along(safe, ones, zeros, none)[1]
    # A second moment takes nothing from a gradient near 0. Before its decay it is such that it ends where it does.
    is_second = [jnp.all(t == 0) for t in taken]
    asleep = [second & (moment == 0) for second, moment in zip(is_second, after, strict=True)]
    is_asleep = jnp.any(jnp.stack([none > 0, *asleep]), axis=0)
    before = [
        jnp.where(second, jnp.where(moment == 0, 1, moment) / jnp.where(k == 0, 1, k), 0)
        for second, moment, k in zip(is_second, after, kept, strict=True)
    ]
    of_gradient, of_params = (along(before, *d)[0] for d in ((ones, zeros, none), (none, zeros, ones)))
    of_moments = [along(before, none, only(i, ones), none)[0] for i in range(len(slots))]
    # An update of the form above is the sum of its derivatives times what they belong to.
    parts = [of_gradient * gradient, of_params * flat]
    parts += [jnp.where(second, 0, d * m) for second, d, m in zip(is_second, of_moments, moments, strict=True)]
    error = jnp.where(is_asleep, 0, taken_step - sum(parts))
    error = jnp.max(jnp.abs(error)) / jnp.max(jnp.abs(taken_step))
    return of_gradient, of_moments, of_params, kept, taken, is_second, is_asleep, error


def _flat(leaves):
    return jnp.concatenate([leaf.reshape(-1) for leaf in leaves])


def _read_off(of_gradient, of_moments, of_params, kept, taken, is_second, is_asleep, error) -> Preconditioner:
    awake = ~is_asleep
    if not np.any(of_gradient[awake]) or error > 1e-6:  # NaN: no step at all, at a point of rest
        raise NoPreconditioner("the optimiser's update is not an entrywise multiple of gradients; it has no threshold")
    first = [i for i, second in enumerate(is_second) if not second and np.any(of_moments[i][awake])]
    if len(first) > 1:
        raise NoPreconditioner("the optimiser has more than one kind of momentum; it has no known threshold")
    decay = _constant(-of_params[awake], "weight decay")
    if not first:
        return Preconditioner(np.where(awake, -of_gradient, 0), 0.0, 0.0, 0.0, 1.0, decay)
    a, b = _constant(kept[first[0]][awake], "momentum"), _constant(taken[first[0]][awake], "momentum")
    share = _constant(of_moments[first[0]][awake] / of_gradient[awake], "momentum") * b / a
    is_plain = abs(1 - share) < 1e-9  # of the gradient's effect, all goes through the momentum
    c = 1.0 if is_plain else a
    d = 0.0 if is_plain else c * b * (1 - share) / share
    return Preconditioner(np.where(awake, -of_moments[first[0]] / (a * c), 0), a, b, c, d, decay)


def _constant(values: np.ndarray, what: str) -> float:
    if not np.ptp(values) <= 1e-6 * max(np.max(np.abs(values)), 1e-300):
        raise NoPreconditioner(f"the optimiser's {what} differs from entry to entry; it has no threshold")
    return float(np.median(values))
