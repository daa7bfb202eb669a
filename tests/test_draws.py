"""The authors' draws: bits against stored numbers, laws against stax, nothing left of JAX's own configuration."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multigrade import draws, structures
from multigrade.networks import MultiScaleNetwork, relu, relu_half
from multigrade.synthetic import PHI, setting


def digest(*arrays) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(a, np.float32).tobytes() for a in arrays)).hexdigest()[:16]


@pytest.mark.parametrize("number", [1, 2])
def test_phases_are_the_recorded_ones_to_all_digits(number):
    drawn = draws.uniform(0, (len(PHI[number]),), high=2 * np.pi)
    assert [f"{value:.7f}" for value in drawn] == [f"{np.float32(value):.7f}" for value in PHI[number]]


# uniform numbers are shifts of the generator's bits, the same everywhere; normal ones go through erfinv
def test_bits_of_the_draws_are_the_stored_ones():
    assert draws.uniform(1, (1, 1024))[0, :3].view(np.uint32).tolist() == BITS["validation"]
    first, *_ = draws.from_chain(structures.MGDL_1)
    weights = first.init(jax.random.key(7))
    np.testing.assert_allclose(weights[0].weight[0, :3], BITS["chain"], rtol=2e-7)
    second = draws.from_stax(structures.MGDL_2)[1].init(jax.random.key(7))
    np.testing.assert_allclose(second[0].weight[0, :3], BITS["stax"], rtol=2e-7)
    np.testing.assert_allclose(draws.normal(0, (2, 2)).ravel()[:3], BITS["noise"], rtol=2e-7)


BITS = {
    "validation": [1042977832, 1041145512, 1059750366],
    "chain": [-0.7796509265899658, -2.0601112842559814, -1.139163851737976],
    "stax": [0.020065557211637497, -0.087788887321949, -0.033272746950387955],
    "noise": [1.8160862922668457, -0.7548851370811462, 0.3398890793323517],
}


@pytest.mark.parametrize("partitionable", [True, False])
@pytest.mark.parametrize("wide", [True, False])
def test_draws_do_not_depend_on_the_configuration(partitionable, wide):
    network = draws.from_chain(structures.MGDL_1)[1]
    expected = [np.asarray(leaf) for leaf in jax.tree.leaves(network.init(jax.random.key(0)))]
    with jax.threefry_partitionable(partitionable), jax.enable_x64(wide):
        found = [np.asarray(leaf) for leaf in jax.tree.leaves(network.init(jax.random.key(0)))]
        points = draws.uniform(1, (5,))
    assert digest(*found) == digest(*expected)
    assert all(leaf.dtype == np.float32 for leaf in found)
    assert digest(points) == digest(draws.uniform(1, (5,)))


def test_every_grade_starts_from_the_key_anew_and_scales_from_one_chain():
    second, third = (network.init(jax.random.key(0)) for network in draws.from_chain(structures.MGDL_1)[1:3])
    assert digest(*jax.tree.leaves(second)) == digest(*jax.tree.leaves(third))
    (network,) = draws.from_chain(structures.MSDL)
    assert isinstance(network, MultiScaleNetwork)
    scales = network.init(jax.random.key(0))
    assert len({digest(*jax.tree.leaves(scale)) for scale in scales}) == 4
    (single,) = draws.from_chain(structures.graded(1, [(8,) * 4], 1))
    assert digest(*jax.tree.leaves(scales[0])) == digest(*jax.tree.leaves(single.init(jax.random.key(0))))


def test_stax_draws_what_stax_draws():
    stax = pytest.importorskip("jax.example_libraries.stax")
    with draws.original_threefry():
        init, _ = stax.serial(stax.Dense(16), stax.Relu, stax.Dense(4), stax.Relu, stax.Dense(1))
        _, expected = init(jax.random.PRNGKey(0), (-1, 2))
    (network,) = draws.from_stax(structures.graded(2, [(16, 4)], 1))
    for layer, parts in zip(network.init(jax.random.key(3)), filter(None, expected), strict=True):
        np.testing.assert_array_equal(layer.weight, parts[0])
        np.testing.assert_array_equal(layer.bias, parts[1])


def test_copies_differ_by_a_unit_in_the_last_place_and_seeds_by_everything():
    first, other, seed = (
        np.asarray(draws.from_chain(structures.MGDL_1, **given)[1].init(jax.random.key(0))[0].weight)
        for given in ({}, {"copy": 3}, {"seed": 1})
    )
    assert 0 < np.max(np.abs(other / first - 1)) < 5e-7
    assert np.mean(np.abs(seed - first)) > 0.1


def test_validation_points_are_the_authors():
    """Half the mean square of the target on them and on the training points: 1.134, as recorded losses ask for."""
    data = setting(1)
    assert np.mean(data.y_validation**2) / np.mean(data.y_train**2) == pytest.approx(1.134, abs=5e-4)


def test_noise_is_added_in_single_precision_and_scales_with_its_level():
    image = np.linspace(0, 1, 512 * 512).reshape(512, 512)
    errors = [np.mean((draws.noisy(image, level) - np.float32(image)) ** 2) for level in (10, 20)]
    assert -10 * np.log10(errors[0]) == pytest.approx(28.12138455, abs=1e-6)  # recorded for Butterfly
    assert errors[1] / errors[0] == pytest.approx(4, rel=1e-5)


def test_the_derivative_of_relu_half_is_that_of_maximum():
    z = jnp.array([-2.0, -0.0, 0.0, 1e-30, 3.0])
    np.testing.assert_array_equal(relu_half(z), relu(z))
    np.testing.assert_array_equal(jax.vmap(jax.grad(relu_half))(z), [0, 0.5, 0.5, 1, 1])
    np.testing.assert_array_equal(jax.vmap(jax.grad(relu_half))(z), jax.vmap(jax.grad(lambda z: jnp.maximum(z, 0)))(z))
    np.testing.assert_array_equal(jax.vmap(jax.grad(relu))(z), [0, 0, 0, 1, 1])
    np.testing.assert_array_equal(jax.vmap(jax.grad(jax.grad(relu_half)))(z), 0)


def test_an_undrawn_model_is_of_plain_networks():
    from multigrade.networks import Network
    from multigrade.training import Plan, fit_grades

    x = np.linspace(0, 1, 16)[:, None]
    fit = fit_grades(draws.from_chain(structures.graded(1, [(4,), (4,)], 1)), x, x, Plan(5, "gd", 0.01))
    plain = draws.undrawn(fit.model)
    assert [type(grade.network) for grade in plain.grades] == [Network, Network]
    np.testing.assert_array_equal(plain(x), fit.model(x))
