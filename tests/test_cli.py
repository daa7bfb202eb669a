"""The command line: what a stranger types, and what they get for a mistake."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from multigrade import cli, load_estimator
from multigrade.files import write_arrays
from multigrade.tables.files import read_table, write_predictions

RUN = [sys.executable, "-m", "multigrade"]


def run(*arguments, cwd, check=True):
    result = subprocess.run([*RUN, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False)
    assert not check or result.returncode == 0, result.stderr
    return result


@pytest.fixture
def attempt(monkeypatch, capsys):
    """What is refused, in this process: most of the time of a refusal is Python's start and its imports."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def call(*arguments, cwd):
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["multigrade", *arguments])
        with pytest.raises(SystemExit) as exit:
            cli.main()
        return subprocess.CompletedProcess(arguments, exit.value.code, *capsys.readouterr())

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def call(attempt, capsys):
    """What is done, in this process: standard output."""

    def call(*arguments, cwd):
        result = attempt(*arguments, cwd=cwd)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return call


@pytest.fixture
def table(tmp_path):
    generator = np.random.default_rng(0)
    inputs = generator.uniform(-1, 1, (120, 2))
    rows = np.column_stack([inputs, inputs[:, 0] ** 2 - inputs[:, 1]])
    np.savetxt(tmp_path / "data.csv", rows, delimiter=",", header="a,b,y", comments="")
    np.savez(tmp_path / "data.npz", X=inputs, y=rows[:, 2])
    return tmp_path


def test_help_and_version_answer_without_importing_jax(tmp_path):
    code = "import sys, multigrade.cli, multigrade; print(any(m in sys.modules for m in ('jax', 'sklearn', 'numpy')))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
    assert "multigrade 0." in run("--version", cwd=tmp_path).stdout
    assert "predict" in run("--help", cwd=tmp_path).stdout


def test_an_old_name_of_an_option_is_understood_and_the_present_one_named(table, attempt):
    old = attempt("fit", "data.csv", "--solver=gd", "--steps", "0", cwd=table)
    hint, refusal = old.stderr.splitlines()
    assert hint == "multigrade: --solver is now called --optimiser; the old name goes with version 0.2"
    assert refusal == "multigrade: --steps must be at least 1 and at most 2147483647; got 0"
    assert "--steps must be" in attempt("demo", "--epochs", "0", cwd=table).stderr.splitlines()[1]


@pytest.mark.parametrize("suffix", ["csv", pytest.param("npz", marks=pytest.mark.slow)])
def test_fit_then_predict_recovers_the_function(table, suffix):
    small = ["--grades", 2, "--width", 24, "--steps", 400, "--optimiser", "muon"]
    result = run("fit", f"data.{suffix}", "--target", "y", "--model", "m.safetensors", *small, cwd=table)
    assert "R2" in result.stdout
    assert "grade 1/2" in result.stderr  # plain progress lines: the output is not a terminal
    run("predict", "m.safetensors", f"data.{suffix}", "-o", f"out.{suffix}", cwd=table)
    y = np.load(table / "data.npz")["y"]
    predicted = np.load(table / "out.npz")["y"] if suffix == "npz" else np.loadtxt(table / "out.csv", skiprows=1)
    assert 1 - np.mean((predicted - y) ** 2) / np.var(y) > 0.98
    assert sorted(p.name for p in table.iterdir()) == sorted(["data.csv", "data.npz", "m.safetensors", f"out.{suffix}"])


