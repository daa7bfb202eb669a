"""Total-variation restoration of an image by grades (Appendix C): the objective, and the task that carries it on.

    L(Theta, u) = 1/2 ||f - A g||^2 + beta/2 ||u - B g||^2 + lambda ||u||_1,   g = g_{l-1} + epsilon_l N_l(Theta; x_l)

with A the operator that degraded the picture, B first differences, and g_{l-1} the image of the earlier grades. One
iteration is a proximal step on u followed by an optimiser step on Theta; both see one forward pass of the network.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from ...model import Grade, apply_grade
from ...networks import AnyNetwork, Layer
from ...training.grades import GradeProblem
from ..operators import FirstDifferences, Operator
from .active_neurons import active_features, apply_active, pull_back

DIFFERENCES = FirstDifferences()


class ImageData(NamedTuple):
    """All that the objective of one grade sees. Images are (channels, h, w); features have one row per pixel."""

    features: Array
    active: Array | None  # which features of the earlier grade these are, None for all: the others are 0 at all pixels
    observed: Array
    before: Array  # the image of the earlier grades
    operator: Operator
    scale: Array  # epsilon_l
    weight: Array  # lambda
    beta: Array
    alpha: Array

    def reading(self, params):
        """The parameters of a network that reads these features alone."""
        if self.active is None:
            return params
        (weight, bias), *others = params
        return (Layer(weight[self.active], bias), *others)

    def image(self, values: Array) -> Array:
        """g = g_{l-1} + epsilon_l N_l, from the network's values at all pixels."""
        return self.before + self.scale * values.T.reshape(self.before.shape)


def soft_threshold(x: Array, threshold: Array) -> Array:
    """prox of threshold ||.||_1: shrink every entry towards 0 by the threshold."""
    return jnp.sign(x) * jnp.maximum(jnp.abs(x) - threshold, 0)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Restoration:
    """L(Theta, u) after the proximal step on u, eq. (regression SGDL: prox update u):

    u <- prox_{alpha lambda / beta ||.||_1}(alpha B g + (1 - alpha) u)
    """

    network: AnyNetwork

    def init(self, params, data: ImageData) -> Array:
        """u before the first iteration of the first grade: 0, as in the paper's runs, as precise as the image."""
        return jnp.zeros_like(DIFFERENCES(data.before), jnp.result_type(data.before, *jax.tree.leaves(params)))

    def __call__(self, params, u: Array, data: ImageData) -> tuple[Array, Array]:
        return self._of_values(apply_active(self.network, data.reading(params), data.features)[0], u, data)

    def value_and_grad(self, params, u: Array, data: ImageData):
        part, widen = jax.vjp(data.reading, params)
        values, active = apply_active(self.network, part, data.features)
        result, slopes = jax.value_and_grad(self._of_values, has_aux=True)(values, u, data)
        return result, widen(pull_back(self.network, part, data.features, slopes, active))[0]

    def _of_values(self, values: Array, u: Array, data: ImageData) -> tuple[Array, Array]:
        image = data.image(values)
        differences = DIFFERENCES(image)
        u = jax.lax.stop_gradient(_proximal(differences, u, data))
        return _value(image, differences, u, data), u

    def move(self, params, u: Array, data: ImageData) -> Array:
        """u after its proximal step, as a function of both that can be differentiated."""
        return _proximal(DIFFERENCES(data.image(self.network(data.reading(params), data.features))), u, data)

    def at(self, params, u: Array, data: ImageData) -> Array:
        """L(Theta, u) at this very u."""
        image = data.image(self.network(data.reading(params), data.features))
        return _value(image, DIFFERENCES(image), u, data)


def _proximal(differences: Array, u: Array, data: ImageData) -> Array:
    moved = data.alpha * differences + (1 - data.alpha) * u
    return soft_threshold(moved, data.alpha * data.weight / data.beta)


def _value(image: Array, differences: Array, u: Array, data: ImageData) -> Array:
    fit = 0.5 * jnp.sum((data.observed - data.operator.forward(image)) ** 2)
    coupling = 0.5 * data.beta * jnp.sum((u - differences) ** 2)
    return fit + coupling + data.weight * jnp.sum(jnp.abs(u))


def pixel_coordinates(height: int, width: int) -> np.ndarray:
    """Coordinates of all pixels, row by row: (x, y) in [0, 1) with the end point left out.

    Parameters
    ----------
    height : rows of the picture
    width : columns of the picture

    Returns
    -------
    array
        (height * width, 2).
    """
    x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    return np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class RestorationTask:
    """What the grades so far leave to do: features of all pixels, their image, and u."""

    features: Array
    observed: Array
    image: Array
    operator: Operator
    weight: float
    beta: float
    alpha: float
    auxiliary: Any = None
    reference: Array | None = None

    def problem(self, network: AnyNetwork, index: int) -> GradeProblem:
        # epsilon_{l+1}, the root mean square of what the image leaves of the observation, as the operator measures it.
        scale = self.operator.distance(self.image, self.observed) if index else jnp.float32(1)
        numbers = (jnp.float32(number) for number in (self.weight, self.beta, self.alpha))
        active = active_features(network, self.features)
        features = self.features if active is None else self.features[:, active]
        data = ImageData(features, active, self.observed, self.image, self.operator, scale, *numbers)
        metrics = {}
        if self.reference is not None:
            metrics["psnr"] = Partial(_psnr, network, data, self.reference)
        return GradeProblem(Restoration(network), data, scale, auxiliary=self.auxiliary, metrics=metrics)

    def after(self, grade: Grade, auxiliary) -> "RestorationTask":
        added, features = apply_in_blocks(grade, self.features, self.image.shape)
        return dataclasses.replace(self, features=features, image=self.image + added, auxiliary=auxiliary)


def _psnr(network, data: ImageData, reference: Array, params) -> Array:
    values, _ = apply_active(network, data.reading(params), data.features)
    return -10 * jnp.log10(jnp.mean((data.image(values) - reference) ** 2))


def apply_in_blocks(grade: Grade, features: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """What a grade adds to the image, and the features that the next grade reads; few pixels at a time."""
    rows = 2**16
    parts = [apply_grade(grade, features[start : start + rows]) for start in range(0, len(features), rows)]
    added = jnp.concatenate([part[0] for part in parts])
    return added.T.reshape(shape), jnp.concatenate([part[1] for part in parts])
