"""How a table becomes the inputs of networks: every column of numbers three times, categories by level, gaps told.

    plain     standardised, for what is linear in the column as it is
    clipped   centred by its median, divided by its quartile distance and clipped smoothly, z / sqrt(1 + (z / 3)^2), so
              that a far row cannot outweigh the rest
    bins      b_k(x) = clip((x - e_k) / (e_{k+1} - e_k), 0, 1) between the column's quantiles e_k, in which a function
              with steps, as trees draw them, is linear (Gorishniy et al., "On embeddings for numerical features in
              tabular deep learning", 2022)
    levels    1 where a category with few levels has this one
    gaps      1 where a column has none; the gap itself is read as the column's median
    cuts      1 where a column is above a threshold at which the targets jump (``cuts``)
    codes     what the targets of a level of a code are like (``codes``)

Drawn features may follow, which are solved for after all these: random sines of what networks read, in which functions
that are smooth in all columns together are linear (Rahimi and Recht, "Random features for large-scale kernel machines",
2007), or random steps, 1 where up to three columns are each on one side of a threshold, as a tree draws them.

The table holds numbers, codes 0, 1, ... in the place of categories (-1 for one that is unknown), and NaN for gaps.
Everything is learned from the training rows, weighted: a row of weight 2 is a row that stands there twice.
"""

import dataclasses
from functools import cached_property

import numpy as np

from .rows import weighted_moments

CLIP = 3.0  # where smooth clipping begins, in deviations
NUM_BINS = ((512, 4), (1024, 8), (np.inf, 16))  # of a column, below so many rows; our choice
MAX_WIDTH = 512  # of all bins together, about
MAX_LEVELS = 64  # of a category that is read by level; our choice
MOST_CUTS = 32  # that all members read together
# The width is padded to 64, 128, 256, 512, 768, ...: tables share compiled programs.


