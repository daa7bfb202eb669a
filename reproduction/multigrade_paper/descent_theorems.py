"""Which learning rates the theorems allow: Theorems 1, 2, 4 and 5 as computations.

    alpha = sup ||H(W)||, tau = sup ||I - eta H(W)|| over the iterates W^0, W^1, ...
    eta in (0, 2 / alpha):  the loss never rises and the gradient tends to 0      (Theorems 1 and 2)
    tau < 1:                gradient descent and its linearisation share a limit  (Theorems 4 and 5)

tau < 1 asks for a positive definite Hessian all along the path, since an eigenvalue lambda <= 0 gives 1 - eta lambda
>= 1. An over-parametrised network never has one; eta < 2 / alpha is the condition that can be met. A supremum over
iterates that were looked at is a lower bound of the theorems' supremum over a convex set that holds all of them.
"""

import dataclasses
import warnings
from collections.abc import Iterable

import jax
import numpy as np
from jax import Array
from jax.tree_util import Partial

from multigrade.curvature import IterationSpectrum, NotConverged, extreme_eigenvalues
from multigrade.curvature.products import Loss
from multigrade.curvature.tracing import widen


@dataclasses.dataclass(frozen=True)
class RateCheck:
    """alpha and tau over the iterates that were looked at, and what the theorems make of a learning rate.

    Parameters
    ----------
    learning_rate : eta
    alpha : the largest ||H||; NaN where one was not found
    tau : the largest ||I - eta H||
    """

    learning_rate: float
    alpha: float
    tau: float

    @property
    def limit(self) -> float:
        """2 / alpha; NaN where alpha is not known."""
        return float("inf") if self.alpha == 0 else 2 / self.alpha

    @property
    def is_stable(self) -> bool:
        """eta in (0, 2 / alpha), the condition of Theorems 1 and 2."""
        return 0 < self.learning_rate < self.limit

    @property
    def is_contraction(self) -> bool:
        """tau < 1, the condition of Theorems 4 and 5."""
        return self.tau < 1

    @property
    def sentence(self) -> str:
        """Inside or outside, in words."""
        if np.isnan(self.alpha):
            return f"alpha is not known, nor whether eta = {self.learning_rate:g} is inside (0, 2/alpha)"
        side = "inside" if self.is_stable else "outside"
        return f"eta = {self.learning_rate:g} is {side} (0, 2/alpha) = (0, {self.limit:g}); tau = {self.tau:g}"


def check_learning_rate(loss: Loss, trajectory: Iterable, learning_rate: float, *, tolerance=1e-6) -> RateCheck:
    """alpha = max ||H(W^k)|| and tau = max ||I - eta H(W^k)|| over the parameters in ``trajectory``.

    NaN, with a ``NotConverged`` warning, as soon as one of the eigenvalues was not found.

    Parameters
    ----------
    loss : from parameters to a number; any JAX function
    trajectory : parameters, one pytree for each moment
    learning_rate : eta
    tolerance : of the eigenvalues, relative to ||H||

    Returns
    -------
    RateCheck
        alpha, tau and whether the rate is in (0, 2 / alpha).
    """
    if not learning_rate > 0:
        raise ValueError(f"learning_rate must be positive; got {learning_rate!r}")
    alpha, tau, vectors = 0.0, 0.0, None
    for params in trajectory:
        found = extreme_eigenvalues(loss, params, 1, tolerance=tolerance, start=vectors)
        if not found.converged:
            warnings.warn(found.sentence, NotConverged, stacklevel=2)
            return RateCheck(learning_rate, float("nan"), float("nan"))
        alpha = max(alpha, found.norm)
        tau = max(tau, IterationSpectrum(learning_rate, found).norm)
        vectors = found.vectors
    if vectors is None:
        raise ValueError("trajectory must hold at least one set of parameters; got none")
    return RateCheck(learning_rate, alpha, tau)


@dataclasses.dataclass(frozen=True)
class LinearisedDescent:
    """Gradient descent W^k beside its linearisation V^k, k = 0, ..., K, in float64.

    K is ``num_steps`` + 1: the first step, which both share, and those in which they may differ.

    Parameters
    ----------
    params, linearised : W^K and V^K
    losses, linearised_losses : at W^k and V^k
    distances : ||W^k - V^k||
    step_norms : ||W^{k+1} - W^k||
    """

    params: object
    linearised: object
    losses: np.ndarray
    linearised_losses: np.ndarray
    distances: np.ndarray
    step_norms: np.ndarray


def linearised_descent(loss: Loss, params, learning_rate: float, num_steps: int) -> LinearisedDescent:
    """V^{k+1} = A^{k-1} V^k - eta u^{k-1}, eq. (GD matrix form linear approxi), beside W^{k+1} = W^k - eta grad F(W^k).

    A^k = I - eta H(W^k) and u^k = grad F(W^k) - H(W^k) W^k, so each step is V^{k+1} = V^k - eta (grad F(W^{k-1}) +
    H(W^{k-1}) (V^k - W^{k-1})): the gradient as the last point but one would predict it. V^0 = W^0 and V^1 = W^1.

    Parameters
    ----------
    loss : from parameters to a number; any JAX function
    params : W^0, a pytree of arrays
    learning_rate : eta
    num_steps : how many steps to take

    Returns
    -------
    LinearisedDescent
        Both paths, and the distance between them.
    """
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1; got {num_steps!r}")
    with jax.enable_x64(True):
        final, history = _descend(widen(Partial(loss)), widen(params), float(learning_rate), num_steps)
        (current, linearised), rows = final, [np.asarray(row) for row in history]
        return LinearisedDescent(jax.tree.map(np.asarray, current), jax.tree.map(np.asarray, linearised), *rows)


@jax.jit(static_argnums=3)
def _descend(loss, params, rate, num_steps):
    gradient = jax.grad(loss)

    def minus(a, b):
        return jax.tree.map(lambda x, y: x - y, a, b)

    def move(point, slope):
        return jax.tree.map(lambda x, g: x - rate * g, point, slope)

    def norm(tree) -> Array:
        return sum(jax.numpy.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)) ** 0.5

    def report(current, linearised, after):
        return loss(current), loss(linearised), norm(minus(current, linearised)), norm(minus(after, current))

    def step(carry, _):
        before, current, linearised = carry
        after = move(current, gradient(current))
        slope, turn = jax.jvp(gradient, (before,), (minus(linearised, before),))
        predicted = move(linearised, jax.tree.map(lambda g, h: g + h, slope, turn))
        return (current, after, predicted), report(current, linearised, after)

    first = move(params, gradient(params))
    (_, current, linearised), rows = jax.lax.scan(step, (params, first, first), length=num_steps)
    start, last = report(params, params, first), report(current, linearised, move(current, gradient(current)))
    history = [jax.numpy.concatenate([a[None], b, c[None]]) for a, b, c in zip(start, rows, last, strict=True)]
    return (current, linearised), history
