"""Simulated cameras: from a clean picture to what a camera makes of it, with noise and without.

Light is linear and comes in quanta: the variance of a sensor's pixel is a x + b^2. Then come demosaicking, white
balance, gamma and a tone curve, smoothing of colours and of brightness, sharpening, sometimes a smaller size, and JPEG,
once in the camera and perhaps once more on another grid. All of it is drawn at random.
"""

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import skimage
from PIL import Image, ImageDraw
from scipy.ndimage import convolve, gaussian_filter, zoom

FREE = ("coffee", "chelsea", "rocket", "immunohistochemistry", "hubble_deep_field", "retina", "coins", "brick", "grass",
        "gravel", "moon", "page", "text")  # fmt: skip
GAMMA = 2.2
LUMINANCE = np.float32(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]]
)  # YCbCr of JPEG
GREEN, OTHERS = np.float32([[0, 1, 0], [1, 4, 1], [0, 1, 0]]) / 4, np.float32([[1, 2, 1], [2, 4, 2], [1, 2, 1]]) / 4


class Shot(NamedTuple):
    """Pictures (h, w, 3) on the unit scale, and the quality of the JPEG file that they come from, 100 without one."""

    noisy: np.ndarray
    clean: np.ndarray
    quality: int


def free_pictures(folder: Path) -> list[np.ndarray]:
    """(h, w, 3) in single precision: the PNG files of a folder (Kodak's), and those of scikit-image."""
    found = [np.asarray(Image.open(path).convert("RGB"), np.float32) / 255 for path in sorted(folder.glob("*.png"))]
    for name in FREE:
        picture = skimage.util.img_as_float32(getattr(skimage.data, name)())[:1000, :1000]
        found.append(np.stack([picture] * 3, axis=-1) if picture.ndim == 2 else picture)
    return found


def scene(picture: np.ndarray, side: int, random: np.random.Generator) -> np.ndarray:
    """A part of a picture at a size between half and two and a half, perhaps mirrored or out of focus."""
    scale = float(np.exp(random.uniform(np.log(0.55), np.log(2.6))))
    need = int(np.ceil(side / scale)) + 2
    top, left = (random.integers(0, max(size - need, 0) + 1) for size in picture.shape[:2])
    part = resized(picture[top : top + need, left : left + need], scale)[:side, :side]
    part = part[:, ::-1] if random.random() < 0.5 else part
    return np.ascontiguousarray(gaussian_filter(part, (1, 1, 0)) if random.random() < 0.3 else part)


def resized(picture: np.ndarray, scale: float) -> np.ndarray:
    if scale < 1:
        picture = gaussian_filter(picture, (0.45 / scale, 0.45 / scale, 0))
    return np.clip(zoom(picture, (scale, scale, 1), order=3 if scale > 1 else 1), 0, 1)


def compressed(picture: np.ndarray, quality: int, subsampling: int) -> np.ndarray:
    """Written as JPEG and read again; as it is, but rounded, at quality 100."""
    rounded = np.uint8(np.rint(255 * np.clip(picture, 0, 1)))
    if quality < 100:
        file = io.BytesIO()
        Image.fromarray(rounded).save(file, format="JPEG", quality=quality, subsampling=subsampling)
        rounded = np.asarray(Image.open(file))
    return rounded.astype(np.float32) / 255


