"""The paper's figures, each made from the saved results that belong to it.

for figure in figures(cells):
    for block in figure.blocks: ...     # a block is a row of charts, or pictures, from one group of runs
"""
# ruff: noqa: RUF001  (signs that readers see)

import dataclasses
from collections.abc import Iterable, Sequence

from .. import catalogue
from .blocks import Block, Figure
from .descents import image_rates, predictions, rates, spectra
from .gather import Cell
from .reconstructions import clean, degraded, reconstruction

CAPTIONS = {
    "1": "Impact of the learning rate on settings 1 and 2.",
    "2": "Training on setting 1: eigenvalues of I − ηH, and the loss.",
    "3": "Training on ‘Resolution chart’: eigenvalues of I − ηH, and the loss.",
    "4": "Clean images.",
    "5": "‘Cameraman’: loss, and predictions near the end of training.",
    "6": "Image regression: loss and predictions.",
    "7": "Noisy images.",
    "8": "Denoising ‘Butterfly’: PSNR during training, and the restored images.",
    "9": "Denoising ‘Pirate’: PSNR during training, and the restored images.",
    "10": "Denoising ‘Chest’: PSNR during training, and the restored images.",
    "11": "Blurred images.",
    "12": "Deblurring ‘Butterfly’: PSNR during training, and the restored images.",
    "13": "Deblurring ‘Pirate’: PSNR during training, and the restored images.",
    "14": "Deblurring ‘Chest’: PSNR during training, and the restored images.",
    "15": "Impact of the learning rate on four images.",
    "16": "Training on setting 2: eigenvalues of I − ηH, and the loss.",
    "17": "Predictions of SGDL and MGDL on settings 1 and 2.",
    "18": "Training on ‘Cameraman’: eigenvalues of I − ηH, and the loss.",
    "19": "Training on ‘Barbara’: eigenvalues of I − ηH, and the loss.",
    "20": "Training on ‘Butterfly’: eigenvalues of I − ηH, and the loss.",
    "21": "Denoising ‘Butterfly’ (noise 10) by gradient descent: eigenvalues and loss.",
    "22": "Denoising ‘Butterfly’ (noise 30) by gradient descent: eigenvalues and loss.",
    "23": "Denoising ‘Barbara’ (noise 10) by gradient descent: eigenvalues and loss.",
    "24": "Denoising ‘Barbara’ (noise 30) by gradient descent: eigenvalues and loss.",
    "25": "MSDL beside MGDL on setting 1: eigenvalues of I − ηH, and the loss.",
    "26": "MSDL beside MGDL on setting 2: eigenvalues of I − ηH, and the loss.",
    "27": "Predictions of MSDL and MGDL on settings 1 and 2.",
    "28": "Impact of the learning rate on MSDL and MGDL.",
}


NOT_DRAWN = ("alpha-synthetic",)  # runs at rates that no figure has


def figures(cells: Sequence[Cell]) -> list[Figure]:
    """All figures of the paper, in its order, and those of the theorems."""
    cells = [cell for cell in cells if cell.saved.job.item not in NOT_DRAWN]
    return [
        _figure("1", "rates", "lr-synthetic", rates(cells, ("SGDL", "MGDL"))),
        _figure("2", "spectra", "eig-synthetic", spectra(cells, "synthetic spectrum", setting=1)),
        _figure("3", "spectra", "eig-image-regression", spectra(cells, "image spectrum", image="resolution_chart")),
        _figure("4", "regression", "table1", clean(cells)),
        _figure("5", "regression", "figure-cameraman", reconstruction(cells, "regress", "cameraman")),
        _figure("6", "regression", "table1",
                [b for image in catalogue.REGRESSION_IMAGES[1:] for b in reconstruction(cells, "regress", image)]),
        _figure("7", "denoising", "table2", degraded(cells, "denoise")),
        *(_restoration(cells, "denoise", image, number) for number, image in _numbered(8)),
        _figure("11", "deblurring", "table3", degraded(cells, "deblur")),
        *(_restoration(cells, "deblur", image, number) for number, image in _numbered(12)),
        _figure("15", "rates", "lr-image", image_rates(cells)),
        _figure("16", "spectra", "eig-synthetic", spectra(cells, "synthetic spectrum", setting=2)),
        _figure("17", "spectra", "eig-synthetic", predictions(cells, ("SGDL", "MGDL"))),
        *(_figure(str(18 + k), "spectra", "eig-image-regression", spectra(cells, "image spectrum", image=image))
          for k, image in enumerate(("cameraman", "barbara", "butterfly"))),
        *(_figure(str(21 + k), "spectra", "eig-image-denoising",
                  spectra(cells, "denoising spectrum", image=image, noise=noise))
          for k, (image, noise) in enumerate((i, n) for i in ("butterfly", "barbara") for n in (10, 30))),
        *(_figure(str(24 + k), "spectra", "msdl-synthetic",
                  spectra(cells, "synthetic spectrum", ("MSDL", "MGDL"), setting=k)) for k in (1, 2)),
        _figure("27", "spectra", "msdl-synthetic", predictions(cells, ("MSDL", "MGDL"))),
        _figure("28", "rates", "msdl-synthetic", rates(cells, ("MSDL", "MGDL"))),
    ]  # fmt: skip


def _figure(number: str, section: str, item: str, blocks: Iterable[Block]) -> Figure:
    named = tuple(dataclasses.replace(block, id=f"figure-{number}-{index + 1}") for index, block in enumerate(blocks))
    return Figure(f"figure-{number}", f"Figure {number}", section, CAPTIONS[number], item, named)


def _numbered(first: int) -> list[tuple[str, str]]:
    return [(str(first + k), image) for k, image in enumerate(catalogue.RESTORATION_IMAGES)]


def _restoration(cells: Sequence[Cell], task: str, image: str, number: str) -> Figure:
    kind, levels, section, item = {
        "denoise": ("noise", catalogue.NOISE_LEVELS, "denoising", "table2"),
        "deblur": ("blur", catalogue.BLUR_LEVELS, "deblurring", "table3"),
    }[task]
    blocks = [block for level in levels for block in reconstruction(cells, task, image, **{kind: level})]
    return _figure(number, section, item, blocks)
