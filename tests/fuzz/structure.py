"""Changes that keep a file sound: chunks with their CRC, directories with their offsets, headers with their lengths.

Most of what comes out is a valid file that nobody would write: readers accept it, and must then read the same as a
second time, after it was written again. The rest claims, soundly, what cannot be.
"""

import csv
import io
import struct
import zipfile
import zlib

import numpy as np

PNG = b"\x89PNG\r\n\x1a\n"
ODD = (0, 1, 2, 3, 4, 7, 8, 16, 255, 256, 65535, 2**31 - 1, 2**32 - 1)


def mutated_png(content: bytes, rng: np.random.Generator) -> bytes:
    """Other pixels, filters and chunks; or another header, or chunks that are missing, doubled or in another order."""
    chunks = list(_chunks(content))
    width, height, depth, colour = struct.unpack(">IIBB", chunks[0][1][:10])
    at = next(i for i, (kind, _) in enumerate(chunks) if kind == b"IDAT")
    raw = bytearray(zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT")))
    row = len(raw) // height
    match rng.integers(0, 10):
        case 0 | 1 | 2:  # other pixels, in several pieces
            start = int(rng.integers(0, height)) * row + 1
            raw[start : start + row - 1] = rng.bytes(row - 1) if colour != 3 else bytes(row - 1)
            packed = zlib.compress(bytes(raw), int(rng.integers(0, 10)))
            cut = int(rng.integers(0, len(packed) + 1))
            chunks = [c for c in chunks if c[0] != b"IDAT"]
            chunks[at:at] = [(b"IDAT", packed[:cut]), (b"IDAT", packed[cut:])]
        case 3:  # other filters
            for line in range(height):
                raw[line * row] = rng.integers(0, 5)
            chunks = [c for c in chunks if c[0] != b"IDAT"]
            chunks.insert(at, (b"IDAT", zlib.compress(bytes(raw))))
        case 4 | 5 | 6:  # chunks that tell something else
            said = {
                b"tEXt": b"Comment\0\x1b]0;PWNED\x07", b"gAMA": struct.pack(">I", int(rng.choice(ODD))),
                b"pHYs": struct.pack(">IIB", *rng.choice(ODD[:9], 2), 1), b"tIME": bytes(7), b"sRGB": b"\0",
                b"eXIf": b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0" + bytes([rng.integers(0, 10), *[0] * 7]),
                b"bKGD": bytes([0, 1] * (3 if colour & 2 else 1)), b"zzZz": rng.bytes(9),
            }  # fmt: skip
            kind = list(said)[int(rng.integers(0, len(said)))]
            chunks.insert(1, (kind, said[kind]))
        case 7:  # another header
            header = [width, height, depth, colour, 0, 0, int(rng.integers(0, 2))]
            header[int(rng.integers(0, 4))] = int(rng.choice(ODD))
            chunks[0] = (b"IHDR", struct.pack(">IIBBBBB", header[0], header[1], *(min(v, 255) for v in header[2:])))
        case 8:  # a second header, or another chunk twice
            chunks.insert(
                at, (b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)) if rng.random() < 0.5 else chunks[at]
            )
        case _:
            chunks.pop(int(rng.integers(0, len(chunks))))
    return PNG + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunks(content: bytes):
    place = len(PNG)
    while place < len(content):
        (length,) = struct.unpack_from(">I", content, place)
        yield content[place + 4 : place + 8], content[place + 8 : place + 8 + length]
        place += 12 + length


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def mutated_jpeg(content: bytes, rng: np.random.Generator) -> bytes:
    """A segment more, of a sound length; or other numbers in a table of quantisation."""
    if rng.random() < 0.7:
        data = rng.bytes(int(rng.integers(0, 60)))
        marker = bytes([0xFF, int(rng.choice([0xFE, 0xE1, 0xE2, 0xEB, 0xEF]))])
        return content[:2] + marker + struct.pack(">H", len(data) + 2) + data + content[2:]
    place = content.index(b"\xff\xdb") + 5 + int(rng.integers(0, 64))
    return content[:place] + bytes([rng.integers(1, 256)]) + content[place + 1 :]


