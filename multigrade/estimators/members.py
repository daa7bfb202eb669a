"""Grades for tables: members that each leave out a fold, batched in one compiled program, judged on the folds.

Every member k trains on the rows that are not in its fold k. So every row has a member that has never seen it, and its
loss there is honest. It decides all that is to be decided:

    grade 1     linear in the encoded columns and in random sines of them, solved (see ``solved``)
    grade 2, .. networks; the first reads the encoded columns, each further one the frozen features of the one before.
                Dropout while training; the parameters of the step with the least loss on the folds;
                the output times the factor (shrinkage) that has the least loss there.

A grade adds to the scores of the grades before it, and the loss sees the sum. One that does not surely lower the loss
on the folds is left out, and ends the fit. The sines leave little over on the rows they were solved for, much less than
on others; so networks are trained without them, and the folds choose the shares of both at the end. The model predicts
with the mean of its members.
"""

import dataclasses
import itertools
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
from .encoding import Encoding
from .folds import assign_folds, held_rows, is_surely_positive, padded
from .linear import FoldRows
from .solved import Solved, solve_grade

NUM_FOLDS = 8
PATIENCE = 0.3  # share of a grade's records without improvement after which it ends
SHRINKAGES = (0.3, 0.5, 0.7, 0.85, 1.0, 1.15)
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
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
    table = _table(solved.encoded[:, solved.encoding.read], targets, weights, folds, solved.scores)
    grades, records, stages = [], [], [table.held.scores]
    for index in range(1, size.num_grades):
        run, grade, gains = _fit_grade(table, loss, size, index, seed, observers)
        if run.record.outcome is Outcome.DIVERGED or not is_surely_positive(gains, np.asarray(table.held.weights)):
            break
        table = table.after(grade)
        grades, records, stages = [*grades, grade], [*records, run.record], [*stages, table.held.scores]
    sine_scores = None
    if solved.sine_scores is not None:
        index, _ = held_rows(folds, size.num_members)
        sine_scores = padded(solved.sine_scores[index, np.arange(size.num_members)])
    mixture = _mix(loss, table.held, stages, sine_scores)
    return _mixed(solved, grades[: mixture.num_grades], tuple(records), mixture)


class Mixture(NamedTuple):
    """Shares of sines and of networks, how many networks are kept, and the loss on the folds after each grade."""

    of_sines: float
    of_networks: float
    num_grades: int
    losses: tuple[float, ...]


def _mix(loss: Loss, held: MemberRows, stages: list[Array], sine_scores: Array | None) -> Mixture:
    """The shares with the least loss on the folds. Sines alone, and then networks, must surely lower it to be kept."""
    weights = np.asarray(held.weights, np.float64)
    if sine_scores is None:
        losses = [np.asarray(held.weights * loss(stage, held.targets), np.float64) for stage in stages]
        return Mixture(0.0, 1.0, len(stages) - 1, tuple(float(v.sum() / weights.sum()) for v in losses))
    networks = stages[-1] - stages[0]
    shares = np.array([(a, b) for b in SHARES for a in SHARES], np.float32)
    losses = np.asarray(_mixed_losses(loss, held, stages[0], sine_scores, networks, shares), np.float64)
    alone = int(losses[: len(SHARES)].sum(axis=(1, 2)).argmin())
    if not is_surely_positive(losses[0] - losses[alone], weights):
        return _mix(loss, held, stages, None)
    chosen = int(losses.sum(axis=(1, 2)).argmin())
    if not is_surely_positive(losses[alone] - losses[chosen], weights):
        chosen, stages = alone, stages[:1]
    of_sines, of_networks = map(float, shares[chosen])
    parts = jnp.stack([stage - stages[0] for stage in stages])
    losses = [
        _mixed_losses(loss, held, stages[0], sine_scores, part, shares[chosen : chosen + 1])[0].sum() for part in parts
    ]
    return Mixture(of_sines, of_networks, len(stages) - 1, tuple(float(v / weights.sum()) for v in losses))


