"""Non-local estimates owe the closed form of their combinations, invariances, and less noise than there was."""

import time

import numpy as np
import pytest

from multigrade.pictures import baselines
from multigrade.pictures.colour import OPPONENT, decorrelated, recorrelated
from multigrade.pictures.denoise import nonlocal_estimate as nonlocal_module
from multigrade.pictures.denoise.nonlocal_estimate import from_guide, from_noisy, nonlocal_estimate, nonlocal_passes
from multigrade.pictures.metrics import psnr

RNG = np.random.default_rng(3)


def texture(height=48, width=40):
    """A pattern that comes again and again."""
    rows, columns = np.mgrid[:height, :width]
    return (0.5 + 0.3 * np.sign(np.sin(0.9 * rows + 0.4 * columns)) * np.sin(0.35 * columns)).astype(np.float32)


@pytest.mark.parametrize("count", [4, 9])
def test_combination_from_a_guide_minimises_the_expected_square_error(count):
    """T of least E ||X - T (X + N)||^2, by its normal equations."""
    guide, energy = RNG.standard_normal((2, count, 6)), 0.7
    combination = from_guide(guide, guide, energy)
    for x, t in zip(guide, combination, strict=True):
        products = x @ x.T
        np.testing.assert_allclose(t @ (products + energy * np.eye(count)), products, atol=1e-5)


def test_combination_from_noisy_patches_is_that_of_a_guide_whose_products_are_what_noise_leaves():
    patches, energy = RNG.standard_normal((1, 4, 30)), 2.0
    found = from_noisy(patches, patches, energy)[0]
    products = patches[0] @ patches[0].T
    expected = (products - energy * np.eye(4)) @ np.linalg.inv(products)
    np.testing.assert_allclose(found, expected, atol=5e-3)


def test_every_pass_brings_a_repeated_texture_closer():
    clean = texture()
    noisy = clean + np.float32(0.1) * RNG.standard_normal(clean.shape, np.float32)
    gains = [psnr(image[0], clean) - psnr(noisy, clean) for image in nonlocal_passes(noisy[None], 0.1)]
    assert 3 < gains[0] < gains[1]
    assert gains[2] > gains[0]


def test_estimate_scales_with_picture_and_noise():
    noisy = texture()[None] + np.float32(0.04) * RNG.standard_normal((1, 48, 40), np.float32)
    half = nonlocal_estimate(noisy / 2, 0.02)
    np.testing.assert_allclose(2 * half, nonlocal_estimate(noisy, 0.04), atol=1e-4)


def test_a_constant_colour_is_kept_whatever_the_noise():
    """Adding a constant to a difference of colours adds it to the estimate: nothing is shrunk towards grey."""
    noisy = texture() * np.float32([1, 0.1, 0])[:, None, None]
    noisy = noisy + np.float32(0.2) * RNG.standard_normal(noisy.shape, np.float32)
    shift = np.float32([0, 0.04, -0.03])[:, None, None]
    np.testing.assert_allclose(nonlocal_estimate(noisy + shift, 0.2), nonlocal_estimate(noisy, 0.2) + shift, atol=2e-4)


def test_programs_that_call_lapack_run_one_at_a_time(monkeypatch):
    """On two cores two of them waited for each other for ever."""
    whitened, running, most = nonlocal_module._whitened, [], []

    def watched(*arrays):
        running.append(1)
        most.append(len(running))
        time.sleep(0.005)
        found = np.asarray(whitened(*arrays))
        running.pop()
        return found

    monkeypatch.setattr(nonlocal_module, "_whitened", watched)
    picture = texture(80, 80)[None]
    nonlocal_module.one_pass(picture, picture, np.float32([0.1]), 7, 64, from_guide)
    assert len(most) > 1
    assert max(most) == 1


def test_without_noise_nothing_changes():
    clean = texture()[None]
    np.testing.assert_array_equal(nonlocal_estimate(clean, 0.0), clean)


@pytest.mark.parametrize("shape", [(1, 2, 2), (1, 3, 50), (3, 11, 12)])
def test_pictures_smaller_than_a_patch(shape):
    noisy = np.full(shape, 0.5, np.float32) + np.float32(0.05) * RNG.standard_normal(shape, np.float32)
    found = nonlocal_estimate(noisy, 0.05)
    assert found.shape == shape
    assert np.isfinite(found).all()


def test_flat_and_clipped_areas_stay_finite_and_in_range():
    noisy = np.clip(texture() + 0.2 * RNG.standard_normal((48, 40)), 0, 1).astype(np.float32)
    noisy[:, :20] = 0
    found = nonlocal_estimate(noisy[None], 0.2)
    assert np.isfinite(found).all()
    assert np.abs(found[0, :, :10]).max() < 0.05


def test_opponent_colours_are_an_orthonormal_basis():
    np.testing.assert_allclose(OPPONENT @ OPPONENT.T, np.eye(3), atol=1e-12)
    image = RNG.random((3, 4, 5))
    np.testing.assert_allclose(recorrelated(decorrelated(image)), image, atol=1e-12)
    np.testing.assert_array_equal(decorrelated(image[:1]), image[:1])


def test_baselines_denoise_colour_jointly():
    """Where red, green and blue are equal, three draws of the noise are as good as a third of its variance."""
    clean = np.broadcast_to(texture()[..., None], (48, 40, 3))
    noisy = clean + np.float32(0.15) * RNG.standard_normal(clean.shape, np.float32)
    together = baselines.nonlocal_denoise(noisy, noise_sigma=0.15 * 255)
    apart = baselines.nonlocal_denoise(noisy[..., 0], noise_sigma=0.15 * 255)
    assert psnr(together[..., 0], clean[..., 0]) > psnr(apart, clean[..., 0]) + 2
    means = baselines.nonlocal_means(noisy[..., 0], noise_sigma=0.15 * 255)
    assert psnr(apart, clean[..., 0]) > psnr(means, clean[..., 0])
