"""Tables 1-3 of the report and where their numbers come from: one picture a cell, what was changed, the command."""

import dataclasses
import re
import shlex

import numpy as np
import pytest

from multigrade import pictures
from multigrade_paper import catalogue
from multigrade_paper.job import Saved
from multigrade_paper.report import provenance, reconstructions, tables
from multigrade_paper.report.gather import Gatherer
from tests.reproduction import worlds


def imagined(is_right: bool, **options):
    return Gatherer().take(worlds.world(is_right, **options)).cells


@pytest.mark.parametrize(
    ("is_right", "signs"), [(True, {"SGDL": "≈", "MGDL": "≈"}), (False, {"SGDL": "▲", "MGDL": "▼"})]
)
def test_tables_mark_what_is_better_and_worse_than_the_paper(is_right, signs):
    cells = imagined(is_right, names=["table1", "table2", "table3"])
    for table in tables.tables(cells):
        assert [group.name for group in table.groups] == ["paper", "paper recipe", "simple methods"]
        for head, entries in table.rows:
            expected = ["", ""] if head == ("Walnut",) else [signs["SGDL"], signs["MGDL"]]  # a stand-in: no comparison
            assert [entry.sign for entry in entries[2:4]] == expected
            values = [entry.value for entry in entries[2:] if entry.value is not None]
            assert [entry.value for entry in entries if entry.is_best] == [max(values)]


def test_quick_runs_are_not_held_against_the_paper_and_recipes_have_their_own_columns():
    cells = imagined(True, names=["table1"]) + imagined(True, names=["table1"], recipe="quick")
    (table, *_) = tables.tables(cells)
    assert [group.name for group in table.groups[:3]] == ["paper", "paper recipe", "quick"]
    for _, entries in table.rows:
        assert [entry.sign for entry in entries[4:6]] == ["", ""]


def test_numbers_on_different_noise_are_not_rivals():
    drawn, other = imagined(True, names=["table2"]), imagined(True, names=["table2"], overrides={"noise_seed": "7"})
    mixed = [cell for cell in drawn if cell.saved.job.kind != "baseline"]
    mixed += [cell for cell in other if cell.saved.job.kind == "baseline"]
    table = tables.tables(mixed)[1]
    assert [(group.name, group.note) for group in table.groups[2:]] == [("simple methods", "noise seed 7")]
    for _, (*_, sgdl, mgdl, degraded, simple) in table.rows:  # the best of each draw
        assert (sgdl.is_best, mgdl.is_best) == (False, True)
        assert (degraded.value > simple.value) is degraded.is_best is not simple.is_best
    for runs, baselines, shown in ((drawn, drawn, True), (drawn, other, False), (other, other, True)):
        cells = [cell for cell in runs if cell.saved.job.kind != "baseline"]
        cells += [cell for cell in baselines if cell.saved.job.kind == "baseline"]
        (block,) = reconstructions.reconstruction(cells, "denoise", "butterfly", noise=10)
        assert ("baseline" in [cell.saved.job.kind for cell in block.cells]) is shown


def test_a_number_is_of_one_picture_the_papers_where_it_was_run():
    (job, result, _), *_ = worlds.world(True, ["table1"])
    other = dataclasses.replace(worlds.with_settings(job, stand_in=True), data="another")
    seen = [Saved(job, result), Saved(other, result._replace(metrics={**result.metrics, "test_psnr": 50.0}))]
    for order in (seen, seen[::-1]):
        (table, *_) = tables.tables(Gatherer().take(order).cells)
        entry = table.rows[0][1][2]
        assert (entry.value, entry.is_stand_in) == (24.79, False)
        assert "seeds" not in entry.small


def test_a_replaced_picture_is_said_and_not_shown():
    (job, result, _), *_ = worlds.world(True, ["table1"])
    new = Saved(job, result, {"finished": "2026-01-02"})
    old = Saved(dataclasses.replace(job, data="old"), result, {"finished": "2026-01-01"})
    gathered = Gatherer().take([new, old])
    assert [cell.key for cell in gathered.cells] == [job.key]
    assert gathered.damaged == {
        old.job.key: f"result {old.job.key} is not used: later runs saw another file for cameraman"
    }


