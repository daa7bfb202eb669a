"""The best recipe: grades on what surrounds a pixel, taught by Stein's estimate or by every second known pixel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multigrade import structures
from multigrade.imaging import baselines, images, local, restore
from multigrade.imaging.metrics import psnr

CAMERA = np.float32(images.load(":camera").pixels[60:220, 160:300])
NOISE = 20 / 255
NOISY = np.float32(images.add_noise(CAMERA, 20, seed=3))[None]


@pytest.fixture(scope="module")
def around():
    return local.surroundings(NOISY, NOISE)


def test_inputs_are_the_noisy_values_around_a_pixel(around):
    row, column = 40, 33
    x, _ = around(jnp.array([row * NOISY.shape[2] + column]))
    patch = NOISY[0, row - 3 : row + 4, column - 3 : column + 4]
    np.testing.assert_allclose(x[0, :49] + x[0, -1], patch.ravel(), atol=1e-6)


def test_known_slopes_are_those_of_the_noisy_values(around):
    pixel = jnp.array([40 * NOISY.shape[2] + 33])
    moved = NOISY.copy()
    moved[0, 40, 33] += 1
    num_noisy = int(jnp.isfinite(around.known_slopes).sum())
    later = local.surroundings(moved, NOISE)
    x, y = (part(pixel)[0][0, :num_noisy] + part(pixel)[0][0, -1] for part in (around, later))
    np.testing.assert_allclose(y - x, around.known_slopes[:num_noisy], atol=1e-5)


def test_the_risk_of_a_linear_filter_is_steins():
    generator = np.random.default_rng(0)
    x, slopes, targets = (
        jnp.asarray(generator.normal(size=shape), jnp.float32) for shape in ((50, 4), (50, 4), (50, 1))
    )
    network = structures.graded(4, [(6,)], 1)[0]
    params = network.init(jax.random.key(0))
    params = (params[0]._replace(bias=params[0].bias + 100), *params[1:])  # every neuron is on: the network is linear
    matrix = params[0].weight @ params[1].weight
    loss, _ = local.EstimatedRisk(jnp.float32(0.7), network)(params, (), local.Movable(x, slopes, targets))
    expected = 0.5 * jnp.mean((targets - network(params, x)) ** 2) + 0.7 * jnp.mean(slopes @ matrix)
    assert float(loss) == pytest.approx(float(expected), rel=1e-4)


def test_pixels_that_judge_do_not_teach():
    task = local.RiskTask.of(NOISY, NOISE, (512,))
    sampler = task.problem(structures.graded(task.around.num_inputs, [(4,)], 1)[0], 0).sampler
    seen = sampler.draw(jax.random.key(0), None).targets[:, 0]
    held = np.asarray(sampler.residual[task.held_out])
    assert not np.isin(np.asarray(seen), held).any()


def test_denoising_beats_the_minimiser_it_starts_from_and_knows_how_well_it_did():
    task = local.RiskTask.of(NOISY, NOISE, (512,))
    start = psnr(np.asarray(task.image).reshape(CAMERA.shape), CAMERA)
    options = restore.Options(recipe="best", grades=1, width=32, epochs=300)
    restored = restore.denoise(NOISY[0], noise_sigma=20, reference=CAMERA, options=options)
    assert restored.metrics["result"]["psnr"] > start
    assert restored.metrics["estimated_psnr"][0] == pytest.approx(restored.metrics["result"]["psnr"], abs=1.5)


def test_the_fast_recipe_knows_how_well_it_did():
    """Grades trained on a noisier observation are judged by another whose noise is independent."""
    options = restore.Options(grades=2, width=32, epochs=200)
    restored = restore.denoise(NOISY[0], noise_sigma=20, reference=CAMERA, options=options)
    found = [grade["psnr"] for grade in restored.metrics["grades"]]
    assert restored.metrics["estimated_psnr"][: len(found)] == pytest.approx(found, abs=1)


def test_between_known_pixels_without_a_correction_is_bilinear_interpolation():
    known = CAMERA[None, ::2, ::2]
    image = local.between(known, local.neighbours(known)[1], (1, *CAMERA.shape))[0]
    expected = baselines.interpolate_grid(CAMERA[::2, ::2], CAMERA.shape)
    np.testing.assert_allclose(image[:-1, :-1], expected[:-1, :-1], atol=1e-6)


def test_a_plane_has_nothing_to_teach():
    rows, columns = np.mgrid[:24, :20]
    inputs, targets = local.lessons(np.float32(0.01 * rows + 0.02 * columns)[None], seed=0)
    inner = np.abs(inputs - inputs[:, ::-1] * -1).max(axis=1) < 1e-5  # away from the reflected border
    assert inner.sum() > 100
    np.testing.assert_allclose(targets[inner], 0, atol=1e-6)


def test_a_mixture_is_found():
    generator = np.random.default_rng(0)
    parts = [generator.normal(size=500) for _ in range(3)]
    weights = local.mixture(parts, 0.2 * parts[0] + 0.8 * parts[2])
    np.testing.assert_allclose(weights, [0.2, 0, 0.8], atol=1e-3)
    assert local.mixture(parts, -parts[0])[0] < 1e-6


def test_regression_by_the_best_recipe_beats_bilinear_interpolation():
    options = restore.Options(recipe="best", width=32, epochs=200)
    restored = restore.regress(CAMERA, options=options)
    assert restored.metrics["result"]["psnr"] > psnr(baselines.interpolate_grid(CAMERA[::2, ::2], CAMERA.shape), CAMERA)
