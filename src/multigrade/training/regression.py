"""Grades by least squares: ``fit_grades``, on rows of inputs and targets.

``Regression`` says what every grade minimises and what it hands on to the next. To add an option, add a field there and
read it in ``_RegressionTask.problem``: checkpoints then belong to it without further ado.
"""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from ..least_squares import solve_least_squares
from ..model import Grade, apply_in_blocks
from ..networks import AnyNetwork, HasTrainingMode, Layer, Members, MultiScaleNetwork, Network, Structure
from .checkpoint import Checkpointing, as_checkpointing, fingerprint
from .devices import Spread, spread_over
from .grades import Fit, check_shapes, check_structure, standardised, train_grades, zero_output
from .objectives import GradedLoss, LeastSquares, Loss, LossInTraining, Multinomial, Rows, Squared
from .plan import Plan
from .problem import GradeProblem
from .sampling import FullBatch, RandomRows, random_rows
from .streams import Batches, Feed, as_numbers, make_feed

RECORDED_ROWS = 2048  # whose training loss is recorded where a pass over all rows costs as much as many steps


@dataclasses.dataclass(frozen=True)
class Regression:
    """What every grade minimises, and what it hands on to the next.

    Parameters
    ----------
    weight_decay : half of it times the sum of squared weights is added to the loss of a grade
        That loss is of the residual divided by epsilon_l. The validation loss has no such term.
    residual_scaling : whether epsilon_l is the root mean square of the residual, so that the network learns
        e_l / epsilon_l; otherwise epsilon_l = 1. Losses are recorded in the units of the targets all the same.
    standardise_features : whether grades after the first see features of mean 0 and deviation 1, and start from output
        0. Shift and scale are absorbed into their weights afterwards.
    metrics : functions of (prediction of all grades so far, targets) to be recorded by name, such as ``accuracy``; on
        the validation data, where there is some, under "validation_" and the name
    solved_output : whether a grade ends with its output layer solved by least squares in float64
        The ridge is that of ``weight_decay``, or chosen by leave-one-out without one. Off in the paper's recipe. The
        recorded losses are those of the descent; the model's is no higher. Plain networks and squared errors only.
    solved_every : also solve it before every so many steps, in single precision (variable projection); None never
        Needs ``solved_output``.
    loss : one of ``objectives.LOSSES``; the grades' outputs add up to its scores, and what is predicted is scores
        Only the squared error has residuals that could be scaled.
    """

    weight_decay: float = 0.0
    residual_scaling: bool = False
    standardise_features: bool = False
    metrics: Mapping[str, Callable[[Array, Array], Array]] = dataclasses.field(default_factory=dict)
    loss: Loss = Squared()  # noqa: RUF009
    solved_output: bool = False
    solved_every: int | None = None

    def check(self, structure: Structure) -> None:
        """Raise ValueError if an option does not suit the structure."""
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ValueError(f"weight_decay must be a finite number of at least 0; got {self.weight_decay!r}")
        if self.residual_scaling and not isinstance(self.loss, Squared):
            raise ValueError(
                f"residual_scaling must be False with another loss than the squared error; got {self.loss!r}"
            )
        if self.standardise_features and not all(isinstance(n, Network) and n.encoding is None for n in structure[1:]):
            raise ValueError(f"standardise_features needs plain networks after the first grade; got {structure[1:]!r}")

        if self.solved_output and not (
            isinstance(self.loss, Squared) and all(isinstance(network, Network) for network in structure)
        ):
            raise ValueError("solved_output must be False but for plain networks and the squared error; got True")
        every = self.solved_every
        if every is not None and not (self.solved_output and isinstance(every, int) and every >= 1):
            raise ValueError(f"solved_every must be None, or at least 1 and solved_output True; got {every!r}")

    def identity(self) -> dict[str, Any]:
        """All fields; of the metrics their names, as they change no result."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**fields, "metrics": sorted(self.metrics)}


class LeftOver(NamedTuple):
    """What the grades so far leave over on one data set: features, residual, and the sum of their predictions."""

    features: Array
    residual: Array
    prediction: Array
    weights: Array | None

    def after(self, grade: Grade) -> "LeftOver":
        added, features = apply_in_blocks(grade, self.features)
        return LeftOver(features, self.residual - added, self.prediction + added, self.weights)


@dataclasses.dataclass(frozen=True)
class _RegressionTask:
    regression: Regression
    left: LeftOver
    held_out: LeftOver | None
    targets: Array
    metrics: Mapping[str, Callable[[Array, Array], Array]]
    sampler: RandomRows | None
    spread: Spread | None = None

    def problem(self, network: AnyNetwork, index: int) -> GradeProblem:
        left, held = self.left, self.held_out
        scale = _root_mean_square(left) if self.regression.residual_scaling and index else jnp.float32(1)
        hooks: dict[str, Callable] = {}
        if self.regression.standardise_features and index:
            others = (held.features,) if held else ()
            (features, *others), finish = standardised(left.features, *others, weights=left.weights)
            left, hooks = left._replace(features=features), {"start": zero_output, "finish": finish}
            held = held and held._replace(features=others[0])
        if self.regression.solved_output:
            solve = Partial(_solve_output, network, left, scale, self.regression.weight_decay)
            absorb = hooks.get("finish")

            def solve_and_absorb(params):
                params, remark = solve(params)
                return (absorb(params)[0] if absorb else params), remark

            hooks["finish"] = solve_and_absorb
        if self.regression.solved_every is not None:
            rows = self.rows(left, scale)
            decay, every = self.regression.weight_decay, self.regression.solved_every
            hooks["before_step"] = Partial(_project, network, rows, decay, every)
        is_stepwise = self.spread is None and needs_steps(network, left.features)
        few, few_targets = left, self.targets
        if is_stepwise and (stride := -(-len(left.residual) // RECORDED_ROWS)) > 1:
            few, few_targets = jax.tree.map(lambda leaf: leaf[::stride], (left, self.targets))
        metrics = {
            name: Partial(_metric, Partial(metric), network, scale, few, few_targets)
            for name, metric in self.metrics.items()
        }
        if held:
            held_targets = held.residual + held.prediction
            metrics |= {
                f"validation_{name}": Partial(_metric, Partial(metric), network, scale, held, held_targets)
                for name, metric in self.regression.metrics.items()
            }
        objective, error = self._objectives(network, is_stepwise)
        return GradeProblem(
            objective,
            self.rows(left, scale),
            scale,
            scale**2,
            validation=self.rows(held, scale) if held else None,
            validation_objective=error,
            metrics=metrics,
            sampler=self.sampler,
            recorded=self.rows(few, scale) if few is not left else None,
            is_stepwise=is_stepwise,
            **hooks,
        )

    def _objectives(self, network: AnyNetwork, is_stepwise: bool):
        """What is minimised, and what judges: decay is for training; how well a model does is its error alone."""
        loss, decays = self.regression.loss, (self.regression.weight_decay, 0.0)
        if is_stepwise or isinstance(network, HasTrainingMode):
            both = [LossInTraining(network, decay, loss) for decay in decays]
        elif isinstance(loss, Squared):
            both = [LeastSquares(network, decay) for decay in decays]
        else:
            both = [GradedLoss(network, decay, loss) for decay in decays]
        return map(self.spread.objective, both) if self.spread else both

    def rows(self, left: LeftOver, scale: Any) -> Rows:
        """The squared error sees the residual, any other loss the targets and the scores so far."""
        if isinstance(self.regression.loss, Squared):
            return Rows(left.features, left.residual / scale, left.weights)
        return Rows(left.features, left.residual + left.prediction, left.weights, left.prediction)

    def after(self, grade: Grade, auxiliary=()) -> "_RegressionTask":
        held = self.held_out.after(grade) if self.held_out else None
        return dataclasses.replace(self, left=self.left.after(grade), held_out=held)


@dataclasses.dataclass(frozen=True)
class _StreamedTask:
    """The task of some rows, whose losses are recorded, while steps are fed with batches of all."""

    few: _RegressionTask
    feed: Feed
    spread: Spread | None = None

    def problem(self, network: AnyNetwork, index: int) -> GradeProblem:
        problem, spread = self.few.problem(network, index), self.spread

        def feed(step: int) -> Rows:
            features, targets, prediction = self.feed(step)
            rows = self.few.rows(LeftOver(features, targets - prediction, prediction, None), problem.scale)
            return rows if spread is None else spread.share(rows)

        problem = problem._replace(sampler=FullBatch(), feed=feed)
        if spread is None:
            return problem
        placed = spread.repeat({name: getattr(problem, name) for name in ("data", "validation", "metrics")})
        on_one = lambda leaf: jnp.asarray(np.asarray(leaf))  # noqa: E731 - frozen grades are applied by each process
        return problem._replace(**placed, finish=lambda params: (jax.tree.map(on_one, params), ""))

    def after(self, grade: Grade, auxiliary=()) -> "_StreamedTask":
        return dataclasses.replace(self, few=self.few.after(grade), feed=self.feed.after(grade))


def _streamed_task(structure: Structure, batches: Batches, plan: Plan, regression: Regression, held_out, devices):
    """The task of the first grade, and what a checkpoint of it belongs to."""
    odd = [n for n in ("standardise_features", "solved_output") if getattr(regression, n)]
    if odd:
        raise ValueError(f"{odd[0]} must be False where batches are streamed; got True")
    num: list[int] = []

    def as_targets(targets) -> Array:
        targets = np.asarray(targets)
        if targets.ndim == 1 and isinstance(regression.loss, Multinomial):
            return one_hot("targets", targets, *num)
        return jnp.asarray(targets, jnp.float32)

    x, _ = next(batches.passes()) if not batches.has_arrays else batches.source
    num.append(num_outputs(structure, jax.tree.map(lambda leaf: jax.eval_shape(as_numbers, leaf[:2]), x)))
    feed, few = make_feed(batches, as_targets, plan.batch_size, plan.seed)
    left = _checked_rows("inputs", "targets", structure, regression.loss, *few, weights=None)
    task = _RegressionTask(regression, left, held_out, left.residual, regression.metrics, None)
    spread = None if devices is None else spread_over(devices, feed.size)
    if spread and feed.size % spread.mesh.size:
        raise ValueError(f"batches of {feed.size} rows cannot be shared out over {spread.mesh.size} devices")
    identity = [batches.num_rows, feed.size, feed.kept is None, batches.transform]
    return _StreamedTask(task, feed, spread), identity


def fit_grades(
    structure: Structure,
    inputs,
    targets,
    plan: Plan,
    *,
    regression: Regression = Regression(),
    sample_weight=None,
    validation: tuple | None = None,
    start: Fit = Fit(),  # noqa: B008
    checkpoint: str | os.PathLike | Checkpointing | None = None,
    devices: int | Sequence[Any] | None = None,
) -> Fit:
    """Fit the grades of ``structure`` one after the other to targets at inputs.

    Parameters
    ----------
    structure : the networks of the grades, as ``structures.graded`` makes them
    inputs, targets : arrays of shapes (N, d) and (N, s)
        Inputs of networks other than dense ones have any shape (N, ...), or are a pytree. Targets of ``Multinomial``
        may be labels 0, 1, ..., (N,). For data that does not fit into memory, inputs are ``Batches``, targets None.
    plan : how to descend
    regression : what every grade minimises, and what it hands on to the next
    sample_weight : N weights of the rows
    validation : (inputs, targets) or (inputs, targets, weights), whose error is recorded and watched
    start : a fit to continue; its grades are kept as they are and must be the first ones of ``structure``
    checkpoint : a file to resume from, if it is there, and to write to; it stays when the fit is done
    devices : how many devices of JAX to share the rows out over, or which; the result is that of one up to rounding

    Returns
    -------
    Fit
        The model and the record of each grade. See ``train_grades`` for what ends a fit early.

    Examples
    --------
    >>> import numpy as np
    >>> from multigrade import Plan, fit_grades, structures
    >>> x = np.linspace(0, 1, 64)[:, None]
    >>> fit = fit_grades(structures.graded(1, [(16,), (16,)], 1), x, np.sin(9 * x), Plan(300, learning_rate=0.01))
    >>> len(fit.model.grades), str(fit.outcome)
    (2, 'finished')
    """
    if not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan, such as Plan(500, learning_rate=0.01); got {plan!r}")
    check_structure(structure, start.model)
    regression.check(structure)
    if validation is not None and len(validation) not in (2, 3):
        raise ValueError(
            f"validation must be (inputs, targets) or (inputs, targets, weights); got {len(validation)} members"
        )
    if plan.while_better and validation is None:
        raise ValueError("while_better must be False without validation; got True")
    if jax.process_count() > 1 and (plan.time_limit is not None or devices is None or not isinstance(inputs, Batches)):
        raise ValueError("over several processes inputs must be Batches, devices given, and time_limit None")
    held_out = None
    if validation is not None:
        names = ("validation inputs", "validation targets")
        held_out = _checked_rows(*names, structure, regression.loss, *(*validation, None)[:3])
    if isinstance(inputs, np.memmap):
        inputs, targets = Batches((inputs, targets)), None
    streamed = None
    if isinstance(inputs, Batches):
        if targets is not None or sample_weight is not None:
            raise ValueError("targets and sample_weight must be None where inputs are Batches; got others")
        task, streamed = _streamed_task(structure, inputs, plan, regression, held_out, devices)
        left, spread = task.few.left, task.spread
    else:
        left = _checked_rows("inputs", "targets", structure, regression.loss, inputs, targets, sample_weight)
        spread = None if devices is None else spread_over(devices, len(left.residual))
        task = _task(regression, left, held_out, plan.batch_size, spread)
    given = (*left, *(held_out or ()))
    for grade in start.model.grades:
        task = task.after(grade)
    place = as_checkpointing(checkpoint)
    if place is not None:
        identity = {"data": fingerprint(*jax.tree.leaves(given)), "devices": spread.mesh.size if spread else None}
        place = place.belonging_to({**identity, "streamed": streamed, **regression.identity()})
    return train_grades(structure, task, plan, start=start, checkpoint=place)


def _task(regression: Regression, left: LeftOver, held_out, batch_size: int | None, spread: Spread | None):
    """The task of the first grade; over several devices, the rows are shared out and filled up."""
    sampler = None if batch_size is None else random_rows(batch_size, len(left.residual), left.weights)
    if spread is None:
        return _RegressionTask(regression, left, held_out, left.residual, regression.metrics, sampler)
    weights = jnp.ones(spread.num_rows) if left.weights is None else left.weights
    left = spread.place(left._replace(weights=weights))
    metrics = {name: spread.metric(metric) for name, metric in regression.metrics.items()}
    return _RegressionTask(regression, left, held_out, left.residual, metrics, sampler, spread)


def _checked_rows(x_name: str, y_name: str, structure: Structure, loss: Loss, inputs, targets, weights) -> LeftOver:
    widths = getattr(structure[0], "widths", None), getattr(structure[-1], "widths", None)
    with np.errstate(over="ignore"):  # refused below
        arrays = jax.tree.map(lambda leaf: leaf if isinstance(leaf, jax.Array) else np.asarray(leaf), inputs)
        x = jnp.asarray(inputs, jnp.float32) if widths[0] else jax.tree.map(as_numbers, arrays)
        y = jnp.asarray(targets)
        if y.ndim == 1 and isinstance(loss, Multinomial):
            y = one_hot(y_name, y, num_outputs(structure, x))
        y = y.astype(jnp.float32)
    for name, array, width in ((x_name, x, widths[0] and widths[0][0]), (y_name, y, widths[1] and widths[1][-1])):
        if width and (array.ndim != 2 or array.shape[1] != width):
            raise ValueError(f"{name} must have shape (rows, {width}) for this structure; got {array.shape}")
        if not all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(array)):
            raise ValueError(f"{name} must be finite in float32; got NaN, infinity or a number above 3.4e38 in size")
    rows = {len(leaf) for leaf in jax.tree.leaves(x)}
    if rows != {len(y)} or len(y) == 0:
        raise ValueError(
            f"{x_name} and {y_name} must have the same, positive number of rows; got {str(rows)[1:-1]}, {len(y)}"
        )
    if y.ndim != 2:
        raise ValueError(f"{y_name} must have shape (rows, outputs); got {y.shape}")
    if not all(isinstance(network, PLAIN) for network in structure):
        check_shapes(structure, jax.eval_shape(lambda: x), y.shape[1])
    if weights is not None:
        weights = jnp.asarray(weights, jnp.float32)
        numbers = np.asarray(weights)
        if weights.shape != y.shape[:1] or not ((numbers >= 0).all() and 0 < numbers.sum() < np.inf):
            raise ValueError(
                f"sample_weight must hold {len(y)} finite numbers, none negative and not all zero; "
                f"got shape {weights.shape}"
            )
    return LeftOver(x, y, jnp.zeros_like(y), weights)


PLAIN = (Network, MultiScaleNetwork, Members)


def num_outputs(structure: Structure, inputs) -> int:
    """Outputs of the first grade, which reads inputs of this form."""
    few = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((2, *leaf.shape[1:]), leaf.dtype), inputs)
    return jax.eval_shape(structure[0], jax.eval_shape(structure[0].init, jax.random.key(0)), few).shape[-1]


def one_hot(name: str, labels: Array, num: int) -> Array:
    """Labels 0, 1, ... as targets of so many classes."""
    numbers = np.asarray(labels)
    if numbers.dtype.kind not in "iu" or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < num):
        found = f"{numbers.dtype} from {numbers.min()} to {numbers.max()}" if len(numbers) else "none"
        raise ValueError(f"{name} must be labels from 0 to {num - 1}, or have shape (rows, {num}); got {found}")
    return jax.nn.one_hot(labels, num)


def needs_steps(network: AnyNetwork, features) -> bool:
    """Whether steps are to be taken one by one: XLA's convolutions in loops are slow on a CPU, see ``program``."""
    if jax.default_backend() != "cpu" or isinstance(network, PLAIN):
        return False
    few = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((2, *leaf.shape[1:]), leaf.dtype), features)
    return "conv_general_dilated" in str(jax.make_jaxpr(network)(jax.eval_shape(network.init, jax.random.key(0)), few))


