"""Pictures in files: read, degraded for trying out, written back in their own format and depth.

``load`` reads PNG, JPEG and TIFF files, 8 or 16 bits or floating point, grey or colour, or one of the free pictures by
name (``load(":camera")``); ``save`` writes them atomically. Pixels are float64 on the unit scale, upright (the EXIF
orientation is applied), and the alpha channel is kept apart: restoration never touches it, ``save`` puts it back, and
the colour profile and the EXIF data with it, which TIFF files do without. Floating-point pictures may be brighter than
1, as linear ones of wide range are: they are divided by their brightest value, and multiplied by it when written.
Whatever is wrong with a file is one line of ``ValueError``.

    picture = load("photo.png")
    result = restore.denoise(picture.pixels)
    save("restored.png", dataclasses.replace(picture, pixels=result.image))
"""

import dataclasses
import logging
import os
import struct
import threading
import warnings
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.ndimage
import tifffile
from PIL import Image, ImageOps, UnidentifiedImageError

from ..files import atomic_path, check_place
from .deep_png import is_deep_png, read_deep_png, write_deep_png
from .free import draw_picture

logging.getLogger("PIL").addHandler(logging.NullHandler())  # what is wrong with a file is told once, by ``load``
FORMATS = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".tif": "tiff", ".tiff": "tiff"}
MAX_PIXELS = 100_000_000  # our choice: larger claims are taken for a decompression bomb
# What Pillow, tifffile and zlib raise on damaged files, besides the plain OSError.
_DAMAGE = (
    OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, KeyError, IndexError, TypeError,
    AttributeError, ArithmeticError, RuntimeError, Image.DecompressionBombError,
)  # fmt: skip
ORIENTATION = 0x0112  # the EXIF tag
# Rotations and flips that undo EXIF orientations 1 to 8, as functions of (h, w, ...) arrays.
_UPRIGHT = {
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: a.swapaxes(0, 1)[:, ::-1],
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: a.swapaxes(0, 1)[::-1],
}


@dataclasses.dataclass(frozen=True, eq=False)
class Picture:
    """One picture: intensities, and what is needed to write it back as it came.

    Parameters
    ----------
    pixels : float64, (h, w) grey or (h, w, 3) colour, from 0 to 1; not clipped after degradation
    alpha : float64, (h, w), from 0 to 1, or None without an alpha channel
    depth : bits per channel: 8, 16, or 32 for floating point
    name : of the file or free picture, for titles and tables
    path : the file it was read from, or None
    profile : ICC colour profile, or None
    exif : EXIF data, upright, or None
    white : what 1 stands for in a floating-point file
    """

    pixels: np.ndarray
    alpha: np.ndarray | None = None
    depth: int = 8
    name: str = ""
    path: Path | None = None
    profile: bytes | None = None
    exif: bytes | None = None
    white: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.pixels.shape[:2]

    @property
    def is_colour(self) -> bool:
        """Whether there are three channels."""
        return self.pixels.ndim == 3


def load(source: str | os.PathLike) -> Picture:
    """The picture in a file, or the free picture ``:name`` (see ``pictures.LICENCES``).

    Parameters
    ----------
    source : a path, or a name such as ``:camera``

    Returns
    -------
    Picture
        Its pixels on the unit scale, and what is needed to write it as it came.
    """
    if isinstance(source, str) and source.startswith(":"):
        return Picture(_unit_scale(draw_picture(source[1:])), name=source)
    path = Path(source)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty")
    try:
        samples, profile, exif = _read(path)
    except _Refused as error:
        raise ValueError(f"{path}: {error}") from None
    except UnidentifiedImageError:
        raise ValueError(f"{path} is not a PNG, JPEG or TIFF image") from None
    except _DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} is damaged or not an image ({reason})") from None
    return dataclasses.replace(_picture(path, samples, profile), exif=exif)


