"""The restoration objective by gradient descent on a small picture, with its spectrum (Section 6, Figures 21-24).

As the authors ran it, which decides about the recorded figures:

    u <- prox(alpha B o + (1 - alpha) u)
    L = 1/2 ||f - g||^2 + beta/2 ||u - B g||^2 + lambda ||u||_1,   g = g_{l-1} + o

with o the output of the current grade, not scaled (epsilon is 1 in every grade), nor added to the earlier grades where
u is moved. The variant "as written" scales each grade by the root mean square of what is left over, moves u by B g, and
is ``RestorationTask`` of the library. The two agree in grade 1.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from multigrade import structures
from multigrade.draws import from_chain, noisy
from multigrade.networks import AnyNetwork
from multigrade.pictures.graded.fitting import images
from multigrade.pictures.graded.restoration import RestorationTask, pixel_coordinates, soft_threshold
from multigrade.pictures.metrics import psnr
from multigrade.pictures.operators import FirstDifferences, Identity
from multigrade.training import Checkpointing, GradeProblem, fingerprint, train_grades

from .. import numbers as paper
from ..images import eigenvalue_subset, shrunk
from ..job import Result
from .context import Context
from .descent import ends, plan_of

DIFFERENCES = FirstDifferences()
AS_WRITTEN = "as written"


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Seen:
    """What one grade sees: features (pixels, d), the noisy picture and that of the earlier grades, (1, h, w)."""

    features: Array
    observed: Array
    before: Array
    weight: Array
    beta: Array
    alpha: Array


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class AsRun:
    """L(Theta, u) after the proximal step on u, which reads the current grade alone."""

    network: AnyNetwork

    def init(self, params, data: Seen) -> Array:
        return jnp.zeros_like(DIFFERENCES(data.before))

    def __call__(self, params, u: Array, data: Seen) -> tuple[Array, Array]:
        u = jax.lax.stop_gradient(self.move(params, u, data))
        return self.at(params, u, data), u

    def value_and_grad(self, params, u: Array, data: Seen):
        return jax.value_and_grad(self.__call__, has_aux=True)(params, u, data)

    def move(self, params, u: Array, data: Seen) -> Array:
        """u after its proximal step."""
        moved = data.alpha * DIFFERENCES(self._output(params, data)) + (1 - data.alpha) * u
        return soft_threshold(moved, data.alpha * data.weight / data.beta)

    def at(self, params, u: Array, data: Seen) -> Array:
        """L(Theta, u) at this very u."""
        picture = data.before + self._output(params, data)
        fit = 0.5 * jnp.sum((data.observed - picture) ** 2)
        coupling = 0.5 * data.beta * jnp.sum((u - DIFFERENCES(picture)) ** 2)
        return fit + coupling + data.weight * jnp.sum(jnp.abs(u))

    def _output(self, params, data: Seen) -> Array:
        return self.network(params, data.features).T.reshape(data.before.shape)


class AsRunTask(RestorationTask):
    """What the grades so far leave to do, by the authors' code."""

    def problem(self, network: AnyNetwork, index: int) -> GradeProblem:
        numbers = (jnp.float32(number) for number in (self.weight, self.beta, self.alpha))
        data = Seen(self.features, self.observed, self.image, *numbers)
        metrics = {"psnr": Partial(_psnr, network, data, self.reference)}
        return GradeProblem(AsRun(network), data, jnp.float32(1), auxiliary=self.auxiliary, metrics=metrics)


def _psnr(network: AnyNetwork, data: Seen, reference: Array, params) -> Array:
    picture = data.before + network(params, data.features).T.reshape(data.before.shape)
    return -10 * jnp.log10(jnp.mean((picture - reference) ** 2))


def denoising_descent(context: Context) -> Result:
    """SGDL or MGDL on a noisy picture, as run or as written."""
    setup = context.setup
    image = shrunk(eigenvalue_subset(setup.image, context.pixels, paper.DENOISING_SPECTRUM_STRIDE), setup.size)
    observed = noisy(image, setup.noise, seed=setup.noise_seed or 0)
    channels = jnp.asarray(observed[None], jnp.float32)
    task = (RestorationTask if setup.variant == AS_WRITTEN else AsRunTask)(
        jnp.asarray(pixel_coordinates(*image.shape)), channels, jnp.zeros_like(channels), Identity(),
        setup.weight, setup.beta, paper.ALPHA, reference=jnp.asarray(image[None], jnp.float32),
    )  # fmt: skip
    structure = from_chain(structures.NAMED[setup.structure], seed=setup.seed, copy=setup.copy)
    identity = {"data": fingerprint(observed), "strengths": (setup.weight, setup.beta), "variant": setup.variant}
    checkpoint = None if context.checkpoint is None else Checkpointing(context.checkpoint, identity=identity)
    fit = train_grades(structure, task, plan_of(context), checkpoint=checkpoint)
    stages = [np.asarray(stage[0], np.float64) for stage in images(fit.model, task)]
    quality = [psnr(stage, image) for stage in stages]
    metrics = {**ends(fit.records), "input_psnr": psnr(observed, image)}
    metrics |= {"test_psnr": quality[-1], "grades_test_psnr": quality}
    pictures = {"input": observed, **{f"grade {k + 1}": stage for k, stage in enumerate(stages)}}
    return Result(metrics, fit.records, {}, {**pictures, "result": stages[-1], "reference": image})
