"""Defects that an audit found, each by the case that failed."""

import enum
import os
import stat

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multigrade import MultiGradeRegressor, NoImprovement, Observation, Outcome, Plan, load_estimator
from multigrade.curvature.tracking import summarise_spectrum
from multigrade.files import atomic_path, check_place, is_same_file, read_arrays, write_arrays
from multigrade.tables.files import read_table
from multigrade.training import minimise
from multigrade.training.checkpoint import describe
from multigrade.training.grades import moments
from multigrade.training.problem import GradeProblem
from multigrade.training.record import RunRecord
from multigrade_paper.claims.ledger import _epochs, _of_shared_seeds, _paired
from multigrade_paper.claims.measures import mean
from multigrade_paper.job import Job, Result, Saved
from multigrade_paper.store import Store

from .fuzz import judge
from .small_fits import SMALL, X, Y, assert_same, fit


@jax.tree_util.register_static
class NotANumberAtStepFive:
    """p^2 / 2, whose loss alone is not finite at one step: the auxiliary variable counts them."""

    def init(self, params, data):
        return jnp.int32(0)

    def __call__(self, params, auxiliary, data):
        return jnp.where(auxiliary == 5, jnp.nan, 0.5 * jnp.sum(params**2)), auxiliary + 1

    def value_and_grad(self, params, auxiliary, data):
        return self(params, auxiliary, data), params


@pytest.mark.parametrize("record_every", [3, 1000])
def test_a_loss_that_is_not_finite_once_ends_the_run_wherever_records_and_chunks_fall(record_every):
    plan = Plan(steps=20, optimiser="gd", learning_rate=0.1, record_every=record_every)
    run = minimise(GradeProblem(NotANumberAtStepFive(), jnp.zeros(1)), jnp.ones(2), plan)
    assert (run.record.outcome, run.record.num_steps) == (Outcome.DIVERGED, 4)


def test_parameters_that_an_observer_keeps_stay_readable():
    class Keeper:
        name, every = "keeper", 10

        def __init__(self):
            self.kept = []

        def observe(self, snapshot, carry):
            self.kept.append((snapshot.params, snapshot.loss))
            return Observation()

    keeper = Keeper()
    result = fit(SMALL[:1], observers=[keeper])
    losses = [float(loss(params)) for params, loss in keeper.kept]
    np.testing.assert_allclose(losses, result.records[0].train_loss, rtol=1e-6)


def test_names_with_slashes_are_read_back_as_they_were():
    step = np.arange(2, dtype=np.int32)
    seen = {"a": {"step": step, "b/c": step, "%2F": step}, "a/b": {"step": step, "c": step}}
    record = RunRecord({"step": step, "train_loss": step}, seen)
    again = RunRecord.from_arrays(*record.to_arrays())
    assert again == record
    assert {name: set(values) for name, values in again.observations.items()} == {k: set(v) for k, v in seen.items()}


def test_weights_count_when_features_are_standardised():
    features = jnp.asarray([[0.0], [1.0], [1e6]])
    mean, deviation = moments(features, jnp.asarray([1.0, 3.0, 0.0]))
    np.testing.assert_allclose((mean[0], deviation[0]), (0.75, np.sqrt(0.75 * 0.25)), rtol=1e-6)


def test_a_row_of_weight_0_changes_no_grade():
    x, y, weights = np.vstack([X, [[1e6]]]), np.vstack([Y, [[0.0]]]), np.r_[np.ones(len(X)), 0.0]
    options = {"standardise_features": True, "sample_weight": weights, "steps": 20}
    with_it, without = fit(SMALL[:2], x, y, **options), fit(SMALL[:2], **{**options, "sample_weight": weights[:-1]})
    np.testing.assert_allclose(with_it.model(X), without.model(X), atol=1e-4)


class Plain:
    def __init__(self, patience):
        self.patience = patience


class Slotted:
    __slots__ = ("patience",)

    def __init__(self, patience):
        self.patience = patience


class Colour(enum.Enum):
    RED, BLUE = 1, 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Plain(1), Plain(2)),
        (Slotted(1), Slotted(2)),
        ({1, 2}, {1, 3}),
        (Colour.RED, Colour.BLUE),
        (b"a", b"b"),
        (1j, 2j),
        ({"a": Plain([1])}, {"a": Plain([2])}),
        (NoImprovement(3), NoImprovement(4)),
    ],
)
def test_settings_that_differ_are_described_differently(one, other):
    assert describe(one) != describe(other)
    assert describe(one) == describe(one)
    assert "0x" not in describe(one)


