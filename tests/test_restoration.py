"""Restoration: the proximal step, the Huber form, grades that build on each other, and the tasks end to end."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from multigrade import MultiGrade, Network, restore, structures
from multigrade.curvature import SpectrumObserver
from multigrade.pictures.baselines import interpolate_grid
from multigrade.pictures.files import add_blur, add_noise, load
from multigrade.pictures.graded.fitting import paper_structure
from multigrade.pictures.graded.model_selection import SecondLook, estimated_psnr
from multigrade.pictures.graded.restoration import (
    DIFFERENCES,
    ImageData,
    Restoration,
    RestorationTask,
    pixel_coordinates,
    soft_threshold,
)
from multigrade.pictures.inverse.variational import huber, objective, solve
from multigrade.pictures.metrics import psnr
from multigrade.pictures.operators import GaussianBlur, Identity, Mask
from multigrade.pictures.problem import Options, Problem
from multigrade.pictures.recipes import RECIPES, most_grades, networks, recipe_for
from multigrade.pictures.recipes import paper as paper_recipe
from multigrade.training import Plan, train_grades
from multigrade_paper import catalogue
from multigrade_paper import numbers as paper

CAMERA = load(":camera").pixels[64:192:2, 160:288:2]  # 64 x 64
SMALL = {"width": 24, "layers": 1, "grades": 2, "steps": 60}


def test_proximal_step_minimises_its_definition():
    x = jnp.linspace(-2, 2, 41)
    grid = np.linspace(-3, 3, 60001)
    best = [grid[np.argmin(0.5 * (grid - v) ** 2 + 0.7 * np.abs(grid))] for v in np.asarray(x)]
    np.testing.assert_allclose(soft_threshold(x, 0.7), best, atol=2e-4)


def test_eliminating_u_gives_the_huber_form():
    differences = np.linspace(-1, 1, 201)
    weight, beta = 0.1, 2.0
    u = soft_threshold(jnp.asarray(differences), weight / beta)
    eliminated = 0.5 * beta * (u - differences) ** 2 + weight * jnp.abs(u)
    np.testing.assert_allclose(eliminated, huber(jnp.asarray(differences), weight, beta), atol=1e-6)


def _image_data(operator=Identity(), scale=0.5, alpha=1.0, channels=2, h=5, w=6):  # noqa: B008
    generator = np.random.default_rng(0)
    network = Network((2, 8, channels), bias_std=0.3)
    observed, before = (jnp.asarray(generator.uniform(size=(channels, h, w)), jnp.float32) for _ in range(2))
    numbers = (jnp.float32(v) for v in (scale, 0.05, 1.5, alpha))
    data = ImageData(jnp.asarray(pixel_coordinates(h, w)), None, observed, before, operator, *numbers)
    return network, network.init(jax.random.key(0)), data


@pytest.mark.parametrize("operator", [Identity(), GaussianBlur(1.0)], ids=["identity", "blur"])
def test_objective_is_the_printed_one_and_its_gradient_sees_u_fixed(operator):
    network, params, data = _image_data(operator, alpha=0.9)
    u = jnp.asarray(np.random.default_rng(1).normal(size=(2, 2, 5, 6)), jnp.float32)
    loss, moved = Restoration(network)(params, u, data)

    def image(p):
        return data.before + 0.5 * network(p, data.features).T.reshape(2, 5, 6)

    def printed(p, v):
        fit = 0.5 * jnp.sum((data.observed - operator.forward(image(p))) ** 2)
        return fit + 0.75 * jnp.sum((v - DIFFERENCES(image(p))) ** 2) + 0.05 * jnp.sum(jnp.abs(v))

    expected = soft_threshold(0.9 * DIFFERENCES(image(params)) + 0.1 * u, 0.9 * 0.05 / 1.5)
    np.testing.assert_allclose(moved, expected, atol=1e-6)
    assert float(loss) == pytest.approx(float(printed(params, expected)), rel=1e-5)
    gradient = Restoration(network).value_and_grad(params, u, data)[1]
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        gradient,
        jax.grad(printed)(params, expected),
    )


@pytest.mark.parametrize("operator", [Identity(), GaussianBlur(1.0)], ids=["identity", "blur"])
def test_with_alpha_1_the_objective_is_that_of_all_images(operator):
    network, params, data = _image_data(operator, alpha=1.0)
    loss, _ = Restoration(network)(params, jnp.zeros((2, 2, 5, 6)), data)
    image = data.before + 0.5 * network(params, data.features).T.reshape(2, 5, 6)
    assert objective(image, data.observed, operator, 0.05, 1.5) == pytest.approx(float(loss), rel=1e-5)


def test_coordinates_are_x_then_y_without_the_end_point():
    coordinates = pixel_coordinates(2, 4)
    np.testing.assert_allclose(coordinates[:, 0], [0, 0.25, 0.5, 0.75] * 2)
    np.testing.assert_allclose(coordinates[:, 1], [0] * 4 + [0.5] * 4)


def test_a_grade_sees_earlier_grades_only_through_features_image_and_u():
    image = jnp.asarray(CAMERA[None], jnp.float32)
    first = restore.denoise(CAMERA, noise_sigma=5, options=Options(**{**SMALL, "grades": 1}, recipe="paper"))
    both = restore.denoise(CAMERA, noise_sigma=5, options=Options(**SMALL, recipe="paper"))
    jax.tree.map(np.testing.assert_array_equal, first.model.grades, both.model.grades[:1])
    task = RestorationTask(
        jnp.asarray(pixel_coordinates(64, 64)), image, jnp.zeros_like(image), Identity(), 0.1, 1, 0.99
    )
    after = task.after(both.model.grades[0], ())
    np.testing.assert_allclose(after.image[0], both.stages[0], atol=1e-5)
    expected = float(jnp.sqrt(jnp.mean((after.image - image) ** 2)))
    assert float(both.model.grades[1].scale) == pytest.approx(expected, rel=1e-4)  # epsilon_2


@pytest.mark.parametrize("recipe", [pytest.param("paper", marks=pytest.mark.slow), "networks"])
def test_every_task_returns_an_image_its_model_reproduces(recipe):
    options = Options(**{**SMALL, "steps": 20}, recipe=recipe)
    mask = np.random.default_rng(0).uniform(size=CAMERA.shape) < 0.7
    tasks = {
        "regress": restore.regress(CAMERA, options=options),
        "denoise": restore.denoise(CAMERA, options=options),
        "deblur": restore.deblur(CAMERA, blur_sigma=1.5, options=options),
        "inpaint": restore.inpaint(CAMERA, mask, noise_sigma=2, options=options),
        "upsample": restore.upsample(CAMERA[::2, ::2], options=options),
    }
    for name, result in tasks.items():
        np.testing.assert_allclose(
            np.asarray(result.model(pixel_coordinates(64, 64)))[:, 0].reshape(64, 64),
            result.image,
            atol=1e-3,
            err_msg=name,
        )
        assert len(result.stages) == 2


@pytest.mark.slow
def test_colour_is_restored_channel_by_channel_in_one_network():
    image = load(":astronaut").pixels[:96:3, :96:3]
    result = restore.denoise(
        add_noise(image, 15, seed=0), noise_sigma=15, reference=image, options=Options(**SMALL, recipe="networks")
    )
    assert result.image.shape == image.shape
    assert isinstance(result.model, MultiGrade)
    assert result.result_quality["psnr"] > result.grades[0]["psnr"] - 1


@pytest.mark.slow
def test_spectrum_of_a_restoration_run_equals_the_dense_hessian_with_u_fixed():
    image = jnp.asarray(CAMERA[None, :6, :5], jnp.float32)
    task = RestorationTask(
        jnp.asarray(pixel_coordinates(6, 5)), image, jnp.zeros_like(image), Identity(), 0.01, 1.0, 0.99
    )
    structure = structures.graded(2, [(4,)], 1, bias_std=0.5)
    seen = {}

    class Keep:
        name, every = "keep", 20

        def observe(self, snapshot, carry):
            flat, unravel = jax.flatten_util.ravel_pytree(snapshot.params)
            hessian = jax.hessian(lambda w: snapshot.loss(unravel(w)))(flat)
            seen[snapshot.step] = 1 - 0.001 * np.linalg.eigvalsh(np.float64(hessian))

    observers = [SpectrumObserver(every=20, num=3), Keep()]
    plan = Plan(40, "gd", learning_rate=0.001, record_every=10, observers=observers)
    fit = train_grades(structure, task, plan)
    spectrum = fit.records[0].observations["spectrum"]
    for step, smallest, largest in zip(spectrum["step"], spectrum["smallest"], spectrum["largest"], strict=True):
        np.testing.assert_allclose(np.sort(smallest), np.sort(seen[int(step)])[:3], atol=1e-4)
        np.testing.assert_allclose(np.sort(largest), np.sort(seen[int(step)])[-3:], atol=1e-4)


def test_denoising_beats_the_input_and_its_first_grade():
    """Recipe networks on a smooth 64 x 64 picture; the noise level is estimated."""
    clean = add_blur(CAMERA, 1.0)
    noisy = add_noise(clean, 25, seed=0)
    result = restore.denoise(
        noisy, reference=clean, options=Options(recipe="networks", width=48, layers=2, grades=3, steps=300)
    )
    values = [grade["psnr"] for grade in result.grades]
    assert min(values[1:]) > values[0] + 2
    assert values[-1] > result.input_quality["psnr"] + 2
    assert result.objective >= result.least_objective
    assert result.noise_sigma == pytest.approx(25, rel=0.25)


def test_regression_of_a_crop_by_the_paper_recipe_improves_with_grades():
    result = restore.regress(CAMERA, options=Options(recipe="paper", width=64, steps=300, grades=3))
    train = [record.train_loss[-1] for record in result.records]
    assert train == sorted(train, reverse=True)
    assert result.result_quality["psnr"] > result.grades[0]["psnr"]


def test_unknown_pixels_change_nothing():
    known = np.ones(CAMERA.shape, bool)
    known[20:30, 5:40] = False
    options = Options(**{**SMALL, "steps": 5}, recipe="networks")
    first, second = (
        restore.inpaint(np.where(known, CAMERA, value), known, options=options) for value in (CAMERA, 0.37)
    )
    np.testing.assert_array_equal(first.image, second.image)
    for name in ("noise_sigma", "weight", "objective", "least_objective"):
        assert getattr(first, name) == getattr(second, name)


def test_noise_beside_a_white_area_is_removed():
    noisy = add_noise(CAMERA, 20, seed=0)
    noisy[:, 24:] = 1
    result = restore.denoise(noisy, options=Options(**{**SMALL, "steps": 5}, recipe="networks"))
    assert result.noise_sigma == pytest.approx(20, rel=0.25)
    assert result.estimated_psnr


def test_an_estimate_that_is_not_positive_is_none():
    assert estimated_psnr(0.01) == pytest.approx(20)
    assert estimated_psnr(-1e-9) is None
    assert estimated_psnr(0.01, 0.006) is None  # within two standard errors of nothing


def test_the_estimates_standard_error_is_that_of_many_draws():
    smooth = np.float32(gaussian_filter(CAMERA, 1.5))[None]
    noisy = np.float32(add_noise(CAMERA, 20, seed=0))[None]
    draws = [np.random.default_rng(seed).standard_normal(noisy.shape, np.float32) for seed in range(60)]
    judges = [SecondLook(noisy, extra, 20 / 255) for extra in draws]
    assert np.std([judge(smooth) for judge in judges]) == pytest.approx(judges[0].doubt(smooth), rel=0.25)


def test_a_result_that_is_worse_than_its_input_says_so():
    options = Options(**{**SMALL, "steps": 100}, recipe="networks")
    poor, good = (
        restore.denoise(add_noise(CAMERA, sigma, seed=0), noise_sigma=sigma, reference=CAMERA, options=options)
        for sigma in (2, 80)
    )
    for found in (poor, good):
        is_worse = found.result_quality["psnr"] < found.input_quality["psnr"]
        assert found.is_worse_than_input is is_worse
    assert poor.is_worse_than_input
    assert not good.is_worse_than_input


def test_the_input_of_inpainting_is_what_was_seen():
    known = np.arange(CAMERA.size).reshape(CAMERA.shape) % 7 > 0
    options = Options(**{**SMALL, "steps": 5}, recipe="networks")
    found = restore.inpaint(CAMERA, known, noise_sigma=0, reference=CAMERA, options=options)
    assert found.input_quality["psnr"] == pytest.approx(psnr(np.where(known, CAMERA, 0), CAMERA))


@pytest.mark.slow
@pytest.mark.parametrize("image", [np.zeros((20, 24)), np.kron([[0.2, 0.7], [0.9, 0.4]], np.ones((16, 16)))])
def test_the_best_recipe_leaves_a_picture_without_noise_as_it_is(image):
    result = restore.denoise(image, options=Options(recipe="best"))
    assert (result.recipe, result.noise_sigma) == ("best", 0)
    np.testing.assert_allclose(result.image, image, atol=2e-3)


@pytest.mark.parametrize("recipe", ["networks", pytest.param("paper", marks=pytest.mark.slow)])
def test_a_time_limit_too_short_for_the_grades_gives_the_minimiser(recipe):
    noisy = add_noise(CAMERA, 20, seed=0)
    options = Options(**{**SMALL, "steps": 10**6}, recipe=recipe, time_limit=1e-3)
    result = restore.denoise(noisy, noise_sigma=20, reference=CAMERA, options=options)
    found = result
    minimiser = solve(np.float32(noisy)[None], Identity(), found.weight, found.beta)
    np.testing.assert_array_equal(result.image, minimiser[0])
    assert found.is_minimiser
    assert found.result_quality["psnr"] > found.input_quality["psnr"]
    assert not result.model.grades


def test_grades_that_diverge_at_once_give_the_minimiser():
    options = Options(recipe="paper", width=4, layers=1, grades=1, steps=20, learning_rate=1e30)
    result = restore.denoise(add_noise(CAMERA, 20, seed=0), noise_sigma=20, reference=CAMERA, options=options)
    assert result.outcomes[-1] == "diverged"
    assert result.is_minimiser
    assert result.result_quality is None  # of the grades, which have none
    assert not result.grades
    assert result.fallback["psnr"] > result.input_quality["psnr"]


def test_the_scale_of_a_grade_is_that_of_the_known_pixels():
    known = np.zeros((4, 6), bool)
    known[1, 2:4] = True
    image = jnp.full((1, 4, 6), 0.5)
    observed = jnp.where(known, 0.2, 0.0)[None]
    task = RestorationTask(jnp.zeros((24, 2)), observed, image, Mask(known), 0.1, 1.0, 0.99)
    assert float(task.problem(structures.MGDL_3[1], 1).scale) == pytest.approx(0.3)


def _blur(sigma, options):
    return restore.deblur(CAMERA, blur_sigma=sigma, noise_sigma=3, options=options)


def _upsample(factor, options):
    return restore.upsample(CAMERA[:16, :16], factor=factor, noise_sigma=3, options=options)


def _denoise(reference, options):
    return restore.denoise(CAMERA, noise_sigma=3, reference=reference, options=options)


@pytest.mark.parametrize(
    ("call", "first", "then"),
    [
        (_blur, 1, 2),
        pytest.param(_upsample, 2, 3, marks=pytest.mark.slow),
        pytest.param(_denoise, None, CAMERA, marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_is_of_its_operator(tmp_path, call, first, then):
    options = Options(recipe="paper", width=4, layers=1, grades=1, steps=1, checkpoint=tmp_path / "c")
    call(first, options)
    with pytest.raises(ValueError, match="belongs to other settings"):
        call(then, options)


def test_one_deep_network_sees_as_much_as_the_grades(monkeypatch):
    """Steps times pixels times hidden layers: the same budget for both methods of recipe networks."""
    budgets = []

    class Seen(Exception):
        pass

    def train(structure, task, plan, *_, **__):
        hidden = [len(network.widths) - 2 for network in structure]
        budgets.append(plan.steps * sum(size * count for size, count in zip(task.batch_sizes, hidden, strict=True)))
        raise Seen

    monkeypatch.setattr(networks, "train", train)
    for method in ("mgdl", "sgdl"):
        for task in (restore.denoise, restore.regress):
            image = np.tile(CAMERA, (1 if task is restore.denoise else 4, 1))
            with pytest.raises(Seen):
                task(image, options=Options(recipe="networks", method=method))
    assert budgets[:2] == budgets[2:]


@pytest.mark.parametrize(
    ("task", "size", "options", "expected", "grades"),
    [
        ("denoise", (8, 8), Options(), "best", 0),  # the learned grade needs no training
        ("denoise", (8, 8), Options(method="sgdl"), "networks", 1),
        ("denoise", (8, 8), Options(weight=0.1), "networks", 4),  # best has its own strengths
        ("deblur", (64, 64), Options(), "best", 0),
        ("deblur", (64, 64), Options(grades=1), "networks", 1),
        ("deblur", (64, 40), Options(), "networks", 4),  # too small for copies
        ("inpaint", (64, 64), Options(), "best", 0),
        ("inpaint", (64, 64), Options(steps=9), "networks", 4),  # best trains nothing
        ("upsample", (64, 64), Options(beta=1.0), "networks", 4),
        ("invert", (64, 64), Options(), "best", 0),
        ("regress", (64, 64), Options(), "best", 6),
    ],
)
def test_the_default_recipe_is_the_best_that_can(task, size, options, expected, grades):
    assert recipe_for(task, size, options) is RECIPES[task, expected]
    assert most_grades(task, size, options) == grades


def test_a_recipe_that_a_task_does_not_have_is_refused_by_name(monkeypatch):
    monkeypatch.delitem(RECIPES, ("upsample", "best"))
    with pytest.raises(ValueError, match="must be networks or paper for upsample, which has no recipe best"):
        restore.upsample(CAMERA, options=Options(recipe="best"))


class Watcher:
    name, every = "watcher", None

    def __init__(self):
        self.grades = []

    def observe(self, snapshot, carry):
        self.grades.append(snapshot.grade)


@pytest.mark.slow
def test_both_fits_of_regression_by_the_best_recipe_follow_the_options():
    watcher = Watcher()
    options = Options(recipe="best", **{**SMALL, "steps": 12}, observers=[watcher])
    result = restore.regress(CAMERA, options=options)
    assert [record.num_steps for record in result.records] == [12] * len(result.records)
    assert {grade.network.widths[1:-1] for grade in result.model.grades} == {(24,)}
    assert max(watcher.grades) + 1 == most_grades("regress", CAMERA.shape, options) == 4
    assert result.input_quality is None  # the picture is its own reference


def test_the_second_fit_has_the_time_that_the_first_leaves():
    options = Options(recipe="best", **{**SMALL, "steps": 10**6}, time_limit=1e-3)
    result = restore.regress(CAMERA, options=options)
    assert len(result.records) == 1
    bilinear = interpolate_grid(CAMERA[::2, ::2], CAMERA.shape)
    assert result.result_quality["psnr"] > psnr(bilinear, CAMERA) - 0.5


@pytest.mark.slow
def test_regression_of_two_rows_is_by_recipe_networks_which_it_names():
    result = restore.regress(CAMERA[:2], options=Options(**{**SMALL, "steps": 5}))
    assert result.recipe == "networks"


def test_what_the_paper_does_is_what_reproduce_does():
    """The settings of the recorded winners, and of the catalogue's cells beyond them."""
    given = Options(recipe="paper", width=4, layers=1, grades=1, steps=1)
    for job in catalogue.expand(["table2", "table3"], recipe="paper", images=None):
        settings = job.settings
        if job.kind != "restoration" or settings["image"] != "butterfly":
            continue
        problem = Problem(settings["task"], CAMERA[None], Identity(), (1, 64, 64), settings["noise"])
        found = paper_recipe.recorded_strengths(problem, settings["method"])
        assert (found.weight, found.beta) == (settings["weight"], settings["beta"])
        assert (paper.RESTORATION.steps, paper.RESTORATION.learning_rate) == (
            settings["epochs"],
            settings["learning_rate"],
        )
    found = restore.denoise(CAMERA, noise_sigma=10, options=given)
    assert (found.weight, found.beta) == (0.01, 1.0)  # facts: MGDL, noise 10
    assert "tuned by the clean picture" in found.strengths_from