def test_quiet_prints_nothing(table, monkeypatch):
    # Not even when compiled programs are found in a cache, as by the second of two runs.
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(table / "programs"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    for _ in range(2):
        result = run("fit", "data.csv", *"--steps 5 --grades 1 --width 8 --optimiser gd --quiet".split(), cwd=table)
        assert (result.stdout, result.stderr) == ("", "")
    assert any((table / "programs").iterdir())


@pytest.mark.slow
def test_an_interrupted_fit_continues(table):
    arguments = ["fit", "data.csv", *"--steps 2000 --grades 2 --width 16 --optimiser adam --model".split()]
    process = subprocess.Popen([*RUN, *arguments, "killed.safetensors"], cwd=table, stderr=subprocess.DEVNULL)
    checkpoint = table / "killed.checkpoint"
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    run(*arguments, "killed.safetensors", cwd=table)
    run(*arguments, "whole.safetensors", cwd=table)
    killed, whole = (load_estimator(table / f"{name}.safetensors") for name in ("killed", "whole"))
    inputs = np.load(table / "data.npz")["X"]
    np.testing.assert_array_equal(killed.model_(inputs), whole.model_(inputs))
    assert not checkpoint.exists()


BAD_TABLES = {
    "empty.csv": "",
    "header.csv": "a,y\n",
    "ragged.csv": "a,y\n1,2\n3\n",
    "text.csv": "a,y\n1,2\n3,x\n",
    "nan.csv": "a,y\n1,2\n3,nan\n",
    "escape.csv": "a,y\x1b[31m\n1,2\n3,4\n",
    "infinite.csv": "a,y\n1,2\n3,inf\n",
    "twice.csv": "a,a\n1,2\n",
    "only.csv": "y\n1\n2\n",
    "binary.csv": "\x00\x89PNG\xff",
    "fake.npz": "not a zip",
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_bad_table_gets_one_line_and_leaves_no_file(tmp_path, attempt, name):
    (tmp_path / name).write_bytes(BAD_TABLES[name].encode("latin-1"))
    assert_one_line(attempt("fit", name, cwd=tmp_path))
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["fit", "missing.csv"], "no file"),
        (["fit", "data.csv", "--target", "z"], "no column 'z'"),
        (["fit", "data.csv", "--grades", "0"], "--grades must be at least 1"),
        (["fit", "data.csv", "--width", "0"], "--width must be at least 1"),
        (["fit", "data.csv", "--layers", "0"], "--layers must be at least 1"),
        (
            ["fit", "data.csv", "--width", "2000000", "--quiet"],
            "--width must be at least 1 and at most 32768; got 2000000",
        ),
        (["fit", "data.csv", "--learning-rate", "-1"], "learning_rate"),
        (
            ["fit", "data.csv", "--optimiser", "convex"],
            "--optimiser must be one of auto, gd, momentum, adam, muon, lbfgs",
        ),
        (["fit", "data.csv", "--optimiser", "auto", "--method", "sgdl"], "--optimiser must be one of"),
        (["fit", "data.csv", "--classify", "--method", "msdl"], "--method must be mgdl or sgdl with --classify"),
        (["fit", "data.csv", "--target", "y,y"], "target must name every column once; got 'y,y'"),
        (["fit", "data.csv", "--method", "x"], "--method must be one of"),
        (["fit", "data.csv", "--early-stopping"], "--early-stopping needs another --optimiser than auto"),
        (["fit", "data.csv", "--model", "nowhere/m.safetensors"], "does not exist"),
        (["fit", "data.csv", "--model", "m.pkl"], "must end in .safetensors"),
        (["predict", "data.csv", "data.csv", "-o", "out.csv"], "not a multigrade estimator"),
        (["predict", "missing.safetensors", "data.csv", "-o", "out.csv"], "no file"),
        (["predict", "m", "data.csv", "-o", "data.csv"], "is the input"),
        (["demo", "-o", "picture.txt"], "must end in"),
        (["demo", "--steps", "0"], "--steps must be at least 1"),
        (["demo", "--seed", "-1"], "--seed must be from 0"),
        (["fit", "data.csv", "--method", "sgdl", "--grades", "2"], "--grades belongs to --method mgdl"),
        (["fit", "flat.npz"], "y must have one or two dimensions"),
        (["spectrum", "1", "--target", "z"], "(--target) belongs to a table"),
        (["spectrum", "data.csv", "--stride", "2"], "(--stride) belongs to an image"),
    ],
)
def test_a_mistake_gets_one_line_and_exit_code_2(table, attempt, arguments, word):
    np.savez(table / "flat.npz", X=np.ones((3, 1)), y=1.0)
    before = sorted(p.name for p in table.iterdir())
    result = attempt(*arguments, cwd=table)
    assert_one_line(result)
    assert word in result.stderr
    assert sorted(p.name for p in table.iterdir()) == before


def test_a_mistake_in_a_process_of_its_own(tmp_path):
    assert_one_line(run("fit", "missing.csv", cwd=tmp_path, check=False))
    assert "Traceback" in run("--debug", "fit", "missing.csv", cwd=tmp_path, check=False).stderr