def _root_mean_square(left: LeftOver) -> Array:
    """epsilon = root (weighted) mean square of the residual; 1 where nothing is left over."""
    squares = jnp.mean(left.residual**2, axis=1)
    scale = jnp.sqrt(jnp.average(squares, weights=left.weights))
    return jnp.where(scale > 0, scale, 1).astype(jnp.float32)


def _solve_output(network: Network, left: LeftOver, scale: Array, decay: float, params):
    """The parameters with the output layer that minimises the grade's loss, given its features; as they are, with a
    sentence that says so, where the ridge or rounding to the precision of the others would make it worse."""
    features = np.asarray(network.hidden(params, left.features), np.float64)
    targets = np.asarray(left.residual / scale, np.float64)
    weights = np.ones(len(targets)) if left.weights is None else np.asarray(left.weights, np.float64)
    ridge = decay * weights.sum() if decay else "auto"
    # Larger coefficients would cancel each other, and single precision would lose what they add up to.
    fit = solve_least_squares(features, targets, weights=weights, ridge=ridge, largest=100 * np.abs(targets).max())
    before = params[-1]
    solved = Layer(*(jnp.asarray(new, old.dtype) for new, old in zip((fit.coefficients, fit.intercept), before)))  # noqa: B905

    def loss(layer):
        error = targets - features @ np.asarray(layer.weight, np.float64) - np.asarray(layer.bias, np.float64)
        penalty = decay * weights.sum() * np.sum(np.asarray(layer.weight, np.float64) ** 2)
        return np.sum(weights[:, None] * error**2) + penalty

    descended, least = loss(before), loss(solved)
    if least <= descended:
        return (*params[:-1], solved), ""
    return params, (
        f"the solved output layer was not taken: the sum of squares would be {least:.3g}, and is {descended:.3g}"
    )


def _project(network: Network, rows: Rows, decay: float, every: int, step: Array, params):
    """Before every ``every``-th step the output layer that minimises the loss, but for a ridge of rounding."""

    def solve(params):
        features = network.hidden(params, rows.inputs)
        roots = jnp.sqrt(jnp.ones(len(features)) if rows.weights is None else rows.weights)[:, None]
        weighted = roots * jnp.hstack([features, jnp.ones((len(features), 1))])
        ridge = decay * jnp.sum(roots**2) + 1e-10 * jnp.sum(weighted**2)
        penalty = jnp.sqrt(ridge) * jnp.eye(weighted.shape[1])[:-1]  # none for the bias
        q, r = jnp.linalg.qr(jnp.vstack([weighted, penalty]))
        solved = jax.scipy.linalg.solve_triangular(r, q[: len(features)].T @ (roots * rows.targets))
        return (*params[:-1], Layer(solved[:-1], solved[-1]))

    return jax.lax.cond(step % every == 0, solve, lambda params: params, params)


def _metric(metric, network, scale, left: LeftOver, targets, params):
    return metric(left.prediction + scale * network(params, left.features), targets)
