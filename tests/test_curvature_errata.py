"""docs/errata.md, checked: automatic differentiation in float64 agrees with every correction and with no printed slip.

The blocks are evaluated as the supplement writes them, sample by sample with Kronecker products, for depth 5, scalar
output and equal widths (with unequal widths several of the printed products would not even be defined).
"""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multigrade.curvature import dense_hessian
from multigrade.networks import Layer

WIDTH, ROWS, COLUMNS, BETA = 6, 4, 3, 0.7
WIDTHS = (2, WIDTH, WIDTH, WIDTH, WIDTH, 1)
RANDOM = np.random.default_rng(155)  # a draw in which every layer has units that are on for some samples only
PARAMS = tuple(Layer(RANDOM.normal(size=(i, o)), 0.3 * RANDOM.normal(size=o)) for i, o in pairwise(WIDTHS))
X = RANDOM.normal(size=(ROWS, COLUMNS, 2))
TARGETS = RANDOM.normal(size=(ROWS, COLUMNS))
U = RANDOM.normal(size=(2, ROWS, COLUMNS))


def network(params, x):
    for weight, bias in params[:-1]:
        x = jnp.maximum(x @ weight + bias, 0)
    return (x @ params[-1].weight + params[-1].bias)[..., 0]


def backward_differences(image, axis):
    """N_st - N_s(t-1) or N_st - N_(s-1)t, with N_s0 = N_s1 and N_0t = N_1t: the supplement's convention."""
    first = jax.lax.slice_in_dim(image, 0, 1, axis=axis)
    return jnp.diff(image, axis=axis, prepend=first)


def regression_loss(params):
    return 0.5 * jnp.mean((network(params, X) - TARGETS) ** 2)


def denoising_loss(params):
    image = network(params, X)
    splits = [backward_differences(image, axis) - u for axis, u in zip((1, 0), U, strict=True)]
    return 0.5 * jnp.sum((image - TARGETS) ** 2) + BETA / 2 * sum(jnp.sum(e**2) for e in splits)


HESSIANS = {"regression": dense_hessian(regression_loss, PARAMS), "denoising": dense_hessian(denoising_loss, PARAMS)}


def true_block(problem, row, column):
    """The block d2L / d column d row in the paper's order: W stacked column by column."""
    index, start = {}, 0
    for j, (inputs, outputs) in enumerate(pairwise(WIDTHS), 1):
        size = inputs * outputs
        index[f"W{j}"] = start + np.arange(size).reshape(inputs, outputs).T.ravel()
        index[f"b{j}"] = start + size + np.arange(outputs)
        start += size + outputs
    return HESSIANS[problem][np.ix_(index[row], index[column])]


def sample(s, t):
    """x, a_j, I_j, z_j and the products of one sample, by the supplement's names (zt5 is z tilde 5)."""
    q = {"x": X[s, t][:, None]}
    value, weights = X[s, t], [layer.weight for layer in PARAMS]
    for j, (weight, bias) in enumerate(PARAMS[:-1], 1):
        before = value @ weight + bias
        value = np.maximum(before, 0)
        q[f"a{j}"], q[f"I{j}"] = value[:, None], np.diag((before > 0).astype(float))
    q["N"] = float((value @ PARAMS[-1].weight + PARAMS[-1].bias)[0])
    for j in range(1, 5):
        q[f"z{j}"] = q[f"I{j}"] @ weights[j]
    masks = {"I3a3": (2, "a3", 2), "I4a4": (3, "a4", 3), "I4b3": (3, "a3", 2)}  # the printed slips: W, feature, b
    for name, (weight, feature, bias) in masks.items():
        q[name] = np.diag((q[feature][:, 0] @ weights[weight] + PARAMS[bias].bias > 0).astype(float))
    q["zt5"], q["zt7"] = q["z3"] @ q["z4"], q["z1"] @ q["z2"]
    q["zt6"], q["zt8"], q["zt9"] = q["z2"] @ q["zt5"], q["zt7"] @ q["z3"], q["z2"] @ q["z3"]
    q["z"] = q["z1"] @ q["zt6"]
    return q


