"""The shares of columns, drawn features and networks in a table's model, chosen on the folds, and the model itself."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .encoding import Encoding
from .folds import is_surely_positive
from .losses import Loss
from .predictor import FittedGrade
from .solved import Solved

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # that the rows left out choose from; our choice


class HeldRows(NamedTuple):
    """The rows that members leave out, a column for each member: targets (R, M, s), and weights (R, M)."""

    targets: np.ndarray
    weights: np.ndarray

    def losses(self, loss: Loss, scores: np.ndarray) -> np.ndarray:
        """Weighted losses of scores (..., R, M, s)."""
        return self.weights * loss.value(scores, self.targets).astype(np.float64)

    def mean(self, losses: np.ndarray) -> float:
        return float(losses.sum() / self.weights.sum())


class Mixture(NamedTuple):
    """Shares of the parts, how many networks are kept, and the loss on the folds after each grade."""

    of_drawn: float
    of_networks: float
    num_grades: int
    losses: tuple[float, ...]
    of_columns: float = 1.0


def choose_mixture(loss: Loss, held: HeldRows, stages: np.ndarray, drawn_scores: np.ndarray | None) -> Mixture:
    """The shares with the least loss on the folds. Drawn features alone, and then networks, must surely lower
    it to be kept.

    Scores after each grade without drawn features are ``stages``, (grades, R, M, s).
    """
    if drawn_scores is None:
        return Mixture(0.0, 1.0, len(stages) - 1, tuple(map(held.mean, held.losses(loss, stages))))
    added = stages - stages[0]
    shares = [(a, b) for b in SHARES for a in SHARES]
    losses = held.losses(loss, _scores(stages[0], shares, drawn_scores, added[-1]))
    alone = int(losses[: len(SHARES)].sum(axis=(1, 2)).argmin())
    if not is_surely_positive(losses[0] - losses[alone], held.weights):
        return choose_mixture(loss, held, stages, None)
    chosen = int(losses.sum(axis=(1, 2)).argmin())
    if not is_surely_positive(losses[alone] - losses[chosen], held.weights):
        chosen, added = alone, added[:1]
    losses = held.losses(loss, _scores(stages[0], [shares[chosen]], drawn_scores, added))
    return Mixture(*shares[chosen], len(added) - 1, tuple(map(held.mean, losses)))


def choose_mixture_beside(
    loss: Loss, held: HeldRows, stages: np.ndarray, columns: np.ndarray, drawn_scores: np.ndarray | None
) -> Mixture:
    """The same for networks that were trained beside the columns: ``stages`` begin without them, and they have a share
    too. The networks must surely lower the loss of columns and drawn features alone.
    """
    alone = choose_mixture(loss, held, (stages[0] + columns)[None], drawn_scores)
    if len(stages) == 1:
        return alone
    added, drawn = stages - stages[0], np.zeros_like(columns) if drawn_scores is None else drawn_scores

    def losses(a: float, b: float, c: float, networks: np.ndarray) -> np.ndarray:
        scores = np.float32(a) * columns + np.float32(b) * drawn + np.float32(c) * networks
        return held.losses(loss, stages[0] + scores)

    shares = itertools.product(SHARES, (0.0,) if drawn_scores is None else SHARES, SHARES)
    chosen = min(shares, key=lambda abc: losses(*abc, added[-1]).sum())
    gains = losses(1.0, alone.of_drawn, 0.0, added[-1]) - losses(*chosen, added[-1])
    if not is_surely_positive(gains, held.weights):
        return alone
    of_columns, of_drawn, of_networks = chosen
    after = tuple(held.mean(losses(*chosen, networks)) for networks in added)
    return Mixture(of_drawn, of_networks, len(added) - 1, after, of_columns)


def _scores(start: np.ndarray, shares: list[tuple[float, float]], of_drawn, of_networks) -> np.ndarray:
    """(shares, R, M, s)"""
    a, b = np.array(shares, np.float32).T.reshape(2, -1, 1, 1, 1)
    return start + a * of_drawn + b * of_networks


def mixed_model(
    solved: Solved, grades: list[FittedGrade], mixture: Mixture
) -> tuple[Encoding, tuple[FittedGrade, ...]]:
    """The model with these shares. The first network has weights 0 where it does not read the encoding."""
    encoding, weight = solved.with_shares(mixture.of_columns, mixture.of_drawn)
    num_members, width, _ = weight.shape
    bias = np.tile(solved.bias, (num_members, 1))
    model = [member_grade((weight, bias))]
    for index, grade in enumerate(grades[: mixture.num_grades]):
        first, *others, output_weight, output_bias = grade.arrays
        if index == 0:
            first = np.pad(first, ((0, 0), (encoding.read.start, width - encoding.read.stop), (0, 0)))
        output = (np.float32(mixture.of_networks) * part for part in (output_weight, output_bias))
        model.append(member_grade((first, *others, *output), grade.network["sub"]["activation"]))
    return encoding, tuple(model)


def member_grade(arrays: Sequence[np.ndarray], activation: str = "relu") -> FittedGrade:
    """A grade of members from weights (M, inputs, outputs) and biases (M, outputs) of each layer in turn."""
    widths = [arrays[0].shape[1], *(bias.shape[1] for bias in arrays[1::2])]
    sub = {"type": "Network", "widths": widths, "activation": activation, "weight_init": "he", "bias_std": 0.0,
           "encoding": None}  # fmt: skip
    return FittedGrade({"type": "Members", "sub": sub, "num": len(arrays[0])}, tuple(arrays), np.float32(1))
