"""Look inside training: the Hessian H of any JAX loss, the spectrum of I - eta H, safe learning rates.

    spectrum = iteration_spectrum(loss, params, learning_rate=0.06)
    spectrum.smallest[0]                      # below -1: gradient descent oscillates
    stable_learning_rate(loss, params)        # 2 / lambda_max

A loss is any function of a pytree of parameters. Make it a ``jax.tree_util.Partial`` of a fixed function and its data
to compile once for many calls. A plain function is compiled once as well, with what it closes over at that moment: if
that changes, make it a ``Partial``, or another function.
"""

from .density import SpectralDensity, spectral_density
from .observers import EdgeOfStability, SafeRate, SpectrumObserver, edge_of_stability
from .products import dense_hessian, hessian_vector_product
from .relu_hessian import DenoisingError, Derivatives, SquaredError, relu_hessian
from .spectrum import (
    ExtremeEigenvalues,
    IterationSpectrum,
    NotConverged,
    block_eigenvalues,
    extreme_eigenvalues,
    iteration_spectrum,
    largest_eigenvalue,
    sharpness,
)
from .stability import LinearisedDescent, RateCheck, check_learning_rate, linearised_descent, stable_learning_rate
from .tracking import load_spectrum, summarise_spectrum

__all__ = [
    "DenoisingError",
    "Derivatives",
    "EdgeOfStability",
    "ExtremeEigenvalues",
    "IterationSpectrum",
    "LinearisedDescent",
    "NotConverged",
    "RateCheck",
    "SafeRate",
    "SpectralDensity",
    "SpectrumObserver",
    "SquaredError",
    "block_eigenvalues",
    "check_learning_rate",
    "dense_hessian",
    "edge_of_stability",
    "extreme_eigenvalues",
    "hessian_vector_product",
    "iteration_spectrum",
    "largest_eigenvalue",
    "linearised_descent",
    "load_spectrum",
    "relu_hessian",
    "sharpness",
    "spectral_density",
    "stable_learning_rate",
    "summarise_spectrum",
]
