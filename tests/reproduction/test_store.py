"""A result is there whole or not at all; what is damaged is noticed; nothing in a file is trusted."""

import json
import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest

from multigrade.training.record import Outcome, RunRecord
from multigrade_paper import store as store_module
from multigrade_paper.job import Job, Result
from multigrade_paper.store import Store, StoreError

from .small import contents

JOB = Job("item", "kind", {"method": "MGDL", "rate": 0.1, "rates": [1, 2]}, "data")


def result(scale: float = 1.0) -> Result:
    generator = np.random.default_rng(0)
    columns = {"step": np.arange(5, dtype=np.int32), "train_loss": generator.uniform(size=5).astype(np.float32)}
    seen = {"spectrum": {"step": np.arange(2), "smallest": generator.normal(size=(2, 3))}}
    record = RunRecord(columns, seen, Outcome.PLATEAU, "a sentence", 40, seconds=1.5)
    pictures = {"grey 1": generator.uniform(size=(6, 7)), "colour": generator.uniform(size=(6, 7, 3))}
    metrics = {"psnr": 30.125, "grades": [1.0, 2.0], "none": None, "seconds": 2.5}
    return Result(metrics, (record, record), {"curve": scale * generator.normal(size=100)}, pictures)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "runs")
    store.save(JOB, result(), {"seconds": 3.0, "threads": 1})
    return store


def test_a_result_comes_back_as_it_was(store):
    saved, expected = store.load(JOB.key), result()
    assert saved.job == JOB
    assert saved.result.metrics == expected.metrics
    assert saved.info["seconds"] == 3.0
    assert set(saved.info["versions"]) == {"multigrade", "jax", "numpy", "python"}
    np.testing.assert_array_equal(saved.result.arrays["curve"], expected.arrays["curve"])
    for ours, theirs in zip(saved.result.records, expected.records, strict=True):
        assert (ours.outcome, ours.sentence, ours.num_steps, ours.seconds) == (Outcome.PLATEAU, "a sentence", 40, 1.5)
        np.testing.assert_array_equal(ours.train_loss, theirs.train_loss)
        np.testing.assert_array_equal(
            ours.observations["spectrum"]["smallest"], theirs.observations["spectrum"]["smallest"]
        )
    for name, picture in expected.pictures.items():
        np.testing.assert_allclose(saved.result.pictures[name], picture, atol=0.5 / 255 + 1e-9)
    assert [s.job.key for s in store.all()] == [JOB.key]


def test_equal_results_are_equal_byte_for_byte_in_another_process(store, tmp_path):
    code = f"""
import sys
from tests.reproduction.test_store import JOB, result
from multigrade_paper.store import Store
Store({str(tmp_path / "other")!r}).save(JOB, result(), {{"seconds": 4.0}})
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert contents(store.path) == contents(tmp_path / "other")
    assert len(contents(store.path)) == 4


@pytest.mark.parametrize("name", ["result.json", "run.json", "arrays.safetensors", "grey 1.png"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "empty"])
def test_damage_is_noticed_and_said(store, name, damage):
    path = store.path / JOB.key / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"flipped": content, "cut": content[:-3], "empty": b""}[damage])
    for look in (store.check, store.load):
        with pytest.raises(ValueError, match=f"result {JOB.key} is damaged"):
            look(JOB.key)
    assert list(store.all()) == []
    assert list(store.damaged()) == [JOB.key]


def resigned(store, **changes) -> None:
    """The result with other contents and a checksum that fits, as an attacker would write it."""
    path = store.path / JOB.key / "result.json"
    content = {k: v for k, v in json.loads(path.read_text()).items() if k != "sha256"} | changes
    store_module._write_json(path, content)


def test_paths_in_files_are_not_followed(store):
    secret = store.path.parent / "secret.png"
    (store.path / JOB.key / "grey 1.png").rename(secret)
    digest = store_module._sha256(secret)
    resigned(store, files={"../../secret.png": digest})
    with pytest.raises(ValueError, match="is not one of its files"):
        store.load(JOB.key)
    (store.path / JOB.key / "link.png").symlink_to(secret)
    resigned(store, files={"link.png": digest})
    with pytest.raises(ValueError, match="is not one of its files"):
        store.load(JOB.key)
    for key in ("../secret", "", "x" * 20, JOB.key.upper()):
        with pytest.raises(ValueError, match="20 hexadecimal digits"):
            store.load(key)
    with pytest.raises(ValueError, match="not a file of a result"):
        store.put(JOB.key, {"../out.png": b""})


def test_a_result_that_holds_another_job_or_is_of_other_numerics_is_refused(store):
    resigned(store, numerics=0)
    with pytest.raises(ValueError, match="other numerics"):
        store.load(JOB.key)
    resigned(store, numerics=store_module.NUMERICS, job={"item": "", "kind": "another", "settings": {}, "data": ""})
    with pytest.raises(ValueError, match="holds another job"):
        store.load(JOB.key)


def test_pictures_and_arrays_with_bad_names_are_refused_and_nothing_is_left(tmp_path):
    store = Store(tmp_path / "runs")
    with pytest.raises(ValueError, match="picture's name"):
        store.save(JOB, result()._replace(pictures={"../x": np.zeros((3, 3))}), {})
    assert store.keys() == []


def test_a_save_that_is_cut_short_leaves_no_result(store, monkeypatch):
    store.remove([JOB.key])
    calls = []

    def fail(path):
        calls.append(path)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_module, "_sync", fail)
    with pytest.raises(StoreError, match="cannot be written: No space left on device; finished results are kept"):
        store.save(JOB, result(), {})
    assert store.keys() == []
    monkeypatch.undo()
    store.save(JOB, result(), {"seconds": 1.0})
    assert store.load(JOB.key).job == JOB


def test_a_full_disk_is_one_line_and_loses_nothing(store, tmp_path):
    code = f"""
