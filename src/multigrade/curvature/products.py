"""H v and H for any JAX loss and any pytree of parameters.

H is the Hessian of ``loss`` at ``params``. Everything here runs in float64, whatever the training precision, inside
a scoped switch: JAX's global 64-bit setting is never touched. Floating leaves of the parameters, and of the loss when
it is a ``jax.tree_util.Partial``, are widened; numbers closed over by a plain function are widened by promotion.

Compiled once per loss function and shape: a loss that is a ``Partial`` of a fixed function and its data, made anew
at every call, does not compile again.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial
from scipy.sparse.linalg import LinearOperator

from ..programs import bound_programs

Loss = Callable[[Any], Array]
"""Parameters -> scalar, twice differentiable almost everywhere."""

# How far to step off a kink: far below what H can resolve, far above rounding.
NUDGE = 1e-13

# Level 3 of XLA's CPU backend unrolls the short inner loops of narrow layers before it vectorises them.
CPU_FRIENDLY = {"xla_backend_optimization_level": 2}


def widen(tree):
    """The tree with its floating leaves in float64; call inside ``jax.enable_x64(True)``."""

    def leaf(x):
        is_floating = hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)
        return jnp.asarray(x, jnp.float64) if is_floating or isinstance(x, float) else x

    return jax.tree.map(leaf, tree)


def as_pytree(loss: Loss) -> Partial:
    """The loss as a pytree, so that it can be an argument of a compiled function."""
    if not callable(loss):
        raise TypeError(f"loss must be a function of the parameters; got {type(loss).__name__}")
    return loss if isinstance(loss, Partial) else Partial(loss)


def num_parameters(params) -> int:
    """M, the length of the stacked parameter vector W."""
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(params))


def linearised_gradient(loss, params):
    """v -> H v on flat vectors; what the products share (activations, masks) is computed once."""
    flat, unravel = ravel_pytree(params)
    return jax.linearize(lambda w: ravel_pytree(jax.grad(loss)(unravel(w)))[0], flat)[1]


@jax.jit  # never run; it remembers the shape of a loss that was seen before
def _value(loss, params):
    return loss(params)


_linearise = jax.jit(linearised_gradient, compiler_options=CPU_FRIENDLY)  # its result is a pytree


@jax.jit(compiler_options=CPU_FRIENDLY)
def apply(product, v):
    return product(v)


@jax.jit(compiler_options=CPU_FRIENDLY)
def _apply_symmetric(product, v):
    (transposed,) = jax.linear_transpose(product, v)(v)
    return (product(v) + transposed) / 2


@jax.jit(compiler_options=CPU_FRIENDLY)
def _apply_to_rows(product, rows):
    return jax.vmap(product)(rows)


class HessianOperator(LinearOperator):
    """v -> H v on flat float64 numpy vectors in the order of ``ravel_pytree``; ``num_products`` counts the calls.

    It is a ``scipy.sparse.linalg.LinearOperator`` of shape (n, n) for n parameters: ``H @ v``, ``eigsh(H)`` and
    ``cg(H, b)`` work.

    At a kink (a ReLU with input exactly 0) a rule for derivatives may give a matrix that is not symmetric, and Lanczos
    would never converge. Then H is taken a hair's breadth away, where the units in question are off; if that does not
    help, the products are those of the symmetric part, at twice the price.

    Parameters
    ----------
    loss : from parameters to a number; any JAX function
    params : the pytree of arrays at which H is taken
    """

    def __init__(self, loss: Loss, params):
        bound_programs()
        with jax.enable_x64(True):
            loss, params = widen(as_pytree(loss)), widen(params)
            value = _value.eval_shape(loss, params)
            if getattr(value, "shape", None) != ():
                raise ValueError(f"loss must return a scalar; got shape {getattr(value, 'shape', value)!r}")
            self._product = _linearise(loss, params)
        self.size = num_parameters(params)
        super().__init__(np.float64, (self.size, self.size))
        self.num_products = 0
        self._apply = apply
        if not is_symmetric(self):
            with jax.enable_x64(True):
                self._product = _linearise(loss, jax.tree.map(lambda leaf: leaf - NUDGE, params))
            if not is_symmetric(self):
                self._apply = _apply_symmetric

    def __call__(self, v: np.ndarray) -> np.ndarray:
        self.num_products += 1
        with jax.enable_x64(True):
            return np.asarray(self._apply(self._product, np.asarray(v, np.float64).reshape(-1)))

    def _matvec(self, x):
        return self(x)

    def _rmatvec(self, x):
        return self(x)

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """H applied to every row of a matrix, all at a time; not symmetrised."""
        self.num_products += len(rows)
        with jax.enable_x64(True):
            return np.asarray(_apply_to_rows(self._product, np.asarray(rows, np.float64)))


def is_symmetric(operator) -> bool:
    """Whether u'A v = v'A u for two random vectors, to rounding."""
    u, v = np.random.default_rng(3).standard_normal((2, operator.size))
    Au, Av = operator(u), operator(v)
    size = np.linalg.norm(u) * np.linalg.norm(Av) + np.linalg.norm(v) * np.linalg.norm(Au)
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
    operator = HessianOperator(loss, params)
    _, unravel = _raveller(params)
    structure = jax.tree.structure(params)

    def product(v):
        if jax.tree.structure(v) != structure:
            raise ValueError(f"v must have the structure of params, {structure}; got {jax.tree.structure(v)}")
        return unravel(operator(_raveller(v)[0]))

    return product


def _raveller(tree):
    with jax.enable_x64(True):
        flat, unravel = ravel_pytree(widen(tree))

    def restore(v):
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, unravel(jnp.asarray(v)))

    return np.asarray(flat), restore


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
    operator = HessianOperator(loss, params)
    size, step = operator.size, min(num_columns, operator.size)
    hessian = np.empty((size, size))
    for start in range(0, size, step):
        start = min(start, size - step)  # the last block overlaps, so that every block has one shape
        hessian[start : start + step] = operator.rows(np.eye(step, size, start))
    return (hessian + hessian.T) / 2
