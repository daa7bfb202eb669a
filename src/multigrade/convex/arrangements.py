"""Activation patterns of a ReLU neuron: the cells of the hyperplane arrangement {w : x_n'w = 0}, n = 1, ..., N.

A pattern is the boolean vector 1[Xw >= 0]. Only full-dimensional cells are kept. They suffice for the convex
program: every w, on whatever face it lies, belongs to the closed cone {(2D - I)Xw >= 0} of a full-dimensional
cell next to it, and there (Xw)_+ = DXw. So the patterns which 1[Xw >= 0] takes on faces only (all ones at w = 0;
(1, 1) on a pair of opposite rows) would add variables and change no optimum. A zero row is always 1.

All work is done in an orthonormal basis of the row space of X, where a neuron's weights may be assumed to lie:
the part of w outside it changes nothing but the norm.
"""

from math import comb

import numpy as np

ANGLE_TOLERANCE = 1e-12  # hyperplanes closer than this, in radians and with features of one scale, count as one


def row_space(inputs: np.ndarray) -> np.ndarray:
    """V (inputs x rank) with orthonormal columns that span the rows of X, so that X = (XV)V'."""
    _, singular, rows = np.linalg.svd(inputs, full_matrices=False)
    # Only what is rounding counts as zero: a feature that is small beside another may still be what matters.
    rounding = max(inputs.shape) * np.finfo(float).eps
    return rows[singular > rounding * singular.max(initial=0.0)].T


def count_patterns(num_rows: int, rank: int) -> int:
    """2 sum_{k < r} C(N - 1, k): the number of cells in general position, otherwise an upper bound.

    Parameters
    ----------
    num_rows : N, the number of hyperplanes
    rank : r, of the matrix of their normals

    Returns
    -------
    int
        The number of cells.

    Examples
    --------
    >>> count_patterns(100, 3)
    9902
    """
    return 2 * sum(comb(num_rows - 1, k) for k in range(rank)) if num_rows and rank else 1


def bound_patterns(inputs: np.ndarray) -> int:
    """``count_patterns`` of the distinct, non-zero hyperplanes of X: at least as many as there are patterns.

    Parameters
    ----------
    inputs : X, (rows, features)

    Returns
    -------
    int
        A bound on the number of patterns, before any is listed.
    """
    directions = _directions(inputs)
    return count_patterns(int(distinct_lines(directions).max()) + 1, directions.shape[1])


def enumerate_patterns(inputs: np.ndarray, *, max_patterns: int = 20_000) -> np.ndarray:
    """All distinct patterns of full-dimensional cells, (patterns x rows), sorted.

    Exact up to ``ANGLE_TOLERANCE`` in any position: zero, repeated, opposite and dependent rows are allowed. Where
    all rows are far from 0 and close to each other, shift them first, as ``convex_program`` does.
    Work and memory grow with the number of patterns, N^(r - 1); a problem whose ``bound_patterns`` exceeds
    ``max_patterns`` is refused.

    Parameters
    ----------
    inputs : X, (rows, features)
    max_patterns : where there may be more, ValueError

    Returns
    -------
    array
        Boolean, (patterns, rows): where x_n'w > 0 in a cell.
    """
    bound = bound_patterns(inputs)
    if bound > max_patterns:
        raise ValueError(
            f"inputs must have at most max_patterns = {max_patterns} patterns to be enumerated; "
            f"these can have {bound}: sample them instead"
        )
    return _unique(_cells(_directions(inputs)))


