"""A grade that has seen other pictures: convolutions that correct the non-local estimate.

Trained once, by ``python -m benchmarks.train_pictures``, on pictures that are free to use, at all noise levels; the
weights come with the package. It sees what the three passes of ``nonlocal_estimate`` made of the noisy image, all
divided by the noise. There are no biases and one input is constant, so that the correction scales with picture and
noise together: one network serves all levels, for grey pictures and for the brightness of colour ones.

Each grade is a stack of 3 x 3 convolutions with ReLU between them, on blocks of 2 x 2 pixels. A later grade reads the
last hidden layer of the one before, which is frozen, and adds to its correction, as everywhere in this package.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.ndimage import gaussian_filter

from ...files import read_arrays

WEIGHTS = Path(__file__).with_name("learned.safetensors")
LOCAL = 4.0  # pixels; the estimate less its mean over such an area is what is seen of it

Grade = tuple[Array, ...]  # a matrix (9 inputs, outputs) for each convolution


def seen_by(observed: np.ndarray, passes: Sequence[np.ndarray], noise: np.ndarray) -> np.ndarray:
    """(channels, h/2, w/2, 17) of channels with this noise each: four images of four pixels in a block, and a constant.

    Sides are even.
    """
    first, second, third = passes
    local = third - gaussian_filter(third, (0, LOCAL, LOCAL))
    images = np.stack([observed - third, first - third, second - third, local], axis=-1)
    blocks = folded(images / noise[:, None, None, None])
    return np.concatenate([blocks, np.ones((*blocks.shape[:-1], 1), np.float32)], axis=-1)


def folded(images: np.ndarray) -> np.ndarray:
    """(n, h, w, c) -> (n, h/2, w/2, 4c): blocks of 2 x 2 pixels."""
    count, height, width, channels = images.shape
    blocks = images.reshape(count, height // 2, 2, width // 2, 2, channels).swapaxes(2, 3)
    return np.ascontiguousarray(blocks.reshape(count, height // 2, width // 2, 4 * channels), np.float32)


def unfolded(blocks: np.ndarray) -> np.ndarray:
    """(n, h/2, w/2, 4) -> (n, h, w)"""
    count, height, width, _ = blocks.shape
    return blocks.reshape(count, height, width, 2, 2).swapaxes(2, 3).reshape(count, 2 * height, 2 * width)


def hidden(grade: Grade, x: Array) -> Array:
    """The last hidden layer."""
    for matrix in grade[:-1]:
        x = jax.nn.relu(_convolved(matrix, x))
    return x


def corrections(grades: Sequence[Grade], x: Array) -> list[Array]:
    """What each grade adds, in units of the noise."""
    added = []
    for grade in grades:
        x = hidden(grade, x)
        added.append(_convolved(grade[-1], x))
    return added


def _convolved(matrix: Array, x: Array) -> Array:
    kernel = matrix.reshape(3, 3, x.shape[-1], -1)
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def load(path: Path) -> tuple[Grade, ...]:
    """Grades as ``benchmarks/train_pictures.py`` writes them."""
    arrays, about, _ = read_arrays(path, "grades")
    return tuple(
        tuple(jnp.asarray(arrays[f"{grade}.{layer}"]) for layer in range(layers))
        for grade, layers in enumerate(about["layers"])
    )


@functools.cache
def trained() -> tuple[Grade, ...]:
    """The grades that come with the package."""
    return load(WEIGHTS)
