"""The spectrum along a run: what is recorded, what ends a grade, what sets the rate, what is drawn and saved."""

import jax
import numpy as np
import optax
import pytest
from typer.testing import CliRunner

from multigrade import pictures, structures
from multigrade.cli import app
from multigrade.commands._spectrum import check_options, load_problem, run_spectrum, structure_for
from multigrade.commands.spectrum import Spectrum
from multigrade.curvature import (
    ExponentObserver,
    SafeRate,
    SpectrumObserver,
    edge_of_stability,
    iteration_spectrum,
    load_spectrum,
    look,
    summarise_spectrum,
)
from multigrade.curvature.figure import spectrum_figure
from multigrade.training import Checkpointing, Outcome, Plan, fit_grades
from multigrade.training.objectives import LeastSquares, Rows

X = np.linspace(0, 1, 40)[:, None]
Y = np.sin(9 * X)
STRUCTURE = structures.graded(1, [(6,), (5,)], 1, bias_std=0.2)


def fit(observers, *, steps=60, learning_rate=0.05):
    plan = Plan(steps, "gd", learning_rate, record_every=20, observers=observers)
    return fit_grades(STRUCTURE, X, Y, plan)


def test_recorded_spectrum_is_that_of_the_training_loss():
    result = fit([SpectrumObserver(every=20, num=4)])
    assert [list(record.observations["spectrum"]["step"]) for record in result.records] == [[0, 20, 40, 60]] * 2
    rows = Rows(jax.numpy.asarray(X), jax.numpy.asarray(Y))
    grade = result.model.grades[0]
    expected = iteration_spectrum(lambda p: LeastSquares(grade.network)(p, (), rows)[0], grade.params, 0.05, 4)
    seen = result.records[0].observations["spectrum"]
    np.testing.assert_allclose(seen["smallest"][-1], expected.smallest, atol=1e-5)
    np.testing.assert_allclose(seen["largest"][-1], expected.largest, atol=1e-5)
    assert seen["converged"].all()


def test_edge_of_stability_ends_the_grade_and_the_next_one_starts():
    result = fit([SpectrumObserver(every=20, num=2, rules=(edge_of_stability(0.999),))])
    first, second = result.records
    assert (first.outcome, first.num_steps) == (Outcome.OBSERVER, 20)  # not at step 0
    assert "below 0.999" in first.sentence
    assert second.num_steps > 0


def test_a_spectrum_at_rate_0_is_that_of_the_identity():
    result = fit([SpectrumObserver(every=20, num=2)], learning_rate=optax.linear_schedule(0.0, 0.1, 20))
    seen = result.records[0].observations["spectrum"]
    np.testing.assert_array_equal(seen["smallest"][0], 1)
    assert np.all(seen["smallest"][1:, 0] < 1)


def test_plain_descent_is_known_however_it_is_written():
    observers = [SpectrumObserver(20, num=3), SafeRate(20, name="safe", fraction=1.0)]
    plans = [
        Plan(20, optax.sgd(0.05), record_every=20, observers=observers[:1]),
        Plan(20, "gd", 0.05, record_every=20, observers=observers[:1]),
    ]
    hidden, named = (fit_grades(STRUCTURE, X, Y, plan).records[0].observations["spectrum"] for plan in plans)
    np.testing.assert_allclose(hidden["smallest"], named["smallest"], atol=1e-5)
    np.testing.assert_allclose(hidden["learning_rate"], 0.05, rtol=1e-6)
    plan = Plan(20, optax.sgd(0.05), record_every=20, observers=observers[1:])
    seen = fit_grades(STRUCTURE, X, Y, plan).records[0].observations["safe"]
    np.testing.assert_allclose(0.05 * seen["learning_rate"], 2 / seen["sharpness"], rtol=1e-3)


