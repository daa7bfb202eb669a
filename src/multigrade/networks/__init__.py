"""Networks: what a grade is made of. A trunk makes features of inputs, a head makes outputs of features."""

from .dense import (
    ACTIVATIONS,
    WEIGHT_INITS,
    AnyNetwork,
    FourierFeatures,
    Layer,
    Members,
    MultiScaleNetwork,
    Network,
    relu,
    relu_half,
    tree_sum,
)

Structure = tuple[AnyNetwork, ...]

__all__ = [
    "ACTIVATIONS",
    "WEIGHT_INITS",
    "AnyNetwork",
    "FourierFeatures",
    "Layer",
    "Members",
    "MultiScaleNetwork",
    "Network",
    "Structure",
    "relu",
    "relu_half",
    "tree_sum",
]
