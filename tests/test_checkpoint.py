"""Nothing is lost: a killed run ends with the same bits; a checkpoint that does not belong is refused."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from multigrade import fit_grades, structures
from multigrade.files import read_arrays, write_arrays
from multigrade.synthetic import setting

DATA = setting(1)
STRUCTURE = structures.graded(1, [(16,), (16,)], 1)

SCRIPT = """
import sys
import numpy as np
from multigrade import Observation, Plateau, fit_grades, structures
from multigrade.synthetic import setting

class Count:
    name, every = "count", 500
    def observe(self, snapshot, carry):
        calls = np.int32(0 if carry is None else carry["calls"] + 1)
        return Observation({"calls": calls}, {"calls": calls})

data = setting(1)
fit = fit_grades(
    structures.graded(1, [(16,), (16,)], 1), data.x_train, data.y_train, num_steps=10_000, optimiser="adam",
    batch_size=256, record_every=100, validation=(data.x_validation, data.y_validation), observers=[Count()],
    stopping=Plateau(20, 1e-9), checkpoint=sys.argv[1], checkpoint_every=0.0, residual_scaling=True,
)
print("done")
"""


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


def fit(path, **options):
    arguments = {"num_steps": 30, "record_every": 10, "checkpoint": path, **options}
    return fit_grades(STRUCTURE, DATA.x_train[::16], DATA.y_train[::16], **arguments)


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


def test_a_changed_byte_is_noticed(checkpoint):
    content = bytearray(checkpoint.read_bytes())
    content[-5] ^= 1
    checkpoint.write_bytes(content)
    with pytest.raises(ValueError, match="do not match its checksum"):
        fit(checkpoint)


def test_other_settings_other_data_and_other_versions_are_refused(checkpoint):
    with pytest.raises(ValueError, match=r"other settings \(learning_rate, seed differ\)"):
        fit(checkpoint, seed=1, learning_rate=0.1)
    with pytest.raises(ValueError, match=r"other settings \(data differ\)"):
        fit_grades(
            STRUCTURE, DATA.x_train[1::16], DATA.y_train[::16], num_steps=30, record_every=10, checkpoint=checkpoint
        )
    arrays, header, _ = read_arrays(checkpoint, "checkpoint")
    write_arrays(checkpoint, "checkpoint", arrays, {**header, "jax": "0.0.1"})
    with pytest.raises(ValueError, match=r"with jax 0\.0\.1"):
        fit(checkpoint)


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
