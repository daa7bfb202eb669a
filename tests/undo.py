"""python -m tests.undo: put each defect of the audit back into a copy of the package, and see its test fail.

A test of a defect is worth something only if it fails where the defect is. Each undoing replaces the line that mends a
defect by what does the old harm; the test must then fail, and docs/reliability.md lists which is which.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Undoing(NamedTuple):
    """A defect, the lines of a file that mend it, what takes their place, and the test that then fails."""

    defect: str
    file: str
    mended: str
    broken: str
    test: str


UNDOINGS = [
    Undoing(
        "curvature of a stale loss",
        "curvature/products.py",
        "self._data, self._traced = (), {}",
        "self._data, self._traced = (), _of_the_loop",
        "test_tracing.py::test_what_a_loss_closes_over_is_read_at_every_call_and_nothing_is_compiled_again",
    ),
    Undoing(
        "a loss that is NaN is converged",
        "curvature/spectrum.py",
        "if isinstance(operator, HessianOperator) and not np.isfinite(operator.value):",
        "if False:",
        "test_curvature.py::test_a_null_space_is_not_negative",
    ),
    Undoing(
        "a gap over chosen patterns, quoted as if it were over all",
        "convex/certificate.py",
        "return _relative(self.objective, self.full_dual_bound)",
        "return _relative(self.objective, self.dual_bound)",
        "test_convex.py::test_what_is_quoted_of_sampled_patterns_holds_for_every_network",
    ),
    Undoing(
        "a certificate of merged rows",
        "convex/program.py",
        "arrangement, features = with_bias(features - centre), with_bias(features)",
        "arrangement = features = with_bias(features)\n        centred = None",
        "test_convex.py::test_no_network_made_by_hand_beats_a_certificate_wherever_the_inputs_are",
    ),
    Undoing(
        "rows merged free of charge",
        "convex/arrangements.py",
        "return is_own, away + thin",
        "return is_own, 0 * away",
        "test_arrangements.py::test_rows_that_are_merged_are_charged_for",
    ),
    Undoing(
        "weights of random batches",
        "training/sampling.py",
        "if weights is None or np.all(weights == weights[0]):",
        "if True:",
        "test_sampling.py::test_a_constant_fitted_by_random_batches_is_the_weighted_mean",
    ),
    Undoing(
        "warm_start compares with another table",
        "training/grades.py",
        "lowest = self.left_over if len(records) == first + 1 else None if before is None else np.min(before)",
        "lowest = None if before is None else np.min(before)",
        "test_corners.py::test_new_rows_decide_on_new_grades",
    ),
    Undoing(
        "rows equal up to rounding crash the enumeration",
        "convex/arrangements.py",
        "    if not np.any(rows):  # rows that are equal up to rounding leave nothing to cut\n"
        "        return np.ones((1, len(rows)), bool)\n",
        "",
        "test_arrangements.py::test_rows_equal_up_to_rounding_have_two_patterns_and_never_crash",
    ),
    Undoing(
        "a diverged run has a PSNR",
        "reproduction/multigrade_paper/claims/measures.py",
        'if metric.endswith("psnr") and has_diverged(cell):',
        "if False:",
        "test_corners.py::test_a_run_that_diverged_has_no_psnr_whatever_was_stored",
    ),
    Undoing(
        "spectrum overwrites its input",
        "commands/spectrum.py",
        "if is_same_file(written, self.source):",
        "if False:",
        "test_fuzz.py::test_what_a_trial_got_through_is_refused_in_one_line_and_leaves_nothing"
        "[spectrum good.png -o good.png]",
    ),
    Undoing(
        "standardised features ignore weights",
        "training/grades.py",
        "    if weights is None:\n        mean, deviation",
        "    if True:\n        mean, deviation",
        "test_corners.py::test_a_row_of_weight_0_changes_no_grade",
    ),
    Undoing(
        "attributes of plain objects are not described",
        "training/checkpoint.py",
        "inside += [_named_globals(value) or None, _attributes(value) or None]",
        "inside += [_named_globals(value) or None]",
        "test_corners.py::test_settings_that_differ_are_described_differently",
    ),
    Undoing(
        "the length of a chunk decides between diverged and finished",
        "training/program.py",
        "lambda carry: (carry[0].step < until) & jnp.isfinite(carry[1]),",
        "lambda carry: carry[0].step < until,",
        "test_corners.py::test_a_loss_that_is_not_finite_once_ends_the_run_wherever_records_and_chunks_fall",
    ),
    Undoing(
        "parameters that an observer keeps are deleted",
        "training/loop.py",
        "now = jax.tree.map(jnp.copy, state.now)  # the next chunk overwrites it",
        "now = state.now",
        "test_corners.py::test_parameters_that_an_observer_keeps_stay_readable",
    ),
    Undoing(
        "observations with a slash change their observer",
        "training/record.py",
        'return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in (name, key))',
        'return f"{name}/{key}"',
        "test_corners.py::test_names_with_slashes_are_read_back_as_they_were",
    ),
    Undoing(
        "no summary of a run that diverged at once",
        "curvature/tracking.py",
        "float(losses[-1]) if len(losses) else np.nan,",
        "float(losses[-1]),",
        "test_corners.py::test_a_run_that_diverged_before_its_first_step_has_a_summary",
    ),
    Undoing(
        "the process's mask is 0 for a moment",
        "files.py",
        "    os.close(os.open(new,",
        "    os.umask(os.umask(0))\n    os.close(os.open(new,",
        "test_corners.py::test_the_mask_of_the_process_is_never_changed",
    ),
    Undoing(
        "NaN is predicted for huge inputs",
        "tables/base.py",
        "np.isfinite(",
        "np.ones_like(",
        "test_corners.py::test_what_fit_refuses_is_refused_by_predict_too",
    ),
    Undoing(
        "the model is not a function of pixel coordinates",
        "pictures/recipes/networks.py",
        "model=at_unit_coordinates(fit.model)",
        "model=fit.model",
        "test_restoration.py::test_every_task_returns_an_image_its_model_reproduces[networks]",
    ),
    Undoing(
        "runs of unlike length and noise are paired",
        "reproduction/multigrade_paper/claims/ledger.py",
        "return of(min(shared, key=distance)) if shared else matching",
        "return matching",
        "test_corners.py::test_runs_are_paired_by_length_and_draw_of_the_noise",
    ),
    Undoing(
        "a job of one's own breaks the report",
        "reproduction/multigrade_paper/report/page.py",
        'str(job.setup.image or "own")',
        'job.settings["image"]',
        "test_corners.py::test_results_without_pictures_or_image_break_no_report",
    ),
    Undoing(
        "grey of 2 and 4 bits loses its transparency",
        "pictures/files.py",
        'image.info["transparency"] = image.info["transparency"] * 255 // white',
        "pass",
        "test_images.py::test_the_grey_that_stands_for_nothing_is_transparent_at_every_depth",
    ),
    Undoing(
        "programs are never let go",
        "programs.py",
        "if is_full and",
        "if False and",
        "test_programs.py::test_hundreds_of_shapes_take_no_more_maps_than_the_bound",
    ),
    Undoing(
        "a fit without a home",
        "programs.py",
        "except (OSError, RuntimeError) as error:",
        "except OSError as error:",
        "test_programs.py::test_without_a_home_nothing_is_kept",
    ),
    Undoing(
        "a fit after a fork hangs",
        "programs.py",
        "    if _Count.is_stuck:",
        "    if False:",
        "test_programs.py::test_a_fork_of_a_process_in_which_jax_ran_is_told_instead_of_hanging",
    ),
    Undoing(
        "a checkpoint of somebody else is removed",
        "files.py",
        "if os.path.abspath(path) in _checkpoints:",
        "if _checkpoints.add(os.path.abspath(path)) is None:",
        "test_files.py::test_only_a_checkpoint_of_this_process_is_removed",
    ),
    Undoing(
        "two fits share a checkpoint",
        "training/grades.py",
        "with alone_with(file and file.path):",
        "with alone_with(None):",
        "test_files.py::test_one_checkpoint_serves_one_fit_at_a_time",
    ),
    Undoing(
        "a private file becomes public when it is written over",
        "files.py",
        "    if mode is not None:\n        new.chmod(mode)\n",
        "",
        "test_files.py::test_a_file_that_is_written_over_keeps_its_permissions",
    ),
    Undoing(
        "tensors of FP8 end in a traceback",
        "files.py",
        "(SafetensorError, OSError, AttributeError, TypeError)",
        "(SafetensorError, OSError)",
        "test_files.py::test_numbers_that_numpy_has_not_are_refused_in_one_line",
    ),
    Undoing(
        "descriptions nested without end",
        "files.py",
        "        _check_nesting(description)\n",
        "",
        "test_files.py::test_descriptions_that_are_none_are_refused_in_one_line",
    ),
    Undoing(
        "thousands of layers in a small file",
        "model.py",
        "if layers > present:",
        "if False:",
        "test_files.py::test_thousands_of_layers_that_are_not_there_are_refused_at_once",
    ),
    Undoing(
        "equal fits have files of other bytes",
        "tables/storage.py",
        '{**end, "seconds": 0.0}',
        "end",
        "test_files.py::test_equal_fits_have_equal_files",
    ),
    Undoing(
        "escape sequences reach the terminal",
        "cli.py",
        'text = printable(" ".join(str(error).split()))',
        'text = " ".join(str(error).split())',
        "test_files.py::test_names_cannot_speak_to_the_terminal",
    ),
    Undoing(
        "libtiff writes lines of its own",
        "pictures/files.py",
        "with _no_lines_of_libtiff:",
        "if True:",
        "test_fuzz.py::test_what_was_mishandled_once_is_read_or_refused_in_one_line[7-142-pillow.tif]",
    ),
    Undoing(
        "a solved output layer of another scale",
        "training/regression.py",
        "np.asarray(left.residual / scale, np.float64)",
        "np.asarray(left.residual * scale, np.float64)",
        "test_solved_outputs.py::test_with_residual_scaling_a_grade_solves_for_the_scaled_residual",
    ),
    Undoing(
        "the ridge of the least noticed change has a unit",
        "equations/bound.py",
        "ridge * size * np.eye",
        "ridge / size * np.eye",
        "test_bound.py::test_large_coefficients_that_cancel_are_no_change_whatever_the_unit",
    ),
    Undoing(
        "a claim about rates above a limit counts the limit",
        "reproduction/multigrade_paper/claims/rates.py",
        "rate > limit",
        "rate >= limit",
        "reproduction/test_claim_rules.py::test_a_limit_itself_is_not_above_it",
    ),
    Undoing(
        "about as many eigenvalues means as many",
        "reproduction/multigrade_paper/claims/spectral_rules.py",
        "abs(typical - first) <= 1",
        "abs(typical - first) < 1",
        "reproduction/test_claim_rules.py::test_about_as_many_eigenvalues_as_told_means_one_more_or_less",
    ),
]


def fails(undoing: Undoing) -> bool:
    """Whether the test fails in a copy of the package that has the defect."""
    with tempfile.TemporaryDirectory(prefix="multigrade-undo-") as folder:
        for part in ("src", "reproduction/multigrade_paper", "tests"):
            shutil.copytree(ROOT / part, Path(folder) / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        file = Path(folder) / ("" if undoing.file.startswith("reproduction") else "src/multigrade") / undoing.file
        text = file.read_text()
        if undoing.mended not in text:
            raise ValueError(f"{undoing.file} has no line {undoing.mended!r} any more: bring tests/undo.py up to date")
        file.write_text(text.replace(undoing.mended, undoing.broken))
        environment = os.environ | {"PYTHONPATH": f"{folder}/src:{folder}/reproduction"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/{undoing.test}"]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
        if run.returncode not in (0, 1):  # 1: tests failed; anything else is no test at all
            raise ValueError(f"{undoing.test} could not be run:\n{run.stdout}{run.stderr}")
        return run.returncode == 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of the file or of the description of a defect")
    only = parser.parse_args().only
    chosen, missed = [undoing for undoing in UNDOINGS if only in undoing.defect + undoing.file], 0
    for undoing in chosen:
        is_caught = fails(undoing)
        missed += not is_caught
        print(f"{'caught' if is_caught else 'MISSED'}  {undoing.defect}: {undoing.test}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} defects are caught by their tests")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
