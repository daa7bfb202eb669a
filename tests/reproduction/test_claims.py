"""Claims: every number of the tables is one, every rule can say both, and only the paper's own runs decide."""

import dataclasses
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from multigrade.cli import app
from multigrade_paper.claims import Status, claims, verdicts
from multigrade_paper.claims.reconstruction import PAPER
from multigrade_paper.job import Job, Result, Saved
from multigrade_paper.store import Store

from . import worlds

WALNUT = {claim.id for claim in claims() if claim.id.startswith("table1/walnut")}


def by_id(found) -> dict:
    return {verdict.claim.id: verdict for verdict in found}


def test_claims_have_distinct_names_places_statements_and_tolerances():
    all_claims = claims()
    assert len({claim.id for claim in all_claims}) == len(all_claims)
    for claim in all_claims:
        assert claim.place.split()[0] in ("Table", "Section", "Figure", "Theorem"), claim.id
        assert claim.statement.endswith(".")
        assert claim.tolerance
        assert claim.needs


def test_every_printed_number_is_a_claim():
    """24 in Table 1, 36 in Table 2, 18 in Table 3, 27 degraded images."""
    found = {claim.id: claim.printed for claim in claims() if claim.printed is not None}
    assert len(found) == 24 + 36 + 18 + 27
    for image, methods in PAPER["regression"].items():
        for method, parts in methods.items():
            for part, value in parts.items():
                assert found[f"table1/{image}/{method.lower()}/{part}"] == value
    for table, task in (("table2", "denoise"), ("table3", "deblur")):
        for image, methods in PAPER[task].items():
            assert [found[f"{table}/{image}/{level}/input"] for level in methods["MGDL"]] == PAPER["degraded"][task][
                image
            ]
            for method, levels in methods.items():
                for level, value in levels.items():
                    assert found[f"{table}/{image}/{level}/{method.lower()}"] == value


def test_printed_gains_are_those_of_the_tables():
    """The ranges in the text (Section 4) are the smallest and largest differences in the tables."""
    tables = {
        "regression": [m["MGDL"]["test"] - m["SGDL"]["test"] for m in PAPER["regression"].values()],
        **{task: [m["MGDL"][level] - m["SGDL"][level] for m in PAPER[task].values() for level in m["MGDL"]]
           for task in ("denoise", "deblur")},
    }  # fmt: skip
    for task, found in tables.items():
        assert [round(min(found), 2), round(max(found), 2)] == PAPER["gains"][task]


def test_all_claims_hold_where_the_paper_is_right_except_for_the_walnut():
    found = by_id(verdicts(worlds.world(True)))
    found = {name: v for name, v in found.items() if not name.startswith("recorded/")}
    held = (Status.HOLDS, Status.CONSTRUCTED)
    undecided = {name: (v.status, v.sentence) for name, v in found.items() if v.status not in held}
    # Eigenvalues are not confined within (-1, 1) (Section 1) if the largest are slightly above 1 (Section 6).
    contradicted = {f"eig-synthetic/{number}/mgdl-upper" for number in (1, 2)}
    # One copy of a run that oscillates says nothing about its end.
    restless = {name for name, (_, told) in undecided.items() if "in 1 of the 5 copies that such a run needs" in told}
    assert undecided.keys() == WALNUT | contradicted | restless, undecided
    assert all(name.startswith(("lr-synthetic/", "msdl-synthetic/", "eig-synthetic/")) for name in restless)
    enough = worlds.world(True, ["eig-synthetic"], overrides={"copies": "5"})
    assert by_id(verdicts(enough))["eig-synthetic/1/similar"].status is Status.HOLDS
    assert all(found[name].status is Status.NOT_COMPARABLE for name in WALNUT)
    assert all(verdict.keys for verdict in found.values())