@pytest.mark.parametrize("optimiser", ["momentum", "adam"])
def test_another_optimiser_is_judged_by_its_own_map(optimiser):
    observers, rate = [SpectrumObserver(20, num=4), SafeRate(20)], 0.4 if optimiser == "momentum" else 0.004
    result = fit_grades(STRUCTURE, X, Y, Plan(40, optimiser, rate, record_every=20, observers=observers[:1]))
    seen = result.records[0].observations["spectrum"]
    assert "smallest" not in seen
    assert seen["left_real"].shape == (len(seen["step"]), 4)
    if optimiser == "momentum":  # the leftmost eigenvalue belongs to the largest curvature
        trace = 1.9 - seen["ratio"][0] * 3.8
        assert trace < 1.7
        expected = np.real(trace / 2 - np.sqrt(complex(trace) ** 2 / 4 - 0.9))
        np.testing.assert_allclose(seen["left_real"][0, 0], expected, atol=1e-4)
    safe = fit_grades(STRUCTURE, X, Y, Plan(40, optimiser, 0.004, record_every=20, observers=observers[1:]))
    for record in safe.records:
        seen = record.observations["safe rate"]
        limit = 3.8 if optimiser == "momentum" else 38
        np.testing.assert_allclose(seen["learning_rate"] * seen["sharpness"], 0.8 * 0.1 * limit, rtol=1e-3)


@pytest.mark.parametrize("observer", [SpectrumObserver(20), SafeRate(20)])
def test_what_cannot_be_judged_is_refused(observer):
    with pytest.raises(ValueError, match="must not search along lines"):
        fit_grades(STRUCTURE, X, Y, Plan(20, "lbfgs", record_every=20, observers=[observer]))


def test_edge_of_stability_ignores_eigenvalues_that_were_not_found():
    spectrum = iteration_spectrum(lambda w: (w**2).sum(), np.ones(3), 0.1, 1)
    rule = edge_of_stability(-0.95)
    assert rule(spectrum) is None
    object.__setattr__(spectrum.hessian, "largest", np.array([np.nan]))
    assert rule(spectrum) is None
    object.__setattr__(spectrum.hessian, "largest", np.array([19.6]))
    assert "-0.96" in str(rule(spectrum))


def test_a_look_from_another_loop_is_that_of_our_own():
    """Heavy ball by hand: the same numbers as the spectrum of its map, and a rate below the threshold."""
    loss, w, optimiser = lambda w: 5 * w @ w, np.ones(2, np.float32), optax.sgd(0.1, momentum=0.9)
    seen = look(SpectrumObserver(num=2, rules=(edge_of_stability(0.99),)), 3, loss, w, optimiser)
    assert seen.values["ratio"] == pytest.approx(10 / 38)
    assert seen.stop is not None
    safe = look(SafeRate(), 3, loss, w, optax.sgd(1.0), learning_rate=0.3, carry=None)
    assert safe.learning_rate == pytest.approx(0.8 * 2 / 10)
    with pytest.raises(TypeError, match="lyapunov_exponents"):
        look(ExponentObserver(), 0, loss, w, optimiser)


def test_safe_rate_descends_where_the_given_rate_diverges():
    assert fit([], learning_rate=50.0).outcome is Outcome.DIVERGED
    result = fit([SafeRate(every=20)], learning_rate=50.0, steps=200)
    assert result.outcome is Outcome.FINISHED
    for record in result.records:
        seen = record.observations["safe rate"]
        np.testing.assert_allclose(seen["learning_rate"], SafeRate().fraction * 2 / seen["sharpness"], rtol=1e-3)
        assert np.all(np.diff(record.train_loss) <= 1e-6)


def test_a_resumed_run_sees_the_same_spectra(tmp_path):
    class Interrupt:
        name, every = "interrupt", 20

        def observe(self, snapshot, carry):
            if snapshot.grade == 1 and snapshot.step == 40 and self.armed:
                raise KeyboardInterrupt

    wide = structures.graded(1, [(300,), (5,)], 1)  # large enough for Lanczos and its warm start

    def run(armed, path):
        Interrupt.armed = armed  # of the class, so that the observer's settings stay the same
        observers = [SpectrumObserver(every=20, num=2), SafeRate(every=20), Interrupt()]
        plan = Plan(60, "gd", learning_rate=0.001, record_every=20, observers=observers)
        return fit_grades(wide, X, Y, plan, checkpoint=Checkpointing(path, every=0.0))

    whole = run(False, tmp_path / "whole.checkpoint")
    with pytest.raises(KeyboardInterrupt):
        run(True, tmp_path / "cut.checkpoint")
    resumed = run(False, tmp_path / "cut.checkpoint")
    for a, b in zip(whole.records, resumed.records, strict=True):
        for name in ("spectrum", "safe rate"):
            for key, values in a.observations[name].items():
                # The run repeats to the bit; LAPACK's last digits depend on its threads.
                np.testing.assert_allclose(values, b.observations[name][key], rtol=1e-8)
        np.testing.assert_array_equal(a.train_loss, b.train_loss)