def test_columns_say_what_was_changed_and_training_is_the_mean_over_seeds():
    plain, changed = (
        worlds.world(True, ["table1"]),
        worlds.world(True, ["table1"], overrides={"learning_rate": "0.005"}),
    )
    (table, *_) = tables.tables(Gatherer().take([*plain, *changed]).cells)
    notes = [(group.name, group.note) for group in table.groups]
    assert notes[:3] == [("paper", ""), ("paper recipe", ""), ("paper recipe", "learning rate 0.005")]
    seeds = worlds.world(True, ["table1"], seeds=2)
    seeds = [
        saved._replace(result=saved.result._replace(metrics={**saved.result.metrics, "train_psnr": 30.0 + 4 * seed}))
        for saved in seeds
        if (seed := saved.job.settings.get("seed")) is not None
    ]
    (table, *_) = tables.tables(Gatherer().take(seeds).cells)
    assert table.rows[0][1][2].small.startswith("training 32.00, 2 seeds")
    kept = [
        saved._replace(result=saved.result._replace(metrics={**saved.result.metrics, "train_psnr": 155.3}))
        for saved in plain
    ]
    (table, *_) = tables.tables(Gatherer().take(kept).cells)
    assert table.rows[0][1][2].small == "training pixels kept"


@pytest.mark.parametrize(
    ("items", "options"),
    [
        (["lr-synthetic", "eig-synthetic", "theory", "convex"], {"recipe": "quick"}),
        (["lr-synthetic", "eig-synthetic"], {"recipe": "fast", "overrides": {"epochs": "500", "rates": "0.07,0.08"}}),
        (["eig-synthetic"], {"recipe": "quick", "overrides": {"epochs": "1000000"}, "seeds": 2}),
        (["table1", "table2"], {"recipe": "quick", "overrides": {"size": "16", "noise_seed": "1"}}),
        (["eig-image-denoising"], {"recipe": "quick"}),
        (["table3"], {"recipe": "fast", "overrides": {"weight": "0.25"}}),
        (["table1"], {"recipe": "paper"}),
    ],
)  # fmt: skip
def test_the_command_of_a_cell_makes_its_job(items, options):
    known = [{k: v for k, v in options.get("overrides", {}).items() if _knows(item, k)} for item in items]
    for item, overrides in zip(items, known, strict=True):
        jobs = catalogue.expand([item], images=None, **{**options, "overrides": overrides})
        commands = {job.key: provenance.command(job) for job in jobs}
        made = {command: _made_by(command) for command in {re.sub(" --only .*", "", c) for c in commands.values()}}
        for key, command in commands.items():
            line, _, only = command.partition(" --only ")
            assert only == key
            assert key in made[line]


def test_the_command_of_a_walnut_from_a_file_asks_for_the_file(tmp_path):
    pictures.save(tmp_path / "walnut_substitute.png", pictures.Picture(np.eye(64)))
    for folder, asked in ((tmp_path, True), (None, False)):
        jobs = catalogue.only(catalogue.expand(["table1"], recipe="quick", images=folder), ["walnut"])
        assert [("--images" in provenance.command(job)) for job in jobs] == [asked] * len(jobs)


def _knows(item: str, name: str) -> bool:
    from multigrade_paper import recipes

    configs = [recipes.CONFIGS[part.config]["quick"] for part in catalogue.ITEMS[item].parts]
    return any(field.name == name for config in configs for field in dataclasses.fields(config))


def _made_by(command: str) -> set[str]:
    name, verb, item, *rest = shlex.split(command)
    assert (name, verb) == ("multigrade", "reproduce")
    pairs = list(zip(rest[::2], rest[1::2], strict=True))
    overrides = dict(value.split("=") for option, value in pairs if option == "--set")
    given = {option: value for option, value in pairs if option != "--set"}
    seeds = int(given.get("--seeds", 1))
    made = catalogue.expand([item], recipe=given["--recipe"], images=None, overrides=overrides, seeds=seeds)
    return {job.key for job in made}
