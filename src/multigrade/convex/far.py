"""The program for inputs far from 0, neuron by neuron.

Rows (x_n, 1) with x_n = c + d_n and |d_n| much smaller than |c| are nearly parallel, and a kink between them costs |c|
times its slope: what decides is in the last digits of the rows, and Newton's steps lose it. In the coordinates

    u = p_1 (c, 1) / m + p_2 (c / |c|, -|c|) / m + (C p_3, 0),    m^2 = |c|^2 + 1, C'C = I, C'c = 0,

which keep norms, X u = p_1 (m + c'd / m) + p_2 c'd / (|c| m) + p_3'C'd is free of cancellation; its columns differ in
scale by m^2. Householder's reflections keep small rows exact beside large ones, so that two steps can be repeated:

- Every cone's best neuron max {lambda'D_i X u : u in K_i, ||u|| <= 1}, by non-negative least squares (see ``cones``).
- Non-negative factors for all neurons found so far, min 1/2 ||sum_j s_j (X u_j)_+ a_j - e||^2 + beta sum_j a_j.

The second gives a point, the first its dual bound, and the neurons that are missing.
"""

import numpy as np

from .program import ConvexProgram

FAR = 1_000  # times the spread of the inputs: m^2 beyond it
MAX_ROUNDS = 60  # of adding neurons; our choice
MAX_CONES = 1_000  # patterns; each takes about a millisecond in every round
DEPENDENT = 1e-12  # a column that others give up to this part of its length is left out
ROUNDING = 1e-12  # of a slope, relative to the sizes of its terms


def is_far(program: ConvexProgram) -> bool:
    """Whether all patterns are known, and the columns of X differ in scale so much that Newton's steps fail."""
    if not program.is_full or program.centred is None or program.num_patterns > MAX_CONES:
        return False
    centre, offsets = program.centred
    return bool(1 + centre @ centre > FAR * np.abs(offsets).max())


def rotated(program: ConvexProgram) -> tuple[np.ndarray, np.ndarray]:
    """X in the coordinates p, largest column first, and the basis V with u = V p."""
    assert program.centred is not None
    (centre, offsets), scale = program.centred, program.inputs[:, -1:]
    length = float(np.linalg.norm(centre))
    size = float(np.hypot(length, 1.0))
    unit = centre / length if length else np.eye(len(centre))[0]
    rest = np.linalg.qr(unit[:, None], mode="complete")[0][:, 1:]
    along = offsets @ unit[:, None]
    features = np.hstack([size + along * (length / size), offsets @ rest, along / size]) * scale
    first, last = np.append(centre, 1.0) / size, np.append(unit, -length) / size
    return features, np.column_stack([first, np.vstack([rest, np.zeros(rest.shape[1])]), last])


def solve_far(program: ConvexProgram, *, tolerance: float) -> tuple[np.ndarray, np.ndarray, int]:
    """Weights (outputs, 2, P, d) to a relative gap of ``tolerance`` if it can be had, duals (N, outputs), rounds."""
    features, basis = rotated(program)
    weights, duals, count = np.zeros(program.point_shape), np.zeros_like(program.targets), 0
    for k, target in enumerate(program.targets.T):
        neurons, factors, duals[:, k], rounds = _solve_output(program, features, target, tolerance)
        for (point, side, pattern), factor in zip(neurons, factors, strict=True):
            weights[k, side, pattern] += factor * (basis @ point)
        count += rounds
    return weights, duals, count


def far_norm(program: ConvexProgram, dual: np.ndarray) -> float:
    """max over all unit u of |lambda'(Xu)_+|, from above: with what rounding and merged rows may hide."""
    features, _ = rotated(program)
    norm = max(float(np.linalg.norm(point)) for point, *_ in _best_neurons(program, features, dual))
    rounding = 4 * np.finfo(float).eps * np.linalg.norm(features, axis=1)
    return norm + float(np.abs(dual) @ (rounding + 2 * program.slack))


def _solve_output(program: ConvexProgram, features: np.ndarray, target: np.ndarray, tolerance: float):
    """Neurons (unit p, side, pattern), their factors, the dual point, and the number of rounds."""
    beta, neurons, factors, dual, rounds = program.regularisation, [], np.zeros(0), target, 0
    while rounds < MAX_ROUNDS:
        found = list(_best_neurons(program, features, dual))
        norms = np.array([np.linalg.norm(point) for point, *_ in found])
        value = 0.5 * dual @ dual + beta * factors.sum()
        order = np.argsort(-norms)[: max(8, len(target))]
        new = [(found[j][0] / norms[j], *found[j][1:]) for j in order if norms[j] > beta]
        if not new or _relative_gap(value, dual, target, norms.max(), beta) <= tolerance:
            break
        rounds += 1
        # Those that are not in use are forgotten: what they gave may be had again.
        neurons = [neuron for neuron, factor in zip(neurons, factors, strict=True) if factor > 0] + new
        columns = np.column_stack([(1 - 2 * side) * np.maximum(features @ p, 0.0) for p, side, _ in neurons])
        lengths = np.linalg.norm(columns, axis=0)
        factors, dual = nonnegative_least_squares(columns / lengths, target, beta / lengths)
        factors = factors / lengths
    return neurons, factors, dual, rounds