@dataclasses.dataclass(frozen=True)
class Encoding:
    """Outputs in this order: plain columns; then what networks read: clipped columns, bins, levels, gaps, cuts, columns
    of 0 up to a width that tables share, codes; then sines or steps."""

    columns: np.ndarray  # of numbers, that vary
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
    level_columns: np.ndarray
    level_values: np.ndarray
    level_means: np.ndarray
    gap_columns: np.ndarray
    gap_means: np.ndarray
    cut_columns: np.ndarray
    cut_thresholds: np.ndarray
    cut_means: np.ndarray
    code_columns: np.ndarray  # of each known level of each code
    code_values: np.ndarray
    code_statistics: np.ndarray  # (known levels, statistics of a code)
    frequencies: np.ndarray  # (what networks read, sines)
    phases: np.ndarray
    step_places: np.ndarray  # (steps, 3): among the columns of numbers
    step_thresholds: np.ndarray
    step_signs: np.ndarray
    step_moments: np.ndarray  # (2, steps)

    @cached_property
    def num_shared(self) -> int:
        """How many outputs networks read before the codes; cuts have their room whether there are any or not."""
        blocks = (self.columns, self.bin_columns, self.level_columns, self.gap_columns)
        used = sum(map(len, blocks)) + max(MOST_CUTS, len(self.cut_columns))
        return 1 << (used - 1).bit_length() if used <= 512 else -(-used // 256) * 256

    @cached_property
    def num_codes(self) -> int:
        """Statistics of all codes, padded to a multiple of 8."""
        used = len(np.unique(self.code_columns)) * self.code_statistics.shape[1]
        return -(-used // 8) * 8

    @cached_property
    def width(self) -> int:
        return self.read.stop + len(self.phases) + len(self.step_places)

    @cached_property
    def read(self) -> slice:
        """What networks read of the outputs."""
        return slice(len(self.columns), len(self.columns) + self.num_shared + self.num_codes)

    @property
    def columns_used(self) -> np.ndarray:
        """The columns of the table that play a part."""
        return np.unique(
            np.concatenate([self.columns, self.level_columns, self.gap_columns, self.code_columns]).astype(int)
        )

    def without_drawn(self) -> "Encoding":
        """Without sines and steps."""
        none, depth = np.zeros(0), self.step_places.shape[1]
        return dataclasses.replace(
            self, frequencies=np.zeros((0, 0)), phases=none, step_places=np.zeros((0, depth), int),
            step_thresholds=np.zeros((0, depth)), step_signs=np.zeros((0, depth)), step_moments=np.zeros((2, 0)),
        )  # fmt: skip

    def families(self) -> dict[str, np.ndarray]:
        """The outputs (without codes) of each way to read a table, by its name; levels and gaps belong to all."""
        num, bins = len(self.columns), len(self.bin_columns)
        always = 2 * num + bins + np.arange(len(self.level_columns) + len(self.gap_columns))
        cuts = 2 * num + bins + len(always) + np.arange(len(self.cut_columns))
        bins = np.concatenate([num + np.arange(num + bins), cuts])
        ways = {"plain": np.arange(num), "clipped": num + np.arange(num), "bins": bins}
        return {name: np.concatenate([way, always]) for name, way in ways.items()}

    @cached_property
    def cuts(self) -> slice:
        """Their places among the outputs."""
        start = 2 * len(self.columns) + len(self.bin_columns) + len(self.level_columns) + len(self.gap_columns)
        return slice(start, start + len(self.cut_columns))

    def column_of_outputs(self) -> np.ndarray:
        """The column of the table that each output up to the codes reads; -1 for what reads none."""
        of_used = (self.columns, self.columns, self.bin_columns, self.level_columns, self.gap_columns, self.cut_columns)
        used = np.concatenate(of_used).astype(int)
        return np.pad(used, (0, len(self.columns) + self.num_shared - len(used)), constant_values=-1)

    def column_of_codes(self) -> np.ndarray:
        """The same for the statistics of codes, which follow."""
        owner = np.repeat(np.unique(self.code_columns), self.code_statistics.shape[1])
        return np.pad(owner, (0, self.num_codes - len(owner)), constant_values=-1)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """(N, width) in float32; finite for all finite X."""
        encoded, num = np.zeros((len(X), self.width), np.float32), len(self.columns)
        values = self.values(X)
        encoded[:, :num] = (np.clip(values, self.low, self.high) - self.plain_mean) / self.plain_deviation
        encoded[:, num : 2 * num] = (self._clipped(values) - self.mean) / self.deviation
        at = 2 * num
        for block in (
            2 * (self._bins(X) - self.bin_means),
            2 * ((X[:, self.level_columns] == self.level_values) - self.level_means),
            2 * (np.isnan(X[:, self.gap_columns]) - self.gap_means),
            2 * ((values[:, self._cut_places] > self.cut_thresholds) - self.cut_means),
        ):
            encoded[:, at : at + block.shape[1]] = block
            at += block.shape[1]
        if len(self.code_columns):
            statistics = self.statistics(X)
            at = self.read.stop - self.num_codes
            encoded[:, at : at + statistics.shape[1]] = statistics
        if len(self.phases):
            read = slice(len(self.columns), len(self.columns) + self.num_shared)
            encoded[:, self.read.stop :] = sines(encoded[:, read], self.frequencies, self.phases)
        elif len(self.step_places):
            encoded[:, self.read.stop :] = self.steps(values)
        return encoded

    def with_cuts(self, columns: np.ndarray, thresholds: np.ndarray, X: np.ndarray, weights: np.ndarray) -> "Encoding":
        """With these cuts."""
        values = self.values(X)[:, np.searchsorted(self.columns, columns)]
        means = np.average(values > thresholds, axis=0, weights=weights)
        return dataclasses.replace(self, cut_columns=columns, cut_thresholds=thresholds, cut_means=means)

    def values(self, X: np.ndarray) -> np.ndarray:
        """The columns of numbers, their medians in the place of gaps."""
        values = X[:, self.columns]
        return np.where(np.isnan(values), self.centre, values)

    def statistics(self, X: np.ndarray) -> np.ndarray:
        """What is known of each row's level of each code; 0 for levels that are not known."""
        parts = []
        for column, values, statistics in self._codes:
            known, is_known = find_levels(X[:, column], values)
            parts.append(np.where(is_known[:, None], statistics[known], 0))
        return np.hstack(parts)

    @cached_property
    def _codes(self) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Column, known levels and what is known of them, for each code."""
        columns = np.unique(self.code_columns)
        of_column = [self.code_columns == column for column in columns]
        return [(c, self.code_values[of], self.code_statistics[of]) for c, of in zip(columns, of_column, strict=True)]

    @cached_property
    def _cut_places(self) -> np.ndarray:
        """Among the columns of numbers."""
        return np.searchsorted(self.columns, self.cut_columns)

    def steps(self, values: np.ndarray) -> np.ndarray:
        """Standardised; ``values`` as the method of this name gives them."""
        is_right = values.astype(np.float64)[:, self.step_places] > self.step_thresholds
        inside = np.all(is_right == (self.step_signs > 0), axis=2)
        return ((inside - self.step_moments[0]) / self.step_moments[1]).astype(np.float32)

    def _clipped(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            z = np.clip((values - self.centre) / self.scale, -1e6, 1e6)
        return z / np.sqrt(1 + (z / CLIP) ** 2)

    def _bins(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            bins = np.clip((X[:, self.bin_columns] - self.bin_starts) / self.bin_widths, 0, 1)
        return np.where(np.isnan(bins), self.bin_means, bins)


def find_levels(values: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of each value among the sorted levels, and whether it is there. A gap is a level of its own."""
    values = np.where(np.isnan(values), -np.inf, values)
    place = np.minimum(np.searchsorted(levels, values), len(levels) - 1)
    return place, levels[place] == values


def sines(inputs: np.ndarray, frequencies: np.ndarray, phases: np.ndarray) -> np.ndarray:
    angles = inputs.astype(np.float64) @ frequencies + phases
    return np.float32(np.sqrt(2)) * np.sin(angles.astype(np.float32))


def draw_frequencies(encoded: np.ndarray, is_used: np.ndarray, num: int, random: np.random.Generator) -> np.ndarray:
    """Frequencies (d, num) of the columns that are used, such that a row's angle has about deviation 1."""
    size = np.sqrt(np.mean(np.sum(np.square(encoded[:, is_used], dtype=np.float64), axis=1)))
    drawn = random.normal(size=(encoded.shape[1], num))
    return np.where(is_used[:, None], drawn / max(size, 1e-12), 0)


def draw_steps(encoding: Encoding, values: np.ndarray, places: np.ndarray, random: np.random.Generator) -> Encoding:
    """The encoding with steps in the ``places`` (steps, depth), at thresholds between neighbours among the rows."""
    thresholds = np.empty(places.shape)
    for place in np.unique(places):
        distinct = np.unique(values[:, place])
        at = random.integers(0, len(distinct) - 1, np.count_nonzero(places == place))
        thresholds[places == place] = distinct[at] + (distinct[at + 1] - distinct[at]) / 2
    signs = random.choice([-1.0, 1.0], places.shape)
    raw = dataclasses.replace(
        encoding, step_places=places, step_thresholds=thresholds, step_signs=signs,
        step_moments=np.stack([np.zeros(len(places)), np.ones(len(places))]),
    )  # fmt: skip
    inside = raw.steps(values).astype(np.float64)
    moments = np.stack([inside.mean(axis=0), np.maximum(inside.std(axis=0), 0.1)])
    return dataclasses.replace(raw, step_moments=moments)


def fit_encoding(
    X: np.ndarray, weights: np.ndarray, is_category: np.ndarray | None = None, used: np.ndarray | None = None
) -> Encoding:
    """The encoding of a table X (N, d) whose rows have ``weights``, without codes; of the columns ``used`` alone."""
    used = np.arange(X.shape[1]) if used is None else used
    is_category = np.zeros(X.shape[1], bool) if is_category is None else is_category
    present = ~np.isnan(X)
    gap_columns = used[[0 < np.count_nonzero(present[:, c]) < len(X) for c in used]]
    columns, centre, scale, low, high = [], [], [], [], []
    for column in used[~is_category[used]]:
        values, known = X[present[:, column], column], weights[present[:, column]]
        if not len(values) or not np.ptp(values) > 1e-12 * np.abs(values).max():
            continue
        first, median, third = _quantiles(values, known, [0.25, 0.5, 0.75])
        half = (values.max() - values.min()) / 2
        columns.append(column)
        centre.append(median)
        scale.append((third - first) / 1.35 if third > first else half)
        low.append(values.min() - half)
        high.append(values.max() + half)
    num_bins = next(bins for below, bins in NUM_BINS if len(X) < below)
    num_bins = max(2, min(num_bins, MAX_WIDTH // max(len(columns), 1)))
    shares = np.linspace(0, 1, 1 + num_bins)
    edges = []
    for column in columns:
        values, known = X[present[:, column], column], weights[present[:, column]]
        distinct = np.unique(values)
        at = distinct if len(distinct) <= len(shares) else np.unique(_quantiles(values, known, shares))
        edges.append(at if len(at) > 2 else at[:1])
    columns = np.array(columns, int)
    bin_columns = np.repeat(columns, [len(e) - 1 for e in edges]).astype(int)
    starts = np.concatenate([e[:-1] for e in edges]) if edges else np.empty(0)
    widths = np.concatenate([np.diff(e) for e in edges]) if edges else np.empty(0)
    levels = {c: np.unique(X[present[:, c], c]) for c in used[is_category[used]]}
    levels = {c: at[1:] if len(at) == 2 else at for c, at in levels.items() if 1 < len(at) <= MAX_LEVELS}
    none, nothing = np.zeros(len(columns)), np.zeros((0, 0))
    raw = Encoding(
        columns, np.array(low), np.array(high), none, none + 1, np.array(centre), np.array(scale), none, none + 1,
        bin_columns, starts, widths, np.zeros(len(starts)),
        np.repeat(list(levels), [len(at) for at in levels.values()]).astype(int),
        np.concatenate([*levels.values(), []]), np.zeros(sum(map(len, levels.values()))),
        gap_columns, np.zeros(len(gap_columns)),
        np.zeros(0, int), np.zeros(0), np.zeros(0),
        np.zeros(0, int), np.zeros(0), nothing, nothing, np.zeros(0),
        np.zeros((0, 1), int), np.zeros((0, 1)), np.zeros((0, 1)), np.zeros((2, 0)),
    )  # fmt: skip
    values = raw.values(X)
    plain_mean, plain_deviation = weighted_moments(values, weights)
    mean, deviation = weighted_moments(raw._clipped(values), weights)
    bins = (X[:, bin_columns] - starts) / widths
    bins = np.where(np.isnan(bins), np.nan, np.clip(bins, 0, 1))
    bin_weights = weights[:, None] * ~np.isnan(bins)
    return dataclasses.replace(
        raw,
        plain_mean=plain_mean,
        plain_deviation=plain_deviation,
        mean=mean,
        deviation=np.where(deviation > 1e-9, deviation, 1),
        bin_means=np.nansum(bin_weights * bins, axis=0) / bin_weights.sum(axis=0),
        level_means=np.average(X[:, raw.level_columns] == raw.level_values, axis=0, weights=weights),
        gap_means=np.average(np.isnan(X[:, gap_columns]), axis=0, weights=weights),
    )


def _quantiles(values: np.ndarray, weights: np.ndarray, shares) -> np.ndarray:
    return np.quantile(values, shares, weights=weights, method="inverted_cdf")


def encoding_to_arrays(encoding: Encoding) -> dict[str, np.ndarray]:
    return {f"encoding/{field.name}": getattr(encoding, field.name) for field in dataclasses.fields(encoding)}


# The arrays that must have the shape of another one.
SHAPES = {
    "columns": "low high plain_mean plain_deviation centre scale mean deviation",
    "bin_columns": "bin_starts bin_widths bin_means",
    "level_columns": "level_values level_means",
    "gap_columns": "gap_means",
    "cut_columns": "cut_thresholds cut_means",
    "code_columns": "code_values",
    "step_places": "step_thresholds step_signs",
}


def encoding_from_arrays(arrays: dict[str, np.ndarray], num_columns: int) -> Encoding:
    """The encoding of a table of so many columns; ValueError for arrays that are none."""
    fields = {field.name: arrays[f"encoding/{field.name}"] for field in dataclasses.fields(Encoding)}
    two = ("code_statistics", "frequencies", "step_places", "step_thresholds", "step_signs", "step_moments")
    for name, array in fields.items():
        is_finite = np.isfinite(array).all() or (name == "code_values" and not np.isnan(array).any())
        if array.ndim != 1 + (name in two) or not is_finite:
            raise ValueError(f"an encoding must have finite numbers as {name}; got {array.shape}")
    for first, others in SHAPES.items():
        for name in others.split():
            if fields[name].shape != fields[first].shape:
                raise ValueError(f"an encoding must have {name} of shape {fields[first].shape}")
    for name in (
        "columns",
        "bin_columns",
        "level_columns",
        "gap_columns",
        "cut_columns",
        "code_columns",
        "step_places",
    ):
        most = len(fields["columns"]) if name == "step_places" else num_columns
        if fields[name].dtype.kind not in "iu" or not np.all((fields[name] >= 0) & (fields[name] < most)):
            raise ValueError(f"an encoding must have columns from 0 to {most - 1}; got others as {name}")
    if not np.isin(fields["cut_columns"], fields["columns"]).all() or np.any(np.diff(fields["columns"]) <= 0):
        raise ValueError("an encoding must have rising columns of numbers, and cuts of these")
    if not all(np.all(fields[name] > 0) for name in ("plain_deviation", "scale", "deviation", "bin_widths")):
        raise ValueError("an encoding must have positive scales, deviations and widths")
    encoding = Encoding(**fields)
    if encoding.frequencies.size and encoding.frequencies.shape != (encoding.num_shared, len(encoding.phases)):
        raise ValueError(f"an encoding must have a phase for each sine; got frequencies {encoding.frequencies.shape}")
    if len(encoding.code_statistics) != len(encoding.code_columns):
        raise ValueError("an encoding must have statistics of each level")
    if encoding.step_moments.shape != (2, len(encoding.step_places)) or not np.all(encoding.step_moments[1] > 0):
        raise ValueError("an encoding must have moments of each step")
    return encoding
