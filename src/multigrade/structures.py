"""Network structures as tuples of networks, one per grade; the paper's own by name (Appendix D).

SGDL is a structure of one grade, so one function trains everything: ``fit_grades(structures.MGDL_2, ...)``.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from .networks import (
    ConvolutionalNetwork,
    FourierFeatures,
    MultiScaleNetwork,
    Network,
    Structure,
    TransformerNetwork,
)


def graded(
    inputs: int,
    hidden: Sequence[Sequence[int]],
    outputs: int,
    *,
    activation: str | Sequence[str] = "relu",
    encoding: FourierFeatures | None = None,
    weight_init: str = "he",
    bias_std: float = 0.0,
) -> tuple[Network, ...]:
    """A structure from the hidden widths of each grade; grade l + 1 reads the last hidden layer of grade l.

    ``activation`` may differ from grade to grade; ``encoding`` is applied to the input of grade 1.

    Examples
    --------
    >>> [network.widths for network in graded(1, [(32,), (32, 16)], 1)]
    [(1, 32, 1), (32, 32, 16, 1)]
    """
    if not hidden or not all(isinstance(layers, Sequence) and layers for layers in hidden):
        raise ValueError(f"hidden must name at least one grade with a tuple of one or more widths each; got {hidden!r}")
    names = (activation,) * len(hidden) if isinstance(activation, str) else tuple(activation)
    if len(names) != len(hidden):
        raise ValueError(f"activation must be one name or one per grade ({len(hidden)}); got {activation!r}")
    networks, width = [], inputs
    for layers, name in zip(hidden, names, strict=True):
        widths = (width, *layers, outputs)
        networks.append(Network(widths, name, weight_init, bias_std, None if networks else encoding))
        width = layers[-1]
    return tuple(networks)


def convolutional(
    inputs: int, channels: Sequence[Sequence[int]], outputs: int, **options
) -> tuple[ConvolutionalNetwork, ...]:
    """Convolutional grades from the channels of each; every one halves the size of the picture, unless ``pool=False``.

    Parameters
    ----------
    inputs : channels of the pictures, (rows, height, width, inputs)
    channels : of the 3 x 3 convolutions of each grade
    outputs : numbers of each row that are sought
    **options : of ``ConvolutionalNetwork``: norm, pool, is_residual, dropout, cells

    Returns
    -------
    tuple of ConvolutionalNetwork

    Examples
    --------
    >>> [network.inputs for network in convolutional(1, [(16, 16), (32, 32)], 10)]
    [1, 16]
    """
    before = [inputs, *(grade[-1] for grade in channels)]
    return tuple(ConvolutionalNetwork(n, tuple(c), outputs, **options) for n, c in zip(before, channels, strict=False))


def transformer(inputs: int, width: int, num_grades: int, outputs: int, **options) -> tuple[TransformerNetwork, ...]:
    """Grades of transformer blocks over (rows, length, inputs); the first maps the inputs and knows the positions.

    Parameters
    ----------
    inputs : numbers at each position
    width : of the features
    num_grades : how many
    outputs : numbers of each row that are sought
    **options : of ``TransformerNetwork``: heads, blocks (of each grade), is_causal, reads, dropout

    Returns
    -------
    tuple of TransformerNetwork
    """
    first = TransformerNetwork(inputs, width, outputs, **options)
    later = TransformerNetwork(width, width, outputs, is_first=False, **options)
    return (first, *[later] * (num_grades - 1))


def total_depth(structure: Sequence[Network | MultiScaleNetwork]) -> int:
    """D of the network that the grades form together: sum of D_l = D + L - 1."""
    return sum(network.depth for network in structure) - len(structure) + 1


def with_init(structure: Structure, *, weight_init: str, bias_std: float) -> Structure:
    """The same structure with other initial weights; the paper's image runs use Glorot-normal and biases of 0.01."""

    def changed(network):
        if isinstance(network, MultiScaleNetwork):
            return dataclasses.replace(network, sub=changed(network.sub))
        return dataclasses.replace(network, weight_init=weight_init, bias_std=bias_std)

    return tuple(changed(network) for network in structure)


# Appendix D.
SGDL_1, MGDL_1 = graded(1, [(32,) * 4], 1), graded(1, [(32,)] * 4, 1)
SGDL_2, MGDL_2 = graded(2, [(128,) * 8], 1), graded(2, [(128,) * 2] * 4, 1)
SGDL_3, MGDL_3 = graded(2, [(128,) * 12], 1), graded(2, [(128,) * 3] * 4, 1)
SGDL_4, MGDL_4 = graded(2, [(48,) * 4], 1), graded(2, [(48,)] * 4, 1)
MSDL: Structure = (MultiScaleNetwork(Network((1, 8, 8, 8, 8, 1)), (1.0, 2.0, 4.0, 8.0)),)

PAPER: dict[str, tuple[Any, ...]] = {
    "SGDL-1": SGDL_1, "SGDL-2": SGDL_2, "SGDL-3": SGDL_3, "SGDL-4": SGDL_4,
    "MGDL-1": MGDL_1, "MGDL-2": MGDL_2, "MGDL-3": MGDL_3, "MGDL-4": MGDL_4, "MSDL": MSDL,
}  # fmt: skip
# Section 7 suggests compactly supported activations for MSDL and does not try them.
BEYOND: dict[str, Structure] = {
    f"MSDL-{name}": (MultiScaleNetwork(Network((1, 8, 8, 8, 8, 1), name), (1.0, 2.0, 4.0, 8.0)),)
    for name in ("srelu", "s2relu", "bspline")
}
NAMED = {**PAPER, **BEYOND}
