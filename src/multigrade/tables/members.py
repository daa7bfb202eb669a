"""Grades for tables: members that each leave out a fold, batched in one compiled program, judged on the folds.

Every member k trains on the rows that are not in its fold k. So every row has a member that has never seen it, and its
loss there is honest. It decides all that is to be decided:

    grade 1     linear in the encoded columns and in random sines of them, solved (see ``solved``)
    grade 2, .. networks; the first reads the encoded columns, each further one the frozen features of the one before.
                Dropout while training, until the loss on the folds is flat, and a while at falling rates after that;
                the parameters of the step with the least loss on the folds;
                the output times the factor (shrinkage) that has the least loss there.

A grade adds to the scores of the grades before it, and the loss sees the sum. One that does not surely lower the loss
on the folds is left out, and ends the fit. The sines leave little over on the rows they were solved for, much less than
on others; so networks are trained without them, and the folds choose the shares of both at the end. Where the columns
do the same, networks are trained without them too: what is left over of those rows is not what is left over of others.
The model predicts with the mean of its members.
"""

import dataclasses
import itertools
from typing import NamedTuple

import jax
import numpy as np

from ..model import Grade, MultiGrade, apply_grade
from ..networks import Layer, Members, Network
from ..training import GradeProblem, NoImprovement, Plan, Run, minimise, warmup_cosine
from ..training.objectives import Loss
from ..training.record import Outcome, RunRecord
from .encoding import Encoding
from .folds import assign_folds, held_rows, is_surely_positive, padded
from .linear import FoldRows
from .member_loss import MemberBatches, MemberLoss, MemberRows
from .mixture import HeldRows, Mixture, choose_mixture, choose_mixture_beside, mixed_model
from .solved import Solved, solve_grade

NUM_FOLDS = 8  # each row is left out by one member; our choice, by python -m benchmarks.tables
SETTLING_STEPS, SETTLING_RATE = 0.1, 0.5  # shares of a grade's steps and rate, for one that ended early; our choice
SHRINKAGES = (0.3, 0.5, 0.7, 0.85, 1.0, 1.15)  # of a grade, that the rows left out choose from; our choice
WATCHED_ROWS = 4096  # of a fold, at most about so many are looked at while a network trains
APPLIED_ROWS = 1024  # at a time: one program for tables of all lengths


@dataclasses.dataclass(frozen=True)
class Size:
    """What a table of so many rows can pay for."""

    num_members: int
    hidden: tuple[int, ...]
    num_steps: int
    batch_size: int
    num_records: int
    patience: int  # records without improvement after which a grade ends
    learning_rate: float = 3e-3
    dropout: float = 0.2
    weight_decay: float = 0.0
    activation: str = "silu"
    num_grades: int = 3


def default_size(num_rows: int) -> Size:
    """Few rows: many small members and small batches. Many: fewer, larger members and larger batches."""
    if num_rows < 4096:
        return Size(NUM_FOLDS, (64, 64), 3000, 64, 200, 12)
    return Size(4, (128, 128), 3000, 256, 40, 8)


