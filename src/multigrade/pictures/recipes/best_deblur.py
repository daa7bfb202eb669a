"""The best recipe for Gaussian blur: plug and play around the exact inverse of the blur, from the minimiser.

The method is rehearsed first, on a copy of the minimiser of half the size, blurred and made noisy as the observation
was: a copy is as sharp, for its size, as the picture that is sought. Where it does not come nearer to the copy than the
minimiser does, the minimiser is the result.
"""

import jax.numpy as jnp
import numpy as np

from ...training import Fit
from ..inverse.plug_and_play import plug_and_play
from ..inverse.strengths import choose_strengths
from ..inverse.variational import objective
from ..inverse.variational import solve as minimise_over_images
from ..problem import Options, Problem
from ..progress import Stopwatch, part_of
from ..result import Recipe, Restored, restored
from ..scales import smaller

LEAST_SIDE = 64  # pixels, for there to be smaller copies
REHEARSAL, REHEARSED = 2.0, 0.2  # how much smaller the copy is; the share of the time that it takes


def solve(problem: Problem, options: Options) -> Restored:
    watch = Stopwatch.started(options.time_limit, options.observers)
    observed, operator, noise = problem.observed, problem.operator, problem.noise
    strengths = choose_strengths(observed, operator, noise).unless_given(options)
    minimiser = minimise_over_images(observed, operator, *strengths, shape=problem.shape)
    images = {"minimiser": minimiser}

    def is_rehearsed() -> bool:
        """Whether plug and play is nearer than the minimiser to a smaller copy of it, blurred and made noisy."""
        clean = smaller(minimiser, REHEARSAL)
        random = np.random.default_rng(0).standard_normal(clean.shape, np.float32)
        copy = np.asarray(operator.forward(jnp.asarray(clean))) + np.float32(noise) * random
        start = minimise_over_images(copy, operator, *strengths)
        image = plug_and_play(copy, operator, noise, start, progress=part_of(watch.progress, 0, REHEARSED))
        return bool(np.mean((image - clean) ** 2) <= np.mean((start - clean) ** 2))

    if not watch.is_over and is_rehearsed():
        images["non-local"] = plug_and_play(
            observed, operator, noise, minimiser, progress=part_of(watch.progress, REHEARSED, 1)
        )
    image = list(images.values())[-1]
    return restored(
        problem, Fit(), list(images.values()), "best", names=tuple(images), noise_sigma=problem.noise_sigma,
        noise_was_estimated=problem.noise_was_estimated, weight=strengths.weight, beta=strengths.beta,
        objective=objective(np.float32(image), observed, operator, *strengths), is_minimiser=len(images) == 1,
        is_cut_short=len(images) > 1 and watch.is_over, seconds=watch.seconds,
    )  # fmt: skip


def refusal(size: tuple[int, int], options: Options) -> str | None:
    if options.asks_for_grades:
        return "recipe best trains no grades for deblurring: leave grades, layers, width, steps and learning rate out"
    if min(size) < LEAST_SIDE:
        found = f"{size[0]} x {size[1]}"
        return f"recipe best needs pictures of at least {LEAST_SIDE} pixels a side for deblurring; got {found}"
    return None


RECIPE = Recipe(solve, lambda options: 0, refusal)
