"""Tables on disk: CSV with a header, and NPZ with arrays X, y."""

import csv
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..files import atomic_path

GAPS = {"", "na", "n/a", "nan", "null", "none"}  # cells without a value, in small letters


class Table(NamedTuple):
    columns: tuple[str, ...]
    values: np.ndarray  # (rows, columns) in float64: NaN for gaps, codes 0, 1, ... for text
    y_columns: tuple[str, ...] = ()  # those of the array y, in an NPZ file
    labels: dict[str, tuple[str, ...]] = {}  # noqa: RUF012 (what the codes of a column of text mean)

    def select(self, names: Sequence[str]) -> "Table":
        """Some columns, in this order."""
        values = self.values[:, [self.columns.index(name) for name in names]]
        return Table(tuple(names), values, labels={n: of for n, of in self.labels.items() if n in names})

    def inputs(self) -> np.ndarray:
        """What an estimator reads: numbers, and text where a column holds it."""
        if not self.labels:
            return self.values
        cells = self.values.astype(object)
        for name, labels in self.labels.items():
            column = self.columns.index(name)
            codes = self.values[:, column]
            names = np.array([*labels, None], object)
            cells[:, column] = names[np.where(np.isnan(codes), -1, codes).astype(int)]
        return cells


def read_table(path: str | os.PathLike, *, as_it_comes: bool = False) -> Table:
    """Read a CSV or NPZ file; ValueError in one line for anything that is not a table of finite numbers.

    ``as_it_comes`` takes gaps (empty, NA, NaN, null or None) and, of a CSV file, text.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    readers = {".csv": partial(_read_csv, has_text=as_it_comes), ".npz": _read_npz}
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path} must be a .csv or .npz file")
    table = readers[path.suffix.lower()](path)
    if not table.values.size:
        raise ValueError(f"{path} has no rows")
    bad = np.argwhere(np.isinf(table.values) if as_it_comes else ~np.isfinite(table.values))
    if len(bad):
        row, column = bad[0]
        raise ValueError(f"{path}, data row {row + 1}, column {table.columns[column]!r}: must be a finite number")
    return table


def _read_csv(path: Path, *, has_text: bool) -> Table:
    with open(path, newline="", encoding="utf-8-sig") as file:
        try:
            lines = [line for line in csv.reader(file) if line]
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not a CSV file ({error})") from None
    if not lines:
        raise ValueError(f"{path} is empty")
    header, rows = tuple(name.strip() for name in lines[0]), lines[1:]
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            raise ValueError(f"{path} separates its columns by {name}; write it with commas")
    for name in header:
        if not name.isprintable():
            raise ValueError(f"{path} has a column named {name!r}; names must be without control characters")
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise ValueError(f"{path} has two columns named {twice!r}; names must differ")
    for index, row in enumerate(rows):
        if len(row) != len(header):
            raise ValueError(f"{path}, data row {index + 1}: must have {len(header)} cells; got {len(row)}")
    values, labels = np.empty((len(rows), len(header))), {}
    for column, (name, cells) in enumerate(zip(header, zip(*rows, strict=True), strict=False)):
        for index, cell in enumerate(cells):
            try:
                values[index, column] = float(cell)
            except ValueError:
                if has_text and cell.strip().lower() in GAPS:
                    values[index, column] = np.nan
                elif has_text:
                    values[:, column], labels[name] = _coded(cells)
                    break
                else:
                    place = f"{path}, data row {index + 1}, column {name!r}"
                    raise ValueError(f"{place}: must be a number; got {cell!r}") from None
    return Table(header, values, labels=labels)


def _coded(cells: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """The code of each cell, NaN for a gap, and what the codes mean."""
    texts = [cell.strip() for cell in cells]
    names = tuple(sorted({text for text in texts if text.lower() not in GAPS}))
    code = {name: float(index) for index, name in enumerate(names)}
    return np.array([code.get(text, np.nan) for text in texts]), names


def _read_npz(path: Path) -> Table:
    """Arrays X (rows, features) and, for fitting, y (rows,) or (rows, outputs); columns x0, x1, ..., y or y0, ..."""
    try:
        # NumPy leaves a file open that it cannot read, but not one that is given to it.
        with open(path, "rb") as content, np.load(content, allow_pickle=False) as file:
            arrays = {name: _numbers(name, file[name]) for name in file.files}
    except Exception as error:  # numpy raises many kinds here
        raise ValueError(f"{path} is not an NPZ file of numbers ({error})") from None
    if "X" not in arrays or arrays["X"].ndim != 2:
        raise ValueError(f"{path} must hold a two-dimensional array X; got {sorted(arrays)}")
    X = arrays["X"]
    if not X.size:  # and perhaps more columns than can be named
        raise ValueError(f"{path} has no rows")
    columns, parts, y_columns = numbered("x", X.shape[1]), [X], ()
    if "y" in arrays:
        if arrays["y"].ndim not in (1, 2):
            raise ValueError(f"{path}: y must have one or two dimensions; got shape {arrays['y'].shape}")
        y = arrays["y"].reshape(len(arrays["y"]), -1)
        if len(y) != len(X):
            raise ValueError(f"{path}: X and y must have the same number of rows; got {len(X)} and {len(y)}")
        y_columns = ("y",) if arrays["y"].ndim == 1 else numbered("y", y.shape[1])
        parts.append(y)
    return Table((*columns, *y_columns), np.hstack(parts), y_columns)


def _numbers(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers; got {array.dtype}")
    return array.astype(np.float64)


def numbered(letter: str, num: int) -> tuple[str, ...]:
    """The names of an array's columns: x0, x1, ..."""
    return tuple(f"{letter}{i}" for i in range(num))