class Table(NamedTuple):
    """Rows of one grade, on the host."""

    inputs: np.ndarray  # (N, d) for all members, or (N, M, d)
    targets: np.ndarray  # (N, s)
    weights: np.ndarray  # (N,)
    scores: np.ndarray  # (N, M, s), of the grades so far
    folds: np.ndarray  # (N,)

    def held(self, array: np.ndarray) -> np.ndarray:
        """(N, M, ...), or (N, d) for all members, at the rows that each member leaves out: (R, M, ...)."""
        index, _ = held_rows(self.folds, self.scores.shape[1])
        return array[index, np.arange(index.shape[1])] if array.ndim == 3 else array[index]

    @property
    def held_weights(self) -> np.ndarray:
        index, is_row = held_rows(self.folds, self.scores.shape[1])
        return np.where(is_row, self.weights[index], 0)

    def on_device(self) -> tuple[MemberRows, MemberRows]:
        """Rows for all members (weight 0 in their own fold), and the rows of the folds, each for its member."""
        away = self.weights[:, None] * (self.folds[:, None] != np.arange(self.scores.shape[1]))
        train = (self.inputs, self.targets[:, None], away, self.scores)
        held = (self.held(self.inputs), self.held(self.targets), self.held_weights, self.held(self.scores))
        stride = -(-len(held[0]) // WATCHED_ROWS)
        return MemberRows(*map(padded, train)), MemberRows(*(padded(part[::stride]) for part in held))


class MemberFit(NamedTuple):
    """The encoding, the grades, their records, and the loss on the folds: before any grade, and after each one."""

    encoding: Encoding
    model: MultiGrade
    records: tuple[RunRecord, ...]
    fold_losses: tuple[float, ...]


def fit_members(
    X: np.ndarray, targets: np.ndarray, weights: np.ndarray, loss: Loss, *, size: Size, seed: int, observers=()
) -> MemberFit:
    """Fit grades to the table X (N, columns) with targets (N, s).

    The rows must be distinct and in an order that depends on nothing but them; equal rows are to be merged, or the
    folds are not honest.
    """
    random = np.random.default_rng(seed)
    folds = assign_folds(targets, NUM_FOLDS, random)
    solved = solve_grade(X, FoldRows(targets, weights, folds, loss, size.num_members), random)
    weights = np.ldexp(weights, 1 - np.frexp(np.max(weights))[1])  # exact, and in the range of float32
    start = np.broadcast_to(solved.bias, solved.scores.shape) if solved.is_overfitted else solved.scores
    table = Table(solved.encoded[:, solved.encoding.read], targets, weights, start, folds)
    held = HeldRows(table.held(targets), table.held_weights)
    grades, records, stages = [], [], [table.held(table.scores)]
    for index in range(1, size.num_grades):
        run, grade, after = _fit_grade(table, held, loss, size, index, seed, observers)
        scores = after.held(after.scores)
        gains = held.losses(loss, stages[-1]) - held.losses(loss, scores)
        if run.record.outcome is Outcome.DIVERGED or not is_surely_positive(gains, held.weights):
            break
        table = after
        grades, records, stages = [*grades, grade], [*records, run.record], [*stages, scores]
    sine_scores = None if solved.sine_scores is None else table.held(solved.sine_scores)
    if solved.is_overfitted:
        columns = table.held(solved.scores - solved.bias)
        mixture = choose_mixture_beside(loss, held, np.stack(stages), columns, sine_scores)
    else:
        mixture = choose_mixture(loss, held, np.stack(stages), sine_scores)
    encoding, model = mixed_model(solved, grades, mixture)
    records = (_record_of_linear(solved, mixture), *records[: mixture.num_grades])
    return MemberFit(encoding, model, records, (solved.start_loss, *mixture.losses))


def _fit_grade(
    table: Table, held: HeldRows, loss: Loss, size: Size, index: int, seed: int, observers
) -> tuple[Run, Grade, Table]:
    """The run, the grade times the shrinkage with the least loss on the folds, and the table for the next grade."""
    shift = None if index == 1 else _moments(table)
    if shift is not None:
        table = table._replace(inputs=(table.inputs - shift[0]) / shift[1])
    network = Members(
        Network((table.inputs.shape[-1], *size.hidden, table.targets.shape[-1]), size.activation), size.num_members
    )
    run = _train(table, network, loss, size, index, seed, observers)
    params = tuple(Layer(*map(np.asarray, layer)) for layer in run.params)
    added, features = _applied(Grade(network, params, np.float32(1)), table.inputs)
    shrinkage = _shrinkage(loss, held, table.held(table.scores), table.held(added))
    *hidden, output = params
    if shift is not None:  # absorbed by the first layer
        mean, deviation = shift
        weight = hidden[0].weight / deviation[:, :, None]
        hidden[0] = Layer(weight, hidden[0].bias - np.einsum("md,mdh->mh", mean, weight))
    output = Layer(*(shrinkage * part for part in output))
    after = table._replace(inputs=features, scores=table.scores + shrinkage * added)
    return run, Grade(network, (*hidden, output), np.float32(1)), after


def _train(table: Table, network: Members, loss: Loss, size: Size, index: int, seed: int, observers) -> Run:
    """Steps until the loss on the folds is flat. Rates are still high then: more steps settle at falling ones."""
    random = np.random.default_rng((seed, index))
    train, held = table.on_device()
    plan = Plan(
        size.num_steps,
        learning_rate=warmup_cosine(size.learning_rate, size.num_steps, 0.05),
        record_every=max(size.num_steps // size.num_records, 1),
        stopping=NoImprovement(size.patience),
        keep="best",
        observers=observers,
    )
    judge = MemberLoss(network, loss=loss, dropout=size.dropout)
    objective = dataclasses.replace(judge, weight_decay=size.weight_decay)
    sampler = MemberBatches(size.batch_size, _thresholds(np.asarray(train.weights)))
    problem = GradeProblem(objective, train, validation=held, validation_objective=judge, sampler=sampler)
    keys = jax.random.split(jax.random.key(random.integers(2**31)))
    run = minimise(problem, _initial(network, random), plan, key=keys[0], grade=index)
    num_left = min(size.num_steps - run.record.num_steps, int(SETTLING_STEPS * size.num_steps))
    if (
        run.record.outcome is not Outcome.PLATEAU
        or not num_left
        or not np.argmin(run.record.columns["validation_loss"])
    ):
        return run
    rate = warmup_cosine(SETTLING_RATE * size.learning_rate, num_left, 0.05)
    # Observers have seen the grade: a second run of it would begin a view anew.
    plan = dataclasses.replace(plan, steps=num_left, learning_rate=rate, observers=())
    settled = minimise(problem, run.params, plan, key=keys[1], grade=index)
    return dataclasses.replace(settled, record=run.record.followed_by(settled.record))


def _initial(network: Members, random: np.random.Generator) -> tuple[Layer, ...]:
    """Weights of variance 1 / inputs, biases that spread the kinks, and no output: the grade adds nothing at first."""
    layers = []
    for inputs, outputs in itertools.pairwise(network.widths):
        weight = random.normal(0, inputs**-0.5, (network.num, inputs, outputs))
        bias = random.normal(0, 0.5, (network.num, outputs))
        layers.append(Layer(*(np.asarray(part, np.float32) for part in (weight, bias))))
    return jax.device_put((*layers[:-1], Layer(*map(np.zeros_like, layers[-1]))))


def _applied(grade: Grade, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a grade adds to the scores, (N, M, s), and its features, (N, M, h)."""
    blocks = []
    for start in range(0, len(inputs), APPLIED_ROWS):
        rows = inputs[start : start + APPLIED_ROWS]
        missing = [(0, APPLIED_ROWS - len(rows))] + [(0, 0)] * (inputs.ndim - 1)
        blocks.append([np.asarray(part)[: len(rows)] for part in apply_grade(grade, np.pad(rows, missing))])
    added, features = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return added, features


def _shrinkage(loss: Loss, held: HeldRows, scores: np.ndarray, added: np.ndarray) -> float:
    factors = np.array(SHRINKAGES, np.float32)
    losses = held.losses(loss, scores + factors[:, None, None, None] * added)
    return float(factors[losses.sum(axis=(1, 2)).argmin()])


def _moments(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each member's features, (M, d)."""
    mean = table.inputs.mean(axis=0, dtype=np.float64).astype(np.float32)
    variance = np.square(table.inputs - mean).mean(axis=0, dtype=np.float64)
    return mean, np.sqrt(variance).astype(np.float32) + np.float32(1e-3)


def _thresholds(weights: np.ndarray) -> jax.Array:
    """t_1 <= t_2 <= ...: row n is drawn with probability (t_{n+1} - t_n) / 2^32, proportional to its weights' sum."""
    cumulated = np.cumsum(weights.astype(np.float64).max(axis=1))
    at = np.rint(cumulated[:-1] / cumulated[-1] * 2.0**32)
    return jax.device_put(np.minimum(at, 2.0**32 - 1).astype(np.uint32))


def _record_of_linear(solved: Solved, mixture: Mixture) -> RunRecord:
    columns = {
        "step": np.array([0], np.int32),
        "train_loss": np.array([solved.train_loss], np.float32),
        "validation_loss": np.array([mixture.losses[0]], np.float32),
    }
    return RunRecord(columns, sentence="solved", num_steps=1)
