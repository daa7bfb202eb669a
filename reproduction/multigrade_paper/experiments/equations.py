"""Beyond the paper: a ready equation, its error against a reference, its residuals, its features and its picture."""

import numpy as np

from multigrade.equations import READY, Solution

from ..job import Result
from .context import Context

SIDE = 128  # pixels of the picture


def equation(context: Context) -> Result:
    """One ready equation, solved; the held-out residual and the change of u after every grade go into the arrays."""
    ready = READY[context.setup.task](**context.setup.options)
    solution = ready.solve(max_features=context.setup.max_features, quiet=True)
    metrics = {
        "error": ready.error(solution),
        "held_out": solution.error_estimate,
        "num_features": solution.num_features,
        "num_grades": len(solution.records),
        "residuals": dict(solution.residuals),
        "seconds": solution.seconds,
    }
    names = ("num_features", "held_out", "change")
    arrays = {name: np.array([getattr(record, name) for record in solution.records]) for name in names}
    return Result(metrics, (), arrays, _pictures(solution))


def _pictures(solution: Solution) -> dict[str, np.ndarray]:
    """u over the plane, the first axis from left to right, on the unit scale; none in one dimension or three."""
    assert solution.domain is not None
    low, high = solution.domain.bounds
    if len(low) != 2:
        return {}
    x, y = (np.linspace(low[axis], high[axis], SIDE) for axis in (0, 1))
    values = solution(np.stack(np.meshgrid(x, y[::-1]), axis=-1).reshape(-1, 2))[:, 0].reshape(SIDE, SIDE)
    return {"u": (values - values.min()) / (np.ptp(values) or 1.0)}
