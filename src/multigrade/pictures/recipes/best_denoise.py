"""The best recipe for denoising: the estimate for the noise that the picture has.

What the noise is like is read off the picture, unless its level is given (``denoise.denoising``).
"""

from ...training import Fit
from ..denoise.denoising import denoised, describe_noise
from ..graded.model_selection import estimated_psnr
from ..problem import LEAST_SIGMA, Options, Problem
from ..progress import Stopwatch
from ..result import Recipe, Restored, refuse_training, restored


def solve(problem: Problem, options: Options) -> Restored:
    watch = Stopwatch.started(options.time_limit, options.observers)
    given = None if problem.noise_was_estimated else problem.noise * (problem.noise_sigma >= LEAST_SIGMA)
    noise = describe_noise(problem.observed, given)
    found = denoised(problem.observed, noise.times(options.strength), progress=watch.progress)
    estimated = None if found.risk is None else estimated_psnr(found.risk)
    return restored(
        problem, Fit(), list(found.images.values()), "best", names=tuple(found.images), noise_sigma=255 * noise.sigma,
        noise_kind=noise.kind, noise_was_estimated=noise.was_estimated, is_clipped=bool(noise.clipped.any()),
        estimated_psnr=(*[None] * (len(found.images) - 1), estimated), is_cut_short=found.is_cut_short,
        seconds=watch.seconds,
    )  # fmt: skip


RECIPE = Recipe(solve, lambda options: 0, refuse_training, reads_noise=False)
