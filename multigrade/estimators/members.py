"""Grades for tables: members that each leave out a fold, batched in one compiled program, judged on the folds.

Every member k trains on the rows that are not in its fold k. So every row has a member that has never seen it, and its
loss there is honest. It decides all that is to be decided:

    grade 1     linear in the encoded columns, solved; its ridge, and whether it sees the bins, by the folds
    grade 2, .. networks; the first reads the encoded columns, each further one the frozen features of the one before.
                Dropout while training; the parameters of the step with the least loss on the folds;
                the output times the factor (shrinkage) that has the least loss there.

A grade adds to the scores of the grades before it, and the loss sees the sum. One that does not surely lower the loss
on the folds is left out, and ends the fit. The model predicts with the mean of its members.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..model import Grade, MultiGrade, apply_grade
from ..networks import ACTIVATIONS, Layer, Members, Network
from ..objectives import GradedLoss, Loss
from ..training import GradeProblem, NoImprovement, Plan, minimise, warmup_cosine
from ..training.record import Outcome, RunRecord
from .linear import solve_linear

NUM_FOLDS = 8
PATIENCE = 0.3  # share of a grade's records without improvement after which it ends
SHRINKAGES = (0.3, 0.5, 0.7, 0.85, 1.0, 1.15)
# Rows are padded to powers of two up to the last of these, beyond to its multiples: tables share compiled programs.
MIN_ROWS, MAX_ROWS = 128, 4096
MAX_LAYERS = 16  # that can have dropout
RECORDED_ROWS = 8192  # of the training rows, at most about so many are looked at for the recorded training loss


@dataclasses.dataclass(frozen=True)
class Size:
    """What a table of so many rows can pay for."""

    num_members: int
    hidden: tuple[int, ...]
    num_steps: int
    batch_size: int
    num_records: int
    learning_rate: float = 3e-3
    dropout: float = 0.2
    activation: str = "silu"
    num_grades: int = 3


def default_size(num_rows: int) -> Size:
    """Few rows: many small members and at most 1500 steps. Many: fewer, larger members and at most 3000 steps."""
    if num_rows < 4096:
        return Size(NUM_FOLDS, (64, 64), 1500, 128, 100)
    return Size(4, (128, 128), 3000, 256, 40)


class MemberRows(NamedTuple):
    """Rows of one grade: inputs (N, d) for all members or (N, M, d), targets (N, 1, s) or (N, M, s), weights (N, M),
    scores of the grades so far (N, M, s); a key per layer draws what dropout drops, None drops nothing.
    """

    inputs: Array
    targets: Array
    weights: Array
    scores: Array
    key: Array | None = None


@partial(jax.tree_util.register_dataclass, data_fields=["thresholds"], meta_fields=["size"])
@dataclasses.dataclass(frozen=True)
class MemberBatches:
    """Batches of ``size`` rows drawn by weight, as ``sampling.random_rows`` does; a member's own fold has weight 0."""

    size: int
    thresholds: Array

    def draw(self, key: Array, data: MemberRows) -> MemberRows:
        bits = jax.random.bits(key, (self.size + MAX_LAYERS,), jnp.uint32)
        rows = jnp.searchsorted(self.thresholds, bits[MAX_LAYERS:], side="right")
        batch = jax.tree.map(lambda leaf: leaf[rows], data)
        return batch._replace(weights=jnp.sign(batch.weights), key=bits[:MAX_LAYERS])


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class MemberLoss(GradedLoss):
    """The mean loss over rows and members of the scores so far plus the grade's output, with dropout in batches."""

    dropout: float = 0.0

    def __call__(self, params, auxiliary: tuple[()], data: Any) -> tuple[Array, tuple[()]]:
        """For records; of the training rows every k-th one is enough there."""
        is_training = data.targets.shape[1] == 1
        stride = -(-len(data.targets) // RECORDED_ROWS) if is_training else 1
        return super().__call__(params, auxiliary, jax.tree.map(lambda leaf: leaf[::stride], data))

    def _sum(self, params, block: Any) -> Array:
        scores = block.scores + self._output(params, block)
        return jnp.sum(block.weights * self.loss(scores, block.targets))

    def _output(self, params, block: Any) -> Array:
        if block.key is None or not self.dropout:
            return self.network(params, block.inputs)
        network: Any = self.network
        x = block.inputs
        for index, layer in enumerate(params[:-1]):
            step = Members(Network((1, 1), network.sub.activation), network.num)  # one affine map
            x = ACTIVATIONS[network.sub.activation](step.output((layer,), x))
            kept = _hashed(block.key[index], x.shape) >= np.uint32(self.dropout * 2.0**32)
            x = jnp.where(kept, x / (1 - self.dropout), 0)
        return network.output(params, x)


def _hashed(key: Array, shape: tuple[int, ...]) -> Array:
    """Numbers of uint32 that depend on key and place by Murmur3's finaliser: all that dropout needs, at a small part of
    the time (and of the compiler's time) of a counter-based generator.
    """
    x = jnp.arange(np.prod(shape), dtype=jnp.uint32).reshape(shape) * np.uint32(0x9E3779B1) + key
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> shift)) * np.uint32(factor)
    return x ^ (x >> 16)


