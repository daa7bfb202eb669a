"""The picture of the README: a noisy cat, what one grade after the other makes of it, and the best recipe.

python examples/grades_getting_sharper.py docs/figures/grades.jpg
"""

import sys

from matplotlib.figure import Figure

from multigrade import pictures, restore
from multigrade.pictures.metrics import psnr

NOISE = 25


def main(path: str) -> None:
    clean = pictures.load(":chelsea").pixels[20:276, 90:346]
    noisy = pictures.add_noise(clean, NOISE, seed=0)
    networks = restore.denoise(noisy, options=restore.Options(recipe="networks"))
    best = restore.denoise(noisy, options=restore.Options(recipe="best"))
    panels = [("noisy", noisy), *((f"grade {k}", stage) for k, stage in enumerate(networks.stages, 1))]
    panels += [("best recipe", best.image), ("the clean picture", clean)]
    figure = Figure(figsize=(2 * len(panels), 2.5))
    figure.subplots_adjust(0.003, 0.003, 0.997, 0.82, wspace=0.03)
    for axes, (title, picture) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        axes.imshow(picture.clip(0, 1), interpolation="nearest")
        quality = "" if picture is clean else f"\n{psnr(picture, clean):.1f} dB"
        axes.set_title(title + quality, fontsize=10)
        axes.axis("off")
    figure.savefig(path, dpi=130, pil_kwargs={"quality": 88})


if __name__ == "__main__":
    main(sys.argv[1])
