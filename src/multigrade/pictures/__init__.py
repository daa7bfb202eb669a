"""Pictures: reading and writing files, free pictures by name, figures that compare them."""

# ruff: noqa: E402
from ..extras import require

require("pictures")  # before anything that imports them

from .files import Picture, add_blur, add_noise, check_output, load, save

__all__ = ["Picture", "add_blur", "add_noise", "check_output", "load", "save"]
