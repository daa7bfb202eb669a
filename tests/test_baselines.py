"""Baselines owe their defining identities, an independent solver's minimum, and the paper's degraded PSNRs."""

import importlib.util
import json
from pathlib import Path

import cvxpy
import jax
import numpy as np
import pytest

from multigrade.pictures import baselines
from multigrade.pictures.baselines import (
    inpaint_biharmonic,
    interpolate_grid,
    solve_rof,
    tuned,
    tv_deblur,
    tv_denoise,
    upsample,
    wiener,
)
from multigrade.pictures.files import add_blur, add_noise, load
from multigrade.pictures.metrics import psnr
from multigrade.pictures.noise.level import estimate_noise_sigma
from multigrade.pictures.operators import BlockAverage, GaussianBlur

SHARED = Path(__file__).resolve().parents[2] / "shared"
PAPER_IMAGES = SHARED / "images" / "paper"
needs_paper_images = pytest.mark.skipif(
    not PAPER_IMAGES.is_dir(),
    reason="the paper's images, which are not ours to give away, are not beside the repository",
)
RNG = np.random.default_rng(5)
SMALL = np.kron(RNG.random((3, 4)), np.ones((3, 3))) + 0.1 * RNG.standard_normal((9, 12))


def total_variation_problem(observed, strength, matrix=None):
    """Minimum of 1/2 ||A x - observed||^2 + strength ||B x||_1 by an interior-point method."""
    x = cvxpy.Variable(observed.shape)
    fit = x if matrix is None else matrix[0] @ x @ matrix[1].T
    variation = cvxpy.sum(cvxpy.abs(x[1:] - x[:-1])) + cvxpy.sum(cvxpy.abs(x[:, 1:] - x[:, :-1]))
    objective = cvxpy.Minimize(0.5 * cvxpy.sum_squares(fit - observed) + strength * variation)
    value = cvxpy.Problem(objective).solve(solver=cvxpy.CLARABEL)
    return x.value, value


@pytest.mark.parametrize("strength", [0.02, 0.2, 5.0])
def test_rof_is_the_interior_point_minimiser_within_its_bound(strength):
    exact, _ = total_variation_problem(SMALL, strength)
    with jax.enable_x64(True):
        solution = solve_rof(SMALL, strength, tolerance=1e-7, max_iterations=100_000)
    assert solution.rmse_bound <= 1e-7
    assert np.sqrt(np.mean((solution.image - exact) ** 2)) < 1e-5


def test_rof_bound_holds_when_stopped_early():
    with jax.enable_x64(True):
        exact = solve_rof(SMALL, 0.3, tolerance=1e-8, max_iterations=100_000).image
        early = solve_rof(SMALL, 0.3, tolerance=1e-2)
    assert np.sqrt(np.mean((early.image - exact) ** 2)) <= early.rmse_bound <= 1e-2


def test_rof_of_strength_0_is_the_input_and_of_great_strength_its_mean():
    np.testing.assert_allclose(tv_denoise(SMALL, 0.0), SMALL, atol=1e-7)
    np.testing.assert_allclose(tv_denoise(SMALL, 1e3), SMALL.mean(), atol=1e-3)


def test_rof_treats_channels_alike():
    colour = np.stack([SMALL, SMALL[::-1]], axis=2)
    np.testing.assert_allclose(tv_denoise(colour, 0.1)[..., 1], tv_denoise(SMALL[::-1], 0.1), atol=2e-3)


def test_wiener_of_strength_0_inverts_the_blur():
    blur = GaussianBlur(1.0)
    np.testing.assert_allclose(wiener(add_blur(SMALL, 1.0), blur, 0.0), SMALL, atol=1e-10)


def test_wiener_solves_its_normal_equations():
    blur, strength = GaussianBlur(1.5), 0.03
    x = wiener(SMALL, blur, strength)
    np.testing.assert_allclose(add_blur(add_blur(x, 1.5), 1.5) + strength * x, add_blur(SMALL, 1.5), atol=1e-12)


