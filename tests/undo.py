"""python -m tests.undo: put each defect of the audit back into a copy of the package, and see its test fail.

A test of a defect is worth something only if it fails where the defect is. Each undoing replaces the line that mends a
defect by what does the old harm; the test must then fail, and docs/reliability.md lists which is which.
"""

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
        "sampling.py",
        "if weights is None or np.all(weights == weights[0]):",
        "if True:",
        "test_sampling.py::test_a_constant_fitted_by_random_batches_is_the_weighted_mean",
    ),
    Undoing(
        "warm_start compares with another table",
        "training/grades.py",
        "lowest = left_over if len(records) == first + 1 else None if before is None else np.min(before)",
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
        "deblurring by best that goes wrong",
        "pictures/recipes/best_deblur.py",
        "if fit.outcome in (Outcome.DIVERGED, Outcome.TIME_LIMIT) or not is_better:",
        "if False:",
        "test_best.py::test_deblurring_leaves_out_grades_that_go_wrong",
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
    missed = 0
    for undoing in UNDOINGS:
        is_caught = fails(undoing)
        missed += not is_caught
        print(f"{'caught' if is_caught else 'MISSED'}  {undoing.defect}: {undoing.test}", flush=True)
    print(f"{len(UNDOINGS) - missed} of {len(UNDOINGS)} defects are caught by their tests")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
