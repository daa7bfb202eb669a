"""Compiled programs: a process lets go of them where there are too many, and keeps them on disk in a safe place."""

import os
import stat
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multigrade import GradeProblem, LeastSquares, Network, Plan, Rows, minimise, programs


def fit(width: int):
    """Three steps of a network of some width."""
    network, x = Network((1, width, 1)), jnp.linspace(0, 1, 8)[:, None]
    problem = GradeProblem(LeastSquares(network), Rows(x, x**2))
    return minimise(problem, network.init(jax.random.key(0)), Plan(3, learning_rate=0.1)).params


@jax.jit
def double(x):
    return 2 * x


def compile_programs(sizes):
    """A program for each size, and the maps of the process after each; a run begins every time."""
    for size in sizes:
        double(np.zeros(size, np.float32))
        programs.bound_programs()
        yield programs.num_maps()


@pytest.fixture
def few_maps(monkeypatch):
    """Room for a few programs."""
    jax.clear_caches()
    monkeypatch.setattr(programs, "MOST_MAPS", 200)
    monkeypatch.setattr(programs, "PROGRAMS_BETWEEN", 8)
    monkeypatch.setattr(programs._Count, "maps_left", programs.num_maps())
    monkeypatch.setattr(programs._Count, "looked", programs._Count.compiled)


@pytest.mark.skipif(not programs.num_maps(), reason="the system does not tell of maps")
def test_hundreds_of_shapes_take_no_more_maps_than_the_bound(few_maps):
    before = programs.num_maps()
    maps = list(compile_programs(range(1, 201)))
    assert max(maps) < before + programs.MOST_MAPS + 100  # of programs until the next look; 600 else
    assert np.sum(np.diff(maps) < -100) >= 2


@pytest.mark.skipif(not programs.num_maps(), reason="the system does not tell of maps")
def test_a_fit_begins_with_room_for_programs(few_maps, monkeypatch):
    list(compile_programs(range(1, 7)))
    monkeypatch.setattr(programs, "MOST_MAPS", 1)
    monkeypatch.setattr(programs, "PROGRAMS_BETWEEN", 1)
    first = jax.tree.leaves(fit(3))
    before = programs._Count.cleared
    second = jax.tree.leaves(fit(3))  # what was let go is computed again, to the bit
    assert programs._Count.cleared > before
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_nothing_is_let_go_while_a_function_is_traced(few_maps, monkeypatch):
    monkeypatch.setattr(programs, "MOST_MAPS", 1)
    monkeypatch.setattr(jax, "clear_caches", lambda: pytest.fail("the caches were cleared"))

    def function(x):
        programs._Count.looked = -1000
        programs.bound_programs()
        return x

    jax.jit(function)(1.0)


def test_programs_are_let_go_while_other_threads_fit(monkeypatch):
    monkeypatch.setattr(programs, "MOST_MAPS", 1)
    monkeypatch.setattr(programs, "PROGRAMS_BETWEEN", 1)
    expected = {width: jax.tree.leaves(fit(width)) for width in (2, 3)}
    found = []

    def work(width):
        for _ in range(3):
            programs._Count.maps_left = 0
            found.append((width, jax.tree.leaves(fit(width))))

    threads = [threading.Thread(target=work, args=(2 + i % 2,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert all(np.array_equal(a, b) for width, leaves in found for a, b in zip(leaves, expected[width], strict=True))


def test_a_system_without_maps_counts_programs(few_maps, monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "MAPS", tmp_path / "none")
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 4)
    monkeypatch.setattr(programs._Count, "cleared", programs._Count.compiled)
    list(compile_programs(range(1, 40)))
    assert programs._Count.compiled - programs._Count.cleared < 4 + 8 + 8


FORKS = """
import os, sys
import numpy as np
from multigrade import MultiGradeRegressor

def work():
    x = np.linspace(0, 1, 8)[:, None]
    try:
        MultiGradeRegressor(1, (2,), solver="muon", max_iter=1).fit(x, x[:, 0])
    except RuntimeError as error:
        print(error, flush=True)
        return 3
    return 0

for _ in range(2):
    child = os.fork()
    if not child:
        os._exit(work())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    work()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_of_a_process_in_which_jax_ran_is_told_instead_of_hanging():
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    first, told, second = run.stdout.splitlines()
    assert (first, second) == ("0", "3")
    assert told.startswith("this process was forked from one in which JAX had run")
    assert "spawn" in told


# ---- on disk ---------------------------------------------------------------------------------------------------


@pytest.fixture
def quiet_jax(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.delenv("MULTIGRADE_CACHE", raising=False)
    monkeypatch.setattr(programs, "_trimmed", set())


def test_without_a_home_nothing_is_kept(quiet_jax, monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(programs.Path, "home", no_home)
    assert programs.folder_of_programs() is None
    with programs.programs_on_disk():
        pass


def test_a_home_that_cannot_be_written_keeps_nothing(quiet_jax, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(programs.Path, "home", lambda: tmp_path / "file")
    assert programs.folder_of_programs() is None


def test_others_cannot_write_to_the_folder_whatever_the_umask(quiet_jax, monkeypatch, tmp_path):
    monkeypatch.setattr(programs.Path, "home", lambda: tmp_path)
    before = os.umask(0)
    try:
        folder = programs.folder_of_programs()
    finally:
        os.umask(before)
    assert folder is not None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)  # one that an earlier version made
    programs._trimmed.clear()
    programs.folder_of_programs()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_named_folder_that_others_can_write_to_is_refused(quiet_jax, monkeypatch, tmp_path):
    tmp_path.chmod(0o777)
    monkeypatch.setenv("MULTIGRADE_CACHE", str(tmp_path))
    with pytest.raises(ValueError, match="MULTIGRADE_CACHE must be a folder of yours that others cannot write to"):
        programs.folder_of_programs()
    monkeypatch.setenv("MULTIGRADE_CACHE", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="MULTIGRADE_CACHE must be a folder or 'off'"):
        programs.folder_of_programs()


def test_the_oldest_programs_go_when_there_are_too_many(quiet_jax, monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "MOST_BYTES", 1000)
    for age in range(12):
        (tmp_path / str(age)).write_bytes(b"x" * 100)
        os.utime(tmp_path / str(age), (1e9 - age, 1e9 - age))
    monkeypatch.setenv("MULTIGRADE_CACHE", str(tmp_path))
    tmp_path.chmod(0o700)
    programs.folder_of_programs()
    assert sorted(int(file.name) for file in tmp_path.iterdir()) == [0, 1, 2, 3, 4]
