"""Tables that a network reads badly by itself: codes, idle columns, steps, slow starts, gaps that tell. Trees judge."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor

from multigrade import MultiGradeClassifier, MultiGradeRegressor


def codes(random):
    level, other = random.integers(0, 200, 1500), random.normal(size=(1500, 3))
    effect = random.normal(size=200)[level]
    return np.column_stack([level, other]), effect + 0.5 * other[:, 0] + 0.5 * random.normal(size=1500)


def patients(random):
    person = np.repeat(np.arange(300), 4)
    return np.column_stack([person, random.normal(size=(1200, 2))]), random.normal(50, 10, 300)[person]


def classes_of_codes(random):
    level = random.integers(0, 200, 2000)
    chance = 1 / (1 + np.exp(-3 * random.normal(size=200)[level]))
    return np.column_stack([level, random.normal(size=(2000, 3))]), (random.random(2000) < chance).astype(int)


def parity(random):
    bits = random.integers(0, 2, (2500, 10))
    return bits.astype(float), bits[:, :4].sum(axis=1) % 2


def idle(random):
    X = random.normal(size=(500, 200))
    return X, X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.5 * X[:, 3] ** 2 + 0.3 * random.normal(size=500)


def row_number(random):
    return np.arange(600.0)[:, None], np.cumsum(random.normal(size=600))


def steps(random):
    X = random.normal(size=(1000, 6))
    return X, (X[:, 0] > 0.3) + (X[:, 1] > -0.5) * (X[:, 2] > 0) + 0.1 * random.normal(size=1000)


@pytest.mark.parametrize("make", [codes, patients, classes_of_codes, parity, idle, row_number, steps])
def test_as_good_as_trees(make):
    X, y = make(np.random.default_rng(0))
    is_class = y.dtype.kind == "i"
    trees = (ExtraTreesClassifier, RandomForestClassifier) if is_class else (ExtraTreesRegressor, RandomForestRegressor)
    order = np.random.default_rng(1).permutation(len(X))
    train, test = order[: 3 * len(X) // 4], order[3 * len(X) // 4 :]
    best = max(kind(random_state=0).fit(X[train], y[train]).score(X[test], y[test]) for kind in trees)
    model = (MultiGradeClassifier if is_class else MultiGradeRegressor)(random_state=0).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > best - 0.03


def test_gaps_that_tell_are_read():
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3))
    is_gap = random.random(400) < 0.5
    y = X[:, 0] + 2 * is_gap
    X[is_gap, 1] = np.nan
    model = MultiGradeRegressor(n_grades=1, random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.98
