"""What a grade is fitted to: ``GradeProblem`` is one grade's, ``Task`` makes one for each grade in turn."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from jax import Array

from ..model import Grade
from ..networks import AnyNetwork


class GradeProblem(NamedTuple):
    """What ``minimise`` minimises, for one grade.

    Parameters
    ----------
    objective : an objective, see ``multigrade.training.objectives``
        ``objective(params, auxiliary, data)`` is (loss, next auxiliary); ``value_and_grad`` adds the gradient.
    data : a pytree of arrays, which the objective and the sampler understand
    scale : epsilon_l, which multiplies the grade's output
    loss_unit : turns recorded losses into the units of the whole problem
    auxiliary : the auxiliary variable to start from; None takes ``objective.init(params, data)``
    validation : data of the same form, whose loss is recorded and watched
    validation_objective : what judges the validation data, if it is not the objective
    metrics : functions of the parameters to record, by name (``jax.tree_util.Partial`` carries arrays)
    sampler : what draws the data that a step sees; None draws ``plan.batch_size`` rows, or takes all
    start : applied to the initial parameters
    finish : trained parameters -> (those of the grade, what is to be said of it in the record or "")
    before_step : (step, parameters) -> parameters, applied before every step; None leaves them
    recorded : data whose training loss is recorded, if it is not ``data``
    feed : step -> what the sampler draws from at that step, for data that is not on the device
    is_stepwise : whether steps are taken one by one from the host, as convolutions need it on a CPU
    """

    objective: Any
    data: Any
    scale: Array | float = 1.0
    loss_unit: Array | float = 1.0
    auxiliary: Any = None
    validation: Any = None
    validation_objective: Any = None
    metrics: Mapping[str, Callable] | None = None
    sampler: Any = None
    start: Callable = lambda params: params
    finish: Callable = lambda params: (params, "")
    before_step: Callable | None = None
    recorded: Any = None
    feed: Callable[[int], Any] | None = None
    is_stepwise: bool = False


class Task(Protocol):
    """What grades are fitted to: regression in ``training.regression``, restoration and others elsewhere."""

    def problem(self, network: AnyNetwork, index: int) -> GradeProblem:
        """What the next grade, counted from 0, minimises."""
        ...

    def after(self, grade: Grade, auxiliary) -> "Task":
        """The task that is left over after this grade."""
        ...