def test_no_claim_holds_where_the_paper_is_wrong():
    found = {name: v for name, v in by_id(verdicts(worlds.world(False))).items() if not name.startswith("recorded/")}
    refuted = {Status.FAILS, Status.NOT_REACHED}
    decided = {name: v.sentence for name, v in found.items() if v.status not in refuted}
    restless = {name for name, told in decided.items() if "in 1 of the 5 copies that such a run needs" in told}
    assert decided.keys() == WALNUT | restless, decided
    assert all(name.startswith(("lr-synthetic/", "msdl-synthetic/", "eig-synthetic/")) for name in restless)
    # Where the paper's rate or strengths are not recorded, ours can miss what theirs reach.
    missed = {name for name, v in found.items() if v.status is Status.NOT_REACHED}
    assert missed == {claim.id for claim in claims() if not claim.is_recorded} - WALNUT
    ours = [name for name in missed if not name.startswith(("table", "figure"))]
    assert len(ours) == 18
    assert all(name.startswith("eig-image-denoising/b") for name in ours)
    assert not any(name.endswith(("input", "butterfly/10/mgdl", "butterfly/3/sgdl")) for name in missed)


def test_nothing_run_means_not_run():
    found = by_id(verdicts([]))
    assert {v.status for name, v in found.items() if name not in WALNUT} == {Status.NOT_RUN}
    assert {found[name].status for name in WALNUT} == {Status.NOT_COMPARABLE}
    assert all("not to be had" in found[name].sentence for name in WALNUT)


def test_a_claim_says_what_is_missing():
    some = [saved for saved in worlds.world(True, ["table1"]) if saved.job.settings["image"] == "barbara"]
    found = by_id(verdicts(some))
    assert found["table1/barbara/better"].status is Status.HOLDS
    assert found["table1/gains"].status is Status.NOT_RUN
    assert found["table1/gains"].sentence.startswith("8 of 10 results are missing: regress cameraman SGDL")
    assert len(found["table1/gains"].keys) == 2


@pytest.mark.parametrize("recipe", ["quick", "fast"])
def test_quick_runs_decide_nothing_and_fast_ones_no_table(recipe):
    found = by_id(verdicts(worlds.world(True, ["table1", "table2", "theory"], recipe=recipe)))
    assert found["table1/barbara/mgdl/test"].status is Status.NOT_COMPARABLE
    assert found["table1/barbara/mgdl/test"].sentence.startswith(f"{recipe} recipe")
    assert found["table1/barbara/mgdl/test"].numbers["ours"] == 23.84
    # The degraded pictures are not trained, and the theorems hold at any size.
    expected = Status.HOLDS if recipe == "fast" else Status.NOT_COMPARABLE
    assert found["table2/chest/60/input"].status is expected
    assert found["theorem/1"].status is expected


def test_a_whole_quick_run_leaves_every_claim_not_comparable():
    found = verdicts([*worlds.world(True, recipe="quick"), *worlds.world(True, ["copies"], recipe="quick")])
    assert {verdict.status for verdict in found if verdict.keys} == {Status.NOT_COMPARABLE}
    # The quick sweep leaves out the rate at which that run was recorded.
    assert {verdict.claim.id.rpartition("/")[0] for verdict in found if not verdict.keys} <= {"recorded/none"}


def test_stand_ins_and_changed_settings_decide_nothing():
    results = worlds.world(True, ["table1"])
    for changes, reason in (
        ({"stand_in": True}, "stand-in picture"), ({"changed": ["learning_rate"]}, "changed: learning_rate"),
    ):  # fmt: skip
        changed = [Saved(worlds.with_settings(job, **changes), result) for job, result, _ in results]
        verdict = by_id(verdicts(changed))["table1/chest/mgdl/test"]
        assert verdict.status is Status.NOT_COMPARABLE
        assert verdict.sentence.startswith(reason)
        assert verdict.numbers["ours"] == 38.50
        assert ("paper" in verdict.numbers) is ("against" in verdict.sentence) is ("stand_in" not in changes)


