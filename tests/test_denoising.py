"""Denoising by what the noise is like: its level and kind are read right, blacks come back, tiles make no seams."""

from functools import partial

import numpy as np
import pytest
import skimage
from scipy.ndimage import median_filter

from multigrade import restore
from multigrade.pictures.colour import decorrelated
from multigrade.pictures.denoise.denoising import denoised, describe_noise, locally_smoothed
from multigrade.pictures.denoise.estimates import estimates
from multigrade.pictures.denoise.learned import folded, unfolded
from multigrade.pictures.denoise.nonlocal_estimate import nonlocal_estimate
from multigrade.pictures.metrics import psnr
from multigrade.pictures.noise.clipping import clipped_mean, clipped_variance, is_clipped, unclipped
from multigrade.pictures.noise.impulses import lost_pixels
from multigrade.pictures.noise.quiet import TEXTURE_RISE, TEXTURE_TAILS, noise_share
from multigrade.pictures.progress import OutOfTime
from multigrade.pictures.scales import doubled, halved
from multigrade.pictures.tiles import tiled

CAMERA = skimage.util.img_as_float32(skimage.data.camera())[None]
ASTRONAUT = np.moveaxis(skimage.util.img_as_float32(skimage.data.astronaut()), -1, 0)


def noisy(clean, sigma, *, clip=False):
    found = clean + np.float32(sigma / 255) * np.random.default_rng(0).standard_normal(clean.shape, np.float32)
    return np.round(np.clip(found, 0, 1) * 255).astype(np.float32) / 255 if clip else found


@pytest.mark.parametrize("clean", [CAMERA, ASTRONAUT], ids=["camera", "astronaut"])
@pytest.mark.parametrize(("sigma", "clip"), [(10, False), (25, False), (25, True), (50, True)])
def test_white_noise_is_found_white_and_of_its_level_though_clipped(clean, sigma, clip):
    noise = describe_noise(noisy(clean, sigma, clip=clip))
    assert noise.kind == "white"
    assert 255 * noise.sigma == pytest.approx(sigma, rel=0.05)


def test_a_drawing_in_black_and_white_has_no_noise():
    assert describe_noise(skimage.data.horse()[None].astype(np.float32)).sigma == 0


def test_a_drawing_in_greys_with_smooth_edges_has_no_noise_and_noise_on_it_is_found():
    drawing = np.float32(0.1) + np.float32(0.8) * skimage.data.shepp_logan_phantom()[None].astype(np.float32)
    assert describe_noise(drawing).kind == "none"
    assert 255 * describe_noise(noisy(drawing, 3, clip=True)).sigma == pytest.approx(3, rel=0.1)


def test_correlated_noise_is_found_correlated_and_removed():
    """As a camera leaves it: two by two means of white noise, wider in the colours."""
    random = np.random.default_rng(2)
    clean = ASTRONAUT[:, 100:292, 100:292]
    wide = [skimage.filters.gaussian(random.standard_normal(clean.shape[1:]), size) for size in (0.9, 2.0, 2.0)]
    spread = np.stack([0.04 * part / part.std() for part in wide]).astype(np.float32)
    observed = clean + np.tensordot(np.linalg.inv(_opponents()), spread, axes=1).astype(np.float32)
    noise = describe_noise(observed)
    assert noise.kind == "camera"
    assert noise.sigma == pytest.approx(np.sqrt(np.mean((observed - clean) ** 2)), rel=0.25)
    found = denoised(observed, noise)
    assert psnr(found.images["non-local"], clean) > psnr(observed, clean) + 1
    assert found.risk is None


def test_grey_that_is_stored_in_colour_is_denoised_as_grey():
    """Its colours do not differ, which says nothing about its noise."""
    grey = noisy(CAMERA[:, 60:124, 60:124], 20, clip=True)[0]
    plain, stored = (restore.denoise(image) for image in (grey, np.stack([grey] * 3, axis=-1)))
    assert stored.noise_sigma == plain.noise_sigma == pytest.approx(20, rel=0.2)
    np.testing.assert_array_equal(stored.image, np.stack([plain.image] * 3, axis=-1))


def _opponents():
    return np.stack([decorrelated(np.eye(3)[:, channel, None, None])[:, 0, 0] for channel in range(3)], axis=1)


def test_variance_that_follows_brightness_a_little_is_found():
    """A picture without blacks: it was taken for white noise of the darker parts, and noise stayed in the brighter."""
    clean = np.moveaxis(skimage.util.img_as_float32(skimage.data.immunohistochemistry()[176:336, 176:336]), -1, 0)
    observed = (np.random.default_rng(3).poisson(clean * 100) / 100).astype(np.float32)
    noise = describe_noise(observed)
    assert noise.kind == "brighter"
    assert noise.sigma == pytest.approx(np.sqrt(np.mean((observed - clean) ** 2)), rel=0.05)


