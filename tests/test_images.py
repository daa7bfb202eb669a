"""Pictures survive the disk bit for bit; what is wrong with a file is one line, and nothing is written."""

import io
import struct
import zlib

import jax
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms

from multigrade.pictures import deep_png, figure, files
from multigrade.pictures.figure import Panel, comparison_figure
from multigrade.pictures.files import Picture, add_blur, add_noise, load, save
from multigrade.pictures.free import LICENCES
from multigrade.pictures.metrics import psnr, ssim
from multigrade.pictures.operators import GaussianBlur

RNG = np.random.default_rng(4)
BLOCKS = np.kron(RNG.integers(0, 256, (5, 7, 3)), np.ones((8, 8, 1))).astype(np.uint8)


def random_samples(shape, depth):
    if depth == 32:
        return RNG.random(shape).astype(np.float32).astype(np.float64)
    return RNG.integers(0, 2**depth, shape) / (2**depth - 1)


def one_line(error):
    return "\n" not in str(error.value)


@pytest.mark.parametrize("has_alpha", [False, True], ids=["opaque", "alpha"])
@pytest.mark.parametrize("shape", [(13, 17), (13, 17, 3)], ids=["grey", "colour"])
@pytest.mark.parametrize(("suffix", "depth"), [(".png", 8), (".png", 16), (".tif", 8), (".tiff", 16), (".tif", 32)])
def test_lossless_formats_round_trip_bit_for_bit(tmp_path, suffix, depth, shape, has_alpha):
    alpha = random_samples(shape[:2], depth) if has_alpha else None
    written = Picture(random_samples(shape, depth), alpha, depth)
    path = tmp_path / f"picture{suffix}"
    save(path, written)
    read = load(path)
    np.testing.assert_array_equal(read.pixels, written.pixels)
    assert (read.depth, read.name, read.path) == (depth, path.name, path)
    if has_alpha:
        np.testing.assert_array_equal(read.alpha, alpha)
    else:
        assert read.alpha is None
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("suffix", "depth"), [(".png", 8), (".png", 16), (".jpg", 8), (".tif", 8), (".tif", 16), (".tif", 32)]
)
@pytest.mark.parametrize("space", ["sRGB", "LAB"])
def test_the_colour_profile_stays_where_it_fits(tmp_path, suffix, depth, space):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile(space)).tobytes()
    save(tmp_path / f"in{suffix}", Picture(BLOCKS / 255, None, depth, profile=profile))
    save(tmp_path / f"out{suffix}", load(tmp_path / f"in{suffix}"))
    assert profile in (tmp_path / f"in{suffix}").read_bytes() or suffix == ".png"  # where it is compressed
    assert load(tmp_path / f"out{suffix}").profile == (profile if space == "sRGB" else None)


@pytest.mark.parametrize(("suffix", "depth"), [(".jpg", 8), (".png", 8), (".png", 16)])
def test_exif_data_stay_and_say_upright(tmp_path, suffix, depth):
    exif = Image.Exif()
    exif[files.ORIENTATION], exif[0x0110] = 6, "a camera"
    save(tmp_path / f"in{suffix}", Picture(BLOCKS / 255, None, depth, exif=exif.tobytes()))
    picture = load(tmp_path / f"in{suffix}")
    assert picture.shape == BLOCKS.shape[1::-1]
    save(tmp_path / f"out{suffix}", picture)
    with Image.open(tmp_path / f"out{suffix}") as image:
        found = image.getexif()
    assert (found[files.ORIENTATION], found[0x0110]) == (1, "a camera")
    assert load(tmp_path / f"out{suffix}").shape == picture.shape


def test_linear_pictures_of_wide_range_keep_their_scale(tmp_path):
    wide = np.float32([[0.0, 0.5, 1, 2, 9], [3.0, 40.0, 1, 1, 7]])
    tifffile.imwrite(tmp_path / "in.tif", wide)
    picture = load(tmp_path / "in.tif")
    assert picture.pixels.max() == 1
    save(tmp_path / "out.tif", picture)
    np.testing.assert_allclose(tifffile.imread(tmp_path / "out.tif"), wide, rtol=1e-6)


def test_a_picture_that_nothing_was_done_to_is_its_file(tmp_path):
    save(tmp_path / "in.jpg", Picture(BLOCKS / 255))
    save(tmp_path / "out.jpg", load(tmp_path / "in.jpg"), unchanged=True)
    assert (tmp_path / "out.jpg").read_bytes() == (tmp_path / "in.jpg").read_bytes()


