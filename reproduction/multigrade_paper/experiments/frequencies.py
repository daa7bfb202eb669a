"""Beyond the paper: which frequencies SGDL, MGDL and MSDL learn, and when (spectral bias)."""

import numpy as np

from multigrade import structures
from multigrade.curvature.frequencies import frequency_errors, frequency_metrics
from multigrade.networks import MultiScaleNetwork, Network
from multigrade.pictures.graded.restoration import pixel_coordinates
from multigrade.synthetic import training_points
from multigrade.training import Plan, Regression, fit_grades

from ..images import eigenvalue_subset, shrunk
from ..job import Result
from ..setup import Setup
from .context import Context
from .descent import ends

# One frequency of the target in each band, in cycles per unit; a picture has bands of 2 cycles per side.
BANDS = {1: (0.0, 3.0, 8.0, 13.0), 2: (0.0, 4.0, 12.0, 19.0, 26.0, 34.0)}
PICTURE_BAND = 2.0
PICTURE_MSDL = (MultiScaleNetwork(Network((2, 12, 12, 12, 12, 1))),)


def frequencies(context: Context) -> Result:
    """One method on a setting or a picture by gradient descent, its error by frequency at every record."""
    setup = context.setup
    x, y, bands = _picture(context) if setup.image else _setting(setup)
    structure = structures.PAPER.get(setup.networks, PICTURE_MSDL)
    steps = setup.epochs * (1 if len(structure) > 1 else 4)
    plan = Plan(
        steps, "gd", learning_rate=setup.learning_rate, record_every=setup.record_every,
        observers=context.observers, seed=setup.seed,
    )  # fmt: skip
    metrics = frequency_metrics(x, y, bands=bands)
    fit = fit_grades(structure, x, y, plan, regression=Regression(metrics=metrics), checkpoint=context.checkpoint)
    last = frequency_errors(x, np.asarray(fit.model(x)) - y, target=y, bands=bands)
    arrays = {"edges": last.edges, "relative": last.relative}
    return Result({**ends(fit.records), "relative": [float(value) for value in last.relative]}, fit.records, arrays)


def _setting(setup: Setup):
    x, y = training_points(setup.setting, setup.points)
    return x, y, BANDS[setup.setting]


def _picture(context: Context):
    image = shrunk(eigenvalue_subset(context.setup.image, context.pixels), context.setup.size)
    x = pixel_coordinates(*image.shape)
    highest = max(image.shape) / 2 * np.sqrt(2)
    return x, image.reshape(-1, 1).astype(np.float32), np.arange(0, highest + PICTURE_BAND, PICTURE_BAND)
