"""Beyond the paper: why are grades steady? The same data and the same rate, with one cause switched off at a time.

MGDL differs from SGDL in three things: earlier layers are frozen, every grade is shallow, its target is what is left
over. A variant keeps two of them, or one:

    SGDL           one network of four hidden layers; none of the three
    MGDL           four grades of one hidden layer; all three
    no freezing    all layers of all grades so far go on training, on the sum of their outputs
    deep grades    grades of two hidden layers: not shallow
    no residual    every grade is fitted to the target itself, and the last one is the model
    residual only  the l-th network has l hidden layers of its own, reads x, and is fitted to what is left over

All take equally many steps in all. Spectra are those of the step that the optimiser takes.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from multigrade.curvature.observers import SpectrumObserver
from multigrade.networks import Network
from multigrade.synthetic import training_points
from multigrade.training import GradeProblem, Plan, RunRecord, minimise
from multigrade.training.objectives import LeastSquares, Rows

from ..job import Result
from .context import Context
from .descent import ends, half_mean_square

WIDTH, NUM_GRADES = 32, 4  # (SGDL-1) and (MGDL-1), Appendix D


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Stack:
    """The sum of grades as one network, all of whose layers may train."""

    networks: tuple[Network, ...]

    def __call__(self, params, x: Array) -> Array:
        total = jnp.zeros(())
        for network, own in zip(self.networks, params, strict=True):
            x = network.hidden(own, x)
            total = total + network.output(own, x)
        return total


def steadiness(context: Context) -> Result:
    """One variant on one setting, full batch, with the spectrum of its own step."""
    setup = context.setup
    x, y = training_points(setup.setting, setup.points)
    observer = SpectrumObserver(every=setup.spectrum_every, num=setup.num_eigenvalues)
    plan = Plan(
        setup.epochs * (NUM_GRADES if setup.method == "SGDL" else 1), setup.optimiser,
        learning_rate=setup.learning_rate, record_every=setup.record_every,
        observers=(observer, *context.observers),
    )  # fmt: skip
    records, error = _train(setup.method, jnp.asarray(x), jnp.asarray(y), plan, setup.seed)
    metrics = {name: value for name, value in ends(records).items() if name != "spectrum"}
    return Result({**metrics, "train_loss": error}, records)


def _train(variant: str, x: Array, y: Array, plan: Plan, seed: int) -> tuple[tuple[RunRecord, ...], float]:
    """The records of all stages, and 1/2 the mean square of what they leave over together."""
    hidden = 2 if variant == "deep grades" else 1
    features, left, earlier, records = x, y, (), []
    for index in range(1 if variant == "SGDL" else NUM_GRADES):
        init_key, batch_key = jax.random.split(jax.random.fold_in(jax.random.key(seed), index))
        if variant == "SGDL":
            network = Network((1, *(WIDTH,) * NUM_GRADES, 1))
        elif variant == "residual only":
            network, features = Network((1, *(WIDTH,) * (index + 1), 1)), x
        else:
            network = Network((features.shape[1], *(WIDTH,) * hidden, 1))
        params, rows = network.init(init_key), Rows(features, y if variant == "no residual" else left)
        if variant == "no freezing":
            earlier = (*earlier, (network, params))
            networks, params = (tuple(parts) for parts in zip(*earlier, strict=True))
            trained, rows = Stack(networks), Rows(x, y)
        else:
            trained = network
        run = minimise(GradeProblem(LeastSquares(trained), rows), params, plan, key=batch_key, grade=index)
        records.append(run.record)
        if variant == "no freezing":
            earlier = tuple((net, own) for (net, _), own in zip(earlier, run.params, strict=True))
            left, features = y - trained(run.params, x), _through(earlier, x)
        else:
            left = rows.targets - trained(run.params, rows.inputs)
            features = network.hidden(run.params, rows.inputs)
    return tuple(records), half_mean_square(np.asarray(left), np.zeros(left.shape))


def _through(grades, x: Array) -> Array:
    for network, params in grades:
        x = network.hidden(params, x)
    return x
