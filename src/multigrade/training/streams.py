"""Data as it comes: arrays of any shape, memory-mapped files, any iterable of batches; and features that do not fit.

    Batches((x, y))                         arrays, also memory-mapped ones, and pytrees of inputs
    Batches(loader, num_rows=60_000)        an iterable of (inputs, targets); every iteration over it is one pass

Steps are fed from the host, a batch each. The frozen features that a grade reads are kept where they fit: on the
device, in memory, or in a file that has no name and vanishes with the process; or they are recomputed batch by batch,
as they must be where pictures are cropped and turned at random. Both give the same bits: features are always computed
for as many rows at a time as a batch has. What a step sees follows from its number alone, so that a run that was killed
goes on with the same bits; an iterable must then give the same batches whenever it is iterated.
"""

import dataclasses
import logging
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..model import Grade, apply_grade

KEPT_SHARE = 0.25  # of the memory that is free, at most for kept features; our choice
PLACES = ("auto", "device", "memory", "file", "recompute")
NUM_RECORDED = 2048  # rows whose training loss is recorded
log = logging.getLogger("multigrade")


@dataclasses.dataclass(frozen=True)
class Batches:
    """Data for ``fit_grades(structure, Batches(...), None, plan)``.

    Parameters
    ----------
    source : a pair of arrays (inputs, targets), shuffled anew for every pass, ``plan.batch_size`` rows a step; or an
        iterable of such pairs, one pass each time it is iterated
    num_rows : rows of a pass over an iterable
    transform : (key, inputs) -> inputs, compiled, applied to every batch before it is seen, such as ``crop_and_flip``
    keep : "device", "memory" or "file" for frozen features, "recompute", or "auto": the first that fits; with an
        iterable that is to be recomputed, or a transform, "recompute"
    folder : where a file of features is made; None takes the usual place of temporary files
    """

    source: Any
    num_rows: int | None = None
    transform: Callable[[Array, Any], Any] | None = None
    keep: str = "auto"
    folder: str | os.PathLike | None = None

    def __post_init__(self):
        if self.keep not in PLACES:
            raise ValueError(f"keep must be one of {', '.join(PLACES)}; got {self.keep!r}")
        if self.transform is not None and self.keep not in ("auto", "recompute"):
            raise ValueError(f"keep must be 'auto' or 'recompute' with a transform; got {self.keep!r}")
        if self.has_arrays:
            rows = {len(leaf) for leaf in jax.tree.leaves(self.source)}
            if len(rows) != 1 or not min(rows):
                raise ValueError(f"source must have equally many rows of inputs and targets; got {sorted(rows)}")
            if self.num_rows not in (None, *rows):
                raise ValueError(f"num_rows must be None or {min(rows)} for these arrays; got {self.num_rows}")
            object.__setattr__(self, "num_rows", min(rows))
        elif not isinstance(self.source, Iterable) or not isinstance(self.num_rows, int) or self.num_rows < 1:
            raise ValueError(
                "source must be a pair of arrays, or an iterable of (inputs, targets) with num_rows rows in all; got "
                f"{type(self.source).__name__} and num_rows={self.num_rows!r}"
            )
        elif isinstance(self.source, Iterator):
            raise ValueError(
                "source must be an iterable that can be iterated anew, not an iterator; give a list or a class"
            )

    @property
    def has_arrays(self) -> bool:
        return isinstance(self.source, tuple) and len(self.source) == 2

    def passes(self) -> Iterator[tuple[Any, np.ndarray]]:
        """One pass over an iterable, each batch checked; ValueError if it has other than ``num_rows`` rows."""
        seen, form = 0, None
        for number, batch in enumerate(self.source, 1):
            if not isinstance(batch, (tuple, list)) or len(batch) != 2:
                raise ValueError(f"batch {number} must be a pair (inputs, targets); got {type(batch).__name__}")
            x, y = jax.tree.map(np.asarray, tuple(batch))
            if len(rows := {len(leaf) for leaf in jax.tree.leaves((x, y))}) != 1:
                raise ValueError(f"batch {number} must have as many targets as inputs; got {sorted(rows)} rows")
            now = jax.tree.map(lambda leaf: (leaf.shape[1:], leaf.dtype), (x, y))
            form = form or now
            if now != form:
                raise ValueError(f"batches must have rows of one shape and type, {form}; batch {number} has {now}")
            seen += len(y)
            if seen > self.num_rows:
                raise ValueError(f"source must have num_rows = {self.num_rows} rows; got {seen} and more")
            yield x, y
        if seen < self.num_rows:
            raise ValueError(f"source must have num_rows = {self.num_rows} rows; it ended after {seen}")


