"""Nothing is lost: a killed run ends with the same bits; a checkpoint that does not belong is refused."""

import dataclasses
import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from multigrade import (
    Checkpointing,
    MultiGrade,
    Network,
    Observation,
    Outcome,
    Plan,
    Regression,
    fit_grades,
    structures,
    warmup_cosine,
)
from multigrade.curvature import SpectrumObserver
from multigrade.files import read_arrays, write_arrays
from multigrade.synthetic import setting
from multigrade.training import loop
from multigrade.training.checkpoint import Checkpoint, describe

from .small_fits import fit_with

DATA = setting(1)
STRUCTURE = structures.graded(1, [(16,), (16,)], 1)

SCRIPT = """
import sys
import numpy as np
from multigrade import Checkpointing, Observation, Plan, Plateau, Regression, fit_grades, structures
from multigrade.synthetic import setting

class Count:
    name, every = "count", 500
    def observe(self, snapshot, carry):
        calls = np.int32(0 if carry is None else carry["calls"] + 1)
        return Observation({"calls": calls}, {"calls": calls})

data = setting(1)
fit = fit_grades(
    structures.graded(1, [(16,), (16,)], 1), data.x_train, data.y_train,
    Plan(10_000, "adam", batch_size=256, record_every=100, observers=[Count()], stopping=Plateau(20, 1e-9)),
    regression=Regression(residual_scaling=True), validation=(data.x_validation, data.y_validation),
    checkpoint=Checkpointing(sys.argv[1], every=0.0),
)
print("done")
"""


def test_a_checkpoint_is_of_the_model_it_began_with(tmp_path):
    data, path = (DATA.x_train, DATA.y_train), tmp_path / "c"
    first, other = (fit_grades(STRUCTURE[:1], *data, Plan(3, seed=seed)) for seed in (0, 1))
    fit_grades(STRUCTURE, *data, Plan(3), start=first, checkpoint=path)
    with pytest.raises(ValueError, match="start differ"):
        fit_grades(STRUCTURE, *data, Plan(3), start=other, checkpoint=path)


def test_functions_that_compute_something_else_are_told_apart():
    assert describe(lambda s: 0.1 / (1 + s)) != describe(lambda s: 0.1 * (1 + s))
    assert describe(lambda s: np.sin(s)) != describe(lambda s: np.cos(s))


def start(checkpoint: Path) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(checkpoint)], stdout=subprocess.PIPE)


def contents(path: Path):
    arrays, header, _ = read_arrays(path, "checkpoint")
    for record in header["records"]:
        record.pop("seconds")
    return arrays, header


def test_a_run_killed_at_random_moments_ends_with_the_same_bits(tmp_path):
    whole, killed = tmp_path / "whole.checkpoint", tmp_path / "killed.checkpoint"
    assert start(whole).communicate(timeout=600)[0] == b"done\n"
    generator = np.random.default_rng(0)
    kills = 0
    for _ in range(2):
        process = start(killed)
        before = killed.stat().st_mtime_ns if killed.exists() else 0
        while process.poll() is None and (not killed.exists() or killed.stat().st_mtime_ns == before):
            time.sleep(0.002)
        time.sleep(generator.uniform(0, 0.4))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
    assert start(killed).communicate(timeout=600)[0] == b"done\n"
    assert kills > 0
    (arrays, header), (again, header_again) = contents(whole), contents(killed)
    assert header == header_again
    assert arrays.keys() == again.keys()
    for name in arrays:
        np.testing.assert_array_equal(arrays[name], again[name], err_msg=name)


def fit(path, structure=STRUCTURE, **options):
    arguments = {"steps": 30, "record_every": 10, "checkpoint": path, **options}
    return fit_with(structure, DATA.x_train[::16], DATA.y_train[::16], **arguments)


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "fit.checkpoint"
    fit(path)
    return path


def test_a_finished_checkpoint_gives_the_fit_back_without_training(checkpoint):
    first = fit(checkpoint)

    class Never:
        name, every = "never", None

        def observe(self, snapshot, carry):
            raise AssertionError("a step was taken")

    again = fit(checkpoint, observers=[Never()])
    np.testing.assert_array_equal(first.model(DATA.x_test), again.model(DATA.x_test))


