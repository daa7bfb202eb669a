"""What happened to a picture before it was observed: linear operators, and any linear JAX function as one."""

from .base import Identity, Operator
from .blur import GaussianBlur, KernelBlur
from .differences import FirstDifferences
from .function import LinearFunction
from .sampling import BlockAverage, Mask

__all__ = [
    "BlockAverage",
    "FirstDifferences",
    "GaussianBlur",
    "Identity",
    "KernelBlur",
    "LinearFunction",
    "Mask",
    "Operator",
]
