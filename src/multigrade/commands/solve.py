"""multigrade solve: a ready equation, its error against a reference, its picture and its model."""

import dataclasses
import inspect
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
    quiet: Quiet = False

    def run(self) -> None:
        from ..files import all_or_none, check_output

        for path, kinds in ((self.figure, (".png", ".pdf", ".svg")), (self.model, (".safetensors",))):
            if path is not None:
                check_output(path, kinds)
        if self.name not in NAMES:
            raise ValueError(f"NAME must be one of {', '.join(NAMES)}; got {self.name!r}")
        ready = self._ready()
        if not self.quiet:
            print(ready.name, flush=True)
        solution = ready.solve(max_features=self.features, tolerance=self.tolerance, quiet=self.quiet)
        if not self.quiet:
            for what, size in solution.residuals.items():
                print(f"{what}: held-out residual {size:.1e}")
            print(f"relative error against the reference: {ready.error(solution):.1e}, after {solution.seconds:.1f} s")
        with all_or_none():
            if self.model is not None:
                solution.save(self.model)
            if self.figure is not None:
                solution.figure(self.figure, title=ready.name)

    def _ready(self):
        """The problem, with the options that were given; one that is not its own is refused."""
        from ..equations import READY

        given = {option: value for option in OPTIONS if (value := getattr(self, option)) is not None}
        known = inspect.signature(READY[self.name]).parameters
        for option in given:
            if option not in known:
                raise ValueError(f"--{option} does not belong to {self.name}")
        return READY[self.name](**given)
