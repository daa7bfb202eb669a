"""Losses of tables, in NumPy: for grade 1, which is solved, for what the rows left out decide, and for predictions.

Networks descend the same formulas in JAX (``training.objectives``); a test compares the two. Scores and targets are
(..., s), and all is summed over the last axis. ``curvature`` bounds the second derivative in the scores, None where
nothing does.
"""

import dataclasses
from typing import ClassVar

import numpy as np
import scipy.special


@dataclasses.dataclass(frozen=True)
class Loss:
    """A loss by its name in ``training.objectives``; the parameter is the bend of Huber's or the quantiles."""

    name: ClassVar[str]
    curvature: ClassVar[float | None] = 1.0
    parameter: tuple[float, ...] = ()

    def value(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The loss, (...)."""
        raise NotImplementedError

    def slope(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Its derivative in the scores, (..., s)."""
        raise NotImplementedError

    def steepness(self, scores: np.ndarray) -> np.ndarray:
        """Its second derivative in each score, as Newton's method takes it, (..., s)."""
        return np.ones_like(scores)

    def start(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The constant score that minimises the weighted loss of targets (N, s)."""
        return self.link(np.average(targets, axis=0, weights=weights))

    def link(self, mean: np.ndarray) -> np.ndarray:
        """The score of rows whose targets have this mean."""
        return mean

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """What a user is given for scores."""
        return scores


class SquaredError(Loss):
    """1/2 ||y - s||^2."""

    name = "squared_error"

    def value(self, scores, targets):
        return 0.5 * np.sum(np.square(targets - scores), axis=-1)

    def slope(self, scores, targets):
        return scores - targets


class Huber(Loss):
    """1/2 e^2 up to |e| = delta and delta (|e| - delta / 2) beyond, e = y - s."""

    name = "huber"

    def value(self, scores, targets):
        size = np.abs(targets - scores)
        small = np.minimum(size, np.float32(self.parameter[0]))
        return np.sum(small * (size - 0.5 * small), axis=-1)

    def slope(self, scores, targets):
        return np.clip(scores - targets, -np.float32(self.parameter[0]), np.float32(self.parameter[0]))

    def start(self, targets, weights):
        return np.quantile(targets, 0.5, axis=0, weights=weights, method="inverted_cdf")


class Quantile(Loss):
    """max(q e, (q - 1) e), e = y - s: least at the q-quantile of y. One q for all outputs, or one for each."""

    name = "quantile"
    curvature = None

    def value(self, scores, targets):
        error, q = targets - scores, np.float32(self.parameter)
        return np.sum(np.maximum(q * error, (q - 1) * error), axis=-1)

    def slope(self, scores, targets):
        return np.where(targets > scores, -np.float32(self.parameter), 1 - np.float32(self.parameter))

    def start(self, targets, weights):
        quantiles = np.broadcast_to(self.parameter, targets.shape[1])
        columns = zip(quantiles, targets.T, strict=True)
        return np.array([np.quantile(y, q, weights=weights, method="inverted_cdf") for q, y in columns])


class Poisson(Loss):
    """exp(s) - y s, the deviance of counts y >= 0 with mean exp(s) up to what no score changes."""

    name = "poisson"
    curvature = None

    def value(self, scores, targets):
        return np.sum(np.exp(scores) - targets * scores, axis=-1)

    def slope(self, scores, targets):
        return np.exp(scores) - targets

    def steepness(self, scores):
        return np.exp(scores)

    def link(self, mean):
        return np.log(np.maximum(mean, 1e-8))

    def predict(self, scores):
        return np.exp(scores)


class Logistic(Loss):
    """log(1 + exp(s)) - y s: cross-entropy of a class y in {0, 1} with chance 1 / (1 + exp(-s))."""

    name = "logistic"
    curvature = 0.25

    def value(self, scores, targets):
        return np.sum(np.logaddexp(np.zeros((), scores.dtype), scores) - targets * scores, axis=-1)

    def slope(self, scores, targets):
        return scipy.special.expit(scores) - targets

    def steepness(self, scores):
        chances = scipy.special.expit(scores)
        return chances * (1 - chances)

    def start(self, targets, weights):
        return self.link(_chances(targets, weights))

    def link(self, mean):
        return scipy.special.logit(mean)

    def predict(self, scores):
        """Chances of both classes, (..., 2)."""
        return scipy.special.expit(np.concatenate([-scores, scores], axis=-1))


class Multinomial(Loss):
    """-sum_c y_c log softmax(s)_c: cross-entropy of classes, targets 1 for the class and 0 for others."""

    name = "multinomial"
    curvature = 0.5

    def value(self, scores, targets):
        largest = scores.max(axis=-1, keepdims=True)
        exponentials = np.exp(scores - largest)
        return np.log(exponentials.sum(axis=-1)) + largest[..., 0] - np.sum(targets * scores, axis=-1)

    def slope(self, scores, targets):
        return self.predict(scores) - targets

    def steepness(self, scores):
        chances = self.predict(scores)
        return chances * (1 - chances)

    def start(self, targets, weights):
        return self.link(_chances(targets, weights))

    def link(self, mean):
        return np.log(mean)

    def predict(self, scores):
        """Chances of all classes, (..., s)."""
        exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return exponentials / exponentials.sum(axis=-1, keepdims=True)


LOSSES = {kind.name: kind for kind in (SquaredError, Huber, Quantile, Poisson, Logistic, Multinomial)}


def _chances(targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted shares of the classes, kept from 0 and 1 by one row's worth."""
    rows = len(targets) + 1
    return (np.average(targets, axis=0, weights=weights) * (rows - 1) + 1 / (1 + targets.shape[1])) / rows
