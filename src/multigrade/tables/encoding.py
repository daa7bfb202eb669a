"""How a table becomes the inputs of networks: every column three times, and random sines.

    plain     standardised, for what is linear in the column as it is
    clipped   centred by its median, divided by its quartile distance and clipped smoothly, z / sqrt(1 + (z / 3)^2), so
              that a far row cannot outweigh the rest
    bins      b_k(x) = clip((x - e_k) / (e_{k+1} - e_k), 0, 1) between the column's quantiles e_k, in which a function
              with steps, as trees draw them, is linear (Gorishniy et al., "On embeddings for numerical features in
              tabular deep learning", 2022)

Random sines of the clipped columns, and perhaps of the bins, may follow: sqrt(2) sin(W'z + phase), in which functions
that are smooth in all columns together are linear (Rahimi and Recht, "Random features for large-scale kernel machines",
2007). The linear grade chooses among all these, networks read the clipped columns and the bins. Everything is learned
from the training rows, weighted: a row of weight 2 is a row that stands there twice.
"""

import dataclasses

import numpy as np

from .rows import weighted_moments

CLIP = 3.0  # where smooth clipping begins, in deviations
MIN_BINS, MAX_BINS = 4, 16  # of a column; our choice, by python -m benchmarks.tables
ROWS_PER_BIN = 64  # at least; our choice, likewise
MAX_WIDTH = 512  # of all bins together, about
# The width is padded to 32, 64, 96, 128, 192, 256, 384, ...: tables share compiled programs.