def target_columns(table: Table, target: str) -> list[str]:
    """The columns that ``target`` names, separated by commas; y alone is all of the array y."""
    names = [name.strip() for name in target.split(",")]
    if names == ["y"] and table.y_columns:
        return list(table.y_columns)
    for name in names:
        if name not in table.columns:
            raise ValueError(f"there is no column {name!r}; the table has {', '.join(table.columns)}")
    if len(set(names)) < len(names):
        raise ValueError(f"target must name every column once; got {target!r}")
    return names


def split_target(table: Table, target: str, ignored: Sequence[str] = ()) -> tuple[Table, np.ndarray]:
    """Inputs and targets; see ``target_columns``."""
    names = target_columns(table, target)
    for name in ignored:
        if name not in table.columns:
            raise ValueError(f"there is no column {name!r} to ignore; the table has {', '.join(table.columns)}")
    rest = [name for name in table.columns if name not in {*names, *ignored}]
    if not rest:
        raise ValueError("no column is left to predict from; the table holds only the target")
    targets = table.select(names).values
    return table.select(rest), targets[:, 0] if len(names) == 1 else targets


def write_classes(path: str | os.PathLike, name: str, classes: np.ndarray, predicted, chances: np.ndarray) -> None:
    """The most likely class and the chances of all, as columns, or as arrays y, chances and classes."""
    path = Path(path)
    with atomic_path(path) as temporary:
        if path.suffix.lower() == ".npz":
            with open(temporary, "wb") as file:
                np.savez(file, y=predicted, chances=chances, classes=classes)
            return
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([name, *(f"chance of {c}" for c in classes)])
            writer.writerows(
                [y, *(f"{chance:.9g}" for chance in row)] for y, row in zip(predicted, chances, strict=True)
            )


def write_predictions(path: str | os.PathLike, names: list[str], values: np.ndarray) -> None:
    path = Path(path)
    values = values.reshape(len(values), -1)
    with atomic_path(path) as temporary:
        if path.suffix.lower() == ".npz":
            with open(temporary, "wb") as file:
                np.savez(file, y=values[:, 0] if values.shape[1] == 1 else values)
            return
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow(names)
            np.savetxt(file, values, delimiter=",", fmt="%.15g")
