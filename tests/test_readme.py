"""The code in the README and in the tutorials runs as printed."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


PAGES = {path.name: path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}


@pytest.mark.parametrize("page", [name for name, path in PAGES.items() if "```python" in path.read_text()])
def test_printed_code_runs(page, tmp_path, monkeypatch):
    """The blocks of a page run in order, later ones seeing the names of earlier ones."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in re.findall(r"```python\n(.*?)```", PAGES[page].read_text(), re.DOTALL):
        exec(compile(code, page, "exec"), names)


@pytest.mark.parametrize("module", ["model", "structures"])
def test_docstring_examples(module):
    failed, attempted = doctest.testmod(importlib.import_module(f"multigrade.{module}"))
    assert attempted > 0
    assert failed == 0
