"""The best recipe for any linear operator: plug and play from the minimiser of the objective over all images.

Where the result is further from the observation than the minimiser and further than the noise, the minimiser is kept:
the steps have not come to rest.
"""

import jax.numpy as jnp
import numpy as np

from ..inverse.plug_and_play import plug_and_play
from ..inverse.strengths import choose_strengths
from ..inverse.variational import solve as minimise_over_images
from ..problem import Options, Problem
from ..progress import Stopwatch
from ..result import Recipe, Restored, refuse_training, untrained

MORE = 1.1  # times the noise: what may be left of the observation


def solve(problem: Problem, options: Options) -> Restored:
    watch = Stopwatch.started(options.time_limit, options.observers)
    strengths = choose_strengths(problem.observed, problem.operator, problem.noise)
    minimiser = minimise_over_images(problem.observed, problem.operator, *strengths, shape=problem.shape)
    image = plug_and_play(problem.observed, problem.operator, problem.noise, minimiser, progress=watch.progress)
    images = {"minimiser": minimiser, "non-local": image}
    if _left(problem, image) > max(_left(problem, minimiser), MORE * problem.noise):
        del images["non-local"]
    return untrained(problem, images, watch)


def _left(problem: Problem, image: np.ndarray) -> float:
    """Root mean square of what the image leaves of the observation; infinite if it is not finite."""
    left = np.asarray(problem.operator.forward(jnp.asarray(image))) - problem.observed
    return float(np.sqrt(np.mean(left**2))) if np.isfinite(left).all() else np.inf


RECIPE = Recipe(solve, lambda options: 0, refuse_training)