def test_variance_that_follows_brightness_is_found():
    counts = 60
    observed = (np.random.default_rng(3).poisson(CAMERA * counts) / counts).astype(np.float32)
    noise = describe_noise(observed)
    assert noise.kind == "brighter"
    assert noise.line is not None
    assert noise.line[0] == pytest.approx(1 / counts, rel=0.25)


def test_clipped_mean_is_the_mean_of_clipped_values_and_is_undone():
    values = np.clip(0.05 + 0.1 * np.random.default_rng(4).standard_normal(400_000), 0, 1)
    assert clipped_mean(np.array(0.05), 0.1) == pytest.approx(values.mean(), abs=5e-4)
    assert clipped_variance(np.array(0.05), 0.1) == pytest.approx(values.var(), rel=0.01)
    x = np.linspace(0, 1, 30)
    np.testing.assert_allclose(unclipped(clipped_mean(x, 0.1), 0.1), x, atol=1e-3)
    assert unclipped(np.array([0.01]), 0.1)[0] == 0
    assert not is_clipped(np.array([[[-0.1, 0.0, 1.0]]])).any()


def test_blacks_of_a_clipped_picture_are_black_again():
    clean = np.zeros((64, 64), np.float32)
    clean[:, 32:] = 0.6
    result = restore.denoise(noisy(clean, 25, clip=True), noise_sigma=25)
    assert result.image[:, :24].mean() < 0.01
    assert result.estimated_psnr[-1] is None  # nothing honest can be said


def test_the_estimated_quality_is_within_half_a_decibel():
    clean = CAMERA[:, 60:260, 160:360]
    result = restore.denoise(noisy(clean, 8)[0], noise_sigma=8, reference=clean[0])
    assert result.estimated_psnr[-1] == pytest.approx(result.result_quality["psnr"], abs=0.5)


def test_tiles_make_the_whole_and_a_local_function_no_seams():
    image = np.random.default_rng(5).random((2, 50, 71))
    done = []

    def plus_one(part, progress):
        progress(1)
        return part[None] + 1

    found = tiled(plus_one, image, size=20, margin=3, progress=done.append)
    np.testing.assert_array_equal(found[0], image + 1)
    np.testing.assert_allclose(done, np.arange(1, 21) / 20)

    def blurred(part, progress=None):
        return skimage.filters.gaussian(part, (0, 0.7, 0.7), truncate=3)

    np.testing.assert_allclose(tiled(blurred, image, size=24, margin=4), blurred(image), atol=1e-12)


def test_tiles_that_there_was_no_time_for_are_smoothed_locally_and_the_rest_is_as_ever():
    clean = CAMERA[:, 60:156, 160:256]
    observed = noisy(clean, 25)

    def limited(share):
        if share > 0.5:
            raise OutOfTime

    def estimate(part, progress):
        progress(1)
        return nonlocal_estimate(part, 25 / 255)

    smooth = partial(locally_smoothed, sigma=25 / 255)
    cut = tiled(estimate, observed, size=64, margin=16, progress=limited, otherwise=smooth)
    whole = tiled(estimate, observed, size=64, margin=16)
    np.testing.assert_array_equal(cut[:, :48], whole[:, :48])
    assert psnr(observed, clean) + 3 < psnr(cut[:, 48:], clean[:, 48:]) < psnr(whole[:, 48:], clean[:, 48:])
    with pytest.raises(OutOfTime):
        tiled(estimate, observed, size=64, margin=16, progress=limited)


def test_a_time_limit_leaves_a_picture_that_is_less_noisy_at_once():
    clean = CAMERA[0]
    observed = noisy(clean, 25)
    options = restore.Options(time_limit=1e-3)
    result = restore.denoise(observed, noise_sigma=25, reference=clean, options=options)
    assert result.is_cut_short
    assert result.seconds < 5  # all of it takes ten times as long
    assert result.result_quality["psnr"] > result.input_quality["psnr"] + 3


def test_blocks_of_pixels_fold_and_unfold():
    image = np.random.default_rng(6).random((3, 8, 6)).astype(np.float32)
    np.testing.assert_array_equal(unfolded(folded(image[..., None])), image)


