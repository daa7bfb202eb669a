"""What a solved equation is: a model to call, differentiate, save and draw."""

import dataclasses
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..extras import require
from ..files import check_output, finite, read_arrays, telling_damage, write_arrays
from ..model import MultiGrade, model_from_arrays, model_to_arrays
from .domains import Domain
from .windows import Windows

UNSOLVED = 0.03  # a held-out residual, relative to that of u = 0, that is no solution
UNSURE = 0.03  # a bound on the relative error of u that calls for a remark


class UnsolvedWarning(UserWarning):
    """A solution has a remark: it is not one, or not the only one, or its error may be large."""


class UnsolvedError(ValueError):
    """What ``Solution.raise_unless_solved`` raises."""


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
    error_bound : float
        Of u with this grade, relative to u; infinite where none was computed.
    """

    num_features: int
    before: float
    after: float
    held_out: float
    change: float
    seconds: float
    error_bound: float = np.inf

    def __str__(self) -> str:
        bound = f", error at most {self.error_bound:.1e}" if np.isfinite(self.error_bound) else ""
        return (
            f"{self.num_features} features, held-out residual {self.held_out:.1e}, u changed by {self.change:.1e}"
            f"{bound}, {self.seconds:.1f} s"
        )


@dataclasses.dataclass(frozen=True)
class Solution:
    """u as a model: call it at points (N, d).

    Parameters
    ----------
    name : str
    domain : Domain
        None where the solution was read from a file.
    model : MultiGrade or Windows
        u as a sum of grades; or one grade for each window of time.
    records : tuple of GradeRecord
    residuals : mapping
        Root mean squares at held-out points, by name of what should vanish.
    seconds : float
    remark : str
        Says that the equation is not solved, that its conditions do not determine u, or that u may be wrong by more
        than 3 %; empty where all is well.
    error_bound : float
        Bound on the root mean square error of u relative to u: see ``multigrade.equations.bound``. Infinite where
        nothing can be said. It is a bound if the features resolve the change of u that is noticed least, and, where the
        problem is not linear, if a solution is so near that the linearisation holds.
    """

    name: str
    domain: Domain | None
    model: MultiGrade | Windows
    records: tuple[GradeRecord, ...]
    residuals: Mapping[str, float]
    seconds: float
    remark: str = ""
    error_bound: float = np.inf

    @property
    def error_estimate(self) -> float:
        """The held-out residual relative to that of u = 0: an error of the equation, not of u.

        The ``change`` of the last record says how much u still changed, if the last grade was kept.
        """
        return min([1.0, *(record.held_out for record in self.records)])  # a grade that does worse is left out

    @property
    def num_features(self) -> int:
        """Features of u, the constant among them; those of a grade that was left out are not counted."""
        if isinstance(self.model, Windows):
            return self.model.num_features
        _, output = self.model.grades[-1].params  # of all grades so far
        return len(output.weight) + 1

    @property
    def sentence(self) -> str:
        """How well all that should vanish does."""
        said = f"what should vanish is {self.error_estimate:.1e} of what it is for u = 0"
        if np.isfinite(self.error_bound):
            said += f"; the error of u is at most {self.error_bound:.1e} of u"
        return f"{self.remark} ({said})" if self.remark else said

    def raise_unless_solved(self) -> "Solution":
        """This solution; ``UnsolvedError`` with its remark where it has one."""
        if self.remark:
            raise UnsolvedError(f"{self.name}: {self.sentence}")
        return self

    def told(self) -> "Solution":
        """This solution; an ``UnsolvedWarning`` with its remark where it has one."""
        if self.remark:
            warnings.warn(f"{self.name}: {self.sentence}", UnsolvedWarning, stacklevel=3)
        return self

    def __call__(self, points) -> np.ndarray:
        """u at points (N, d): (N, s), float64."""
        points = self._as_points(points)
        parts = [np.asarray(self.model(points[i : i + 4096])) for i in range(0, max(len(points), 1), 4096)]
        return np.concatenate(parts)

    def _as_points(self, points) -> np.ndarray:
        model, points = self.model, np.asarray(points, np.float64)
        if isinstance(model, Windows):
            dimensions = model.weights.shape[1]
        else:
            network: Any = model.grades[0].network
            dimensions = network.widths[0]
        if points.ndim != 2 or points.shape[1] != dimensions:
            raise ValueError(f"points must have shape (N, {dimensions}); got {points.shape}")
        return points

    def apply(self, operator, points) -> np.ndarray:
        """``operator(u, x)`` at points (N, d), for instance ``lambda u, x: laplacian(u, x)``: (N, k)."""
        points = self._as_points(points)
        with jax.enable_x64(True):
            model = self.model

            def row(x, number):
                def u(x):
                    values = model.at(number, x) if isinstance(model, Windows) else model(x[None])[0]
                    return values[0] if values.shape[0] == 1 else values

                return jnp.atleast_1d(operator(u, x))

            numbers = model.number(points) if isinstance(model, Windows) else np.zeros(len(points), int)
            return np.asarray(jax.jit(jax.vmap(row))(jnp.asarray(points), numbers))

    def save(self, path: str | os.PathLike) -> None:
        """Write u and its records as safetensors; ``load_solution`` reads them."""
        if isinstance(self.model, Windows):
            arrays = dataclasses.asdict(self.model)
            networks = {"time_axis": arrays.pop("axis")}
        else:
            arrays, networks = model_to_arrays(self.model)
        records = [finite(dataclasses.asdict(record)) for record in self.records]
        ends = {"residuals": dict(self.residuals), "seconds": self.seconds, "remark": self.remark}
        bound = finite(self.error_bound)
        description = {"name": self.name, "model": networks, "records": records, "error_bound": bound, **ends}
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
        bound = f"\nerror at most {self.error_bound:.1e}" if np.isfinite(self.error_bound) else ""
        axes.set_title((title or self.name) + bound)
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
        networks = description["model"]
        is_split = isinstance(networks, dict) and "time_axis" in networks
        model = Windows(axis=networks["time_axis"], **arrays) if is_split else model_from_arrays(arrays, networks)
        records = tuple(
            GradeRecord(**{name: np.inf if value is None else value for name, value in fields.items()})
            for fields in description["records"]
        )
        residuals, seconds = (
            {name: float(size) for name, size in description["residuals"].items()},
            description["seconds"],
        )
        bound = description.get("error_bound")
        return Solution(
            description["name"], None, model, records, residuals, float(seconds), str(description.get("remark", "")),
            np.inf if bound is None else float(bound),
        )  # fmt: skip
