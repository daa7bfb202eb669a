"""Networks: what a grade is made of. A trunk makes features of inputs, a head makes outputs of features."""

from . import adapters
from .convolutional import ConvolutionalNetwork
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
from .parts import EndToEnd, HasTrainingMode, TrunkAndHead, Variables
from .transformer import TransformerNetwork

Structure = tuple[AnyNetwork, ...]

__all__ = [
    "ACTIVATIONS",
    "WEIGHT_INITS",
    "AnyNetwork",
    "ConvolutionalNetwork",
    "EndToEnd",
    "FourierFeatures",
    "HasTrainingMode",
    "Layer",
    "Members",
    "MultiScaleNetwork",
    "Network",
    "Structure",
    "TransformerNetwork",
    "TrunkAndHead",
    "Variables",
    "adapters",
    "relu",
    "relu_half",
    "tree_sum",
]