class Table(NamedTuple):
    """Rows for all members (weight 0 in their own fold), and beside them the rows of the folds, each for its member."""

    train: MemberRows
    held: MemberRows

    def after(self, grade: Grade) -> "Table":
        return Table(_after(grade, self.train), _after(grade, self.held))


@jax.jit
def _after(grade: Grade, rows: MemberRows) -> MemberRows:
    added, features = apply_grade(grade, rows.inputs)
    return rows._replace(inputs=features, scores=rows.scores + added)


class MemberFit(NamedTuple):
    """The grades, their records, and the loss on the folds: before any, and after each one that was kept."""

    model: MultiGrade
    records: tuple[RunRecord, ...]
    fold_losses: tuple[float, ...]


def fit_members(
    inputs: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    *,
    size: Size,
    parts: tuple[int, int],
    seed: int,
    observers: Sequence = (),
) -> MemberFit:
    """Fit grades to encoded ``inputs`` (N, d), which begin with ``parts`` plain and clipped columns, and targets (N, s).

    The rows must be distinct and in an order that depends on nothing but them; equal rows are to be merged, or the
    folds are not honest.
    """
    folds = assign_folds(targets, NUM_FOLDS, np.random.default_rng(seed))
    start = loss.start(targets, weights)
    arrays = (inputs, targets, weights, folds)
    plain, clipped = parts
    columns = (slice(0, plain), slice(plain, plain + clipped), slice(plain, inputs.shape[1]))
    linear, linear_losses, train_loss = solve_linear(*arrays, loss, start, size.num_members, columns)
    network = Members(Network((inputs.shape[1], targets.shape[1])), size.num_members)
    grade = Grade(network, (Layer(jnp.asarray(linear.weight), jnp.asarray(linear.bias)),), jnp.float32(1))
    table = _table(*arrays, size.num_members).after(grade)
    model, records = MultiGrade((grade,)), (_record_of_linear(train_loss, linear_losses[-1]),)
    losses = [float(value) for value in linear_losses]
    for index in range(1, size.num_grades):
        run, grade, gains = _fit_grade(table, loss, size, index, seed, observers, num_unread=plain if index == 1 else 0)
        if run.record.outcome is Outcome.DIVERGED or not _is_surely_positive(gains, np.asarray(table.held.weights)):
            break
        table, model, records = table.after(grade), model.add(grade), (*records, run.record)
        losses.append(float(losses[-1] - np.sum(gains) / np.sum(table.held.weights)))
    return MemberFit(model, records, tuple(losses))


