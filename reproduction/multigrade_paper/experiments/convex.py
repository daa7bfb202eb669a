"""Theorem 3 in numbers: a two-layer ReLU grade, its convex program, and gradient descent on the same objective."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from multigrade import convex as programs
from multigrade.networks import Layer
from multigrade.synthetic import training_points
from multigrade.training import GradeProblem, Plan, minimise

from ..job import Result
from ..setup import Setup
from .context import Context

WIDTH_FACTOR = 2  # gradient descent gets this many times the neurons of the optimum
RECORD_EVERY = 100  # steps of gradient descent


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class GradeObjective:
    """1/2 ||sum_j a_j (Xw_j)_+ - e||^2 + beta/2 sum_j (||w_j||^2 + a_j^2), eq. (opt dnn); the bias is part of w."""

    regularisation: float

    def init(self, params, data) -> tuple[()]:
        return ()

    def __call__(self, params, auxiliary, data):
        (hidden, outer), (x, y) = params, data
        error = jnp.maximum(x @ hidden.weight + hidden.bias, 0) @ outer.weight - y
        decay = sum(jnp.sum(part**2) for part in (hidden.weight, hidden.bias, outer.weight))
        return 0.5 * jnp.sum(error**2) + 0.5 * self.regularisation * decay, auxiliary

    def value_and_grad(self, params, auxiliary, data):
        return jax.value_and_grad(self.__call__, has_aux=True)(params, auxiliary, data)


def convex(context: Context) -> Result:
    setup = context.setup
    points, beta = training_points(setup.setting, setup.points), setup.regularisation
    x, y = (np.asarray(array, np.float64) for array in points)
    solution = programs.solve_newton(programs.convex_program(x, y, regularisation=beta), tolerance=setup.gap)
    network, params = programs.to_network(solution)
    certificate = solution.certificate
    width = WIDTH_FACTOR * network.widths[1]
    run = _descend(x, y, width, setup, context.observers)
    metrics = {
        "objective": certificate.objective, "dual_bound": certificate.dual_bound, "gap": certificate.relative_gap,
        "is_full": certificate.is_full, "num_patterns": certificate.num_patterns, "neurons": network.widths[1],
        "network_objective": programs.network_objective(params, x, y, regularisation=beta),
        "descent_width": width, "descent_objective": _objective(run.params, x, y, beta),
        "seconds": run.record.seconds,
    }  # fmt: skip
    grid = np.linspace(0, 1, 1000)[:, None]
    arrays = {"points": x[:, 0], "targets": y[:, 0], "grid": grid[:, 0], "optimum": _evaluate(params, grid)}
    arrays["descent"] = _evaluate(run.params, grid)
    return Result(metrics, (run.record,), arrays)


def _descend(x, y, width: int, setup: Setup, observers):
    """Gradient descent from small random weights, as in ``examples/convex_optimum.py``."""
    keys = jax.random.split(jax.random.key(setup.seed), 3)
    shapes = ((1, width), (width,), (width, 1))
    weight, bias, outer = (0.5 * jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True))
    start = (Layer(weight, bias), Layer(outer / width**0.5, jnp.zeros(1)))
    points = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    problem = GradeProblem(GradeObjective(setup.regularisation), points)
    rate = setup.learning_rate
    return minimise(problem, start, Plan(setup.epochs, "gd", rate, record_every=RECORD_EVERY, observers=observers))


def _objective(params, x, y, beta: float) -> float:
    return programs.network_objective(_double(params), x, y, regularisation=beta)


def _evaluate(params, grid: np.ndarray) -> np.ndarray:
    hidden, outer = _double(params)
    return (np.maximum(grid @ hidden.weight + hidden.bias, 0) @ outer.weight)[:, 0]


def _double(params) -> tuple[Layer, Layer]:
    hidden, outer = (Layer(*(np.asarray(part, np.float64) for part in layer)) for layer in params)
    return hidden, outer