def test_pictures_that_share_a_name_are_neither_seeds_nor_rivals():
    """After a file was replaced, runs on the old one count no more, be they of the same method or of another."""
    (name, *_), cell = ["table1/chest/mgdl/test"], "table1/chest/better"
    old, new = (
        [Saved(dataclasses.replace(job, data=job.data and data), result, {"finished": day}) for job, result, _ in made]
        for made, data, day in (
            (worlds.world(False, ["table1"]), "old", "2026-01-01"),
            (worlds.world(True, ["table1"]), "new", "2026-01-02"),
        )
    )  # fmt: skip
    for results in ([*old, *new], [*new, *old]):
        assert by_id(verdicts(results))[name].numbers["ours"] == 38.50
    mgdl = [saved for saved in new if saved.job.settings.get("method") == "MGDL"]
    assert by_id(verdicts([*old, *mgdl]))[cell].status is Status.NOT_RUN
    assert by_id(verdicts(old))[cell].status is Status.NOT_REACHED


def test_no_printed_number_is_shown_beside_a_walnut_or_a_shrunk_picture():
    walnut = [v for v in verdicts(worlds.world(True)) if v.claim.id in WALNUT]
    shrunk = verdicts(worlds.world(True, ["table1", "table2"], recipe="quick"))
    assert not any("paper" in v.numbers or "against" in v.sentence for v in (*walnut, *shrunk))


def test_fewer_epochs_decide_only_what_more_could_not_undo():
    options = {"names": ["lr-synthetic", "eig-synthetic"], "overrides": {"epochs": "500000"}}
    right, wrong = (by_id(verdicts(worlds.world(is_right, **options))) for is_right in (True, False))
    assert right["lr-synthetic/1/mgdl-range"].status is Status.NOT_COMPARABLE
    assert "holds so far" in right["lr-synthetic/1/mgdl-range"].sentence
    assert wrong["lr-synthetic/1/mgdl-range"].status is Status.NOT_COMPARABLE
    assert "does not hold so far" in wrong["lr-synthetic/1/mgdl-range"].sentence
    assert "500,000 of 1,000,000 epochs" in wrong["lr-synthetic/1/mgdl-range"].sentence
    assert right["eig-synthetic/1/mgdl-lower"].status is Status.NOT_COMPARABLE
    assert wrong["eig-synthetic/1/mgdl-lower"].status is Status.FAILS
    assert right["eig-synthetic/2/better"].status is wrong["eig-synthetic/2/better"].status is Status.NOT_COMPARABLE


def test_a_theorem_is_not_refuted_by_a_run_that_is_too_short_or_outside_its_condition():
    short = [
        Saved(job, result._replace(records=(worlds.record(16),)))
        for job, result, _ in worlds.world(False, ["theory"], overrides={"epochs": "16"})
    ]
    assert by_id(verdicts(short))["theorem/4"].status is Status.NOT_COMPARABLE
    outside = [
        Saved(job, result._replace(metrics={**result.metrics, "is_contraction": False}))
        for job, result, _ in worlds.world(False, ["theory"])
    ]
    assert by_id(verdicts(outside))["theorem/5"].status is Status.NOT_COMPARABLE


def test_more_epochs_than_the_papers_are_another_training():
    longer = worlds.world(True, ["table1"], overrides={"epochs": "200000"})
    verdict = by_id(verdicts(longer))["table1/chest/mgdl/test"]
    assert verdict.status is Status.NOT_COMPARABLE
    assert verdict.sentence.startswith("changed: epochs")
    both = [*longer, *worlds.world(False, ["table1"])]
    assert by_id(verdicts(both))["table1/chest/mgdl/test"].status is Status.NOT_REACHED


def test_what_ends_a_run_is_not_how_it_is_looked_at():
    options = {"names": ["eig-synthetic", "eig-image-regression"], "overrides": {"spectrum_every": "500"}}
    found = by_id(verdicts(worlds.world(True, **options)))
    assert found["eig-synthetic/1/mgdl-inside"].status is Status.HOLDS
    assert found["eig-image-regression/barbara/sgdl-near"].status is Status.HOLDS
    assert found["eig-image-regression/barbara/mgdl-lower"].sentence.startswith("changed: spectrum_every")
    rates = by_id(verdicts(worlds.world(True, ["lr-synthetic"], overrides={"record_every": "1"})))
    assert rates["lr-synthetic/1/mgdl-range"].sentence.startswith("changed: record_every")  # plateaus are in records
    fewer = by_id(verdicts(worlds.world(True, ["eig-synthetic"], overrides={"num_eigenvalues": "1"})))
    assert fewer["eig-synthetic/1/sgdl-largest"].sentence.startswith("changed: num_eigenvalues")  # of ten


