"""Experiments: equal jobs give equal results, also after an interruption; what is kept is what was computed."""

import dataclasses
import json

import numpy as np
import pytest

from multigrade.pictures.metrics import psnr
from multigrade.synthetic import setting, training_points
from multigrade_paper import catalogue, experiments
from multigrade_paper.job import Job

SHORT = {"regression": 40, "restoration": 20, "descent": 200, "denoising descent": 100}  # steps per grade
ITEMS = {
    "regression": "figure-cameraman", "restoration": "table2", "descent": "eig-image-regression",
    "denoising descent": "eig-image-denoising", "baseline": "table3", "input": "table2",
    "theory": "theory", "convex": "convex",
    "steadiness": "steadiness", "frequencies": "spectral-bias", "equation": "equations",
}  # fmt: skip


def job(kind, **changes) -> Job:
    """The first MGDL job of a kind at quick size, with fewer steps."""
    jobs = catalogue.expand([ITEMS[kind]], recipe="quick", images=None)
    found = next(
        j for j in jobs if j.kind == kind and j.settings.get("method", "MGDL") in ("MGDL", "baseline", "input")
    )
    changes = {"epochs": SHORT[kind], **changes} if kind in SHORT else changes
    # Spectra of restoration runs take long and have tests of their own.
    spectra = {"descent": {"spectrum_every": 100}, "denoising descent": {"spectrum_every": None}}
    changes |= spectra.get(kind, {})
    return dataclasses.replace(found, settings={**found.settings, **changes})


def assert_equal(first, second):
    """To the bit, times aside."""
    told = [{k: v for k, v in result.metrics.items() if k != "seconds"} for result in (first, second)]
    assert json.dumps(told[0], sort_keys=True) == json.dumps(told[1], sort_keys=True)
    for a, b in ((first.arrays, second.arrays), (first.pictures, second.pictures)):
        assert a.keys() == b.keys()
        assert all(np.array_equal(a[name], b[name]) for name in a)
    assert len(first.records) == len(second.records)
    for a, b in zip(first.records, second.records, strict=True):
        (arrays, end), (other, other_end) = a.to_arrays(), b.to_arrays()
        assert {**end, "seconds": 0} == {**other_end, "seconds": 0}
        assert all(np.array_equal(arrays[name], other[name], equal_nan=True) for name in arrays)


@pytest.mark.parametrize("num", [1, 64, 1000, 1024])
def test_training_points_are_distinct_points_of_the_setting(num):
    data, (x, y) = setting(2), training_points(2, num)
    rows = np.searchsorted(data.x_train[:, 0], x[:, 0])
    assert len(np.unique(rows)) == num
    np.testing.assert_array_equal(data.y_train[rows], y)
    with pytest.raises(ValueError, match=f"points must be between 1 and 1024, .*; got {1024 + num}"):
        training_points(2, 1024 + num)


class Interruption(Exception):
    pass


@dataclasses.dataclass
class Watcher:
    """Notes the grades that are trained; interrupts the one it is told to."""

    stop_in: int | None = None
    grades: set = dataclasses.field(default_factory=set)
    name: str = "watcher"
    every: None = None

    def observe(self, snapshot, carry):
        self.grades.add(snapshot.grade)
        if snapshot.grade == self.stop_in and snapshot.step > 0:
            raise Interruption


def assert_is_told_in_json(result):
    assert result.metrics.get("stand_in", True) is True
    assert json.loads(json.dumps(result.metrics, allow_nan=False)) == result.metrics


@pytest.mark.parametrize("kind", sorted(experiments.KINDS.keys() - SHORT.keys()))
def test_equal_jobs_give_equal_results(kind):
    first, second = (experiments.run(job(kind)) for _ in range(2))
    assert_equal(first, second)
    assert_is_told_in_json(first)


@pytest.mark.parametrize("kind", SHORT)
def test_an_interrupted_job_resumes_to_the_bits_of_an_uninterrupted_one(kind, tmp_path):
    todo, checkpoint = job(kind), tmp_path / "fit.checkpoint"
    with pytest.raises(Interruption):
        experiments.run(todo, checkpoint=checkpoint, observers=[Watcher(stop_in=2)])
    watcher = Watcher()
    resumed = experiments.run(todo, checkpoint=checkpoint, observers=[watcher])
    assert watcher.grades == {2, 3}
    whole = experiments.run(todo)
    assert_equal(resumed, whole)
    assert_is_told_in_json(whole)


def test_snapshots_are_the_predictions_at_late_steps():
    result = experiments.run(job("regression"))
    steps = [int(step) for step in result.metrics["snapshots"]]
    assert steps == [10, 20, 30]  # of 40: those of 9800, 9850, 9900, 9950 of 10,000 that are above 0
    reference = result.pictures["reference"]
    for step in steps:
        assert psnr(result.pictures[f"step {step}"], reference) == pytest.approx(result.metrics["snapshots"][str(step)])
    assert "parameters" not in result.records[-1].observations
    assert set(result.pictures) >= {"input", "grade 1", "grade 4", "result", "reference"}
    assert result.metrics["test_psnr"] == pytest.approx(psnr(result.pictures["result"], reference))


def test_paper_runs_keep_the_iterations_of_figure_5():
    from multigrade_paper.experiments.reconstruction import snapshot_steps

    (sgdl, *_) = catalogue.expand(["figure-cameraman"], recipe="paper", images=None)
    assert snapshot_steps(sgdl.setup) == (9800, 9850, 9900, 9950)


def test_spectra_are_recorded_and_summarised():
    result = experiments.run(job("descent"))
    for record, summary in zip(result.records, result.metrics["spectrum"], strict=True):
        smallest = record.observations["spectrum"]["smallest"]
        assert smallest.shape[1] == 10
        assert summary["smallest"] == np.nanmin(smallest)


def test_the_edge_rule_ends_grades_of_mgdl_alone():
    jobs = catalogue.expand(["eig-image-regression"], recipe="paper", images=None)
    assert {(j.settings["method"], j.settings["edge"]) for j in jobs} == {("SGDL", None), ("MGDL", -0.95)}
    wild = job("descent", learning_rate=2.0, edge=0.5)
    assert "stopped by an observer" in experiments.run(wild).metrics["outcomes"]


def test_a_diverged_run_is_a_result():
    (found,) = [
        j for j in catalogue.expand(["lr-synthetic"], recipe="quick", images=None, overrides={"rates": "1000"})
        if (j.settings["setting"], j.settings["method"]) == (1, "SGDL")
    ]  # fmt: skip
    result = experiments.run(dataclasses.replace(found, settings={**found.settings, "epochs": 200}))
    assert result.metrics["is_diverged"]
    assert result.metrics["outcomes"] == ["diverged"]


def test_baselines_include_the_degraded_picture():
    result = experiments.run(job("baseline"))
    assert result.metrics["input_psnr"] == pytest.approx(
        psnr(result.pictures["input"], result.pictures["reference"]), abs=1e-9
    )
    assert set(result.metrics["methods"]) == {"TV", "TV best", "Wiener", "Wiener best"}
    for name in ("TV", "Wiener"):
        assert result.metrics["methods"][f"{name} best"] >= result.metrics["methods"][name]


def test_a_job_refuses_another_image():
    other = dataclasses.replace(job("regression"), data="0" * 16)
    with pytest.raises(ValueError, match=r"the image cameraman is not the one that job .* was made for"):
        experiments.run(other)


def test_an_unknown_kind_is_one_line():
    with pytest.raises(ValueError, match=r"kind must be one of .*; got 'none'"):
        experiments.run(Job("item", "none", {}))
