"""What is seen while a run goes: the live view on a terminal, TensorBoard files, completion, the facts of a machine."""

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from importlib import metadata

import numpy as np
import pytest
from rich.console import Console

from multigrade import Outcome, Plan, Regression, extras, fit_grades, structures
from multigrade.progress import LEVELS, ProgressObserver, grade_lines, sparkline
from multigrade.tensorboard import TensorBoardObserver
from multigrade.training import RunRecord

from . import small_fits

RUN = [sys.executable, "-m", "multigrade.cli"]
STRUCTURE = structures.graded(1, [(8,), (8,)], 1)
X = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
Y = np.sin(6 * X)


# ---- the sparkline ---------------------------------------------------------------------------------------------


def test_a_geometric_loss_is_a_straight_line_from_top_to_bottom():
    assert sparkline(2.0 ** -np.arange(8), 8) == LEVELS[::-1]


def test_many_values_fit_the_width_and_few_stay_few():
    assert len(sparkline(np.arange(1, 1000.0), 30)) == 30
    assert len(sparkline([3.0, 2.0], 30)) == 2


@pytest.mark.parametrize("values", [[], [np.nan], [np.inf, np.nan]])
def test_nothing_finite_draws_nothing(values):
    assert sparkline(values, 10) == ""


def test_constant_and_non_positive_losses_are_drawn():
    assert sparkline([2.0, 2.0, 2.0], 3) == 3 * LEVELS[0]
    assert sparkline([-1.0, 0.0, 1.0, 2.5], 4)[::3] == LEVELS[0] + LEVELS[-1]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_of_grades_line_up_and_never_pass_the_edge(width):
    columns = {"step": np.arange(200), "train_loss": np.geomspace(1, 1e-5, 200)}
    records = {
        0: RunRecord(columns, outcome=Outcome.DIVERGED, sentence="the loss was not finite", seconds=1234.5),
        1: RunRecord(columns),
    }
    first, second = (line.plain for line in grade_lines(records, width))
    assert max(len(first), len(second)) <= width
    assert first.index("█") == second.index("█")
    if width >= 80:
        assert "1234.5 s, diverged" in first
        assert first.index("1 → 1e-05") == second.index("1 → 1e-05")


# ---- observers along a run -------------------------------------------------------------------------------------


def test_an_observer_without_period_sees_how_the_grade_ended(capsys):
    class Watcher:
        name, every = "watcher", None

        def __init__(self):
            self.last = {}

        def observe(self, snapshot, carry):
            self.last[snapshot.grade] = snapshot.record

    watcher = Watcher()
    plan = Plan(30, record_every=10, observers=[watcher, ProgressObserver(2)])
    fit = fit_grades(STRUCTURE, X, Y, plan, regression=Regression(residual_scaling=True))
    for grade, record in enumerate(fit.records):
        assert (
            watcher.last[grade] == record
        )  # the last row and the outcome included, losses in the units of the targets
    assert "grade 2/2, step 30/30" in capsys.readouterr().err


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_grade_that_is_left_out_is_told(is_terminal):
    progress = ProgressObserver(3)
    progress.console = Console(file=io.StringIO(), force_terminal=is_terminal, width=80)
    rates = (0.05, 1e-9, 0.05)  # the second grade stays at its initial weights
    data = small_fits.X, small_fits.Y
    result = small_fits.fit(learning_rate=rates, while_better=True, validation=data, observers=[progress])
    shown = [line for line in progress.console.file.getvalue().splitlines() if "grade" in line]
    assert len(result.model.grades) == 1
    if is_terminal:
        assert "1 of 3 grades" in shown[-3]
        assert ["left out" in line for line in shown[-2:]] == [False, True]
    else:
        assert shown[-1] == "fit: grade 2 did not help on the rows held out, and was left out"


def test_the_time_that_preparation_takes_is_told_after_a_second_of_it(monkeypatch, capsys):
    clock = iter([0.0, 0.1, 20.0, 20.5, 21.5, 23.0, 27.0])
    monkeypatch.setattr("multigrade.progress.time.monotonic", lambda: next(clock))
    progress = ProgressObserver(0, "denoise")
    for share in (0, 0.01, 0.015, 0.025, 0.04, 0.08):
        progress.prepare(share)
    assert capsys.readouterr().err.splitlines() == [
        "denoise: 0 % done",
        "denoise: 2 % done, about 97 s left",  # 1.5 s for 0.015
        "denoise: 8 % done, about 92 s left",
    ]


def test_a_run_that_diverges_says_what_to_do(capsys):
    fit_grades(STRUCTURE, X, Y, Plan(30, "gd", learning_rate=1e8, observers=[ProgressObserver(2)]))
    assert "try a lower learning rate" in capsys.readouterr().err