SAMPLES = {(s, t): sample(s, t) for s in range(ROWS) for t in range(COLUMNS)}
FIRST = {  # the derivative of the network in each parameter
    "W1": lambda q: np.kron(q["z"], q["x"]), "b1": lambda q: q["z"],
    "W2": lambda q: np.kron(q["zt6"], q["a1"]), "b2": lambda q: q["zt6"],
    "W3": lambda q: np.kron(q["zt5"], q["a2"]), "b3": lambda q: q["zt5"],
    "W4": lambda q: np.kron(q["z4"], q["a3"]), "b4": lambda q: q["z4"],
    "W5": lambda q: q["a4"], "b5": lambda q: np.ones((1, 1)),
}  # fmt: skip


def regression_block(row, column, second):
    total = 0
    for (s, t), q in SAMPLES.items():
        total = total + second(q) * (q["N"] - TARGETS[s, t]) + FIRST[row](q) @ FIRST[column](q).T
    return total / len(SAMPLES)


def denoising_block(row, column, second, *, left_index="(s-1,t)", left_second=None, upper_second=None):
    """The supplement's sum; the options put its slips into the terms of the two neighbours."""
    total = 0
    for (s, t), q in SAMPLES.items():
        left, upper = SAMPLES[s, max(t - 1, 0)], SAMPLES[max(s - 1, 0), t]
        e1, e2, e3 = q["N"] - TARGETS[s, t], q["N"] - left["N"] - U[0, s, t], q["N"] - upper["N"] - U[1, s, t]
        u, v = FIRST[row], FIRST[column]
        factor = u(q) - u(upper if left_index == "(s-1,t)" else left)
        total = total + second(q) * e1 + u(q) @ v(q).T
        total = total + BETA * (
            (second(q) - (left_second or second)(left)) * e2 + (u(q) - u(left)) @ (v(q) - v(left)).T
        )
        total = total + BETA * ((second(q) - (upper_second or second)(upper)) * e3 + factor @ (v(q) - v(upper)).T)
    return total


def chain(name, *, transposed=None, feature=None):
    """[transposed' kron] (a product of masks and weights) [kron feature], as the second derivatives are written."""

    def second(q):
        matrix = np.linalg.multi_dot([np.eye(WIDTH), *(q[part] for part in name.split())])
        matrix = matrix if transposed is None else np.kron(q[transposed].T, matrix)
        return matrix if feature is None else np.kron(matrix, q[feature])

    return second


def zero(q):
    return 0.0


# Blocks whose second derivative is printed wrongly: (row, column, printed, correct).
WRONG_SECOND_DERIVATIVE = [
    ("W2", "W4", chain("z3 I3", transposed="z4", feature="a1"), chain("z2 I3", transposed="z4", feature="a1")),
    ("b2", "W4", chain("z3 I3", transposed="z4"), chain("z2 I3", transposed="z4")),
]


@pytest.mark.parametrize(("row", "column", "printed", "correct"), WRONG_SECOND_DERIVATIVE)
@pytest.mark.parametrize("block", [regression_block, denoising_block])
def test_z3_stands_for_z2_in_the_blocks_of_w4_with_w2_and_b2(block, row, column, printed, correct):
    expected = true_block(block.__name__.removesuffix("_block"), row, column)
    assert is_close(block(row, column, correct), expected)
    assert not is_close(block(row, column, printed), expected)


