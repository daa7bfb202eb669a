"""The best recipes, the mixtures that they choose, and the judges of grades."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from multigrade import MultiGrade, pictures, restore, structures
from multigrade.model import Grade
from multigrade.pictures import baselines, mixtures, scales
from multigrade.pictures.denoise.risk import least_risk
from multigrade.pictures.graded import model_selection
from multigrade.pictures.graded.restoration import pixel_coordinates
from multigrade.pictures.inverse import interpolation
from multigrade.pictures.inverse.strengths import choose_strengths
from multigrade.pictures.inverse.variational import solve
from multigrade.pictures.metrics import psnr
from multigrade.pictures.operators import GaussianBlur
from multigrade.pictures.recipes import best_deblur
from multigrade.training import Fit

CAMERA = np.float32(pictures.load(":camera").pixels[60:220, 160:300])
NOISE = 20 / 255
NOISY = np.float32(pictures.add_noise(CAMERA, 20, seed=3))[None]


def test_the_mixture_has_the_least_of_steins_estimate():
    """Among linear filters, whose slopes are known, and over all mixtures of them on a grid."""
    filters = [gaussian_filter(NOISY[0], sigma) for sigma in (0.7, 1.5, 4.0)]
    middle = np.zeros(NOISY[0].shape)
    middle[70, 70] = 1
    slopes = [gaussian_filter(middle, sigma)[70, 70] for sigma in (0.7, 1.5, 4.0)]
    weights = least_risk(filters, slopes, NOISY[0], NOISE)

    def risk(weights):
        mixed = sum(weight * image for weight, image in zip(weights, filters, strict=True))
        return np.mean((mixed - NOISY[0]) ** 2, dtype=np.float64) + 2 * NOISE**2 * np.dot(weights, slopes)

    grid = [(a, b, 1 - a - b) for a in np.linspace(0, 1, 41) for b in np.linspace(0, 1 - a, 41)]
    assert risk(weights) <= min(risk(np.array(point)) for point in grid) + 1e-9
    assert weights.sum() == pytest.approx(1)


def test_between_known_pixels_without_a_correction_is_bilinear_interpolation():
    known = CAMERA[None, ::2, ::2]
    image = interpolation.between(known, interpolation.neighbours(known)[1], (1, *CAMERA.shape))[0]
    expected = baselines.interpolate_grid(CAMERA[::2, ::2], CAMERA.shape)
    np.testing.assert_allclose(image[:-1, :-1], expected[:-1, :-1], atol=1e-6)


def test_a_plane_has_nothing_to_teach():
    rows, columns = np.mgrid[:24, :20]
    inputs, targets = interpolation.interpolation_rows(np.float32(0.01 * rows + 0.02 * columns)[None], seed=0)
    inner = np.abs(inputs - inputs[:, ::-1] * -1).max(axis=1) < 1e-5  # away from the reflected border
    assert inner.sum() > 100
    np.testing.assert_allclose(targets[inner], 0, atol=1e-6)


def test_a_mixture_is_found():
    generator = np.random.default_rng(0)
    parts = [generator.normal(size=500) for _ in range(3)]
    weights = mixtures.mixture(parts, 0.2 * parts[0] + 0.8 * parts[2])
    np.testing.assert_allclose(weights, [0.2, 0, 0.8], atol=1e-3)
    assert mixtures.mixture(parts, -parts[0])[0] < 1e-6


@pytest.mark.slow
def test_regression_by_the_best_recipe_beats_bilinear_interpolation():
    options = restore.Options(recipe="best", width=64, steps=300, grades=1)
    restored = restore.regress(CAMERA, options=options)
    assert restored.result_quality["psnr"] > psnr(baselines.interpolate_grid(CAMERA[::2, ::2], CAMERA.shape), CAMERA)


# ---- deblurring ------------------------------------------------------------------------------------------------

BLUR = GaussianBlur(2.0)
BLURRED = np.float32(pictures.add_noise(pictures.add_blur(CAMERA, 2), 3, seed=4))[None]
STRENGTHS = choose_strengths(BLURRED, BLUR, 3 / 255)


def test_smaller_keeps_a_wave_that_both_sizes_can_show():
    rows, columns = np.meshgrid(np.arange(120.0), np.arange(96.0), indexing="ij")
    wave = np.sin(rows / 15) * np.cos(columns / 12)
    small = scales.smaller(wave[None], 2.0)[0]
    rows, columns = np.meshgrid(2 * np.arange(60) + 0.5, 2 * np.arange(48) + 0.5, indexing="ij")
    np.testing.assert_allclose(small[5:-5, 5:-5], (np.sin(rows / 15) * np.cos(columns / 12))[5:-5, 5:-5], atol=0.01)
    np.testing.assert_allclose(scales.smaller(wave[None], 1.0)[0], wave, atol=1e-6)


def test_deblurring_by_the_best_recipe_beats_the_minimiser_and_wiener_tuned_by_ground_truth():
    restored = restore.deblur(
        BLURRED[0], blur_sigma=2, noise_sigma=3, reference=CAMERA, options=restore.Options(recipe="best")
    )
    assert restored.names == ("minimiser", "non-local")
    np.testing.assert_array_equal(restored.stages[0], solve(BLURRED, BLUR, *STRENGTHS)[0])
    minimiser, result = (quality["psnr"] for quality in restored.grades)
    wiener = baselines.tuned(lambda s: baselines.wiener(BLURRED[0], BLUR, s), CAMERA, baselines.wiener_strength(3))
    assert result > minimiser + 0.4
    assert result > psnr(wiener.image, CAMERA) + 0.4


def test_deblurring_that_fails_its_rehearsal_is_the_minimiser(monkeypatch):
    monkeypatch.setattr(best_deblur, "plug_and_play", lambda observed, operator, noise, start, **_: start + 0.1)
    restored = restore.deblur(BLURRED[0], blur_sigma=2, noise_sigma=3, options=restore.Options(recipe="best"))
    np.testing.assert_array_equal(restored.image, solve(BLURRED, BLUR, *STRENGTHS)[0])
    assert restored.is_minimiser


@pytest.mark.slow
def test_deblurring_by_the_best_recipe_without_time_is_the_minimiser():
    options = restore.Options(recipe="best", time_limit=1e-3)
    restored = restore.deblur(BLURRED[0], blur_sigma=2, noise_sigma=3, options=options)
    np.testing.assert_array_equal(restored.image, solve(BLURRED, BLUR, *STRENGTHS)[0])
    assert restored.is_minimiser


def test_what_a_blurred_image_leaves_unexplained_is_the_noise():
    generator = np.random.default_rng(1)
    clean = jnp.asarray(CAMERA[None])
    observed = np.asarray(BLUR.forward(clean)) + np.float32(0.01) * generator.standard_normal(clean.shape, np.float32)
    judge = model_selection.Unexplained(observed, BLUR, 0.01)
    assert judge(CAMERA[None]) == pytest.approx(judge.enough, rel=0.05)
    assert judge(CAMERA[None] + 0.01 * np.sin(np.arange(CAMERA.shape[1]) / 5)) > 1.2 * judge.enough
    checkers = (-1.0) ** np.add.outer(*map(np.arange, CAMERA.shape))
    assert judge(CAMERA[None] + 0.1 * checkers) == pytest.approx(judge.enough, rel=0.05)  # the blur does not show them


# ---- how much of each grade ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_mixture_of_grades_has_the_least_estimated_error_and_is_a_model_of_grades():
    options = restore.Options(recipe="networks", steps=150, grades=3, width=32)
    restored = restore.denoise(NOISY[0], noise_sigma=20, reference=CAMERA, options=options)
    rows = pixel_coordinates(*CAMERA.shape)
    np.testing.assert_allclose(restored.model(rows)[:, 0], restored.image.ravel(), atol=1e-4)
    estimated = restored.estimated_psnr
    assert estimated[-1] == max(estimated)
    assert estimated == pytest.approx([grade["psnr"] for grade in restored.grades], abs=1)


def test_a_mixture_that_the_judge_likes_best_is_found():
    generator = np.random.default_rng(0)
    clean, noise = CAMERA[None].astype(np.float64), 0.1
    extra = generator.standard_normal(clean.shape)
    observed = clean + noise * generator.standard_normal(clean.shape)
    first, second = clean + 0.02 * generator.standard_normal((2, *clean.shape))  # errors of equal size, independent
    grades = tuple(Grade(network, (), 1.0) for network in structures.graded(2, [(2,), (2,), (2,)], 1))
    stages = [0.8 * clean, first, 2 * first - clean, (first + second) / 2]
    fit, mixed = model_selection.mixed(
        Fit(MultiGrade((*grades, grades[0])), ()), stages, model_selection.SecondLook(observed, extra, noise)
    )
    assert np.mean((mixed[-1] - clean) ** 2) < 0.7 * np.mean((first - clean) ** 2)
    shares = [float(grade.scale) for grade in fit.model.grades]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx(1)


def test_the_judge_without_a_reference_agrees_with_the_reference():
    generator = np.random.default_rng(2)
    extra = generator.standard_normal(NOISY.shape)
    judge = model_selection.SecondLook(NOISY.astype(np.float64), extra, NOISE)
    noisier = NOISY + model_selection.EXTRA_NOISE * NOISE * extra
    for blur in (1, 2):
        image = gaussian_filter(noisier, (0, blur, blur))
        assert judge(image) == pytest.approx(np.mean((image - CAMERA) ** 2), rel=0.15)
