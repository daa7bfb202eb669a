"""The code in the README and in the tutorials runs as printed."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def blocks():
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for index, code in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)):
            yield pytest.param(code, id=f"{path.name}-{index + 1}")


@pytest.mark.parametrize("code", list(blocks()))
def test_printed_code_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "printed code", "exec"), {})


@pytest.mark.parametrize("module", ["model", "structures"])
def test_docstring_examples(module):
    failed, attempted = doctest.testmod(importlib.import_module(f"multigrade.{module}"))
    assert attempted > 0
    assert failed == 0
