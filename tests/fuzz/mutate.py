"""Other bytes, cells and arrays, from valid ones and a random generator."""

import numpy as np

CELLS = (
    "", " ", "nan", "inf", "-inf", "1e300", "-1e300", "1e-320", "1e999", "0x10", "1_000", "1,5", "a", '"', "'", "\x00",
    "9" * 400, "\u00e9", "TRUE", "None", "1e", "--1", "\uff11\uff12", "\U0001f600",
)  # fmt: skip
DTYPES = ("complex128", "float16", "int8", "uint64", "bool", "U5", "S3", "datetime64[s]", "longdouble", ">f8", "V4")


def mutated_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """One to four changes: bits, bytes, blocks cut out, doubled, zeroed, moved, or the end cut off."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        if not data:
            return bytes(data)
        a, b = sorted(int(i) for i in rng.integers(0, len(data) + 1, 2))
        start = int(rng.choice([a, min(a, 64)]))  # headers matter most
        end = min(start + int(rng.choice([1, 4, 16, b - a + 1])), len(data))
        match rng.integers(0, 8):
            case 0:
                data[min(start, len(data) - 1)] ^= 1 << int(rng.integers(0, 8))
            case 1:
                data[start:end] = rng.bytes(end - start)
            case 2:
                del data[start:end]
            case 3:
                data[start:start] = data[start:end]
            case 4:
                data[start:end] = bytes(end - start)
            case 5:
                data[start:end] = b"\xff" * (end - start)
            case 6:
                del data[a:]
            case _:
                data += rng.bytes(int(rng.integers(1, 64)))
    return bytes(data)


def mutated_table(text: str, rng: np.random.Generator) -> bytes:
    """A CSV with odd cells, separators, line ends, quotes, missing and doubled columns, or odd bytes."""
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(rng.integers(1, 4)):
        row = int(rng.integers(0, len(rows)))
        column = int(rng.integers(0, len(rows[row]))) if rows[row] else 0
        match rng.integers(0, 6):
            case 0 | 1 if rows[row]:
                rows[row][column] = str(rng.choice(CELLS))
            case 2:
                rows[row] = rows[row][:column]
            case 3:
                rows[row] = rows[row] + rows[row][:1]
            case 4 if rows[row]:
                rows[0][column % max(len(rows[0]), 1) : column + 1] = [str(rng.choice(CELLS))]
            case _:
                rows = rows[:row] if rng.random() < 0.3 else rows
        rows = rows or [[""]]
    ends = str(rng.choice(["\n", "\r\n", "\r", "\n\n", ""], p=[0.7, 0.1, 0.1, 0.05, 0.05]))
    separator = str(rng.choice([",", ";", "\t", ", "], p=[0.8, 0.1, 0.05, 0.05]))
    content = ends.join(separator.join(row) for row in rows).encode("utf-8", "surrogatepass")
    return mutated_bytes(content, rng) if rng.random() < 0.2 else content


def mutated_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Another shape, kind or value."""
    match rng.integers(0, 6):
        case 0:
            kind = np.dtype(str(rng.choice(DTYPES)))
            return np.zeros(array.shape, kind) if kind.kind in "MV" else array.astype(kind)
        case 1:
            return array[: int(rng.integers(0, len(array) + 1))] if array.ndim else array
        case 2:
            return array.reshape(-1) if array.ndim != 1 else array.reshape(-1, 1)
        case 3:
            return np.broadcast_to(array, (2, *array.shape)).copy()
        case 4:
            odd = np.array(array, np.float64)
            if odd.size:
                odd.flat[int(rng.integers(0, odd.size))] = rng.choice([np.nan, np.inf, 1e300, -1e300, 1e39, 0.0])
            return odd
        case _:
            return array.sum()  # no dimension


def mutated_json(value, rng: np.random.Generator):
    """The same structure with one part missing or of another kind."""
    if isinstance(value, dict) and value:
        name = list(value)[int(rng.integers(0, len(value)))]
        if rng.random() < 0.3:
            return {key: part for key, part in value.items() if key != name}
        return {**value, name: mutated_json(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        index = int(rng.integers(0, len(value)))
        return [*value[:index], mutated_json(value[index], rng), *value[index + 1 :]]
    odd = (None, -1, 10**400, 1e308, "", "no such thing", [], {}, True, [[]], {"tuple": 3})
    return odd[int(rng.integers(0, len(odd)))]
