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
import time
from typing import NamedTuple

import jax
import numpy as np
from threadpoolctl import threadpool_limits

from ..networks import Layer, Members, Network
from ..training import GradeProblem, NoImprovement, Plan, Run, minimise, warmup_cosine
from ..training.record import Outcome, RunRecord
from .encoding import Encoding
from .folds import assign_folds, held_rows, is_surely_positive, padded
from .linear import FoldRows
from .losses import Loss
from .member_loss import RECORDED_ROWS, MemberBatches, MemberLoss, MemberRows
from .mixture import HeldRows, Mixture, choose_mixture, choose_mixture_beside, member_grade, mixed_model
from .predictor import FittedGrade
from .solved import Solved, solve_grade

NUM_FOLDS = 8  # each row is left out by one member; our choice, by python -m benchmarks.tables
# A network whose loss has not moved begins again at a higher rate, with more patience: parity of four bits is such.
SLOW_RATE, SLOW_PATIENCE = 3.0, 4
SETTLING_STEPS, SETTLING_RATE = 0.1, 0.5  # shares of a grade's steps and rate, for one that ended early; our choice
SHRINKAGES = (0.3, 0.5, 0.7, 0.85, 1.0, 1.15)  # of a grade, that the rows left out choose from; our choice
WATCHED_ROWS = 4096  # of a fold, at most about so many are looked at while a network trains
APPLIED_ROWS = 1024  # at a time: what they need stays in the cache


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
    own: np.ndarray | None  # (N, M, e), beside the inputs of all
    mask: np.ndarray | None  # (M, d + e)
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
        train = (self.inputs, self.own, self.targets[:, None], away, self.scores)
        held_own = None if self.own is None else self.held(self.own)
        held = (self.held(self.inputs), held_own, self.held(self.targets), self.held_weights, self.held(self.scores))
        stride = -(-len(held[2]) // WATCHED_ROWS)
        return (
            MemberRows(*(None if part is None else padded(part, is_held=False) for part in train)),
            MemberRows(*(None if part is None else padded(part[::stride], is_held=True) for part in held)),
        )


class MemberFit(NamedTuple):
    """The encoding, the grades, their records, and the loss on the folds: before any grade, and after each one.

    ``left_out`` are the rows that a member left out, and ``left_out_scores`` what that member gives for them.
    """

    encoding: Encoding
    grades: tuple[FittedGrade, ...]
    records: tuple[RunRecord, ...]
    fold_losses: tuple[float, ...]
    left_out: np.ndarray
    left_out_scores: np.ndarray


class TableRows(NamedTuple):
    """A table as it is fitted. The rows are distinct and in an order that depends on nothing but them: equal rows are
    merged, or the folds are not honest."""

    X: np.ndarray  # (N, columns), with codes of categories, and NaN for gaps
    is_category: np.ndarray  # (columns,)
    targets: np.ndarray  # (N, s)
    weights: np.ndarray  # (N,)
    groups: np.ndarray | None = None


@threadpool_limits.wrap(limits=1, user_api="blas")
def fit_members(
    rows: TableRows, loss: Loss, *, size: Size, seed: int, observers=(), time_limit: float | None = None
) -> MemberFit:
    """Fit grades to a table; within about ``time_limit`` seconds, after which networks end where they are.

    NumPy's products run in one thread: matrices of a few hundred columns gain nothing by a second one, and where
    another process is busy on its core, waiting for it takes thirty times as long. The compiled loop has its own.
    """
    deadline = None if time_limit is None else time.perf_counter() + time_limit
    random = np.random.default_rng(seed)
    targets, weights = rows.targets, rows.weights
    folds = assign_folds(targets, NUM_FOLDS, random, rows.groups)
    solved = solve_grade(rows.X, rows.is_category, FoldRows(targets, weights, folds, loss, size.num_members), random)
    weights = np.ldexp(weights, 1 - np.frexp(np.max(weights))[1])  # exact, and in the range of float32
    start = np.broadcast_to(solved.bias, solved.scores.shape) if solved.is_overfitted else solved.scores
    inputs = solved.inputs
    mask = np.ones((size.num_members, inputs.shared.shape[1])) if inputs.mask is None else inputs.mask
    mask = mask[:, len(solved.encoding.columns) :].astype(np.float32)
    if inputs.own is not None:
        mask = np.pad(mask, [(0, 0), (0, inputs.own.shape[2])], constant_values=1)
    table = Table(inputs.shared[:, len(solved.encoding.columns) :], inputs.own, mask, targets, weights, start, folds)
    held = HeldRows(table.held(targets), table.held_weights)
    grades, records, stages = [], [], [table.held(table.scores)]
    for index in range(1, size.num_grades):
        left = None if deadline is None else deadline - time.perf_counter()
        if left is not None and left <= 0:
            break
        run, grade, after = _fit_grade(table, held, loss, size, index, seed, observers, left)
        scores = after.held(after.scores)
        gains = held.losses(loss, stages[-1]) - held.losses(loss, scores)
        if run.record.outcome is Outcome.DIVERGED or not is_surely_positive(gains, held.weights):
            break
        table = after
        grades, records, stages = [*grades, grade], [*records, run.record], [*stages, scores]
    drawn_scores = None if solved.drawn_scores is None else table.held(solved.drawn_scores)
    if solved.is_overfitted:
        columns = table.held(solved.scores - solved.bias)
        mixture = choose_mixture_beside(loss, held, np.stack(stages), columns, drawn_scores)
    else:
        columns = None
        mixture = choose_mixture(loss, held, np.stack(stages), drawn_scores)
    encoding, model = mixed_model(solved, grades, mixture)
    first = _record_of_linear(solved, table, loss, mixture)
    index, is_row = held_rows(folds, size.num_members)
    added = stages[mixture.num_grades] - stages[0]
    left_out = stages[0] + np.float32(mixture.of_networks) * added
    left_out = left_out if columns is None else left_out + np.float32(mixture.of_columns) * columns
    left_out = left_out if drawn_scores is None else left_out + np.float32(mixture.of_drawn) * drawn_scores
    return MemberFit(
        encoding, model, (first, *records[: mixture.num_grades]), (solved.start_loss, *mixture.losses),
        index[is_row], left_out[is_row],
    )  # fmt: skip


def _fit_grade(
    table: Table, held: HeldRows, loss: Loss, size: Size, index: int, seed: int, observers, time_limit
) -> tuple[Run, FittedGrade, Table]:
    """The run, the grade times the shrinkage with the least loss on the folds, and the table for the next grade."""
    shift = None if index == 1 else _moments(table)
    if shift is not None:
        table = table._replace(inputs=(table.inputs - shift[0]) / shift[1])
    num_inputs = table.inputs.shape[-1] + (0 if table.own is None else table.own.shape[2])
    network = Members(Network((num_inputs, *size.hidden, table.targets.shape[-1]), size.activation), size.num_members)
    run = _train(table, network, loss, size, index, seed, observers, time_limit)
    first, *others, output = (tuple(map(np.asarray, layer)) for layer in run.params)
    if table.mask is not None:
        first = (first[0] * table.mask[:, :, None], first[1])
    added, features = _applied(member_grade((*first, *itertools.chain(*others), *output), size.activation), table)
    factors = np.array(SHRINKAGES, np.float32)
    losses = held.losses(loss, table.held(table.scores) + factors[:, None, None, None] * table.held(added))
    shrinkage = factors[losses.sum(axis=(1, 2)).argmin()]
    if shift is not None:  # absorbed by the first layer
        mean, deviation = shift
        weight = first[0] / deviation[:, :, None]
        first = (weight, first[1] - np.einsum("md,mdh->mh", mean, weight))
    output = tuple(shrinkage * part for part in output)
    after = table._replace(inputs=features, own=None, mask=None, scores=table.scores + shrinkage * added)
    return run, member_grade((*first, *itertools.chain(*others), *output), size.activation), after


def _train(table: Table, network: Members, loss: Loss, size: Size, index: int, seed: int, observers, time_limit) -> Run:
    """Steps until the loss on the folds is flat. Rates are still high then: more steps settle at falling ones."""
    random = np.random.default_rng((seed, index))
    train, held = table.on_device()
    deadline = None if time_limit is None else time.perf_counter() + time_limit
    plan = Plan(
        size.num_steps,
        learning_rate=warmup_cosine(size.learning_rate, size.num_steps, 0.05),
        record_every=max(size.num_steps // size.num_records, 1),
        stopping=NoImprovement(size.patience),
        keep="best",
        observers=observers,
        time_limit=time_limit,
    )
    num_rows = len(table.targets)
    recorded = np.linspace(0, num_rows - 1, RECORDED_ROWS).astype(np.int32) + np.int32(len(train.weights) - num_rows)
    objective = MemberLoss(
        network, np.float32(size.weight_decay), loss.name, np.float32(loss.parameter), np.float32(size.dropout),
        recorded, None if table.mask is None else jax.device_put(table.mask),
    )  # fmt: skip
    judge = dataclasses.replace(objective, weight_decay=np.float32(0))
    most = 1 << max(size.batch_size - 1, 15).bit_length()
    sampler = MemberBatches(most, np.int32(size.batch_size), _thresholds(np.asarray(train.weights)))
    problem = GradeProblem(objective, train, validation=held, validation_objective=judge, sampler=sampler)
    keys = jax.random.split(jax.random.key(random.integers(2**31)))
    start = _initial(network, random)
    run = minimise(problem, start, plan, key=keys[0], grade=index)
    # Observers have seen the grade: a second run of it would begin a view anew.
    plan = dataclasses.replace(plan, observers=())
    if _has_not_moved(run) and index == 1 and run.record.outcome is Outcome.PLATEAU:
        slow = dataclasses.replace(
            plan,
            learning_rate=warmup_cosine(SLOW_RATE * size.learning_rate, size.num_steps, 0.05),
            record_every=SLOW_PATIENCE * plan.record_every,
            time_limit=_left(deadline),
        )
        again = minimise(problem, start, slow, key=keys[0], grade=index)
        run = dataclasses.replace(again, record=run.record.followed_by(again.record))
    num_left = min(size.num_steps - run.record.num_steps, int(SETTLING_STEPS * size.num_steps))
    if run.record.outcome is not Outcome.PLATEAU or num_left <= 0 or _has_not_moved(run):
        return run
    rate = warmup_cosine(SETTLING_RATE * size.learning_rate, num_left, 0.05)
    plan = dataclasses.replace(plan, steps=num_left, learning_rate=rate, time_limit=_left(deadline))
    settled = minimise(problem, run.params, plan, key=keys[1], grade=index)
    return dataclasses.replace(settled, record=run.record.followed_by(settled.record))


def _has_not_moved(run: Run) -> bool:
    """Whether no record has a lower loss on the folds than the start."""
    return not np.argmin(run.record.columns["validation_loss"])


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.perf_counter(), 1e-3)


def _initial(network: Members, random: np.random.Generator) -> tuple[Layer, ...]:
    """Weights of variance 1 / inputs, biases that spread the kinks, and no output: the grade adds nothing at first."""
    layers = []
    for inputs, outputs in itertools.pairwise(network.widths):
        weight = random.normal(0, inputs**-0.5, (network.num, inputs, outputs))
        bias = random.normal(0, 0.5, (network.num, outputs))
        layers.append(Layer(*(np.asarray(part, np.float32) for part in (weight, bias))))
    return jax.device_put((*layers[:-1], Layer(*map(np.zeros_like, layers[-1]))))


def _applied(grade: FittedGrade, table: Table) -> tuple[np.ndarray, np.ndarray]:
    """What a grade adds to the scores, (N, M, s), and its features, (N, M, h)."""
    blocks = []
    for start in range(0, len(table.inputs), APPLIED_ROWS):
        rows = table.inputs[start : start + APPLIED_ROWS]
        if table.own is not None:
            own = table.own[start : start + APPLIED_ROWS]
            shared = np.broadcast_to(rows[:, None], (*own.shape[:2], rows.shape[1]))
            rows = np.concatenate([shared, own], axis=2)
        blocks.append(grade(rows))
    added, features = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return added, features


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


def _record_of_linear(solved: Solved, table: Table, loss: Loss, mixture: Mixture) -> RunRecord:
    """Of columns and drawn features with the shares that they have in the model."""
    scores = solved.bias + np.float32(mixture.of_columns) * (solved.scores - solved.bias)
    if solved.drawn_scores is not None:
        scores = scores + np.float32(mixture.of_drawn) * solved.drawn_scores
    away = table.weights[:, None] * (table.folds[:, None] != np.arange(scores.shape[1]))
    losses = loss.value(scores, np.asarray(table.targets, np.float32)[:, None])
    columns = {
        "step": np.array([0], np.int32),
        "train_loss": np.array([np.sum(away * losses) / max(np.sum(away), 1e-300)], np.float32),
        "validation_loss": np.array([mixture.losses[0]], np.float32),
    }
    return RunRecord(columns, sentence="solved", num_steps=1)
