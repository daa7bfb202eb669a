"""python tools/install.py: what an installation takes, as a table: time, size, imports, the demo.

The wheels are built from this checkout and installed by pip into empty environments outside of it: the core alone, and
everything with the laboratory. ``--write`` puts the table into docs/versions.md. Needs the packages' index.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from versions import PAGE, build_wheels, put_between

MARKS = "<!-- installation: made by tools/install.py --write -->", "<!-- end of installation -->"
IMPORTS = ("multigrade", "multigrade.cli", "multigrade.training", "multigrade.tables")


def timed(*command, cwd: Path) -> float:
    started = time.perf_counter()
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return time.perf_counter() - started


def measure(name: str, requirements: list[str], folder: Path) -> list[str]:
    """The cells of a row: seconds of pip, megabytes, packages, milliseconds of imports, seconds of the demo."""
    environment = folder / name.split()[0]
    timed(sys.executable, "-m", "venv", environment, cwd=folder)
    python = environment / "bin" / "python"
    before = sum(path.stat().st_size for path in environment.rglob("*") if path.is_file())
    seconds = timed(python, "-m", "pip", "install", "--quiet", "--no-cache-dir", *requirements, cwd=folder)
    size = sum(path.stat().st_size for path in environment.rglob("*") if path.is_file()) - before
    packages = subprocess.run(
        [python, "-m", "pip", "list", "--format", "freeze"], capture_output=True, text=True, check=True
    )
    imports = [min(timed(python, "-c", f"import {module}", cwd=folder) for _ in range(3)) for module in IMPORTS]
    demo = (
        f"{timed(environment / 'bin' / 'multigrade', 'demo', cwd=folder):.0f} s"
        if "pictures" in requirements[0]
        else "-"
    )
    return [name, f"{seconds:.0f} s", f"{size / 1e6:.0f} MB", str(len(packages.stdout.split())),
            *[f"{each:.2f} s" for each in imports], demo]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/versions.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="multigrade-install-") as name:
        folder = Path(name)
        library, laboratory = build_wheels(folder)
        rows = [
            [
                "installed",
                "pip install",
                "size",
                "packages",
                *[f"`import {module}`" for module in IMPORTS],
                "first demo",
            ],
            measure("core", [str(library)], folder),
            measure("pictures and plots", [f"{library}[pictures,plots]"], folder),
            measure("laboratory, with these", [f"{library}[pictures,plots]", str(laboratory)], folder),
        ]
        print(wheels := ", ".join(f"{path.name} {path.stat().st_size / 1e3:.0f} kB" for path in (library, laboratory)))
    for row in rows:
        print(" | ".join(row))
    if given.write:
        put_between(MARKS, [f"Wheels: {wheels}."], rows, PAGE)


if __name__ == "__main__":
    main()