@pytest.mark.parametrize("keep", [0, 7, 100, -1])
def test_a_truncated_checkpoint_is_refused(checkpoint, keep):
    checkpoint.write_bytes(checkpoint.read_bytes()[:keep])
    with pytest.raises(ValueError, match="is damaged"):
        fit(checkpoint)


@pytest.mark.parametrize("place", [lambda content: len(content) - 5, lambda content: content.index(b"relu")])
def test_a_changed_byte_is_noticed(checkpoint, place):
    content = bytearray(checkpoint.read_bytes())
    content[place(content)] ^= 1
    checkpoint.write_bytes(content)
    with pytest.raises(ValueError, match="do not match its checksum"):
        fit(checkpoint)


def test_other_settings_other_data_and_other_versions_are_refused(checkpoint):
    with pytest.raises(ValueError, match=r"other settings \(learning_rate, seed differ\)"):
        fit(checkpoint, seed=1, learning_rate=0.1)
    with pytest.raises(ValueError, match=r"other settings \(data differ\)"):
        fit_grades(STRUCTURE, DATA.x_train[1::16], DATA.y_train[::16], Plan(30, record_every=10), checkpoint=checkpoint)
    with pytest.raises(ValueError, match=r"other settings \(precision differ\)"), jax.enable_x64(True):
        fit(checkpoint)
    arrays, header, _ = read_arrays(checkpoint, "checkpoint")
    write_arrays(checkpoint, "checkpoint", arrays, {**header, "jax": "0.0.1"})
    with pytest.raises(ValueError, match=r"with jax 0\.0\.1"):
        fit(checkpoint)


def _power(exponent, step):
    return 0.1 / (step + 1) ** exponent


class Constant:
    def __init__(self, value):
        self.value = value

    def __call__(self, step):
        return self.value

    rate = __call__


def reading(**module):
    """A schedule that names a number of its module."""
    return eval("lambda step: (lambda: RATE)()", module)


def _recursive(rate):
    def schedule(step):
        return rate if step == 0 else schedule(0)

    return schedule


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: optax.adam(0.01), lambda: optax.adam(0.3)),
        (lambda: optax.adam(0.01), lambda: optax.adam(0.01, b1=0.8)),
        (lambda: optax.cosine_decay_schedule(0.01, 300), lambda: optax.cosine_decay_schedule(0.01, 200)),
        (
            lambda: optax.piecewise_constant_schedule(0.1, {5: 0.5}),
            lambda: optax.piecewise_constant_schedule(0.1, {5: 0.1}),
        ),
        (lambda: functools.partial(_power, 1), lambda: functools.partial(_power, 2)),
        (lambda: jax.tree_util.Partial(_power, 1), lambda: jax.tree_util.Partial(_power, 2)),
        (lambda: warmup_cosine(0.01, 100), lambda: warmup_cosine(0.02, 100)),
        (lambda: [lambda step: 0.1][0], lambda: [lambda step: 0.2][0]),
        (lambda: jax.jit(lambda step, rate=0.1: rate), lambda: jax.jit(lambda step, rate=0.2: rate)),
        (lambda: _recursive(0.1), lambda: _recursive(0.2)),
        (lambda: SpectrumObserver(50, rules=(lambda s: "no",)), lambda: SpectrumObserver(50, num=3)),
        (lambda: jnp.arange(3), lambda: jnp.arange(3) + 1),
        (lambda: Constant(0.1), lambda: Constant(0.2)),
        (lambda: Constant(0.1).rate, lambda: Constant(0.2).rate),
        (lambda: reading(RATE=0.1), lambda: reading(RATE=0.2)),
    ],
)
def test_equal_settings_are_described_alike_and_others_are_not(one, other):
    assert describe(one()) == describe(one())
    assert " at 0x" not in describe(one())
    assert describe(one()) != describe(other())


@pytest.mark.parametrize("record", [Plan(30), Regression()], ids=["plan", "regression"])
def test_every_field_of_the_records_belongs_to_the_checkpoint_but_the_time_limit(record):
    identity = record.identity(2) if isinstance(record, Plan) else record.identity()
    assert set(identity) == {field.name for field in dataclasses.fields(record)} - {"time_limit"}


