"""A small fit of the paper's first function, for the tests of training."""

import dataclasses

import jax
import numpy as np

from multigrade import Observation, Plan, Regression, fit_grades, structures
from multigrade.synthetic import setting

DATA = setting(1)
X, Y = DATA.x_train[::8], DATA.y_train[::8]
SMALL = structures.graded(1, [(16,), (16, 8), (12,)], 1)


def fit(structure=SMALL, x=X, y=Y, **options):
    defaults = {"steps": 60, "optimiser": "gd", "learning_rate": 0.05, "record_every": 10}
    return fit_with(structure, x, y, **{**defaults, **options})


def fit_with(structure, x, y, **options):
    """``fit_grades`` with all options side by side."""
    plan = Plan(**_taken(options, Plan))
    regression = Regression(**_taken(options, Regression))
    return fit_grades(structure, x, y, plan, regression=regression, **options)


def _taken(options, record):
    return {field.name: options.pop(field.name) for field in dataclasses.fields(record) if field.name in options}


def assert_same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


class Steps:
    """Sees no more than that it was called."""

    name, every = "steps", 50

    def observe(self, snapshot, carry):
        return Observation({"seen": np.int32(1)})
