"""Every command writes all its files or none, whichever of them finds the disk full, and however often it is tried."""

import errno
import os
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multigrade.training.record import RunRecord
from multigrade_paper.job import Job, Result
from multigrade_paper.store import Store

from ..fuzz import judge, options
from .cases import dear

WRITTEN = {
    "fit good.csv --steps 2 --width 3 --grades 1 --model m.safetensors": ["m.safetensors"],
    "predict known.safetensors good.npz -o p.csv": ["p.csv"],
    "denoise good.png -o o.png --figure f.png --json j.json --quiet": ["f.png", "j.json", "o.png"],
    "solve volterra --features 40 --figure v.png --model v.safetensors --quiet": ["v.png", "v.safetensors"],
    "report store -o r.html --figures figures": ["r.html"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    options.fill(folder)
    record = RunRecord({"step": np.arange(2), "train_loss": np.array([2.0, 1.0], np.float32)}, num_steps=2)
    job = Job("own", "regression", {"task": "regress", "image": "own"})
    Store(folder / "store").save(job, Result({"test_psnr": 20.0}, (record,)), {"seconds": 0.0})
    return folder


@dear
@given(st.sampled_from(sorted(WRITTEN)), st.lists(st.integers(0, 4), max_size=2))
def test_every_command_writes_all_its_files_or_none(folder, line, full_at):
    before = judge.contents(folder)
    for number in [*full_at, None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", _full_at(number))
            outcome = judge.command(line.split(), folder)
        assert outcome.problem is None, outcome
        new = set(judge.contents(folder)) - set(before)
        if outcome.is_refused:
            assert number is not None
            assert "No space left on device" in outcome.line
            assert not new
        else:
            assert {str(folder / name) for name in WRITTEN[line]} <= new
            break
    for name in sorted(new):
        if os.path.isfile(name):
            os.unlink(name)
    shutil.rmtree(folder / "figures", ignore_errors=True)


def _full_at(number):
    """``os.fsync`` that finds the disk full when it is called for this time, from 0."""
    calls = iter(range(10**6))

    def fsync(file):
        if next(calls) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return fsync