def test_wrong_columns_are_named(table):
    run("fit", "data.csv", *"--steps 5 --grades 1 --width 8 --optimiser gd -q --model m.safetensors".split(), cwd=table)
    (table / "other.csv").write_text("a,c\n1,2\n")
    result = run("predict", "m.safetensors", "other.csv", "-o", "out.csv", cwd=table, check=False)
    assert_one_line(result)
    assert "lacks the column 'b'" in result.stderr
    assert list(load_estimator(table / "m.safetensors").feature_names_in_) == ["a", "b"]  # as if fitted to a data frame


def test_classes_by_name_and_their_chances(tmp_path, call):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    names = np.where(rows[:, 0] > 0, "warm", "cold")
    lines = ["a,b,kind", *(f"{a},{b},{name}" for (a, b), name in zip(rows, names, strict=True))]
    (tmp_path / "kinds.csv").write_text("\n".join(lines))
    options = "--target kind --classify --grades 1 --model kinds.safetensors -q".split()
    call("fit", "kinds.csv", *options, cwd=tmp_path)
    call("predict", "kinds.safetensors", "kinds.csv", "-o", "out.csv", "-q", cwd=tmp_path)
    header, *written = (tmp_path / "out.csv").read_text().splitlines()
    assert header == "kind,chance of cold,chance of warm"
    cells = [line.split(",") for line in written]
    assert np.mean([cell[0] == name for cell, name in zip(cells, names, strict=True)]) > 0.9
    assert all(float(cell[1]) + float(cell[2]) == pytest.approx(1) for cell in cells)


def test_text_gaps_and_columns_that_are_not_needed(tmp_path, call):
    rows = np.random.default_rng(0).choice(["red", "blue", ""], 60)
    lines = ["id,kind,y", *(f"r{i},{kind},{2 * (kind == 'red') - (kind == '')}" for i, kind in enumerate(rows))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    (tmp_path / "m.checkpoint").write_text("of another fit")
    call("fit", "t.csv", "--ignore", "id", "--grades", "1", "--model", "m.safetensors", "-q", cwd=tmp_path)
    assert (tmp_path / "m.checkpoint").read_text() == "of another fit"
    call("predict", "m.safetensors", "t.csv", "-o", "out.csv", "-q", cwd=tmp_path)
    predicted = np.loadtxt(tmp_path / "out.csv", skiprows=1)
    np.testing.assert_allclose(predicted, 2.0 * (rows == "red") - (rows == ""), atol=0.05)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a file that is always full")
def test_a_fit_is_saved_before_it_is_told(table):
    with open("/dev/full", "w") as full:
        options = "--grades 1 --steps 5 --width 8 --layers 1 --model m.safetensors".split()
        subprocess.run([*RUN, "fit", "data.csv", *options], cwd=table, stdout=full, stderr=subprocess.DEVNULL)
    assert load_estimator(table / "m.safetensors").n_grades_ == 1


def test_a_table_of_no_rows_and_countless_columns_is_refused_at_once(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.empty((0, 99_999_999_999_999)))
    with pytest.raises(ValueError, match="has no rows"):
        read_table(tmp_path / "t.npz")


def test_many_texts_are_read_in_linear_time(tmp_path):
    (tmp_path / "t.csv").write_text("kind\n" + "\n".join(f"name {i}" for i in range(30_000)))
    started = time.process_time()
    assert len(read_table(tmp_path / "t.csv", as_it_comes=True).labels["kind"]) == 30_000
    assert time.process_time() - started < 2


SMALL = "--steps 20 --grades 1 --width 8 --layers 1 --optimiser adam -q --model m.safetensors".split()


@pytest.mark.parametrize(("target", "names"), [("x0", ["x0"]), ("y", ["y0", "y1"]), ("y1", ["y1"])])
def test_predict_reads_the_columns_that_fit_read(tmp_path, call, target, names):
    generator = np.random.default_rng(0)
    inputs, outputs = generator.normal(size=(30, 3)), generator.normal(size=(30, 2))
    np.savez(tmp_path / "data.npz", X=inputs, y=outputs)
    call("fit", "data.npz", "--target", target, *SMALL, cwd=tmp_path)
    call("predict", "m.safetensors", "data.npz", "-o", "out.csv", "-q", cwd=tmp_path)
    table = dict(zip(["x0", "x1", "x2", "y0", "y1"], np.hstack([inputs, outputs]).T, strict=True))
    rest = np.stack([column for name, column in table.items() if name not in names], axis=1)
    estimator = load_estimator(tmp_path / "m.safetensors")
    estimator.__dict__.pop("feature_names_in_", None)
    predicted = np.loadtxt(tmp_path / "out.csv", skiprows=1, delimiter=",")
    np.testing.assert_allclose(predicted, estimator.predict(rest), rtol=1e-12)
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == ",".join(names)


def test_a_model_of_arrays_says_which_columns_it_expects(table, attempt, call):
    call("fit", "data.npz", *SMALL, cwd=table)
    result = attempt("predict", "m.safetensors", "data.csv", "-o", "out.csv", cwd=table)
    assert_one_line(result)
    assert "lacks the column 'x0' that the model was fitted on: fitted on arrays, it expects" in result.stderr


def test_one_row_has_no_score_and_no_warning(tmp_path, call):
    (tmp_path / "one.csv").write_text("a,b,y\n1,2,3\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert " - " in call("fit", "one.csv", *[o for o in SMALL if o != "-q"], cwd=tmp_path)
    assert not [w for w in caught if "R^2" in str(w.message)]


def test_a_grade_that_is_left_out_is_told_of(tmp_path, call):
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, (80, 1))
    np.savez(tmp_path / "line.npz", X=x, y=x[:, 0] + 0.5 * generator.normal(size=80))
    options = (
        "--steps 200 --grades 3 --width 8 --layers 1 --optimiser adam --early-stopping --model m.safetensors".split()
    )
    told = call("fit", "line.npz", *options, cwd=tmp_path)
    kept = load_estimator(tmp_path / "m.safetensors").n_grades_
    assert kept < 3
    assert f"grade {kept + 1}: did not help on the rows held out, and was left out" in told
    assert -1 < float(re.search(r"R2 on the 8 rows held out: (.*)", told)[1]) < 1


def test_auto_tells_the_loss_on_the_rows_left_out(table, call):
    options = "--target y --steps 20 --width 8 --layers 1 --model m.safetensors".split()
    told = call("fit", "data.csv", *options, cwd=table)
    first, *_, last = load_estimator(table / "m.safetensors").fold_losses_
    assert f"rows that members left out: {first:.3g} before any grade, {last:.3g} with all grades" in told


@pytest.mark.parametrize("method", ["mgdl", "sgdl", "msdl"])
def test_what_is_not_given_is_the_estimators_own(method):
    from multigrade.commands.table import Fit

    estimator = Fit(data=Path("data.csv"), method=method)._estimator()
    assert estimator.get_params() == type(estimator)(random_state=0).get_params()
    wide = Fit(data=Path("data.csv"), method=method, width=5, layers=2)._estimator()
    assert wide.hidden_layer_sizes == (5, 5)


def test_predictions_keep_their_digits(tmp_path):
    values = 1.7e9 + np.arange(3)
    write_predictions(tmp_path / "out.csv", ["y"], values)
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "out.csv", skiprows=1), values)


