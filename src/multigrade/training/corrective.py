"""The fully corrective step: the output layers of all grades solved together.

Grade by grade, every output layer is the best for what the grades before it left over. Together they can only do better
on the training rows: the sum of the grades is linear in all output layers at once.
"""

import jax.numpy as jnp
import numpy as np

from ..least_squares import solve_least_squares
from ..model import Grade, MultiGrade
from ..networks import Layer, Network


def correct_outputs(model: MultiGrade, inputs, targets, *, sample_weight=None, ridge="auto") -> MultiGrade:
    """The model with the output layers of all its grades solved together by least squares, in float64.

    Parameters
    ----------
    model : MultiGrade
        Of plain networks.
    inputs, targets : arrays (N, d), (N, s)
    sample_weight : array (N,), optional
    ridge : float or "auto"
        As in ``solve_least_squares``; "auto" is by leave-one-out. With ridge 0 the training error never rises but for
        rounding: features are known to the precision of the model, so that the ridge is at least that precision times
        their squares. Less would give large coefficients that cancel but for rounding.

    Returns
    -------
    MultiGrade
        The same features; only output layers differ. The last grade has the intercept, the others none.
    """
    if not model.grades or not all(isinstance(grade.network, Network) for grade in model.grades):
        raise ValueError("model must have grades, all of plain networks")
    x = jnp.asarray(inputs, jnp.float32)
    features, blocks = x, []
    for grade in model.grades:
        features = grade.network.hidden(grade.params, features)
        blocks.append(np.asarray(features, np.float64))
    y = np.asarray(targets, np.float64)
    if not isinstance(ridge, str):
        precision = np.finfo(model.grades[0].params[-1].weight.dtype).eps
        ridge = max(ridge, float(precision * sum(np.sum(block**2) for block in blocks)))
    fit = solve_least_squares(np.hstack(blocks), y, weights=sample_weight, ridge=ridge, largest=100 * np.abs(y).max())
    grades, start = [], 0
    for index, (grade, block) in enumerate(zip(model.grades, blocks, strict=True)):
        weight = fit.coefficients[start : start + block.shape[1]] / float(grade.scale)
        is_last = index == len(model.grades) - 1
        bias = (fit.intercept if is_last else np.zeros_like(fit.intercept)) / float(grade.scale)
        old = grade.params[-1]
        layer = Layer(jnp.asarray(weight, old.weight.dtype), jnp.asarray(bias, old.bias.dtype))
        grades.append(Grade(grade.network, (*grade.params[:-1], layer), grade.scale))
        start += block.shape[1]
    return MultiGrade(tuple(grades))
