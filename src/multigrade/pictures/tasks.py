"""The tasks: regress, denoise, deblur, inpaint, upsample, and invert for any linear operator.

Each takes a picture, (h, w) or (h, w, channels), floating point from 0 to 1 or uint8 or uint16, makes a ``Problem`` of
it, and gives it to a recipe. No ground truth is needed; the noise level is estimated when it is not given.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .layout import to_channels
from .noise.level import estimate_noise
from .operators import BlockAverage, GaussianBlur, Identity, Mask, Operator
from .operators.function import LinearFunction
from .problem import Options, Problem
from .recipes import recipe_for
from .result import Restored


def regress(image, *, reference=None, options: Options = Options()) -> Restored:  # noqa: B008
    """The image as a function of its coordinates, learned from every second pixel in both directions (Table 1).

    Parameters
    ----------
    image : array
        The other pixels tell how well it was learned, unless there is a ``reference``. Recipes may hold some of them
        out to stop at the right time, as the paper does.
    reference : array, optional
    options : Options

    Returns
    -------
    Restored
    """
    channels = to_channels(image)
    mask = np.zeros(channels.shape[1:], bool)
    mask[::2, ::2] = True
    clean = channels if reference is None else _reference(reference, channels.shape)
    is_grey = np.ndim(image) == 2
    problem = Problem("regress", channels, Identity(), channels.shape, mask=mask, reference=clean, is_grey=is_grey)
    return solve(problem, options)


def denoise(image, *, noise_sigma=None, reference=None, options: Options = Options()) -> Restored:  # noqa: B008
    """Remove Gaussian noise.

    Parameters
    ----------
    image : array
    noise_sigma : float, optional
        Standard deviation of the noise on the 0..255 scale; estimated if not given.
    reference : array, optional
        The clean picture, for PSNR and SSIM.
    options : Options

    Returns
    -------
    Restored
    """
    return _restore("denoise", image, Identity(), noise_sigma, reference, options)


def deblur(image, *, blur_sigma: float, noise_sigma=None, reference=None, options: Options = Options()) -> Restored:  # noqa: B008
    """Undo a Gaussian blur of ``blur_sigma`` pixels (symmetric padding, truncated at 3 sigma).

    For another blur see ``invert``.

    Parameters
    ----------
    image : (h, w) or (h, w, channels)
    blur_sigma : standard deviation of the blur, in pixels
    noise_sigma : standard deviation of the noise on the 0..255 scale; estimated if not given
    reference : the true picture, for PSNR and SSIM
    options : method, recipe, training and limits

    Returns
    -------
    Restored
        The picture, what each grade gave, records and qualities.
    """
    return _restore("deblur", image, GaussianBlur(float(blur_sigma)), noise_sigma, reference, options)


def inpaint(image, mask, *, noise_sigma=None, reference=None, options: Options = Options()) -> Restored:  # noqa: B008
    """Fill in pixels; ``mask`` (h, w) is nonzero where the pixel is known.

    By recipe best there is no noise unless ``noise_sigma`` is given, and known pixels stay as they are.

    Parameters
    ----------
    image : (h, w) or (h, w, channels)
    mask : (h, w), nonzero where a pixel is known
    noise_sigma : standard deviation of the noise on the 0..255 scale; estimated if not given
    reference : the true picture, for PSNR and SSIM
    options : method, recipe, training and limits

    Returns
    -------
    Restored
        The picture, what each grade gave, records and qualities.
    """
    mask, size = np.asarray(mask), np.shape(image)[:2]
    if mask.shape != size:
        raise ValueError(f"mask must have the image's size {size}; got {mask.shape}")
    known = mask != 0
    if not known.any():
        raise ValueError("mask must mark at least one known pixel; it marks none")
    operator = Mask(jnp.asarray(known, jnp.float32))
    return _restore("inpaint", image, operator, noise_sigma, reference, options, mask=known)


def upsample(image, *, factor: int = 2, noise_sigma=None, reference=None, options: Options = Options()) -> Restored:  # noqa: B008
    """An image ``factor`` times as large whose block averages are this one.

    By recipe best there is no noise unless ``noise_sigma`` is given.

    Parameters
    ----------
    image : (h, w) or (h, w, channels)
    factor : how many times as large, each way
    noise_sigma : standard deviation of the noise on the 0..255 scale; estimated if not given
    reference : the true picture, for PSNR and SSIM
    options : method, recipe, training and limits

    Returns
    -------
    Restored
        The picture, what each grade gave, records and qualities.
    """
    if not isinstance(factor, (int, np.integer)) or factor < 2:
        raise ValueError(f"factor must be an integer of at least 2; got {factor!r}")
    _, height, width = to_channels(image).shape
    size = (height * int(factor), width * int(factor))
    return _restore("upsample", image, BlockAverage(int(factor), size), noise_sigma, reference, options, size=size)


def invert(
    observed,
    operator: Callable[[jax.Array], jax.Array],
    *,
    shape: tuple[int, ...],
    noise_sigma: float,
    reference=None,
    options: Options = Options(),  # noqa: B008
) -> Restored:
    """The picture x of ``shape`` whose image under a linear operator was observed: f = A x + noise.

    Parameters
    ----------
    observed : array
        f, of any shape, in units in which a picture goes from 0 to 1.
    operator : callable
        A: a linear JAX function of a picture of ``shape``. Its adjoint comes from ``jax.linear_transpose``.
    shape : tuple of int
        Of the picture: (h, w) or (h, w, channels).
    noise_sigma : float
        Standard deviation of the noise in f times 255. It cannot be estimated without knowing what f is.
    reference : array, optional
        The clean picture, for PSNR and SSIM.
    options : Options
        lambda and beta are those of ||f - A x||^2 / (2 ||A||^2) + total variation; recipe best has its own.

    Returns
    -------
    Restored

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from multigrade import pictures, restore
    >>> clean = pictures.load(":camera").pixels[64:192:4, 160:288:4]  # 32 x 32
    >>> shaken = lambda x: (x + jnp.roll(x, 1, axis=1) + jnp.roll(x, 2, axis=1)) / 3
    >>> options = restore.Options(width=16, layers=1, grades=1, steps=50)
    >>> restore.invert(shaken(clean), shaken, shape=(32, 32), noise_sigma=1, options=options).image.shape
    (32, 32)
    """
    function = _checked_function(operator, tuple(shape))
    observed = _checked_observation(observed, function)
    scale, sigma = function.scale, _checked_noise(noise_sigma)
    problem = Problem(
        "invert", observed / np.float32(scale), function, function.image_shape, noise_sigma=sigma / scale,
        is_grey=len(shape) == 2,
    )  # fmt: skip
    result = solve(_with_reference(problem, reference), options)
    return dataclasses.replace(result, noise_sigma=sigma, operator_norm=scale)


def solve(problem: Problem, options: Options) -> Restored:
    """A problem by the recipe that the options name; without a name, by the first of best and networks that can."""
    return recipe_for(problem.task, problem.size, options).solve(problem, options)


def _restore(task, image, operator: Operator, noise_sigma, reference, options, *, mask=None, size=None) -> Restored:
    observed = to_channels(image)
    if mask is not None:
        observed = np.where(mask, observed, 0)
    given = None if noise_sigma is None else _checked_noise(noise_sigma)
    shape = (len(observed), *(observed.shape[1:] if size is None else size))
    recipe = recipe_for(task, (shape[1], shape[2]), options)  # before the work of an estimate
    if not recipe.reads_noise and _is_grey_in_colour(image) and (reference is None or _is_grey_in_colour(reference)):
        # Its channels have the same noise, of which differences of colours would show nothing.
        one = None if reference is None else np.asarray(reference)[..., 0]
        grey = _restore(task, np.asarray(image)[..., 0], operator, noise_sigma, one, options, mask=mask, size=size)
        stages = tuple(np.stack([stage] * len(observed), axis=-1) for stage in grey.stages)
        return dataclasses.replace(grey, image=stages[-1], stages=stages)
    sigma = given or (estimate_noise(observed, mask) if given is None and recipe.reads_noise else 0.0)
    problem = Problem(task, observed, operator, shape, sigma, given is None, mask, is_grey=np.ndim(image) == 2)
    return recipe.solve(_with_reference(problem, reference), options)


def _is_grey_in_colour(image) -> bool:
    """Whether all channels of an image (h, w, channels) are the same."""
    image = np.asarray(image)
    return image.ndim == 3 and image.shape[2] > 1 and bool(np.all(image == image[..., :1]))


def _with_reference(problem: Problem, reference) -> Problem:
    clean = None if reference is None else _reference(reference, problem.shape)
    return dataclasses.replace(problem, reference=clean)


def _reference(reference, shape: tuple[int, ...]) -> np.ndarray:
    found = to_channels(reference, "reference")
    if found.shape != shape:
        raise ValueError(f"reference must be as the result, {_in_words(shape)}; got {_in_words(found.shape)}")
    return found


def _in_words(shape: tuple[int, ...]) -> str:
    channels, height, width = shape
    return f"{height} x {width} pixels in {'grey' if channels == 1 else 'colour'}"


def _checked_noise(noise_sigma) -> float:
    if not (np.isfinite(noise_sigma) and noise_sigma >= 0):
        raise ValueError(f"noise_sigma must be at least 0 on the 0..255 scale; got {noise_sigma!r}")
    return float(noise_sigma)


def _checked_function(operator, shape: tuple[int, ...]) -> LinearFunction:
    if (
        len(shape) not in (2, 3)
        or not all(isinstance(n, (int, np.integer)) and n > 0 for n in shape)
        or min(shape[:2]) < 2
    ):
        raise ValueError(f"shape must be (h, w) or (h, w, channels) with at least 2 x 2 pixels; got {shape!r}")
    if not callable(operator):
        raise ValueError(f"operator must be a linear JAX function of a picture; got {operator!r}")
    return LinearFunction.of(operator, shape)


def _checked_observation(observed, function: LinearFunction) -> np.ndarray:
    observed = np.asarray(observed)
    expected = jax.eval_shape(function.forward, jax.ShapeDtypeStruct(function.image_shape, np.float32)).shape
    if observed.shape != expected:
        raise ValueError(f"observed must have the shape that the operator gives, {expected}; got {observed.shape}")
    if observed.dtype.kind not in "fiu" or not np.isfinite(observed).all():
        raise ValueError(f"observed must be finite numbers; got {observed.dtype} values, or NaN or infinity among them")
    return observed.astype(np.float32)
