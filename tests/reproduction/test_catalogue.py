"""The catalogue: items expand into jobs, recipes and overrides are checked, images are the paper's or marked."""

import dataclasses

import numpy as np
import pytest

from multigrade.equations import READY
from multigrade.pictures.files import Picture, save
from multigrade_paper import catalogue, recipes, setup
from multigrade_paper import numbers as paper
from multigrade_paper.images import ENTRIES, Pictures, eigenvalue_subset, shrunk

NAMES = [item.name for item in catalogue.items()]
# Methods, images, levels and rates of the list; degraded inputs and baselines are one job per cell.
NUM_JOBS = {
    "table1": 6 * 2 + 6, "figure-cameraman": 2 + 1, "table2": 18 * 2 + 2 * 18, "table3": 9 * 2 + 2 * 9,
    "lr-synthetic": 4 * len(paper.SYNTHETIC_SWEEP), "lr-image": 8 * len(paper.IMAGE_SWEEP), "eig-synthetic": 4,
    "alpha-synthetic": 4, "eig-image-regression": 9, "eig-image-denoising": 12,
    "msdl-synthetic": 4 + 4 * len(paper.SYNTHETIC_SWEEP), "theory": 4, "convex": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def everything():
    return {recipe: catalogue.expand(NAMES, recipe=recipe, images=None) for recipe in ("paper", "fast", "quick")}


@pytest.mark.parametrize("name", NAMES)
def test_paper_items_have_a_job_for_every_cell(name):
    assert len(catalogue.expand([name], recipe="paper", images=None)) == NUM_JOBS[name]
    assert catalogue.ITEMS[name].title
    assert catalogue.ITEMS[name].place


def test_all_items_expand_under_all_recipes_into_distinct_jobs(everything):
    for recipe, jobs in everything.items():
        assert len({job.key for job in jobs}) == len(jobs)
        assert {job.item for job in jobs} == set(NAMES) - {"figure-cameraman"}  # which shares its jobs with table1
        assert {job.settings["recipe"] for job in jobs if job.kind not in catalogue.UNSEEDED} == {recipe}


def test_every_setting_of_a_job_is_known_by_name_and_type(everything):
    names = {name for jobs in everything.values() for job in jobs for name in job.settings}
    assert names <= setup.NAMES
    for jobs in everything.values():
        for job in jobs:
            assert {name: getattr(job.setup, name) for name in job.settings} == job.settings


def test_items_share_jobs():
    cameraman = {job.key for job in catalogue.expand(["figure-cameraman"], recipe="paper", images=None)}
    table = {job.key for job in catalogue.expand(["table1"], recipe="paper", images=None)}
    assert cameraman < table


def test_a_shared_job_is_of_every_item_that_asks_for_it(everything):
    for jobs in everything.values():
        recipe = jobs[0].settings["recipe"]
        for name in (
            "table1",
            "figure-cameraman",
            "table3",
            "lr-synthetic",
            "eig-synthetic",
            "msdl-synthetic",
            "theory",
        ):
            asked = {job.key for job in catalogue.expand([name], recipe=recipe, images=None)}
            assert {job.key for job in jobs if catalogue.is_of(catalogue.ITEMS[name], job)} == asked


def test_our_training_chooses_its_own_strengths():
    for recipe in ("fast", "best"):
        jobs = [job for job in catalogue.expand(["table2", "table3"], recipe=recipe, images=None)]
        chosen = {(job.settings["beta"], job.settings["weight"]) for job in jobs if job.kind == "restoration"}
        assert chosen == {(None, None)}
    given = catalogue.expand(["table3"], recipe="fast", images=None, overrides={"beta": "0.5"})
    assert {job.settings["beta"] for job in given if job.kind == "restoration"} == {0.5}


def test_only_quick_and_fast_differ_from_the_paper(everything):
    assert not any(job.settings["changed"] for job in everything["paper"])
    # The baselines and theorems of the fast recipe are those of the paper recipe.
    assert {job.kind for job in everything["fast"] if not job.settings["changed"]} == {
        "baseline", "input", "theory", "convex"
    }  # fmt: skip
    assert all(job.settings["changed"] for job in everything["quick"])


def test_recorded_hyperparameters_are_used():
    jobs = catalogue.expand(["table2", "table3", "eig-synthetic"], recipe="paper", images=None)
    found = {
        (job.settings["task"], job.settings["method"]): job.settings
        for job in jobs
        if job.kind == "restoration" and (job.settings["image"], job.settings["noise"], job.settings["blur"])
        in {("butterfly", 10, 0), ("butterfly", 3, 3)}
    }  # fmt: skip
    strengths = {cell: (s["learning_rate"], s["beta"], s["weight"]) for cell, s in found.items()}
    assert strengths == {
        ("denoise", "SGDL"): (5e-3, 0.1, 1e-4), ("denoise", "MGDL"): (5e-3, 1, 1e-2),
        ("deblur", "SGDL"): (5e-3, 0.1, 0.1), ("deblur", "MGDL"): (5e-3, 1e-2, 0.1),
    }  # fmt: skip
    rates = {
        (j.settings["setting"], j.settings["method"]): j.settings["learning_rate"] for j in jobs if j.kind == "descent"
    }
    assert rates == {(1, "SGDL"): 0.08, (1, "MGDL"): 0.06, (2, "SGDL"): 0.005, (2, "MGDL"): 0.2}


def test_overrides_reach_every_configuration_that_has_the_field():
    jobs = catalogue.expand(["table1", "eig-synthetic"], recipe="paper", images=None, overrides={"epochs": "123"})
    trained = [job for job in jobs if job.kind != "baseline"]
    assert {job.settings["epochs"] for job in trained} == {123}
    assert {tuple(job.settings["changed"]) for job in trained} == {("epochs",)}
    rates = catalogue.expand(["lr-synthetic"], recipe="quick", images=None, overrides={"rates": "0.1,0.2"})
    assert {job.settings["learning_rate"] for job in rates} == {0.1, 0.2}


def test_an_override_with_the_default_value_is_the_same_job():
    plain = catalogue.expand(["eig-synthetic"], recipe="paper", images=None)
    told = catalogue.expand(["eig-synthetic"], recipe="paper", images=None, overrides={"epochs": "1000000"})
    assert [job.key for job in plain] == [job.key for job in told]


def test_seeds_repeat_what_is_trained():
    once, thrice = (catalogue.expand(["table1"], recipe="quick", images=None, seeds=n) for n in (1, 3))
    assert len(thrice) == 6 + 3 * 12
    assert {job.key for job in once} < {job.key for job in thrice}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ["tabel1"]}, "there is no item 'tabel1' .did you mean table1"),
        ({"recipe": "papr"}, "recipe must be one of .*; got 'papr' .did you mean paper"),
        ({"overrides": {"epoch": "3"}}, "no setting 'epoch' here .did you mean epochs"),
        ({"overrides": {"beta": "3"}}, "no setting 'beta' here"),
        ({"overrides": {"epochs": "many"}}, "epochs must be a whole number; got 'many'"),
        ({"overrides": {"epochs": "1.5"}}, "epochs must be a whole number; got '1.5'"),
        ({"overrides": {"epochs": "0"}}, "epochs must be positive; got 0"),
        ({"names": ["theory"], "overrides": {"points": "3000"}}, "points must be at most 1024, which a setting has"),
        ({"overrides": {"learning_rate": "nan"}}, "learning_rate must be positive; got nan"),
        ({"names": ["lr-synthetic"], "overrides": {"rates": "0.1;0.2"}}, "rates must be a list of numbers"),
        ({"seeds": 0}, "seeds must be at least 1; got 0"),
    ],
)
def test_what_does_not_exist_is_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        catalogue.expand(arguments.pop("names", ["table1"]), **{"recipe": "paper", "images": None, **arguments})
    assert "\n" not in str(caught.value)