@jax.jit
def _mixed_losses(loss: Loss, held: MemberRows, scores, of_sines, of_networks, shares) -> Array:
    """Weighted losses of the held-out rows, (shares, R, M)."""

    def losses(share):
        return held.weights * loss(scores + share[0] * of_sines + share[1] * of_networks, held.targets)

    return jax.lax.map(losses, shares)


def _mixed(solved: Solved, grades: list[Grade], records: tuple, mixture: Mixture) -> MemberFit:
    """The model with these shares. The first network has weights 0 where it does not read the encoding."""
    encoding, weight = solved.with_sines(mixture.of_sines)
    num_members, _, num_outputs = weight.shape
    linear = Members(Network((encoding.width, num_outputs)), num_members)
    layer = Layer(weight, np.tile(solved.bias, (num_members, 1)))
    model = MultiGrade((jax.device_put(Grade(linear, (layer,), np.float32(1))),))
    for index, grade in enumerate(grades):
        network: Any = grade.network
        first, *others, output = grade.params
        if index == 0:
            unread = (encoding.read.start, encoding.width - encoding.read.stop)
            first = first._replace(weight=np.pad(first.weight, ((0, 0), unread, (0, 0))))
            network = Members(Network((encoding.width, *network.widths[1:]), network.sub.activation), num_members)
        output = Layer(*(np.float32(mixture.of_networks) * part for part in output))
        model = model.add(jax.device_put(Grade(network, (first, *others, output), np.float32(1))))
    first_record = _record_of_linear(solved.train_loss, mixture.losses[0])
    losses = (solved.start_loss, *mixture.losses)
    return MemberFit(encoding, model, (first_record, *records[: len(grades)]), losses)


def _fit_grade(table: Table, loss: Loss, size: Size, index: int, seed: int, observers) -> tuple[Any, Grade, np.ndarray]:
    """The run, the grade, and how much it lowers the weighted losses of the rows of the folds, (R, M)."""
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
    output = Layer(*(np.float32(SHRINKAGES[chosen]) * part for part in output))
    return run, Grade(network, (*hidden, output), np.float32(1)), gains[chosen]


def _initial(network: Members, random: np.random.Generator) -> tuple[Layer, ...]:
    """Weights of variance 1 / inputs, biases that spread the kinks, and no output: the grade adds nothing at first."""
    layers = []
    for inputs, outputs in itertools.pairwise(network.widths):
        weight = random.normal(0, inputs**-0.5, (network.num, inputs, outputs))
        bias = random.normal(0, 0.5, (network.num, outputs))
        layers.append(Layer(*(np.asarray(part, np.float32) for part in (weight, bias))))
    return jax.device_put((*layers[:-1], Layer(*map(np.zeros_like, layers[-1]))))


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


# ---- rows -------------------------------------------------------------------------------------------------------


def _table(inputs, targets, weights, folds, scores) -> Table:
    weights = np.ldexp(weights, 1 - np.frexp(np.max(weights))[1])  # exact, and in the range of float32
    members = np.arange(scores.shape[1])
    away = weights[:, None] * (folds[:, None] != members)
    train = MemberRows(padded(inputs), padded(targets[:, None]), padded(away), padded(scores))
    index, is_row = held_rows(folds, len(members))
    weights = np.where(is_row, weights[index], 0)
    held = MemberRows(padded(inputs[index]), padded(targets[index]), padded(weights), padded(scores[index, members]))
    return Table(train, held)


def _thresholds(weights: Array) -> Array:
    """t_1 <= t_2 <= ...: row n is drawn with probability (t_{n+1} - t_n) / 2^32, proportional to its weights' sum."""
    cumulated = np.cumsum(np.asarray(weights, np.float64).max(axis=1))
    at = np.rint(cumulated[:-1] / cumulated[-1] * 2.0**32)
    return jax.device_put(np.minimum(at, 2.0**32 - 1).astype(np.uint32))


def _record_of_linear(train_loss: float, fold_loss: float) -> RunRecord:
    columns = {
        "step": np.array([0], np.int32),
        "train_loss": np.array([train_loss], np.float32),
        "validation_loss": np.array([fold_loss], np.float32),
    }
    return RunRecord(columns, sentence="solved", num_steps=1)
