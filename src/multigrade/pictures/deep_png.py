"""PNG files with 16 bits per channel and more than one channel, which Pillow reduces to 8 bits.

Reads what the PNG specification calls colour types 2, 4 and 6 at depth 16, and writes them, not interlaced.
"""

import struct
import zlib
from pathlib import Path

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {2: 3, 4: 2, 6: 4}  # colour type: RGB, grey + alpha, RGBA
MOST_SIDE = 65_535  # pixels, as in JPEG: each takes a step in Python
_WHOLE = ((0, 0, 1, 1),)
# Interlaced images come in seven parts (section 8.2): first column and row, steps across and down.
_ADAM7 = (
    (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2),
)  # fmt: skip
_COLOUR_TYPES = {channels: colour_type for colour_type, channels in _CHANNELS.items()}


def is_deep_png(path: Path) -> bool:
    """Whether the header says PNG, 16 bits, several channels."""
    with open(path, "rb") as file:
        head = file.read(26)
    return len(head) == 26 and head.startswith(SIGNATURE) and head[24] == 16 and head[25] in _CHANNELS


def read_deep_png(path: Path) -> np.ndarray:
    """Samples (h, w, channels), uint16. Assumes ``is_deep_png`` and a size that was found acceptable."""
    chunks = _chunks(path.read_bytes())
    if [kind for kind, _ in chunks].count(b"IHDR") != 1 or chunks[0][0] != b"IHDR":
        raise ValueError("it must begin with its only header")
    width, height, _, colour_type, _, _, interlace = struct.unpack(">IIBBBBB", chunks[0][1])
    if max(width, height) > MOST_SIDE:
        raise ValueError(f"it has more than {MOST_SIDE:,} pixels on a side, at 16 bits")
    bytes_per_pixel = 2 * _CHANNELS[colour_type]
    samples = np.zeros((height, width, bytes_per_pixel), np.uint8)
    places = [np.s_[top::down, left::across] for left, top, across, down in (_ADAM7 if interlace else _WHOLE)]
    parts = [samples[place] for place in places if samples[place].size]  # views; a small image lacks some
    ends = np.cumsum([part.shape[0] * (1 + part.shape[1] * bytes_per_pixel) for part in parts])
    packed = b"".join(content for kind, content in chunks if kind == b"IDAT")
    unpacker = zlib.decompressobj()  # never makes more than the image holds, and one byte to tell
    data = np.frombuffer(unpacker.decompress(packed, int(ends[-1]) + 1), np.uint8)
    if len(data) != ends[-1] or not unpacker.eof:
        raise ValueError("the pixel data do not fill the image")
    for part, lines in zip(parts, np.split(data, ends[:-1]), strict=True):
        lines = lines.reshape(len(part), -1)
        part[:] = _unfilter(lines[:, 0], lines[:, 1:].reshape(part.shape))
    return samples.view(">u2").astype(np.uint16)


def write_deep_png(path: Path, samples: np.ndarray, profile: bytes | None = None, exif: bytes | None = None) -> None:
    """Write (h, w, 2 | 3 | 4) samples, uint16, and their ICC colour profile and EXIF data if there are any."""
    height, width, channels = samples.shape
    raw = np.ascontiguousarray(samples, ">u2").view(np.uint8).reshape(height, -1)
    up = np.diff(raw, axis=0, prepend=np.zeros((1, raw.shape[1]), np.uint8))  # filter 2, wraps modulo 256
    lines = np.concatenate([np.full((height, 1), 2, np.uint8), up], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 16, _COLOUR_TYPES[channels], 0, 0, 0)
    colours = [] if profile is None else [(b"iCCP", b"ICC\0\0" + zlib.compress(profile))]
    about = [] if exif is None else [(b"eXIf", exif.removeprefix(b"Exif\0\0"))]
    parts = [(b"IHDR", header), *colours, *about, (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b"")]
    framed = (struct.pack(">I", len(c)) + kind + c + struct.pack(">I", zlib.crc32(kind + c)) for kind, c in parts)
    path.write_bytes(SIGNATURE + b"".join(framed))


def _chunks(content: bytes) -> list[tuple[bytes, bytes]]:
    """(kind, content) of every chunk up to IEND, with checked sums."""
    chunks, at = [], len(SIGNATURE)
    while not chunks or chunks[-1][0] != b"IEND":
        if len(content) < at + 12:
            raise ValueError("the file ends before its IEND chunk")
        (length,) = struct.unpack_from(">I", content, at)
        body = content[at + 4 : at + 8 + length]
        if content[at + 8 + length : at + 12 + length] != struct.pack(">I", zlib.crc32(body)):
            raise ValueError("a chunk is cut short or its checksum does not match")
        chunks.append((body[:4], body[4:]))
        at += 12 + length
    return chunks


def _unfilter(kinds: np.ndarray, filtered: np.ndarray) -> np.ndarray:
    """Undo the line filters of the PNG specification (section 9) on bytes (h, w, bytes per pixel).

    A byte needs its neighbours to the left, above and above left; so all pixels of one anti-diagonal can be done at
    once: h + w vector steps instead of a loop over bytes.
    """
    height, width, _ = filtered.shape
    if kinds.max(initial=0) > 4:
        raise ValueError("unknown line filter")
    out = np.zeros((height + 1, width + 1, filtered.shape[2]), np.int16)  # a zero row above and column to the left
    for diagonal in range(height + width - 1):
        rows = np.arange(max(0, diagonal - width + 1), min(height, diagonal + 1))
        columns = diagonal - rows
        left, above, corner = out[rows + 1, columns], out[rows, columns + 1], out[rows, columns]
        distances = np.abs(np.stack([above - corner, left - corner, left + above - 2 * corner]))
        nearest = distances.argmin(axis=0)  # the first of equals, as the specification orders them
        paeth = np.choose(nearest, [left, above, corner])
        guesses = [np.zeros_like(left), left, above, (left + above) // 2, paeth]
        guess = np.choose(kinds[rows][:, None], guesses)
        out[rows + 1, columns + 1] = (filtered[rows, columns] + guess) & 255
    return np.ascontiguousarray(out[1:, 1:].astype(np.uint8))