@pytest.mark.parametrize("sides", [(8, 6), (7, 5)], ids=["even", "odd"])
def test_half_the_size_has_the_means_and_twice_the_size_is_linear_between_them(sides):
    image = np.random.default_rng(7).random((2, *sides)).astype(np.float32)
    half = halved(image)
    np.testing.assert_allclose(half[:, 1, 1], image[:, 2:4, 2:4].mean((1, 2)))
    np.testing.assert_allclose(half[0, -1, 0], image[0, -2 + sides[0] % 2 :, :2].mean())
    double = doubled(half, image.shape)
    assert double.shape == image.shape
    np.testing.assert_allclose(
        double[:, 1, 1], (9 * half[:, 0, 0] + 3 * (half[:, 0, 1] + half[:, 1, 0]) + half[:, 1, 1]) / 16, rtol=1e-5
    )


def test_the_learned_grade_and_coarser_scales_improve_a_picture_they_have_not_seen():
    clean = CAMERA[:, 60:188, 160:288]
    alone, corrected, coarser = (psnr(image, clean) for image in estimates(noisy(clean, 40), 40 / 255))
    assert alone < corrected < coarser - 0.05


def test_without_noise_a_picture_stays_as_it_is():
    clean = CAMERA[0, :32, :32]
    np.testing.assert_array_equal(restore.denoise(clean, noise_sigma=0).image, clean)


@pytest.mark.parametrize(
    ("name", "before"),
    [("brick", 6.1), ("grass", 15.7), ("gravel", 13.2), ("microaneurysms", 5.1)],
)
def test_texture_without_noise_is_hardly_taken_for_noise(name, before):
    """So much noise was found in them before, where there is none."""
    clean = np.moveaxis(np.atleast_3d(skimage.util.img_as_float32(getattr(skimage.data, name)())), -1, 0)
    noise = describe_noise(clean)
    assert noise.kind in ("none", "white")
    assert 255 * noise.sigma < before / 3


def test_noise_on_texture_is_found_with_its_level():
    """It was 18.5 for 10 and 29.8 for 25 on grass."""
    grass = skimage.util.img_as_float32(skimage.data.grass())[None]
    for sigma in (10, 25):
        assert 255 * describe_noise(noisy(grass, sigma)).sigma == pytest.approx(sigma, rel=0.2)


def test_sparse_texture_does_not_hide_noise():
    """Lines between bricks: noise of 5 among them was still read as 6.4, and must not be read as none."""
    brick = skimage.util.img_as_float32(skimage.data.brick())[None]
    assert 255 * describe_noise(noisy(brick, 5)).sigma == pytest.approx(5, rel=0.1)


def test_share_of_noise_undoes_its_own_model():
    """Energies w + (1 - w) q and 1 + (1 - w)^2 (t - 1) give w back."""
    for share in (0.0, 0.3, 1.0):
        rise = share + (1 - share) * TEXTURE_RISE
        tails = 1 + (1 - share) ** 2 * (TEXTURE_TAILS - 1)
        assert noise_share(rise, 1e9) == pytest.approx(share)
        assert noise_share(1e9, tails) == pytest.approx(share)


@pytest.mark.parametrize("sigma", [0.05, 0.5, 2])
def test_faint_noise_on_flat_bright_areas_leaves_every_pixel_finite(sigma):
    """Patches that are alike to the bit, as in a JPEG file, made a matrix singular, and faint noise made pixels NaN."""
    steps = np.repeat(np.linspace(0.6, 1, 8, dtype=np.float32), 8)
    flat = np.tile(steps, (3, 64, 1))
    result = restore.denoise(np.moveaxis(flat, 0, -1), noise_sigma=sigma).image
    assert psnr(result, np.moveaxis(flat, 0, -1)) > 50


def salted(clean, share, seed=0):
    random = np.random.default_rng(seed).uniform(size=clean.shape[1:])
    return np.where(random < share / 2, 0, np.where(random > 1 - share / 2, 1, clean)).astype(np.float32)


def test_salt_and_pepper_is_found_and_filled_in():
    """It was taken for white noise of level 54, and the result had 24.6 dB."""
    clean = CAMERA[:, 100:260, 150:310]
    observed = salted(clean, 0.1)
    noise = describe_noise(observed)
    assert noise.kind == "impulses"
    assert noise.lost is not None
    assert np.mean(noise.lost) == pytest.approx(0.1, abs=0.02)
    result = denoised(observed, noise).images
    assert next(iter(result)) == "filled in"
    assert psnr(list(result.values())[-1], clean) > psnr(median_filter(observed, (1, 3, 3)), clean) + 2


@pytest.mark.parametrize("sigma", [0, 50])
def test_neither_noise_nor_stars_nor_letters_are_salt_and_pepper(sigma):
    for name in ("hubble_deep_field", "page", "text", "camera"):
        clean = np.moveaxis(np.atleast_3d(skimage.util.img_as_float32(getattr(skimage.data, name)())), -1, 0)
        assert lost_pixels(noisy(clean[:, :200, :200], sigma, clip=True)) is None