def crop_and_flip(key: Array, pictures: Array, *, padding: int = 2, flips: bool = True) -> Array:
    """Pictures (rows, h, w, channels) moved at random by up to ``padding`` pixels, and mirrored, each for itself.

    Parameters
    ----------
    key : of the random numbers
    pictures : the batch
    padding : pixels of 0 around a picture, from which it is cut out again
    flips : whether half of them are mirrored left to right

    Returns
    -------
    Array
        Of the same shape.
    """
    rows, *shape = pictures.shape
    at_key, flip_key = jax.random.split(key)
    corners = jax.random.randint(at_key, (rows, 2), 0, 2 * padding + 1)
    wide = jnp.pad(pictures, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    cut = jax.vmap(lambda picture, at: jax.lax.dynamic_slice(picture, (at[0], at[1], 0), shape))(wide, corners)
    mirrored = jax.random.bernoulli(flip_key, 0.5, (rows, 1, 1, 1)) & flips
    return jnp.where(mirrored, cut[:, :, ::-1], cut)


class FileRows:
    """Rows of an array in a file, read without mapping any page of it: those would count as memory of the process."""

    def __init__(self, file, shape: tuple[int, ...], dtype, offset: int = 0):
        self.file, self.shape, self.dtype, self.offset = file, shape, np.dtype(dtype), offset
        self.row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * self.dtype.itemsize
        weakref.finalize(self, file.close)

    @classmethod
    def of(cls, array):
        """A whole memory-mapped file of rows as one of these; any other array as it is."""
        is_whole = isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap) and array.flags.c_contiguous
        if not is_whole or array.filename is None:
            return array
        return cls(open(array.filename, "rb", buffering=0), array.shape, array.dtype, array.offset)

    def __len__(self) -> int:
        return self.shape[0]

    def append(self, rows: np.ndarray) -> None:
        """Write the next rows."""
        view = memoryview(np.ascontiguousarray(rows)).cast("B")
        while len(view):
            view = view[self.file.write(view) :]

    def __getitem__(self, rows) -> np.ndarray:
        numbers = np.arange(len(self))[rows]
        out = np.empty((len(numbers), *self.shape[1:]), self.dtype)
        for place, number in zip(out.reshape(len(numbers), -1), numbers, strict=True):
            if os.preadv(self.file.fileno(), [place], self.offset + int(number) * self.row_bytes) != self.row_bytes:
                raise OSError(f"a file of features ended before row {number} of {len(self)}")
        return out


@dataclasses.dataclass(frozen=True)
class Order:
    """Which rows step n sees: those at n B, ..., (n + 1) B - 1 of one random order of all rows after the other."""

    num_rows: int
    size: int
    seed: int

    def rows(self, step: int) -> np.ndarray:
        at = step * self.size + np.arange(self.size)
        passes, places = np.divmod(at, self.num_rows)
        found = np.empty(self.size, np.int64)
        for number in np.unique(passes):
            shuffled = _shuffled(self.seed, int(number), self.num_rows)
            found[passes == number] = shuffled[places[passes == number]]
        return found


@lru_cache(maxsize=2)
def _shuffled(seed: int, number: int, num_rows: int) -> np.ndarray:
    return np.random.default_rng((seed, number)).permutation(num_rows)