@dataclasses.dataclass(frozen=True)
class Counting:
    """Records a number that is one of its settings."""

    num: int
    name, every = "counting", 10

    def observe(self, snapshot, carry):
        return Observation({"num": self.num})


def test_other_closures_and_other_observers_are_refused(tmp_path):
    path = tmp_path / "fit.checkpoint"
    options = {"optimiser": optax.adam(1.0), "learning_rate": 0.01}
    fit(path, **options, observers=[Counting(2)])
    fit(path, **options, observers=[Counting(2)])
    with pytest.raises(ValueError, match=r"other settings \(observers, optimiser differ\)"):
        fit(path, **{**options, "optimiser": optax.adam(1.0, b1=0.8)}, observers=[Counting(3)])


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Line:
    """x -> x a, and its features are x: a kind of network that the package does not know."""

    widths: tuple[int, ...] = (1, 1)
    depth = 1

    def init(self, key):
        return {"a": jax.random.normal(key, self.widths)}

    def hidden(self, params, x):
        return x

    def output(self, params, features):
        return features @ params["a"]

    def __call__(self, params, x):
        return self.output(params, x)


def test_networks_of_the_callers_own_resume_and_load_with_their_structure(tmp_path):
    own = {"structure": (Line(), Network((1, 8, 1))), "steps": 20}
    path, model_path = tmp_path / "fit.checkpoint", tmp_path / "model"
    once = fit(path, **own)
    again = fit(path, **own)
    assert [grade.network for grade in again.model.grades] == list(own["structure"])
    np.testing.assert_array_equal(again.model(DATA.x_test), once.model(DATA.x_test))
    once.model.save(model_path)
    with pytest.raises(ValueError, match=r"another kind \(Line\): give load its structure"):
        MultiGrade.load(model_path)
    loaded = MultiGrade.load(model_path, structure=own["structure"])
    np.testing.assert_array_equal(loaded(DATA.x_test), once.model(DATA.x_test))
    with pytest.raises(ValueError, match="structure must have 2 grades"):
        MultiGrade.load(model_path, structure=own["structure"][:1])


class Killed(Exception):
    pass


@pytest.mark.parametrize("schedule", [warmup_cosine(0.1, 60), optax.cosine_decay_schedule(0.1, 60)])
def test_a_rate_that_an_observer_set_in_place_of_a_schedule_is_resumed(tmp_path, monkeypatch, schedule):
    class Steer:
        name, every = "steer", 20

        def observe(self, snapshot, carry):
            return Observation({"rate": snapshot.learning_rate}, learning_rate=0.02 if snapshot.step == 20 else None)

    options = {"steps": 60, "learning_rate": schedule, "observers": [Steer()]}
    whole = fit(None, **options)
    save = Checkpoint.save

    def save_and_die(self, model, records, auxiliary, running):
        save(self, model, records, auxiliary, running)
        if running is not None and running["steps"][-1] >= 40:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save_and_die)
        patch.setattr(loop, "_next_num_steps", lambda *_: 10)
        with pytest.raises(Killed):
            fit(Checkpointing(tmp_path / "killed", every=0.0), **options)
    assert_same(fit(tmp_path / "killed", **options), whole)
    np.testing.assert_allclose(whole.records[0].observations["steer"]["rate"][2:], 0.02)


@pytest.mark.parametrize("num_before", [0, 1])
def test_a_grade_that_met_the_time_limit_goes_on_where_it_was(tmp_path, num_before):
    options = {"steps": 20_000, "record_every": 1000, "batch_size": 16}
    path = tmp_path / "cut"
    if num_before:
        options["start"] = fit(None, STRUCTURE[:1], **options)
    cut = fit(path, **options, time_limit=0.01)
    arrays, _, _ = read_arrays(path, "checkpoint")
    assert 0 < arrays["running/state/0"] < 20_000  # steps taken
    assert num_before or cut.outcome == Outcome.TIME_LIMIT
    assert_same(fit(path, **options), fit(None, **options))


def assert_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one.model, other.model)
    assert list(one.records) == list(other.records)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_arrays(path, "model", {"a": np.ones(3)}, {})
    old = path.read_bytes()

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_arrays(path, "model", {"a": np.zeros(3)}, {})
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["file"]
