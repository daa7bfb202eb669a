"""``multigrade spectrum``: follow the eigenvalues of an optimiser's step along a run; a record and a figure out."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from ._record import Quiet, TensorBoard

METHODS = ["sgdl", "mgdl", "msdl"]
OPTIMISERS = ["gd", "momentum", "adam", "muon"]  # lbfgs searches along lines: its step has no derivative
PLACES = ("output", "record", "tensorboard", "quiet")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spectrum:
    """Follow the spectrum of training: multigrade spectrum 1 --method sgdl --optimiser adam

    Below -1 gradient descent oscillates; in (-1, 1) it descends steadily. For another optimiser the eigenvalues are
    those of its own step, its state included. See docs/spectrum.md.
    """

    source: Annotated[str, typer.Argument(help="1 or 2 for the paper's settings, an image, or a CSV or NPZ table.")]
    method: Annotated[str, typer.Option(help="sgdl, mgdl or msdl.", autocompletion=lambda: METHODS)] = "mgdl"
    optimiser: Annotated[str, typer.Option(help="gd, momentum, adam or muon.", autocompletion=lambda: OPTIMISERS)] = (
        "gd"
    )
    learning_rate: Annotated[
        float | None, typer.Option(help="Rate; with gd the paper's for settings 1 and 2, else the optimiser's own.")
    ] = None
    batch_size: Annotated[int | None, typer.Option(help="Random rows that a step sees; all if not given.")] = None
    steps: Annotated[int, typer.Option(help="Steps, per grade for mgdl.")] = 100_000
    every: Annotated[int | None, typer.Option(help="Steps between spectra; a fiftieth of the steps if not given.")] = (
        None
    )
    num: Annotated[int, typer.Option(help="Eigenvalues at either end.")] = 10
    edge: Annotated[float | None, typer.Option(help="End a grade when an eigenvalue falls below this.")] = None
    target: Annotated[str | None, typer.Option(help="Column to predict, for tables; y if not given.")] = None
    stride: Annotated[
        int | None, typer.Option(help="Take every so many pixels each way, for images; 4 if not given.")
    ] = None
    output: Annotated[Path, typer.Option("-o", "--output", help="Figure (.png, .svg, .pdf).")] = Path("spectrum.png")
    record: Annotated[Path | None, typer.Option(help="Record (.safetensors); beside the figure if not given.")] = None
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0
    tensorboard: TensorBoard = None
    quiet: Quiet = False

    def run(self) -> None:
        from ..files import all_or_none, atomic_path, check_output, is_same_file

        record = self.record or self.output.with_suffix(".safetensors")
        check_output(self.output, (".png", ".svg", ".pdf"))
        check_output(record, (".safetensors",))
        for written in (self.output, record):
            if is_same_file(written, self.source):
                raise ValueError(f"the output {written} is the input; choose another name")
        from ..curvature.figure import spectrum_figure
        from ..curvature.tracking import save_spectrum, summarise_spectrum
        from ._live import watching
        from ._spectrum import check_options, run_spectrum

        check_options(self)
        num_grades = 4 if self.method == "mgdl" else 1
        with watching(num_grades, "spectrum", quiet=self.quiet, tensorboard=self.tensorboard) as observers:
            records = run_spectrum(self, observers)
        rate = float(records[0].observations["spectrum"]["learning_rate"][0])
        figure = spectrum_figure({rf"{self.method.upper()}, {self.optimiser}, $\eta$ = {rate:.4g}": records})
        with all_or_none():
            save_spectrum(record, records, self.description)
            with atomic_path(self.output) as temporary:
                figure.savefig(temporary, dpi=130)
        if not self.quiet:
            for summary in summarise_spectrum(records):
                print(summary.sentence)
            print(f"figure written to {self.output}, record to {record}")

    @property
    def description(self) -> dict:
        """What the record says of the run: all options but where its files go."""
        options = {name: value for name, value in dataclasses.asdict(self).items() if name not in PLACES}
        return {**options, "source": Path(self.source).name}