def save(path: str | os.PathLike, picture: Picture, *, unchanged: bool = False) -> None:
    """Write a picture in the format that the extension names and, where the format can, in the picture's own depth.

    Integer formats clip to [0, 1] and round; PNG takes 16 bits from floating point; JPEG always has 8 bits (quality
    95) and refuses an alpha channel. Nothing appears at ``path`` unless everything went well.

    Parameters
    ----------
    path : where to; the extension is the format
    picture : what to write
    unchanged : whether it is what was read: the file is copied then, where the format is the same

    Returns
    -------
    None
        The file is there, whole.
    """
    path = check_output(path, picture)
    form = FORMATS[path.suffix.lower()]
    if unchanged and picture.path is not None and FORMATS.get(picture.path.suffix.lower()) == form:
        with atomic_path(path) as temporary:
            temporary.write_bytes(picture.path.read_bytes())
        return
    if not np.isfinite(picture.pixels).all():
        raise ValueError(f"the picture for {path} has pixels that are not finite; nothing was written")
    depth = {"jpeg": 8, "png": min(picture.depth, 16), "tiff": picture.depth}[form]
    samples = picture.pixels * picture.white if depth == 32 else picture.pixels
    if picture.alpha is not None:
        samples = np.concatenate([np.atleast_3d(samples), picture.alpha[..., None]], axis=-1)
    if depth == 32:
        quantised = samples.astype(np.float32)
    else:
        quantised = np.rint(np.clip(samples, 0, 1) * (2**depth - 1)).astype(np.uint8 if depth == 8 else np.uint16)
    with atomic_path(path) as temporary:
        _write(temporary, form, quantised, picture)


