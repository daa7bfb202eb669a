"""Classical methods for the same tasks, for perspective: what a network has to beat.

Pictures are (h, w) or (h, w, channels), from 0 to 1 or uint8 or uint16, each channel on its own; the non-local methods
and BM3D take the three of a colour picture together. A method with a strength takes it explicitly; left out, it follows
from the noise level by one rule per method, the same for all images, without ground truth. ``tuned`` searches the
strength by ground truth instead: for comparisons only, never for use.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.ndimage import map_coordinates
from skimage.restoration import denoise_nl_means
from skimage.restoration import inpaint_biharmonic as _inpaint_biharmonic

from .colour import decorrelated, recorrelated
from .denoise.nonlocal_estimate import nonlocal_estimate
from .inverse.variational import dct, differences, differences_adjoint, idct
from .layout import channels_first, channels_last, to_unit
from .metrics import psnr
from .noise.level import estimate_noise, estimate_noise_sigma
from .operators import FirstDifferences, GaussianBlur

ORDERS = {"bilinear": 1, "cubic": 3}
# Near the median of the optimal constants on seven free pictures, noise 1 to 50, blur 2 and 5. The powers of the noise
# level are those that the optima follow. Noise here is on the unit scale.
TV_DENOISE_RULE = 0.7  # strength = rule * noise
TV_DEBLUR_RULE = 4.0  # strength = rule * noise^2
WIENER_RULE = 0.5  # strength = rule * noise


# --- Interpolation: regression, upsampling, inpainting -------------------------------------------------------------


def interpolate_grid(samples: np.ndarray, shape: tuple[int, ...], *, kind: str = "bilinear") -> np.ndarray:
    """An image of size ``shape`` from its pixels ``[::2, ::2]``, bilinear or by cubic splines, constant at the edges.

    The paper's regression task without a network: ``interpolate_grid(image[::2, ::2], image.shape)``.

    Parameters
    ----------
    samples : the known pixels, (h, w) or (h, w, channels)
    shape : of the picture that is wanted
    kind : "bilinear" or "cubic"

    Returns
    -------
    array
        Of size ``shape``.
    """
    expected = tuple(-(-size // 2) for size in shape[:2])
    if samples.shape[:2] != expected:
        raise ValueError(f"samples must be {expected}, every second pixel of {shape[:2]}; got {samples.shape[:2]}")
    return _resample(samples, [np.arange(size) / 2 for size in shape[:2]], kind)


def upsample(image: np.ndarray, factor: int, *, kind: str = "bilinear") -> np.ndarray:
    """``factor`` times as many pixels each way; pixel centres placed as ``BlockAverage`` places them.

    Parameters
    ----------
    image : (h, w) or (h, w, channels)
    factor : how many times as large
    kind : "bilinear" or "cubic"

    Returns
    -------
    array
        (factor h, factor w) or (factor h, factor w, channels).
    """
    if not isinstance(factor, int) or factor < 1:
        raise ValueError(f"factor must be an integer of at least 1; got {factor!r}")
    centres = [(np.arange(factor * size) + 0.5) / factor - 0.5 for size in np.shape(image)[:2]]
    return _resample(image, centres, kind)


def _resample(image: np.ndarray, rows_columns: list[np.ndarray], kind: str) -> np.ndarray:
    if kind not in ORDERS:
        raise ValueError(f"kind must be one of {', '.join(ORDERS)}; got {kind!r}")
    grid = np.meshgrid(*rows_columns, indexing="ij")
    return _per_channel(image, lambda c: map_coordinates(c, grid, order=ORDERS[kind], mode="nearest"))


def inpaint_biharmonic(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The pixels where ``mask`` is false filled by the biharmonic equation (scikit-image).

    Parameters
    ----------
    image : (h, w) or (h, w, channels)
    mask : (h, w), nonzero where a pixel is known

    Returns
    -------
    array
        The picture, filled in.
    """
    if mask.shape != image.shape[:2]:
        raise ValueError(f"mask must have the size of the image, {image.shape[:2]}; got {mask.shape}")
    lost = ~np.asarray(mask, bool)
    return _per_channel(image, lambda c: _inpaint_biharmonic(np.where(lost, 0, c), lost))