def test_jpeg_comes_back_near(tmp_path):
    smooth = add_blur(BLOCKS / 255, 3)
    save(tmp_path / "picture.jpg", Picture(smooth))
    assert psnr(load(tmp_path / "picture.jpg").pixels, smooth) > 40


@pytest.mark.parametrize("has_alpha", [False, True], ids=["opaque", "alpha"])
@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_pictures_of_16_bits_are_written_bit_for_bit(tmp_path, suffix, has_alpha):
    alpha = random_samples((13, 17), 16) if has_alpha else None
    picture = Picture(random_samples((13, 17, 3), 16), alpha, 16)
    path = tmp_path / f"picture{suffix}"
    save(path, picture)
    np.testing.assert_array_equal(load(path).pixels, picture.pixels)


def test_integer_formats_clip_and_round(tmp_path):
    save(tmp_path / "picture.png", Picture(np.array([[-0.3, 0.5], [1.4, 1.0]])))
    np.testing.assert_array_equal(load(tmp_path / "picture.png").pixels, np.array([[0, 128], [255, 255]]) / 255)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_alike_in_png_and_tiff(tmp_path, orientation):
    exif = Image.Exif()
    exif[274] = orientation
    for name in ("picture.png", "picture.tif"):
        Image.fromarray(BLOCKS).save(tmp_path / name, exif=exif)
    upright = load(tmp_path / "picture.png").pixels
    np.testing.assert_array_equal(load(tmp_path / "picture.tif").pixels, upright)
    assert upright.shape == (BLOCKS.shape if orientation < 5 else (56, 40, 3))
    if orientation == 6:  # stored turned to the left: a quarter turn to the right undoes it
        np.testing.assert_array_equal(upright, np.rot90(BLOCKS, -1) / 255)


def test_deep_colour_is_turned_upright_and_keeps_its_transparent_colour(tmp_path):
    samples = RNG.integers(0, 2**16, (6, 8, 3)).astype(np.uint16)
    exif = Image.Exif()
    exif[274] = 6
    write_deep(tmp_path / "in.png", samples, {b"tRNS": samples[2, 3].astype(">u2").tobytes(), b"eXIf": exif.tobytes()})
    read = load(tmp_path / "in.png")
    np.testing.assert_array_equal(read.pixels, np.rot90(samples, -1) / (2**16 - 1))
    hole = np.ones((6, 8))
    hole[2, 3] = 0
    np.testing.assert_array_equal(read.alpha, np.rot90(hole, -1))


@pytest.mark.parametrize("shape", [(13, 17), (1, 5), (5, 1), (3, 2)])
def test_interlaced_deep_colour_is_read(tmp_path, shape):
    samples = RNG.integers(0, 2**16, (*shape, 3)).astype(np.uint16)
    write_deep(tmp_path / "in.png", samples, {}, interlaced=True)
    np.testing.assert_array_equal(deep_png.read_deep_png(tmp_path / "in.png"), samples)


