"""Unfinished work: packed on one machine, unpacked on another, continued to the same bits; done, nothing is left."""

import numpy as np
import pytest

from multigrade_paper import experiments
from multigrade_paper.store import Store
from multigrade_paper.unfinished import compress, expand, pack, unpack

from .test_experiments import Interruption, Watcher, assert_equal, job


@pytest.mark.parametrize("size", [0, 3, 4, 5, 1001])
def test_compressing_loses_nothing(size):
    content = np.random.default_rng(size).bytes(size)
    assert expand(compress(content)) == content


def test_a_run_goes_on_in_another_store_to_the_same_bits(tmp_path):
    todo, here, there = job("descent"), Store(tmp_path / "here"), Store(tmp_path / "there")
    with pytest.raises(Interruption):
        experiments.run(todo, checkpoint=here.checkpoint(todo.key, threads=1), observers=[Watcher(stop_in=2)])
    folder = tmp_path / "unfinished"
    (told,) = pack(here, folder)
    assert todo.key in told
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2_000_000
    assert list(unpack(folder, there)) == [f"{todo.key} goes on from here"]
    watcher = Watcher()
    resumed = experiments.run(todo, checkpoint=there.checkpoint(todo.key, threads=1), observers=[watcher])
    assert watcher.grades == {2, 3}
    assert_equal(resumed, experiments.run(todo))
    there.save(todo, resumed, {"seconds": 1.0})
    assert list(unpack(folder, there)) == []  # what is done does not come back
    assert [told.endswith("is done and was removed") for told in pack(there, folder)] == [True]
    assert list(folder.iterdir()) == []


def test_another_name_is_refused(tmp_path):
    (tmp_path / "x-1.xz").write_bytes(b"")
    with pytest.raises(ValueError, match="not the name of a checkpoint"):
        list(unpack(tmp_path, Store(tmp_path / "runs")))
