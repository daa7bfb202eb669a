"""The numbers of the paper's image experiments that its recipes need (Section 4, Appendix C).

"Recorded" is what the public code and the recorded runs of the authors say where the paper is silent. Initial
weights are the authors' own, the same in every grade: ``draws.from_stax``.
"""

from typing import NamedTuple


class Training(NamedTuple):
    """How a network, or each grade, is trained."""

    steps: int
    learning_rate: float
    record_every: int = 10


REGRESSION = Training(10_000, 1e-3)  # recorded; the rate used for each image is not
STOPPING_WINDOW = 20  # records of the stopping rule; recorded
REGRESSION_TOLERANCE = 1e-4  # of the stopping rule; recorded
RESTORATION = Training(20_000, 5e-3, 100)  # steps and records: recorded; rate: the recorded winners', Butterfly
RESTORATION_STRUCTURE = 3  # SGDL-3 and MGDL-3
ALPHA = 0.99  # of the proximal step, Appendix C
# beta and lambda of the recorded winners: Butterfly at noise 10, and at blur 3. The others are not given.
STRENGTHS = {
    ("denoise", "SGDL"): (0.1, 1e-4), ("denoise", "MGDL"): (1.0, 1e-2),
    ("deblur", "SGDL"): (0.1, 0.1), ("deblur", "MGDL"): (1e-2, 0.1),
}  # fmt: skip
STRENGTHS_NOISE = 10  # of the recorded winner in denoising


def strengths(task: str, method: str, noise_sigma: float) -> tuple[float, float]:
    """beta and lambda of denoising or deblurring for a noise level on the 0..255 scale.

    Our choice beyond the recorded winners: the same beta, and lambda in proportion to the noise; in deblurring, where
    the paper's noise is always 3, the same lambda.
    """
    beta, weight = STRENGTHS[task, method]
    return beta, weight * (noise_sigma / STRENGTHS_NOISE if task == "denoise" else 1)