def test_a_recipe_for_images_alone_refuses_other_items():
    with pytest.raises(ValueError, match="recipe best is for image tasks alone"):
        recipes.config("theory", "best")


# ---- images -----------------------------------------------------------------------------------------------------


def write(folder, name, shape, **changes):
    pixels = np.random.default_rng(0).integers(0, 256, size=shape) / 255
    save(folder / name, dataclasses.replace(Picture(pixels), **changes))
    return pixels


def test_images_of_the_folder_are_taken_and_the_rest_stands_in(tmp_path):
    pixels = write(tmp_path, "cameraman.png", (256, 256))
    chart = write(tmp_path, "resolution_chart.tif", (256, 256))
    pictures = Pictures(tmp_path)
    np.testing.assert_allclose(pictures.get("cameraman").pixels, pixels, atol=1e-12)
    np.testing.assert_allclose(pictures.get("resolution_chart").pixels, 1 - chart, atol=1e-12)
    assert not pictures.get("cameraman").stand_in
    jobs = catalogue.expand(["table1"], recipe="paper", images=tmp_path)
    assert {job.settings["image"] for job in jobs if not job.settings["stand_in"]} == {"cameraman"}


def test_a_walnut_is_always_a_stand_in(tmp_path):
    write(tmp_path, "walnut_substitute.png", (1023, 1023))
    assert Pictures(tmp_path).get("walnut").stand_in


