"""Plug and play: any linear observation f = A x + noise, with the non-local estimate in place of a prior.

Two steps in turn, at levels t_1 > t_2 > ... of noise that is only supposed to be there (half-quadratic splitting;
Venkatakrishnan, Bouman and Wohlberg 2013, Zhang and others 2021):

    x_k = argmin_x ||f - A x||^2 + C (s / t_k)^2 ||x - z_k||^2         what the observation says
    z_k+1 = one pass of ``nonlocal_estimate`` over x_k, noise t_k      what like patches of z_k say

s is the noise of f, at least that of rounding to eight bits. The levels fall by equal factors from FIRST to LAST, so
that the number of steps is fixed. At the last level the result leans towards what patches say where there is noise
(C s^2 above t^2), and meets the observation where there is none. One rule serves all operators and noise from 0 to 25.
Its numbers were chosen on two free pictures of 128 x 128 pixels (camera and astronaut of scikit-image), which were
blurred, thinned out and made smaller.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.sparse.linalg import cg

from ..colour import decorrelated, recorrelated
from ..denoise.nonlocal_estimate import COUNT, SIDE, from_guide, one_pass
from ..operators import Operator
from ..progress import OutOfTime, Progress, part_of, unheard
from ..tiles import tiled
from .variational import dct, idct

FIRST, LAST, STEPS = 30 / 255, 2 / 255, 24  # noise that the denoiser is given, falling in so many steps; our choice
STRENGTH = 0.25  # C
ROUNDING = 12**-0.5 / 255  # standard deviation of what is lost by rounding to eight bits
STRIDE = 6  # pixels between the patches that are matched; what one step misses is covered by the next
CG_STEPS = 30  # of conjugate gradients where no transform inverts the operator


def plug_and_play(
    observed: np.ndarray,
    operator: Operator,
    noise: float,
    start: np.ndarray,
    *,
    progress: Progress = unheard,
) -> np.ndarray:
    """The image (channels, h, w) after all levels, or those that there was time for.

    Parameters
    ----------
    observed : f, as ``operator`` gives it.
    noise : s, on the unit scale.
    start : (channels, h, w), z_1: a smooth image that is about right.
    progress : called with the share that is done; if it raises ``OutOfTime``, the image so far is the result.
    """
    coupling = STRENGTH * max(noise, ROUNDING) ** 2
    image = guide = start
    try:
        for step, level in enumerate(np.geomspace(FIRST, LAST, STEPS)):
            progress(step / STEPS)
            image = consistent(observed, operator, guide, coupling / level**2)
            guide = smoothed(image, guide, level, part_of(progress, step / STEPS, (step + 1) / STEPS))
    except OutOfTime:
        return image
    return consistent(observed, operator, guide, coupling / LAST**2)


def smoothed(image: np.ndarray, guide: np.ndarray, level: float, progress: Progress = unheard) -> np.ndarray:
    """One non-local pass over ``image``, with the groups and the model of ``guide``; colours jointly."""
    channels, height, width = image.shape
    both = np.concatenate([decorrelated(image), decorrelated(guide)])
    wide = [(0, max(SIDE + 1 - size, 0)) for size in (height, width)]
    both = np.pad(both, ((0, 0), *wide), mode="symmetric")
    noise = np.full(channels, level, np.float32)

    def estimate(part: np.ndarray, progress: Progress) -> np.ndarray:
        own, guide = part[:channels], part[channels:]
        return one_pass(own, guide, noise, SIDE, COUNT, from_guide, stride=STRIDE, progress=progress)

    return recorrelated(tiled(estimate, both, progress=progress)[:, :height, :width])


def consistent(observed: np.ndarray, operator: Operator, image: np.ndarray, coupling: float) -> np.ndarray:
    """argmin_x ||f - A x||^2 + coupling ||x - image||^2: one division where A is diagonal in the DCT basis, conjugate
    gradients elsewhere. For masks and block averages, A'A has two eigenvalues, so two steps of them are exact."""
    spectrum = operator.eigenvalues((image.shape[-2], image.shape[-1]))
    if spectrum is None:
        return np.asarray(_conjugate_gradients(operator, observed, image, np.float32(coupling)))
    return idct((spectrum * dct(observed) + coupling * dct(image)) / (spectrum**2 + coupling)).astype(np.float32)


@jax.jit
def _conjugate_gradients(operator: Operator, observed, image, coupling):
    """Of the difference from ``image``."""

    def normal(x):
        return operator.backward(operator.forward(x)) + coupling * x

    left = operator.backward(observed - operator.forward(jnp.asarray(image)))
    return image + cg(normal, left, maxiter=CG_STEPS)[0]
