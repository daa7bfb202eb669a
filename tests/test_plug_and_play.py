"""Plug and play: its two steps are what they say, and the best recipes for holes, small and shaken pictures use it."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.ndimage import binary_dilation, find_objects, label

from multigrade import restore
from multigrade.pictures import baselines
from multigrade.pictures.colour import recorrelated
from multigrade.pictures.files import load
from multigrade.pictures.inverse.patch_fill import filled, wide_holes
from multigrade.pictures.inverse.plug_and_play import consistent, smoothed
from multigrade.pictures.inverse.wide_fill import copies_beside
from multigrade.pictures.operators import BlockAverage, GaussianBlur, Mask
from multigrade.pictures.operators.function import LinearFunction
from multigrade.pictures.result import quality

CAMERA = load(":camera").pixels[64:256:2, 160:352:2].astype(np.float32)  # 96 x 96
BEST = restore.Options(recipe="best")
KNOWN = np.random.default_rng(1).uniform(size=CAMERA.shape) < 0.5


def shaken(x):
    return sum(jnp.roll(x, shift, axis=1) for shift in range(5)) / 5


@pytest.mark.parametrize(
    "operator",
    [
        GaussianBlur(1.5),
        Mask(jnp.asarray(KNOWN, jnp.float32)),
        BlockAverage(3, CAMERA.shape),
        LinearFunction.of(shaken, CAMERA.shape),
    ],
    ids=lambda operator: type(operator).__name__,
)
def test_consistent_is_the_minimiser_it_says(operator):
    generator = np.random.default_rng(0)
    image = generator.uniform(size=(1, *CAMERA.shape)).astype(np.float32)
    observed = operator.forward(jnp.asarray(generator.uniform(size=image.shape), jnp.float32))
    found = jnp.asarray(consistent(np.asarray(observed), operator, image, 0.1))
    gradient = operator.backward(operator.forward(found) - observed) + 0.1 * (found - image)
    np.testing.assert_allclose(gradient, 0, atol=2e-5)


def test_smoothing_turns_with_the_colours_and_takes_pictures_smaller_than_a_patch():
    """Grey in three channels is the first decorrelated channel alone: what is done to it is done to all."""
    grey = CAMERA[None, :40, :40]
    brightness = np.concatenate([grey, np.zeros((2, *grey.shape[1:]), np.float32)])
    as_grey = smoothed(grey, grey, 0.1)
    np.testing.assert_allclose(
        smoothed(recorrelated(brightness), recorrelated(brightness), 0.1)[0], as_grey[0] / 3**0.5, atol=1e-5
    )
    assert smoothed(grey[:, :3, :5], grey[:, :3, :5], 0.1).shape == (1, 3, 5)


def test_inpainting_keeps_known_pixels_to_the_bit_and_beats_the_biharmonic_equation():
    result = restore.inpaint(CAMERA, KNOWN, reference=CAMERA)
    np.testing.assert_array_equal(result.image[KNOWN], CAMERA[KNOWN])
    simple = quality(baselines.inpaint_biharmonic(CAMERA, KNOWN), CAMERA)
    assert result.recipe == "best"
    assert result.noise_is_assumed
    assert result.result_quality["psnr"] > simple["psnr"] + 1
    assert result.result_quality["ssim"] > simple["ssim"]


def test_inpainting_with_noise_denoises_what_is_known():
    noisy = CAMERA + np.float32(0.06) * np.random.default_rng(2).standard_normal(CAMERA.shape, np.float32)
    result = restore.inpaint(noisy, KNOWN, noise_sigma=0.06 * 255, options=BEST)
    assert np.mean((result.image - CAMERA)[KNOWN] ** 2) < 0.5 * 0.06**2


def test_a_wide_hole_in_a_pattern_is_filled_with_the_pattern():
    rows, columns = np.indices((96, 96))
    pattern = np.float32((rows // 4 + columns // 6) % 2)  # no wave: it has edges
    known = np.ones(pattern.shape, bool)
    known[30:60, 40:66] = False
    known[5, 5:9] = False
    assert wide_holes(known).sum() == 30 * 26
    whole = filled(np.where(known, pattern, 0.5)[None], ~known)
    assert whole is not None
    np.testing.assert_array_equal(whole[0][known], pattern[known])
    assert np.mean(np.abs(whole[0] - pattern)[~known]) < 0.05  # smoothly filled: 0.5
    result = restore.inpaint(pattern, known, options=BEST)
    assert result.names == ("smooth", "biharmonic", "patches", "mixture", "non-local")
    assert np.mean(np.abs(result.image - pattern)[30:60, 40:66]) < 0.05


def test_a_wide_hole_that_nothing_is_like_is_filled_no_worse_than_by_the_biharmonic_equation():
    rows, columns = np.indices((80, 80)) / 80
    smooth = np.float32(0.2 + 0.5 * rows**2 + 0.3 * np.sin(2 * columns))
    known = np.ones(smooth.shape, bool)
    known[30:50, 28:50] = False
    errors = {
        "best": restore.inpaint(smooth, known, options=BEST).image - smooth,
        "biharmonic": baselines.inpaint_biharmonic(smooth, known) - smooth,
        "patches": filled(np.where(known, smooth, 0)[None], ~known)[0] - smooth,
    }
    found = {name: np.sqrt(np.mean(error**2)) for name, error in errors.items()}
    assert max(found["best"], found["biharmonic"]) < 1e-4 < 1e-3 < found["patches"]


def test_copies_of_a_hole_have_its_form_lie_apart_and_are_smaller_where_there_is_little_room():
    hole = np.zeros((90, 90), bool)
    hole[30:50, 30:45] = True
    hole[30:35, 30:35] = False
    copies = copies_beside(hole, ~hole)
    pieces, count = label(copies)
    assert count == 4
    for rows, columns in find_objects(pieces):
        np.testing.assert_array_equal(copies[rows, columns], hole[30:50, 30:45])
    assert not (copies & binary_dilation(hole, iterations=3)).any()
    narrow = np.zeros_like(hole)
    narrow[:20] = True  # with a gap, only half the form fits
    (rows, columns), *_ = find_objects(label(copies_beside(hole, narrow))[0])
    assert (rows.stop - rows.start, columns.stop - columns.start) == (10, 8)
    assert not copies_beside(hole, np.zeros_like(hole)).any()


def test_a_hole_with_too_little_around_it_is_not_filled_by_patches():
    hole = np.ones((20, 20), bool)
    hole[:2] = False
    assert filled(np.zeros((1, 20, 20), np.float32), hole) is None
    assert np.isfinite(restore.inpaint(CAMERA[:20, :20], ~hole, options=BEST).image).all()


@pytest.mark.parametrize("channels", [1, 3])
def test_upsampling_beats_cubic_interpolation_by_half_a_decibel(channels):
    clean = CAMERA[:64, :64]
    if channels == 3:
        clean = load(":astronaut").pixels[0:128:2, 160:288:2].astype(np.float32)
    small = np.asarray(BlockAverage(2, clean.shape[:2])(jnp.asarray(clean)))
    result = restore.upsample(small, factor=2, reference=clean)
    assert result.recipe == "best"
    cubic = quality(baselines.upsample(small, 2, kind="cubic"), clean)
    assert result.result_quality["psnr"] > cubic["psnr"] + 0.5
    np.testing.assert_allclose(BlockAverage(2, clean.shape[:2])(jnp.asarray(result.image)), small, atol=0.02)


def test_any_linear_operator_is_inverted_better_than_by_the_minimiser():
    noise = 3 / 255 * np.random.default_rng(3).standard_normal(CAMERA.shape, np.float32)
    result = restore.invert(shaken(CAMERA) + noise, shaken, shape=CAMERA.shape, noise_sigma=3, reference=CAMERA)
    minimiser, best = (stage["psnr"] for stage in result.grades)
    assert best > minimiser + 0.5


@dataclasses.dataclass
class Listener:
    name: str = "listener"
    every: int | None = None
    told: list = dataclasses.field(default_factory=list)

    def prepare(self, share):
        self.told.append(share)

    def observe(self, snapshot, carry):
        return None


def test_progress_is_told_and_a_time_limit_ends_it():
    listener = Listener()
    options = dataclasses.replace(BEST, observers=(listener,), time_limit=1e-3)
    result = restore.inpaint(CAMERA, KNOWN, options=options)
    assert result.is_cut_short
    assert np.isfinite(result.image).all()
    assert listener.told == [0]


@pytest.mark.parametrize(
    ("options", "message"),
    [(restore.Options(recipe="best", steps=5), "trains no grades"), (restore.Options(recipe="best", beta=1), "lambda")],
)
def test_options_that_would_be_ignored_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        restore.inpaint(CAMERA, KNOWN, options=options)
