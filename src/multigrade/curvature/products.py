"""Curvature matrices by their products, for any JAX loss, any pytree of parameters, and data in batches.

    HessianOperator(loss, params)             H of a loss
    HessianOperator(loss, params, batches)    of the mean over an epoch: loss(params, batch), a pass for every product
    gauss_newton(model, criterion, params)    J' C J, C the criterion's own Hessian in the outputs
    empirical_fisher(losses, params)          the mean of g g', g the gradient of a row's loss
    DifferenceOperator(gradient, x)           of a loss outside JAX, by differences of its gradients

All are ``scipy.sparse.linalg.LinearOperator``, and all that reads a spectrum takes them in the place of a loss and its
parameters. Everything here runs in float64, whatever the training precision, inside a scoped switch: JAX's global
64-bit setting is never touched. A loss is traced anew whenever an operator is made, with what it closes over at that
moment, and compiled only where the program is another one (``tracing``).
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial
from scipy.sparse.linalg import LinearOperator

from ..programs import bound_programs
from ..training import loop
from .tracing import Linearisation, linearise, run, run_rows, run_transposed, widen

Loss = Callable[..., Array]
"""Parameters -> scalar, twice differentiable almost everywhere; (parameters, batch) -> scalar with batches."""

# How far to step off a kink: far below what H can resolve, far above rounding.
NUDGE = 1e-13
NOT_ARRAYS = (
    "split a module first: params, static = eqx.partition(model, eqx.is_inexact_array) in Equinox, graph, params, rest "
    "= nnx.split(model, nnx.Param, ...) in Flax, and put it together again in the loss"
)


def check_params(params) -> None:
    """TypeError unless the parameters are a pytree of real floating-point arrays."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        kind = getattr(leaf, "dtype", None) if hasattr(leaf, "dtype") else np.result_type(type(leaf)) if isinstance(
            leaf, float | int | complex
        ) else None  # fmt: skip
        if kind is None or not jnp.issubdtype(kind, jnp.floating):
            found = type(leaf).__name__ if kind is None else kind
            where = jax.tree_util.keystr(path) or "the root"
            advice = "give real and imaginary parts as two arrays" if "complex" in str(found) else NOT_ARRAYS
            raise TypeError(f"params must be a pytree of real floating-point arrays; got {found} at {where}: {advice}")
    if not jax.tree.leaves(params):
        raise TypeError(f"params must hold at least one array; got none: {NOT_ARRAYS}")


def as_written(function):
    """The function without its ``jax.jit``, whose memory of a trace may be one of old values."""
    while isinstance(function, jax.stages.Wrapped):
        function = function.__wrapped__  # pyright: ignore[reportAttributeAccessIssue]
    return function


def num_parameters(params) -> int:
    """M, the length of the stacked parameter vector W."""
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(params))


class Operator(LinearOperator):
    """A symmetric matrix by its products with flat float64 vectors; ``num_products`` counts them.

    ``A @ v``, ``eigsh(A)`` and ``cg(A, b)`` of SciPy work.

    Parameters
    ----------
    product : from v to A v, for numpy arrays of length ``size``
    size : of the square matrix
    """

    def __init__(self, product: Callable[[np.ndarray], np.ndarray], size: int):
        self.size, self._product, self.num_products = int(size), product, 0
        super().__init__(np.float64, (self.size, self.size))

    def __call__(self, v: np.ndarray) -> np.ndarray:
        self.num_products += 1
        return np.asarray(self._product(np.asarray(v, np.float64).reshape(-1)), np.float64)

    def _matvec(self, x):
        return self(x)

    def _rmatvec(self, x):
        return self(x)

    @property
    def value_and_gradient(self) -> tuple[float, np.ndarray]:
        """The loss (NaN if it is not known) and its gradient."""
        raise TypeError("loss must be a function, or an operator that knows its gradient (HessianOperator)")

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """A applied to every row of a matrix."""
        return np.stack([self(row) for row in rows])

    def dense(self, num_columns: int = 8) -> np.ndarray:
        """A as a matrix, ``num_columns`` products at a time."""
        step = min(num_columns, self.size)
        matrix = np.empty((self.size, self.size))
        for start in range(0, self.size, step):
            start = min(start, self.size - step)  # the last block overlaps, so that every block has one shape
            matrix[start : start + step] = self.rows(np.eye(step, self.size, start))
        return (matrix + matrix.T) / 2