def test_summary_counts_what_left_the_band_and_the_figure_draws_it(tmp_path):
    steady, wild = fit([SpectrumObserver(every=20, num=3)]), fit([SpectrumObserver(every=20, num=3)], learning_rate=1.0)
    assert [s.num_below for s in summarise_spectrum(steady.records)] == [0, 0]
    summary = summarise_spectrum(wild.records)[0]
    assert summary.num_below > 0
    assert "at or below -1" in summary.sentence
    figure = spectrum_figure({"steady": steady.records, "wild": wild.records})
    assert len(figure.axes) == 4
    figure.savefig(tmp_path / "figure.png")
    with pytest.raises(ValueError, match="SpectrumObserver"):
        summarise_spectrum(fit([]).records)


def test_summary_of_an_optimiser_without_a_threshold_names_none():
    plan = Plan(20, "muon", record_every=20, observers=[SpectrumObserver(20, num=2)])
    (summary,) = summarise_spectrum(fit_grades(STRUCTURE[:1], X, Y, plan).records)
    assert np.isnan(summary.median_ratio)
    assert "threshold" not in summary.sentence


def test_command_writes_a_figure_and_a_record_that_can_be_read_back(tmp_path):
    table, figure = tmp_path / "table.csv", tmp_path / "figure.png"
    rows = "\n".join(f"{a:.6f},{b:.6f}" for a, b in zip(X[:, 0], Y[:, 0], strict=True))
    table.write_text("x,y\n" + rows)
    options = ["--steps", "20", "--every", "10", "--num", "2", "--edge", "-0.95", "-o", str(figure)]
    result = CliRunner().invoke(app, ["spectrum", str(table), *options])
    assert result.exit_code == 0, result.output
    assert result.output.count("at or below -1 in") == 4
    assert figure.stat().st_size > 0
    records, description = load_spectrum(tmp_path / "figure.safetensors")
    assert (description["source"], description["method"]) == ("table.csv", "mgdl")
    again = run_spectrum(Spectrum(source=str(table), method="mgdl", steps=20, every=10, num=2, edge=-0.95))
    for record, repeated in zip(records, again, strict=True):
        seen, expected = record.observations["spectrum"], repeated.observations["spectrum"]
        np.testing.assert_allclose(seen["smallest"], expected["smallest"], rtol=1e-9)


def test_command_takes_the_papers_structures():
    problem = load_problem("1")
    assert structure_for(problem, "sgdl") == structures.SGDL_1
    assert structure_for(problem, "mgdl") == structures.MGDL_1
    assert structure_for(problem, "msdl") == structures.MSDL


def test_command_reads_settings_and_images(tmp_path):
    from PIL import Image

    assert load_problem("1").inputs.shape == (1024, 1)
    np.testing.assert_array_equal(load_problem(":chart", stride=64).targets[0], pictures.load(":chart").pixels[0, 0])
    pixels = np.arange(48, dtype=np.uint8).reshape(6, 8)
    Image.fromarray(pixels).save(tmp_path / "image.png")
    problem = load_problem(str(tmp_path / "image.png"), stride=2)
    assert problem.inputs.shape == (12, 2)
    np.testing.assert_allclose(problem.inputs[5], [1 * 2 / 8, 1 * 2 / 6])
    np.testing.assert_allclose(problem.targets[5], pixels[2, 2] / 255, rtol=1e-6)
    with pytest.raises(ValueError, match="there is no file"):
        load_problem("nowhere.png")
    (tmp_path / "text.png").write_text("not a picture")
    with pytest.raises(ValueError, match="not a PNG, JPEG or TIFF image"):
        load_problem(str(tmp_path / "text.png"))
    with pytest.raises(ValueError, match="method must be one of"):
        check_options(Spectrum(source="1", method="adam"))


@pytest.mark.parametrize("is_colour", [False, True])
def test_command_reads_all_bits_of_a_deep_image(is_colour, tmp_path):
    from multigrade.pictures.files import Picture, save

    grey = np.arange(48).reshape(6, 8) * 1365 / 65535
    save(tmp_path / "deep.png", Picture(np.stack([grey] * 3, axis=-1) if is_colour else grey, depth=16))
    problem = load_problem(str(tmp_path / "deep.png"), stride=1)
    np.testing.assert_allclose(problem.targets[:, 0], grey.ravel(), rtol=1e-12, atol=1e-15)