def test_a_run_that_diverged_before_its_first_step_has_a_summary():
    nothing = np.zeros(0, np.float32)
    seen = {"step": np.zeros(1, np.int32), "converged": np.zeros(1)}
    seen |= {name: np.full((1, 3), np.nan) for name in ("smallest", "largest")}
    record = RunRecord({"step": nothing, "train_loss": nothing}, {"spectrum": seen}, Outcome.DIVERGED)
    (summary,) = summarise_spectrum([record])
    assert np.isnan([summary.final_loss, summary.smallest, summary.largest]).all()
    assert "ended at nan" in summary.sentence


def test_the_mask_of_the_process_is_never_changed(tmp_path, monkeypatch):
    """Files of other threads would be open to all for a moment."""
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", lambda mask: pytest.fail("the mask was touched"))
            write_arrays(tmp_path / "a.safetensors", "test", {"a": np.zeros(1)}, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.safetensors").stat().st_mode) == 0o640


def test_what_fit_refuses_is_refused_by_predict_too():
    model = MultiGradeRegressor(1, (4,), solver="muon", max_iter=5, random_state=0).fit(X, Y[:, 0])
    for huge, told in ((1e300, "at most about 1e150 in size"), (1e38, "finite in float32")):
        with pytest.raises(ValueError, match=told):
            model.predict([[huge]])
    with pytest.raises(ValueError, match=r"X must be at most about 1e150 in size; got 1e\+300"):
        model.fit([[1e300], [1.0]], [0.0, 1.0])


@pytest.mark.parametrize("unit", [2.0**-660, 2.0**-900, 2.0**480])
def test_tiny_and_huge_units_of_inputs_and_targets_change_no_bit(unit):
    """Squares of targets near 1e-200 are 0: such targets were taken for constant."""
    options = {"n_grades": 1, "hidden_layer_sizes": (4,), "solver": "muon", "max_iter": 5, "random_state": 0}
    x, y = X.astype(np.float64), Y[:, 0].astype(np.float64)
    plain = MultiGradeRegressor(**options).fit(x, y).predict(x)
    other = MultiGradeRegressor(**options).fit(unit * x, unit * y).predict(unit * x)
    np.testing.assert_array_equal(other / unit, plain)


def test_a_model_file_with_weights_that_are_not_finite_is_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    MultiGradeRegressor(1, (4,), solver="muon", max_iter=5, random_state=0).fit(X, Y[:, 0]).save(path)
    arrays, description, _ = read_arrays(path, "estimator")
    name = next(name for name, array in arrays.items() if array.ndim == 2)
    write_arrays(path, "estimator", {**arrays, name: np.full_like(arrays[name], np.nan)}, description)
    with pytest.raises(ValueError, match="the arrays of grade 1 must be finite numbers"):
        load_estimator(path)
    del arrays["y_mean_"]
    write_arrays(path, "estimator", arrays, description)
    with pytest.raises(ValueError, match="a part of the estimator is missing or wrong"):
        load_estimator(path)


def test_places_that_refuse_files_are_refused_before_any_work(tmp_path):
    with pytest.raises(ValueError, match=r"/proc/model\.safetensors cannot be written"):
        check_place(type(tmp_path)("/proc/model.safetensors"))
    os.symlink(tmp_path / "loop", tmp_path / "loop")
    with pytest.raises(ValueError, match="does not exist"):
        check_place(tmp_path / "loop" / "model.safetensors")
    assert is_same_file(tmp_path / "loop", tmp_path / "." / "loop")
    assert not is_same_file(tmp_path / "loop", tmp_path / "other")
    assert os.listdir(tmp_path) == ["loop"]


def test_a_file_that_fails_half_way_leaves_nothing(tmp_path):
    def write_half():
        with atomic_path(tmp_path / ("a" * 200 + ".csv")) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert os.listdir(tmp_path) == []


def test_a_checkpoint_that_cannot_be_written_warns_and_the_fit_goes_on(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()

    class Remover:
        name, every = "remover", 10

        def observe(self, snapshot, carry):
            for file in folder.glob("*"):
                file.unlink()
            if folder.exists():
                folder.rmdir()

    with pytest.warns(UserWarning, match="the checkpoint was not written, the run goes on without it: the folder"):
        result = fit(SMALL[:1], checkpoint=folder / "fit.checkpoint", observers=[Remover()])
    assert_same(result.model, fit(SMALL[:1]).model)


def test_tables_that_are_not_what_they_seem_are_refused_with_a_hint(tmp_path):
    (tmp_path / "a.csv").write_text("x;y\n1;2\n")
    with pytest.raises(ValueError, match="separates its columns by semicolons; write it with commas"):
        read_table(tmp_path / "a.csv")
    np.savez(tmp_path / "a.npz", X=np.ones((2, 1)) * 1j, y=np.ones(2))
    with pytest.raises(ValueError, match="X must hold real numbers; got complex128"):
        read_table(tmp_path / "a.npz")


def test_losses_that_rise_are_told():
    rising = RunRecord({"step": np.arange(2), "train_loss": np.array([1.0, 2.0])})
    assert rising.has_risen
    assert not RunRecord({"step": np.arange(2), "train_loss": np.array([1.0, np.nan])}).has_risen


def test_new_rows_decide_on_new_grades():
    """With warm_start, a grade is compared with what is left over on the present rows, not with an old record."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 1))
    y = np.where(np.arange(300) < 150, 0.01, 1.0) * np.sin(6 * x[:, 0])  # the first rows are easy
    options = {"hidden_layer_sizes": (16,), "max_iter": 200, "early_stopping": True, "warm_start": True}
    options |= {"solver": "muon", "standardize": False, "random_state": 0}
    model = MultiGradeRegressor(n_grades=1, **options).fit(x[:150], y[:150])
    model.set_params(n_grades=3).fit(x[150:], y[150:])
    assert model.n_grades_ > 1
    assert model.score(x[150:], y[150:]) > 0.6


def test_results_without_pictures_or_image_break_no_report(tmp_path):
    store = Store(tmp_path / "store")
    record = RunRecord({"step": np.arange(2), "train_loss": np.array([2.0, 1.0], np.float32)}, num_steps=2)
    for kind in ("stranger", "regression", "restoration", "baseline", "descent"):
        for settings in ({"task": "regress", "image": "own"}, {"stand_in": True}, {}):
            store.save(Job(f"own {kind}", kind, settings), Result({"test_psnr": 20.0}, (record,)), {"seconds": 0.0})
    outcome = judge.command(["report", "store", "-o", "page.html"], tmp_path)
    assert (outcome.is_refused, outcome.problem) == (False, None)
    assert (tmp_path / "page.html").stat().st_size > 10_000


def saved(draw, epochs, outcome=Outcome.FINISHED):
    settings = {"config": "restoration", "epochs": epochs, "noise_seed": draw, "recipe": "paper"}
    record = RunRecord({"step": np.arange(2), "train_loss": np.array([2.0, 1.0])}, outcome=outcome)
    return Saved(Job("job", "restoration", settings), Result({"test_psnr": 20.0}, (record,)), {})


def test_runs_are_paired_by_length_and_draw_of_the_noise():
    full = _epochs(saved(0, 1).job.setup)[1]
    one = [saved(0, full), saved(1, full), saved(0, full // 2)]
    other = [saved(1, full), saved(0, full // 2), saved(2, full)]
    pair = _paired({"one": one, "other": other})
    assert pair == {"one": [one[1]], "other": [other[0]]}
    assert _paired({"one": one[:1], "other": other[:1]}) == {"one": one[:1], "other": other[:1]}


def seeded(seed, rate):
    return Saved(Job("job", "descent", {"seed": seed, "learning_rate": rate}), Result({}, ()), {})


def test_methods_and_rates_are_compared_on_the_seeds_that_all_have():
    one, other = [seeded(0, 0.1), seeded(1, 0.1), seeded(2, 0.1)], [seeded(0, 0.2), seeded(1, 0.2), seeded(1, 0.3)]
    assert _of_shared_seeds({"one": one}) == {"one": one}
    assert _of_shared_seeds({"one": one, "other": other}) == {"one": [one[1]], "other": other[1:]}
    assert _of_shared_seeds({"one": one[:1], "other": other[1:]}) == {"one": one[:1], "other": other[1:]}


def test_a_run_that_diverged_has_no_psnr_whatever_was_stored():
    assert mean([saved(0, 1)], "test_psnr") == 20.0
    assert mean([saved(0, 1), saved(0, 1, Outcome.DIVERGED)], "test_psnr") is None