def test_demo_draws_a_picture(tmp_path):
    result = run("demo", "--steps", 200, "-o", "demo.png", "-q", "--no-picture", cwd=tmp_path)
    assert "MGDL-1" in result.stdout
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


BAD_PICTURES = {
    "text.png": b"not an image",
    "empty.png": b"",
    "picture.png": None,  # written below, then cut short
}


@pytest.mark.parametrize("name", BAD_PICTURES)
def test_a_bad_picture_gets_one_line_and_leaves_no_file(tmp_path, attempt, name):
    from multigrade.pictures.files import load, save

    save(tmp_path / "picture.png", load(":chart"))
    whole = (tmp_path / "picture.png").read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2] if BAD_PICTURES[name] is None else BAD_PICTURES[name])
    before = sorted(os.listdir(tmp_path))
    assert_one_line(attempt("denoise", name, "-o", "out.png", cwd=tmp_path))
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ("denoise :nothing -o out.png", "no free picture"),
        ("denoise :chart -o nowhere/out.png", "does not exist"),
        ("denoise :chart -o out.gif", "must end in"),
        ("denoise :chart :disks -o out", "must be a folder that exists"),
        ("denoise :chart :chart -o .", "is there twice"),
        ("denoise :chart :disks -o . --json m.json", "--json must not be given"),
        ("deblur :chart -o out.png --recipe networks --strength 2", "No such option"),
        ("denoise :chart -o out.png --recipe networks --strength 2", "strength must be 1"),
        ("denoise :chart -o out.png --noise-sigma -1", "noise_sigma must be at least 0"),
        ("denoise :chart -o out.png --add-noise -1", "sigma must be at least 0"),
        ("deblur :chart -o out.png", "--blur-sigma must be given"),
        ("deblur :chart -o out.png --blur-sigma -2", "sigma must"),
        ("inpaint :chart -o out.png --mask :camera", "mask must have the image's size"),
        ("upsample :chart -o out.png --factor 1", "factor must be"),
        ("denoise :chart -o out.png --recipe slow", "recipe must be one of"),
        ("denoise :chart -o out.png --figure out.txt", "--figure must end in"),
        ("denoise :chart -o out.png --json nowhere/m.json", "does not exist"),
        ("denoise :chart -o out.png --json .", "is a folder"),
        ("denoise :chart -o out.png --figure ..", "is a folder"),
        ("denoise :chart -o out.png --figure out.png", "--figure out.png is the same file as --output"),
        ("denoise :chart -o out.png --json out.png.checkpoint", "is the same file as its checkpoint"),
        ("denoise :chart -o out.png --baselines", "--baselines needs a clean picture"),
        ("upsample :chart -o out.png --add-noise 5 --baselines", "--baselines needs a clean picture"),
        ("denoise :chart -o out.png --recipe best --lambda 0.1", "lambda and beta must not be given"),
        ("upsample :chart -o out.png --recipe best --steps 5", "recipe best trains no grades for this task"),
        ("denoise :chart -o out.png --add-noise 5 --seed -1", "seed must be at least 0"),
    ],
)
def test_a_mistake_with_a_picture_gets_one_line_and_exit_code_2(tmp_path, attempt, arguments, word):
    result = attempt(*arguments.split(), cwd=tmp_path)
    assert_one_line(result)
    assert word in result.stderr
    assert not os.listdir(tmp_path)


