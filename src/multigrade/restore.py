"""Restore a picture: regress, denoise, deblur, inpaint, upsample, or invert any linear operator.

    from multigrade import pictures, restore

    noisy = pictures.load("photo.png").pixels
    result = restore.denoise(noisy)            # result.image, result.noise_sigma

Pictures are (h, w) or (h, w, channels), floating point from 0 to 1 or uint8 or uint16. No clean picture is needed.
Three recipes, by ``Options(recipe=...)``:

best      the best picture for the time; the default where it can do what the other options ask for.
networks  the paper's networks trained our way; the default elsewhere.
paper     the paper's networks trained as in the paper: hours on a laptop for anything but small pictures.
"""

# ruff: noqa: E402
from .extras import require

require("pictures")  # before anything that imports them

from .pictures.graded.restoration import pixel_coordinates
from .pictures.metrics import psnr, ssim
from .pictures.noise.level import estimate_noise_sigma
from .pictures.operators import BlockAverage, GaussianBlur, Identity, KernelBlur, Mask, Operator
from .pictures.problem import Options, Problem
from .pictures.result import Restored, quality
from .pictures.tasks import deblur, denoise, inpaint, invert, regress, upsample

__all__ = [
    "BlockAverage",
    "GaussianBlur",
    "Identity",
    "KernelBlur",
    "Mask",
    "Operator",
    "Options",
    "Problem",
    "Restored",
    "deblur",
    "denoise",
    "estimate_noise_sigma",
    "inpaint",
    "invert",
    "pixel_coordinates",
    "psnr",
    "quality",
    "regress",
    "ssim",
    "upsample",
]