def test_jobs_from_outside_the_catalogue_decide_nothing():
    own = Job("mine", "regression", {"task": "regress", "image": "chest", "method": "MGDL", "seed": 0})
    found = verdicts([Saved(own, Result({"test_psnr": 38.5}))])
    assert {verdict.status for verdict in found if verdict.claim.id not in WALNUT} == {Status.NOT_RUN}


def test_jobs_from_outside_the_catalogue_replace_no_picture():
    ours = [saved._replace(info={"finished": "2026-01-01"}) for saved in worlds.world(True, ["table1"])]
    own = Job("mine", "sharpen", {"image": "chest", "stand_in": False}, "another file")
    later = Saved(own, Result({}), {"finished": "2026-01-02"})
    assert [v.status for v in verdicts([*ours, later])] == [v.status for v in verdicts(ours)]


def test_the_most_faithful_results_decide():
    paper = worlds.world(True, ["table1"])
    others = [worlds.world(False, ["table1"], recipe=recipe) for recipe in ("quick", "fast")]
    shorter = worlds.world(False, ["table1"], overrides={"epochs": "100"})
    found = by_id(verdicts([*others[0], *shorter, *paper, *others[1]]))
    assert found["table1/chest/mgdl/test"].status is Status.HOLDS
    assert found["table1/chest/mgdl/test"].recipe == "paper"
    assert len(found["table1/chest/mgdl/test"].keys) == 1


def test_baselines_of_the_same_cell_are_shown():
    found = by_id(verdicts(worlds.world(True, ["table2", "table3"])))
    assert found["table2/butterfly/10/mgdl"].baselines == {"simple": 25.0}
    quick = worlds.world(True, ["table2"], recipe="quick")
    mixed = [s for s in worlds.world(True, ["table2"]) if s.job.kind != "baseline"]
    shrunk = [s for s in quick if s.job.kind == "baseline"]
    assert by_id(verdicts([*mixed, *shrunk]))["table2/butterfly/10/mgdl"].baselines == {}


def test_runs_that_saw_different_noise_are_not_compared():
    drawn, other = worlds.world(True, ["table2"]), worlds.world(True, ["table2"], overrides={"noise_seed": "7"})
    sgdl, mgdl = (
        [s for s in made if s.job.settings["method"] == method] for made, method in ((drawn, "SGDL"), (other, "MGDL"))
    )
    baselines = [s for s in drawn if s.job.kind == "baseline"]
    found = by_id(verdicts([*sgdl, *mgdl, *baselines]))
    assert found["table2/butterfly/10/mgdl"].status is Status.HOLDS  # any draw is as good
    assert found["table2/butterfly/10/better"].status is Status.NOT_COMPARABLE
    assert found["table2/butterfly/10/better"].sentence.startswith("different draws of the noise")
    assert found["table2/butterfly/10/sgdl"].baselines == {"simple": 25.0}
    assert found["table2/butterfly/10/mgdl"].baselines == {}


def with_metrics(saved: Saved, **metrics) -> Saved:
    return saved._replace(result=saved.result._replace(metrics={**saved.result.metrics, **metrics}))


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_one_seed_contradicts_a_theorem(wrong):
    seen = worlds.world(True, ["theory", "convex"], seeds=3)
    changes = {"violations": 1, "last_linearised_error": 1.0, "network_objective": 3.0}
    seen = [with_metrics(saved, **changes) if saved.job.settings["seed"] == wrong else saved for saved in seen]
    for results in (seen, seen[::-1]):
        found = by_id(verdicts(results))
        assert {found[f"theorem/{number}"].status for number in range(1, 6)} == {Status.FAILS}


