"""``--recipe paper`` against a plain loop that knows nothing of the package, to single precision."""

import dataclasses
import os
from pathlib import Path

import jax
import numpy as np
import pytest

from multigrade.synthetic import setting
from multigrade_paper import catalogue, experiments
from multigrade_paper.images import eigenvalue_subset

from . import plain_loop


def job(item: str, label: str, images=None, **changes):
    jobs = catalogue.expand([item], recipe="paper", images=images)
    (found,) = (j for j in jobs if j.label.startswith(label))
    return dataclasses.replace(
        found, settings={**found.settings, "spectrum_every": None, "record_every": 100, **changes}
    )


@pytest.fixture(autouse=True)
def original_threefry():
    with jax.threefry_partitionable(False):
        yield


@pytest.mark.parametrize(
    ("label", "widths", "steps"),
    [
        ("setting 1 MGDL", [(1, 32, 1), *[(32, 32, 1)] * 3], 2000),
        ("setting 2 SGDL", [(1, 32, 32, 32, 32, 1)], 300),
    ],
)
def test_synthetic_runs(label, widths, steps):
    todo = job("eig-synthetic", label, epochs=steps)
    data = setting(todo.setup.setting)
    expected = plain_loop.synthetic(widths, data.x_train, data.y_train, todo.setup.learning_rate, steps)
    assert experiments.run(todo).metrics["grades_train_loss"] == pytest.approx(expected, rel=5e-4)


def test_multiscale_runs():
    todo, data = job("msdl-synthetic", "setting 1 MSDL learning rate 0.004", epochs=300), setting(1)
    expected = plain_loop.multiscale((1, 8, 8, 8, 8, 1), (1, 2, 4, 8), data.x_train, data.y_train, 0.004, 300)
    assert experiments.run(todo).metrics["train_loss"] == pytest.approx(expected, rel=5e-4)


def denoised(steps: int, images=None):
    """Ours and the plain loop's, on Butterfly or what stands in for it: losses and PSNRs of all grades."""
    from multigrade_paper.images import Pictures

    todo = job("eig-image-denoising", "butterfly noise 10 MGDL learning rate", images, epochs=steps)
    ours = experiments.run(todo, images=images).metrics
    image = eigenvalue_subset("butterfly", Pictures(images).get("butterfly").pixels, 4)
    widths = [(2, 48, 1), *[(48, 48, 1)] * 3]
    expected = plain_loop.denoising(widths, image, 10, 5e-5, 1e-3, 1e-4, 0.99, steps)
    return np.stack([ours["grades_train_loss"], ours["grades_test_psnr"]], 1), np.array(expected)


def test_denoising_spectrum_runs():
    ours, expected = denoised(500)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)


@pytest.mark.slow
def test_the_calm_run_whole():
    """All 100,000 steps of each grade; with the paper's Butterfly in MULTIGRADE_PAPER_IMAGES, the recorded figures."""
    folder = os.environ.get("MULTIGRADE_PAPER_IMAGES")
    ours, expected = denoised(100_000, folder and Path(folder))
    np.testing.assert_allclose(ours, expected, rtol=2e-3)
    if folder:
        recorded = [[40.745388, 17.314955], [37.372421, 17.709213], [35.666279, 17.927570], [34.240307, 18.114305]]
        np.testing.assert_allclose(ours, recorded, rtol=2e-3)
