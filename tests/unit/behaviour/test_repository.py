"""What is committed: no machine's paths, no registry's hosts, no large files."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.syntax import parse

ROOT = Path(__file__).parents[3]
MAX_LINES = 600
MAX_FUNCTION_LINES = 60
MAX_BYTES = 2_000_000

# Spelled in pieces, so that this file does not contain what it forbids.
FOLDERS = "|".join(("root", "work", "farm", "home/[a-z]+", "tmp/[a-z]"))
MACHINE_PATH = re.compile(rf"(^|[^A-Za-z0-9_.])/(?:{FOLDERS})/")
REGISTRIES = re.compile(
    "|".join(re.escape(".".join(parts)) for parts in (
        ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("debian", "org"),
    ))
)  # fmt: skip


def tracked() -> list[Path]:
    """The files git knows, or a skip outside a checkout."""
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git checkout here: nothing says which files are committed")
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def texts() -> list[tuple[Path, str]]:
    files = ((path, path.read_bytes()) for path in tracked())
    return [(path, data.decode("utf-8", "replace")) for path, data in files if b"\0" not in data]


def hits(pattern: re.Pattern[str], files: list[tuple[Path, str]]) -> list[str]:
    """`path:line text` of every line in which the pattern occurs."""
    return [
        f"{path.relative_to(ROOT)}:{number} {line.strip()[:100]}"
        for path, text in files
        for number, line in enumerate(text.split("\n"), 1)
        if pattern.search(line)
    ]


def test_no_absolute_machine_paths() -> None:
    assert hits(MACHINE_PATH, texts()) == []


def test_no_registry_hosts() -> None:
    assert hits(REGISTRIES, texts()) == []


@pytest.mark.parametrize("folder", ["root", "work", "home/someone", "tmp/w"])
def test_a_planted_machine_path_is_found(folder: str) -> None:
    planted = [(ROOT / "x.py", f'ok = 1\npath = "/{folder}/data"\n')]
    assert hits(MACHINE_PATH, planted) == [f'x.py:2 path = "/{folder}/data"']


def test_paths_that_are_no_machine_path_pass() -> None:
    fine = "https://host/work/x a/root/b ./home/someone/ /work-group/ /usr/bin/env /tmp/{name}"
    assert hits(MACHINE_PATH, [(ROOT / "x.py", fine)]) == []


def test_no_python_file_is_too_long() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path, text in texts()
        if path.suffix == ".py" and (lines := text.count("\n")) > MAX_LINES
    }
    assert long == {}


def long_functions(name: str, text: str) -> list[str]:
    """`file:line function: lines` of every function that is too long."""
    nodes = ast.walk(parse(text))
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    sizes = [(f, (f.end_lineno or f.lineno) - f.lineno + 1) for f in functions]
    return [f"{name}:{f.lineno} {f.name}: {n}" for f, n in sizes if n > MAX_FUNCTION_LINES]


def test_no_function_is_too_long() -> None:
    sources = [(str(p.relative_to(ROOT)), text) for p, text in texts() if p.suffix == ".py"]
    assert [found for name, text in sources for found in long_functions(name, text)] == []


def test_a_planted_long_function_is_found() -> None:
    body = "    x = 1\n" * MAX_FUNCTION_LINES
    assert long_functions("x.py", f"def f():\n{body}") == ["x.py:1 f: 61"]
    assert long_functions("x.py", f"def f():\n{body}".removesuffix("    x = 1\n")) == []


def test_no_large_files() -> None:
    large = {str(p.relative_to(ROOT)): p.stat().st_size for p in tracked()}
    assert {name: size for name, size in large.items() if size > MAX_BYTES} == {}


def test_vendors_can_collect_the_suite_without_what_the_other_tests_need() -> None:
    seen = "import sys, tests.conftest; print('hypothesis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", seen], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
