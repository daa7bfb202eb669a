"""docs/errata.md, main text: what a number can check of it."""

import jax
import jax.numpy as jnp
import numpy as np

from multigrade.curvature import dense_hessian
from multigrade.networks import Network
from multigrade.synthetic import setting
from multigrade_paper.claims.reconstruction import PAPER


def test_a_bounded_sum_need_not_converge():
    """The second term of the proof of Theorem 4 for A = tau I and u^m = (-1)^m."""
    tau, sums = 0.9, [0.0]
    for m in range(400):
        sums.append(tau * sums[-1] + (-1) ** m)
    limits = np.array(sums[-2:])
    assert np.abs(sums).max() <= 1 / (1 - tau)
    np.testing.assert_allclose(np.abs(limits), 1 / (1 + tau), rtol=1e-9)
    assert limits[0] * limits[1] < 0  # two limit points


def test_a_product_of_k_matrices_has_k_factors():
    matrices = [0.9 * np.eye(2)] * 5
    np.testing.assert_allclose(np.linalg.norm(np.linalg.multi_dot(matrices), 2), 0.9**5)


def test_lagranges_remainder_has_no_common_point():
    """grad F = (w1^3, w2^4) from (0, 0) to (1, 1): the two components need t = 1/3 and t = 6^-1/2."""
    loss = lambda w: w[0] ** 4 / 4 + w[1] ** 5 / 5  # noqa: E731
    third = jax.jacfwd(jax.jacfwd(jax.grad(loss)))
    step = np.ones(2)
    with jax.enable_x64(True):
        remainder = np.asarray(jax.grad(loss)(jnp.ones(2)) - jax.grad(loss)(jnp.zeros(2)))
        points = np.linspace(0, 1, 1001)
        along = jax.vmap(third)(points[:, None] * jnp.ones(2))
        found = 0.5 * np.einsum("i,tkij,j->tk", step, np.asarray(along), step)
        assert all(np.abs(found[:, k] - remainder[k]).min() < 5e-3 for k in (0, 1))  # each has its own
        assert np.abs(found - remainder).max(axis=1).min() > 0.13  # no t serves both
        weights = (1 - points)[:, None] * np.stack([2 * found[:, 0], 2 * found[:, 1]], 1)
        np.testing.assert_allclose(np.trapezoid(weights, points, axis=0), remainder, rtol=1e-5)  # the integral form


def test_the_gradient_of_a_relu_network_jumps():
    loss = lambda w: (jnp.maximum(w, 0.0) - 1.0) ** 2 / 2  # noqa: E731
    assert abs(float(jax.grad(loss)(1e-6)) - float(jax.grad(loss)(-1e-6))) > 0.99


def test_at_a_critical_point_rescaling_a_neuron_gives_eigenvalues_of_exactly_1():
    """Targets that the network itself makes: zero gradient, and a null direction of H for each hidden neuron."""
    network = Network((1, 4, 1), "relu")
    with jax.enable_x64(True):
        params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), network.init(jax.random.key(0)))
        x = jnp.linspace(-1, 1, 32)[:, None]
        y = network(params, x)
        hessian = np.asarray(dense_hessian(lambda p: 0.5 * jnp.mean((network(p, x) - y) ** 2), params))
        found = np.linalg.eigvalsh(np.eye(len(hessian)) - 0.1 * hessian)
    assert np.count_nonzero(np.abs(found - 1) < 1e-12) >= 4


def test_setting_1_has_three_frequencies_and_all_have_1024_validation_points():
    """sin(2 pi 5.5 x) is in the span of what the target leaves when 1 and 10 are taken out; 5 is not."""
    for number in (1, 2):
        assert len(setting(number).x_validation) == 1024
    x, y = setting(1).x_train[:, 0], setting(1).y_train[:, 0]

    def left(frequencies):
        waves = [wave(2 * np.pi * k * x) for k in frequencies for wave in (np.sin, np.cos)]
        return np.linalg.lstsq(np.stack(waves, 1), y, rcond=None)[1].sum()

    assert left((1, 5.5, 10)) < 1e-6
    assert left((1, 5, 10)) > 10


def test_the_hessian_block_of_b1_and_w2_is_not_that_of_b1_and_b2():
    network = Network((1, 3, 2), "relu")
    params = network.init(jax.random.key(0))
    assert params[0].bias.size * params[1].weight.size != params[0].bias.size * params[1].bias.size


def test_subtitles_of_figures_6_and_9_differ_from_the_tables():
    printed = {
        "table1/chest/sgdl/test": 34.56,
        "table1/chest/mgdl/test": 38.50,
        "table2/pirate/10/sgdl": 25.13,
        "table2/pirate/10/mgdl": 29.36,
        "table2/pirate/40/sgdl": 24.47,
        "table2/pirate/50/sgdl": 24.01,
    }
    assert printed.keys() == PAPER["captions_that_differ"].keys()
    tables = {
        f"table2/pirate/{level}/{method.lower()}": value
        for method, levels in PAPER["denoise"]["pirate"].items()
        for level, value in levels.items()
    } | {f"table1/chest/{m.lower()}/test": PAPER["regression"]["chest"][m]["test"] for m in ("SGDL", "MGDL")}
    for name, value in printed.items():
        assert tables[name] == value != PAPER["captions_that_differ"][name]