def test_a_picture_is_denoised_and_measured(tmp_path):
    options = "--recipe networks --add-noise 20 --width 16 --layers 1 --grades 2 --steps 50"
    options += " --baselines --figure f.png --json m.json"
    result = run("denoise", ":chart", "-o", "out.png", *options.split(), cwd=tmp_path)
    for row in ("input", "grade 1", "result", "baseline: TV (ROF)"):
        assert row in result.stdout
    assert sorted(os.listdir(tmp_path)) == ["f.png", "m.json", "out.png"]
    metrics = json.loads((tmp_path / "m.json").read_text())
    assert metrics["noise_was_estimated"]
    assert metrics["input"]["psnr"] == pytest.approx(20 * np.log10(255 / 20), abs=0.1)


def test_pictures_go_to_a_folder_with_a_line_each_and_one_that_is_bad_does_not_stop_the_others(tmp_path, attempt):
    from multigrade.pictures.files import Picture, save

    (tmp_path / "out").mkdir()
    save(tmp_path / "[red]flat.jpg", Picture(np.full((24, 24), 0.5)))
    (tmp_path / "bad.png").write_bytes(b"not an image")
    result = attempt("denoise", "[red]flat.jpg", "bad.png", "-o", "out", cwd=tmp_path)
    assert result.returncode == 2
    assert "1/2 [red]flat.jpg: no noise found" in result.stdout
    assert "2/2 bad.png: bad.png is not a" in result.stderr
    assert "1 of 2 pictures" in result.stderr
    assert os.listdir(tmp_path / "out") == ["[red]flat.jpg"]
    assert (tmp_path / "out" / "[red]flat.jpg").read_bytes() == (tmp_path / "[red]flat.jpg").read_bytes()


@pytest.fixture
def folder(tmp_path):
    from multigrade.pictures.files import Picture, save

    generator = np.random.default_rng(0)
    for name in ("in.png", "other.png"):
        save(tmp_path / name, Picture(generator.random((8, 9)), generator.random((8, 9))))
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        "denoise in.png -o in.png",
        "denoise in.png -o out.png --figure in.png",
        "denoise in.png -o out.png --json ./in.png",
        "denoise in.png -o other.png --reference other.png",
        "inpaint in.png -o other.png --mask other.png",
        "denoise in.png -o out.jpg",
    ],
)
def test_a_file_that_is_given_is_never_written_over(folder, attempt, arguments):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = attempt(*arguments.split(), cwd=folder)
    assert_one_line(result)
    assert any(reason in result.stderr for reason in ("is the same file as", "cannot hold the alpha channel"))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.fixture
