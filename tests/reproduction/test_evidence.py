"""The evidence in the repository: small, sound, without pictures, and the page says what it says."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from multigrade.cli import app
from multigrade_paper.claims import claims, verdicts
from multigrade_paper.claims.measures import rises
from multigrade_paper.evidence import thinned, write
from multigrade_paper.job import Result
from multigrade_paper.report import page
from multigrade_paper.report import verdicts as verdict_page
from multigrade_paper.report.gather import Gatherer
from multigrade_paper.store import Store

from . import worlds

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def evidence() -> Store:
    return Store(ROOT / "reproduction" / "evidence", create=False)


def test_the_page_is_current(evidence):
    """If not: multigrade evidence reproduction/evidence --page docs/verdicts.md"""
    made = verdict_page.page(list(evidence.all()), verdict_page.read_tried(evidence.path))
    assert (ROOT / "docs" / "verdicts.md").read_text() == made


def test_every_claim_answers_a_question_of_the_reader_in_a_hurry():
    questions = verdict_page.QUESTIONS
    assert [c.id for c in claims() if not any(c.id.startswith(a) and c.id.endswith(z) for _, a, z in questions)] == []


def test_the_evidence_is_sound_and_small_and_has_no_pictures(evidence):
    assert not evidence.damaged()
    files = [path for saved in evidence.all() for path in (evidence.path / saved.job.key).iterdir()]
    assert {path.suffix for path in files} == {".json", ".safetensors"}
    assert sum(path.stat().st_size for path in files) < 10e6
    assert all(saved.info["host"] == "" for saved in evidence.all())


def test_what_was_tried_belongs_to_claims(evidence):
    names = [verdict.claim.id for verdict in verdicts([])]
    for start in verdict_page.read_tried(evidence.path):
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
    (small,) = thinned(Result({}, (full,))).records
    assert len(small.steps) <= 320
    for span in ({}, {"first": 0.5}, {"last": 0.5}, {"first": 200_000, "last": 600_000}):
        assert rises(small, column, **span) == pytest.approx(rises(full, column, **span), rel=1e-9)
    assert small.train_loss.max() == full.train_loss.max()


@pytest.mark.parametrize("is_right", [True, False])
def test_a_thinned_store_gives_the_verdicts_of_the_full_one(tmp_path, is_right):
    results, small = (
        worlds.world(is_right, ["eig-synthetic", "eig-image-denoising", "theory"]),
        Store(tmp_path / "small"),
    )
    full = Store(tmp_path / "full")
    for saved in results:
        full.save(saved.job, saved.result, {"seconds": 1.0})
    assert len(list(write(full, small))) == len(results)
    assert not list(write(full, small))  # what is there is kept
    first, second = (
        [(v.claim.id, v.status, v.sentence) for v in verdicts(list(store.all()))] for store in (full, small)
    )
    assert first == second


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
