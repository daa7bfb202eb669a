"""The best recipe for inpainting: wide holes by a mixture of smooth fillings and like patches (``wide_fill``), the
others by plug and play.

There is noise only if its level is given. Without noise, known pixels stay as they are, to the bit.
"""

import jax.numpy as jnp
import numpy as np

from ..baselines import inpaint_biharmonic
from ..inverse.patch_fill import filled, wide_holes
from ..inverse.plug_and_play import plug_and_play
from ..inverse.strengths import choose_strengths
from ..inverse.variational import solve as minimise_over_images
from ..inverse.wide_fill import mixed_fillings
from ..layout import channels_first, channels_last
from ..operators import Mask
from ..problem import Options, Problem
from ..progress import Stopwatch
from ..result import Recipe, Restored, refuse_training, untrained

MOST_BIHARMONIC = 40_000  # unknown pixels; more take minutes
WEIGHT, EDGE = 0.5, 0.05  # of second differences: lambda over that of first ones, lambda / beta; our choice


def solve(problem: Problem, options: Options) -> Restored:
    watch = Stopwatch.started(options.time_limit, options.observers)
    assert problem.mask is not None
    observed, known, noise = problem.observed, problem.mask, problem.noise * problem.is_noisy
    images = {"smooth": _kept(problem, smooth(observed, known, noise))}
    if (wide := wide_holes(known)).any():
        images |= mixed_fillings(images["smooth"], wide, known, _fillings)
        observed, known = np.where(wide, images["mixture"], observed), known | wide
    if noise or not known.all():
        start, mask = list(images.values())[-1], Mask(jnp.asarray(known, jnp.float32))
        image = plug_and_play(observed, mask, noise, start, progress=watch.progress)
        images["non-local"] = _kept(problem, image if noise else np.where(known, observed, image))
    return untrained(problem, images, watch)


def smooth(observed: np.ndarray, known: np.ndarray, noise: float) -> np.ndarray:
    """The minimiser with second differences, which are small where a picture is smooth."""
    mask = Mask(jnp.asarray(known, jnp.float32))
    weight = WEIGHT * choose_strengths(observed, mask, noise).weight
    return minimise_over_images(observed, mask, weight, weight / EDGE, order=2)


def _fillings(image: np.ndarray, hole: np.ndarray) -> dict[str, np.ndarray]:
    """The ways to fill a wide hole of an image without noise."""
    found = {"smooth": smooth(np.where(hole, 0, image), ~hole, 0.0)}
    if hole.sum() <= MOST_BIHARMONIC:
        found["biharmonic"] = np.clip(channels_first(inpaint_biharmonic(channels_last(image), ~hole)), 0, 1)
    if (patches := filled(found["smooth"], hole)) is not None:
        found["patches"] = patches
    return {name: np.where(hole, each, image).astype(np.float32) for name, each in found.items()}


def _kept(problem: Problem, image: np.ndarray) -> np.ndarray:
    """With the known pixels as they were, if there is no noise."""
    assert problem.mask is not None
    return image if problem.is_noisy else np.where(problem.mask, problem.observed, image)


RECIPE = Recipe(solve, lambda options: 0, refuse_training, reads_noise=False)