class HessianOperator(Operator):
    """v -> H v in the order of ``ravel_pytree``, at what the loss and its closure are at this moment.

    At a kink (a ReLU with input exactly 0) a rule for derivatives may give a matrix that is not symmetric, and Lanczos
    would never converge. Then H is taken a hair's breadth away, where the units in question are off; if that does not
    help, the products are those of the symmetric part, at twice the price.

    Parameters
    ----------
    loss : from parameters to a number; from (parameters, batch) to the mean over its rows where there are batches
    params : the pytree of real arrays at which H is taken
    batches : an iterable of batches (arrays or pytrees of arrays with one row per point) that can be gone through
        again, or a function that returns one; H is that of the mean over all rows, and every product is one pass
    """

    def __init__(self, loss: Loss, params, batches: Iterable | Callable[[], Iterable] | None = None):
        bound_programs()
        check_params(params)
        if not callable(loss):
            raise TypeError(f"loss must be a function of the parameters; got {type(loss).__name__}")
        if isinstance(batches, Iterator):
            raise TypeError(
                "batches must be an iterable that can be gone through again, or a function that returns one"
            )
        self._point, self._batches = (as_written(loss), params), batches
        self._data, self._traced = (), {}
        self._told: tuple[float, np.ndarray] | None = None
        if (
            isinstance(loss, Partial) and loss.func is loop._loss
        ):  # of our own loop, which compiled it with its arguments
            self._point, self._data, self._traced = (_call, params), (loss,), _of_the_loop
            if len(_of_the_loop) >= MOST_TRACED:
                _of_the_loop.clear()
        with jax.enable_x64(True):
            self._x = ravel_pytree(widen(params))[0]
        self._kept = None if batches is not None else list(self._passed())
        super().__init__(functools.partial(self._applied, run), num_parameters(params))
        if np.isfinite(self.value) and not is_symmetric(self):
            self._kept = None if batches is not None else list(self._passed(NUDGE))
            if not is_symmetric(self):
                twice = lambda product, v: (run(product, v) + run_transposed(product, v, v)) / 2  # noqa: E731
                self._product = functools.partial(self._applied, twice)

    def _passed(self, nudge: float = 0.0) -> Iterator[tuple[int, Array, Array, Any]]:
        """Of every batch: its rows, the gradient and the loss of their mean, and the product."""
        batches = self._batches() if callable(self._batches) else self._batches
        for data in [self._data] if batches is None else map(lambda batch: (batch,), batches):
            given = data, self._point[1]
            shapes = [(np.shape(leaf), str(getattr(leaf, "dtype", type(leaf)))) for leaf in jax.tree.leaves(given)]
            key = jax.tree.structure(given), tuple(shapes)
            if key not in self._traced:
                self._traced[key] = linearise(self._gradient, self._point, data)[0]
            with jax.enable_x64(True):
                gradient, (value,), product = self._traced[key].at(self._x - nudge, widen(data))
            yield 1 if batches is None else len(jax.tree.leaves(data)[0]), gradient, value, product

    def _gradient(self, point, data):
        """The gradient as a function of the parameters, which tells the loss beside; and these."""
        loss, params = point  # the loss may be a Partial that holds data

        def scalar(params):
            value = loss(params, *data)
            if np.shape(value) != ():
                raise ValueError(f"loss must return a scalar; got shape {np.shape(value)}")
            return jnp.asarray(value)

        def gradient(params):
            value, slope = jax.value_and_grad(scalar)(params)
            return slope, [value]

        return gradient, params

    def _applied(self, apply, v: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            parts = [(rows, np.asarray(apply(product, v))) for rows, _, _, product in self._kept or self._passed()]
        return _mean(parts)

    @property
    def value(self) -> float:
        """The loss; NaN where it is not known."""
        return self.value_and_gradient[0]

    @property
    def value_and_gradient(self) -> tuple[float, np.ndarray]:
        """The loss and its gradient, over all batches."""
        if self._told is None:
            parts = [(rows, np.append(value, gradient)) for rows, gradient, value, _ in self._kept or self._passed()]
            value, *gradient = _mean(parts)
            self._told = float(value), np.array(gradient)
        return self._told

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """H applied to every row of a matrix, all in one pass; not symmetrised."""
        self.num_products += len(rows)
        return self._applied(run_rows, np.asarray(rows, np.float64))


MOST_TRACED = 64  # losses of the loop whose traces are kept; our choice
_of_the_loop: dict[Any, Linearisation] = {}


def _call(params, loss):
    return loss(params)


def _mean(parts) -> np.ndarray:
    if not parts:
        raise ValueError("batches must hold at least one batch; got none")
    return np.asarray(sum(rows * part for rows, part in parts) / sum(rows for rows, _ in parts))


class DifferenceOperator(Operator):
    """v -> H v by central differences of gradients, for a loss that JAX does not know (PyTorch's, a simulation's).

    Two gradients for each product, and about two thirds of their digits. A library that has products of its own, as
    ``torch.func`` has, is better served by ``Operator(product, size)``.

    Parameters
    ----------
    gradient : from a flat numpy vector to the gradient, as one
    x : where H is taken
    precision : in which the gradient is computed
    """

    def __init__(self, gradient: Callable[[np.ndarray], np.ndarray], x, precision=np.float64):
        x = np.asarray(x, np.float64).reshape(-1)
        step = np.finfo(precision).eps ** (1 / 3) * max(1.0, float(np.linalg.norm(x)))

        def product(v: np.ndarray) -> np.ndarray:
            if not np.any(v):
                return np.zeros_like(v)
            move = v * (step / np.linalg.norm(v))
            ahead, behind = (np.asarray(gradient(at), np.float64).reshape(-1) for at in (x + move, x - move))
            return (ahead - behind) * (np.linalg.norm(v) / (2 * step))

        super().__init__(product, x.size)
        self._gradient, self._x = gradient, x

    @property
    def value_and_gradient(self) -> tuple[float, np.ndarray]:
        """NaN, and the gradient."""
        return float("nan"), np.asarray(self._gradient(self._x), np.float64).reshape(-1)


def as_operator(loss, params=None) -> Operator:
    """The operator of a loss at its parameters, or the one that was given in the place of a loss."""
    if not isinstance(loss, LinearOperator):
        return HessianOperator(loss, params)
    operator = loss if isinstance(loss, Operator) else Operator(loss.matvec, loss.shape[0])
    if params is not None and num_parameters(params) != operator.size:
        raise ValueError(f"params must have {operator.size} entries, as the operator; got {num_parameters(params)}")
    return operator


def gauss_newton(model, criterion, params, batches: Iterable | Callable[[], Iterable] | None = None) -> HessianOperator:
    """G = J' C J: J the Jacobian of the model's outputs in the parameters, C the criterion's Hessian in the outputs.

    It is the Hessian of the criterion of the linearised model, and never has more negative eigenvalues than C. With a
    criterion that is a mean of negative log-likelihoods (squares, cross-entropy) it is the Fisher matrix.

    Parameters
    ----------
    model : from parameters to outputs; from (parameters, inputs) with batches
    criterion : from outputs to a number; from (outputs, targets) with batches, the mean over their rows
    params : the pytree of arrays at which J and C are taken
    batches : an iterable of (inputs, targets), or a function that returns one

    Returns
    -------
    HessianOperator
        Of G.

    Examples
    --------
    >>> matrix = gauss_newton(lambda w: w**2, lambda out: (out**2).sum() / 2, jnp.array([1.0, 3.0])).dense()
    >>> matrix.tolist()  # J = diag(2 w), C = I
    [[4.0, 0.0], [0.0, 36.0]]
    """
    origin, model, criterion = params, as_written(model), as_written(criterion)

    def loss(params, batch=()):
        inputs, targets = ((batch[0],), (batch[1],)) if batch else ((), ())
        here = jax.tree.map(lambda leaf, like: jnp.asarray(leaf, like.dtype), origin, params)
        change = jax.tree.map(lambda a, b: a - b, params, here)
        outputs, moved = jax.jvp(lambda w: model(w, *inputs), (here,), (change,))
        return criterion(jax.tree.map(lambda a, b: a + b, outputs, moved), *targets)

    return HessianOperator(loss, params, batches)


def empirical_fisher(losses, params, batches: Iterable | Callable[[], Iterable] | None = None) -> HessianOperator:
    """E = mean of g g' over rows, g the gradient of a row's loss: the uncentred covariance of gradients.

    Parameters
    ----------
    losses : from parameters to the losses of all rows, (rows,); from (parameters, batch) with batches
    params : the pytree of arrays at which the gradients are taken
    batches : an iterable of batches, or a function that returns one

    Returns
    -------
    HessianOperator
        Of E.
    """
    losses = as_written(losses)
    if batches is None:
        return gauss_newton(losses, lambda values: jnp.mean(values**2) / 2, params)
    return gauss_newton(
        lambda params, batch: losses(params, batch), lambda values, _: jnp.mean(values**2) / 2, params,
        lambda: ((batch, ()) for batch in (batches() if callable(batches) else batches or ())),
    )  # fmt: skip


def is_symmetric(operator) -> bool:
    """Whether u'A v = v'A u for two random vectors, to rounding."""
    u, v = np.random.default_rng(3).standard_normal((2, operator.size))
    Au, Av = operator(u), operator(v)
    size = np.linalg.norm(u) * np.linalg.norm(Av) + np.linalg.norm(v) * np.linalg.norm(Au)
    with np.errstate(invalid="ignore"):  # of one that is not finite
        return bool(abs(u @ Av - v @ Au) <= 1e-11 * size)


def hessian_vector_product(loss: Loss, params) -> Callable[[Any], Any]:
    """v -> H v for pytrees v shaped like ``params``, in float64.

    The loss is linearised once; every product then costs about two evaluations of its gradient.

    Parameters
    ----------
    loss : from parameters to a number; any JAX function
    params : the pytree of arrays at which H is taken

    Returns
    -------
    callable
        From v to H v.

    Examples
    --------
    >>> product = hessian_vector_product(lambda w: (w**4).sum() / 12, jnp.array([1.0, 2.0]))
    >>> product(jnp.array([1.0, 1.0])).tolist()
    [1.0, 4.0]
    """
    operator, structure = HessianOperator(loss, params), jax.tree.structure(params)

    def product(v):
        if jax.tree.structure(v) != structure:
            raise ValueError(f"v must have the structure of params, {structure}; got {jax.tree.structure(v)}")
        with jax.enable_x64(True):
            flat, unravel = ravel_pytree(widen(v))
            return jax.tree.map(np.asarray, unravel(jnp.asarray(operator(np.asarray(flat)))))

    return product


def dense_hessian(loss: Loss, params, *, num_columns: int = 8) -> np.ndarray:
    """H as a float64 matrix (M, M) by automatic differentiation; rows and columns in the order of ``ravel_pytree``.

    Parameters
    ----------
    loss : from parameters to a number; any JAX function
    params : the pytree of arrays at which H is taken
    num_columns : products that are made at a time: 8 keep the activations of the paper's networks in the cache

    Returns
    -------
    array
        (M, M), symmetric up to rounding.
    """
    if num_columns < 1:
        raise ValueError(f"num_columns must be at least 1; got {num_columns!r}")
    return HessianOperator(loss, params).dense(num_columns)
