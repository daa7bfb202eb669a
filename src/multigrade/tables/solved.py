"""Grade 1 of a table: linear in the encoded columns and, where rows are few, in drawn features of them; solved.

Idle columns of wide tables are left out first (``screening``), then codes are found (``codes``). Drawn features add to
the columns and are solved after them: random sines, which draw what is smooth in several columns together, as a kernel
machine does, or random steps, which draw what jumps, as trees do. Which of them, which columns they read and how fast
sines vary, two of the folds choose; all of them choose the ridge.
"""

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np

from .codes import fit_codes
from .cuts import find_cuts
from .encoding import Encoding, draw_frequencies, draw_steps, fit_encoding, sines
from .linear import FoldRows, Inputs, solve_linear
from .screening import MIN_COLUMNS, screen_columns

NUM_DRAWN = 256  # random features beside the columns; our choice, by python -m benchmarks.tables
# So many members choose what is drawn; all eight choose no better, in twice the time.
NUM_CHOOSING = 2
MAX_ROWS = 4096  # with more rows networks draw what these draw, and better
SCALES = (0.7, 1.4, 2.8)  # of a row's angle, in radians
DEPTHS = (1, 3)  # columns that a step reads, at most
BETTER = 0.99  # share of the loss below which cuts are kept; our choice
OVERFITTED = 0.6  # a training loss below this share of the loss on the folds; our choice, by rows held out


class Solved(NamedTuple):
    """Coefficients of columns and drawn features, what both give for all rows by each member, and losses."""

    encoding: Encoding
    inputs: Inputs  # without drawn features
    weight: np.ndarray  # (M, d, s)
    bias: np.ndarray  # (s,)
    scores: np.ndarray  # (N, M, s), of the columns
    drawn_weight: np.ndarray  # (M, drawn, s); none if they do not help
    drawn_scores: np.ndarray | None  # (N, M, s)
    start_loss: float  # on the folds, of the bias alone
    train_loss: float  # of the columns
    fold_loss: float  # of the columns

    @property
    def is_overfitted(self) -> bool:
        """Whether the columns leave much less over on the rows they were solved for than on others."""
        return bool(np.any(self.weight)) and self.train_loss < OVERFITTED * self.fold_loss

    def with_shares(self, of_columns: float, of_drawn: float) -> tuple[Encoding, np.ndarray]:
        """The encoding, and the coefficients (M, width, s), with these shares of the columns and of what is drawn."""
        weight = np.float32(of_columns) * self.weight
        if self.drawn_scores is None or not of_drawn:
            return self.encoding.without_drawn(), weight
        return self.encoding, np.concatenate([weight, np.float32(of_drawn) * self.drawn_weight], axis=1)


def solve_grade(X: np.ndarray, is_category: np.ndarray, rows: FoldRows, random: np.random.Generator) -> Solved:
    """Encode the columns X, and solve for the coefficients of columns and of what is drawn."""
    encoding = all_columns = fit_encoding(X, rows.weights, is_category)
    inputs = Inputs(encoding(X))
    bias = np.asarray(rows.loss.start(rows.targets, rows.weights), np.float32)
    linear = solve_linear(inputs, rows, bias, list(encoding.families().values()))
    screened = None
    if len(encoding.columns_used) >= MIN_COLUMNS:
        screened = screen_columns(encoding, inputs.shared, rows, bias, random)
        if screened is not None and screened.linear.fold_loss > linear.fold_loss:
            screened = None
        if screened is not None:
            encoding = fit_encoding(X, rows.weights, is_category, np.flatnonzero(screened.columns.any(axis=0)))
            column_of = encoding.column_of_outputs()
            inputs = Inputs(encoding(X), mask=(column_of < 0) | screened.columns[:, column_of])
            linear = solve_linear(inputs, rows, bias, list(encoding.families().values()))
    if (cuts := find_cuts(encoding, X, rows, bias)) is not None:
        with_cuts = encoding.with_cuts(cuts.columns, cuts.thresholds, X, rows.weights)
        column_of = with_cuts.column_of_outputs()
        mask = np.ones((rows.num_members, len(column_of)), bool)
        if screened is not None:
            mask = (column_of < 0) | screened.columns[:, column_of]
        mask[:, with_cuts.cuts] &= cuts.is_read
        tried = Inputs(with_cuts(X), mask=mask)
        again = solve_linear(tried, rows, bias, list(with_cuts.families().values()))
        if again.fold_loss < BETTER * linear.fold_loss:
            encoding, inputs, linear = with_cuts, tried, again
    scores = inputs.times(linear.weight) + bias
    codes = fit_codes(X, is_category, all_columns, rows, scores)
    if codes is not None:
        encoding = codes.of(encoding)
        inputs = inputs._replace(own=codes.own)
        linear = solve_linear(inputs, rows, bias, list(encoding.families().values()))
        scores = inputs.times(linear.weight) + bias
    losses = linear.start_loss, linear.train_loss, linear.fold_loss
    solved = Solved(encoding, inputs, linear.weight, bias, scores, linear.weight[:, :0], None, *losses)
    few = len(X) < MAX_ROWS and len(encoding.columns) and rows.loss.curvature is not None
    return _add_drawn(solved, X, rows, random) if few else solved


def _add_drawn(solved: Solved, X: np.ndarray, rows: FoldRows, random: np.random.Generator) -> Solved:
    encoding = solved.encoding
    read = solved.inputs.shared[:, len(encoding.columns) :]
    values = encoding.values(X)
    phases = random.uniform(0, 2 * np.pi, NUM_DRAWN)
    mask = solved.inputs.mask
    of_all = np.ones(read.shape[1], bool) if mask is None else np.all(mask, axis=0, keepdims=True)[0, -read.shape[1] :]
    places = np.flatnonzero(of_all[: len(encoding.columns)])
    number = np.arange(read.shape[1])
    last = (len(encoding.columns), len(encoding.columns) + len(encoding.bin_columns))
    candidates = []
    for stop, scale in itertools.product(dict.fromkeys(last), SCALES):
        frequencies = scale * draw_frequencies(read, of_all & (number < stop), NUM_DRAWN, random)
        candidates.append(dataclasses.replace(encoding, frequencies=frequencies, phases=phases))
    for depth in DEPTHS if len(places) else ():
        drawn = random.choice(places, (NUM_DRAWN, depth))
        candidates.append(draw_steps(encoding, values, drawn, random))
    some = rows._replace(num_members=NUM_CHOOSING), solved.scores[:, :NUM_CHOOSING]
    everything = [np.arange(NUM_DRAWN)]
    best, chosen = np.inf, None
    for candidate in candidates:
        is_step = len(candidate.step_places)
        features = candidate.steps(values) if is_step else sines(read, candidate.frequencies, phases)
        loss = solve_linear(Inputs(features), *some, everything).fold_loss
        if loss < best:
            best, chosen = loss, (candidate, Inputs(features))
    if chosen is None:
        return solved
    encoding, features = chosen
    linear = solve_linear(features, rows, solved.scores, everything)
    if linear.fold_loss >= solved.fold_loss:
        return solved
    return solved._replace(encoding=encoding, drawn_weight=linear.weight, drawn_scores=features.times(linear.weight))