def shot(picture: np.ndarray, random: np.random.Generator) -> Shot:
    """What a camera drawn at random makes of a scene, with its noise and without."""
    gains = np.float32([random.uniform(1.2, 2.2), 1, random.uniform(1.2, 2.2)])
    light = np.clip(picture, 0, 1) ** GAMMA * random.uniform(0.35, 1.05) / gains
    quanta = float(np.exp(random.uniform(np.log(0.0003), np.log(0.012))))  # a
    reading = 0.03 * quanta**0.5 * float(np.exp(random.uniform(np.log(0.1), np.log(1.5))))  # b
    has_mosaic, tone, smaller = random.random() < 0.8, random.uniform(0, 0.7), random.random() < 0.25
    colours = random.choice([0, 0.8, 1.5, 3], p=[0.15, 0.3, 0.35, 0.2])
    brightness = random.choice([0, 0.4, 0.6, 0.8], p=[0.4, 0.2, 0.2, 0.2])
    sharper, evener = random.choice([0, 0.5, 1], p=[0.4, 0.4, 0.2]), 0.9 * random.random() * (random.random() < 0.4)
    first = int(random.integers(88, 100)), int(random.choice([0, 1, 2]))
    again = [(75, 2), (int(random.integers(72, 98)), int(random.choice([0, 2]))), (100, 0)]
    second, (top, left) = again[random.choice(3, p=[0.4, 0.35, 0.25])], random.integers(0, 8, 2)

    def developed(light: np.ndarray) -> np.ndarray:
        image = np.clip((demosaicked(light) if has_mosaic else light) * gains, 0, 1) ** (1 / GAMMA)
        image = (1 - tone) * image + tone * image**2 * (3 - 2 * image)
        parts = image @ LUMINANCE.T
        parts[..., 1:] = gaussian_filter(parts[..., 1:], (colours, colours, 0))
        y = gaussian_filter(parts[..., 0], brightness)
        around = gaussian_filter(y, 1.2)
        y = y + evener * (around - y) * np.exp(-(((around - y) / 0.03) ** 2))
        parts[..., 0] = y + sharper * (y - gaussian_filter(y, 1))
        image = parts @ np.linalg.inv(LUMINANCE).T.astype(np.float32)
        image = resized(image, 0.7) if smaller else image
        return compressed(compressed(image, *first)[top:, left:], *second)

    noise = np.sqrt(quanta * light + reading**2) * random.standard_normal(light.shape).astype(np.float32)
    return Shot(developed((light + noise).astype(np.float32)), developed(light.astype(np.float32)), second[0])


def demosaicked(light: np.ndarray) -> np.ndarray:
    """Of red, green and blue each pixel has one, by Bayer's pattern; means of neighbours fill in the rest."""
    seen = np.zeros(light.shape, np.float32)
    seen[::2, ::2, 0] = seen[::2, 1::2, 1] = seen[1::2, ::2, 1] = seen[1::2, 1::2, 2] = 1
    kernels = OTHERS, GREEN, OTHERS
    return np.stack([convolve(light[..., i] * seen[..., i], kernels[i], mode="mirror") for i in range(3)], axis=-1)


def plain_noise(picture: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """White noise of a level from 3 to 60, or counts of light, cut off and rounded to 8 bits."""
    if random.random() < 0.6:
        level = float(np.exp(random.uniform(np.log(3), np.log(60)))) / 255
        noisy = picture + level * random.standard_normal(picture.shape)
    else:
        counts = float(np.exp(random.uniform(np.log(20), np.log(1000))))
        noisy = random.poisson(picture * counts) / counts
    return compressed(noisy, 100, 0)


def drawing(random: np.random.Generator, side: int = 512) -> np.ndarray:
    """Rectangles, ellipses, lines and letters, as on a screen."""
    image = Image.new("RGB", (side, side), tuple(random.integers(0, 256, 3)))
    draw = ImageDraw.Draw(image)
    for _ in range(random.integers(3, 60)):
        (x, y), (width, height) = random.integers(0, side, 2), random.integers(5, 200, 2)
        box, colour = (x, y, x + width, y + height), tuple(int(value) for value in random.integers(0, 256, 3))
        kind = random.integers(4)
        if kind == 0:
            draw.rectangle(box, fill=colour)
        elif kind == 1:
            draw.ellipse(box, fill=colour)
        elif kind == 2:
            draw.line(box, fill=colour, width=int(random.integers(1, 6)))
        else:
            draw.text((x, y), "The quick brown fox jumps 0123456789", fill=colour)
    found = np.asarray(image, np.float32) / 255
    if random.random() < 0.4:
        found = 0.8 * found + 0.2 * np.linspace(0, 1, side, dtype=np.float32)[:, None, None]
    return gaussian_filter(found, (0.7, 0.7, 0)) if random.random() < 0.5 else found