# --- Denoising -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class RofSolution:
    """An approximate minimiser of the ROF model and how far from the exact one it can be."""

    image: np.ndarray
    rmse_bound: float  # root mean square distance to the exact minimiser is at most this (from the duality gap)
    iterations: int


def tv_denoise(image: np.ndarray, strength: float | None = None, *, noise_sigma: float | None = None) -> np.ndarray:
    """argmin_x 1/2 ||x - image||^2 + strength ||B x||_1: the anisotropic model of Rudin, Osher and Fatemi.

    Parameters
    ----------
    image : array
        (h, w) or (h, w, channels).
    strength : float, optional
        On the unit scale; by the rule of ``tv_denoise_strength`` if not given.
    noise_sigma : float, optional
        For that rule, on the 0..255 scale; estimated if not given.
    """
    image = channels_first(to_unit(image))
    return channels_last(solve_rof(image, _strength(strength, image, noise_sigma, tv_denoise_strength)).image)


def tv_denoise_strength(noise_sigma: float) -> float:
    """The rule: strength = 0.7 noise, noise on the 0..255 scale divided by 255.

    Parameters
    ----------
    noise_sigma : on the 0..255 scale

    Returns
    -------
    float
        On the unit scale.
    """
    return TV_DENOISE_RULE * noise_sigma / 255


def solve_rof(
    image: np.ndarray, strength: float, *, tolerance: float = 1e-3, max_iterations: int = 5000
) -> RofSolution:
    """The same of (..., h, w), until the error bound is ``tolerance``.

    Accelerated projected gradient on the dual (Beck and Teboulle 2009).
    The dual variable p, |p| <= strength, gives x = image - B'p with the duality gap strength ||B x||_1 - <p, B x>,
    and 1/2 ||x - x*||^2 is at most that gap. In the precision of JAX's current mode.

    Parameters
    ----------
    image : (..., h, w) on the unit scale
    strength : of the differences, on the unit scale
    tolerance : of the error bound
    max_iterations : after which the bound reached is what is returned

    Returns
    -------
    RofSolution
        The picture, its error bound and the iterations taken.
    """
    observed = jnp.asarray(image)
    x, bound, iterations = _rof_loop(observed, strength, tolerance, max_iterations)
    return RofSolution(np.asarray(x, np.float64), float(bound), int(iterations))


@jax.jit
def _rof_loop(observed: Array, strength: Array, tolerance: Array, max_iterations: Array):
    differences = FirstDifferences()

    def step(_, state):
        dual, ahead, momentum = state
        ascent = ahead + differences(observed - differences.adjoint(ahead)) / differences.norm() ** 2
        new = jnp.clip(ascent, -strength, strength)
        grown = (1 + jnp.sqrt(1 + 4 * momentum**2)) / 2
        return new, new + (momentum - 1) / grown * (new - dual), grown

    def primal(dual):
        x = observed - differences.adjoint(dual)
        slope = differences(x)
        gap = jnp.sum(strength * jnp.abs(slope) - dual * slope)
        return x, jnp.sqrt(2 * jnp.maximum(gap, 0) / observed.size)

    def round_of_steps(carry):
        state, _, count = carry
        state = jax.lax.fori_loop(0, 20, step, state)
        return state, primal(state[0])[1], count + 20

    zero = jnp.zeros_like(differences(observed))
    start = ((zero, zero, jnp.ones((), observed.dtype)), primal(zero)[1], 0)
    unfinished = lambda carry: (carry[1] > tolerance) & (carry[2] < max_iterations)  # noqa: E731
    state, bound, count = jax.lax.while_loop(unfinished, round_of_steps, start)
    return primal(state[0])[0], bound, count


