"""The documentation says what is so: its code runs, its command lines parse, its pages build without a warning."""

import dataclasses
import doctest
import importlib
import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

ROOT = Path(__file__).parent.parent
PAGES = {str(p.relative_to(ROOT)): p for p in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]}


def blocks(page: str, *languages: str) -> list[str]:
    """The fenced blocks of a page in one of the languages ("" for a fence without one)."""
    found = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", PAGES[page].read_text(), re.DOTALL | re.MULTILINE)
    return [code for language, code in found if language in languages]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_printed_code_runs(page, tmp_path, monkeypatch):
    """The blocks of a page run in order, later ones seeing the names of earlier ones."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for code in blocks(page, "python"):
        exec(compile(code, page, "exec"), names)


def test_every_public_name_has_an_example():
    import multigrade

    code = "\n".join(blocks("docs/api.md", "python"))
    assert [name for name in multigrade.__all__ if not re.search(rf"\b{name}\b", code)] == []


PUBLIC = ("", ".convex", ".curvature", ".equations", ".pictures", ".restore", ".training")


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_function_says_what_it_takes_and_what_it_gives(module):
    package = importlib.import_module(f"multigrade{module}")
    for name in package.__all__:
        function = getattr(package, name)
        if inspect.isfunction(function):
            text = inspect.getdoc(function) or ""
            _, _, taken = text.partition("Parameters\n----------\n")
            taken, _, given = taken.partition("Returns\n-------\n")
            named = {word for line in taken.splitlines() for word in re.split(r"[ ,]+", line.partition(" :")[0])}
            parameters = [each.name for each in inspect.signature(function).parameters.values()
                          if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]  # fmt: skip
            assert [parameter for parameter in parameters if parameter not in named] == [], name
            assert given.strip(), f"{name}: Returns"


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_record_says_what_its_fields_are(module):
    package = importlib.import_module(f"multigrade{module}")
    for name in package.__all__:
        record = getattr(package, name)
        fields = getattr(record, "_fields", ())
        if inspect.isclass(record) and dataclasses.is_dataclass(record):
            fields = [field.name for field in dataclasses.fields(record) if field.init]
        _, _, taken = (inspect.getdoc(record) or "").partition("Parameters\n----------\n")
        named = {word for line in taken.splitlines() for word in re.split(r"[ ,]+", line.partition(" :")[0])}
        assert [field for field in fields if field not in named] == [], name


def command_lines(page: str) -> list[str]:
    lines = [line for block in blocks(page, "bash", "") for line in block.replace("\\\n", " ").splitlines()]
    inline = re.findall(r"`(multigrade [^`]+)`", PAGES[page].read_text())
    return [line for line in [*lines, *inline] if line.startswith("multigrade ")]


@pytest.mark.parametrize("page", [page for page in PAGES if command_lines(page)])
def test_printed_commands_parse(page):
    """Every command line of a page is one that the program accepts, up to files that need not be there."""
    from multigrade.cli import app

    group = typer.main.get_command(app)
    for line in command_lines(page):
        name, *arguments = shlex.split(line, comments=True)[1:]
        if name.startswith("-"):  # an option of the program itself
            assert name in {option for parameter in group.params for option in parameter.opts}, line
        else:
            assert name in group.commands, line
            if arguments:
                group.commands[name].make_context(name, arguments)


@pytest.mark.parametrize("module", ["model", "structures"])
def test_docstring_examples(module):
    failed, attempted = doctest.testmod(importlib.import_module(f"multigrade.{module}"))
    assert attempted > 0
    assert failed == 0


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


def test_pages_build_strictly_and_ask_no_other_server(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r'<(?:script|img|link|iframe|source)[^>]*?(?:src|href)="?(https?:[^" >]*)', text)
        assert not loaded, page
    sheets = "".join(sheet.read_text() for sheet in site.rglob("*.css"))
    assert not re.findall(r"(?:url\(|@import\s)[\"']?https?:", sheets)


def test_formulas_become_mathml(site):
    pages = {page.name: page.read_text() for page in site.glob("*.html")}
    for name in ("how-it-works.html", "spectrum.html", "errata.html"):
        assert "<math" in pages[name]
    assert not any("arithmatex" in text for text in pages.values())


def test_every_public_name_is_in_the_reference(site):
    import multigrade

    reference = "".join(page.read_text() for page in (site / "api").glob("*.html"))
    names = [name for name, module in multigrade._PUBLIC.items() if module is not None]
    assert [name for name in names if f">{name}<" not in reference] == []