def test_stand_ins_have_the_papers_sizes():
    for name, entry in ENTRIES.items():
        source = Pictures(None).get(name)
        assert source.stand_in
        assert source.pixels.shape == (entry.size or 1024,) * 2
        assert 0 <= source.pixels.min() < source.pixels.max() <= 1


def test_another_image_is_another_job(tmp_path):
    write(tmp_path, "cameraman.png", (256, 256))
    ours, theirs = (catalogue.expand(["figure-cameraman"], recipe="quick", images=f)[0] for f in (None, tmp_path))
    assert ours.data != theirs.data
    assert ours.key != theirs.key


def test_wrong_image_folders_are_one_line(tmp_path):
    with pytest.raises(ValueError, match="images must be a folder"):
        Pictures(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="has none of the paper's images"):
        Pictures(tmp_path)
    write(tmp_path, "cameraman.png", (128, 256))
    with pytest.raises(
        ValueError, match=r"cameraman.png must have 256 x 256 pixels, as in the paper; it has 128 x 256"
    ):
        catalogue.expand(["table1"], recipe="paper", images=tmp_path)
    write(tmp_path, "cameraman.png", (256, 256, 3))
    with pytest.raises(ValueError, match=r"cameraman.png must be grey"):
        Pictures(tmp_path).get("cameraman")
    (tmp_path / "cameraman.png").write_text("no image")
    with pytest.raises(ValueError, match=r"cameraman.png is not a PNG, JPEG or TIFF image"):
        Pictures(tmp_path).get("cameraman")


def test_shrinking_takes_means_of_blocks():
    image = np.arange(42.0).reshape(7, 6)
    np.testing.assert_allclose(shrunk(image, 2), [[image[:3, :3].mean(), image[:3, 3:6].mean()],
                                                  [image[3:6, :3].mean(), image[3:6, 3:6].mean()]])  # fmt: skip
    assert shrunk(image, None) is image
    image = np.random.default_rng(0).uniform(size=(7, 7))
    for size in range(1, 8):  # all of the picture, also where pixels must be shared out
        repeated = np.repeat(np.repeat(image, size, axis=0), size, axis=1)
        np.testing.assert_allclose(shrunk(image, size), shrunk(repeated, size))
        assert shrunk(image, size).mean() == pytest.approx(image.mean())
    with pytest.raises(ValueError, match="size must be at most the image's own, 7; got 8"):
        shrunk(image, 8)


def test_eigenvalue_runs_see_the_papers_pixels():
    image = np.arange(512 * 512).reshape(512, 512)
    assert eigenvalue_subset("butterfly", image).shape == (256, 256)
    np.testing.assert_array_equal(eigenvalue_subset("barbara", image), image[:256, 256:][::2, ::2])
    assert eigenvalue_subset("butterfly", image, 4).shape == (64, 64)
    assert eigenvalue_subset("barbara", image, 4).shape == (32, 32)


def test_items_beyond_the_paper_run_only_when_they_are_named():
    assert {item.place for item in catalogue.BEYOND} == {"beyond the paper"}
    assert not {item.name for item in catalogue.BEYOND} & set(NAMES)
    # Six variants by gradient descent and by Adam on two settings; three methods on two settings and a picture.
    assert len(catalogue.expand(["steadiness"], recipe="paper", images=None)) == 24
    assert len(catalogue.expand(["spectral-bias"], recipe="paper", images=None)) == 9
    # Every ready problem once.
    jobs = catalogue.expand(["equations"], recipe="paper", images=None)
    assert {job.settings["task"] for job in jobs} == set(READY)


def test_a_recipe_whose_numbers_changed_has_new_keys_and_no_other_has(monkeypatch):
    def keys(recipe):
        return [
            job.key for job in catalogue.expand(["table2"], recipe=recipe, images=None) if job.kind == "restoration"
        ]

    best, paper = keys("best"), keys("paper")
    theory = [job.key for job in catalogue.expand(["theory"], recipe="paper", images=None)]
    monkeypatch.setattr("multigrade_paper.job.REVISED", {})
    assert not set(keys("best")) & set(best)
    assert not set(keys("paper")) & set(paper)
    assert [job.key for job in catalogue.expand(["theory"], recipe="paper", images=None)] == theory