def nonlocal_denoise(image: np.ndarray, *, noise_sigma: float | None = None) -> np.ndarray:
    """Groups of like patches combined linearly, three passes (``nonlocal_estimate``); colours jointly.

    Parameters
    ----------
    image : (h, w), or (h, w, 3) of red, green and blue.
    noise_sigma : standard deviation of the noise on the 0..255 scale; estimated if not given.
    """
    image = channels_first(to_unit(image))
    channels = image.reshape(-1, *image.shape[-2:])
    sigma = estimate_noise(channels) if noise_sigma is None else noise_sigma
    return channels_last(recorrelated(nonlocal_estimate(decorrelated(channels), sigma / 255)).reshape(image.shape))


def nonlocal_means(image: np.ndarray, *, noise_sigma: float | None = None) -> np.ndarray:
    """Non-local means (Buades, Coll and Morel 2005) by scikit-image, its strength 0.8 noise; colours jointly.

    Parameters
    ----------
    image : (h, w) or (h, w, 3)
    noise_sigma : on the 0..255 scale; estimated if not given

    Returns
    -------
    array
        The picture without noise, on the unit scale.
    """
    image = to_unit(image)
    sigma = (estimate_noise_sigma(image) if noise_sigma is None else noise_sigma) / 255
    settings = {"patch_size": 5, "patch_distance": 6, "h": 0.8 * sigma, "sigma": sigma, "fast_mode": True}
    return denoise_nl_means(image, channel_axis=None if image.ndim == 2 else -1, **settings)


def bm3d_denoise(image: np.ndarray, *, noise_sigma: float | None = None) -> np.ndarray:
    """BM3D (Dabov and others 2007) by its authors' package, for non-commercial use; needs the extra ``bm3d``.

    Parameters
    ----------
    image : (h, w), or (h, w, 3) by its form for colour
    noise_sigma : on the 0..255 scale; estimated if not given

    Returns
    -------
    array
        The picture without noise, on the unit scale.
    """
    try:
        from bm3d import bm3d, bm3d_rgb  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError("BM3D is not installed: pip install 'multigrade[bm3d]' (non-commercial licence)") from None
    image = to_unit(image)
    sigma = (estimate_noise_sigma(image) if noise_sigma is None else noise_sigma) / 255
    if image.ndim == 2:
        return np.asarray(bm3d(image, sigma)).reshape(image.shape)
    return np.asarray(bm3d_rgb(image, sigma))


# --- Deblurring ----------------------------------------------------------------------------------------------------


def wiener(
    image: np.ndarray, blur: GaussianBlur, strength: float | None = None, *, noise_sigma: float | None = None
) -> np.ndarray:
    """argmin_x ||A x - image||^2 + strength ||x||^2, exact in one division: A is diagonal in the DCT-II basis.

    Parameters
    ----------
    image : (h, w) or (h, w, channels)
    blur : the operator A
    strength : of the picture's own size; by ``wiener_strength`` if not given
    noise_sigma : for that rule, on the 0..255 scale; estimated if not given

    Returns
    -------
    array
        The sharper picture.
    """
    image = channels_first(to_unit(image))
    strength = _strength(strength, image, noise_sigma, wiener_strength)
    eigenvalues = blur.eigenvalues((image.shape[-2], image.shape[-1]))
    if strength == 0 and not eigenvalues.all():
        raise ValueError("strength 0 would divide by zero: this blur cannot be inverted")
    return channels_last(idct(eigenvalues / (eigenvalues**2 + strength) * dct(image)))


def wiener_strength(noise_sigma: float) -> float:
    """The rule: strength = 0.5 noise, noise on the 0..255 scale divided by 255.

    Parameters
    ----------
    noise_sigma : on the 0..255 scale

    Returns
    -------
    float
        On the unit scale.
    """
    return WIENER_RULE * noise_sigma / 255