def merged_rows(inputs: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which rows stand for themselves in the enumeration of ``inputs``, and how far the others are moved.

    ``rows`` are those of ``inputs`` in other coordinates, or rescaled; a row that is merged with an earlier one moves
    to its line. In three dimensions and more, cells thinner than ``ANGLE_TOLERANCE`` may be missing as well: that much
    is added to every distance.
    """
    directions = _directions(inputs)
    label = distinct_lines(directions)
    stands_for = np.array([np.argmax(label == number) for number in label])
    is_own = (stands_for == np.arange(len(rows))) & (label >= 0)
    unit = unit_rows(rows[stands_for])
    away = np.linalg.norm(rows - np.sum(rows * unit, axis=1, keepdims=True) * unit, axis=1)
    away = np.where(label < 0, np.linalg.norm(rows, axis=1), np.where(is_own, 0.0, away))
    thin = ANGLE_TOLERANCE * np.linalg.norm(rows, axis=1).max() if directions.shape[1] > 2 else 0.0
    return is_own, away + thin


def sample_patterns(inputs: np.ndarray, num_patterns: int, *, seed: int = 0) -> np.ndarray:
    """At most ``num_patterns`` distinct patterns of random w, sorted.

    Half of the draws make w isotropic in the row space, half make Xw isotropic in the column space; the second
    half finds cells that the first rarely meets when features differ in scale. Ten draws are made per pattern
    wanted; where few cells exist, fewer patterns come back.

    Parameters
    ----------
    inputs : X, (rows, features)
    num_patterns : how many at most
    seed : of the random w

    Returns
    -------
    array
        Boolean, (patterns, rows).
    """
    if num_patterns < 1:
        raise ValueError(f"num_patterns must be at least 1; got {num_patterns!r}")
    reduced = _reduced(inputs)
    rng = np.random.default_rng(seed)
    scale = np.linalg.norm(reduced, axis=0)
    whitener = 1 / np.where(scale > 0, scale, 1.0)  # the columns of XV are orthogonal
    found = np.zeros((0, len(inputs)), bool)
    for _ in range(10):
        draws = rng.standard_normal((num_patterns, reduced.shape[1]))
        draws[1::2] *= whitener
        found = _unique(np.concatenate([found, patterns_of(reduced, draws)]))
        if len(found) >= num_patterns:
            break
    return found[np.sort(rng.permutation(len(found))[:num_patterns])]


def patterns_of(inputs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """1[Xw >= 0] for every row w of ``weights``, (weights x rows)."""
    return weights @ inputs.T >= 0


def _reduced(inputs: np.ndarray) -> np.ndarray:
    inputs = np.asarray(inputs, float)
    if inputs.ndim != 2 or not len(inputs) or not np.isfinite(inputs).all():
        raise ValueError(f"inputs must be a finite matrix with one row per point; got shape {inputs.shape}")
    return inputs @ row_space(inputs)


def _directions(inputs: np.ndarray) -> np.ndarray:
    """The reduced rows at unit length: a row of tiny sample weight has a hyperplane like any other.

    Features are brought to one scale first, which moves no row across a hyperplane, so that angles tell what differs.
    """
    inputs = np.asarray(inputs, float)
    largest = np.abs(inputs).max(axis=0, initial=0.0)
    return unit_rows(_reduced(inputs / np.where(largest > 0, largest, 1.0)))


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """The rows at unit length; those that are 0 stay."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)


def _unique(patterns: np.ndarray) -> np.ndarray:
    """Distinct rows, sorted; compared as packed bits, which is eight times less to sort."""
    if not patterns.shape[1]:
        return patterns[:1]
    packed = np.ascontiguousarray(np.packbits(patterns, axis=1))
    _, first = np.unique(packed.view(np.dtype((np.void, packed.shape[1]))).ravel(), return_index=True)
    return patterns[first]


def distinct_lines(rows: np.ndarray) -> np.ndarray:
    """Number of the hyperplane of each row, counted in order of appearance; -1 for zero rows."""
    norms = np.linalg.norm(rows, axis=1)
    is_zero = norms <= ANGLE_TOLERANCE * norms.max(initial=0.0)
    unit = rows / np.where(is_zero, 1.0, norms)[:, None]
    label, count = np.full(len(rows), -1), 0
    for n in range(len(rows)):
        if label[n] < 0 and not is_zero[n]:
            # The distance to the line through row n; 1 - cos^2 would lose half of the digits.
            away = np.linalg.norm(unit - np.outer(unit @ unit[n], unit[n]), axis=1)
            label[(away <= ANGLE_TOLERANCE) & ~is_zero & (label < 0)] = count
            count += 1
    return label


def _cells(rows: np.ndarray) -> np.ndarray:
    """Patterns of all cells of the arrangement of ``rows`` (of full column rank), possibly repeated.

    Every cell of dimension 3 or more has a facet, and a facet on hyperplane m is a cell of the arrangement which
    the other hyperplanes cut out of m, one dimension lower; each facet bounds two cells, one on either side.
    """
    dimension = rows.shape[1]
    if not np.any(rows):  # rows that are equal up to rounding leave nothing to cut
        return np.ones((1, len(rows)), bool)
    if dimension == 1:
        return patterns_of(rows, np.array([[1.0], [-1.0]]))
    if dimension == 2:
        return _planar_cells(rows)
    label = distinct_lines(rows)
    first = np.array([np.flatnonzero(label == m)[0] for m in range(label.max() + 1)])
    lines = rows[first]
    cells = _unique(np.concatenate([_cells_beside(lines, m) for m in range(len(lines))]))
    return _spread(cells, rows, lines, label)


def _cells_beside(lines: np.ndarray, m: int) -> np.ndarray:
    """Patterns of the cells that have a facet on hyperplane m."""
    complement = np.linalg.qr(lines[m][:, None], mode="complete")[0][:, 1:]
    facets = _unique(_cells(np.delete(lines, m, axis=0) @ complement))
    return np.concatenate([np.insert(facets, m, side, axis=1) for side in (False, True)])


def _spread(cells: np.ndarray, rows: np.ndarray, lines: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Patterns over all rows from patterns over distinct hyperplanes; opposite rows get opposite signs."""
    same_side = np.sum(rows * lines[label], axis=1) > 0
    return np.where(label < 0, True, cells[:, label] == same_side)


def _planar_cells(rows: np.ndarray) -> np.ndarray:
    """In the plane the cells are the gaps between the sorted directions of the lines x_n'w = 0."""
    norms = np.linalg.norm(rows, axis=1)
    is_zero = norms <= ANGLE_TOLERANCE * norms.max(initial=0.0)
    angles = np.sort(np.arctan2(rows[~is_zero, 0], -rows[~is_zero, 1]) % np.pi)
    gaps = np.diff(angles, append=angles[0] + np.pi)
    middles = (angles + gaps / 2)[gaps > ANGLE_TOLERANCE]
    middles = np.concatenate([middles, middles + np.pi])
    cells = patterns_of(rows, np.stack([np.cos(middles), np.sin(middles)], axis=1))
    cells[:, is_zero] = True
    return cells
