"""The evidence in the repository: small, sound, without pictures, and the page says what it says."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from multigrade.cli import app
from multigrade_paper.claims import Status, claims, verdicts
from multigrade_paper.claims.measures import rises
from multigrade_paper.evidence import Evidence, open_results, read_tried, thin
from multigrade_paper.job import Job, Result, Saved
from multigrade_paper.report import page
from multigrade_paper.report import verdicts as verdict_page
from multigrade_paper.report.gather import Gatherer
from multigrade_paper.store import Store

from . import worlds

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return Evidence(ROOT / "reproduction" / "evidence")


def test_the_page_is_current(evidence):
    """If not: multigrade evidence reproduction/evidence --page docs/verdicts.md"""
    made = verdict_page.page(list(evidence.all()), read_tried(evidence.path))
    assert (ROOT / "docs" / "verdicts.md").read_text() == made


def test_the_replays_meet_the_record_where_they_must(evidence):
    """The calm run's four grades within 0.2 %, grade 1 of setting 1 within 0.1 %, SGDL inside its band to 200,000."""
    found = {verdict.claim.id: verdict for verdict in verdicts(list(evidence.all()))}
    calm = [f"recorded/denoising-mgdl/grade-{grade}/{what}" for grade in range(1, 5) for what in ("train", "psnr")]
    for name in (*calm, "recorded/synthetic-1-mgdl/grade-1/train", "recorded/synthetic-2-sgdl/loss-to-200000"):
        assert found[name].status is Status.HOLDS, found[name].sentence
    assert found["recorded/synthetic-1-mgdl/grade-1/validation"].status is Status.ROUNDING
    assert "| 6 | 32,900 to 33,000 |" in (ROOT / "docs" / "verdicts.md").read_text()  # where copies part


def test_every_claim_answers_a_question_of_the_reader_in_a_hurry():
    questions = verdict_page.QUESTIONS
    assert [c.id for c in claims() if not any(c.id.startswith(a) and c.id.endswith(z) for _, a, z in questions)] == []


def test_the_evidence_is_sound_and_small_and_has_no_pictures(evidence):
    assert not evidence.damaged()
    folders = {line.split(",")[0] for line in (evidence.path / "index.csv").read_text().splitlines()[1:]}
    files = [path for folder in folders for path in (evidence.path / folder).iterdir()]
    assert {path.name for path in files} <= {"runs.csv", "curves.safetensors", "tried.md"}
    assert sum(path.stat().st_size for path in files) < 10e6
    assert not any("host" in saved.info or saved.result.pictures for saved in evidence.all())


def test_what_was_tried_belongs_to_claims(evidence):
    names = [verdict.claim.id for verdict in verdicts([])]
    for start in read_tried(evidence.path):
        assert any(name.startswith(start) for name in names), start


def test_a_fresh_clone_draws_the_report(evidence):
    html = page.build(Gatherer(side=64).read(evidence), title="evidence")
    assert "eig-synthetic" in html
    assert "Content-Security-Policy" in html  # what it names outside itself is not loaded


def noisy(epochs: int, num: int):
    record = worlds.record(epochs)
    steps = np.linspace(0, epochs, num).astype(np.int32)
    rng = np.random.default_rng(0)
    loss = np.exp(-np.arange(num) / num + 0.1 * rng.normal(size=num)).astype(np.float32)
    return dataclasses.replace(record, columns={"step": steps, "train_loss": loss, "psnr": -10 * np.log10(loss)})


@pytest.mark.parametrize(("epochs", "num"), [(1_000_000, 10_001), (777_700, 7778), (10_000, 1001), (50, 51)])
@pytest.mark.parametrize("column", ["train_loss", "psnr"])
def test_thinned_records_rise_as_full_ones(epochs, num, column):
    full = noisy(epochs, num)
    (small,) = thin(Saved(Job("item", "kind", {}), Result({}, (full,)))).result.records
    assert len(small.steps) <= 320
    for span in ({}, {"first": 0.5}, {"last": 0.5}, {"first": 200_000, "last": 600_000}):
        assert rises(small, column, **span) == pytest.approx(rises(full, column, **span), rel=1e-9)
    assert small.train_loss.max() == full.train_loss.max()


@pytest.mark.parametrize("is_right", [True, False])
def test_thinned_results_give_the_verdicts_of_full_ones(tmp_path, is_right):
    results = worlds.world(is_right, ["eig-synthetic", "eig-image-denoising", "theory"])
    small = Evidence(tmp_path / "small", create=True)
    assert len(small.add(map(thin, results[3:]))) == len(results) - 3
    assert len(small.add(map(thin, results))) == 3  # what is there is kept
    first, second = (
        [(v.claim.id, v.status, v.sentence) for v in verdicts(list(found))] for found in (results, small.all())
    )
    assert first == second


def test_a_run_is_read_as_it_was_written(tmp_path):
    settings = {"method": "1e3", "image": 'a, "b"\nc', "task": "", "seed": None, "changed": [], "rate": 0.1 + 0.2}
    metrics = {"train_loss": 1e-300, "note": "true", "grades": [1.0, None], "is_diverged": False, "nothing": None}
    arrays = {"x": np.arange(3, dtype=np.float32), "every": np.array(7)}
    record = noisy(50, 51)
    saved = Saved(Job("item", "kind", settings, "5e3"), Result(metrics, (record,), arrays), {"seconds": 1.5})
    written = Evidence(tmp_path, create=True)
    written.add([saved])
    for evidence in (written, open_results(tmp_path)):
        (read,) = evidence.all()
        assert (read.job, read.result.metrics, read.info) == (saved.job, metrics, {"seconds": 1.5})
        assert read.result.records == (record,)
        assert {name: (a.dtype, a.tolist()) for name, a in read.result.arrays.items()} == {
            name: (a.dtype, a.tolist()) for name, a in arrays.items()
        }


def test_runs_that_the_catalogue_asked_for_once_leave_when_their_successors_come(tmp_path):
    (new, *_) = worlds.world(True, ["theory"])
    settings = {name: value for name, value in new.job.settings.items() if name != "push"}
    old = new._replace(job=dataclasses.replace(new.job, settings=settings))
    other = old._replace(job=worlds.with_settings(old.job, theorem=7))
    evidence = Evidence(tmp_path, create=True)
    evidence.add([old, other])
    evidence.add([new])
    assert set(evidence.keys()) == {new.job.key, other.job.key}


@pytest.mark.parametrize("name", ["runs.csv", "curves.safetensors"])
def test_a_changed_file_is_told_of_and_not_used(tmp_path, name):
    Evidence(tmp_path, create=True).add(worlds.world(True, ["theory", "convex"]))
    path = tmp_path / "theory" / name
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    evidence = Evidence(tmp_path)
    assert {saved.job.item for saved in evidence.all()} == {"convex"}
    assert "checksum" in evidence.damaged()["theory"]
    with pytest.raises(ValueError, match="nothing was added"):
        evidence.add(worlds.world(True, ["table1"]))


def test_the_command_writes_the_store_and_its_page(tmp_path):
    full = Store(tmp_path / "runs")
    for saved in worlds.world(True, ["convex"]):
        full.save(saved.job, saved.result, {"seconds": 1.0})
    told = CliRunner().invoke(
        app, ["evidence", str(full.path), "-o", str(tmp_path / "small"), "--page", str(tmp_path / "p.md")]
    )
    assert told.exit_code == 0, told.output
    assert "2 results thinned" in told.output
    assert "`theorem/3`" in (tmp_path / "p.md").read_text()