def events(folder):
    """{tag: {step: value}} of a folder of event files, by TensorBoard's own reader."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found = {}
    for file in sorted(folder.iterdir()):
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                assert event.step not in found.get(value.tag, {}) or value.tag == "learning_rate"
                found.setdefault(value.tag, {})[event.step] = value.tensor.float_val[0]
    return found


def test_event_files_hold_the_record(tmp_path):
    from multigrade.curvature import SpectrumObserver

    spectrum = SpectrumObserver(every=20, num=2)
    metrics = {"worst": lambda prediction, targets: abs(prediction - targets).max()}
    with TensorBoardObserver(tmp_path / "run") as board:
        fit = fit_grades(
            STRUCTURE, X, Y, Plan(40, "gd", learning_rate=0.05, record_every=10, observers=[spectrum, board]),
            regression=Regression(metrics=metrics), validation=(X, Y),
        )  # fmt: skip
    for grade, record in enumerate(fit.records, 1):
        found = events(tmp_path / "run" / f"grade{grade}")
        tags = {"loss/training": "train_loss", "loss/validation": "validation_loss", "metric/worst": "worst"}
        for tag, column in tags.items():
            assert found[tag] == dict(zip(record.steps.tolist(), record.columns[column].tolist(), strict=True))
        smallest = record.observations["spectrum"]["smallest"][:, 0]
        assert list(found["spectrum/smallest"].values()) == pytest.approx(smallest, rel=1e-6)
        assert found["learning_rate"][40] == pytest.approx(0.05)


def test_without_the_extra_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'multigrade\[tensorboard\]'"):
        TensorBoardObserver(tmp_path)


# ---- at a terminal ---------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    np.savetxt(tmp_path / "data.csv", np.hstack([X, Y]), delimiter=",", header="a,y", comments="")
    return tmp_path


def at_a_terminal(arguments, cwd, width):
    """Standard error of a command whose standard error is a terminal of this width, as text with escape codes."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(width), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(
        [*RUN, *arguments], cwd=cwd, stdin=follower, stderr=follower, stdout=subprocess.DEVNULL, env=environment
    )
    os.close(follower)
    chunks = []
    while True:
        try:
            chunk = os.read(leader, 4096)
        except OSError:  # Linux's way to say that the other end was closed
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(leader)
    assert process.wait() == 0
    return b"".join(chunks).decode()


def test_the_live_view_draws_a_curve_per_grade(table):
    arguments = "fit data.csv --steps 200 --grades 2 --width 8 --optimiser gd --tensorboard runs".split()
    shown = at_a_terminal(arguments, table, 80)
    assert "grade 2/2" in shown
    last = shown[shown.rindex("grade 2/2") :]
    assert last.count("→") == 2
    assert set(last) & set(LEVELS[1:])
    assert "\x1b[?25h" in last  # the cursor is back
    assert sorted(path.name for path in (table / "runs").iterdir()) == ["grade1", "grade2"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_answered(table, number):
    """Ctrl-C, and what a batch system sends before it kills."""
    arguments = "fit data.csv --steps 100000000 --grades 1 --width 8 --optimiser gd --tensorboard runs".split()
    # Shells start background jobs with SIGINT ignored, and children would inherit that from the tests.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{listen}; from multigrade.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], cwd=table, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 120
        while not (table / "runs").exists() and time.monotonic() < deadline:  # training has begun
            time.sleep(0.05)
        process.send_signal(number)
        try:
            _, error = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert error.strip().splitlines()[-1] == "multigrade: interrupted"


def test_an_interrupt_in_a_callback_of_the_garbage_collector_is_not_lost():
    code = """
import gc, signal, time
from multigrade import cli

pending = [signal.SIGINT]

def callback(phase, info):
    if pending:
        signal.raise_signal(pending.pop())

signal.signal(signal.SIGINT, cli._interrupt)
gc.callbacks.append(callback)
gc.collect()
started = time.monotonic()
try:
    time.sleep(30)
except KeyboardInterrupt:
    print("heard", time.monotonic() - started < 5)
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert finished.stdout == "heard True\n"
    assert "ignored" not in finished.stderr


def test_an_interrupt_that_somebody_drops_is_sent_again_but_not_into_what_closes():
    code = """
import signal, time
from multigrade import cli

signal.signal(signal.SIGINT, cli._interrupt)
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    pass  # as JAX does while it traces
try:
    try:
        time.sleep(30)
    finally:
        time.sleep(5 * cli.HEARD_SECONDS)  # closes files
        print("closed")
except KeyboardInterrupt:
    print("heard")
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert finished.stdout == "closed\nheard\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("multigrade den", "denoise"),
        ("multigrade fit --tens", "--tensorboard"),
        ("multigrade fit --optimiser l", "lbfgs"),
    ],
)
def test_the_shell_completes_commands_options_and_values(words, expected, tmp_path):
    asked = {"_MULTIGRADE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    code = "import sys; sys.argv[0] = 'multigrade'; from multigrade.cli import main; main()"
    answer = subprocess.check_output([sys.executable, "-c", code], env={**os.environ, **asked}, text=True)
    assert answer.split() == [expected]


def test_info_tells_versions_devices_and_extras(tmp_path):
    import jax

    facts = json.loads(subprocess.check_output([*RUN, "info", "--json"], text=True))
    assert facts["versions"]["jax"] == jax.__version__
    assert facts["versions"]["multigrade"] == metadata.version("multigrade")
    assert facts["machine"]["device 0"].startswith(jax.devices()[0].platform)
    assert facts["extras"]["convex"] == "installed"
    shown = subprocess.check_output([*RUN, "info"], text=True)
    assert all(name in shown for name in ("versions", "extras", "caches", jax.__version__))
