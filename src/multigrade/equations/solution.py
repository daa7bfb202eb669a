"""What a solved equation is: a model to call, differentiate, save and draw."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from ..extras import require
from ..files import check_output, read_arrays, telling_damage, write_arrays
from ..model import MultiGrade, model_from_arrays, model_to_arrays
from .domains import Domain

UNSOLVED = 0.03  # a held-out residual, relative to that of u = 0, that is no solution


@dataclasses.dataclass(frozen=True)
class GradeRecord:
    """What one grade has done.

    Parameters
    ----------
    num_features : int
        Of all grades so far.
    before, after : float
        Norm of all that should vanish at the points of the grade, before it and after it.
    held_out : float
        The same at held-out points, relative to that of u = 0.
    change : float
        How much u changed, relative to u.
    seconds : float
    """

    num_features: int
    before: float
    after: float
    held_out: float
    change: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.num_features} features, held-out residual {self.held_out:.1e}, u changed by {self.change:.1e}, "
            f"{self.seconds:.1f} s"
        )


@dataclasses.dataclass(frozen=True)
class Solution:
    """u as a model: call it at points (N, d).

    Parameters
    ----------
    name : str
    domain : Domain
        None where the solution was read from a file.
    model : MultiGrade
        u as a sum of grades.
    records : tuple of GradeRecord
    residuals : mapping
        Root mean squares at held-out points, by name of what should vanish.
    seconds : float
    remark : str
        Says that the equation is not solved, or that its conditions do not determine u; empty where all is well.
    """

    name: str
    domain: Domain | None
    model: MultiGrade
    records: tuple[GradeRecord, ...]
    residuals: Mapping[str, float]
    seconds: float
    remark: str = ""

    @property
    def error_estimate(self) -> float:
        """The held-out residual relative to that of u = 0: an error of the equation, not of u.

        The ``change`` of the last record says how much u still changed, if the last grade was kept.
        """
        return min([1.0, *(record.held_out for record in self.records)])  # a grade that does worse is left out

    @property
    def num_features(self) -> int:
        """Features of u, the constant among them; those of a grade that was left out are not counted."""
        _, output = self.model.grades[-1].params  # of all grades so far
        return len(output.weight) + 1

    @property
    def sentence(self) -> str:
        """How well all that should vanish does."""
        said = f"what should vanish is {self.error_estimate:.1e} of what it is for u = 0"
        return f"{self.remark} ({said})" if self.remark else said

    def __call__(self, points) -> np.ndarray:
        """u at points (N, d): (N, s), float64."""
        points = self._as_points(points)
        parts = [np.asarray(self.model(points[i : i + 4096])) for i in range(0, max(len(points), 1), 4096)]
        return np.concatenate(parts)

    def _as_points(self, points) -> np.ndarray:
        points, dimensions = np.asarray(points, np.float64), self.model.grades[0].network.widths[0]
        if points.ndim != 2 or points.shape[1] != dimensions:
            raise ValueError(f"points must have shape (N, {dimensions}); got {points.shape}")
        return points

    def apply(self, operator, points) -> np.ndarray:
        """``operator(u, x)`` at points (N, d), for instance ``lambda u, x: laplacian(u, x)``: (N, k)."""
        points = self._as_points(points)
        with jax.enable_x64(True):

            def u(x):
                values = self.model(x[None])[0]
                return values[0] if values.shape[0] == 1 else values

            rows = jax.jit(jax.vmap(lambda x: jnp.atleast_1d(operator(u, x))))
            return np.asarray(rows(jnp.asarray(points)))

    def save(self, path: str | os.PathLike) -> None:
        """Write u and its records as safetensors; ``load_solution`` reads them."""
        arrays, networks = model_to_arrays(self.model)
        records = [dataclasses.asdict(record) for record in self.records]
        ends = {"residuals": dict(self.residuals), "seconds": self.seconds, "remark": self.remark}
        description = {"name": self.name, "model": networks, "records": records, **ends}
        write_arrays(path, "solution", arrays, description)

    def figure(self, path: str | os.PathLike, *, title: str = "") -> None:
        """Draw u: a curve in one dimension, a picture in two, the middle slice in three.

        Points outside of the domain stay empty.
        """
        require("plots")
        from matplotlib.figure import Figure

        from ..files import atomic_path

        path = Path(path)
        check_output(path, (".png", ".pdf", ".svg"))
        if self.domain is None:
            raise ValueError("a solution that was loaded knows no domain; call it at points of your own and draw these")
        low, high = self.domain.bounds
        figure = Figure(figsize=(6, 4.5), layout="constrained")
        axes = figure.add_subplot()
        if len(low) == 1:
            x = np.linspace(low[0], high[0], 2000)
            values = self(x[:, None])
            axes.plot(x, values, linewidth=1, label=[f"$u_{number}$" for number in range(1, values.shape[1] + 1)])
            axes.set(xlabel="$x$", ylabel="$u$" if values.shape[1] == 1 else None)
            if values.shape[1] > 1:
                axes.legend()
        else:
            x, y = (np.linspace(low[j], high[j], 300) for j in (0, 1))
            grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
            middle = np.tile((low[2:] + high[2:]) / 2, (len(grid), 1))
            points = np.hstack([grid, middle])
            found = self(points)
            values = np.where(self.domain.contains(points), found[:, 0], np.nan).reshape(300, 300)
            image = axes.imshow(
                values.T, origin="lower", extent=(x[0], x[-1], y[0], y[-1]), aspect="auto", cmap="RdBu_r"
            )
            figure.colorbar(image, label="$u$" if found.shape[1] == 1 else "$u_1$")
            axes.set(xlabel="$x_1$", ylabel="$x_2$")
        axes.set_title(title or self.name)
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=150)


def load_solution(path: str | os.PathLike) -> Solution:
    """Read what ``Solution.save`` wrote. Its ``domain`` is None: only u is stored.

    Parameters
    ----------
    path : the file

    Returns
    -------
    Solution
        u, without a domain.
    """
    arrays, description, _ = read_arrays(path, "solution")
    with telling_damage(path, "solution"):
        model = model_from_arrays(arrays, description["model"])
        records = tuple(GradeRecord(**fields) for fields in description["records"])
        residuals, seconds, remark = description["residuals"], description["seconds"], description.get("remark", "")
        return Solution(description["name"], None, model, records, residuals, seconds, remark)