def write_deep(path, samples, chunks, interlaced=False):
    """An RGB PNG of 16 bits, written by the book: no filters, and pixels in the seven passes of Adam7 if asked for."""
    passes = [samples]
    if interlaced:  # the pass of each pixel in blocks of 8 x 8, from the specification's drawing
        drawing = ["16462646", "77777777", "56565656", "77777777", "36463646", "77777777", "56565656", "77777777"]
        number = np.array([[int(c) for c in line] for line in drawing])
        number = np.tile(number, (2, 3))[: samples.shape[0], : samples.shape[1]]
        passes = []
        for k in range(1, 8):
            rows, columns = np.flatnonzero((number == k).any(1)), np.flatnonzero((number == k).any(0))
            if len(rows):
                passes.append(samples[np.ix_(rows, columns)])
    data = b"".join(b"\0" + line.astype(">u2").tobytes() for part in passes for line in part)
    header = struct.pack(">IIBBBBB", samples.shape[1], samples.shape[0], 16, 2, 0, 0, int(interlaced))
    parts = [(b"IHDR", header), *chunks.items(), (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    framed = (struct.pack(">I", len(c)) + kind + c + struct.pack(">I", zlib.crc32(kind + c)) for kind, c in parts)
    path.write_bytes(deep_png.SIGNATURE + b"".join(framed))


def test_grey_of_16_bits_keeps_its_transparent_value(tmp_path):
    samples = np.arange(2**15, 2**15 + 12, dtype=np.uint16).reshape(3, 4)
    Image.fromarray(samples).save(tmp_path / "grey.png", transparency=2**15 + 5)
    np.testing.assert_array_equal(load(tmp_path / "grey.png").alpha, samples != 2**15 + 5)


def test_alpha_of_an_inverted_tiff_is_not_inverted(tmp_path):
    samples = RNG.integers(0, 256, (6, 8, 2)).astype(np.uint8)
    tifffile.imwrite(
        tmp_path / "in.tif", samples, photometric="miniswhite", extrasamples=["unassalpha"], planarconfig="contig"
    )
    read = load(tmp_path / "in.tif")
    np.testing.assert_array_equal(read.pixels, (255 - samples[..., 0]) / 255)
    np.testing.assert_array_equal(read.alpha, samples[..., 1] / 255)


@pytest.mark.parametrize("name", ["palette.png", "palette.tif"])
def test_palettes_are_converted(tmp_path, name):
    palette = Image.fromarray(BLOCKS).quantize(64)
    palette.save(tmp_path / name)
    np.testing.assert_array_equal(load(tmp_path / name).pixels, np.asarray(palette.convert("RGB")) / 255)


def test_lzw_and_black_and_white_and_cmyk_are_read(tmp_path):
    Image.fromarray(BLOCKS).save(tmp_path / "lzw.tif", compression="tiff_lzw")
    np.testing.assert_array_equal(load(tmp_path / "lzw.tif").pixels, BLOCKS / 255)
    for name, options in (("bits.png", {}), ("bits.tif", {"compression": "group4"})):
        Image.fromarray(BLOCKS[..., 0] > 99).save(tmp_path / name, **options)
        np.testing.assert_array_equal(load(tmp_path / name).pixels, BLOCKS[..., 0] > 99)
    deep = np.rint(65535 * random_samples((13, 17), 16)).astype(np.uint16)
    for compression in ("tiff_lzw", "packbits"):
        Image.fromarray(deep).save(tmp_path / "deep.tif", compression=compression)
        picture = load(tmp_path / "deep.tif")
        np.testing.assert_array_equal(picture.pixels, deep / 65535)
        assert picture.depth == 16
    Image.fromarray(BLOCKS).convert("CMYK").save(tmp_path / "cmyk.jpg")
    assert load(tmp_path / "cmyk.jpg").pixels.shape == BLOCKS.shape


def test_every_line_filter_of_deep_png_is_undone():
    height, width, size = 25, 11, 6
    raw = RNG.integers(0, 256, (height, width, size))
    padded = np.zeros((height + 1, width + 1, size), int)
    padded[1:, 1:] = raw
    left, above, corner = padded[1:, :-1], padded[:-1, 1:], padded[:-1, :-1]
    guess = left + above - corner
    near = [np.abs(guess - side) for side in (left, above, corner)]
    paeth = np.where((near[0] <= near[1]) & (near[0] <= near[2]), left, np.where(near[1] <= near[2], above, corner))
    kinds = np.arange(height) % 5
    guesses = np.stack([0 * left, left, above, (left + above) // 2, paeth])[kinds, np.arange(height)]
    filtered = ((raw - guesses) & 255).astype(np.uint8)
    np.testing.assert_array_equal(deep_png._unfilter(kinds.astype(np.uint8), filtered), raw)


def png_claiming(width, height, *, depth, colour_type, data=bytes(1000)):
    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    framed = [struct.pack(">I", len(c)) + kind + c + struct.pack(">I", zlib.crc32(kind + c)) for kind, c in parts]
    return deep_png.SIGNATURE + b"".join(framed)


def two_headers():
    """Pillow takes the last one, whose size would be checked, and others the first."""
    large, small = (png_claiming(side, side, depth=16, colour_type=2) for side in (60_000, 4))
    return large[: 8 + 25] + small[8:]


def encoded(samples, form):
    buffer = io.BytesIO()
    Image.fromarray(samples).save(buffer, format=form)
    return buffer.getvalue()


def tiff(samples, **options):
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, samples, **options)
    return buffer.getvalue()


def twelve_bits():
    """A TIFF that says of its 16 bits that they are 12, by changing the value of its BitsPerSample tag."""
    content = tiff(np.zeros((4, 4), np.uint16), byteorder="<")
    return content.replace(struct.pack("<HHIH", 258, 3, 1, 16), struct.pack("<HHIH", 258, 3, 1, 12))


def animated():
    buffer = io.BytesIO()
    frames = [Image.fromarray(np.full((4, 4), value, np.uint8)) for value in (0, 255)]
    frames[0].save(buffer, format="PNG", save_all=True, append_images=frames[1:])
    return buffer.getvalue()


def half(content):
    return content[: len(content) // 2]


BAD_FILES = {
    "text.png": (lambda: b"not an image", "not a PNG, JPEG or TIFF"),
    "text.tif": (lambda: b"not an image", "damaged or not an image"),
    "header_only.tif": (lambda: b"II*\0hello", "damaged or not an image"),
    "zero.png": (lambda: b"", "is empty"),
    "truncated.png": (lambda: half(encoded(BLOCKS, "PNG")), "damaged"),
    "truncated.jpg": (lambda: half(encoded(BLOCKS, "JPEG")), "damaged"),
    "truncated.tif": (lambda: half(encoded(BLOCKS, "TIFF")), "damaged"),
    "deep.png": (lambda: png_claiming(9, 9, depth=16, colour_type=2), "do not fill"),
    "overfull.png": (lambda: png_claiming(9, 9, depth=16, colour_type=2, data=bytes(10**6)), "do not fill"),
    "one.png": (lambda: encoded(np.zeros((1, 1), np.uint8), "PNG"), "at least 2 x 2"),
    "line.png": (lambda: encoded(np.zeros((9, 1), np.uint8), "PNG"), "at least 2 x 2"),
    "nan.tif": (lambda: tiff(np.full((4, 4), np.nan, np.float32)), "not finite"),
    "negative.tif": (lambda: tiff(np.full((4, 4), -200, np.float32)), "black must be 0"),
    "headers.png": (two_headers, "only header"),
    "thin.png": (lambda: png_claiming(100_000, 2, depth=16, colour_type=2), "more than 65,535 pixels on a side"),
    "signed.tif": (lambda: tiff(np.ones((4, 4), np.int32)), "int32"),
    "frames.png": (animated, "it is animated"),
    "premultiplied.tif": (
        lambda: tiff(np.zeros((4, 4, 4), np.uint8), photometric="rgb", extrasamples=["assocalpha"]),
        "premultiplied",
    ),
    "bits.tif": (twelve_bits, "12 bits is not read"),
    "pages.tif": (lambda: tiff(np.zeros((3, 4, 4), np.uint8), photometric="minisblack"), "3 pages"),
    "bomb.png": (lambda: png_claiming(100_000, 100_000, depth=8, colour_type=0), "are claimed"),
    "deep_bomb.png": (lambda: png_claiming(100_000, 100_000, depth=16, colour_type=2), "are claimed"),
    "small_bomb.png": (lambda: png_claiming(12_000, 10_000, depth=8, colour_type=0), "12000 x 10000"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_file_is_refused_in_one_line(tmp_path, name, capfd):
    make, message = BAD_FILES[name]
    (tmp_path / name).write_bytes(make())
    with pytest.raises(ValueError, match=message) as error:
        load(tmp_path / name)
    assert one_line(error)
    assert name in str(error.value)
    assert capfd.readouterr() == ("", "")


def test_missing_file_and_unknown_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        load(tmp_path / "nowhere.png")
    with pytest.raises(ValueError, match=r"no free picture :nowhere; there are .*:camera.*:chart") as error:
        load(":nowhere")
    assert one_line(error)


GREY = Picture(np.full((4, 4), 0.5))


@pytest.mark.parametrize(
    ("name", "picture", "message"),
    [
        ("picture.gif", GREY, "must end in"),
        ("picture", GREY, "must end in"),
        ("missing/picture.png", GREY, "does not exist"),
        ("picture.jpg", Picture(GREY.pixels, GREY.pixels), "alpha"),
        ("picture.png", Picture(np.full((4, 4), np.nan)), "not finite"),
    ],
)
def test_impossible_output_is_refused_and_nothing_written(tmp_path, name, picture, message):
    with pytest.raises(ValueError, match=message) as error:
        save(tmp_path / name, picture)
    assert one_line(error)
    assert not list(tmp_path.iterdir())


def test_output_is_never_the_input(tmp_path):
    path = tmp_path / "picture.png"
    save(path, GREY)
    before = path.read_bytes()
    (tmp_path / "alias.png").symlink_to(path)
    for output in (path, tmp_path / "alias.png"):
        with pytest.raises(ValueError, match="is the input"):
            save(output, load(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError])
def test_interrupted_write_leaves_the_old_file_alone(tmp_path, monkeypatch, interruption):
    path = tmp_path / "picture.png"
    save(path, GREY)
    before = path.read_bytes()

    def half_written(temporary, *args, **kwargs):
        temporary.write_bytes(b"half")
        raise interruption

    monkeypatch.setattr(files, "_write", half_written)
    with pytest.raises(interruption):
        save(path, GREY)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", sorted(LICENCES))
def test_free_pictures_need_no_file_and_lie_in_the_unit_interval(name):
    picture = load(f":{name}")
    assert picture.pixels.ndim == (3 if picture.is_colour else 2)
    assert 0 <= picture.pixels.min() < picture.pixels.max() <= 1
    assert any(word in LICENCES[name] for word in ("CC0", "public domain"))


def test_added_noise_has_its_level_and_is_not_clipped():
    noisy = add_noise(np.ones((300, 300)), 25, seed=1)
    assert 255 * noisy.std() == pytest.approx(25, rel=0.01)
    assert noisy.max() > 1
    np.testing.assert_array_equal(noisy, add_noise(np.ones((300, 300)), 25, seed=1))


def test_added_blur_is_the_operator_on_every_channel():
    image = RNG.random((20, 23, 3))
    with jax.enable_x64(True):
        expected = np.stack([np.asarray(GaussianBlur(2.0)(image[..., k])) for k in range(3)], axis=-1)
    np.testing.assert_allclose(add_blur(image, 2.0), expected, atol=1e-13)


@pytest.mark.parametrize("sigma", [-1.0, float("nan"), float("inf")])
def test_impossible_degradations_are_refused(sigma):
    with pytest.raises(ValueError, match="sigma"):
        add_noise(GREY.pixels, sigma, seed=0)
    with pytest.raises(ValueError, match="sigma"):
        add_blur(GREY.pixels, sigma)


def test_psnr_and_ssim_of_known_cases():
    image = RNG.random((12, 15, 2))
    assert psnr(image, image) == float("inf")
    assert psnr(image + 0.1, image) == pytest.approx(20)
    assert ssim(image, image) == pytest.approx(1)
    assert np.isnan(ssim(image[:, :3], image[:, :3]))
    other = RNG.random((12, 15, 2))
    channels = [ssim(image[..., k], other[..., k]) for k in (0, 1)]
    assert ssim(image, other) == pytest.approx(np.mean(channels))  # not of windows that reach across channels
    white = np.full((8, 8), 255, np.uint8)
    assert psnr(white, np.zeros((8, 8))) == pytest.approx(0)


def test_figure_is_written_whole_or_not_at_all(tmp_path):
    reference = RNG.random((20, 30, 3))
    panels = [Panel("input", add_noise(reference, 20, seed=0)), Panel("result", reference + 0.01)]
    comparison_figure(panels, tmp_path / "figure.png", reference=reference)
    assert load(tmp_path / "figure.png").is_colour
    with pytest.raises(ValueError, match="must end in"):
        comparison_figure(panels, tmp_path / "figure.gif")
    assert [p.name for p in tmp_path.iterdir()] == ["figure.png"]


def test_nothing_of_a_figure_of_one_row_is_cut_off(tmp_path):
    reference = RNG.random((20, 30))
    comparison_figure([Panel("result", reference + 0.1)], tmp_path / "figure.png", reference=reference)
    drawn = load(tmp_path / "figure.png").pixels
    for border in (drawn[0], drawn[-1], drawn[:, 0], drawn[:, -1]):
        np.testing.assert_array_equal(border, 1)


def test_a_panel_that_is_the_reference_has_no_psnr():
    image = RNG.random((4, 4))
    assert figure._title(Panel("input", image), image) == "input"
    assert figure._title(Panel("input", image + 0.1), image) == "input\n20.00 dB"


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_the_grey_that_stands_for_nothing_is_transparent_at_every_depth(tmp_path, depth):
    samples = np.arange(64).reshape(8, 8) % 2**depth
    bits = np.unpackbits(samples.astype(np.uint8)[..., None], axis=2)[..., -depth:].reshape(8, -1)
    lines = b"".join(b"\0" + np.packbits(line).tobytes() for line in bits)
    header = struct.pack(">IIBBBBB", 8, 8, depth, 0, 0, 0, 0)
    parts = [(b"IHDR", header), (b"tRNS", struct.pack(">H", 1)), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    framed = (struct.pack(">I", len(c)) + kind + c + struct.pack(">I", zlib.crc32(kind + c)) for kind, c in parts)
    (tmp_path / "grey.png").write_bytes(deep_png.SIGNATURE + b"".join(framed))
    picture = load(tmp_path / "grey.png")
    np.testing.assert_allclose(picture.pixels, samples / (2**depth - 1), atol=0.51 / 255)
    np.testing.assert_array_equal(picture.alpha, samples != 1)