def test_seed_0_is_the_authors_draw_and_others_are_told_of_beside_it():
    seen = worlds.world(True, ["figure-cameraman", "eig-synthetic", "alpha-synthetic"], seeds=3)
    spectrum = worlds.flat(worlds.WILD, worlds.FAR_ABOVE)
    seen = [
        saved._replace(
            result=saved.result._replace(records=worlds.grades(saved.job.settings, spectrum=spectrum, rate=0.06))
        )
        if saved.job.label == "setting 1 MGDL learning rate 0.06 seed 2"
        else with_metrics(saved, snapshots={"9800": float(seed), "9850": 0.0})
        for saved in seen
        if (seed := saved.job.settings.get("seed")) is not None
    ]
    for results in (seen, seen[::-1]):
        found = by_id(verdicts(results))
        assert found["figure-cameraman/mgdl"].numbers["PSNR at 9800"] == 0
        assert found["eig-synthetic/1/alpha"].status is Status.HOLDS
        assert found["eig-synthetic/1/alpha"].others == (Status.HOLDS, Status.FAILS)
        assert found["eig-synthetic/1/alpha"].numbers["MGDL's largest at 0.06"] == pytest.approx(0.8 / 0.06)
        assert found["eig-synthetic/1/alpha"].numbers["MGDL's largest at 0.08"] == pytest.approx(0.8 / 0.08)
        assert found["eig-synthetic/2/alpha"].status is Status.HOLDS


@pytest.mark.parametrize("seen", ["nothing found", "step 0 alone"])
def test_spectra_that_were_not_found_decide_nothing(seen):
    def lost(record):
        spectrum = dict(record.observations["spectrum"])
        if seen == "step 0 alone":
            spectrum = {name: column[:1] for name, column in spectrum.items()}
        else:
            spectrum |= {end: np.full_like(spectrum[end], np.nan) for end in ("smallest", "largest")}
        return dataclasses.replace(record, observations={"spectrum": spectrum})

    names = ["eig-synthetic", "alpha-synthetic", "eig-image-regression", "eig-image-denoising", "msdl-synthetic"]
    results = [
        saved._replace(result=saved.result._replace(records=tuple(lost(r) for r in saved.result.records)))
        if "spectrum" in saved.job.settings["config"] else saved
        for saved in worlds.world(True, names)
    ]  # fmt: skip
    found = by_id(verdicts(results))
    ends = ("below", "several", "phases", "largest", "first-lower", "first-upper", "drops", "second", "late", "lower",
            "upper", "inside", "count", "smallest", "alpha", "near", "multiple")  # fmt: skip
    asking = [name for name in found if name.startswith(("eig", "msdl")) and name.endswith(ends)]
    assert len(asking) == 11 + 12 + 2 + 4 * 4 + 4 * 3
    for name in asking:
        assert (found[name].status, found[name].sentence) == (Status.NOT_COMPARABLE, "no spectrum was found there"), (
            name
        )


# ---- the command ------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    results = Store(tmp_path / "runs")
    for saved in worlds.world(True, ["theory", "convex"]):
        results.save(saved.job, saved.result, {"seconds": 1.0})
    return results


def test_the_ledger_is_printed_plainly_and_as_json(store):
    plain = CliRunner().invoke(app, ["claims", str(store.path), "--item", "theorem"])
    assert plain.exit_code == 0
    assert plain.output.splitlines()[-1] == (
        "5 holds, 0 holds by construction, 0 does not hold, 0 decided by rounding, 0 refuted, but with our draws, "
        "0 not reached with our settings, 0 not comparable, 0 not yet replayed: 5 claims"
    )
    told = json.loads(CliRunner().invoke(app, ["claims", str(store.path), "--json"]).output)
    assert len(told) == len(claims())
    assert {entry["status"] for entry in told} == {"holds", "not yet replayed", "not comparable"}  # the walnut
    assert next(entry for entry in told if entry["id"] == "theorem/1")["keys"] == [
        saved.job.key for saved in worlds.world(True, ["theory"])[:1]
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--status", "true"], "--status must be one of"), (["--item", "tabel"], "no claim's name begins with 'tabel'")],
)
def test_wrong_filters_are_one_line(store, arguments, message):
    outcome = CliRunner().invoke(app, ["claims", str(store.path), *arguments])
    assert isinstance(outcome.exception, ValueError)
    assert message in str(outcome.exception)