def _fit_grade(
    table: Table, loss: Loss, size: Size, index: int, seed: int, observers, *, num_unread: int
) -> tuple[Any, Grade, np.ndarray]:
    """The run, the grade, and how much it lowers the weighted losses of the rows of the folds, (R, M).

    The first ``num_unread`` inputs have weights 0.
    """
    table = Table(*(part._replace(inputs=part.inputs[..., num_unread:]) for part in table))
    num_inputs, num_outputs = table.train.inputs.shape[-1], table.train.targets.shape[-1]
    network = Members(Network((num_inputs, *size.hidden, num_outputs), size.activation), size.num_members)
    mean, deviation = _moments(table.train) if index > 1 else (None, None)
    if index > 1:
        table = Table(*(_shifted(part, mean, deviation) for part in table))
    random = np.random.default_rng((seed, index))
    objective = MemberLoss(network, loss=loss, dropout=size.dropout)
    sampler = MemberBatches(size.batch_size, _thresholds(table.train.weights))
    plan = Plan(
        size.num_steps,
        learning_rate=warmup_cosine(size.learning_rate, size.num_steps, 0.05),
        record_every=max(size.num_steps // size.num_records, 1),
        stopping=NoImprovement(int(np.ceil(PATIENCE * size.num_records))),
        keep="best",
        observers=observers,
    )
    problem = GradeProblem(objective, table.train, validation=table.held, sampler=sampler)
    key = jax.random.key(random.integers(2**31))
    run = minimise(problem, _initial(network, random), plan, key=key, grade=index)
    gains = np.asarray(_gains(network, loss, run.params, table.held), np.float64)  # (shrinkages, R, M)
    chosen = int(np.argmax(gains.sum(axis=(1, 2))))
    *hidden, output = [Layer(*map(np.asarray, layer)) for layer in run.params]
    if index > 1:  # absorb shift and scale into the first layer
        weight = hidden[0].weight / np.asarray(deviation)[:, :, None]
        hidden[0] = Layer(weight, hidden[0].bias - np.einsum("md,mdh->mh", np.asarray(mean), weight))
    hidden[0] = hidden[0]._replace(weight=np.pad(hidden[0].weight, ((0, 0), (num_unread, 0), (0, 0))))
    network = Members(Network((num_unread + num_inputs, *network.widths[1:]), size.activation), size.num_members)
    output = Layer(*(np.float32(SHRINKAGES[chosen]) * part for part in output))
    return (
        run,
        Grade(network, tuple(Layer(*map(jnp.asarray, layer)) for layer in (*hidden, output)), jnp.float32(1)),
        gains[chosen],
    )


def _initial(network: Members, random: np.random.Generator) -> tuple[Layer, ...]:
    """Weights of variance 1 / inputs, biases that spread the kinks, and no output: the grade adds nothing at first."""
    layers = []
    for inputs, outputs in itertools.pairwise(network.widths):
        weight = random.normal(0, inputs**-0.5, (network.num, inputs, outputs))
        bias = random.normal(0, 0.5, (network.num, outputs))
        layers.append(Layer(*(np.asarray(part, np.float32) for part in (weight, bias))))
    return (*layers[:-1], Layer(*map(np.zeros_like, layers[-1])))


@jax.jit
def _moments(train: MemberRows) -> tuple[Array, Array]:
    """Mean and deviation of each member's features, (M, d), over the rows that are there."""
    used = (jnp.sum(train.weights, axis=1) > 0).astype(jnp.float32)
    mean = jnp.average(train.inputs, axis=0, weights=used)
    return mean, jnp.sqrt(jnp.average((train.inputs - mean) ** 2, axis=0, weights=used)) + 1e-3


@jax.jit
def _shifted(rows: MemberRows, mean: Array, deviation: Array) -> MemberRows:
    return rows._replace(inputs=(rows.inputs - mean) / deviation)


@jax.jit
def _gains(network: Members, loss: Loss, params, held: MemberRows) -> Array:
    """How much the grade times each shrinkage lowers the weighted losses of the rows of the folds."""
    added = network(params, held.inputs)
    stages = [held.weights * loss(held.scores + a * added, held.targets) for a in (0.0, *SHRINKAGES)]
    return jnp.stack([stages[0] - stage for stage in stages[1:]])


# ---- folds ------------------------------------------------------------------------------------------------------


def assign_folds(targets: np.ndarray, num_folds: int, random: np.random.Generator) -> np.ndarray:
    """A fold for each row, at random, such that all folds have about the same targets (or classes)."""
    by_target = targets[:, 0] if targets.shape[1] == 1 else targets.argmax(axis=1)
    order = random.permutation(len(targets))
    order = order[np.argsort(by_target[order], kind="stable")]
    folds = np.empty(len(targets), int)
    for start in range(0, len(targets), num_folds):
        block = order[start : start + num_folds]
        folds[block] = random.permutation(num_folds)[: len(block)]
    return folds


def _table(inputs, targets, weights, folds, num_members: int) -> Table:
    weights = np.ldexp(weights, 1 - np.frexp(np.max(weights))[1])  # exact, and in the range of float32
    members = np.arange(num_members)
    train = MemberRows(
        _padded(inputs),
        _padded(targets[:, None]),
        _padded(weights[:, None] * (folds[:, None] != members)),
        jnp.asarray(np.zeros((num_rows_padded(len(inputs)), num_members, targets.shape[1]), np.float32)),
    )
    rows = [np.flatnonzero(folds == member) for member in members]
    length = max(map(len, rows))
    index = np.stack([np.pad(r, (0, length - len(r))) for r in rows], axis=1)  # (R, M)
    is_row = np.arange(length)[:, None] < [len(r) for r in rows]
    held = MemberRows(_padded(inputs[index]), _padded(targets[index]), _padded(np.where(is_row, weights[index], 0)), 0)
    return Table(train, held._replace(scores=jnp.asarray(np.zeros(held.targets.shape, np.float32))))


def num_rows_padded(num_rows: int) -> int:
    if num_rows > MAX_ROWS:
        return -(-num_rows // MAX_ROWS) * MAX_ROWS
    return max(MIN_ROWS, 1 << (num_rows - 1).bit_length())


def _padded(array: np.ndarray) -> Array:
    """Rows of 0 in front, up to the next of few sizes: the last row is then never one of weight 0."""
    missing = num_rows_padded(len(array)) - len(array)
    return jnp.asarray(np.pad(np.asarray(array, np.float32), [(missing, 0)] + [(0, 0)] * (array.ndim - 1)))


def _thresholds(weights: Array) -> Array:
    """t_1 <= t_2 <= ...: row n is drawn with probability (t_{n+1} - t_n) / 2^32, proportional to its weights' sum."""
    cumulated = np.cumsum(np.asarray(weights, np.float64).max(axis=1))
    at = np.rint(cumulated[:-1] / cumulated[-1] * 2.0**32)
    return jnp.asarray(np.minimum(at, 2.0**32 - 1).astype(np.uint32))


# ---- judging ----------------------------------------------------------------------------------------------------


def _is_surely_positive(gains: np.ndarray, weights: np.ndarray) -> bool:
    """Whether the weighted mean of the gains is above its standard error."""
    weights = np.asarray(weights, np.float64)
    used = weights > 0
    gains, weights = gains[used] / weights[used], weights[used]
    mean = np.average(gains, weights=weights)
    variance = np.average((gains - mean) ** 2, weights=weights)
    return bool(mean > np.sqrt(variance * np.sum(weights**2)) / np.sum(weights))


def _record_of_linear(train_loss: float, fold_loss: float) -> RunRecord:
    columns = {
        "step": np.array([0], np.int32),
        "train_loss": np.array([train_loss], np.float32),
        "validation_loss": np.array([fold_loss], np.float32),
    }
    return RunRecord(columns, sentence="solved", num_steps=1)
