"""Tables as they come: frames of pandas or polars, arrays, sparse matrices and lists, read as one matrix of numbers.

    numbers, booleans         as they are; a gap (NaN, None, NA) is NaN
    dates and times           days since the beginning of 1970 (UTC), durations as days
    text that holds numbers   numbers; where all of it is ISO dates (2026-01-31, 2026-01-31T12:00), dates
    other text, categories    codes 0, 1, ... of the levels of the training rows, in the order of their names; a level
                              that was not there is -1

A column of numbers is one of categories where the user says so.
"""

import numbers
import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

MOST_CELLS = 2 * 10**7  # of a sparse table, which is read as a full one
DAY = np.timedelta64(1, "D")
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?")


class Columns(NamedTuple):
    """What the columns of the training rows hold, and how the columns of others are read.

    Parameters
    ----------
    names : what messages call them
    levels : of each column the names of its levels, in order; None for a column of numbers
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...] | None, ...]

    @property
    def is_category(self) -> np.ndarray:
        return np.array([levels is not None for levels in self.levels], bool)

    def read(self, X) -> np.ndarray:
        """(N, columns) in float64."""
        columns = split_columns(X)
        num = columns.shape[1] if isinstance(columns, np.ndarray) else len(columns)
        if num != len(self.names):
            return np.empty((np.shape(X)[0], num))  # refused by scikit-learn's own words
        if isinstance(columns, np.ndarray):
            if all(levels is None for levels in self.levels):
                return columns
            columns = list(columns.T)
        pairs = zip(columns, self.levels, self.names, strict=True)
        return np.stack([_read(column, levels, name) for column, levels, name in pairs], axis=1)


def learn_columns(X, categorical: Any, names: Sequence[str] | None) -> tuple[Columns, np.ndarray]:
    """The columns of a table, and the table as numbers.

    ``categorical`` is "auto" or tells which columns hold categories: their names, numbers, or a mask.
    """
    columns = split_columns(X)
    num = columns.shape[1] if isinstance(columns, np.ndarray) else len(columns)
    names = tuple(f"x{i}" for i in range(num)) if names is None else tuple(map(str, names))
    told = _told(categorical, names)
    if isinstance(columns, np.ndarray) and not told:
        return Columns(names, (None,) * num), columns
    columns = list(columns.T) if isinstance(columns, np.ndarray) else columns
    levels, read = [], []
    for index, (column, name) in enumerate(zip(columns, names, strict=True)):
        values = None if index in told or _is_category(column) else _numbers(column, name)
        of_column = None
        if values is None:
            keys, codes = _keys(column, name)
            kept = sorted({key for key in keys if key is not None})
            place = {key: float(i) for i, key in enumerate(kept)}
            of_column = tuple(kept)
            values = np.array([np.nan if key is None else place[key] for key in keys])[codes]
        levels.append(of_column)
        read.append(values)
    return Columns(names, tuple(levels)), np.stack(read, axis=1)


def split_columns(X: Any) -> np.ndarray | list:
    """A matrix of float64 where all columns are numbers; a list of the columns otherwise. ValueError for no table."""
    if X is None or (issubclass(type(X), (str, dict, set)) and not hasattr(X, "toarray")):
        raise ValueError(f"X must be a table of rows and columns: an array or a frame; got {type(X).__name__}")
    if hasattr(X, "toarray"):
        if X.shape[0] * X.shape[1] > MOST_CELLS:
            raise ValueError(
                f"X is sparse, and read as a full table of at most {MOST_CELLS:,} cells; got {X.shape[0]:,} x "
                f"{X.shape[1]:,}. Keep fewer columns, for example by TruncatedSVD or SelectKBest"
            )
        X = X.toarray()
    if hasattr(X, "iloc"):
        columns: list[Any] = [X.iloc[:, i] for i in range(X.shape[1])]
        is_plain = all(getattr(c.dtype, "kind", "O") in "iufb" for c in columns)
        return np.stack([np.asarray(_numbers(c, "")) for c in columns], axis=1) if is_plain and columns else columns
    if hasattr(X, "get_columns"):
        columns = X.get_columns()
        is_plain = all(c.dtype.is_numeric() for c in columns)
        return np.stack([np.asarray(_numbers(c, "")) for c in columns], axis=1) if is_plain and columns else columns
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: X.reshape(-1, 1) for one column, "
            "X.reshape(1, -1) for one row"
        )
    if array.dtype.kind in "iufb":
        return array.astype(np.float64)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported. Give real and imaginary parts as columns of their own")
    return list(array.T)


def _told(categorical: Any, names: Sequence[str]) -> set[int]:
    if isinstance(categorical, str) and categorical == "auto":
        return set()
    entries = np.asarray(categorical if np.ndim(categorical) else [categorical]).tolist()
    if entries and all(isinstance(entry, bool) for entry in entries):
        if len(entries) != len(names):
            raise ValueError(f"categorical_features must be a mask of {len(names)} columns; got {len(entries)}")
        return {i for i, entry in enumerate(entries) if entry}
    told = set()
    for entry in entries:
        if isinstance(entry, str) and entry in names:
            told.add(names.index(entry))
        elif isinstance(entry, int) and -len(names) <= entry < len(names):
            told.add(entry % len(names))
        else:
            raise ValueError(
                f"categorical_features must name columns of the table, or give their numbers; got {entry!r}"
            )
    return told


def _is_category(column) -> bool:
    dtype = getattr(column, "dtype", None)
    return getattr(dtype, "name", "") == "category" or str(dtype).startswith(("Categorical", "Enum"))


def _numbers(column, name: str) -> np.ndarray | None:
    """A column as float64; None for text."""
    values = _array(column)
    if values.dtype.kind in "iufb":
        return values.astype(np.float64)
    if values.dtype.kind in "Mm":
        origin = np.datetime64(0, "D") if values.dtype.kind == "M" else np.timedelta64(0, "D")
        return np.where(np.isnat(values), np.nan, (values - origin) / DAY)
    if values.dtype.kind == "U":
        values = values.astype(object)
    is_known = np.array([not _is_gap(value) for value in values], bool)
    known = values[is_known]
    read = np.full(len(values), np.nan)
    if all(isinstance(value, (date, np.datetime64)) for value in known) and len(known):
        moments = [_as_utc(value) for value in known]
        read[is_known] = (np.array(moments, "datetime64[us]") - np.datetime64(0, "us")) / DAY
    elif all(isinstance(value, (timedelta, np.timedelta64)) for value in known) and len(known):
        read[is_known] = np.array(known.tolist(), "timedelta64[us]") / DAY
    else:
        for value in known:
            if not isinstance(value, (str, numbers.Real, np.bool_, Decimal)):
                raise TypeError(
                    f"argument must be a string or a number in each cell of X; got a {type(value).__name__} in "
                    f"column {name!r}"
                )
        try:
            if len(known) and all(isinstance(value, str) and ISO_DATE.fullmatch(value) for value in known):
                read[is_known] = (np.array(known.tolist(), "datetime64[us]") - np.datetime64(0, "us")) / DAY
            else:
                read[is_known] = [float(value) for value in known]
        except ValueError:
            return None
    return read


def _array(column) -> np.ndarray:
    if isinstance(column, np.ndarray):
        return column
    kind = getattr(column.dtype, "kind", None)  # of pandas
    if kind is not None:
        if kind in "iufb":
            return column.to_numpy(dtype=np.float64, na_value=np.nan)
        if kind in "Mm":
            return column.to_numpy(dtype="datetime64[us]" if kind == "M" else "timedelta64[us]")
        return column.astype(object).to_numpy()
    if column.dtype.is_numeric() or str(column.dtype) == "Boolean":
        return column.cast(float).to_numpy().astype(np.float64)
    if column.dtype.is_temporal():
        return column.to_numpy()
    return np.array([*column.to_list(), None], object)[:-1]


def _as_utc(value):
    if isinstance(value, datetime) and value.tzinfo is not None:
        return np.datetime64(value.replace(tzinfo=None) - value.utcoffset(), "us")
    return np.datetime64(value, "us")


def _is_gap(value) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _keys(column, name: str) -> tuple[list[str | None], np.ndarray]:
    """The names of the different values of a column (None for a gap), and which of them each row has."""
    values = _array(column)
    if values.dtype.kind in "iufbMm":
        different, codes = np.unique(values, return_inverse=True)
        is_gap = different != different
        return [
            None if gap else _key(value, name) for value, gap in zip(different.tolist(), is_gap, strict=True)
        ], codes
    keys = [None if _is_gap(value) else _key(value, name) for value in values.tolist()]
    place = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return list(place), np.array([place[key] for key in keys], int)


def _key(value, name: str) -> str:
    """The same for 1, 1.0 and True, as a column of whole numbers becomes one of floats where it has gaps."""
    if isinstance(value, (numbers.Real, Decimal)):
        return f"{float(value):.17g}"
    if isinstance(value, (str, date, timedelta, bytes, tuple)):
        return str(value)
    raise TypeError(
        f"argument must be a string or a number in each cell of X; got a {type(value).__name__} in column {name!r}"
    )


def _read(column, levels: tuple[str, ...] | None, name: str) -> np.ndarray:
    if levels is None:
        values = None if _is_category(column) and not _holds_numbers(column) else _numbers(column, name)
        if values is None:
            text = next(value for value in _array(column) if isinstance(value, str) and not _is_number(value))
            raise ValueError(f"column {name!r} must hold numbers, as in the training rows; got {text!r}")
        return values
    keys, codes = _keys(column, name)
    place = {key: float(i) for i, key in enumerate(levels)}
    return np.array([np.nan if key is None else place.get(key, -1.0) for key in keys])[codes]


def _holds_numbers(column) -> bool:
    return all(_is_gap(value) or _is_number(value) for value in _array(column))


def _is_number(value) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
