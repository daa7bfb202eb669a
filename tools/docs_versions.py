"""python tools/docs_versions.py: the documentation of every release, in site/, with a menu of versions.

Each tag ``v1.2`` is checked out in a clone of its own and built by mike into a branch of that clone; the branch is then
written to ``site/``. Neither the checkout nor its branches change. The newest tag is called "latest".
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parent.parent
TAG = re.compile(r"v(\d+(?:\.\d+)*)")


def git(folder: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "site")
    parser.add_argument("--repository", type=Path, default=ROOT)
    given = parser.parse_args()
    tags = {tag: match[1] for tag in git(given.repository, "tag").decode().split() if (match := TAG.fullmatch(tag))}
    if not tags:
        sys.exit(
            f"{given.repository} has no tags of releases, such as v0.1.0; `make docs` builds the pages as they are"
        )
    if given.output.exists() and any(given.output.iterdir()):
        sys.exit(f"{given.output} is not empty; move or remove it first")
    ordered = sorted(tags, key=lambda tag: [int(part) for part in tags[tag].split(".")])
    with tempfile.TemporaryDirectory(prefix="multigrade-docs-") as folder:
        clone = Path(folder) / "clone"
        here = Path(sys.executable).parent
        mike = str(here / "mike")
        environment = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}  # mike calls mkdocs by name
        git(ROOT, "clone", "--quiet", str(given.repository), str(clone))
        git(clone, "config", "user.name", "docs")  # of the commits in the clone
        git(clone, "config", "user.email", "docs@localhost")
        for tag in ordered:
            git(clone, "checkout", "--quiet", tag)
            aliases = ["latest"] if tag == ordered[-1] else []
            deploy = [mike, "deploy", "--update-aliases", "--alias-type=copy"]
            command = [*deploy, tags[tag], *aliases]
            built = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)
            if built.returncode:
                sys.exit(f"the pages of {tag} could not be built:\n{built.stderr}")
            print(tag, flush=True)
        subprocess.run([mike, "set-default", "latest"], cwd=clone, env=environment, check=True)
        with tarfile.open(fileobj=BytesIO(git(clone, "archive", "gh-pages"))) as archive:
            archive.extractall(given.output, filter="data")


if __name__ == "__main__":
    main()