class Iteration:
    """Batch n of an iterable: passes follow each other, and a smaller last batch of a pass is left out."""

    def __init__(self, batches: Batches):
        self.batches, self.next, self.running = batches, 0, None
        self.size = len(next(batches.passes())[1])
        self.per_pass = (batches.num_rows or 0) // self.size

    def __call__(self, step: int) -> tuple[Any, np.ndarray]:
        if step != self.next or self.running is None or step % self.per_pass == 0:
            self.running = self.batches.passes()  # the same batches again, up to the one that is asked for
            for _ in range(step % self.per_pass):
                next(self.running)
        self.next = step + 1
        x, y = next(self.running)
        if len(y) != self.size:
            raise ValueError(f"batches must have {self.size} rows as the first one, but the last; got {len(y)}")
        return x, y


@dataclasses.dataclass(frozen=True)
class Feed:
    """What steps see: features, targets, and the prediction of the grades so far.

    Parameters
    ----------
    size : rows of a batch
    as_targets : targets of the source as (rows, outputs)
    draw : step -> (inputs, targets), as they come, where features are recomputed
    kept : (features, targets, predictions) of all rows, where they are kept
    order : which of these rows a step sees
    grades : frozen ones, through which a batch goes
    transform, key, keep, folder : see ``Batches``
    """

    size: int
    as_targets: Callable[[Any], Array]
    draw: Callable[[int], tuple[Any, Any]] | None = None
    kept: tuple | None = None
    order: Order | None = None
    grades: tuple[Grade, ...] = ()
    transform: Callable | None = None
    key: Any = None
    keep: str = "auto"
    folder: str | os.PathLike | None = None

    def __call__(self, step: int) -> tuple[Any, Array, Array]:
        if self.kept is not None and self.order is not None:
            rows = self.order.rows(step)
            x, y, prediction = jax.tree.map(lambda array: array[rows], self.kept)
            return jax.tree.map(as_numbers, x), self.as_targets(y), jnp.asarray(prediction)
        assert self.draw is not None
        x, y = self.draw(step)
        x, y = jax.tree.map(as_numbers, x), self.as_targets(y)
        if self.transform is not None:
            x = self.transform(jax.random.fold_in(self.key, step), x)
        prediction = jnp.zeros_like(y)
        for grade in self.grades:
            added, x = apply_grade(grade, x)
            prediction = prediction + added
        return x, y, prediction

    def after(self, grade: Grade) -> "Feed":
        """The feed of the next grade: its features are computed now and kept, or with every batch."""
        if self.kept is None:
            return dataclasses.replace(self, grades=(*self.grades, grade))
        features, targets, predictions = self.kept
        stores, treedef, after = None, None, predictions.copy()
        for start in range(0, len(targets), self.size):
            rows = np.arange(start, start + self.size).clip(max=len(targets) - 1)  # the last block is filled up
            few = min(self.size, len(targets) - start)
            added, made = apply_grade(grade, jax.tree.map(lambda f, rows=rows: as_numbers(f[rows]), features))
            after[start : start + few] += np.asarray(added[:few])
            leaves, treedef = jax.tree.flatten(made)
            stores = stores or make_stores(leaves, len(targets), self.keep, self.folder)
            for store, leaf in zip(stores, leaves, strict=True):
                put(store, start, np.asarray(leaf[:few]))
        assert stores is not None
        assert treedef is not None
        if self.keep == "device":
            stores = [jax.device_put(store) for store in stores]
        return dataclasses.replace(self, kept=(jax.tree.unflatten(treedef, stores), targets, after))


def as_numbers(array) -> Array:
    """float32; integers of 16 bits and more stay what they are, for they may be places in a table."""
    is_index = array.dtype.kind in "iu" and array.dtype.itemsize > 1
    return jnp.asarray(array, jnp.int32 if is_index else jnp.float32)


