"""Files: written whole, locked, kept as private as they were, and never trusted."""

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from multigrade import MultiGradeRegressor, cli, files, load_estimator
from multigrade.files import FORMAT, alone_with, atomic_path, printable, read_arrays, remove_checkpoint, write_arrays
from multigrade.model import MultiGrade

from .small_fits import SMALL, fit


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o664, 0o755])
def test_a_file_that_is_written_over_keeps_its_permissions(kept, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_text("old")
    path.chmod(kept)
    with atomic_path(path) as temporary:
        assert mode(temporary) == kept  # before there is anything in it to read
        temporary.write_text("new")
    assert (mode(path), path.read_text()) == (kept, "new")


def test_a_link_is_replaced_and_what_it_points_to_stays(tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    with atomic_path(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert not (tmp_path / "link").is_symlink()
    assert ((tmp_path / "target").read_text(), (tmp_path / "link").read_text()) == ("old", "new")


def test_what_is_exchanged_between_check_and_use_is_not_written_through(tmp_path):
    (tmp_path / "theirs").write_text("theirs")
    with atomic_path(tmp_path / "out") as temporary:
        temporary.write_text("ours")
        (tmp_path / "out").symlink_to("theirs")
    assert ((tmp_path / "theirs").read_text(), (tmp_path / "out").read_text()) == ("theirs", "ours")
    (tmp_path / "folder").mkdir()

    def write_where_the_folder_vanishes():
        with atomic_path(tmp_path / "folder" / "out") as temporary:
            shutil.rmtree(temporary.parent)

    with pytest.raises(FileNotFoundError):
        write_where_the_folder_vanishes()
    assert sorted(os.listdir(tmp_path)) == ["out", "theirs"]


# ---- locks -----------------------------------------------------------------------------------------------------

HOLDER = """
import sys, time
from multigrade.files import alone_with
with alone_with(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_file_in_use_is_refused_until_its_process_ends_however_it_ends(tmp_path):
    path = tmp_path / "fit.checkpoint"
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ValueError, match="is in use by another run"), alone_with(path):
            pass
        holder.kill()
    assert os.listdir(tmp_path) == [".fit.checkpoint.lock"]  # stale
    with alone_with(path), pytest.raises(ValueError, match="is in use by another run"), alone_with(path):
        pass
    assert os.listdir(tmp_path) == []


def test_a_lock_is_never_a_link(tmp_path):
    (tmp_path / ".a.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), alone_with(tmp_path / "a"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_one_checkpoint_serves_one_fit_at_a_time(tmp_path):
    with alone_with(tmp_path / "c"), pytest.raises(ValueError, match="is in use by another run"):
        fit(SMALL[:1], checkpoint=tmp_path / "c")
    fit(SMALL[:1], checkpoint=tmp_path / "c")
    assert os.listdir(tmp_path) == ["c"]


def test_only_a_checkpoint_of_this_process_is_removed(tmp_path):
    theirs, ours = tmp_path / "theirs.checkpoint", tmp_path / "ours.checkpoint"
    theirs.write_text("mine")
    remove_checkpoint(theirs)
    assert theirs.read_text() == "mine"
    fit(SMALL[:1], checkpoint=ours)
    files._checkpoints.clear()  # as in another process
    fit(SMALL[:1], checkpoint=ours)  # continued
    remove_checkpoint(ours)
    assert os.listdir(tmp_path) == ["theirs.checkpoint"]


# ---- what a file says ------------------------------------------------------------------------------------------


def test_names_cannot_speak_to_the_terminal():
    assert printable("a\x1b]0;PWNED\x07 é 图.csv\n") == r"a\x1b]0;PWNED\x07 é 图.csv\n"
    assert cli._one_line(ValueError("the table has a, \x1b]0;PWNED\x07")) == r"the table has a, \x1b]0;PWNED\x07"


def safetensors(header: dict, content: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E5M2", "F8_E8M0"])
def test_numbers_that_numpy_has_not_are_refused_in_one_line(kind, tmp_path):
    (tmp_path / "a").write_bytes(safetensors({"a": {"dtype": kind, "shape": [1], "data_offsets": [0, 1]}}, b"a"))
    with pytest.raises(ValueError, match="is damaged or not a multigrade model"):
        MultiGrade.load(tmp_path / "a")


def with_description(path: Path, kind: str, text: str, arrays=None) -> None:
    """A file with a sound checksum and any text as its description."""
    arrays = arrays or {}
    write_arrays(path, kind, arrays, {})
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] |= {"description": text, "digest": files._digest(arrays, text), "format": FORMAT}
    path.write_bytes(safetensors(header, content[8 + size :]))


DEEP = "[" * 3000 + "]" * 3000
NETWORKS = '{"type": "Members", "num": 2, "sub": ' * 1000 + "{}" + "}" * 1000

NESTED = '{"sub": ' * 100 + "{}" + "}" * 100  # which Python can read, but what walks through it could not


@pytest.mark.parametrize(
    "text", [DEEP, '{"model": [' + NETWORKS + "]}", NESTED, "[1]", "3", "{", '{"a": 1e999, "a": NaN']
)
def test_descriptions_that_are_none_are_refused_in_one_line(text, tmp_path):
    with_description(tmp_path / "a", "model", text)
    with pytest.raises(ValueError, match="is damaged: its description"):
        MultiGrade.load(tmp_path / "a")


def test_thousands_of_layers_that_are_not_there_are_refused_at_once(tmp_path):
    network = {"type": "Network", "widths": [1] * 3001, "activation": "relu"}
    nested = {"type": "Members", "num": 2, "sub": {"type": "Members", "num": 2, "sub": network}}
    for described in (network, nested):
        write_arrays(tmp_path / "a", "model", {"grade0/scale": np.ones(())}, {"model": [described]})
        started = time.process_time()
        with pytest.raises(ValueError, match=r"grade 1 has 3000 layers, but 1 arrays"):
            MultiGrade.load(tmp_path / "a")
        assert time.process_time() - started < 1


@pytest.fixture(scope="module")
def model():
    x = np.linspace(-1, 1, 20)[:, None]
    return MultiGradeRegressor(2, (3,), solver="muon", max_iter=3, random_state=0).fit(x, np.abs(x[:, 0]))


def test_equal_fits_have_equal_files(model, tmp_path):
    x = np.linspace(-1, 1, 20)[:, None]
    again = MultiGradeRegressor(2, (3,), solver="muon", max_iter=3, random_state=0).fit(x, np.abs(x[:, 0]))
    model.save(tmp_path / "a")
    again.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert load_estimator(tmp_path / "a").records_ == model.records_


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters": {"loss": "no such loss"}},
        {"parameters": {"solver": 3}},
        {"parameters": {"no such parameter": 3}},
        {"feature_names": "ab"},
        {"feature_names": [1, None]},
        {"feature_names": ["a", "b"]},  # of one column
        {"target_names": {"a": 1}},
        {"target_names": [["y"]]},
    ],
    ids=str,
)
def test_parameters_and_names_of_an_estimator_are_checked(changes, model, tmp_path):
    model.save(tmp_path / "a")
    arrays, description, _ = read_arrays(tmp_path / "a", "estimator")
    if "parameters" in changes:
        changes = {"parameters": {**description["parameters"], **changes["parameters"]}}
    write_arrays(tmp_path / "a", "estimator", arrays, {**description, **changes})
    with pytest.raises(ValueError, match=r"parameter|damaged"):
        load_estimator(tmp_path / "a")


@pytest.mark.parametrize("name", ["grade0/scale", "grade0/0"])
def test_numbers_beyond_single_precision_are_refused_without_a_warning(name, model, tmp_path):
    model.save(tmp_path / "a")
    arrays, description, _ = read_arrays(tmp_path / "a", "estimator")
    write_arrays(tmp_path / "a", "estimator", {**arrays, name: np.full(arrays[name].shape, 1e300)}, description)
    with pytest.raises(ValueError, match=r"must be finite numbers|damaged"):
        load_estimator(tmp_path / "a")
