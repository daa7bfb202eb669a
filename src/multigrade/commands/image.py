"""``multigrade regress | denoise | deblur | inpaint | upsample``: a picture in, a better picture out.

Each command is a record (see ``_record``); what they share stands in ``ImageCommand`` and ``RestoreCommand``.
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from ._record import Quiet, TensorBoard


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageCommand:
    """What all image commands take."""

    pictures: Annotated[
        list[str],
        typer.Argument(metavar="PICTURE...", help="PNG, JPEG or TIFF files, or a free picture such as :camera."),
    ]
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the result; a folder for several.")]
    method: Annotated[str, typer.Option(help="mgdl or sgdl.", autocompletion=lambda: ["mgdl", "sgdl"])] = "mgdl"
    recipe: Annotated[
        str | None,
        typer.Option(
            help="best (the best picture for the time; the default where the task has it), networks (the paper's"
            " networks trained our way) or paper (faithful; hours if large)."
        ),
    ] = None
    grades: Annotated[int | None, typer.Option(help="Number of grades (mgdl).")] = None
    layers: Annotated[int | None, typer.Option(help="Hidden layers per grade (mgdl), or in all (sgdl).")] = None
    width: Annotated[int | None, typer.Option(help="Neurons per hidden layer.")] = None
    steps: Annotated[int | None, typer.Option(help="Steps per grade.")] = None
    learning_rate: Annotated[float | None, typer.Option(help="Learning rate (its peak, but by recipe paper).")] = None
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the metrics to this file.")] = None
    figure: Annotated[Path | None, typer.Option(help="Draw input, grades, result and error to this file.")] = None
    time_limit: Annotated[float | None, typer.Option(help="Seconds after which to stop with what there is.")] = None
    baselines: Annotated[bool, typer.Option("--baselines", help="Measure simple methods beside the result.")] = False
    tensorboard: TensorBoard = None
    quiet: Quiet = False

    task: ClassVar[str]

    @property
    def picture(self) -> str:
        """The only one, or the first."""
        return self.pictures[0]

    @property
    def checkpoint(self) -> Path:
        """An interrupted run continues from it."""
        return self.output.parent / f"{self.output.name}.checkpoint"

    @property
    def read_files(self) -> dict[str, str | None]:
        return {"the input": self.picture}

    def run(self) -> None:
        """One picture into a file, or each into a folder."""
        if len(self.pictures) == 1 and not self.output.is_dir():
            self.restore()
        else:
            self._restore_each()

    def restore(self):
        """Check everything, then load, degrade, restore, write and print."""
        from .. import pictures
        from ..files import all_or_none, atomic_path, finite, remove_checkpoint

        _check_files(self)
        picture = pictures.load(self.picture)
        output = pictures.check_output(self.output, picture)
        from . import _restoration  # JAX from here on

        result = _restoration.run(self, picture)
        with all_or_none():
            pictures.save(output, result.picture, unchanged=result.is_unchanged)
            if self.figure is not None:
                result.draw(self.figure)
            if self.json_file is not None:
                with atomic_path(self.json_file) as temporary:
                    temporary.write_text(json.dumps(finite(result.metrics), indent=1, allow_nan=False) + "\n")
        remove_checkpoint(self.checkpoint)
        if not self.quiet:
            result.print(output)
        return result

    def _restore_each(self) -> None:
        """One after the other, each on all cores and let go before the next; what is wrong with one is told, and the
        others are done all the same."""
        from ..files import printable

        beside = {"--figure": self.figure, "--json": self.json_file, "--tensorboard": self.tensorboard}
        if given := [name for name, value in beside.items() if value is not None]:
            raise ValueError(f"{given[0]} must not be given with a folder as output: it is of one picture")
        if not self.output.is_dir():
            raise ValueError(f"{self.output} must be a folder that exists, for several pictures")
        names = [f"{source[1:]}.png" if source.startswith(":") else Path(source).name for source in self.pictures]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"the names of the pictures must differ; {printable(twice[0])} is there twice")
        failed = 0
        for number, (source, name) in enumerate(zip(self.pictures, names, strict=True), 1):
            count = f"{number}/{len(names)} {printable(source)}:"
            one = dataclasses.replace(self, pictures=[source], output=self.output / name, quiet=True)
            try:
                result = one.restore()
            except ValueError as error:
                if len(names) == 1:
                    raise
                failed += 1
                print(count, error, file=sys.stderr)
            else:
                if not self.quiet:
                    print(count, result.line, flush=True)
        if failed:
            raise ValueError(f"{failed} of {len(names)} pictures were not restored; the others are in {self.output}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RestoreCommand(ImageCommand):
    """What the commands take besides whose observation has noise."""

    noise_sigma: Annotated[
        float | None, typer.Option(help="Noise level on the 0..255 scale; estimated if not given.")
    ] = None
    weight: Annotated[
        float | None, typer.Option("--lambda", help="Weight of total variation; from the noise level if not given.")
    ] = None
    beta: Annotated[float | None, typer.Option(help="Weight of the coupling of u and the differences.")] = None
    reference: Annotated[str | None, typer.Option(help="The clean picture: prints PSNR and SSIM.")] = None
    add_noise: Annotated[
        float | None, typer.Option(help="Try out: add noise of this level to a clean picture first.")
    ] = None

    @property
    def read_files(self) -> dict[str, str | None]:
        return {**super().read_files, "--reference": self.reference}


class Regress(ImageCommand):
    """Learn a picture as a function from every second pixel each way: multigrade regress :camera -o out.png"""

    task = "regress"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Denoise(RestoreCommand):
    """Remove noise: multigrade denoise photo.png -o clean.png

    A folder of photos: multigrade denoise photos/*.jpg -o out/

    To try it out: multigrade denoise :camera --add-noise 20 -o out.png
    """

    strength: Annotated[
        float, typer.Option(help="How many times as strong the noise is taken to be: less keeps more texture.")
    ] = 1.0
    task = "denoise"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deblur(RestoreCommand):
    """Undo a Gaussian blur: multigrade deblur photo.png --blur-sigma 3 -o sharp.png"""

    blur_sigma: Annotated[float | None, typer.Option(help="Width of the Gaussian blur, in pixels.")] = None
    add_blur: Annotated[float | None, typer.Option(help="Try out: blur a clean picture first.")] = None
    task = "deblur"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inpaint(RestoreCommand):
    """Fill in pixels: multigrade inpaint photo.png --mask known.png -o whole.png"""

    mask: Annotated[str, typer.Option(help="Picture of the same size: dark where the pixel is unknown.")]
    task = "inpaint"

    @property
    def read_files(self) -> dict[str, str | None]:
        return {**super().read_files, "--mask": self.mask}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Upsample(RestoreCommand):
    """Enlarge: multigrade upsample small.png --factor 2 -o large.png"""

    factor: Annotated[int, typer.Option(help="How many times as large, per side.")] = 2
    task = "upsample"


def _check_files(given: ImageCommand) -> None:
    """No file is written that is read, or written twice; figure and metrics have a place to go."""
    from ..files import check_place, is_same_file

    taken = {name: Path(file) for name, file in given.read_files.items() if file is not None and file[:1] != ":"}
    beside = {"--figure": given.figure, "--json": given.json_file}
    for name, path in {"--output": given.output, "its checkpoint": given.checkpoint, **beside}.items():
        if path is None:
            continue
        for other, file in taken.items():
            if is_same_file(path, file):
                raise ValueError(f"{name} {path} is the same file as {other}; give it another name")
        taken[name] = path
        if name in beside:
            check_place(path)