def _relative_gap(value: float, residual, target, norm: float, beta: float) -> float:
    from .certificate import scaled_dual_value

    return (value - scaled_dual_value(residual, target, norm, beta)) / value if value > 0 else 0.0


def _best_neurons(program: ConvexProgram, features: np.ndarray, dual: np.ndarray):
    """Pi_K(+-X'D lambda) with its side and pattern, for every pattern: its length is the cone's dual norm."""
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    is_wall = np.ones(len(unit), bool) if program.is_wall is None else program.is_wall
    for number, pattern in enumerate(program.patterns):
        gradient = (pattern * dual) @ features
        constraints = (np.where(pattern, 1.0, -1.0)[:, None] * unit)[is_wall].T
        for side in (0, 1):
            goal = (1 - 2 * side) * gradient
            yield nonnegative_least_squares(-constraints, goal, np.zeros(constraints.shape[1]))[1], side, number


def nonnegative_least_squares(columns: np.ndarray, target: np.ndarray, costs: np.ndarray):
    """argmin over a >= 0 of 1/2 ||F a - e||^2 + costs'a by active sets (Lawson and Hanson, chapter 23), and e - F a."""
    factors, used, refused = np.zeros(columns.shape[1]), [], []
    residual = target
    for _ in range(3 * columns.shape[1] + 20):
        slope = columns.T @ residual - costs
        slope[used + refused] = -np.inf
        best = int(np.argmax(slope))
        if not slope[best] > ROUNDING * (np.abs(columns[:, best]) @ np.abs(residual) + costs[best]):
            break
        if (entered := _enter(columns, target, costs, factors, used, best)) is None:
            refused.append(best)
        else:
            used, refused = entered, []
            residual = _residual(columns[:, used], target, costs[used])
    return factors, residual


def _enter(columns, target, costs, factors, used: list[int], best: int) -> list[int] | None:
    """The columns in use with one more; ``factors`` are moved. None if rounding is all that it gains."""
    wider = [*used, best]
    trial = _stationary(columns[:, wider], target, costs[wider])
    if trial is None:  # it can be had from those in use, at a higher price: it takes the place of one of them
        share = np.linalg.lstsq(columns[:, used], columns[:, best], rcond=None)[0]
        if not np.any(share > DEPENDENT):
            return None
        limits = np.where(share > DEPENDENT, factors[used] / np.where(share > DEPENDENT, share, 1.0), np.inf)
        factors[used] = np.maximum(factors[used] - limits.min() * share, 0.0)
        factors[used[int(np.argmin(limits))]] = 0.0
        factors[best] = limits.min()
        wider = [j for j in wider if factors[j] > 0]
        trial = _stationary(columns[:, wider], target, costs[wider])
    if trial is None or (trial[-1] <= 0 and factors[best] == 0):
        return None
    return _walk(columns, target, costs, factors, wider, trial)


def _walk(columns, target, price, factors, used: list[int], trial) -> list[int]:
    """Move ``factors`` to the stationary point of the columns in use, dropping those that would fall below 0."""
    while np.any(trial <= 0):
        old, falls = factors[used], np.flatnonzero(trial <= 0)
        fractions = old[falls] / (old[falls] - trial[falls])
        factors[used] = np.maximum(old + fractions.min() * (trial - old), 0.0)
        factors[np.array(used)[falls[fractions <= fractions.min()]]] = 0.0
        used = [j for j in used if factors[j] > 0]
        trial = _stationary(columns[:, used], target, price[used])
        if trial is None:
            return used
    factors[used] = trial
    return used


def _stationary(columns: np.ndarray, target: np.ndarray, price: np.ndarray) -> np.ndarray | None:
    """F'(F a - e) + costs = 0 by F = QR, or None where the columns depend on each other."""
    if columns.shape[1] > columns.shape[0]:
        return None
    # Rows of one scale tell whether columns depend on each other; the equations are solved with the rows as they are.
    even = columns / np.maximum(np.abs(columns).max(axis=1, keepdims=True, initial=0.0), 1e-300)
    if np.any(np.abs(np.diagonal(np.linalg.qr(even, mode="r"))) <= DEPENDENT * np.linalg.norm(even, axis=0)):
        return None
    q, r = np.linalg.qr(columns)
    return np.linalg.solve(r, q.T @ target - np.linalg.solve(r.T, price))


def _residual(columns: np.ndarray, target: np.ndarray, price: np.ndarray) -> np.ndarray:
    """e - F a at the stationary point, part by part: the difference would lose the digits that matter."""
    q, r = np.linalg.qr(columns, mode="complete")
    inside, beyond = q[:, : columns.shape[1]], q[:, columns.shape[1] :]
    apart = beyond @ (beyond.T @ target)
    apart = beyond @ (beyond.T @ apart)  # once more: at right angles to the columns within rounding of itself
    return apart + inside @ np.linalg.solve(r[: columns.shape[1]].T, price)
