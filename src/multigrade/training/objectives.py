"""What is minimised. An objective is a frozen description; its data is a pytree of arrays passed beside it.

``objective(params, auxiliary, data)`` returns the loss and the next auxiliary variable (the u of the restoration
objective; empty for least squares). ``value_and_grad`` is the same with the gradient; an objective may compute it
in a faster order than automatic differentiation of the whole would.

A grade adds its output to the scores of the grades before it, and the loss sees the sum. For the squared error that is
a fit to the residual (``LeastSquares``); for any other of the ``LOSSES``, ``GradedLoss`` carries the scores along.
"""

import dataclasses
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax import Array

from ..networks import AnyNetwork, HasTrainingMode, Variables, tree_sum

# The gradient is summed over blocks of rows whose activations stay in the cache, two blocks at a time, which XLA runs
# on two cores: on the paper's 128-wide networks a step takes half the time of one pass over all rows, and its memory
# is bounded. Networks with fewer weights than the first number are too cheap for blocks to pay.
BLOCK_LANES = 2
BLOCK_ROWS = 2048  # of networks that are evaluated outside of loops
ROWS_BY_WEIGHTS = ((512, None), (2**14, 512), (float("inf"), 1024))


class Rows(NamedTuple):
    """Training data of one grade.

    Parameters
    ----------
    inputs : (N, d), the features x_l that the grade reads
    targets : (N, s), the residuals e_l; for other losses than the squared one, the targets y themselves
    weights : (N,), or None for equal ones
    scores : (N, s), the sum of the grades so far, for other losses than the squared one; None is 0
    """

    inputs: Array
    targets: Array
    weights: Array | None = None
    scores: Array | None = None


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class LeastSquares:
    """L(Theta) = 1/(2 sum w) sum_n w_n ||y_n - N(Theta; x_n)||^2 + weight_decay/2 sum_j ||W_j||^2.

    With equal weights and no decay this is eq. (DNNs loss), and eq. (loss: grade l) on a grade's features and residual.

    Parameters
    ----------
    network : N
    weight_decay : what half the sum of squared weights is multiplied by; biases, of one axis, do not count
    """

    network: AnyNetwork
    weight_decay: float = 0.0

    def init(self, params, data: Rows) -> tuple[()]:
        """The auxiliary variable to start from; there is none here."""
        return ()

    def __call__(self, params, auxiliary: tuple[()], data: Rows) -> tuple[Array, tuple[()]]:
        return self.sum(params, data) / _total(data) + self.penalty(params), auxiliary

    def value_and_grad(self, params, auxiliary: tuple[()], data: Rows):
        """((loss, auxiliary), gradient of the loss in the parameters)."""
        loss, gradient = jax.tree.map(lambda a: a / _total(data), self.sum_and_grad(params, data))
        return self.add_penalty(loss, gradient, params, auxiliary)

    def sum(self, params, data: Rows) -> Array:
        """1/2 sum_n w_n ||y_n - N(Theta; x_n)||^2."""
        rows = self._rows_per_block(params)
        # Nothing is kept for a backward pass, so more rows fit; Hessian-vector products are faster in one piece, too.
        return over_blocks(lambda block: self._sum(params, block), data, rows and 4 * rows)

    def sum_and_grad(self, params, data: Rows):
        """``sum`` and its gradient in the parameters."""
        block_gradient = jax.value_and_grad(self._sum)
        return over_blocks(lambda block: block_gradient(params, block), data, self._rows_per_block(params))

    def penalty(self, params) -> Array | float:
        """weight_decay/2 sum_j ||W_j||^2."""
        weights = [leaf for leaf in jax.tree.leaves(params) if leaf.ndim >= 2]
        return 0.5 * self.weight_decay * sum(jnp.sum(w**2) for w in weights) if self.weight_decay else 0.0

    def add_penalty(self, loss: Array, gradient, params, auxiliary: Any):
        """What ``value_and_grad`` returns, from the mean over the rows and its gradient."""
        if self.weight_decay:
            penalty, slope = jax.value_and_grad(self.penalty)(params)
            loss, gradient = loss + penalty, jax.tree.map(jnp.add, gradient, slope)
        return (loss, auxiliary), gradient

    def _sum(self, params, block: Rows) -> Array:
        return self._summed(self.network(params, block.inputs), block)

    def _summed(self, added: Array, block: Rows) -> Array:
        squares = jnp.square(block.targets - added)
        return 0.5 * jnp.sum(squares if block.weights is None else block.weights[:, None] * squares)

    def _rows_per_block(self, params) -> int | None:
        num_weights = sum(leaf.size for leaf in jax.tree.leaves(params))
        return next(rows for bound, rows in ROWS_BY_WEIGHTS if num_weights < bound)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class GradedLoss(LeastSquares):
    """L(Theta) = 1/(sum w) sum_n w_n loss(s_n + N(Theta; x_n), y_n) + decay/2 sum_j ||W_j||^2, s the scores so far."""

    loss: "Loss" = dataclasses.field(default_factory=lambda: Squared())

    def _summed(self, added: Array, block: Rows) -> Array:
        if block.scores is None and isinstance(self.loss, Squared):
            return super()._summed(added, block)
        losses = self.loss(added if block.scores is None else block.scores + added, block.targets)
        return jnp.sum(losses if block.weights is None else block.weights * losses)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class LossInTraining(GradedLoss):
    """The same for a network that is another one while it is trained: its gradient is that in training mode, over all
    rows of a batch at once; its value that in inference mode. The auxiliary variable is (state, key data).
    """

    def variables(self, params, auxiliary):
        """The network's parameters, with those that are not trained."""
        return Variables(params, auxiliary[0]) if isinstance(self.network, HasTrainingMode) else params

    def __call__(self, params, auxiliary, data: Rows):
        total = jnp.zeros(())
        for start in range(0, len(data.targets), BLOCK_ROWS):
            block = jax.tree.map(lambda leaf, start=start: leaf[start : start + BLOCK_ROWS], data)
            total += self._sum(self.variables(params, auxiliary), block)
        return total / _total(data) + self.penalty(params), auxiliary

    def value_and_grad(self, params, auxiliary: Any, data: Rows):
        own, following = jax.random.split(jax.random.wrap_key_data(auxiliary[1]))

        def summed(params):
            whole = self.variables(params, auxiliary)
            if isinstance(self.network, HasTrainingMode):
                added, state = self.network.train(whole, data.inputs, own)
            else:
                added, state = self.network(whole, data.inputs), ()
            return self._summed(added, data), state

        (total, state), gradient = jax.value_and_grad(summed, has_aux=True)(params)
        loss, gradient = jax.tree.map(lambda a: a / _total(data), (total, gradient))
        return self.add_penalty(loss, gradient, params, (state, jax.random.key_data(following)))


