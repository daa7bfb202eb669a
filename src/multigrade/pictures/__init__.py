"""Pictures: reading and writing files, free pictures by name, figures that compare them."""

from .files import Picture, add_blur, add_noise, check_output, load, save

__all__ = ["Picture", "add_blur", "add_noise", "check_output", "load", "save"]