def mutated_tiff(content: bytes, rng: np.random.Generator) -> bytes:
    """Other pixels; or another value in one entry of the first directory (little-endian files, as ours are)."""
    data = bytearray(content)
    (place,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, place)
    entries = {struct.unpack_from("<H", data, place + 2 + 12 * i)[0]: place + 2 + 12 * i for i in range(count)}
    if rng.random() < 0.6:
        (offset,), (size,) = (struct.unpack_from("<I", data, entries[tag] + 8) for tag in (273, 279))
        at = offset + int(rng.integers(0, max(size // 8, 1))) * 4
        is_float = 339 in entries and data[entries[339] + 8] == 3
        data[at : at + 4] = struct.pack("<f", rng.random()) if is_float else rng.bytes(4)
        return bytes(data[: len(content)])
    entry = entries[list(entries)[int(rng.integers(0, count))]]
    (kind,) = struct.unpack_from("<H", data, entry + 2)
    struct.pack_into(
        "<I", data, entry + 8, int(rng.choice(ODD[:11] if kind == 3 else ODD)) & (0xFFFF if kind == 3 else 0xFFFFFFFF)
    )
    return bytes(data)


def mutated_npz(rng: np.random.Generator) -> bytes:
    """Arrays of other kinds, orders and sizes; or headers of NumPy that soundly claim what is not there."""
    rows, columns = (int(n) for n in rng.integers(1, 9, 2))
    kind = str(rng.choice(["f8", ">f8", "f4", "f2", "i1", "u2", "i8", "?", "longdouble"]))
    x = (rng.normal(size=(rows, columns)) * 5).astype(kind)
    arrays = {"X": np.asfortranarray(x) if rng.random() < 0.5 else x, "y": rng.normal(size=rows)}
    if rng.random() < 0.3:
        arrays["y"] = rng.normal(size=(rows, 2))
    if rng.random() < 0.2:
        del arrays["y"]
    file = io.BytesIO()
    np.savez(file, **arrays)
    if rng.random() < 0.6:
        return file.getvalue()
    shape = str(rng.choice(["(0, 99999999999999)", "(99999999999999, 0)", "(3,)", "(-1, 2)", "(2, 2, 2)", "(1, 0)"]))
    described = str(rng.choice(["<f8", "|O", "<c16", "|V8", "<U4", "<M8[s]"], p=[0.7, 0.06, 0.06, 0.06, 0.06, 0.06]))
    header = f"{{'descr': '{described}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(16)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("X.npy", content)
        archive.writestr("y.npy", content)
    return file.getvalue()


NAMES = ("a b", " a", "é", "a,b", 'a"b', "1", "nan", "[red]", "\x1b]0;x\x07", "a\nb", "-", "=1+1", "\U0001f600")
CELLS = ("1", " 2 ", "+3", "-0", "1e-3", "1E5", "1_000", ".5", "5.", "1e-320", "1e300", "007", "\u0663")


def mutated_csv(rng: np.random.Generator) -> bytes:
    """A table as other programs write it: quotes, ends of lines, spaces, odd names and odd numbers."""
    num = int(rng.integers(1, 6))
    names = [*rng.choice(NAMES, num, replace=False), "y"]
    rows = [[str(rng.choice(CELLS)) for _ in names] for _ in range(int(rng.integers(1, 8)))]
    file = io.StringIO()
    end = str(rng.choice(["\n", "\r\n"]))
    writer = csv.writer(file, quoting=[csv.QUOTE_ALL, csv.QUOTE_MINIMAL][int(rng.integers(0, 2))], lineterminator=end)
    writer.writerows([names, *rows])
    return (b"\xef\xbb\xbf" if rng.random() < 0.3 else b"") + file.getvalue().encode()