@dataclasses.dataclass(frozen=True)
class Encoding:
    """Columns that vary: plain, then clipped; then the bins of those with more than two values; then columns of 0, up
    to a width that tables share; then sines."""

    columns: np.ndarray  # which columns vary
    low: np.ndarray  # plain columns end half a range beyond the training rows
    high: np.ndarray
    plain_mean: np.ndarray
    plain_deviation: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    mean: np.ndarray  # of the clipped columns
    deviation: np.ndarray
    bin_columns: np.ndarray  # the column of each bin
    bin_starts: np.ndarray
    bin_widths: np.ndarray
    bin_means: np.ndarray
    frequencies: np.ndarray  # (what networks read, sines)
    phases: np.ndarray

    @property
    def num_read(self) -> int:
        """How many outputs networks read: clipped columns, bins and padding, after the plain columns."""
        used = len(self.columns) + len(self.bin_columns)
        power = max(32, 1 << max(used - 1, 1).bit_length())
        return power * 3 // 4 if power >= 128 and used <= power * 3 // 4 else power

    @property
    def width(self) -> int:
        return len(self.columns) + self.num_read + len(self.phases)

    @property
    def read(self) -> slice:
        """What networks read of the outputs."""
        return slice(len(self.columns), len(self.columns) + self.num_read)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """(N, width) in float32; finite for all finite X."""
        encoded, num = np.zeros((len(X), self.width), np.float32), len(self.columns)
        inside = np.clip(X[:, self.columns], self.low, self.high)
        encoded[:, :num] = (inside - self.plain_mean) / self.plain_deviation
        encoded[:, num : 2 * num] = (self._clipped(X) - self.mean) / self.deviation
        encoded[:, 2 * num : 2 * num + len(self.bin_columns)] = 2 * (self._bins(X) - self.bin_means)
        if len(self.phases):
            encoded[:, self.read.stop :] = sines(encoded[:, self.read], self.frequencies, self.phases)
        return encoded

    def _clipped(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            z = np.clip((X[:, self.columns] - self.centre) / self.scale, -1e6, 1e6)
        return z / np.sqrt(1 + (z / CLIP) ** 2)

    def _bins(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.clip((X[:, self.bin_columns] - self.bin_starts) / self.bin_widths, 0, 1)


def sines(inputs: np.ndarray, frequencies: np.ndarray, phases: np.ndarray) -> np.ndarray:
    angles = inputs @ np.asarray(frequencies, np.float32) + np.asarray(phases, np.float32)
    return np.float32(np.sqrt(2)) * np.sin(angles)


def draw_frequencies(encoded: np.ndarray, is_used: np.ndarray, num: int, random: np.random.Generator) -> np.ndarray:
    """Frequencies (d, num) of the columns that are used, such that a row's angle has about deviation 1."""
    size = np.sqrt(np.mean(np.sum(np.square(encoded[:, is_used], dtype=np.float64), axis=1)))
    drawn = random.normal(size=(encoded.shape[1], num))
    return np.where(is_used[:, None], drawn / max(size, 1e-12), 0)


def fit_encoding(X: np.ndarray, weights: np.ndarray) -> Encoding:
    """The encoding of a table X (N, d) whose rows have ``weights``."""
    low, high = X.min(axis=0), X.max(axis=0)
    columns = np.flatnonzero(high - low > 1e-12 * np.maximum(np.abs(low), np.abs(high)))
    num_bins = int(np.clip(len(X) // ROWS_PER_BIN, MIN_BINS, MAX_BINS))
    num_bins = max(2, min(num_bins, MAX_WIDTH // max(len(columns), 1)))
    shares = np.linspace(0, 1, 1 + num_bins)
    centre, scale, edges = [], [], []
    for column in columns:
        values = X[:, column]
        first, median, third = _quantiles(values, weights, [0.25, 0.5, 0.75])
        centre.append(median)
        scale.append((third - first) / 1.35 if third > first else (high[column] - low[column]) / 2)
        distinct = np.unique(values)
        at = distinct if len(distinct) <= len(shares) else np.unique(_quantiles(values, weights, shares))
        edges.append(at if len(at) > 2 else at[:1])
    bin_columns = np.repeat(columns, [len(e) - 1 for e in edges]).astype(int)
    starts = np.concatenate([e[:-1] for e in edges]) if edges else np.empty(0)
    widths = np.concatenate([np.diff(e) for e in edges]) if edges else np.empty(0)
    none = np.zeros(len(columns))
    beyond = (high[columns] - low[columns]) / 2
    limits = (low[columns] - beyond, high[columns] + beyond)
    plain_mean, plain_deviation = weighted_moments(X[:, columns], weights)
    raw = Encoding(
        columns, *limits, plain_mean, plain_deviation, np.array(centre), np.array(scale), none, none + 1,
        bin_columns, starts, widths, np.zeros(len(starts)), np.zeros((0, 0)), np.zeros(0),
    )  # fmt: skip
    mean, deviation = weighted_moments(raw._clipped(X), weights)
    bin_means = np.average(raw._bins(X), axis=0, weights=weights)
    return dataclasses.replace(raw, mean=mean, deviation=np.where(deviation > 1e-9, deviation, 1), bin_means=bin_means)


def _quantiles(values: np.ndarray, weights: np.ndarray, shares) -> np.ndarray:
    return np.quantile(values, shares, weights=weights, method="inverted_cdf")


def encoding_to_arrays(encoding: Encoding) -> dict[str, np.ndarray]:
    return {f"encoding/{field.name}": getattr(encoding, field.name) for field in dataclasses.fields(encoding)}


def encoding_from_arrays(arrays: dict[str, np.ndarray], num_columns: int) -> Encoding:
    """The encoding of a table of so many columns; ValueError for arrays that are none."""
    fields = {field.name: arrays[f"encoding/{field.name}"] for field in dataclasses.fields(Encoding)}
    for name, array in fields.items():
        like = "bin_columns" if name.startswith("bin") else "phases" if name == "phases" else "columns"
        shape = fields[like].shape if name != "frequencies" else array.shape
        if array.shape != shape or array.ndim != 1 + (name == "frequencies") or not np.isfinite(array).all():
            raise ValueError(f"an encoding must have finite numbers of shape {shape} as {name}; got {array.shape}")
    for name in ("columns", "bin_columns"):
        if fields[name].dtype.kind not in "iu" or not np.all((fields[name] >= 0) & (fields[name] < num_columns)):
            raise ValueError(f"an encoding must have columns from 0 to {num_columns - 1}; got others as {name}")
    if not all(np.all(fields[name] > 0) for name in ("plain_deviation", "scale", "deviation", "bin_widths")):
        raise ValueError("an encoding must have positive scales, deviations and widths")
    encoding = Encoding(**fields)
    if encoding.frequencies.size and encoding.frequencies.shape != (encoding.num_read, len(encoding.phases)):
        raise ValueError(f"an encoding must have a phase for each sine; got frequencies {encoding.frequencies.shape}")
    return encoding
