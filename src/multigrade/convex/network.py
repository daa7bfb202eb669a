"""Theorem 3's construction: from a point of the convex program to a two-layer network.

A group u_i of output k becomes a neuron (w, a) = (u_i / sqrt||u_i||, sqrt||u_i||), a group v_i one with a < 0; then
a (Xw)_+ = D_i X u_i because u_i is in its cone, and beta/2 (||w||^2 + a^2) = beta ||u_i||. The last entry of w is
the bias of the neuron where the program has one; the output layer has none.

Parameters are float64 numpy arrays in the package's own ``Layer``; networks of JAX take them as they are and compute
in whatever precision is switched on.
"""

import numpy as np

from ..networks import Layer, Network
from .certificate import ConvexSolution

SMALLEST_NEURON = 1e-9  # groups below this fraction of their output's sum of norms are solver noise, and are dropped
PARALLEL = 1e-10  # neurons of one output and sign whose unit vectors are closer than this are merged


def to_network(solution: ConvexSolution) -> tuple[Network, tuple[Layer, Layer]]:
    """The network of a solution, with at most m* neurons, m* the number of non-zero groups.

    Neurons of one output and sign on one ray (from cells that share a face) are merged, which changes neither the
    function nor the objective. The zero solution becomes one neuron with zero weights.

    Parameters
    ----------
    solution : what a solver returned

    Returns
    -------
    tuple
        The ``Network`` and its parameters, hidden layer and output layer.
    """
    program, weights = solution.program, solution.weights
    norms = np.linalg.norm(weights, axis=-1)
    output, side, pattern = np.nonzero(norms > SMALLEST_NEURON * norms.sum(axis=(1, 2), keepdims=True))
    vectors, labels = _merged(weights[output, side, pattern], np.stack([output, side], axis=1))
    roots = np.sqrt(np.linalg.norm(vectors, axis=1))
    hidden = (vectors / roots[:, None]).T if len(vectors) else np.zeros((vectors.shape[1], 1))
    outer = np.zeros((hidden.shape[1], program.targets.shape[1]))
    outer[np.arange(len(vectors)), labels[:, 0]] = np.where(labels[:, 1] == 0, roots, -roots)
    weight, bias = (hidden[:-1], hidden[-1]) if program.has_bias else (hidden, np.zeros(hidden.shape[1]))
    network = Network((weight.shape[0], *outer.shape))
    return network, (Layer(weight, bias), Layer(outer, np.zeros(outer.shape[1])))


def network_objective(
    params: tuple[Layer, Layer], inputs, targets, *, regularisation: float, sample_weight=None
) -> float:
    """1/2 sum_n s_n ||N(x_n) - e_n||^2 + beta/2 sum_j (||w_j||^2 + b_j^2 + ||a_j||_1^2): the non-convex objective.

    Parameters
    ----------
    params : hidden and output layer of a two-layer ReLU network
    inputs : (points, features)
    targets : (points,) or (points, outputs)
    regularisation : beta
    sample_weight : (points,), factors of the squared errors

    Returns
    -------
    float
        In double precision.
    """
    hidden, outer = params
    error = evaluate(params, inputs) - np.reshape(targets, (len(inputs), -1))
    weight = np.ones(len(error)) if sample_weight is None else np.asarray(sample_weight, float)
    penalty = np.sum(hidden.weight**2) + np.sum(hidden.bias**2) + np.sum(np.abs(outer.weight).sum(axis=1) ** 2)
    return float(0.5 * np.sum(weight[:, None] * error**2) + 0.5 * regularisation * penalty)


def hidden_features(params: tuple[Layer, Layer], inputs) -> np.ndarray:
    """(xW + b)_+ in float64."""
    return np.maximum(np.asarray(inputs, float) @ params[0].weight + params[0].bias, 0.0)


def evaluate(params: tuple[Layer, Layer], inputs) -> np.ndarray:
    """The network's output in float64."""
    return hidden_features(params, inputs) @ params[1].weight + params[1].bias


def _merged(vectors: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the vectors that share a ray and a label, in order of first appearance."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    sums: list[np.ndarray] = []
    leaders: list[int] = []
    for j, vector in enumerate(vectors):
        same = np.all(labels[leaders] == labels[j], axis=1) & (
            np.linalg.norm(unit[leaders] - unit[j], axis=1) <= PARALLEL
        )
        if np.any(same):
            sums[int(np.argmax(same))] += vector
        else:
            leaders.append(j)
            sums.append(vector.copy())
    return np.array(sums).reshape(-1, vectors.shape[1]), labels[leaders]