def tv_deblur(
    image: np.ndarray,
    blur: GaussianBlur,
    strength: float | None = None,
    *,
    noise_sigma: float | None = None,
    iterations: int = 100,
    penalty: float = 50.0,
) -> np.ndarray:
    """Approaches argmin_x 1/2 ||A x - image||^2 + strength ||B x||_1 by ADMM on u = B x, exact in x by DCT.

    ``penalty`` times the strength weighs ||u - B x||^2 / 2. The problem is so flat that the objective settles long
    before the image does, and the image gets worse on the way: on the paper's Butterfly, blur 3, 27.0 dB after 20
    iterations, 26.1 dB in the limit. The default 100 iterations are part of the method.

    Parameters
    ----------
    image : (h, w) or (h, w, channels)
    blur : the operator A
    strength : of the differences, on the unit scale; by ``tv_deblur_strength`` if not given
    noise_sigma : for that rule, on the 0..255 scale; estimated if not given
    iterations : of ADMM
    penalty : of ADMM, in strengths

    Returns
    -------
    array
        The sharper picture.
    """
    image = to_unit(image)
    strength = _strength(strength, channels_first(image), noise_sigma, tv_deblur_strength)
    if strength == 0:
        return wiener(image, blur, 0.0)
    image, size = channels_first(image), (image.shape[0], image.shape[1])
    eigenvalues, normal = blur.eigenvalues(size), FirstDifferences().normal_eigenvalues(size)
    rho, limit = np.asarray(penalty * strength, image.dtype), np.asarray(1 / penalty, image.dtype)
    inverse = (1 / (eigenvalues**2 + rho * normal)).astype(image.dtype)
    data = eigenvalues.astype(image.dtype) * dct(image)
    split = scaled_dual = np.zeros((2, *image.shape), image.dtype)
    x = image
    for _ in range(iterations):
        x = idct(inverse * (data + rho * dct(differences_adjoint(split - scaled_dual))))
        # Over-relaxation by 1.8 (Boyd and others 2011, Section 3.4.3).
        shifted = 1.8 * differences(x) - 0.8 * split + scaled_dual
        scaled_dual = np.clip(shifted, -limit, limit)
        split = shifted - scaled_dual
    return channels_last(x)


def tv_deblur_strength(noise_sigma: float) -> float:
    """The rule: strength = 4 noise^2, noise on the 0..255 scale divided by 255.

    Parameters
    ----------
    noise_sigma : on the 0..255 scale

    Returns
    -------
    float
        On the unit scale.
    """
    return TV_DEBLUR_RULE * (noise_sigma / 255) ** 2


# --- Strengths -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Tuned:
    """A baseline at its best by ground truth: an upper limit, not something a user without a reference can have."""

    image: np.ndarray
    strength: float
    psnr: float


def tuned(
    method: Callable[[float], np.ndarray], reference: np.ndarray, start: float, *, precision: float = 1.1
) -> Tuned:
    """The strength with the best PSNR against ``reference``, by hill climbing in factors from ``start``.

    The factor begins at 2 and is halved (on the log scale) until below ``precision``.

    Parameters
    ----------
    method : from a strength to a picture
    reference : the truth
    start : the first strength
    precision : the factor at which the search ends

    Returns
    -------
    Tuned
        Strength, picture and PSNR: an upper limit for who cannot see the truth.

    Examples
    --------
    >>> tuned(lambda strength: tv_denoise(noisy, strength), clean, 0.03)  # doctest: +SKIP
    """

    def attempt(strength: float) -> Tuned:
        image = method(strength)
        return Tuned(image, strength, psnr(image, reference))

    best, factor = attempt(start), 2.0
    while factor > precision:
        for direction in (factor, 1 / factor):
            while (candidate := attempt(best.strength * direction)).psnr > best.psnr:
                best = candidate
        factor **= 0.5
    return best


def _strength(strength: float | None, image: np.ndarray, noise_sigma: float | None, rule) -> float:
    if strength is not None:
        if not 0 <= strength < np.inf:
            raise ValueError(f"strength must be at least 0; got {strength!r}")
        return float(strength)
    if noise_sigma is not None and not 0 <= noise_sigma < np.inf:
        raise ValueError(f"noise_sigma must be at least 0 on the 0..255 scale; got {noise_sigma!r}")
    return rule(estimate_noise(image) if noise_sigma is None else noise_sigma)


def _per_channel(image: np.ndarray, method: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    image = channels_first(to_unit(image))
    results = [method(channel) for channel in image.reshape(-1, *image.shape[-2:])]
    return channels_last(np.stack(results).reshape(*image.shape[:-2], *results[0].shape))