def test_tv_deblurring_tends_to_the_interior_point_minimum():
    blur, strength = GaussianBlur(1.0), 0.01
    observed = add_blur(SMALL, 1.0)
    rows, columns = (_blur_matrix(size) for size in observed.shape)
    exact, minimum = total_variation_problem(observed, strength, (rows, columns))
    x = tv_deblur(observed, blur, strength, iterations=5000)
    variation = np.abs(np.diff(x, axis=0)).sum() + np.abs(np.diff(x, axis=1)).sum()
    assert 0.5 * np.sum((add_blur(x, 1.0) - observed) ** 2) + strength * variation == pytest.approx(minimum, rel=1e-6)
    np.testing.assert_allclose(x, exact, atol=1e-3)


def _blur_matrix(size):
    """Columns are blurred unit vectors, by an image that is constant along the other axis."""
    return np.stack([add_blur(np.repeat(unit[:, None], 3, axis=1), 1.0)[:, 1] for unit in np.eye(size)], axis=1)


@pytest.mark.parametrize("kind", ["bilinear", "cubic"])
def test_interpolation_keeps_the_samples_and_bilinear_is_exact_on_planes(kind):
    image = RNG.random((10, 13))
    filled = interpolate_grid(image[::2, ::2], image.shape, kind=kind)
    np.testing.assert_allclose(filled[::2, ::2], image[::2, ::2], atol=1e-12)
    plane = np.add.outer(np.arange(11.0), 2 * np.arange(13.0)) / 40
    if kind == "bilinear":
        np.testing.assert_allclose(interpolate_grid(plane[::2, ::2], plane.shape, kind=kind), plane, atol=1e-12)


def test_upsampling_places_pixels_as_block_averaging_does():
    plane = np.add.outer(np.arange(12.0), 2 * np.arange(18.0)) / 40
    small = np.asarray(BlockAverage(3, plane.shape)(plane))
    large = upsample(small, 3)
    assert large.shape == plane.shape
    np.testing.assert_allclose(large[2:-2, 2:-2], plane[2:-2, 2:-2], atol=1e-5)


def test_inpainting_keeps_what_is_known_and_continues_planes():
    plane = np.add.outer(np.arange(12.0), 2 * np.arange(14.0)) / 40
    keep = np.ones(plane.shape, bool)
    keep[4:7, 5:8] = False
    filled = inpaint_biharmonic(np.stack([plane, np.where(keep, plane, 9)], axis=2), keep)
    np.testing.assert_allclose(filled, np.stack([plane, plane], axis=2), atol=1e-8)


def test_tuned_finds_the_best_strength():
    best = tuned(lambda strength: np.full((2, 2), np.log(strength)), np.full((2, 2), np.log(0.07)), 1.0)
    assert best.strength == pytest.approx(0.07, rel=0.1)


@pytest.mark.parametrize("sigma", [5, 20, 50])
def test_noise_estimate_finds_the_level(sigma):
    noisy = add_noise(load(":phantom").pixels, sigma, seed=0)
    assert estimate_noise_sigma(noisy) == pytest.approx(sigma, rel=0.1)


@pytest.mark.parametrize("level", [0.0, 1.0, 1 / 3])
def test_flat_areas_do_not_hide_the_noise(level):
    noisy = np.full((128, 256), level)
    noisy[:, :100] = add_noise(np.full((128, 100), 0.5), 20, seed=0)
    assert estimate_noise_sigma(noisy) == pytest.approx(20, rel=0.1)


@pytest.mark.parametrize("name", [":phantom", ":chart", ":horse"])
def test_the_edges_of_a_drawing_are_not_noise(name):
    assert estimate_noise_sigma(load(name).pixels) == 0


