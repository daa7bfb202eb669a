"""Trace and diagonal of a curvature matrix from a few products, with their errors.

``trace`` is XTrace (Epperly, Tropp and Webber, SIAM J. Matrix Anal. Appl. 45, 2024). With Y = A Omega for k random
vectors and Q a basis of Y, leave out vector i: Q_i is a basis of the other k - 1 images. Then

    tr(Q_i' A Q_i) + c_i r_i' A r_i,    r_i = (I - Q_i Q_i') omega_i,   c_i = (M - k + 1) / ||r_i||^2

is an unbiased estimate, and the mean over i is taken. All follow from Y and A Q, 2k products. ``diagonal`` is the mean
of v * A v over vectors v of signs (Bekas, Kokiopoulou and Saad, Appl. Numer. Math. 57, 2007).
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator
from scipy.special import stdtrit

from .density import mean_interval
from .products import Loss, as_operator


class Estimate(NamedTuple):
    """A number or an array with 95 % bounds, which are the value itself where it is exact.

    Parameters
    ----------
    value : the estimate
    low, high : its bounds
    """

    value: float | np.ndarray
    low: float | np.ndarray
    high: float | np.ndarray


def trace(loss: Loss | LinearOperator, params=None, *, num_products: int = 60, seed: int = 0) -> Estimate:
    """The trace of H, or of any other operator, from ``num_products`` products; exact where these are enough.

    Parameters
    ----------
    loss : from parameters to a number, any JAX function; or an operator, such as a ``HessianOperator``
    params : the pytree of arrays at which H is taken; None for an operator
    num_products : how many, at least 4
    seed : of the random vectors

    Returns
    -------
    Estimate
        The trace with 95 % bounds.
    """
    operator, num = as_operator(loss, params), _checked(num_products) // 2
    if operator.size <= num_products:
        exact = float(np.trace(operator.dense()))
        return Estimate(exact, exact, exact)
    size, omega = operator.size, np.random.default_rng(seed).standard_normal((num, operator.size))
    omega *= np.sqrt(size) / np.linalg.norm(omega, axis=1, keepdims=True)
    images = operator.rows(omega)
    basis, upper = np.linalg.qr(images.T)
    diagonal = np.abs(np.diagonal(upper))
    if not diagonal.min() > 1e-13 * diagonal.max():  # the range is smaller than k, so all of it was seen
        basis = basis[:, diagonal > 1e-13 * diagonal.max()]
        exact = float(np.sum(basis * operator.rows(basis.T).T)) if basis.size else 0.0
        return Estimate(exact, exact, exact)
    moved = operator.rows(basis.T).T
    inner, shares = basis.T @ moved, basis.T @ omega.T
    left_out = np.linalg.inv(upper).T
    left_out /= np.linalg.norm(left_out, axis=0)
    estimates = []
    for i, s in enumerate(left_out.T):
        part = shares[:, i] - s * (s @ shares[:, i])
        rest, image = omega[i] - basis @ part, images[i] - moved @ part
        outside = (size - num + 1) * (rest @ image) / (rest @ rest)
        estimates.append(np.trace(inner) - s @ inner @ s + outside)
    return Estimate(float(np.mean(estimates)), *mean_interval(np.array(estimates), np.array(estimates)))


def diagonal(loss: Loss | LinearOperator, params=None, *, num_products: int = 60, seed: int = 0) -> Estimate:
    """The diagonal of H, or of any other operator, each entry with bounds of its own; exact where products are enough.

    Parameters
    ----------
    loss : from parameters to a number, any JAX function; or an operator, such as a ``HessianOperator``
    params : the pytree of arrays at which H is taken; None for an operator
    num_products : how many, at least 4
    seed : of the random vectors

    Returns
    -------
    Estimate
        Arrays in the order of ``ravel_pytree``.
    """
    operator = as_operator(loss, params)
    if operator.size <= _checked(num_products):
        exact = np.diagonal(operator.dense()).copy()
        return Estimate(exact, exact, exact)
    random, mean, squares = np.random.default_rng(seed), np.zeros(operator.size), np.zeros(operator.size)
    for count in range(1, num_products + 1):
        signs = random.choice([-1.0, 1.0], operator.size)
        product = signs * operator(signs)
        change = product - mean
        mean += change / count
        squares += change * (product - mean)
    wide = stdtrit(num_products - 1, 0.975) * np.sqrt(squares / (num_products - 1) / num_products)
    return Estimate(mean, mean - wide, mean + wide)


def _checked(num_products: int) -> int:
    if num_products < 4:
        raise ValueError(f"num_products must be at least 4; got {num_products!r}")
    return num_products
