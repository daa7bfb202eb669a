"""multigrade solve: a ready equation, its error against a reference, its picture and its model."""

import dataclasses
import inspect
import json
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from ._record import Quiet

NAMES = ("poisson", "helmholtz", "lens", "heat", "wave", "burgers", "fredholm", "volterra", "inverse")
OPTIONS = ("wavenumber", "dimensions", "boundary", "viscosity", "layer")  # of some of the problems


@dataclasses.dataclass(frozen=True, kw_only=True)
class Solve:
    """Solve a ready equation: multigrade solve helmholtz --wavenumber 50 --figure u.png"""

    name: Annotated[str, typer.Argument(help=", ".join(NAMES), autocompletion=lambda: NAMES)]
    wavenumber: Annotated[float | None, typer.Option(help="Of helmholtz, lens and fredholm.")] = None
    dimensions: Annotated[int | None, typer.Option(help="2 or 3, of helmholtz.")] = None
    boundary: Annotated[str | None, typer.Option(help="dirichlet or absorbing, of helmholtz.")] = None
    viscosity: Annotated[float | None, typer.Option(help="Of burgers.")] = None
    layer: Annotated[float | None, typer.Option(help="Width of the boundary layer of poisson.")] = None
    features: Annotated[int, typer.Option(help="Features of all grades together, at most.")] = 3000
    tolerance: Annotated[float, typer.Option(help="Held-out residual, relative to that of 0, that is enough.")] = 1e-9
    figure: Annotated[Path | None, typer.Option(help="Where to draw the solution (.png, .pdf or .svg).")] = None
    model: Annotated[Path | None, typer.Option(help="Where to write the solution (.safetensors).")] = None
    json: Annotated[bool, typer.Option("--json", help="Print one object of JSON in place of lines.")] = False
    quiet: Quiet = False

    def run(self) -> None:
        from ..equations import UnsolvedWarning
        from ..files import all_or_none, check_output, finite

        for path, kinds in ((self.figure, (".png", ".pdf", ".svg")), (self.model, (".safetensors",))):
            if path is not None:
                check_output(path, kinds)
        if self.name not in NAMES:
            raise ValueError(f"NAME must be one of {', '.join(NAMES)}; got {self.name!r}")
        ready = self._ready()
        is_told = not (self.quiet or self.json)
        if is_told:
            print(ready.name, flush=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsolvedWarning)  # the remark stands below
            solution = ready.solve(max_features=self.features, tolerance=self.tolerance, quiet=not is_told)
        with all_or_none():
            if self.model is not None:
                solution.save(self.model)
            if self.figure is not None:
                solution.figure(self.figure, title=ready.name)
        error = ready.error(solution)
        if self.json:
            found = {"name": ready.name, "error": error, "num_features": solution.num_features}
            told = ("error_bound", "error_estimate", "remark", "seconds")
            found |= {name: getattr(solution, name) for name in told} | {"residuals": dict(solution.residuals)}
            print(json.dumps(finite(found)))
        elif is_told:
            for what, size in solution.residuals.items():
                print(f"{what}: held-out residual {size:.1e}")
            print(f"relative error against the reference: {error:.1e}, after {solution.seconds:.1f} s")
        elif solution.remark:
            print(solution.sentence, file=sys.stderr)

    def _ready(self):
        """The problem, with the options that were given; one that is not its own is refused."""
        from ..equations import READY

        given = {option: value for option in OPTIONS if (value := getattr(self, option)) is not None}
        known = inspect.signature(READY[self.name]).parameters
        for option in given:
            if option not in known:
                raise ValueError(f"--{option} does not belong to {self.name}")
        return READY[self.name](**given)
