"""Any linear operator: the adjoint that JAX derives, and three operators that no class of ours knows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multigrade import pictures, restore
from multigrade.pictures.operators import GaussianBlur
from multigrade.pictures.operators.function import LinearFunction

CAMERA = pictures.load(":camera").pixels[64:192:4, 160:288:4]  # 32 x 32
COFFEE = pictures.load(":coffee").pixels[100:132, 200:232]  # 32 x 32 x 3
SMALL = restore.Options(grades=2, layers=2, width=32, steps=300)


def motion_blur(picture):
    """The mean of seven pixels along a row: a hand that shook while the shutter was open."""
    padded = jnp.pad(picture, ((0, 0), (3, 3)), mode="edge")
    return sum(padded[:, k : k + picture.shape[1]] for k in range(7)) / 7


def bayer(picture):
    """What a sensor sees: one colour at each pixel, red green in even rows, green blue in odd ones."""
    red, green, blue = picture[..., 0], picture[..., 1], picture[..., 2]
    rows, columns = jnp.meshgrid(jnp.arange(picture.shape[0]) % 2, jnp.arange(picture.shape[1]) % 2, indexing="ij")
    return jnp.where(rows == columns, green, jnp.where(rows == 0, red, blue))


def radon(picture, num_angles=24):
    """Sums along lines at equally spaced angles: what a tomograph measures."""
    size = picture.shape[0]
    centre = jnp.arange(size) - (size - 1) / 2
    down, right = jnp.meshgrid(centre, centre, indexing="ij")

    def projection(angle):
        rows = jnp.cos(angle) * down - jnp.sin(angle) * right + (size - 1) / 2
        columns = jnp.sin(angle) * down + jnp.cos(angle) * right + (size - 1) / 2
        return jax.scipy.ndimage.map_coordinates(picture, [rows, columns], order=1).sum(axis=0)

    return jax.vmap(projection)(jnp.arange(num_angles) * jnp.pi / num_angles)


OPERATORS = {
    "motion blur": (motion_blur, (16, 12)),
    "bayer": (bayer, (12, 14, 3)),
    "radon": (radon, (16, 16)),
    "gaussian blur": (GaussianBlur(1.5), (14, 11)),
    "gaussian blur in colour": (GaussianBlur(1.5), (14, 11, 3)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_the_adjoint_is_the_adjoint_and_the_norm_is_one(name):
    function, shape = OPERATORS[name]
    with jax.enable_x64(True):
        operator = LinearFunction.of(function, shape)
        generator = np.random.default_rng(1)
        x = jnp.asarray(generator.normal(size=operator.image_shape))
        y = jnp.asarray(generator.normal(size=operator.forward(x).shape))
        assert float(jnp.vdot(operator.forward(x), y)) == pytest.approx(
            float(jnp.vdot(x, operator.backward(y))), rel=1e-9
        )
        size = int(np.prod(operator.image_shape))
        columns = jax.vmap(operator.forward)(jnp.eye(size).reshape(size, *operator.image_shape))
        largest = np.linalg.norm(np.asarray(columns).reshape(size, -1), ord=2)
    assert largest == pytest.approx(1, rel=0.02)
    assert largest > 0.999


@pytest.mark.parametrize(
    ("function", "clean", "noise", "least_gain"),
    [
        (motion_blur, CAMERA, 2.0, 1.0),
        pytest.param(bayer, COFFEE, 5.0, 0.0, marks=pytest.mark.slow),
        pytest.param(radon, CAMERA, 5.0, 0.0, marks=pytest.mark.slow),
    ],
    ids=["motion blur", "bayer", "radon"],
)
def test_a_picture_is_found_again(function, clean, noise, least_gain):
    """Better than what the adjoint alone, scaled best by ground truth, makes of the observation."""
    observed = np.asarray(function(jnp.asarray(clean, jnp.float32)))
    observed = pictures.add_noise(observed, noise, seed=0)
    result = restore.invert(observed, function, shape=clean.shape, noise_sigma=noise, reference=clean, options=SMALL)
    (back,) = jax.linear_transpose(function, jax.ShapeDtypeStruct(clean.shape, jnp.float32))(jnp.float32(observed))
    back = np.asarray(back, np.float64)
    simple = restore.psnr(back * (back * clean).sum() / (back**2).sum(), clean)
    assert result.result_quality["psnr"] > simple + least_gain
    assert result.noise_sigma == noise
    assert result.image.shape == clean.shape


def test_the_model_is_the_picture_at_pixel_coordinates():
    options = restore.Options(grades=2, layers=1, width=8, steps=20)
    result = restore.invert(CAMERA, lambda x: x, shape=CAMERA.shape, noise_sigma=5, options=options)
    values = np.asarray(result.model(restore.pixel_coordinates(*CAMERA.shape)))[:, 0]
    np.testing.assert_allclose(values, result.image.ravel(), atol=1e-4)


def test_the_papers_objective_takes_any_operator():
    options = restore.Options(recipe="paper", grades=2, layers=1, width=16, steps=200)
    observed = np.asarray(motion_blur(jnp.asarray(CAMERA)))
    result = restore.invert(observed, motion_blur, shape=CAMERA.shape, noise_sigma=1, reference=CAMERA, options=options)
    losses = [record.train_loss[-1] for record in result.records]
    assert losses[1] < losses[0]
    assert "our rule" in result.strengths_from


@pytest.mark.parametrize(
    ("observed", "operator", "shape", "message"),
    [
        (CAMERA, lambda x: x + 1, (32, 32), "must be linear"),
        (CAMERA, jnp.abs, (32, 32), "must be linear"),
        (CAMERA, jnp.zeros_like, (32, 32), "must not be zero"),
        (CAMERA, lambda x: x[:5], (32, 32), r"observed must have the shape that the operator gives, \(5, 32\)"),
        (CAMERA * np.nan, lambda x: x, (32, 32), "observed must be finite"),
        (CAMERA, lambda x: x, (32,), "shape must be"),
        (CAMERA, "blur", (32, 32), "operator must be a linear JAX function"),
    ],
)
def test_a_wrong_argument_is_named(observed, operator, shape, message):
    with pytest.raises(ValueError, match=message):
        restore.invert(observed, operator, shape=shape, noise_sigma=1)
