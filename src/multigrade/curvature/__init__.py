"""Look inside training: the spectrum of the step that is taken, by any optimiser on any JAX loss; safe learning rates.

    spectrum = iteration_spectrum(loss, params, learning_rate=0.06)
    spectrum.smallest[0]                      # below -1: gradient descent oscillates
    stable_learning_rate(loss, params)        # 2 / lambda_max
    map_spectrum(loss, params, optax.adam(1e-3), state).values          # of Adam's own step, complex
    preconditioned_curvature(loss, params, "adam", state).sentence      # inside or outside its threshold

A loss is any function of a pytree of parameters. What it closes over is read at every call, and it is compiled again
only where its program is another one. A function that was compiled by the caller (``jax.jit`` inside the loss) keeps
what it closed over when it was, as JAX has it.
"""

from .density import SpectralDensity, spectral_density
from .exponents import ExponentObserver, lyapunov_exponents
from .figure import spectrum_figure
from .frequencies import FrequencyErrors, frequency_errors, frequency_figure, frequency_metrics
from .map_spectrum import MapSpectrum, map_spectrum, spectrum_of_map
from .maps import IterationMap, auxiliary_map, optimiser_map
from .observers import EdgeOfStability, SafeRate, SpectrumObserver, StepSpectrum, edge_of_stability, look
from .preconditioned import (
    NoPreconditioner,
    PreconditionedCurvature,
    Preconditioner,
    preconditioned_curvature,
    preconditioner,
)
from .products import (
    DifferenceOperator,
    HessianOperator,
    Operator,
    dense_hessian,
    empirical_fisher,
    gauss_newton,
    hessian_vector_product,
)
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
from .traces import Estimate, diagonal, trace
from .tracking import load_spectrum, summarise_spectrum
from .warning import SpikeWarning

__all__ = [
    "DifferenceOperator",
    "EdgeOfStability",
    "Estimate",
    "ExponentObserver",
    "ExtremeEigenvalues",
    "FrequencyErrors",
    "HessianOperator",
    "IterationMap",
    "IterationSpectrum",
    "MapSpectrum",
    "NoPreconditioner",
    "NotConverged",
    "Operator",
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
    "diagonal",
    "edge_of_stability",
    "empirical_fisher",
    "extreme_eigenvalues",
    "frequency_errors",
    "frequency_figure",
    "frequency_metrics",
    "gauss_newton",
    "hessian_vector_product",
    "iteration_spectrum",
    "largest_eigenvalue",
    "load_spectrum",
    "look",
    "lyapunov_exponents",
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
    "trace",
]
