"""Gradient descent on synthetic data and images, with or without spectra of I - eta H (Sections 5-7).

Weights, validation points and the derivative of ReLU at 0 are those of the authors' runs (``multigrade.draws``).
"""

from typing import Any, NamedTuple

import numpy as np

from multigrade import structures
from multigrade.curvature.observers import SpectrumObserver, edge_of_stability
from multigrade.curvature.tracking import summarise_spectrum
from multigrade.draws import from_chain, from_stax
from multigrade.model import staged_values
from multigrade.pictures.graded.restoration import pixel_coordinates
from multigrade.pictures.metrics import psnr
from multigrade.synthetic import setting, training_points
from multigrade.training import Fit, Outcome, Plan, Plateau, RunRecord, fit_grades

from .. import numbers as paper
from ..images import eigenvalue_subset, shrunk
from ..job import Result
from ..setup import Setup
from .context import Context

GRID = 1000  # points at which predictions of synthetic data are kept; our choice


class Data(NamedTuple):
    """Inputs and targets for training, validation and test; ``shape`` of the picture that the test rows are."""

    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    shape: tuple[int, int] | None = None


def descent(context: Context) -> Result:
    """SGDL, MGDL or MSDL by gradient descent at one rate, full batch, until the validation loss stands still."""
    setup = context.setup
    data = _image_data(context) if setup.image else _synthetic_data(setup)
    # The learning rates on images were run with stax, everything else here with the authors' own layers.
    drawn = from_stax if setup.config == "image sweep" else from_chain
    grades = structures.NAMED[setup.structure][: setup.grades or None]
    structure = drawn(grades, seed=setup.seed, copy=setup.copy)
    fit = fit_grades(
        structure, *data.train, plan_of(context, stopping=Plateau(paper.STOPPING_WINDOW, setup.tolerance)),
        validation=data.validation, checkpoint=context.checkpoint,
    )  # fmt: skip
    return _result(fit, data, setup)


def plan_of(context: Context, **options) -> Plan:
    """Gradient descent by the setup's numbers, watched by those who look on and by its spectrum."""
    setup = context.setup
    return Plan(
        setup.epochs, "gd", setup.learning_rate, record_every=setup.record_every,
        seed=setup.seed, observers=(*context.observers, *_spectrum(setup)), **options,
    )  # fmt: skip


def _spectrum(setup: Setup) -> tuple[SpectrumObserver, ...]:
    if not setup.spectrum_every:
        return ()
    edge = setup.edge
    rules = () if edge is None else (edge_of_stability(edge),)
    return (SpectrumObserver(every=setup.spectrum_every, num=setup.num_eigenvalues, rules=rules),)


def _synthetic_data(setup: Setup) -> Data:
    data, train = setting(setup.setting), training_points(setup.setting, setup.points)
    return Data(train, (data.x_validation, data.y_validation), (data.x_test, data.y_test))


def _image_data(context: Context) -> Data:
    """Train on every second pixel in both directions, validate on those between them, test on all."""
    setup = context.setup
    image = context.image
    if setup.config == "image spectrum":
        image = shrunk(eigenvalue_subset(setup.image, context.pixels), setup.size)
    coordinates = pixel_coordinates(*image.shape).reshape(*image.shape, 2)

    def rows(start: int, stride: int):
        part = slice(start, None, stride)
        return coordinates[part, part].reshape(-1, 2), image[part, part].reshape(-1, 1).astype(np.float32)

    return Data(rows(0, 2), rows(1, 2), rows(0, 1), image.shape)


def _result(fit: Fit, data: Data, setup: Setup) -> Result:
    metrics = ends(fit.records)
    stages = {name: staged_values(fit.model, rows[0]) for name, rows in data._asdict().items() if name != "shape"}
    for name, of_stages in stages.items():
        metrics[f"{name}_loss"] = half_mean_square(of_stages[-1], getattr(data, name)[1])
    if data.shape:
        targets = data.train[1], data.test[1]
        metrics["train_psnr"] = psnr(stages["train"][-1], targets[0])
        metrics["test_psnr"] = psnr(stages["test"][-1], targets[1])
        metrics["grades_test_psnr"] = [psnr(stage, targets[1]) for stage in stages["test"]]
        metrics["constant_psnr"] = psnr(np.full_like(targets[1], targets[0].mean()), targets[1])
        pictures = {f"grade {k + 1}": stage.reshape(data.shape) for k, stage in enumerate(stages["test"])}
        pictures |= {"result": stages["test"][-1].reshape(data.shape), "reference": targets[1].reshape(data.shape)}
        return Result(metrics, fit.records, {}, pictures)
    every = len(data.test[0]) // GRID
    arrays = {"x": data.test[0][::every, 0], "target": data.test[1][::every, 0]}
    arrays["stages"] = np.stack([stage[::every, 0] for stage in stages["test"]]).astype(np.float32)
    return Result(metrics, fit.records, arrays)


def ends(records: tuple[RunRecord, ...]) -> dict[str, Any]:
    """How each grade ended, and what its spectra say where there are any."""
    metrics: dict[str, Any] = {
        "outcomes": [str(record.outcome) for record in records],
        "sentences": [record.sentence for record in records],
        "is_diverged": any(record.outcome is Outcome.DIVERGED for record in records),
        "grades_train_loss": [float(record.train_loss[-1]) for record in records],
        "num_steps": [record.num_steps for record in records],
        "seconds": sum(record.seconds for record in records),
    }
    if all("spectrum" in record.observations for record in records):
        metrics["spectrum"] = [summary._asdict() for summary in summarise_spectrum(records)]
    return metrics


def half_mean_square(prediction: np.ndarray, target: np.ndarray) -> float:
    return 0.5 * float(np.mean((np.asarray(prediction, np.float64) - target) ** 2))
