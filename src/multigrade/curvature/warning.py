"""A warning before the loss spikes: the sharpest direction is about to leave what the optimiser can bear.

Curvature grows while the loss falls, until lambda_max(P^-1 H) meets the optimiser's threshold (``preconditioned``).
From there on the step multiplies whatever lies along that direction by more than 1. Some steps later the loss shows it.

    watch = SpikeWarning(every=10)
    fit_grades(structure, x, y, Plan(10_000, "momentum", learning_rate=0.01, observers=[watch]))

A look takes ``NUM_PRODUCTS`` Hessian-vector products: the eigenvector of the last look is the start of the next one.
``python -m benchmarks.spike_warning`` says how many steps before a spike it warns, and how often in vain.
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from ..training.observers import Observation, Snapshot
from .observers import current_rate
from .preconditioned import preconditioner
from .products import HessianOperator

# At every later look, from the vector of the last one; our choice, by python -m benchmarks.spike_warning.
NUM_PRODUCTS = 4
FIRST_PRODUCTS = 20  # at the first look, from a random vector


@dataclasses.dataclass(frozen=True)
class SpikeWarning:
    """Tells when lambda_max(P^-1 H) rises through ``level`` times the threshold of the run's optimiser.

    Recorded: ``ratio`` = lambda_max(P^-1 H) / threshold, from below and right within a few looks; ``warned``, 1 at the
    looks at which it rose through ``level``. An optimiser without a threshold (Muon) is refused.

    Parameters
    ----------
    every : steps between looks
    level : share of the threshold at which it warns; lower ones warn earlier
    tell : is given a sentence at each warning
    name : under which the record has it
    """

    every: int = 10
    level: float = 1.0
    tell: Callable[[str], None] = print
    name: str = "spike warning"

    def __post_init__(self):
        if self.every < 1:
            raise ValueError(f"every must be at least 1; got {self.every!r}")
        if not self.level > 0:
            raise ValueError(f"level must be positive; got {self.level!r}")

    def observe(self, snapshot: Snapshot, carry: Mapping[str, np.ndarray] | None) -> Observation:
        """Record the ratio to the threshold, and whether it rose through the level."""
        rate = current_rate(snapshot)
        hessian = HessianOperator(snapshot.loss, snapshot.params)
        known = preconditioner(hessian, snapshot.params, snapshot.optimiser, snapshot.optimiser_state)
        start, before = (carry["vector"], float(carry["ratio"])) if carry else (None, np.inf)
        sharpness, vector = _sharpest(hessian, np.sqrt(known.inverse), start)
        ratio = sharpness * rate / known.limit(rate)
        is_warning = before < self.level <= ratio
        if is_warning:
            self.tell(
                f"step {snapshot.step}: the loss may spike, as the largest eigenvalue of P^-1 H is {ratio:.3f} times "
                "what the optimiser can bear"
            )
        values = {"ratio": np.float64(ratio), "warned": np.int32(is_warning)}
        return Observation(values, carry={"vector": vector, "ratio": np.float64(ratio)})


def _sharpest(hessian: HessianOperator, root: np.ndarray, start: np.ndarray | None) -> tuple[float, np.ndarray]:
    """The largest eigenvalue of R H R, R diagonal with ``root``, and its vector, as far as a few products see it."""
    v = np.random.default_rng(0).standard_normal(hessian.size) if start is None else start
    num = FIRST_PRODUCTS if start is None else NUM_PRODUCTS
    basis, inner = np.zeros((num + 1, v.size)), np.zeros((num, num))
    basis[0] = v / np.linalg.norm(v)
    for index in range(num):
        image = root * hessian(root * basis[index])
        inner[:, index] = basis[:num] @ image
        image -= inner[:, index] @ basis[:num]
        image -= (basis[:num] @ image) @ basis[:num]
        length = np.linalg.norm(image)
        basis[index + 1] = image / length if length > 0 else 0
    values, vectors = np.linalg.eigh(inner, UPLO="U")
    return float(values[-1]), vectors[:, -1] @ basis[:num]
