"""Work that a machine did not finish, small enough to be committed, to be continued on another one to the same bits.

    python -m multigrade_paper.unfinished pack runs reproduction/evidence/unfinished      from checkpoints under way
    python -m multigrade_paper.unfinished unpack reproduction/evidence/unfinished runs    into another store

A file KEY-VERSIONS.xz holds a checkpoint as it was written, compressed: its bytes are sorted by their place in each
number, which puts signs and exponents beside each other. Its name says with which versions and how many threads it can
be continued; a store of other versions starts anew. The bits also depend on the processor's instructions, which
``run.json`` tells of.
"""

import argparse
import lzma
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from multigrade.files import atomic_path

from .store import KEY, Store

SIZE = 2_000_000  # bytes of a file that is committed; a larger one is left out, and told of
NAME = "fit.checkpoint"
WIDTH = 4  # bytes of a number
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]


def compress(content: bytes) -> bytes:
    """The bytes at places 0, 4, 8, ... first, then those at 1, 5, 9, ...; then what is left over; by LZMA."""
    whole = len(content) // WIDTH * WIDTH
    sorted_ = np.frombuffer(content[:whole], np.uint8).reshape(-1, WIDTH).T.tobytes() + content[whole:]
    return lzma.compress(sorted_, format=lzma.FORMAT_XZ, filters=FILTERS)


def expand(content: bytes) -> bytes:
    """What ``compress`` was given."""
    sorted_ = lzma.decompress(content)
    whole = len(sorted_) // WIDTH * WIDTH
    return np.frombuffer(sorted_[:whole], np.uint8).reshape(WIDTH, -1).T.tobytes() + sorted_[whole:]


def pack(store: Store, folder: Path) -> Iterator[str]:
    """Compress the checkpoints of a store that nobody is at; what was packed of jobs that are done since is removed."""
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.xz"):
        if path.stem.partition("-")[0] in store:
            path.unlink()
            yield f"{path.name} is done and was removed"
    for path in sorted(store.path.glob(f".work/*/*/{NAME}")):
        key, versions = path.parts[-3:-1]
        content = compress(path.read_bytes())
        if len(content) > SIZE:
            yield f"{key} was left out: {len(content):,} bytes"
            continue
        with atomic_path(folder / f"{key}-{versions}.xz") as temporary:
            Path(temporary).write_bytes(content)
        yield f"{key}: {len(content):,} bytes of {path.stat().st_size:,}"


def unpack(folder: Path, store: Store) -> Iterator[str]:
    """Put checkpoints where the store looks for them, unless it holds the result or a checkpoint of its own."""
    for path in sorted(folder.glob("*.xz")):
        key, _, versions = path.stem.partition("-")
        if not KEY.fullmatch(key) or "/" in versions:
            raise ValueError(f"{path} is not the name of a checkpoint")
        place = store.path / ".work" / key / versions / NAME
        if key in store or place.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(place) as temporary:
            Path(temporary).write_bytes(expand(path.read_bytes()))
        yield f"{key} goes on from here"


def main(arguments: list[str] | None = None) -> None:
    """Pack or unpack."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("pack", "unpack"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    given = parser.parse_args(arguments)
    if given.what == "pack":
        told = pack(Store(given.source, create=False), given.target)
    else:
        told = unpack(given.source, Store(given.target))
    for line in told:
        print(line)


if __name__ == "__main__":
    main()
