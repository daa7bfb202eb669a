"""Grade 1 of a table: linear in the encoded columns and, where rows are few, in random sines of them; solved.

The sines add to the columns and are solved after them. They draw what is smooth in several columns together, as a
kernel machine does. Which columns they read, and how fast they vary, two of the folds choose; all of them choose the
ridge.
"""

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from .encoding import Encoding, draw_frequencies, fit_encoding, sines
from .linear import FoldRows, solve_linear

NUM_SINES = 256  # random ones beside the columns; our choice, by python -m benchmarks.tables
ALL_SINES = (slice(0, NUM_SINES),)
# So many members choose what sines read and their scale; all eight choose no better, in twice the time.
NUM_CHOOSING = 2
MAX_ROWS = 4096  # with more rows networks draw what sines draw, and better
SCALES = (0.7, 1.4, 2.8)  # of a row's angle, in radians
OVERFITTED = 0.6  # a training loss below this share of the loss on the folds; our choice, by rows held out


class Solved(NamedTuple):
    """Coefficients of columns and sines, what both give for all rows by each member, and losses."""

    encoding: Encoding
    encoded: np.ndarray  # (N, d), without sines
    weight: np.ndarray  # (M, d, s)
    bias: np.ndarray  # (s,)
    scores: np.ndarray  # (N, M, s), of the columns
    sine_weight: np.ndarray  # (M, sines, s); no sines if they do not help
    sine_scores: np.ndarray | None  # (N, M, s)
    start_loss: float  # on the folds, of the bias alone
    train_loss: float  # of the columns
    fold_loss: float  # of the columns

    @property
    def is_overfitted(self) -> bool:
        """Whether the columns leave much less over on the rows they were solved for than on others."""
        return bool(np.any(self.weight)) and self.train_loss < OVERFITTED * self.fold_loss

    def with_shares(self, of_columns: float, of_sines: float) -> tuple[Encoding, np.ndarray]:
        """The encoding, and the coefficients (M, width, s), with these shares of the columns and of the sines."""
        weight = np.float32(of_columns) * self.weight
        if self.sine_scores is None or not of_sines:
            none = {"frequencies": np.zeros((0, 0)), "phases": np.zeros(0)}
            return dataclasses.replace(self.encoding, **none), weight
        return self.encoding, np.concatenate([weight, np.float32(of_sines) * self.sine_weight], axis=1)


@threadpool_limits.wrap(limits=1, user_api="blas")
def solve_grade(X: np.ndarray, rows: FoldRows, random: np.random.Generator) -> Solved:
    """Encode the columns X, and solve for the coefficients of columns and sines.

    In one thread: matrices of a few hundred columns gain nothing by a second one, and where another process is busy on
    its core, waiting for it takes thirty times as long.
    """
    encoding = fit_encoding(X, rows.weights)
    encoded, num = encoding(X), len(encoding.columns)
    bias = np.asarray(rows.loss.start(rows.targets, rows.weights), np.float32)
    linear = solve_linear(encoded, rows, bias, (slice(0, num), slice(num, 2 * num), encoding.read))
    scores = _products(encoded, linear.weight) + bias
    no_sines = linear.weight[:, :0], None
    losses = linear.start_loss, linear.train_loss, linear.fold_loss
    solved = Solved(encoding, encoded, linear.weight, bias, scores, *no_sines, *losses)
    few = len(X) < MAX_ROWS and num and rows.loss.curvature is not None
    return _add_sines(solved, rows, linear.fold_loss, random) if few else solved


def _add_sines(solved: Solved, rows: FoldRows, least: float, random: np.random.Generator) -> Solved:
    encoding, inputs = solved.encoding, solved.encoded[:, solved.encoding.read]
    phases = random.uniform(0, 2 * np.pi, NUM_SINES)
    used = np.arange(inputs.shape[1])
    last = (len(encoding.columns), len(encoding.columns) + len(encoding.bin_columns))
    tried = []
    for stop, scale in itertools.product(dict.fromkeys(last), SCALES):
        frequencies = scale * draw_frequencies(inputs, used < stop, NUM_SINES, random)
        some = rows._replace(num_members=NUM_CHOOSING), solved.scores[:, :NUM_CHOOSING]
        tried.append((solve_linear(sines(inputs, frequencies, phases), *some, ALL_SINES).fold_loss, frequencies))
    _, frequencies = min(tried, key=lambda pair: pair[0])
    features = sines(inputs, frequencies, phases)
    linear = solve_linear(features, rows, solved.scores, ALL_SINES)
    if linear.fold_loss >= least:
        return solved
    return solved._replace(
        encoding=dataclasses.replace(encoding, frequencies=frequencies, phases=phases),
        sine_weight=linear.weight,
        sine_scores=_products(features, linear.weight),
    )


def _products(features: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(N, M, s)"""
    num_members, width, num_outputs = weight.shape
    return (features @ weight.swapaxes(0, 1).reshape(width, -1)).reshape(len(features), num_members, num_outputs)