def make_stores(leaves, num_rows: int, keep: str, folder) -> list:
    """Where features of such rows are kept, said once with their size."""
    size = sum(num_rows * int(np.prod(leaf.shape[1:])) * leaf.dtype.itemsize for leaf in leaves)
    if keep == "auto":
        try:
            free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        except (AttributeError, ValueError, OSError):
            free = 2**33  # Windows, among others, does not tell
        keep = "memory" if size <= KEPT_SHARE * free else "file"
    log.info(
        "features of %d rows, %.3g GB, are kept in %s", num_rows, size / 2**30, "a file" if keep == "file" else keep
    )
    stores = []
    for leaf in leaves:
        shape, dtype = (num_rows, *leaf.shape[1:]), np.dtype(leaf.dtype)
        if keep == "file":  # without a name: it vanishes with the process, however that ends
            stores.append(FileRows(tempfile.TemporaryFile(dir=folder, buffering=0), shape, dtype))  # noqa: SIM115
        else:
            stores.append(np.empty(shape, dtype))
    return stores


def put(store, start: int, rows: np.ndarray) -> None:
    """Rows written where they belong; to a file they come in order."""
    if isinstance(store, FileRows):
        store.append(rows)
    else:
        store[start : start + len(rows)] = rows


def make_feed(
    batches: Batches, as_targets: Callable[[Any], Array], batch_size: int | None, seed: int
) -> tuple[Feed, tuple]:
    """The feed of the first grade, and some rows (inputs, targets) to record the loss of."""
    transform = None if batches.transform is None else jax.jit(batches.transform)
    options = {"transform": transform, "key": jax.random.key(seed), "keep": batches.keep, "folder": batches.folder}
    is_kept = batches.transform is None and batches.keep != "recompute"
    if not batches.has_arrays and not is_kept:
        if batch_size is not None:
            raise ValueError(f"batch_size must be None where batches are taken as they come; got {batch_size}")
        iteration, few, rows = Iteration(batches), [], 0
        for x, y in batches.passes():
            few, rows = [*few, (x, y)], rows + len(y)
            if rows >= NUM_RECORDED:
                break
        few = jax.tree.map(lambda *parts: np.concatenate(parts)[:NUM_RECORDED], *few)
        return Feed(iteration.size, as_targets, draw=iteration, **options), few
    num_rows = batches.num_rows or 0
    if batch_size is None or batch_size > num_rows:
        raise ValueError(f"batch_size of the plan must be from 1 to the {num_rows} rows; got {batch_size}")
    x, y = jax.tree.map(FileRows.of, batches.source) if batches.has_arrays else _collected(batches)
    y = y[:]
    every = np.arange(0, num_rows, -(-num_rows // NUM_RECORDED))
    few = jax.tree.map(lambda leaf: leaf[every], (x, y))
    order = Order(num_rows, batch_size, seed)
    if is_kept:
        predictions = np.zeros((num_rows, as_targets(y[:1]).shape[1]), np.float32)
        return Feed(batch_size, as_targets, kept=(x, y, predictions), order=order, **options), few

    def draw(step: int):
        rows = order.rows(step)
        return jax.tree.map(lambda leaf: leaf[rows], (x, y))

    return Feed(batch_size, as_targets, draw=draw, **options), few


def _collected(batches: Batches) -> tuple[Any, np.ndarray]:
    """The rows of one pass over an iterable, kept where they fit."""
    stores, treedef, start, targets = None, None, 0, []
    for x, y in batches.passes():
        leaves, treedef = jax.tree.flatten(x)
        stores = stores or make_stores(leaves, batches.num_rows or 0, batches.keep, batches.folder)
        for store, leaf in zip(stores, leaves, strict=True):
            put(store, start, leaf)
        targets, start = [*targets, y], start + len(y)
    assert treedef is not None
    return jax.tree.unflatten(treedef, stores), np.concatenate(targets)
