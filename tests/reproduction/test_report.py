"""The report: its charts and tables say what the records say, and its page opens alone, offline, and works."""

import json
import os
import re
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from multigrade import cli
from multigrade.training.record import starts
from multigrade_paper.executors import Report
from multigrade_paper.job import Job, Result, Saved
from multigrade_paper.progress import Silent
from multigrade_paper.report import export, figures, page
from multigrade_paper.report.charts import curve, thin
from multigrade_paper.report.gather import Gatherer
from multigrade_paper.report.live import LivePage
from multigrade_paper.report.theorems import theorems
from multigrade_paper.store import Store
from tests.reproduction import worlds
from tests.reproduction.report_store import DIVERGING, HOSTILE, fill

MEGABYTE = 1 << 20
# Of a copy: reading a drawn canvas twice earns a warning.
PIXELS = """canvas => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  return [...copy.getImageData(0, 0, canvas.width, canvas.height).data];
}"""


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    """Shared by all processes of the test run: what one has made, the others find."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return fill(shared / "runs")


@pytest.fixture(scope="module")
def gathered(store):
    return Gatherer().read(store)


# ---- charts and figures --------------------------------------------------------------------------------------------


def test_thinning_keeps_the_ends_and_the_extremes_of_every_stretch():
    x, y = np.arange(100_000.0), np.random.default_rng(0).standard_normal(100_000)
    kept_x, kept_y = thin(x, y, 500)
    assert len(kept_x) <= 500
    assert (kept_x[0], kept_x[-1]) == (x[0], x[-1])
    assert (np.diff(kept_x) > 0).all()
    np.testing.assert_array_equal(kept_y, y[kept_x.astype(int)])
    for stretch in np.array_split(np.arange(100_000), 249):
        inside = (kept_x >= stretch[0]) & (kept_x <= stretch[-1])
        assert kept_y[inside].max() == y[stretch].max()
        assert kept_y[inside].min() == y[stretch].min()


def test_text_is_escaped_in_elements_attributes_and_islands():
    parts = page._templates().get_template("parts.html").module
    assert parts.link(HOSTILE, HOSTILE).count("<") == 2
    inside = (
        str(parts.island({HOSTILE: HOSTILE})).removeprefix('<script type="application/json">').removesuffix("</script>")
    )
    assert "<" not in inside
    assert json.loads(inside) == {HOSTILE: HOSTILE}


def test_a_page_takes_jobs_from_outside_the_catalogue():
    own = Saved(Job("mine", "regression", {"task": "regress", "image": "chest", "seed": 0}), Result({"test_psnr": 1.0}))
    assert "mine" in page.build(Gatherer().take([own]), title="own")


@pytest.mark.parametrize(
    ("settings", "metrics"),
    [
        ({"learning_rate": "auto", "noise": "poisson"}, {}),
        ({"method": 2, "task": "denoise"}, {}),
        ({"method": 2}, {"grades_test_psnr": 3, "snapshots": 1, "test_psnr": "high"}),
    ],
)
def test_jobs_of_others_are_shown_whatever_their_settings_are(settings, metrics, tmp_path):
    pictures = dict.fromkeys(("input", "result", "grade 1", "step 9"), np.zeros((4, 4)))
    Store(tmp_path).save(Job("mine", "fit", settings), Result(metrics, (worlds.record(100),), {}, pictures), {})
    for command in ("runs", "report", "claims"):
        output = ["-o", str(tmp_path / "report.html")] if command == "report" else []
        result = CliRunner().invoke(cli.app, [command, str(tmp_path), *output], catch_exceptions=False)
        assert result.exit_code == 0


def test_a_page_that_cannot_be_made_stops_no_job(tmp_path, capsys):
    arrays = {"stages": np.zeros((1, 3))}  # without the x that they belong to
    Store(tmp_path).save(Job("mine", "fit", {"a": 1}), Result({}, (worlds.record(100),), arrays), {})
    with LivePage(Silent(), Store(tmp_path), tmp_path / "page.html", num_jobs=1):
        pass
    told = f"the report {tmp_path / 'page.html'} could not be written: KeyError: 'x'\n"
    assert capsys.readouterr().err == told


def test_every_figure_of_the_paper_is_there_in_its_order():
    drawn = figures.figures(Gatherer().take(worlds.world(True)).cells)
    assert [figure.name for figure in drawn] == [f"Figure {number}" for number in range(1, 29)]
    # Made-up results have no pictures and no predictions.
    empty = {figure.id for figure in drawn if not figure.blocks}
    assert empty == {f"figure-{number}" for number in (4, 7, 11, 17, 27)}


def test_jobs_that_items_share_are_counted_in_each():
    text = page.build(Gatherer().take(worlds.world(True, ["table1"])), title="shared")
    counts = dict(re.findall(r'<code>([\w-]+)</code>.*?<td class="number">(\S*?)</td>', text))
    assert {name: int(count) for name, count in counts.items() if count.isdigit()} == {
        "table1": 18,
        "figure-cameraman": 3,
    }


def test_a_rate_that_diverged_is_marked_and_has_no_number(gathered):
    (figure,) = [f for f in figures.figures(gathered.cells) if f.name == "Figure 1"]
    (chart,) = figure.blocks[0].charts
    lost = {(x, role) for x, role, _ in chart.lost}
    assert lost == {(DIVERGING, "sgdl"), (DIVERGING, "mgdl")}
    for line in chart.lines:
        assert np.isnan(line.y[line.x == DIVERGING]).all()
        assert np.isfinite(line.y[line.x < 1]).all()


def test_charts_hold_the_records(gathered):
    (figure,) = [f for f in figures.figures(gathered.cells) if f.name == "Figure 2"]
    sgdl, mgdl, loss = figure.blocks[0].charts
    (cell,) = [c for c in figure.blocks[0].cells if c.settings["method"] == "MGDL"]
    records = cell.saved.result.records
    seen = [record.observations["spectrum"] for record in records]
    np.testing.assert_array_equal(mgdl.spectra.values[:, 0], np.concatenate([each["smallest"][:, 0] for each in seen]))
    assert [name for _, name in mgdl.grades] == ["grade 1", "grade 2", "grade 3", "grade 4"]
    assert (sgdl.grades, sgdl.band, mgdl.band, loss.band) == ((), True, True, False)
    (line,) = [line for line in loss.lines if line.name == "MGDL"]
    np.testing.assert_array_equal(
        line.y[np.isfinite(line.y)], np.concatenate([record.train_loss for record in records]).astype(np.float64)
    )
    assert {figure.id: len(figure.blocks) for figure in theorems(gathered.cells)} == {"theory": 1, "convex": 1}


def test_a_job_of_ones_own_may_borrow_the_name_of_an_item():
    mine = Saved(Job("table1", "mine", {"method": "MGDL"}), Result({"loss": 1.0}))
    assert "mine" in page.build(Gatherer().take([mine]), title="t")


# ---- files ---------------------------------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(cli.app, ["report", *map(str, arguments)])


def test_the_command_writes_a_page_and_figures_for_print(store, gathered, tmp_path):
    part, wanted = Store(tmp_path / "runs"), [("table2", "MGDL"), ("eig-synthetic", "MGDL"), ("lr-synthetic", "SGDL")]
    for cell in gathered.cells:
        if (cell.saved.job.item, cell.settings.get("method")) in wanted:
            part.put(cell.key, store.files(cell.key))
    result = run(part.path, "-o", tmp_path / "page.html", "--figures", tmp_path / "figures")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "page.html").stat().st_size < 7 * MEGABYTE
    names = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert {"figure-1-1", "figure-2-1", "figure-4-1", "figure-8-1", "figure-17-1"} <= names
    for name in names:
        begins = {form: (tmp_path / "figures" / f"{name}.{form}").read_bytes()[:5] for form in export.FORMATS}
        assert begins == {"png": b"\x89PNG\r", "svg": b"<?xml", "pdf": b"%PDF-"}


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["nowhere"], "there is no store at nowhere"),
        ([".", "-o", "page.txt"], "the report must end in .html; got 'page.txt'"),
        ([".", "-o", "no/page.html"], "the folder of no/page.html does not exist"),
        ([".", "--figures", "no/figures"], "the folder of no/figures does not exist"),
        ([".", "--pixels", "3"], "pictures must be at least 16 pixels wide; got 3"),
    ],
)
def test_mistakes_are_one_line(arguments, match, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert isinstance(result.exception, ValueError)
    assert match in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_the_page_fills_while_jobs_run_and_reads_each_result_once(store, tmp_path, monkeypatch):
    part, keys = Store(tmp_path / "runs"), store.keys()[:3]
    reads = []
    monkeypatch.setattr(Store, "load", lambda self, key, load=Store.load: reads.append(key) or load(self, key))
    path = tmp_path / "page.html"
    with LivePage(Silent(), part, path, num_jobs=3) as live:
        assert "Under way: 0 of 3 jobs are done" in path.read_text()
        for key in keys:
            part.put(key, store.files(key))
            live.due = 0.0
            live.ended(Report(store.load(key).job, "finished"))
        text = path.read_text()
        assert "Under way: 3 of 3 jobs are done" in text
        assert all(f'id="cell-{key}"' in text for key in keys)
    assert "Under way" not in path.read_text()
    assert sorted(reads) == sorted(2 * keys)  # once by this test, once for four pages


def test_a_damaged_result_is_left_out_and_told(store, tmp_path):
    shutil.copytree(store.path, tmp_path / "runs")
    key = store.keys()[0]
    (tmp_path / "runs" / key / "result.json").write_text("{}")
    text = page.build(Gatherer().read(Store(tmp_path / "runs")), title="damaged")
    assert f"Left out: result {key} is damaged: result.json does not match its checksum" in text
    assert f'id="cell-{key}"' not in text


# ---- in a browser --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        pytest.skip("the page is not opened: there is no Chromium here (apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(store, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    return page.write_page(store, path).as_uri()


@pytest.fixture
def opened(browser, address):
    """The page, opened offline; in the end it has asked for nothing and complained of nothing."""
    context = browser.new_context(offline=True, viewport={"width": 1300, "height": 900}, color_scheme="light")
    tab, asked, said = context.new_page(), [], []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto(address)
    yield tab
    context.close()
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [address]
    assert said == []


def test_every_figure_is_drawn_when_it_comes_into_view(opened):
    assert opened.locator(".js-plotly-plot").count() == 0  # nothing is drawn before it is seen
    charts = opened.locator(".chart")
    assert charts.count() >= 15
    for block in opened.locator("details.block:not([open]) > summary").all():
        block.click()
    for index in range(charts.count()):
        charts.nth(index).scroll_into_view_if_needed()
        charts.nth(index).locator(".js-plotly-plot .scatterlayer .trace").first.wait_for(state="attached")
    for viewer in opened.locator(".viewer").all():
        viewer.scroll_into_view_if_needed()
        opened.wait_for_function("viewer => viewer.dataset.state === 'pictures'", arg=viewer.element_handle())
    shown = "() => [...document.querySelectorAll('.gallery:not(.stills) img')].every(image => image.naturalWidth > 0)"
    opened.wait_for_function(shown)


def test_the_log_switch_and_the_theme(opened):
    chart = opened.locator("#figure-5 .chart")
    chart.scroll_into_view_if_needed()
    chart.locator(".js-plotly-plot").wait_for()
    kind = "element => element.querySelector('.plot').layout.yaxis.type"
    button = chart.locator(".log")
    assert (chart.evaluate(kind), button.get_attribute("aria-pressed")) == ("log", "true")
    button.press("Enter")
    assert (chart.evaluate(kind), button.get_attribute("aria-pressed")) == ("linear", "false")
    ink = "element => element.querySelector('.plot').layout.font.color"
    before, back = chart.evaluate(ink), opened.evaluate("getComputedStyle(document.body).backgroundColor")
    opened.locator("#theme").click()
    assert opened.evaluate("document.documentElement.dataset.theme") == "dark"
    assert chart.evaluate(ink) != before
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") != back


def test_the_scrubber_moves_through_the_spectra(opened, gathered):
    chart = opened.locator("#figure-2 .chart").nth(1)  # MGDL: four grades
    chart.scroll_into_view_if_needed()
    chart.locator(".js-plotly-plot").wait_for()
    told, slider = chart.locator("output"), chart.locator("input[type=range]")
    assert told.inner_text().startswith("Grade 4, epoch 20: smallest ")
    slider.press("Home")
    assert told.inner_text().startswith("Grade 1, epoch 0: smallest ")
    slider.press("ArrowRight")
    assert told.inner_text().startswith("Grade 1, epoch 10: smallest ")
    (figure,) = [f for f in figures.figures(gathered.cells) if f.name == "Figure 2"]
    values = figure.blocks[0].charts[1].spectra.values[1]
    drawn = chart.evaluate("c => c.querySelector('.plot').data.filter(t => t.xaxis === 'x2').map(t => [...t.y])")
    np.testing.assert_allclose(np.concatenate(drawn), values.astype(np.float32))
    assert slider.get_attribute("aria-valuetext") == told.inner_text()


def test_the_viewer_divides_zooms_and_shows_errors(opened, gathered):
    viewer = opened.locator("#figure-8 .viewer")
    viewer.scroll_into_view_if_needed()
    opened.wait_for_function("viewer => viewer.dataset.state === 'pictures'", arg=viewer.element_handle())
    split, upper = viewer.locator(".split"), viewer.locator("canvas").nth(1)
    split.press("Home")
    assert upper.evaluate("canvas => canvas.style.clipPath") == "inset(0px 0px 0px 0%)"
    split.press("End")
    assert upper.evaluate("canvas => canvas.style.clipPath") == "inset(0px 0px 0px 100%)"
    viewer.locator(".zoom").press("End")
    assert viewer.locator(".sheet").evaluate("sheet => sheet.style.width") == "800%"
    result, choices = upper.evaluate(PIXELS), viewer.locator("select").nth(1)
    choices.select_option(label="reference")
    viewer.locator(".error").check()
    opened.wait_for_function("viewer => viewer.dataset.state === 'error'", arg=viewer.element_handle())
    error = np.reshape(upper.evaluate(PIXELS), (-1, 4))
    assert (error == [0, 0, 4, 255]).all()  # the reference has none
    assert error.size == len(result)


def test_links_lead_from_a_claim_and_a_table_to_the_open_cell(opened):
    opened.locator("#status").select_option("not comparable")
    row = opened.locator(".ledger tbody tr:visible").first
    link = row.locator("a[href^='#cell-']").first
    target = link.get_attribute("href")
    link.click()
    cell = opened.locator(target)
    assert cell.evaluate("cell => cell.open && cell.parentElement.closest('details').open")
    assert target.removeprefix("#cell-") in cell.locator("pre").first.inner_text()
    opened.locator("#table-2 a, #denoising td a").first.click()
    assert "multigrade reproduce table2 --recipe quick" in opened.locator(":target pre").first.inner_text()


def test_the_ledger_filters_by_verdict_and_words(opened):
    whole = opened.locator(".ledger tbody tr").count()
    assert opened.locator("#count").inner_text() == f"{whole} of {whole} claims"
    opened.locator("#words").fill("Table 2")
    opened.locator("#status").select_option("not yet replayed")
    visible = opened.locator(".ledger tbody tr:visible")
    assert 0 < visible.count() < whole
    assert set(visible.evaluate_all("rows => rows.map(row => row.dataset.status)")) == {"not yet replayed"}


def test_text_of_records_is_text(opened):
    """The page has drawn and opened all it holds of a hostile record, and it is still itself."""
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    opened.locator("#others .js-plotly-plot").wait_for()
    opened.locator("#cells details").evaluate_all("all => all.forEach(details => details.open = true)")
    assert opened.title() == "multigrade: runs"
    assert HOSTILE in opened.locator("#cells").inner_text()
    assert HOSTILE in opened.locator("#others .legendtext").first.text_content()
    assert opened.locator("svg a").count() == 0
    assert (
        opened.evaluate("document.querySelectorAll('img[src=x], body script:not([type]):not(:last-of-type)').length")
        == 0
    )


def test_narrow_screens_and_paper(browser, address, tmp_path):
    tab = browser.new_page(viewport={"width": 360, "height": 700})
    tab.goto(address)
    tab.locator("details.block").evaluate_all("all => all.forEach(details => details.open = true)")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    tab.pdf(path=tmp_path / "page.pdf", format="A4")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF-")
    assert tab.locator(".chart:not(:has(.js-plotly-plot))").count() == 0
    tab.close()


def test_a_run_that_trains_nothing_has_no_grades_to_draw():
    assert starts([]).size == 0
    assert curve([], "train_loss", "MGDL", "mgdl") is None
