"""python -m tests.mutants: turn one comparison, operator or constant of the package at a time, and see a test fail.

    python -m tests.mutants --sample 40 --seed 0           of all files
    python -m tests.mutants --sample 10 --only equations   of files whose path contains this

A mutant is run, in a copy of the package, against the tests that mirror its file: the one that is named for it, and
those that name most of what it defines. One that no test catches is a gap, unless ``VERDICTS`` says why it is harmless:
it computes the same, or differs only in rounding, in a tie, in a tolerance, or in how long something takes.
"""

import argparse
import ast
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
HOUSES = {"src/multigrade": "multigrade", "reproduction/multigrade_paper": "multigrade_paper"}
TURNED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*",
    ast.And: "or", ast.Or: "and",
}  # fmt: skip
SIGNS = re.compile(r"<=|>=|==|!=|<|>|\bis not\b|\bis\b|\bnot in\b|\bin\b|\band\b|\bor\b|(?<!\*)\*(?!\*)|[+\-/]")
MOST_FILES, MOST_SECONDS = 3, 600  # of tests for a mutant; one that takes longer is noticed, too

# (file, line, change): why a mutant that no test catches does no harm. Each was looked at by a person.
VERDICTS: dict[tuple[str, str, str], str] = {
    ("src/multigrade/pictures/baselines.py", "return WIENER_RULE * noise_sigma / 255", "255 -> 256"): (
        "0.4 % of a strength that is our choice"
    ),
}


class Mutant(NamedTuple):
    """In ``file``, the characters from ``start`` to ``stop`` become ``new``."""

    file: str
    start: int
    stop: int
    new: str

    def described(self) -> tuple[str, str, str]:
        """File, line and change, by which a verdict is found."""
        text = (ROOT / self.file).read_text()
        first, last = text.rfind("\n", 0, self.start) + 1, text.find("\n", self.stop)
        return self.file, text[first:last].strip(), f"{text[self.start : self.stop]} -> {self.new}"


def mutants_of(file: str) -> Iterator[Mutant]:
    """All of one file, but texts, annotations, and ``strict``, which watches for mistakes of our own."""
    text = (ROOT / file).read_text()
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    encoded = [line.encode() for line in text.splitlines()]

    def place(line: int, column: int) -> int:  # columns of ast count bytes
        return lines[line - 1] + len(encoded[line - 1][:column].decode())

    def between(left: ast.expr, right: ast.expr, turned: str) -> Iterator[Mutant]:
        start, stop = place(left.end_lineno or 0, left.end_col_offset or 0), place(right.lineno, right.col_offset)
        if sign := SIGNS.search(text, start, stop):
            yield Mutant(file, *sign.span(), turned)

    def visit(node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Compare(left, operators, others):
                for before, sign, after in zip([left, *others], operators, others, strict=False):
                    yield from between(before, after, TURNED[type(sign)])
            case ast.BinOp(left, operator, right) if type(operator) in TURNED:
                yield from between(left, right, TURNED[type(operator)])
            case ast.BoolOp(operator, values):
                yield from between(values[0], values[1], TURNED[type(operator)])
            case ast.Constant(value) if isinstance(value, bool | int | float):
                new = (
                    str(not value)
                    if isinstance(value, bool)
                    else repr(value + 1 if isinstance(value, int) else 2 * value)
                )
                start = place(node.lineno, node.col_offset)
                yield Mutant(file, start, place(node.lineno, node.end_col_offset or 0), new)
        for name, field in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list") and getattr(node, "arg", "") != "strict":
                for child in field if isinstance(field, list) else [field]:
                    if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                        yield from visit(child)

    yield from visit(ast.parse(text))


def tests_of(file: str) -> list[str]:
    """The tests that mirror a file: named for it, importing it, naming what it defines, or importing its package."""
    house = next(house for house in HOUSES if file.startswith(house))
    module = ".".join([HOUSES[house], *Path(file).relative_to(house).with_suffix("").parts]).removesuffix(".__init__")
    package, _, stem = module.rpartition(".")
    defined = [getattr(node, "name", "_") for node in ast.parse((ROOT / file).read_text()).body]
    names = re.compile(rf"\b(?:{'|'.join(name for name in defined if name[0] != '_') or 'no name'})\b")
    by_name = re.compile(rf"{re.escape(module)}\b|from {re.escape(package)} import [^\n]*\b{stem}\b")
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        rank = 100 * (path.stem == f"test_{stem.strip('_')}") + 20 * bool(by_name.search(text))
        rank += min(len(names.findall(text)), 50) + (f"from {package}" in text)
        if rank:
            found.append((-rank, path.relative_to(ROOT).as_posix()))
    return [path for _, path in sorted(found)[:MOST_FILES]]


def run(tests: list[str], copy: Path) -> subprocess.CompletedProcess[str]:
    """The tests in the copy, up to the first that fails, with a limit of the processor's time."""
    environment = os.environ | {
        "PYTHONPATH": f"{copy}/src:{copy}/reproduction", "JAX_COMPILATION_CACHE_DIR": f"{ROOT}/.pytest_cache/mutants",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    limit = partial(resource.setrlimit, resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    return subprocess.run(
        command, cwd=copy, capture_output=True, text=True, check=False, env=environment, preexec_fn=limit
    )


def is_caught(mutant: Mutant, tests: list[str], copy: Path) -> bool:
    """Whether a test fails, or does not end, in the copy with the mutant, and passes without it."""
    place = copy / mutant.file
    text = place.read_text()
    place.write_text(text[: mutant.start] + mutant.new + text[mutant.stop :])
    try:
        with_it = run(tests, copy)
    finally:
        place.write_text(text)
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", with_it.stdout, re.MULTILINE)
    return with_it.returncode != 0 and run(failed[:1] or tests, copy).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of the path of the files")
    given = parser.parse_args()
    files = [p.relative_to(ROOT).as_posix() for house in HOUSES for p in sorted((ROOT / house).rglob("*.py"))]
    everything = [mutant for file in files if given.only in file for mutant in mutants_of(file)]
    chosen = random.Random(given.seed).sample(everything, min(given.sample, len(everything)))
    counts, started = dict.fromkeys(("caught", "harmless", "GAP"), 0), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="multigrade-mutants-") as folder:
        for part in ("src", "reproduction", "tests", "docs", "examples"):
            shutil.copytree(ROOT / part, Path(folder) / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        for mutant, what in [(mutant, mutant.described()) for mutant in chosen]:  # the files may change meanwhile
            tests = tests_of(mutant.file)
            verdict = VERDICTS.get(what, "")
            end = "caught" if is_caught(mutant, tests, Path(folder)) else "harmless" if verdict else "GAP"
            counts[end] += 1
            print(f"{end:8}  {what[0]}: {what[1]}   [{what[2]}]  {verdict}", flush=True)
            if end == "GAP":
                print(f"          not seen by {' '.join(tests) or 'any test: none imports it'}", flush=True)
    told = ", ".join(f"{count} {end}" for end, count in counts.items())
    print(f"{len(chosen)} of {len(everything):,} mutants in {time.monotonic() - started:.0f} s: {told}")
    return int(counts["GAP"] > 0)


if __name__ == "__main__":
    sys.exit(main())
