"""One fit over several devices is the fit on one, up to rounding: run on a CPU that is made four devices."""

import os
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from multigrade import Plan, fit_grades, structures
from multigrade.training.devices import filled, spread_over

SCRIPT = """
import dataclasses
import jax, jax.numpy as jnp, numpy as np
from multigrade import Plan, Regression, fit_grades, structures
from multigrade.networks import Network
from multigrade.training.objectives import LeastSquares, Rows
from multigrade.synthetic import setting
from multigrade.training.devices import spread_over

data = setting(1)
x, y = data.x_train[:1001], data.y_train[:1001]  # no multiple of 2 or 4
structure = structures.graded(1, [(8,), (8,)], 1)
plan = Plan(60, learning_rate=1e-3, record_every=20)
metrics = {"mean": lambda p, t: jnp.mean((p - t) ** 2)}
whole = dict(validation=(data.x_validation[:77], data.y_validation[:77]), plan=plan,
             regression=Regression(1e-3, residual_scaling=True, standardise_features=True, metrics=metrics))
batches = dict(plan=dataclasses.replace(plan, batch_size=130), sample_weight=np.linspace(0, 1, 1001))
cases = [("full batch", 2, 4, whole), ("first grade", 1, 2, whole), ("random batches", 1, 4, batches)]
for name, grades, devices, options in cases:
    one = fit_grades(structure[:grades], x, y, **options)
    several = fit_grades(structure[:grades], x, y, devices=devices, **options)
    for ours, theirs in zip(several.records, one.records, strict=True):
        for column in theirs.columns:
            np.testing.assert_allclose(ours.columns[column], theirs.columns[column], rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(several.model(x), one.model(x), atol=1e-5)
    print(name, devices)

# The gradient that a step takes is that of the loss that observers differentiate, and both are one device's.
network = Network((1, 8, 1))
params, rows = network.init(jax.random.key(0)), Rows(jnp.asarray(x), jnp.asarray(y))
plain, spread = LeastSquares(network, 1e-2), spread_over(4, len(x))
ours = spread.objective(plain)
(loss, _), gradient = jax.jit(ours.value_and_grad)(params, (), spread.place(rows._replace(weights=jnp.ones(len(x)))))
differentiated = jax.jit(jax.grad(lambda p: ours(p, (), rows)[0]))(params)
(expected, _), slope = plain.value_and_grad(params, (), rows)
np.testing.assert_allclose(loss, expected, rtol=1e-6)
for a, b, c in zip(*map(jax.tree.leaves, (gradient, differentiated, slope)), strict=True):
    np.testing.assert_allclose(a, c, atol=1e-6)
    np.testing.assert_allclose(b, c, atol=1e-6)
shares = {len(shard.data) for shard in spread.place(rows.inputs).addressable_shards}
print("shares", shares)
"""


def test_random_batches_by_weight_are_the_same_on_a_device_given_by_number():
    x = np.linspace(0, 1, 40, dtype=np.float32)[:, None]
    weights = np.zeros(40)
    weights[:2] = 1
    plan = Plan(20, batch_size=2, learning_rate=1e-3)
    fits = [
        fit_grades(structures.graded(1, [(4,)], 1), x, x, plan, sample_weight=weights, devices=devices)
        for devices in (None, 1)
    ]
    assert [str(fit.outcome) for fit in fits] == ["finished", "finished"]
    np.testing.assert_allclose(fits[1].model(x), fits[0].model(x), atol=1e-6)


@pytest.mark.slow
def test_two_and_four_devices_give_the_fit_of_one():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    environment = {**os.environ, "XLA_FLAGS": flags.strip()}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    expected = ["full batch 4", "first grade 2", "random batches 4", "shares {251}"]
    assert done.stdout.splitlines() == expected


def test_rows_are_filled_up_with_zeros():
    np.testing.assert_array_equal(filled(np.arange(5.0), 4), [0, 1, 2, 3, 4, 0, 0, 0])
    np.testing.assert_array_equal(filled(np.ones((4, 2)), 4), np.ones((4, 2)))


def test_devices_that_are_not_there_are_refused():
    x = np.zeros((4, 1))
    structure = structures.graded(1, [(4,)], 1)
    with pytest.raises(ValueError, match=r"devices must be from 1 to \d+, .*; got 1000 .*host_platform_device_count"):
        fit_grades(structure, x, x, Plan(1), devices=1000)
    with pytest.raises(ValueError, match="devices must name at least one"):
        spread_over([], 4)


def test_a_checkpoint_belongs_to_its_devices(tmp_path):
    x, structure = np.linspace(0, 1, 8)[:, None], structures.graded(1, [(4,)], 1)
    fit_grades(structure, x, x, Plan(1), devices=jax.devices()[:1], checkpoint=tmp_path / "fit.checkpoint")
    with pytest.raises(ValueError, match=r"other settings \(devices differ\)"):
        fit_grades(structure, x, x, Plan(1), checkpoint=tmp_path / "fit.checkpoint")


@pytest.mark.slow
def test_two_processes_agree_with_one_to_the_bit_also_after_one_was_lost(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def start(name, *place, **more):
        command = [sys.executable, "-m", "tests.several_processes", str(tmp_path / name), *place]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **more}
        )

    one = start("one", XLA_FLAGS="--xla_force_host_platform_device_count=2")
    lost = [start("two", port, process, DIE="1") for process in "01"]
    told = lost[0].communicate(timeout=300)[1].splitlines()[-1]
    lost[1].communicate(timeout=300)
    assert lost[1].returncode == 3
    assert told.startswith(
        "RuntimeError: a process of the run was lost after step 20 of grade 2; start all of them again"
    )
    both = [start("two", port, process) for process in "01"]
    for process in (one, *both):
        said = process.communicate(timeout=300)
        assert process.returncode == 0, said
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    np.testing.assert_array_equal(np.load(tmp_path / "one.npy"), np.load(tmp_path / "two.npy"))
