"""One table of operators, one of sizes, one of laws; everything in float64, where the laws are exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.fft
import scipy.ndimage

from multigrade.pictures.operators import BlockAverage, FirstDifferences, GaussianBlur, Identity, KernelBlur, Mask

SEED = 3
SIZES = [(12, 9), (1, 9), (9, 1), (5, 131)]
DENSE_SIZES = SIZES[:3]


def uneven_kernel():
    return np.random.default_rng(SEED).normal(size=(5, 3))


def some_mask(size):
    keep = np.random.default_rng(SEED).random(size) < 0.6
    keep[0, 0] = True
    return Mask(keep)


OPERATORS = {
    "identity": lambda size: Identity(),
    "gaussian blur": lambda size: GaussianBlur(1.5),
    "gaussian blur wider than the image": lambda size: GaussianBlur(7.0),
    "gaussian blur of sigma 0": lambda size: GaussianBlur(0.0),
    "kernel blur": lambda size: KernelBlur(uneven_kernel()),
    "kernel wider than the image": lambda size: KernelBlur(np.random.default_rng(SEED).normal(size=(1, 31))),
    "mask": some_mask,
    "block average": lambda size: BlockAverage(3, size),
    "first differences": lambda size: FirstDifferences(),
}


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


every_operator = pytest.mark.parametrize("make", OPERATORS.values(), ids=OPERATORS.keys())
every_size = pytest.mark.parametrize("size", SIZES, ids=str)


def normal(shape, seed=SEED):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def forward(operator):
    """A of (..., h, w): what differences take, and operators inside the recipes."""
    return operator if isinstance(operator, FirstDifferences) else operator.forward


def backward(operator):
    return operator.adjoint if isinstance(operator, FirstDifferences) else operator.backward


def dense(operator, size):
    """The matrix, column by column."""
    images = jax.jit(forward(operator))(jnp.eye(size[0] * size[1]).reshape(-1, *size))
    return np.asarray(images).reshape(size[0] * size[1], -1).T


@every_operator
@every_size
def test_adjoint_is_the_adjoint_and_both_are_linear(make, size):
    operator = make(size)
    apply, adjoint = jax.jit(operator), jax.jit(operator.adjoint)
    x, x2 = normal(size), normal(size, seed=SEED + 2)
    y, y2 = normal(apply(x).shape, seed=SEED + 1), normal(apply(x).shape, seed=SEED + 3)
    assert float(jnp.vdot(apply(x), y)) == pytest.approx(float(jnp.vdot(x, adjoint(y))), rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(apply(2 * x - 3 * x2), 2 * apply(x) - 3 * apply(x2), atol=1e-12)
    np.testing.assert_allclose(adjoint(2 * y - 3 * y2), 2 * adjoint(y) - 3 * adjoint(y2), atol=1e-12)


@every_operator
@pytest.mark.parametrize("size", DENSE_SIZES, ids=str)
def test_norm_bounds_the_largest_singular_value(make, size):
    operator = make(size)
    largest = np.linalg.norm(dense(operator, size), ord=2)
    assert largest <= float(operator.norm()) * (1 + 1e-12)
    if not isinstance(operator, KernelBlur | FirstDifferences):
        assert largest == pytest.approx(operator.norm(), rel=1e-12)


@every_operator
def test_gradient_is_the_adjoint_of_the_residual_under_every_transformation(make):
    size = (12, 9)
    operator, x = make(size), normal(size)
    observed = normal(operator(x).shape, seed=SEED + 1)

    def loss(image):
        return 0.5 * jnp.sum((operator(image) - observed) ** 2)

    gradient = operator.adjoint(operator(x) - observed)
    normal_product = operator.adjoint(operator(x))
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(x), gradient, atol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(loss)))(jnp.stack([x, x]))[1], gradient, atol=1e-12)
    forward_over_reverse = jax.jit(lambda v: jax.jvp(jax.grad(loss), (v,), (x,))[1])
    reverse_over_reverse = jax.jit(jax.grad(lambda v: jnp.vdot(jax.grad(loss)(v), x)))
    np.testing.assert_allclose(forward_over_reverse(x), normal_product, atol=1e-12)
    np.testing.assert_allclose(reverse_over_reverse(x), normal_product, atol=1e-12)


@every_operator
def test_leading_axes_are_treated_alike_and_records_pass_through_jit(make):
    size = (7, 10)
    operator, stack = make(size), normal((2, 3, *size))
    apply, adjoint = jax.jit(lambda op, image: forward(op)(image)), jax.jit(lambda op, image: backward(op)(image))
    together, alone = apply(operator, stack), apply(operator, stack[1, 2])
    np.testing.assert_allclose(together[1, 2], alone, atol=1e-12)
    np.testing.assert_allclose(adjoint(operator, together)[1, 2], adjoint(operator, alone), atol=1e-12)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "first differences"])
def test_channels_come_last_in_a_picture_and_are_treated_alike(name):
    operator, picture = OPERATORS[name]((7, 10)), normal((7, 10, 3))
    observed = operator(picture)
    for channel in range(3):
        np.testing.assert_allclose(observed[..., channel], operator(picture[..., channel]), atol=1e-12)
    back = operator.adjoint(observed)
    np.testing.assert_allclose(back[..., 1], operator.adjoint(observed[..., 1]), atol=1e-12)
    assert back.shape == picture.shape


@every_operator
def test_single_precision_stays_single(make):
    operator = make((7, 10))
    image = jax.eval_shape(operator, jax.ShapeDtypeStruct((7, 10), jnp.float32))
    back = jax.eval_shape(operator.adjoint, image)
    assert image.dtype == back.dtype == jnp.float32


@every_size
@pytest.mark.parametrize("sigma", [0.7, 7.0])
def test_gaussian_blur_agrees_with_scipy(size, sigma):
    x = normal(size)
    expected = scipy.ndimage.gaussian_filter(np.asarray(x), sigma, mode="reflect", truncate=3.0)
    np.testing.assert_allclose(jax.jit(GaussianBlur(sigma))(x), expected, atol=1e-13)


def test_gaussian_kernel_has_the_papers_points():
    assert [len(GaussianBlur(sigma).weights) for sigma in (3, 5, 7)] == [19, 31, 43]


@every_size
def test_kernel_blur_agrees_with_scipy(size):
    x, kernel = normal(size), uneven_kernel()
    expected = scipy.ndimage.convolve(np.asarray(x), kernel, mode="reflect")
    np.testing.assert_allclose(jax.jit(KernelBlur(kernel))(x), expected, atol=1e-12)


def test_kernel_blur_with_the_gaussian_kernel_is_gaussian_blur():
    x, blur = normal((20, 31)), GaussianBlur(1.5)
    np.testing.assert_allclose(KernelBlur(np.outer(blur.weights, blur.weights))(x), blur(x), atol=1e-13)


def test_shift_attains_the_norm_bound_of_uneven_kernels():
    shift = np.zeros((3, 1))
    shift[0] = 1
    operator = KernelBlur(shift)
    assert np.linalg.norm(dense(operator, (6, 2)), ord=2) == pytest.approx(2**0.5)
    assert float(operator.norm()) == pytest.approx(2**0.5)


def test_gaussian_blur_is_diagonal_in_the_dct_basis():
    x, blur = normal((13, 20)), GaussianBlur(2.0)
    spectrum = blur.eigenvalues((13, 20)) * scipy.fft.dctn(np.asarray(x), norm="ortho")
    np.testing.assert_allclose(blur(x), scipy.fft.idctn(spectrum, norm="ortho"), atol=1e-13)


def test_differences_are_forward_zero_at_the_end_and_diagonal_in_the_dct_basis():
    x, differences = normal((13, 20)), FirstDifferences()
    down, along = differences(x)
    np.testing.assert_array_equal(down[:-1], x[1:] - x[:-1])
    np.testing.assert_array_equal(along[:, :-1], x[:, 1:] - x[:, :-1])
    assert not down[-1].any()
    assert not along[:, -1].any()
    spectrum = differences.normal_eigenvalues((13, 20)) * scipy.fft.dctn(np.asarray(x), norm="ortho")
    np.testing.assert_allclose(differences.adjoint(differences(x)), scipy.fft.idctn(spectrum, norm="ortho"), atol=1e-12)
    largest = np.linalg.norm(dense(differences, (6, 5)), ord=2)
    assert largest == pytest.approx(differences.normal_eigenvalues((6, 5)).max() ** 0.5)


def test_block_average_means_over_the_pixels_there_are():
    x = normal((5, 7))
    means = BlockAverage(3, (5, 7))(x)
    assert means.shape == (2, 3)
    assert float(means[0, 0]) == pytest.approx(float(x[:3, :3].mean()))
    assert float(means[1, 2]) == pytest.approx(float(x[3:, 6:].mean()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianBlur(-1.0), "sigma must be"),
        (lambda: GaussianBlur(float("nan")), "sigma must be"),
        (lambda: KernelBlur(np.ones((2, 3))), "odd sizes"),
        (lambda: KernelBlur(np.ones(3)), "two-dimensional"),
        (lambda: Mask(np.zeros((4, 4), bool)), "true somewhere"),
        (lambda: Mask(np.ones((4, 4), bool))(np.ones((4, 5))), "the mask is for images of size"),
        (lambda: BlockAverage(0, (4, 4)), "factor must be"),
        (lambda: BlockAverage(2, (4, 4))(np.ones((4, 5))), "shape says"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