def test_noise_is_estimated_from_known_pixels_alone():
    noisy, known = add_noise(np.full((64, 80), 0.5), 20, seed=0), np.ones((64, 80), bool)
    assert estimate_noise_sigma(noisy, known) == estimate_noise_sigma(noisy)
    known[:, 10:] = False
    noise = np.random.default_rng(0).uniform(size=noisy.shape)
    assert estimate_noise_sigma(np.where(known, noisy, noise), known) == estimate_noise_sigma(noisy, known)
    assert estimate_noise_sigma(noisy, known) == pytest.approx(20, rel=0.2)
    half = np.random.default_rng(1).random(noisy.shape[-2:]) < 0.5  # hardly any 4 x 4 pixels are all known
    assert estimate_noise_sigma(np.where(half, noisy, 0), half) == pytest.approx(20, rel=0.2)
    with pytest.raises(ValueError, match="noise_sigma must be given"):
        estimate_noise_sigma(noisy, np.arange(80) % 2 > np.zeros((64, 1)))


def test_default_strengths_need_no_ground_truth_and_help():
    clean = load(":camera").pixels[100:228, 100:228]
    noisy = add_noise(clean, 25, seed=0)
    assert psnr(tv_denoise(noisy), clean) > psnr(noisy, clean) + 5
    blurred = add_noise(add_blur(clean, 2), 2, seed=0)
    for method in (tv_deblur, wiener):
        assert psnr(method(blurred, GaussianBlur(2.0)), clean) > psnr(blurred, clean) + 1.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tv_denoise(SMALL, -1.0), "strength must be"),
        (lambda: tv_denoise(SMALL, noise_sigma=-1.0), "noise_sigma must be"),
        (lambda: interpolate_grid(SMALL, (9, 12)), "every second pixel"),
        (lambda: upsample(SMALL, 0), "factor must be"),
        (lambda: upsample(SMALL, 2, kind="sharp"), "kind must be one of bilinear, cubic"),
        (lambda: inpaint_biharmonic(SMALL, np.ones((2, 2), bool)), "size of the image"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.skipif(importlib.util.find_spec("bm3d") is not None, reason="the extra is installed")
def test_bm3d_says_how_to_install_it():
    with pytest.raises(ValueError, match="pip install 'multigrade\\[bm3d\\]'"):
        baselines.bm3d_denoise(SMALL, noise_sigma=10)


def degraded_psnrs():
    """(image, degradation, level, PSNR in the paper)."""
    path = SHARED / "paper" / "numbers.json"
    if not path.is_file():
        return []
    published = json.loads(path.read_text())["degraded_psnr"]
    levels = {"noisy": (10, 20, 30, 40, 50, 60), "blurred": (3, 5, 7)}
    return [
        (name, kind, level, value)
        for kind, by_image in published.items()
        for name, values in by_image.items()
        for level, value in zip(levels[kind], values, strict=True)
    ]


@needs_paper_images
def test_degraded_images_have_the_papers_psnr():
    for name, kind, level, published in degraded_psnrs():
        clean = load(PAPER_IMAGES / f"{name}.png").pixels
        degraded = add_noise(clean, level, seed=0) if kind == "noisy" else add_noise(add_blur(clean, level), 3, seed=0)
        assert psnr(degraded, clean) == pytest.approx(published, abs=0.05), (name, kind, level)


@needs_paper_images
@pytest.mark.parametrize(
    ("name", "bilinear", "cubic"), [("cameraman", 25.54, 25.29), ("barbara", 25.15, 24.06), ("butterfly", 30.15, 29.91)]
)
def test_interpolation_has_the_recorded_psnr(name, bilinear, cubic):
    image = load(PAPER_IMAGES / f"{name}.png").pixels
    for kind, recorded in (("bilinear", bilinear), ("cubic", cubic)):
        filled = interpolate_grid(image[::2, ::2], image.shape, kind=kind)
        assert psnr(filled, image) == pytest.approx(recorded, abs=0.006)


@needs_paper_images
def test_rof_and_wiener_have_the_recorded_psnr_on_butterfly():
    clean = load(PAPER_IMAGES / "butterfly.png").pixels
    noisy = add_noise(clean, 10, seed=0)
    assert tuned(lambda strength: tv_denoise(noisy, strength), clean, 0.02).psnr == pytest.approx(32.54, abs=0.05)
    blurred = add_noise(add_blur(clean, 3), 3, seed=0)
    assert tuned(lambda strength: wiener(blurred, GaussianBlur(3.0), strength), clean, 0.01).psnr > 26.94