def instant(monkeypatch):
    """Every task answers at once: with what it was given, larger by its factor."""
    from multigrade import MultiGrade, restore

    calls = []

    def answer(image, *, factor=1, reference=None, options, **given):
        calls.append({**given, "reference": reference})
        large = np.kron(image, np.ones((factor, factor)))
        quality = {"psnr": float("inf"), "ssim": float("nan")}
        write_arrays(options.checkpoint, "checkpoint", {}, {})
        return restore.Restored(
            image=large, stages=(large,), model=MultiGrade(), records=(), recipe="best", seconds=1.0,
            estimated_psnr=(40.0, None), noise_sigma=1.0, noise_was_estimated=False, grades=(quality,),
            input_quality=quality,
        )  # fmt: skip

    for task in ("denoise", "upsample", "inpaint"):
        monkeypatch.setattr(restore, task, answer)
    return calls


def test_alpha_is_enlarged_with_the_picture(folder, attempt, instant):
    from multigrade.pictures.baselines import upsample
    from multigrade.pictures.files import load

    attempt("upsample", "in.png", "-o", "out.png", cwd=folder)
    expected = upsample(load(folder / "in.png").alpha, 2)
    np.testing.assert_allclose(load(folder / "out.png").alpha, expected, atol=0.51 / 255)


def test_metrics_are_strict_json_and_an_estimate_that_is_none_is_not_printed(folder, attempt, instant):
    options = ["--reference", "other.png", "--json", "m.json"]
    result = attempt("denoise", "in.png", "-o", "out.png", *options, cwd=folder)
    assert "PSNR about" not in result.stdout

    def refuse(constant):
        raise AssertionError(constant)

    metrics = json.loads((folder / "m.json").read_text(), parse_constant=refuse)
    assert metrics["input"] == {"psnr": None, "ssim": None}
    assert metrics["estimated_psnr"] == [40, None]
    assert not (folder / "out.png.checkpoint").exists()


def test_the_checkpoint_stays_until_all_is_written(folder, attempt, instant, monkeypatch):
    from multigrade.pictures import files

    def fail(*arguments, **options):
        raise OSError("the disk is full")

    monkeypatch.setattr(files, "_write", fail)
    assert_one_line(attempt("denoise", "in.png", "-o", "out.png", cwd=folder))
    assert (folder / "out.png.checkpoint").exists()


def test_masks_are_cut_at_half_and_free_pictures_are_references(folder, attempt, instant):
    from multigrade.pictures.files import Picture, load, save

    save(folder / "mask.png", Picture(np.linspace(0, 1, 256 * 256).reshape(256, 256)))
    attempt("inpaint", ":chart", "-o", "out.png", "--mask", "mask.png", "--reference", ":chart", cwd=folder)
    (call,) = instant
    np.testing.assert_array_equal(call["mask"], load(folder / "mask.png").pixels >= 0.5)
    np.testing.assert_array_equal(call["reference"], load(":chart").pixels)


def test_a_mask_may_be_drawn_by_transparency_and_must_mark_something(folder, attempt, instant):
    from multigrade.pictures.files import Picture, save

    white, alpha = np.ones((256, 256)), np.eye(256)
    save(folder / "mask.png", Picture(white, 1 - alpha))
    attempt("inpaint", ":chart", "-o", "out.png", "--mask", "mask.png", cwd=folder)
    np.testing.assert_array_equal(instant[0]["mask"], alpha == 0)
    save(folder / "mask.png", Picture(white))
    result = attempt("inpaint", ":chart", "-o", "out.png", "--mask", "mask.png", cwd=folder)
    assert_one_line(result)
    assert "it is so nowhere" in result.stderr


def test_baselines_of_deblurring_need_no_noise():
    from multigrade.commands import _restoration

    image = np.add.outer(np.arange(30.0), np.arange(20.0)) / 50
    case = _restoration.Case(image, image, {"blur_sigma": 3.0})
    for found in _restoration.simple_methods("deblur", case, 0.0).values():
        assert np.abs(found - image).max() < 0.5


def assert_one_line(result):
    assert result.returncode == 2, result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("multigrade: ")
    assert not result.stdout


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: Out of memory")])
def test_what_memory_does_not_hold_is_one_line(error):
    assert cli._one_line(error) == (
        "there is not enough memory for this; fewer rows or pixels, or a smaller --width, need less"
    )
