"""The shares of columns, sines and networks in a table's model, chosen on the folds, and the model that has them."""

import itertools
from typing import Any, NamedTuple

import jax
import numpy as np

from ..model import Grade, MultiGrade
from ..networks import Layer, Members, Network
from ..training.objectives import Loss
from .encoding import Encoding
from .folds import is_surely_positive
from .row_losses import row_losses
from .solved import Solved

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # that the rows left out choose from; our choice


class HeldRows(NamedTuple):
    """The rows that members leave out, a column for each member: targets (R, M, s), and weights (R, M)."""

    targets: np.ndarray
    weights: np.ndarray

    def losses(self, loss: Loss, scores: np.ndarray) -> np.ndarray:
        """Weighted losses of scores (..., R, M, s)."""
        return self.weights * row_losses(loss, scores, self.targets)

    def mean(self, losses: np.ndarray) -> float:
        return float(losses.sum() / self.weights.sum())


class Mixture(NamedTuple):
    """Shares of the parts, how many networks are kept, and the loss on the folds after each grade."""

    of_sines: float
    of_networks: float
    num_grades: int
    losses: tuple[float, ...]
    of_columns: float = 1.0


def choose_mixture(loss: Loss, held: HeldRows, stages: np.ndarray, sine_scores: np.ndarray | None) -> Mixture:
    """The shares with the least loss on the folds. Sines alone, and then networks, must surely lower it to be kept.

    Scores after each grade without sines are ``stages``, (grades, R, M, s).
    """
    if sine_scores is None:
        return Mixture(0.0, 1.0, len(stages) - 1, tuple(map(held.mean, held.losses(loss, stages))))
    added = stages - stages[0]
    shares = [(a, b) for b in SHARES for a in SHARES]
    losses = held.losses(loss, _scores(stages[0], shares, sine_scores, added[-1]))
    alone = int(losses[: len(SHARES)].sum(axis=(1, 2)).argmin())
    if not is_surely_positive(losses[0] - losses[alone], held.weights):
        return choose_mixture(loss, held, stages, None)
    chosen = int(losses.sum(axis=(1, 2)).argmin())
    if not is_surely_positive(losses[alone] - losses[chosen], held.weights):
        chosen, added = alone, added[:1]
    losses = held.losses(loss, _scores(stages[0], [shares[chosen]], sine_scores, added))
    return Mixture(*shares[chosen], len(added) - 1, tuple(map(held.mean, losses)))


def choose_mixture_beside(
    loss: Loss, held: HeldRows, stages: np.ndarray, columns: np.ndarray, sine_scores: np.ndarray | None
) -> Mixture:
    """The same for networks that were trained beside the columns: ``stages`` begin without them, and they have a share
    too. The networks must surely lower the loss of columns and sines alone.
    """
    alone = choose_mixture(loss, held, (stages[0] + columns)[None], sine_scores)
    if len(stages) == 1:
        return alone
    added, sines = stages - stages[0], np.zeros_like(columns) if sine_scores is None else sine_scores

    def losses(a: float, b: float, c: float, networks: np.ndarray) -> np.ndarray:
        scores = np.float32(a) * columns + np.float32(b) * sines + np.float32(c) * networks
        return held.losses(loss, stages[0] + scores)

    shares = itertools.product(SHARES, (0.0,) if sine_scores is None else SHARES, SHARES)
    chosen = min(shares, key=lambda abc: losses(*abc, added[-1]).sum())
    gains = losses(1.0, alone.of_sines, 0.0, added[-1]) - losses(*chosen, added[-1])
    if not is_surely_positive(gains, held.weights):
        return alone
    of_columns, of_sines, of_networks = chosen
    after = tuple(held.mean(losses(*chosen, networks)) for networks in added)
    return Mixture(of_sines, of_networks, len(added) - 1, after, of_columns)


def _scores(start: np.ndarray, shares: list[tuple[float, float]], of_sines, of_networks) -> np.ndarray:
    """(shares, R, M, s)"""
    a, b = np.array(shares, np.float32).T.reshape(2, -1, 1, 1, 1)
    return start + a * of_sines + b * of_networks


def mixed_model(solved: Solved, grades: list[Grade], mixture: Mixture) -> tuple[Encoding, MultiGrade]:
    """The model with these shares. The first network has weights 0 where it does not read the encoding."""
    encoding, weight = solved.with_shares(mixture.of_columns, mixture.of_sines)
    num_members, _, num_outputs = weight.shape
    linear = Members(Network((encoding.width, num_outputs)), num_members)
    layer = Layer(weight, np.tile(solved.bias, (num_members, 1)))
    model = MultiGrade((jax.device_put(Grade(linear, (layer,), np.float32(1))),))
    for index, grade in enumerate(grades[: mixture.num_grades]):
        network: Any = grade.network
        first, *others, output = grade.params
        if index == 0:
            unread = (encoding.read.start, encoding.width - encoding.read.stop)
            first = first._replace(weight=np.pad(first.weight, ((0, 0), unread, (0, 0))))
            network = Members(Network((encoding.width, *network.widths[1:]), network.sub.activation), num_members)
        output = Layer(*(np.float32(mixture.of_networks) * part for part in output))
        model = model.add(jax.device_put(Grade(network, (first, *others, output), np.float32(1))))
    return encoding, model
