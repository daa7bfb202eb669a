"""The noise of photos: shares of bands add up, simulated cameras are seen through, clean pictures are left alone."""

import numpy as np
import pytest
import skimage
from benchmarks.cameras import compressed, drawing, shot

from multigrade import restore
from multigrade.pictures.colour import decorrelated
from multigrade.pictures.denoise.denoising import describe_noise
from multigrade.pictures.denoise.photo import photo_estimate
from multigrade.pictures.metrics import psnr
from multigrade.pictures.noise.camera import (
    NUM_BANDS,
    NUM_FEATURES,
    SHARES,
    WINDOWS,
    CameraNoise,
    brightness_classes,
    camera_noise,
)  # fmt: skip

ASTRONAUT = skimage.util.img_as_float32(skimage.data.astronaut())


def channels(picture):
    return np.moveaxis(np.float32(picture), -1, 0)


def even(energy, num_channels=1):
    """Noise of so much in all bands at all brightnesses."""
    return CameraNoise(1.0, np.array([0.2, 0.8]), np.full((num_channels, NUM_BANDS, 2), energy), energy**0.5)


def test_shares_of_all_bands_make_the_variance_of_a_pixel():
    assert SHARES.sum() == pytest.approx(1)
    brightness = np.linspace(0, 1, 6).reshape(2, 3)
    np.testing.assert_allclose(even(0.3).variances(brightness, 0, NUM_BANDS), 0.3)
    parts = sum(even(0.3).variances(brightness, band, band + 1) for band in range(NUM_BANDS))
    np.testing.assert_allclose(parts, 0.3)


def test_variance_is_interpolated_between_classes_of_brightness_and_constant_beyond():
    noise = even(1.0)._replace(energies=np.broadcast_to([1.0, 3.0], (1, NUM_BANDS, 2)))
    found = noise.variances(np.array([[0.0, 0.2, 0.5, 0.8, 1.0]]), 0, NUM_BANDS)
    np.testing.assert_allclose(found, [[[1, 1, 2, 3, 3]]])


def test_noise_is_white_where_bands_are_equal():
    rising = even(1.0)._replace(energies=np.full((1, NUM_BANDS, 2), 4.0 ** np.arange(NUM_BANDS)[:, None]))
    assert even(1.0).is_white
    assert not rising.is_white


def test_halves_of_a_window_are_as_loud_in_noise_and_classes_are_as_large():
    noise = np.float32(0.5 + 0.05 * np.random.default_rng(0).standard_normal((1, 200, 200)))
    classes = brightness_classes(noise)
    assert len({count for _, _, count in classes}) <= 2
    for features, brightness, count in classes:
        assert features.shape == (NUM_FEATURES,)
        assert brightness == pytest.approx(0.5 * 255, abs=8)
        assert count >= WINDOWS
        held = features[:12].reshape(4, 3)  # measured in the half that was not looked at: the same however quiet
        np.testing.assert_allclose(held, np.log((0.05 * 255) ** 2), atol=0.45)


def test_pictures_that_are_too_small_or_clipped_say_nothing():
    assert camera_noise(np.full((3, 40, 40), 0.5, np.float32)) is None
    assert camera_noise(np.ones((1, 300, 300), np.float32)) is None


@pytest.mark.parametrize("seed", [1, 3, 8, 9])
def test_noise_of_a_simulated_camera_is_found_and_removed(seed):
    """On a picture that has no part in the training. Camera 9 smooths colours so that they have nothing fine: its noise
    was taken for white, of their level."""
    taken = shot(ASTRONAUT[:288, 100:388], np.random.default_rng(seed))
    level = np.sqrt(np.mean((taken.noisy - taken.clean) ** 2))
    noise = describe_noise(channels(taken.noisy))
    assert noise.kind == "camera"
    assert noise.sigma == pytest.approx(level, rel=0.5)
    assert describe_noise(channels(taken.clean)).kind == "none"
    if seed == 1:
        part = slice(60, 220)
        found = restore.denoise(taken.noisy[part, part], reference=taken.clean[part, part])
        assert found.result_quality["psnr"] > found.input_quality["psnr"] + 0.5


@pytest.mark.parametrize("quality", [75, 95])
def test_clean_pictures_are_told_to_be_so_and_stay(quality):
    clean = compressed(ASTRONAUT, quality, 2)
    result = restore.denoise(clean)
    assert result.noise_kind == "none"
    np.testing.assert_allclose(result.image, clean, atol=1e-6)
    assert describe_noise(channels(drawing(np.random.default_rng(0)))).kind == "none"


def test_noise_times_a_strength_scales_all_that_is_known_of_it():
    taken = shot(ASTRONAUT[:288, 100:388], np.random.default_rng(1))
    noise = describe_noise(channels(taken.noisy))
    assert noise.times(1) is noise
    twice = noise.times(2)
    assert twice.sigma == pytest.approx(2 * noise.sigma)
    np.testing.assert_allclose(twice.camera.energies, 4 * noise.camera.energies)


def test_blotches_wider_than_a_patch_are_removed():
    """Noise of means over 8 x 8 pixels, which a group of patches at one scale takes for the picture."""
    random = np.random.default_rng(4)
    blotches = np.kron(0.04 * random.standard_normal((3, 16, 16)), np.ones((8, 8))).astype(np.float32)
    clean = np.full((3, 128, 128), 0.5, np.float32)
    energies = np.zeros((3, NUM_BANDS, 2))
    energies[:, -1] = 64 * 0.04**2
    noise = CameraNoise(1.0, np.array([0.2, 0.8]), energies, 0.04)
    found = photo_estimate(decorrelated(clean + blotches), noise)
    assert psnr(found, decorrelated(clean)) > psnr(blotches, np.zeros_like(blotches)) + 3