def check_output(path: str | os.PathLike, picture: Picture) -> Path:
    """The path to write a picture to, or ValueError: unknown extension, missing folder, a format that cannot hold the
    picture, or the very file that it was read from.

    Parameters
    ----------
    path : where a picture is to be written
    picture : what is to be written

    Returns
    -------
    Path
        The same path.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"the output must end in {', '.join(FORMATS)}; got {path.name!r}")
    check_place(path)
    if FORMATS[path.suffix.lower()] == "jpeg" and picture.alpha is not None:
        raise ValueError(f"JPEG cannot hold the alpha channel for {path}; write a PNG or TIFF file")
    if picture.path is not None and path.exists() and path.samefile(picture.path):
        raise ValueError(f"the output {path} is the input; give it another name")
    return path


def add_noise(image: np.ndarray, sigma: float, *, seed: int) -> np.ndarray:
    """image + Gaussian noise of standard deviation ``sigma`` on the 0..255 scale; not clipped (Section 4).

    Parameters
    ----------
    image : (h, w) or (h, w, channels) on the unit scale
    sigma : standard deviation, on the 0..255 scale
    seed : of the noise

    Returns
    -------
    array
        Like ``image``, in float64.
    """
    if not 0 <= sigma < np.inf:
        raise ValueError(f"the noise's sigma must be at least 0 on the 0..255 scale; got {sigma!r}")
    image = np.asarray(image, np.float64)
    return image + sigma / 255 * np.random.default_rng(seed).standard_normal(image.shape)


def add_blur(image: np.ndarray, sigma: float) -> np.ndarray:
    """``GaussianBlur(sigma)`` of an image (h, w) or (h, w, 3), in float64.

    Parameters
    ----------
    image : (h, w) or (h, w, 3) on the unit scale
    sigma : standard deviation of the blur, in pixels

    Returns
    -------
    array
        Like ``image``, in float64.
    """
    if not 0 <= sigma < np.inf:
        raise ValueError(f"the blur's sigma must be at least 0 pixels; got {sigma!r}")
    return scipy.ndimage.gaussian_filter(
        np.asarray(image, np.float64), sigma, mode="reflect", truncate=3.0, axes=(0, 1)
    )


class _Refused(ValueError):
    """A sound file that we decline, with the reason."""


def _read(path: Path) -> tuple[np.ndarray, bytes | None, bytes | None]:
    """Samples as stored, uint8, uint16 or floating point, (h, w) or (h, w, 2 | 3 | 4), upright; the colour profile;
    the EXIF data."""
    with warnings.catch_warnings(), _silent(logging.getLogger("tifffile")):
        # Sizes are checked here and damage raises; what the readers warn of and log besides concerns metadata.
        warnings.simplefilter("ignore")
        try:
            with Image.open(path, formats=["PNG", "JPEG", "TIFF"]) as image:
                _check_size(image.size[::-1])
                if image.format == "TIFF":
                    return *_read_tiff(path, image), None
                if image.format == "PNG" and getattr(image, "n_frames", 1) > 1:
                    raise _Refused("it is animated; give a picture that stands still")
                samples = _read_deep(path, image) if is_deep_png(path) else _read_pillow(image)
                return samples, image.info.get("icc_profile"), _upright_exif(image)
        except Image.DecompressionBombError:
            raise _Refused(f"more than {MAX_PIXELS:,} pixels are claimed; not decoded") from None
        except UnidentifiedImageError:
            # tifffile knows layouts that Pillow does not, floating-point colour among them.
            if path.suffix.lower() in (".tif", ".tiff"):
                return *_read_tiff(path, None), None
            raise


def _upright_exif(image: Image.Image) -> bytes | None:
    """The EXIF data of a picture that is upright by now; None without any, or where they are damaged."""
    try:
        exif = image.getexif()
        if ORIENTATION in exif:
            exif[ORIENTATION] = 1
        return exif.tobytes() if exif else None
    except _DAMAGE:
        return None


class _StandardError:
    """libtiff tells of damage on descriptor 2, past Python; the ValueError that follows is what a user is told. Other
    threads write nowhere for as long, so it is only entered where libtiff decodes."""

    lock = threading.Lock()

    def __enter__(self):
        self.lock.acquire()
        self.kept = os.dup(2)
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)

    def __exit__(self, *error):
        os.dup2(self.kept, 2)
        os.close(self.kept)
        self.lock.release()


_no_lines_of_libtiff = _StandardError()


@contextmanager
def _silent(logger: logging.Logger):
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was_disabled


def _check_size(shape: tuple[int, int]) -> None:
    height, width = shape
    if height * width > MAX_PIXELS:
        raise _Refused(f"{width} x {height} pixels are claimed, more than {MAX_PIXELS:,}; not decoded")
    if min(height, width) < 2:
        raise _Refused(f"the image must have at least 2 x 2 pixels; it has {width} x {height}")


def _read_pillow(image: Image.Image) -> np.ndarray:
    has_alpha = "transparency" in image.info or image.mode in ("LA", "La", "PA", "RGBA", "RGBa")
    if image.mode.startswith("I"):
        samples = np.asarray(ImageOps.exif_transpose(image)).astype(np.uint16)
        if "transparency" not in image.info:
            return samples
        return np.stack([samples, np.uint16(2**16 - 1) * (samples != image.info["transparency"])], axis=2)
    if image.mode == "L" and "transparency" in image.info and (white := _grey_levels(image)) < 255:
        # Of 2 and 4 bits Pillow scales the pixels to 8 bits, but not the grey that stands for "nothing here".
        image.info["transparency"] = image.info["transparency"] * 255 // white
    is_grey = image.mode in ("1", "L", "LA", "La")
    mode = ("LA" if has_alpha else "L") if is_grey else ("RGBA" if has_alpha else "RGB")
    return np.asarray(ImageOps.exif_transpose(image).convert(mode))


def _grey_levels(image: Image.Image) -> int:
    """The largest grey of a file that Pillow has opened, before it scales: 3 and 15 for 2 and 4 bits."""
    modes = [str(tile[3]) for tile in getattr(image, "tile", ())]
    return {"L;2": 3, "L;4": 15}.get(modes[0] if modes else "", 255)


def _read_deep(path: Path, image: Image.Image) -> np.ndarray:
    samples = read_deep_png(path)
    if "transparency" in image.info:  # one colour stands for "nothing here"
        is_there = (samples != np.asarray(image.info["transparency"], np.uint16)).any(axis=2, keepdims=True)
        samples = np.concatenate([samples, np.uint16(2**16 - 1) * is_there], axis=2)
    return _UPRIGHT.get(image.getexif().get(ORIENTATION, 1), lambda a: a)(samples)


def _read_tiff(path: Path, image: Image.Image | None) -> tuple[np.ndarray, bytes | None]:
    """tifffile for what is stored plainly or deflated; Pillow for palettes, LZW and so on, but deep colour."""
    with tifffile.TiffFile(path) as file:
        page: Any = file.pages[0]
        if len(file.pages) > 1:
            raise _Refused(f"it has {len(file.pages)} pages; give a file with one")
        _check_size((page.imagelength, page.imagewidth))
        profile = page.tags["InterColorProfile"].value if "InterColorProfile" in page.tags else None
        if tifffile.EXTRASAMPLE.ASSOCALPHA in page.extrasamples:
            raise _Refused("its colours are premultiplied by alpha; save it with straight (unassociated) alpha")
        is_plain = page.compression in _PLAIN and page.photometric != tifffile.PHOTOMETRIC.PALETTE
        if is_plain and page.bitspersample in (1, 8, 16, 32, 64):
            return _upright_tiff(page), profile
        is_plain_grey = page.photometric == tifffile.PHOTOMETRIC.MINISBLACK and not page.extrasamples
        if image is not None and (page.bitspersample in (1, 8) or (page.bitspersample == 16 and is_plain_grey)):
            with _no_lines_of_libtiff:
                return _read_pillow(image), profile
        layout = f"{page.compression.name} compression, {page.photometric.name} colours, {page.bitspersample} bits"
        raise _Refused(f"TIFF with {layout} is not read")


_PLAIN = (tifffile.COMPRESSION.NONE, tifffile.COMPRESSION.ADOBE_DEFLATE, tifffile.COMPRESSION.DEFLATE)


def _upright_tiff(page) -> np.ndarray:
    samples, photometric = page.asarray(), page.photometric
    if page.axes == "SYX":
        samples = np.moveaxis(samples, 0, -1)
    elif page.axes not in ("YX", "YXS"):
        raise _Refused(f"the TIFF layout {page.axes} is not an image of pixels and channels")
    if photometric == tifffile.PHOTOMETRIC.MINISWHITE and samples.dtype.kind in "bu":
        inverted = ~samples
        if page.extrasamples:  # alpha is not
            inverted[..., -1] = samples[..., -1]
        samples = inverted
    elif photometric not in (tifffile.PHOTOMETRIC.MINISBLACK, tifffile.PHOTOMETRIC.RGB):
        raise _Refused(f"TIFF with {photometric.name} colours is not read")
    orientation = page.tags["Orientation"].value if "Orientation" in page.tags else 1
    return _UPRIGHT.get(int(orientation), lambda a: a)(samples)


def _picture(path: Path, samples: np.ndarray, profile: bytes | None) -> Picture:
    if samples.ndim not in (2, 3):
        raise ValueError(f"{path} must hold one picture of rows and columns; got shape {samples.shape}")
    channels = 1 if samples.ndim == 2 else samples.shape[2]
    if channels > 4:
        raise ValueError(f"{path} has {channels} channels; only grey and colour, with or without alpha, are read")
    depth = {"b1": 8, "u1": 8, "u2": 16, "f2": 32, "f4": 32, "f8": 32}.get(samples.dtype.str[1:])
    if depth is None:
        raise ValueError(f"{path} has {samples.dtype} pixels; only 8 and 16 bits and floating point are read")
    unit = _unit_scale(samples)
    if not np.isfinite(unit).all():
        raise ValueError(f"{path} has pixels that are not finite (NaN or infinity)")
    unit, white = np.atleast_3d(unit), 1.0
    colours = unit[..., :-1] if channels in (2, 4) else unit
    if colours.max() > 2:
        white = float(colours.max())
        colours /= white
    if colours.min() < -1:
        raise ValueError(f"{path} has pixels as low as {colours.min() * white:g}, and its brightest is {white:g}; black"
                         " must be 0")  # fmt: skip
    alpha = unit[..., -1] if channels in (2, 4) else None
    pixels = unit[..., 0] if channels < 3 else unit[..., :3]
    if profile is not None and profile[16:20] != (b"GRAY" if channels < 3 else b"RGB "):
        profile = None  # that of a CMYK file, say, which was converted
    return Picture(np.ascontiguousarray(pixels), alpha, depth, path.name, path, profile, white=white)


def _unit_scale(samples: np.ndarray) -> np.ndarray:
    """float64 with 1 for the largest integer of the type; floating point stays."""
    white = {"b": 1, "u": np.iinfo(samples.dtype).max if samples.dtype.kind == "u" else 1, "f": 1}
    with np.errstate(invalid="ignore"):  # NaN of the signalling kind, which is refused like any other
        return samples.astype(np.float64) / white[samples.dtype.kind]


def _write(path: Path, form: str, samples: np.ndarray, picture: Picture) -> None:
    profile, exif = picture.profile, {} if picture.exif is None else {"exif": picture.exif}
    if form == "tiff":
        channels = 1 if samples.ndim == 2 else samples.shape[2]
        extra: dict[str, Any] = {"extrasamples": ["unassalpha"]} if picture.alpha is not None else {}
        extra |= {"compression": "zlib", "metadata": None, "iccprofile": profile}
        photometric = "rgb" if channels >= 3 else "minisblack"
        planar = {"planarconfig": "contig"} if channels > 1 else {}
        tifffile.imwrite(path, samples, photometric=photometric, **extra, **planar)
    elif form == "png" and samples.dtype == np.uint16 and samples.ndim == 3:
        write_deep_png(path, samples, profile, picture.exif)
    elif form == "png":
        Image.fromarray(samples).save(path, format="PNG", icc_profile=profile, **exif)
    else:
        Image.fromarray(samples).save(path, format="JPEG", quality=95, subsampling=0, icc_profile=profile, **exif)