def _total(data: Rows) -> Array | int:
    if data.weights is None:
        return data.targets.shape[0]
    total = jnp.sum(data.weights)
    return jnp.where(total > 0, total, 1)  # a batch of rows of weight 0 has loss and gradient 0


def over_blocks(function, data, rows_per_block: int | None):
    """Sum of ``function(block)`` over consecutive row blocks of the pytree ``data``; one call if there is one block."""
    num_rows = jax.tree.leaves(data)[0].shape[0]
    if rows_per_block is None or num_rows <= rows_per_block:
        return function(data)
    stride = BLOCK_LANES * rows_per_block
    num_strides = num_rows // stride

    def block(start, size):
        return function(jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size), data))

    def lanes(index):
        return tree_sum([block(index * stride + lane * rows_per_block, rows_per_block) for lane in range(BLOCK_LANES)])

    parts = []
    if num_strides:
        add = lambda index, total: tree_sum([total, lanes(index)])  # noqa: E731
        parts.append(jax.lax.fori_loop(1, num_strides, add, lanes(0)))
    tail = range(num_strides * stride, num_rows, rows_per_block)
    parts += [block(start, min(rows_per_block, num_rows - start)) for start in tail]
    return tree_sum(parts)


# ---- losses ----------------------------------------------------------------------------------------------------


