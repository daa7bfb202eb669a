"""The second stage: once all grades are there, their last layers are free again and descend together.

Grade by grade, every layer is trained for what the grades before it left over, and never again. Together the last
layers can go on from there. The school's own two-stage variant for Burgers' equation does this.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from ..model import Grade, MultiGrade
from ..networks import Network
from .grades import Fit
from .loop import minimise
from .objectives import LeastSquares, Rows
from .plan import Plan
from .problem import GradeProblem


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _SumOfGrades:
    """All grades as one network, of which the last ``num_free`` layers of each have a gradient."""

    networks: tuple[Network, ...]
    num_free: int

    def __call__(self, params, x: Array) -> Array:
        total = jnp.zeros(())
        for network, (layers, scale) in zip(self.networks, params, strict=True):
            frozen, free = layers[: -self.num_free], layers[-self.num_free :]
            layers = (*jax.lax.stop_gradient(frozen), *free)
            x = network.hidden(layers, x)
            total = total + jax.lax.stop_gradient(scale) * network.output(layers, x)
        return total


def unfreeze(fit: Fit, inputs, targets, plan: Plan, *, num_layers: int = 2, sample_weight=None) -> Fit:
    """Train the last ``num_layers`` layers of all grades together, from where ``fit`` has left them.

    Parameters
    ----------
    fit : a fit of plain networks to the squared error
    inputs, targets : arrays (N, d), (N, s)
    plan : how to descend; a lower learning rate than that of the grades is the usual choice
    num_layers : 1 for the output layers, 2 for the last hidden layers as well, ...
    sample_weight : array (N,), optional

    Returns
    -------
    Fit
        The same grades with other last layers, and the records of the grades and of this stage. If the loss did not
        fall, this is ``fit`` itself.
    """
    grades = fit.model.grades
    if not grades or not all(isinstance(grade.network, Network) for grade in grades):
        raise ValueError("fit must have grades, all of plain networks")
    if not 1 <= num_layers <= min(len(grade.params) for grade in grades):
        raise ValueError(f"num_layers must be at least 1 and no more than a grade has; got {num_layers!r}")
    weights = None if sample_weight is None else jnp.asarray(sample_weight, jnp.float32)
    rows = Rows(jnp.asarray(inputs, jnp.float32), jnp.asarray(targets, jnp.float32), weights)
    params = tuple((grade.params, jnp.asarray(grade.scale, jnp.float32)) for grade in grades)
    networks = tuple(grade.network for grade in grades)
    objective = LeastSquares(_SumOfGrades(networks, num_layers))  # pyright: ignore[reportArgumentType]
    run = minimise(GradeProblem(objective, rows), params, plan, grade=len(grades))
    if not run.record.train_loss[-1] < run.record.train_loss[0]:
        return fit
    freed = [Grade(network, *pair) for network, pair in zip(networks, run.params, strict=True)]
    return Fit(MultiGrade(tuple(freed)), (*fit.records, run.record), fit.is_cut_short)