def test_results_on_pictures_that_were_replaced_are_told_with_the_remedy(tmp_path):
    """Going back to the first folder makes no new result: its jobs are there."""
    for day, data in enumerate(("first folder", "second folder")):
        for saved in worlds.world(True, ["figure-cameraman"]):
            job = dataclasses.replace(saved.job, data=data)
            Store(tmp_path).save(job, saved.result, {"finished": f"2026-01-0{day}"})
    told = CliRunner().invoke(app, ["claims", str(tmp_path)])
    assert told.stderr == (
        "3 results are not used: later runs saw other files for their pictures; use one store for each image folder\n"
    )
    assert "figure-cameraman/mgdl" in told.stdout


def test_a_store_that_is_not_there_is_one_line(tmp_path):
    outcome = CliRunner().invoke(app, ["claims", str(tmp_path / "none")])
    assert isinstance(outcome.exception, ValueError)
    assert "there is no store at" in str(outcome.exception)


def copies_of(is_right, **which) -> list[Saved]:
    """Results of eig-synthetic whose copies (or seeds) say what ``is_right`` says of their number."""
    name = next(iter(which))
    options = {"overrides": {"copies": str(which[name])}} if name == "copy" else {"seeds": which[name]}
    right, wrong = (worlds.world(truth, ["eig-synthetic"], **options) for truth in (True, False))
    return [a if is_right(a.job.settings.get(name, 0)) else b for a, b in zip(right, wrong, strict=True)]


def test_copies_that_disagree_are_decided_by_rounding():
    found = by_id(verdicts(copies_of(lambda copy: copy < 3, copy=5)))
    verdict = found["eig-synthetic/2/better"]
    assert (verdict.status, verdict.copies) == (Status.ROUNDING, 5)
    assert verdict.sentence.startswith("holds in 3 of 5 copies (test losses: ")
    assert "does not hold in 2 of 5 copies" in verdict.sentence
    assert verdict.numbers["setting 2 MGDL min"] < verdict.numbers["setting 2 MGDL max"]
    alike = by_id(verdicts(copies_of(lambda copy: True, copy=5)))["eig-synthetic/2/better"]
    assert alike.status is Status.HOLDS
    assert alike.sentence.endswith("(the same in 5 copies)")


def test_what_other_draws_alone_refute_is_refuted_with_our_draws():
    seen = copies_of(lambda seed: False, seed=2)
    name = "eig-synthetic/2/sgdl-drops"
    assert by_id(verdicts(seen))[name].status is Status.FAILS
    ours = by_id(verdicts([saved for saved in seen if saved.job.setup.seed]))[name]
    assert ours.status is Status.OTHER_DRAWS
    assert ours.sentence.startswith("seed 1, not the authors' draw: ")
    both = by_id(verdicts(copies_of(lambda seed: seed == 0, seed=2)))[name]
    assert (both.status, both.others) == (Status.HOLDS, (Status.FAILS,))


def test_one_result_that_lacks_a_figure_does_not_end_the_ledger():
    (sgdl, *others) = worlds.world(True, ["table1"])
    lacking = sgdl._replace(result=sgdl.result._replace(metrics={}))
    odd = worlds.world(True, ["theory"])
    odd = [saved._replace(result=Result({})) for saved in odd]
    found = by_id(verdicts([lacking, *others, *odd]))
    assert found["theorem/1"].status is Status.NOT_COMPARABLE
    assert found["theorem/1"].sentence.startswith("a result lacks what the rule reads (KeyError")
    assert found["table1/barbara/better"].status is Status.HOLDS
