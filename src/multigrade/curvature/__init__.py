"""Look inside training: the spectrum of the step that is taken, by any optimiser on any JAX loss; safe learning rates.

    spectrum = iteration_spectrum(loss, params, learning_rate=0.06)
    spectrum.smallest[0]                      # below -1: gradient descent oscillates
    stable_learning_rate(loss, params)        # 2 / lambda_max
    map_spectrum(loss, params, optax.adam(1e-3), state).values          # of Adam's own step, complex
    preconditioned_curvature(loss, params, "adam", state).sentence      # inside or outside its threshold

A loss is any function of a pytree of parameters. Make it a ``jax.tree_util.Partial`` of a fixed function and its data
to compile once for many calls. A plain function is compiled once as well, with what it closes over at that moment: if
that changes, make it a ``Partial``, or another function.
"""

from .density import SpectralDensity, spectral_density
from .exponents import ExponentObserver
from .figure import spectrum_figure
from .frequencies import FrequencyErrors, frequency_errors, frequency_figure, frequency_metrics
from .map_spectrum import MapSpectrum, map_spectrum, spectrum_of_map
from .maps import IterationMap, auxiliary_map, optimiser_map
from .observers import EdgeOfStability, SafeRate, SpectrumObserver, StepSpectrum, edge_of_stability
from .preconditioned import (
    NoPreconditioner,
    PreconditionedCurvature,
    Preconditioner,
    preconditioned_curvature,
    preconditioner,
)
from .products import HessianOperator, dense_hessian, hessian_vector_product
from .spectrum import (
    ExtremeEigenvalues,
    IterationSpectrum,
    NotConverged,
    block_eigenvalues,
    extreme_eigenvalues,
    iteration_spectrum,
    largest_eigenvalue,
    sharpness,
    stable_learning_rate,
)
from .tracking import load_spectrum, summarise_spectrum
from .warning import SpikeWarning

__all__ = [
    "EdgeOfStability",
    "ExponentObserver",
    "ExtremeEigenvalues",
    "FrequencyErrors",
    "HessianOperator",
    "IterationMap",
    "IterationSpectrum",
    "MapSpectrum",
    "NoPreconditioner",
    "NotConverged",
    "PreconditionedCurvature",
    "Preconditioner",
    "SafeRate",
    "SpectralDensity",
    "SpectrumObserver",
    "SpikeWarning",
    "StepSpectrum",
    "auxiliary_map",
    "block_eigenvalues",
    "dense_hessian",
    "edge_of_stability",
    "extreme_eigenvalues",
    "frequency_errors",
    "frequency_figure",
    "frequency_metrics",
    "hessian_vector_product",
    "iteration_spectrum",
    "largest_eigenvalue",
    "load_spectrum",
    "map_spectrum",
    "optimiser_map",
    "preconditioned_curvature",
    "preconditioner",
    "sharpness",
    "spectral_density",
    "spectrum_figure",
    "spectrum_of_map",
    "stable_learning_rate",
    "summarise_spectrum",
]