def test_the_papers_structures_are_those_of_their_names():
    for name in ("MGDL-2", "SGDL-2", "MGDL-3", "SGDL-3"):
        found = paper_structure(name, Options(method=name[:4].lower()), 1)
        assert [network.widths for network in found] == [network.widths for network in structures.PAPER[name]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: restore.denoise(CAMERA, noise_sigma=-1), "noise_sigma must be at least 0"),
        (lambda: restore.denoise(CAMERA[:1, :1]), "at least 2 x 2 pixels"),
        (lambda: restore.denoise(CAMERA * np.nan), "must be finite"),
        (lambda: restore.deblur(CAMERA, blur_sigma=-3), "sigma must"),
        (lambda: restore.inpaint(CAMERA, np.ones((3, 3))), "mask must have the image's size"),
        (lambda: restore.inpaint(CAMERA, np.zeros_like(CAMERA)), "it marks none"),
        (lambda: restore.upsample(CAMERA, factor=1), "factor must be"),
        (lambda: Options(method="x"), "method must be one of mgdl, sgdl"),
        (lambda: Options(recipe="x"), "recipe must be one of best, networks, paper"),
        (lambda: Options(steps=0), "steps must be at least 1"),
        (lambda: Options(seed=-1), "seed must be at least 0"),
        (lambda: Options(seed=10**20), "seed must be below 2**32"),
        (lambda: restore.regress(CAMERA, options=Options(beta=1.0)), "must not be given for regression"),
        (lambda: restore.inpaint(CAMERA, CAMERA, options=Options(recipe="best", grades=1)), "trains no grades"),
        (lambda: restore.deblur(CAMERA[:40], blur_sigma=1, options=Options(recipe="best")), "at least 64 pixels"),
        (lambda: restore.denoise(CAMERA, options=Options(recipe="best", beta=1.0)), "must not be given"),
        (
            lambda: restore.inpaint(CAMERA, np.arange(64) % 2 > np.zeros((64, 1)), options=Options(recipe="networks")),
            "noise_sigma must be given",
        ),
        (lambda: Options(learning_rate=-1), "learning_rate must be a positive number"),
        (lambda: Options(weight=-1), "lambda must be at least 0"),
        (lambda: restore.denoise(CAMERA, options=Options(method="sgdl", grades=2)), "must be 1 with method sgdl"),
        (lambda: restore.denoise(CAMERA, reference=CAMERA[1:]), "got 63 x 64 pixels in grey"),
        (lambda: restore.denoise(np.int64(255 * CAMERA)), "must be floating point from 0 to 1, uint8 or uint16"),
        (lambda: restore.denoise(255 * CAMERA), "must be on the scale 0 to 1; got"),
        (lambda: restore.upsample(np.zeros(5)), "must be (h, w) or (h, w, channels)"),
        (lambda: restore.denoise(np.zeros((3, 40, 40))), "must be (h, w) or (h, w, channels), 1 to 4 channels"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