CORRECT = {  # second derivatives of the network that are not zero, rows 2 to 4
    ("W2", "W3"): chain("I2", transposed="zt5", feature="a1"), ("b2", "W3"): chain("I2", transposed="zt5"),
    ("W2", "W4"): chain("z2 I3", transposed="z4", feature="a1"), ("b2", "W4"): chain("z2 I3", transposed="z4"),
    ("W2", "W5"): chain("zt9 I4", feature="a1"), ("b2", "W5"): chain("zt9 I4"),
    ("W3", "W5"): chain("z3 I4", feature="a2"), ("b3", "W5"): chain("z3 I4"),
    ("W4", "W5"): chain("I4", feature="a3"), ("b4", "W5"): chain("I4"),
}  # fmt: skip
WRONG_NEIGHBOUR = [
    *CORRECT, ("W2", "b3"), ("W2", "b4"), ("b2", "b3"), ("b2", "b4"), ("W3", "b3"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "column"), WRONG_NEIGHBOUR)
def test_left_neighbour_stands_for_upper_neighbour_in_fifteen_denoising_blocks(row, column):
    second, expected = CORRECT.get((row, column), zero), true_block("denoising", row, column)
    assert is_close(denoising_block(row, column, second), expected)
    assert not is_close(denoising_block(row, column, second, left_index="(s,t-1)"), expected)


# Masks printed with the wrong layer, bias or feature: (row, column, printed second derivative, where it is printed).
WRONG_MASKS = [
    ("W2", "W5", chain("zt9 I3", feature="a1"), "left"), ("b2", "W5", chain("zt9 I3"), "left"),
    ("W2", "W5", chain("zt9 I4a4", feature="a1"), "upper"), ("b2", "W5", chain("zt9 I4a4"), "upper"),
    ("W2", "W4", chain("z2 I3a3", transposed="z4", feature="a1"), "upper"),
    ("b2", "W4", chain("z2 I3a3", transposed="z4"), "upper"),
    ("b2", "W5", chain("zt9 I4a4"), "regression"),
    ("W4", "W5", chain("I4b3", feature="a3"), "regression"), ("b4", "W5", chain("I4b3"), "regression"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "column", "printed", "place"), WRONG_MASKS)
def test_masks_are_printed_with_the_wrong_layer_bias_or_feature(row, column, printed, place):
    correct = CORRECT[row, column]
    if place == "regression":
        assert is_close(regression_block(row, column, correct), true_block("regression", row, column))
        assert not is_close(regression_block(row, column, printed), true_block("regression", row, column))
    else:
        block = denoising_block(row, column, correct, **{f"{place}_second": printed})
        assert not is_close(block, true_block("denoising", row, column))


def test_second_derivatives_of_rows_one_are_printed_correctly():
    for row, feature in (("W1", "x"), ("b1", None)):
        blocks = {
            "W2": chain("I1", transposed="zt6", feature=feature),
            "W3": chain("z1 I2", transposed="zt5", feature=feature),
            "W4": chain("zt7 I3", transposed="z4", feature=feature),
            "W5": chain("zt8 I4", feature=feature),
        }
        for column, second in blocks.items():
            assert is_close(regression_block(row, column, second), true_block("regression", row, column))
            assert is_close(denoising_block(row, column, second), true_block("denoising", row, column))


def test_beta_is_missing_from_the_gradient_in_w1():
    with jax.enable_x64(True):
        gradient = np.asarray(jax.grad(denoising_loss)(PARAMS)[0].weight).T.ravel()
    plain, differences = 0, 0
    for (s, t), q in SAMPLES.items():
        left, upper = SAMPLES[s, max(t - 1, 0)], SAMPLES[max(s - 1, 0), t]
        first = FIRST["W1"]
        plain = plain + first(q) * (q["N"] - TARGETS[s, t])
        differences = differences + (first(q) - first(left)) * (q["N"] - left["N"] - U[0, s, t])
        differences = differences + (first(q) - first(upper)) * (q["N"] - upper["N"] - U[1, s, t])
    assert is_close((plain + BETA * differences).ravel(), gradient)
    assert not is_close((plain + differences).ravel(), gradient)


def is_close(actual, expected) -> bool:
    return bool(np.max(np.abs(actual - expected)) <= 1e-10 * np.max(np.abs(expected)))
