"""Damaged files and odd options: what ``python -m tests.fuzz`` found before, and a few hundred new ones."""

import os
from pathlib import Path

import numpy as np
import pytest

from .fuzz import files, judge, options

FOUND = sorted((Path(__file__).parent / "fuzz" / "found").iterdir())
NUM_FILES, NUM_LINES = 300, 30


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    return files.kinds(tmp_path_factory.mktemp("valid"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_what_was_mishandled_once_is_read_or_refused_in_one_line(path, kinds, tmp_path):
    name = path.name.split("-", 2)[-1]
    kind = next(kind for kind in kinds if kind.name == name)
    (tmp_path / name).write_bytes(path.read_bytes())
    assert judge.read(kind.read, tmp_path / name).problem is None


def test_mutated_files_are_read_or_refused_in_one_line(kinds, tmp_path):
    outcomes = []
    for case in range(NUM_FILES):
        kind = kinds[case % len(kinds)]
        outcome, _ = files.run(kind, tmp_path, np.random.default_rng([7, case]))
        assert outcome.problem is None, (case, kind.name, outcome)
        outcomes.append(outcome.is_refused)
    assert 1 / 3 < np.mean(outcomes) < 2 / 3  # of the others, at least a third, what was read is written and read again


def test_lines_that_a_library_writes_past_python_are_seen():
    outcome = judge.read(lambda: os.write(2, b"a line of a C library"))
    assert outcome.problem == "a library wrote b'a line of a C library' to the terminal"


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the system does not count")
def test_a_file_that_takes_far_too_much_memory_is_seen():
    outcome = judge.read(lambda: np.ones(80_000_000))
    assert outcome.problem is not None
    assert "MB" in outcome.problem


def test_odd_command_lines_succeed_or_are_refused_in_one_line(tmp_path):
    options.fill(tmp_path)
    rng = np.random.default_rng(8)
    lines = [line for line in (options.draw(rng) for _ in range(200)) if line[0] not in ("fit", "spectrum")]
    for line in lines[:NUM_LINES]:
        outcome = judge.command(line, tmp_path)
        assert outcome.problem is None, (line, outcome)


TRIAL = [
    ["fit", "loop"],
    ["fit", "good.csv", "--width", "1000000000", "--layers", "1"],
    ["fit", "huge.csv"],
    ["fit", "semicolon.csv"],
    ["fit", "complex.npz"],
    ["fit", "good.csv", "--model", "/proc/m.safetensors"],
    ["predict", "nan.safetensors", "good.npz", "-o", "out.csv"],
    ["denoise", "loop", "-o", "out.png"],
    ["denoise", "good.png", "-o", "/proc/out.png"],
    ["denoise", "good.png", "-o", "out.png", "--width", "1000000000"],
    ["denoise", "good.png", "-o", "out.png", "--layers", "1000000000"],
    ["inpaint", "good.png", "--mask", "good.png", "-o", "out.png", "--grades", "1000000000"],
    ["spectrum", "good.png", "-o", "good.png"],
    ["fit", "good.csv", "--grades", "x"],
    ["fit", "good.csv", "--layers", "1000000000"],
    ["fit", "good.csv", "--steps", "99999999999"],
]


@pytest.mark.parametrize("line", TRIAL, ids=" ".join)
def test_what_a_trial_got_through_is_refused_in_one_line_and_leaves_nothing(line, tmp_path):
    options.fill(tmp_path)
    outcome = judge.command(line, tmp_path)
    assert (outcome.is_refused, outcome.problem) == (True, None), outcome
