"""What each column does in a fitted model: exactly in grade 1, and by permutation in all grades.

Grade 1 without its drawn features is a sum of functions of one column each. Their values on rows say what a column adds
to the score there, exactly; they are centred on the training rows. What the drawn features and the networks do is seen
from outside: a column is exchanged between rows, and the loss of the prediction rises by its worth.
"""

from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from .predictor import staged


class Effects(NamedTuple):
    """What the columns do on some rows.

    Parameters
    ----------
    columns : names of the columns
    added : (rows, columns, outputs), what each column adds to the scores of the rows in grade 1
    rest : (rows, outputs), what grade 1 adds without any column, and its drawn features and the networks add to that
    worth : (columns,), how much the mean loss of all grades rises when a column is exchanged between
        rows; None without y
    """

    columns: list[str]
    added: np.ndarray
    rest: np.ndarray
    worth: np.ndarray | None

    @property
    def size(self) -> np.ndarray:
        """The standard deviation of what each column adds, (columns,)."""
        return np.sqrt(np.mean(np.var(self.added, axis=0), axis=-1))

    def figure(self, most: int = 20):
        """Bars of the columns' sizes, and of their worth where it is known, the largest first (matplotlib)."""
        from ..extras import require

        require("plots")
        from matplotlib.figure import Figure

        key = self.size if self.worth is None else self.worth
        order = np.argsort(-key)[:most][::-1]
        names = [self.columns[i] for i in order]
        bars = [("deviation of what it adds in grade 1", self.size)]
        if self.worth is not None:
            bars.append(("rise of the loss without it, all grades", self.worth))
        figure = Figure((5 * len(bars), 1 + 0.3 * len(order)), layout="constrained")
        for axes, (title, values) in zip(np.atleast_1d(figure.subplots(1, len(bars), sharey=True)), bars, strict=True):
            axes.barh(names, values[order])
            axes.set_xlabel(title)
        return figure


def find_effects(estimator, rows: np.ndarray, targets: np.ndarray | None, random_state) -> Effects:
    """What each column does in an estimator that was fitted with solver="auto", on rows as it reads them."""
    encoding = estimator.encoding_
    if encoding is None:
        raise ValueError("effects need solver='auto', whose first grade is a sum over columns")
    encoded = encoding(rows)
    first = estimator.grades_[0]
    weight = first.scale * first.arrays[0].mean(axis=0)  # of the mean member
    owner = np.concatenate([encoding.column_of_outputs(), encoding.column_of_codes()])
    owner = np.pad(owner, (0, len(weight) - len(owner)), constant_values=-1)
    added = np.zeros((len(rows), estimator.n_features_in_, weight.shape[1]))
    for column in np.unique(owner[owner >= 0]):
        of_column = owner == column
        added[:, column] = encoded[:, of_column] @ weight[of_column]
    *_, (scores, _) = staged(estimator.grades_, encoded)
    rest = scores.mean(axis=1) - added.sum(axis=1)
    worth = None
    if targets is not None:
        random = check_random_state(random_state)
        before, worth = _mean_loss(estimator, encoded, targets), np.zeros(estimator.n_features_in_)
        for column in encoding.columns_used:
            exchanged = rows.copy()
            exchanged[:, column] = rows[random.permutation(len(rows)), column]
            worth[column] = _mean_loss(estimator, encoding(exchanged), targets) - before
    return Effects(list(estimator.columns_.names), added, rest, worth)


def _mean_loss(estimator, encoded: np.ndarray, targets: np.ndarray) -> float:
    *_, (scores, _) = staged(estimator.grades_, encoded)
    return float(np.mean(estimator.loss_.value(scores.mean(axis=1, dtype=np.float64), targets)))