import resource
from tests.reproduction.test_store import JOB, result
from multigrade_paper.job import Job
from multigrade_paper.store import Store
store = Store({str(store.path)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))
large = result()._replace(arrays={{"large": __import__("numpy").zeros(10_000)}})
store.save(Job("item", "kind", {{}}), large, {{}})
"""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] in (resource.RLIM_INFINITY, -1)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "StoreError: the store" in done.stderr.splitlines()[-1]
    assert "cannot be written: File too large; finished results are kept" in done.stderr
    assert store.keys() == [JOB.key]
    assert store.load(JOB.key).result.metrics["psnr"] == 30.125


def test_a_store_that_cannot_be_written_or_is_not_there_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="must be a folder"):
        Store(tmp_path / "file")
    with pytest.raises(ValueError, match="does not exist; create it first"):
        Store(tmp_path / "none" / "runs")
    with pytest.raises(ValueError, match="there is no store at"):
        Store(tmp_path / "none", create=False)
    if sys.platform == "linux":  # a place where not even root can write
        with pytest.raises(StoreError, match="cannot be written"):
            Store("/proc/multigrade-runs")


def test_a_result_sent_elsewhere_is_the_same(store, tmp_path):
    other = Store(tmp_path / "other")
    files = store.files(JOB.key)
    other.put(JOB.key, files)
    assert other.files(JOB.key) == files
    with pytest.raises(ValueError, match=f"result {JOB.key} is damaged: arrays.* does not match its checksum"):
        other.put(JOB.key, {**files, "arrays.safetensors": b"wrong"})
    assert other.files(JOB.key) == files  # what was there is kept


@pytest.mark.parametrize(
    ("name", "lacking"), [("result.json", "files"), ("result.json", "job"), ("run.json", "timings")]
)
def test_files_that_lack_something_are_damaged_though_their_checksum_is_right(store, name, lacking):
    path = store.path / JOB.key / name
    content = json.loads(path.read_text())
    store_module._write_json(path, {k: v for k, v in content.items() if k not in (lacking, "sha256")})
    with pytest.raises(ValueError, match=f"result {JOB.key} is damaged: KeyError, '{lacking}'"):
        store.load(JOB.key)
    assert list(store.all()) == []


HOLDER = """
import sys, time
from multigrade_paper.store import Store
with Store(sys.argv[1]).lock(sys.argv[2]) as is_ours:
    print(is_ours, flush=True)
    time.sleep(600)
"""


def test_a_job_is_one_process_s_until_that_ends_or_is_killed(store):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, store.path, JOB.key], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "True\n"
        with store.lock(JOB.key) as is_ours:
            assert not is_ours
        with pytest.raises(ValueError, match=f"job {JOB.key} is being done by another process"):
            store.remove([JOB.key])
        assert store.load(JOB.key).job == JOB
        os.kill(holder.pid, signal.SIGKILL)
        with store.lock(JOB.key, wait=True) as is_ours:
            assert is_ours
    finally:
        holder.kill()
        holder.communicate()
    with store.lock(JOB.key) as is_ours:
        assert is_ours
    assert list((store.path / ".work").glob("*.lock")) == []


def test_checkpoints_of_other_versions_threads_or_damaged_ones_are_not_used(store):
    first = store.checkpoint(JOB.key, threads=1)
    first.write_bytes(b"not a checkpoint")
    assert not store.checkpoint(JOB.key, threads=1).exists()
    first.write_bytes(b"")
    assert store.checkpoint(JOB.key, threads=2) != first
    assert not first.exists()
    store.save(JOB, result(), {})
    assert not (store.path / ".work" / JOB.key).exists()
