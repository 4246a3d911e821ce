"""`xladev new` writes a whole project, or nothing."""

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.tools.layering import PLATFORM_MAY
from xladev.cli.main import main

TRACE = re.compile(r"template|example vendor|\bNpu[A-Z]", re.IGNORECASE)


@pytest.fixture
def minimal(tmp_path: Path) -> Path:
    """A minimal project called my_npu."""
    into = ["--into", str(tmp_path / "a" / "project")]
    assert main(["new", "my_npu", "--minimal", "--vendor", "Some Vendor", *into]) == 0
    return tmp_path / "a" / "project"


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A project of the whole template, called acme."""
    assert main(["new", "acme", "--kind", "gpu", "--into", str(tmp_path / "full")]) == 0
    return tmp_path / "full"


def files(project: Path) -> dict[str, str]:
    found = sorted(p for p in project.rglob("*") if p.is_file())
    return {p.relative_to(project).as_posix(): p.read_text("utf-8") for p in found}


def test_minimal_project_has_these_files(minimal: Path) -> None:
    assert list(files(minimal)) == [
        ".github/workflows/ci.yml",
        ".gitignore",
        "README.md",
        "examples/dense.hlo",
        "pyproject.toml",
        "tests/test_my_npu.py",
        "xladev_my_npu/__init__.py",
        "xladev_my_npu/plugin.py",
    ]


@pytest.mark.parametrize("form", ["minimal", "full"])
def test_nothing_is_called_after_the_template(form: str, request: pytest.FixtureRequest) -> None:
    found = files(request.getfixturevalue(form))
    lines = [(path, line) for path, text in found.items() for line in (path, *text.splitlines())]
    assert [hit for hit in lines if TRACE.search(hit[1])] == []


def test_the_whole_template_is_there(full: Path) -> None:
    package = {p for p in files(full) if p.startswith("xladev_acme/")}
    names = {"plugin", "platform", "executor", "compiler", "emitter", "stream"}
    assert {f"xladev_acme/{name}.py" for name in names} <= package
    assert all(ast.parse(text) for path, text in files(full).items() if path.endswith(".py"))


@pytest.mark.parametrize("form", ["minimal", "full"])
def test_style_is_clean(form: str, request: pytest.FixtureRequest) -> None:
    checked(request.getfixturevalue(form), "ruff", "check", ".")


@pytest.mark.rotating
def test_types_are_clean(full: Path) -> None:
    checked(full, "mypy", "--no-error-summary")


def checked(project: Path, tool: str, *arguments: str) -> None:
    """Runs a tool in a project; skips where it is not installed."""
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed here")
    done = subprocess.run(
        [sys.executable, "-m", tool, *arguments],
        cwd=project, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_project_table(minimal: Path) -> None:
    table = tomllib.loads(files(minimal)["pyproject.toml"])["project"]
    assert table["name"] == "xladev-my-npu"
    assert table["authors"] == [{"name": "Some Vendor"}]
    assert table["entry-points"]["xladev.platforms"] == {"my_npu": "xladev_my_npu.plugin"}


def test_plugin_of_tier_1_has_seven_functions_in_forty_lines(minimal: Path) -> None:
    source = files(minimal)["xladev_my_npu/plugin.py"]
    tree = ast.parse(source)
    assert sum(isinstance(node, ast.FunctionDef) for node in ast.walk(tree)) == 7
    assert sum(bool(line.strip()) for line in source.splitlines()) <= 40
    modules = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    assert {m.split(".")[1] for m in modules if m.startswith("xladev.")} <= set(PLATFORM_MAY)


def test_the_files_and_the_next_commands_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "my_npu", "--minimal"]) == 0
    assert (tmp_path / "my_npu" / "pyproject.toml").is_file()
    shown = capsys.readouterr().out.splitlines()
    assert "  xladev_my_npu/plugin.py" in shown
    assert shown[shown.index("next:") + 1 :] == [
        "  cd my_npu && pip install -e '.[test]'",
        "  pytest",
        "  xladev run examples/dense.hlo --platform my_npu --stats",
    ]


def test_nothing_is_written_over(minimal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(minimal)
    assert main(["new", "other", "--minimal", "--into", str(minimal)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert files(minimal) == before
    file = minimal / "README.md"
    assert main(["new", "other", "--minimal", "--into", str(file)]) == 2
    assert "is a file" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_an_error(
    minimal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "other", "--minimal", "--into", str(minimal / "README.md" / "x")]) == 2
    assert "cannot make the folder" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["my-npu", "cpu", "interpreter"])
def test_a_bad_name_writes_nothing(name: str, tmp_path: Path) -> None:
    assert main(["new", name, "--minimal", "--into", str(tmp_path / name)]) == 2
    assert list(tmp_path.iterdir()) == []
