"""The house keeps its own rules: dependencies run one way, and documents name files and functions that are there."""

import ast
import collections
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIBRARY, LABORATORY = ROOT / "src" / "multigrade", ROOT / "reproduction" / "multigrade_paper"
# Each room may import those before it, and none after it.
ORDER = (
    "version extras threads programs files networks sines structures least_squares model draws training progress "
    "tensorboard convex curvature functions equations tables estimators pictures restore synthetic commands cli "
    "__main__"
).split()


def modules(root: Path) -> dict[str, Path]:
    named = {".".join((root.name, *p.relative_to(root).with_suffix("").parts)): p for p in root.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


def imports(name: str, path: Path, known, *, eager: bool = False) -> set[str]:
    """The modules among ``known`` that a module imports; only while it is loaded itself, if ``eager``."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    nodes = ast.parse(path.read_text()).body if eager else ast.walk(ast.parse(path.read_text()))
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            target = ".".join([*base, *([node.module] if node.module else [])])
            found |= {whole if (whole := f"{target}.{alias.name}") in known else target for alias in node.names}
    return {module for module in found if module in known and module != name}


def test_dependencies_of_the_library_run_one_way():
    known = modules(LIBRARY)
    place = {room: index for index, room in enumerate(ORDER)}
    upward = []
    for name, path in known.items():
        if name == "multigrade":
            continue  # the door, whose names are lazy
        room = name.split(".")[1]
        assert room in place, f"{name}: add the new room to ORDER"
        for target in imports(name, path, known):
            if target != "multigrade" and place[target.split(".")[1]] > place[room]:
                upward.append(f"{name} -> {target}")
    assert upward == []


def test_the_library_does_not_know_the_laboratory():
    for path in LIBRARY.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [a.name for a in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "") or ""]
            )
            assert not any(name.startswith("multigrade_paper") for name in names), path


@pytest.mark.parametrize("root", [LIBRARY, LABORATORY], ids=["library", "laboratory"])
def test_no_module_waits_for_itself_while_it_is_loaded(root):
    known = modules(root)
    graph = {name: imports(name, path, known, eager=True) for name, path in known.items()}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            for target in graph[name]:
                visit(target, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_functions_have_at_most_ten_parameters():
    wide = []
    for path in [*LIBRARY.rglob("*.py"), *LABORATORY.rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                names = [a.arg for a in [*node.args.args, *node.args.kwonlyargs] if a.arg not in ("self", "cls")]
                wide += [f"{path.name}: {node.name} has {len(names)}"] * (len(names) > 10)
    assert wide == []


def test_few_private_functions_are_used_once():
    """A function deserves a name where it is used twice, is a formula, or is long; style is watched by their number."""
    count = 0
    for path in [*LIBRARY.rglob("*.py"), *LABORATORY.rglob("*.py")]:
        tree = ast.parse(path.read_text())
        used = collections.Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        private = [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and re.match(r"_[a-z]", n.name)]
        count += sum(used[name] == 1 for name in private)
    assert count <= 386  # optimistix has 19 of these


DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "reproduction" / "README.md"]
FOLDERS = "src reproduction tests benchmarks examples docs tools .github".split()
FILES = [p.relative_to(ROOT).as_posix() for folder in FOLDERS for p in (ROOT / folder).rglob("*") if p.is_file()]


@pytest.mark.parametrize("page", [p for p in DOCUMENTS if p.name != "CHANGELOG.md"], ids=lambda p: p.name)
def test_documents_name_files_and_functions_that_are_there(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    missing = []
    for name in re.findall(r"`([\w./-]+\.py)`", text):
        if name != "utils.py" and not any(f"/{file}".endswith(f"/{name}") for file in FILES):
            missing.append(name)
    for function, name in re.findall(r"`([A-Za-z_]\w*)(?:\(\))?`(?: in|,) `([\w./-]+\.py)`", text):
        held = [file for file in FILES if f"/{file}".endswith(f"/{name}")]
        if held and not any(re.search(rf"\b{function}\b", (ROOT / file).read_text()) for file in held):
            missing.append(f"{function} in {name}")
    for module in re.findall(
        r"`(?:python -m )?((?:multigrade|multigrade_paper|benchmarks|tests)(?:\.[a-z_]+)+)\b", text
    ):
        parts = module.split(".")
        roots = {"multigrade": LIBRARY, "multigrade_paper": LABORATORY}
        place = roots.get(parts[0], ROOT / parts[0]).joinpath(*parts[1:2])
        if not (place.is_dir() or place.with_suffix(".py").is_file() or is_public(parts)):
            missing.append(module)
    assert missing == []


def is_public(parts: list[str]) -> bool:
    import importlib

    return hasattr(importlib.import_module(parts[0]), parts[1])
