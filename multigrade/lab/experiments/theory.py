"""Theorems 1, 2, 4 and 5 in numbers, on small smooth networks in float64.

Theorems 1 and 2 (descent of one network, and of a grade): at a rate inside (0, 2 / alpha), with alpha the largest
||H(W^k)|| that was met, the loss never rises and the gradient fades; well outside, it rises.
Theorems 4 and 5: where tau = sup ||I - eta H|| < 1, the linearised iteration converges, and to the limit of descent.
tau < 1 needs a positive definite Hessian, which a network does not have by itself: a quadratic penalty provides it, and
tau without the penalty is reported beside it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from ...curvature.spectrum import sharpness
from ...curvature.stability import check_learning_rate, linearised_descent
from ...networks import Network
from ...structures import graded
from ...synthetic import training_points
from ...training import Plan, fit_grades
from ..job import Result
from .context import Context

NUM_LOOKS = 8  # spectra along a run
MAX_HALVINGS = 20
# Rates as shares of 2 / alpha. alpha is seen at a few points of the path alone; half leaves it room to be twice that.
INSIDE, OUTSIDE = 0.5, 2.5
PENALTY = 1.0  # makes the Hessian of these networks positive definite


def theory(context: Context) -> Result:
    settings = context.settings
    theorem = {1: _descent, 2: _descent, 4: _linearised, 5: _linearised}[settings["theorem"]]
    loss, params = _problem(settings)
    metrics, arrays = theorem(loss, params, settings)
    return Result(metrics, (), arrays)


def _problem(settings) -> tuple[Partial, Any]:
    """The loss of a two-hidden-layer tanh network, or (Theorem 2) of the second grade on top of a trained first one."""
    (x, y), width = training_points(1, settings["points"]), settings["width"]
    network = Network((1, width, width, 1), "tanh", "glorot")
    if settings["theorem"] == 2:
        structure = graded(1, [(width,)] * 2, 1, activation="tanh", weight_init="glorot")
        first = fit_grades(structure[:1], x, y, Plan(settings["epochs"], "gd", seed=settings["seed"]))
        x, y, network = first.model.features(x), y - first.model(x), structure[1]
    params = network.init(jax.random.fold_in(jax.random.key(settings["seed"]), 1))
    widened = (np.asarray(array, np.float64) for array in (x, y))
    return Partial(mean_squares, network, *widened), jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)


def mean_squares(network, x, y, params):
    """1/(2N) sum ||y - N(x)||^2, eq. (DNNs loss)."""
    return 0.5 * jnp.mean(jnp.sum((network(params, x) - y) ** 2, axis=1))


def penalised(loss, params):
    return loss(params) + 0.5 * PENALTY * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


def _descent(loss: Partial, params, settings) -> tuple[dict, dict]:
    """Descent inside (0, 2 / alpha): start from half the initial limit, halve until the whole path is inside."""
    rate = INSIDE * 2 / sharpness(loss, params)
    for _ in range(MAX_HALVINGS):
        losses, norms, points = _path(loss, params, rate, settings["epochs"])
        check = check_learning_rate(loss, points, rate) if np.isfinite(losses).all() else None
        if check and rate <= INSIDE * check.limit:
            break
        rate /= 2
    else:
        raise ValueError(f"no rate down to {rate:g} stays within half of 2 / alpha along its path")
    wild, _, _ = _path(loss, params, OUTSIDE * check.limit, settings["epochs"])
    metrics = {
        "rate": rate, "alpha": check.alpha, "limit": check.limit, "is_stable": check.is_stable,
        "rises": _rises(losses), "first_loss": float(losses[0]), "last_loss": float(losses[-1]),
        "first_gradient": float(norms[0] / rate), "last_gradient": float(norms[-1] / rate),
        "outside_rate": OUTSIDE * check.limit, "outside_rises": _rises(wild),
    }  # fmt: skip
    return metrics, {"losses": losses, "gradient_norms": norms / rate, "outside_losses": wild}


def _path(loss, params, rate: float, num_steps: int):
    """Losses and step lengths of descent, and the parameters at equally spaced moments, the first among them."""
    points, losses, norms = [params], [], []
    for _ in range(NUM_LOOKS):
        part = linearised_descent(loss, points[-1], rate, max(num_steps // NUM_LOOKS, 1))
        points.append(part.params)
        losses.append(part.losses[:-1])
        norms.append(part.step_norms[:-1])
    return np.concatenate(losses), np.concatenate(norms), points


def _rises(losses: np.ndarray) -> int:
    """Steps at which the loss rose by more than rounding, or was no number any more."""
    with np.errstate(invalid="ignore", over="ignore"):
        return int(np.count_nonzero(~(np.diff(losses) <= 1e-12 * losses[:-1])))


def _linearised(loss: Partial, params, settings) -> tuple[dict, dict]:
    """W^k and its linearisation V^k side by side on the penalised loss."""
    convex_loss = Partial(penalised, loss)
    rate = 1 / sharpness(convex_loss, params)
    path = linearised_descent(convex_loss, params, rate, settings["epochs"])
    _, _, points = _path(convex_loss, params, rate, settings["epochs"])
    check, plain = check_learning_rate(convex_loss, points, rate), check_learning_rate(loss, points, rate)
    late = path.linearised_losses[len(path.linearised_losses) // 2 :]
    metrics = {
        "rate": rate, "alpha": check.alpha, "tau": check.tau, "is_contraction": check.is_contraction,
        "tau_without_penalty": plain.tau, "largest_distance": float(path.distances.max()),
        "last_distance": float(path.distances[-1]), "last_step": float(path.step_norms[-1]),
        "linearised_late_change": float(np.ptp(late) / late[-1]),
    }  # fmt: skip
    return metrics, {"distances": path.distances, "losses": path.losses, "linearised_losses": path.linearised_losses}
