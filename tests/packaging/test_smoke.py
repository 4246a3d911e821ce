"""The tests that CI runs away from the sources import only what CI copies there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def imported(path: Path) -> set[str]:
    """The modules that a file names in its import statements, wherever they stand."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def reached(start: set[Path]) -> dict[Path, set[str]]:
    """Each file of the project reached from `start` through imports -> the modules it imports."""
    found: dict[Path, set[str]] = {}
    waiting = set(start)
    while waiting:
        path = waiting.pop()
        found[path] = imported(path)
        files = {(ROOT / name.replace(".", "/")).with_suffix(".py") for name in found[path]}
        waiting |= {file for file in files if file.is_file()} - found.keys()
    return found


def smoke_tests() -> set[Path]:
    """The files that the smoke step collects, with the conftest of the tests."""
    text = (ROOT / ".ci/run").read_text("utf-8")
    (places,) = re.findall(r'^SMOKE_TESTS="(.*)"$', text, re.MULTILINE)
    folders = [ROOT / place for place in places.split()]
    files = {file for folder in folders for file in folder.rglob("*.py")}
    return files | {folder for folder in folders if folder.is_file()} | {ROOT / "tests/conftest.py"}


def test_smoke_tests_import_only_what_is_copied() -> None:
    (copied,) = re.findall(r"cp -r (.+) \"\$folder\"", (ROOT / ".ci/run").read_text("utf-8"))
    beside = (
        {path.name for path in ROOT.iterdir() if path.is_dir()} - set(copied.split()) - {"xladev"}
    )
    files = reached(smoke_tests())
    assert len(files) > 100
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path, names in sorted(files.items())
        for name in sorted(names)
        if name.split(".")[0] in beside
    ]
    assert wrong == [], "CI's smoke step copies tests/ and examples/ alone"
