"""Restore an image: regress, denoise, deblur, inpaint, upsample. No ground truth is needed."""

from .recipes import Options
from .tasks import Restored, deblur, denoise, inpaint, quality, regress, upsample

__all__ = ["Options", "Restored", "deblur", "denoise", "inpaint", "quality", "regress", "upsample"]
