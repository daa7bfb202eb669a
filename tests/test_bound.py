"""The bound on the error of u: the change that is noticed least."""

import numpy as np
import pytest

from multigrade.equations.bound import damped_triangle, smallest

RIDGE = 1e-10


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_large_coefficients_that_cancel_are_no_change_whatever_the_unit(size):
    """Feature 5 changes nothing that should vanish, and hardly the values; feature 4 hardly the former, but the values.
    The ridge is relative to the features, so that 4 is found in every unit; without it 5 would be."""
    rng = np.random.default_rng(0)
    changes = rng.normal(size=(50, 6)) * [1, 1, 1, 1, 1e-9, 1e-18]
    values = size * rng.normal(size=(40, 6)) * [1, 1, 1, 1, 1, 1e-3]
    found = smallest(damped_triangle(changes, values, RIDGE), values)
    assert abs(found[4]) > 1e3 * np.abs(np.delete(found, [4, 5])).max()

    def quotient(c):
        ridge = (RIDGE * np.linalg.norm(values) / np.sqrt(6) * np.linalg.norm(c)) ** 2
        return (np.linalg.norm(changes @ c) ** 2 + ridge) / np.linalg.norm(values @ c) ** 2

    assert quotient(found) <= quotient(np.eye(6)[4]) < quotient(np.eye(6)[5])
