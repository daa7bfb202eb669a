"""Derivatives of u at a point, by forward mode: what an equation is written with.

``u`` maps a point (d,) to a number, or to (s,) where there are several unknown functions.
"""

from collections.abc import Callable
from contextvars import ContextVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Function = Callable[[Array], Array]
# Where it is set, to (half widths along the axes, list): derivatives add to the list how far what they differentiate is
# from its tangent over such an interval, relative to its values there.
offs: ContextVar[tuple[Array, list] | None] = ContextVar("offs", default=None)


def derivative(u: Function, x: Array, axis: int, order: int = 1) -> Array:
    """d^order u / dx_axis^order at x.

    Parameters
    ----------
    u : from a point (d,) to a number, or to (s,) numbers
    x : the point, (d,)
    axis : which coordinate
    order : of the derivative along that axis, at least 1; mixed derivatives are derivatives of derivatives

    Returns
    -------
    array
        Like ``u(x)``.
    """
    if not 0 <= axis < x.shape[-1]:  # JAX would take it for a derivative of 0
        raise ValueError(f"axis must be from 0 to {x.shape[-1] - 1} for points of {x.shape[-1]} numbers; got {axis!r}")
    if isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 1:
        raise ValueError(
            f"order must be an integer of at least 1, the order of the derivative along one axis; got {order!r}: write "
            "derivative(u, x, 0, 2) for the second derivative along the first axis"
        )
    direction = jnp.zeros_like(x).at[axis].set(1)

    def along(function: Function, count: int) -> Function:
        if count == 0:
            return function
        return along(lambda z: jax.jvp(function, (z,), (direction,))[1], count - 1)

    if (watched := offs.get()) is None:
        return along(u, order)(x)
    token = offs.set(None)  # a derivative within this one is a part of what this one differentiates
    half, function, found = watched[0][axis] * direction, along(u, order - 1), along(u, order)(x)
    ahead, behind = function(x + half), function(x - half)
    offs.reset(token)
    off = jnp.abs(ahead - behind - 2 * watched[0][axis] * found)
    watched[1].append(jnp.max(off / (jnp.abs(ahead) + jnp.abs(behind) + 1e-300)))
    return found


def gradient(u: Function, x: Array) -> Array:
    """(du/dx_1, ..., du/dx_d) along the last axis.

    Parameters
    ----------
    u : from a point (d,) to a number, or to (s,) numbers
    x : the point, (d,)

    Returns
    -------
    array
        ``u(x)`` with one more axis, of length d.
    """
    return jnp.stack([derivative(u, x, axis) for axis in range(x.shape[-1])], axis=-1)


def laplacian(u: Function, x: Array) -> Array:
    """sum_j d^2 u / dx_j^2.

    Parameters
    ----------
    u : from a point (d,) to a number, or to (s,) numbers
    x : the point, (d,)

    Returns
    -------
    array
        Like ``u(x)``.
    """
    return sum((derivative(u, x, axis, 2) for axis in range(1, x.shape[-1])), start=derivative(u, x, 0, 2))
