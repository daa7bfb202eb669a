"""python tools/versions.py: which releases of Python and of what we stand on pass the tests, as a table.

Each row is an environment of its own: the wheels of both distributions, the packages that a row names, and the tests,
copied to a folder outside of the checkout. ``--write`` puts the table into docs/versions.md. A row takes some five
minutes of the processor; ``--all`` runs every test that is not slow, which takes four times as long. Needs uv.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "versions.md"
UV = (sys.executable, "-m", "uv")
SHOWN = ("jax", "optax", "numpy", "scipy", "scikit-learn")
# One file or two of every room.
TESTS = (
    "test_jax.py test_networks.py test_training.py test_estimators.py test_curvature.py test_convex.py "
    "test_equations.py test_images.py test_extras.py reproduction/test_store.py"
).split()
# name: Python, arguments of uv pip install
ROWS: dict[str, tuple[str, list[str]]] = {
    "lowest": ("3.11", ["--resolution", "lowest-direct"]),
    "jax 0.9.2": ("3.11", ["jax==0.9.2"]),
    "jax 0.10.2": ("3.11", ["jax==0.10.2"]),
    "newest": ("3.11", []),
    "newest, Python 3.12": ("3.12", []),
    "newest, Python 3.13": ("3.13", []),
    "newest, Python 3.14": ("3.14", []),
}
MARKS = "<!-- versions: made by tools/versions.py --write -->", "<!-- end of versions -->"


def run(*command, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)


def build_wheels(folder: Path) -> list[Path]:
    """The wheels of both distributions, built from this checkout."""
    for distribution in (ROOT, ROOT / "reproduction"):
        if (built := run(*UV, "build", "--wheel", "--out-dir", folder, distribution)).returncode:
            sys.exit(f"{distribution} could not be built:\n{built.stderr}")
    return sorted(folder.glob("*.whl"))


def try_row(name: str, wheels: list[Path], tests: list[str], folder: Path) -> list[str]:
    """The cells of one row: name, Python, versions, what passed and what did not."""
    python, arguments = ROWS[name]
    environment = folder / "environment"
    if run(*UV, "venv", "--python", python, environment).returncode:
        return [name, python, *["-"] * len(SHOWN), "not tried: this Python is not to be had here"]
    interpreter = environment / "bin" / "python"
    library, laboratory = wheels
    installed = run(
        *UV, "pip", "install", "--python", interpreter, *arguments, f"{library}[test]", laboratory, "setuptools>=77,<81"
    )
    if installed.returncode:
        return [name, python, *["-"] * len(SHOWN), f"cannot be installed: {installed.stderr.strip().splitlines()[-1]}"]
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    outcome = run(interpreter, "-m", "pytest", "-q", "-m", "not slow", *tests, cwd=folder, timeout=3600)
    counts = re.findall(
        r"\d+ (?:passed|failed|errors?|skipped)", outcome.stdout.splitlines()[-1] if outcome.stdout else ""
    )
    if outcome.returncode not in (0, 1) or not counts:
        counts = ["the tests could not be run"]
        print(outcome.stdout[-2000:], outcome.stderr[-2000:])
    for line in re.findall(r"^(?:FAILED|ERROR) .*", outcome.stdout, re.MULTILINE):
        print("   ", line)
    listed = run(*UV, "pip", "list", "--python", interpreter, "--format", "freeze").stdout
    versions = dict(line.split("==") for line in listed.splitlines() if "==" in line)
    return [name, python, *[versions.get(package, "-") for package in SHOWN], ", ".join(counts)]


def put_between(marks: tuple[str, str], lines: list[str], rows: list[list[str]], page: Path) -> None:
    """Write lines and a table between the marks of a page, in place of what is there."""
    table = [f"| {' | '.join(row)} |" for row in rows]
    table.insert(1, "|" + "---|" * len(rows[0]))
    before, rest = page.read_text().split(marks[0])
    page.write_text("\n".join([before + marks[0], *lines, "", *table, "", marks[1]]) + rest.split(marks[1])[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="names of rows, with | between them")
    parser.add_argument("--all", action="store_true", help="every test that is not slow")
    parser.add_argument("--write", action="store_true", help="put the table into docs/versions.md")
    given = parser.parse_args()
    names = given.only.split("|") if given.only else list(ROWS)
    tests = ["tests"] if given.all else [f"tests/{name}" for name in TESTS]
    rows = [["", "Python", *SHOWN, "tests"]]
    with tempfile.TemporaryDirectory(prefix="multigrade-versions-") as folder:
        wheels = build_wheels(Path(folder))
        for index, name in enumerate(names):
            (place := Path(folder) / str(index)).mkdir()
            rows.append(try_row(name, wheels, tests, place))
            print(" | ".join(rows[-1]), flush=True)
            shutil.rmtree(place)
    if given.write:
        put_between(MARKS, [f"Tried on {date.today()}, Linux, x86-64."], rows, PAGE)


if __name__ == "__main__":
    main()
