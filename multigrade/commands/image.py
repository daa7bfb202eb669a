"""``multigrade regress | denoise | deblur | inpaint | upsample``: a picture in, a better picture out."""

import json
from pathlib import Path
from typing import Annotated

import typer

Input = Annotated[str, typer.Argument(help="PNG, JPEG or TIFF file, or a free picture such as :camera.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="Where to write the result.")]
Method = Annotated[str, typer.Option(help="mgdl or sgdl.", autocompletion=lambda: ["mgdl", "sgdl"])]
Recipe = Annotated[str, typer.Option(help="fast, best (the best picture) or paper (faithful; hours if large).")]
Grades = Annotated[int | None, typer.Option(help="Number of grades (mgdl).")]
Layers = Annotated[int | None, typer.Option(help="Hidden layers per grade (mgdl), or in all (sgdl).")]
Width = Annotated[int | None, typer.Option(help="Neurons per hidden layer.")]
Epochs = Annotated[int | None, typer.Option("--steps", help="Steps per grade.")]
Rate = Annotated[float | None, typer.Option(help="Learning rate (peak, with the fast recipe).")]
Weight = Annotated[
    float | None, typer.Option("--lambda", help="Weight of total variation; from the noise level if not given.")
]
Beta = Annotated[float | None, typer.Option(help="Weight of the coupling of u and the differences.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
NoiseSigma = Annotated[float | None, typer.Option(help="Noise level on the 0..255 scale; estimated if not given.")]
Reference = Annotated[str | None, typer.Option(help="The clean picture: prints PSNR and SSIM.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the metrics to this file.")]
Figure = Annotated[Path | None, typer.Option(help="Draw input, grades, result and error to this file.")]
TimeLimit = Annotated[float | None, typer.Option(help="Seconds of training after which to stop with what there is.")]
AddNoise = Annotated[float | None, typer.Option(help="Try out: add noise of this level to a clean picture first.")]
Baselines = Annotated[bool, typer.Option("--baselines", help="Measure simple methods beside the result.")]
TensorBoard = Annotated[Path | None, typer.Option(help="Write TensorBoard files to this folder while it goes.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def regress(
    picture: Input, output: Output, method: Method = "mgdl", recipe: Recipe = "fast", grades: Grades = None,
    layers: Layers = None, width: Width = None, epochs: Epochs = None, learning_rate: Rate = None, seed: Seed = 0,
    json_file: Json = None, figure: Figure = None, time_limit: TimeLimit = None, baselines: Baselines = False,
    tensorboard: TensorBoard = None, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Learn a picture as a function from every second pixel each way: multigrade regress :camera -o out.png"""
    _run("regress", locals())


def denoise(
    picture: Input, output: Output, noise_sigma: NoiseSigma = None, method: Method = "mgdl", recipe: Recipe = "fast",
    grades: Grades = None, layers: Layers = None, width: Width = None, epochs: Epochs = None,
    learning_rate: Rate = None, weight: Weight = None, beta: Beta = None, seed: Seed = 0, reference: Reference = None,
    json_file: Json = None, figure: Figure = None, time_limit: TimeLimit = None, add_noise: AddNoise = None,
    baselines: Baselines = False, tensorboard: TensorBoard = None, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Remove noise: multigrade denoise photo.png -o clean.png

    To try it out: multigrade denoise :camera --add-noise 20 -o out.png
    """
    _run("denoise", locals())


def deblur(
    picture: Input, output: Output,
    blur_sigma: Annotated[float | None, typer.Option(help="Width of the Gaussian blur, in pixels.")] = None,
    add_blur: Annotated[float | None, typer.Option(help="Try out: blur a clean picture first.")] = None,
    noise_sigma: NoiseSigma = None, method: Method = "mgdl", recipe: Recipe = "fast", grades: Grades = None,
    layers: Layers = None, width: Width = None, epochs: Epochs = None, learning_rate: Rate = None,
    weight: Weight = None, beta: Beta = None, seed: Seed = 0, reference: Reference = None, json_file: Json = None,
    figure: Figure = None, time_limit: TimeLimit = None, add_noise: AddNoise = None, baselines: Baselines = False,
    tensorboard: TensorBoard = None, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Undo a Gaussian blur: multigrade deblur photo.png --blur-sigma 3 -o sharp.png"""
    _run("deblur", locals())


def inpaint(
    picture: Input, output: Output,
    mask: Annotated[str, typer.Option(help="Picture of the same size: dark where the pixel is unknown.")],
    noise_sigma: NoiseSigma = None, method: Method = "mgdl", recipe: Recipe = "fast", grades: Grades = None,
    layers: Layers = None, width: Width = None, epochs: Epochs = None, learning_rate: Rate = None,
    weight: Weight = None, beta: Beta = None, seed: Seed = 0, reference: Reference = None, json_file: Json = None,
    figure: Figure = None, time_limit: TimeLimit = None, add_noise: AddNoise = None, baselines: Baselines = False,
    tensorboard: TensorBoard = None, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Fill in pixels: multigrade inpaint photo.png --mask known.png -o whole.png"""
    _run("inpaint", locals())


def upsample(
    picture: Input, output: Output,
    factor: Annotated[int, typer.Option(help="How many times as large, per side.")] = 2,
    noise_sigma: NoiseSigma = None, method: Method = "mgdl", recipe: Recipe = "fast", grades: Grades = None,
    layers: Layers = None, width: Width = None, epochs: Epochs = None, learning_rate: Rate = None,
    weight: Weight = None, beta: Beta = None, seed: Seed = 0, reference: Reference = None, json_file: Json = None,
    figure: Figure = None, time_limit: TimeLimit = None, add_noise: AddNoise = None, baselines: Baselines = False,
    tensorboard: TensorBoard = None, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Enlarge: multigrade upsample small.png --factor 2 -o large.png"""
    _run("upsample", locals())


def _run(task: str, given: dict) -> None:
    """Check everything, then load, degrade, restore, write and print."""
    from .. import pictures

    checkpoint = given["output"].parent / f"{given['output'].name}.checkpoint"  # an interrupted run continues from it
    _check_files(given, checkpoint)
    picture = pictures.load(given["picture"])
    output = pictures.check_output(given["output"], picture)
    from . import _restoration  # JAX from here on

    result = _restoration.run(task, picture, given, checkpoint)
    pictures.save(output, result.picture)
    if given["figure"] is not None:
        result.draw(given["figure"])
    if given["json_file"] is not None:
        from ..files import atomic_path, finite

        with atomic_path(given["json_file"]) as temporary:
            temporary.write_text(json.dumps(finite(result.metrics), indent=1, allow_nan=False) + "\n")
    checkpoint.unlink(missing_ok=True)
    if not given["quiet"]:
        result.print(output)


def _check_files(given: dict, checkpoint: Path) -> None:
    """No file is written that is read, or written twice; figure and metrics have a place to go."""
    from ..files import check_place, is_same_file

    read = {"the input": given["picture"], "--reference": given.get("reference"), "--mask": given.get("mask")}
    taken = {name: Path(file) for name, file in read.items() if file is not None and not file.startswith(":")}
    beside = {"--figure": given["figure"], "--json": given["json_file"]}
    for name, path in {"--output": given["output"], "its checkpoint": checkpoint, **beside}.items():
        if path is None:
            continue
        for other, file in taken.items():
            if is_same_file(path, file):
                raise ValueError(f"{name} {path} is the same file as {other}; give it another name")
        taken[name] = path
        if name in beside:
            check_place(path)