class Loss(Protocol):
    """What a loss of scores (..., s) and targets (..., s) provides; all is summed over the last axis.

    ``curvature`` bounds its second derivative in the scores, None where nothing does. ``start`` is the constant score
    that minimises the weighted loss of targets (N, s). ``predict`` turns scores into what a user is given.
    """

    curvature: ClassVar[float | None]

    def __call__(self, scores: Array, targets: Array) -> Array: ...
    def start(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray: ...
    def predict(self, scores): ...


def _loss(cls):
    """A frozen description without arrays, as networks are."""
    return jax.tree_util.register_static(dataclasses.dataclass(frozen=True)(cls))


class _Location:
    """Losses whose scores are in the units of the targets."""

    curvature: ClassVar[float | None] = 1.0

    def predict(self, scores):
        return scores


@_loss
class Squared(_Location):
    """1/2 ||y - s||^2."""

    def __call__(self, scores: Array, targets: Array) -> Array:
        return 0.5 * jnp.sum(jnp.square(targets - scores), axis=-1)

    def start(self, targets, weights):
        return np.average(targets, axis=0, weights=weights)


@_loss
class Huber(_Location):
    """1/2 e^2 up to |e| = delta and delta (|e| - delta / 2) beyond, e = y - s."""

    delta: float = 1.0

    def __call__(self, scores: Array, targets: Array) -> Array:
        size = jnp.abs(targets - scores)
        small = jnp.minimum(size, self.delta)
        return jnp.sum(small * (size - 0.5 * small), axis=-1)

    def start(self, targets, weights):
        return _quantile(targets, weights, 0.5)


@_loss
class Pinball(_Location):
    """max(q e, (q - 1) e), e = y - s; least at the q-quantile of y."""

    quantile: float = 0.5
    curvature: ClassVar[float | None] = None

    def __call__(self, scores: Array, targets: Array) -> Array:
        error = targets - scores
        return jnp.sum(jnp.maximum(self.quantile * error, (self.quantile - 1) * error), axis=-1)

    def start(self, targets, weights):
        return _quantile(targets, weights, self.quantile)


@_loss
class Poisson:
    """exp(s) - y s, the deviance of counts y >= 0 with mean exp(s) up to what no score changes."""

    curvature: ClassVar[float | None] = None

    def __call__(self, scores: Array, targets: Array) -> Array:
        return jnp.sum(jnp.exp(scores) - targets * scores, axis=-1)

    def start(self, targets, weights):
        return np.log(np.maximum(np.average(targets, axis=0, weights=weights), 1e-8))

    def predict(self, scores):
        return np.exp(scores)


@_loss
class Logistic:
    """log(1 + exp(s)) - y s: cross-entropy of a class y in {0, 1} with chance 1 / (1 + exp(-s))."""

    curvature: ClassVar[float | None] = 0.25

    def __call__(self, scores: Array, targets: Array) -> Array:
        return jnp.sum(jax.nn.softplus(scores) - targets * scores, axis=-1)

    def start(self, targets, weights):
        chance = _chances(targets, weights)
        return np.log(chance) - np.log1p(-chance)

    def predict(self, scores):
        """Chances of both classes, (..., 2)."""
        return scipy.special.expit(np.concatenate([-scores, scores], axis=-1))


@_loss
class Multinomial:
    """-sum_c y_c log softmax(s)_c: cross-entropy of classes, targets 1 for the class and 0 for others.

    Parameters
    ----------
    smoothing : the share of each target that is spread evenly over all classes
    """

    smoothing: float = 0.0
    curvature: ClassVar[float | None] = 0.5

    def __post_init__(self):
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing must be at least 0 and below 1; got {self.smoothing!r}")

    def __call__(self, scores: Array, targets: Array) -> Array:
        if self.smoothing:
            targets = (1 - self.smoothing) * targets + self.smoothing / targets.shape[-1]
        return jax.nn.logsumexp(scores, axis=-1) - jnp.sum(targets * scores, axis=-1)

    def start(self, targets, weights):
        return np.log(_chances(targets, weights))

    def predict(self, scores):
        """Chances of all classes, (..., s)."""
        return scipy.special.softmax(scores, axis=-1)


def accuracy(scores: Array, targets: Array) -> Array:
    """The share of rows whose largest score is that of their class, for ``Regression(metrics={"accuracy": accuracy})``.

    Parameters
    ----------
    scores, targets : (N, s); of one column, the sign of the score and classes 0 and 1

    Returns
    -------
    Array
        A number from 0 to 1.
    """
    if scores.shape[1] == 1:
        return jnp.mean((scores > 0) == (targets > 0.5))
    return jnp.mean(jnp.argmax(scores, axis=1) == jnp.argmax(targets, axis=1))


LOSSES: dict[str, type] = {
    "squared_error": Squared, "huber": Huber, "quantile": Pinball, "poisson": Poisson,
    "logistic": Logistic, "multinomial": Multinomial,
}  # fmt: skip


def _quantile(targets: np.ndarray, weights: np.ndarray, quantile: float) -> np.ndarray:
    return np.quantile(targets, quantile, axis=0, weights=weights, method="inverted_cdf")


def _chances(targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted shares of the classes, kept from 0 and 1 by one row's worth."""
    rows = len(targets) + 1
    return (np.average(targets, axis=0, weights=weights) * (rows - 1) + 1 / (1 + targets.shape[1])) / rows
