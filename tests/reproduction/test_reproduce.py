"""The commands ``reproduce`` and ``runs``: what a stranger types, and what they get for a mistake."""

import os
import re
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from multigrade import cli
from multigrade_paper.job import Job, Result
from multigrade_paper.store import Store

from . import small

# Settings 1 and 2 by SGDL and MGDL at one rate: four jobs.
SWEEP = "reproduce lr-synthetic --recipe quick --executor inline --no-report".split()
SWEEP += "--set epochs=100 --set rates=0.05 --set points=64".split()


@pytest.fixture(autouse=True)
def environment():
    """``reproduce`` sets the number of threads in its environment: not for the tests that follow."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def complaint(*arguments) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, (ValueError, OSError)), result.output  # cli.main prints it; exit code 2
    return " ".join(str(result.exception).split())


def test_reproduce_then_runs_then_again(tmp_path):
    store = tmp_path / "runs"
    first = run(*SWEEP, "--store", store)
    assert first.exit_code == 0
    assert f"4 finished, 0 kept, 0 failed; results in {store}" in first.stdout
    assert "claims of the paper: " in first.stdout
    last = r"\[4/4\] finished: lr-synthetic, setting \d [SM]GDL learning rate 0.05, [\d.]+ s; about 0 s left"
    assert re.search(last, first.stderr)
    before = small.contents(store)
    assert "4 results" in run("runs", store).stdout
    assert "2 results" in run("runs", store, "--method", "SGDL", "--item", "lr-synthetic").stdout
    assert "1 results" in run("runs", store, "--method", "SGDL", "--where", "setting=2").stdout
    assert "0 results" in run("runs", store, "--method", "SGDL", "--where", "method=MGDL").stdout
    assert "0 results" in run("runs", store, "--item", "table1").stdout
    assert "2 results" in run("runs", store, "--item", "msdl-synthetic").stdout  # shares the jobs of MGDL
    assert "there is no item 'tabel1' (did you mean table1" in complaint("runs", store, "--item", "tabel1")
    assert "2 removed" in run("runs", store, "--method", "SGDL", "--remove", "--yes").stdout
    assert len(Store(store).keys()) == 2
    again = run(*SWEEP, "--store", store)
    assert "2 finished, 2 kept, 0 failed" in again.stdout
    assert small.contents(store) == before


def test_only_takes_words_of_a_job_or_its_key(tmp_path):
    assert "2 finished" in run(*SWEEP, "--store", tmp_path / "runs", "--only", "MGDL").stdout
    (key,) = [job.key for job, _, _ in Store(tmp_path / "runs").all() if job.settings["setting"] == 2]
    (line,) = [line for line in run("runs", tmp_path / "runs").stdout.splitlines() if "setting 2" in line]
    assert key.startswith(line.split("\t")[0])
    both = run(*SWEEP, "--store", tmp_path / "runs", "--only", line.split("\t")[0], "--only", "setting 1 SGDL")
    assert "1 finished, 1 kept" in both.stdout
    assert "none of the 4 jobs is 'MGDLL'" in complaint(*SWEEP, "--store", tmp_path / "other", "--only", "MGDLL")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KB, where we may make one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.filterwarnings("ignore:the checkpoint was not written")
def test_a_full_and_a_read_only_disk_are_one_line_and_lose_nothing(small_disk):
    store, filler = small_disk / "runs", small_disk / "filler"
    Store(store)
    filler.write_bytes(b"0" * (190 << 10))  # room for one result or two
    line = f"the store {store} cannot be written: No space left on device; finished results are kept"
    assert complaint(*SWEEP, "--store", store) == line
    assert Store(store, create=False).damaged() == {}
    before = small.contents(store)
    filler.unlink()
    assert run(*SWEEP, "--store", store).exit_code == 0
    assert before.items() <= small.contents(store).items()
    assert len(Store(store).keys()) == 4
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert f"the store {store} cannot be written: Read-only file system" in complaint(*SWEEP, "--store", store)
    assert "4 results" in run("runs", store).stdout


def test_removal_asks_first_and_damage_is_listed(tmp_path):
    store = Store(tmp_path / "runs")
    (job,) = small.jobs(1)
    store.save(job, small.Result({"loss": 1.0}), {"seconds": 1.0})
    assert "Remove 1 results" in CliRunner().invoke(cli.app, ["runs", str(store.path), "--remove"], input="n\n").stdout
    assert store.keys() == [job.key]
    (store.path / job.key / "result.json").write_text("{}")
    listed = run("runs", store.path).stdout
    assert f"result {job.key} is damaged: result.json does not match its checksum" in listed
    assert "0 results, 0 s of work; 1 not usable" in listed
    asked = ["runs", store.path, "--damaged", "--remove", "--yes"]
    for filter_ in (["--item", "table1"], ["--method", "SGDL"], ["--where", "setting=1"]):
        assert "--damaged goes with no filter" in complaint(*asked, *filter_)
    assert "1 results are not usable" in run("claims", store.path, "--json").stderr
    run(*asked)
    assert store.keys() == []


def test_a_cluster_that_is_there_already_takes_no_number_of_jobs(tmp_path, monkeypatch):
    asked = ["reproduce", "theory", "--executor", "ray", "--jobs", "1", "--store", tmp_path / "runs"]
    assert "nor with a Ray cluster" in complaint(*asked, "--ray-address", "auto")
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert "nor with a Ray cluster" in complaint(*asked)


def test_the_list_names_every_item_with_jobs_and_time():
    result = run("reproduce", "convex", "theory", "--list", "--recipe", "quick")
    assert result.exit_code == 0
    assert re.search(r"convex +│.*│ 2 +│ \d+ s", result.stdout)
    assert re.search(r"all of them .*│ 6 +│", result.stdout)
    some = run("reproduce", "convex", "theory", "--list", "--recipe", "quick", "--only", "setting 1")
    assert re.search(r"convex +│.*│ 1 +│", some.stdout)
    changed = run("reproduce", "theory", "table1", "--list", "--recipe", "quick", "--set", "size=16")  # table1's alone
    assert re.search(r"theory +│.*│ 4 +│", changed.stdout)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["tabel1"], r"there is no item 'tabel1' \(did you mean table1"),
        (["theory", "--recipe", "qick"], "recipe must be one of .*; got 'qick'"),
        (["theory", "--set", "epoch=3"], r"there is no setting 'epoch' here \(did you mean epochs\?\)"),
        (["theory", "--set", "epochs=many"], "epochs must be a whole number; got 'many'"),
        (["theory", "--set", "epochs"], "--set must be name=value; got 'epochs'"),
        (["theory", "--set", "epochs=1", "--set", "epochs=2"], "--set gives epochs twice"),
        (["theory", "--seeds", "0"], "seeds must be at least 1; got 0"),
        (["theory", "--jobs", "0"], "--jobs must be at least 1; got 0"),
        (["theory", "--threads", "0"], "threads must be at least 1; got 0"),
        (["theory", "--executor", "slurm"], "--executor must be one of inline, processes, ray; got 'slurm'"),
        (["theory", "--gpus", "1"], "--ray-address and --gpus belong to --executor ray"),
        (["theory", "--executor", "inline", "--jobs", "2"], "--jobs goes neither with --executor inline"),
        (["table1", "--images", "none"], "images must be a folder"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_store(tmp_path, arguments, match):
    store = tmp_path / "runs"
    assert re.search(match, complaint("reproduce", *arguments, "--store", store))
    assert not store.exists()


def test_a_folder_without_the_papers_images_and_a_wrong_store_are_one_line(tmp_path):
    (tmp_path / "holiday.png").write_bytes(b"")
    assert "has none of the paper's images" in complaint("reproduce", "table1", "--images", tmp_path)
    (tmp_path / "file").write_text("")
    assert "must be a folder" in complaint("reproduce", "theory", "--store", tmp_path / "file")
    assert "there is no store at" in complaint("runs", tmp_path / "none")
    assert "--where must be name=value" in complaint("runs", tmp_path, "--where", "setting")


def test_runs_compare_numbers_as_numbers(tmp_path):
    for rate in (5e-5, 3 * 0.01, 2, "auto"):
        Store(tmp_path).save(Job("mine", "fit", {"learning_rate": rate, "is_fast": True}), Result({}), {})
    for text, number in (("0.00005", 1), ("5e-05", 1), ("0.03", 1), ("2.0", 1), ("auto", 1), ("0.031", 0)):
        assert f"{number} results" in run("runs", tmp_path, "--where", f"learning_rate={text}").stdout
    assert "0 results" in run("runs", tmp_path, "--where", "is_fast=1").stdout
    message = "--where must name a setting of a result: is_fast, learning_rate; got 'learning-rate'"
    assert complaint("runs", tmp_path, "--where", "learning-rate=2") == message


def test_a_failed_job_gives_exit_code_1_and_its_reason(tmp_path, monkeypatch):
    from multigrade_paper import experiments

    def fails(job, **_):
        raise ValueError("no such luck")

    monkeypatch.setattr(experiments, "run", fails)
    result = run("reproduce", "convex", "--recipe", "quick", "--executor", "inline", "--store", tmp_path / "runs")
    assert result.exit_code == 1
    assert "0 finished, 0 kept, 2 failed" in result.stdout
    assert result.stderr.count("failed: convex, ") >= 2
    assert "no such luck" in result.stderr.splitlines()[-1]
