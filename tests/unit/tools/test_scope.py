"""`make test` leaves out what is long, keeps some of every area, and says what should be marked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools import scope

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
CONFTEST = """
from tests.tools import scope

pytest_addoption = scope.add_options
pytest_report_header = scope.describe
pytest_collection_modifyitems = scope.deselect

def pytest_configure(config):
    config.pluginmanager.register(scope.Clock(config.option.skipped))
"""
TESTS = """
import os, time
import pytest

@pytest.mark.long
def test_long(): pass

@pytest.mark.serial
def test_serial(): pass

def run_jax(code): pass

def test_jax(): run_jax("")

def test_short(): pass

def test_busy():
    end = time.process_time() + 0.05
    while time.process_time() < end: pass
    print(os.getpid())
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\nmarkers =\n  long: of processor time\n  serial: alone")
    pytester.syspathinsert(ROOT)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    return pytester


def test_quick_and_rest_are_everything(suite: pytest.Pytester) -> None:
    found = {
        name: {
            line.partition("::")[2]
            for line in suite.runpytest_inprocess(
                "-q", "--collect-only", f"--scope={name}"
            ).outlines
            if "::" in line
        }
        for name in scope.SCOPES
    }
    assert found["quick"] == {"test_short", "test_busy"}
    assert found["rest"] == {"test_long", "test_serial", "test_jax"}
    assert found["all"] == found["quick"] | found["rest"]


def test_a_run_names_what_should_be_marked(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope, "LONG_S", 0.04)
    shown = suite.runpytest_inprocess("--scope=quick").stdout
    shown.fnmatch_lines(["this is `make test`*", "left out*", "make test: 2 tests*`make rest`*"])
    shown.fnmatch_lines(
        ["*to be marked long: test_a_run_names_what_should_be_marked.py::test_busy"]
    )
    shown.no_fnmatch_line("*to be marked long: *::test_short")


def test_what_was_skipped_runs_with_the_rest(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        test_one="import pytest\n@pytest.mark.parametrize('i', range(2))\n"
        "def test_some(i):\n    if i: pytest.skip('no jax')",
        test_all="import pytest\npytest.skip('no jax', allow_module_level=True)",
    )
    assert suite.runpytest_inprocess("--scope=quick", "--skipped=list").ret == 0
    skipped = (suite.path / "list").read_text().splitlines()
    assert skipped == ["test_all.py", "test_one.py::test_some[1]"]
    (suite.path / "test_all.py").write_text("def test_now(): pass")
    shown = suite.runpytest_inprocess("--scope=rest", "--skipped=list", "-v").outlines
    ran = {line.partition(" ")[0] for line in shown if "::" in line and "%" in line}
    here = "test_what_was_skipped_runs_with_the_rest.py"
    assert ran == {
        "test_all.py::test_now", "test_one.py::test_some[1]", f"{here}::test_long",
        f"{here}::test_serial", f"{here}::test_jax",
    }  # fmt: skip


PAGE = """# Testing

| what | held against | in |
|---|---|---|
| a | `b` | `tests/unit/hlo/text/`, `.../proto/` |
| c | d | `tests/acceptance/test_x.py`, `test_y.py` |

## More

| e | f | `tests/nowhere/` |
"""


def test_areas_are_the_paths_of_the_table() -> None:
    assert scope.areas(PAGE) == [
        "tests/unit/hlo/text/", "tests/unit/hlo/proto/", "tests/acceptance/test_x.py",
        "tests/acceptance/test_y.py",
    ]  # fmt: skip


FILES = frozenset(
    {"tests/unit/hlo/text/test_a.py", "tests/unit/hlo/proto/test_b.py", "tests/unit/cli/test_c.py",
     "tests/acceptance/test_x.py", "tests/fuzz/test_d.py"}
)  # fmt: skip


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        ("tests/unit/hlo/proto/test_b.py", ["tests/unit/hlo/proto/"]),
        ("tests/acceptance/test_x.py", ["tests/acceptance/", "tests/acceptance/test_x.py"]),
        ("tests/unit/cli/test_c.py", ["tests/unit/cli/"]),
        ("tests/fuzz/test_d.py", ["tests/fuzz/"]),
    ],
)
def test_areas_that_keep_no_test_are_missing(lost: str, named: list[str]) -> None:
    assert scope.missing(PAGE, FILES, FILES) == []
    assert scope.missing(PAGE, FILES, FILES - {lost}) == named


def test_every_area_keeps_tests(pytestconfig: pytest.Config) -> None:
    """In a run of all files, which the tests that were collected for it show."""
    assert pytestconfig.stash.get(scope.MISSING, []) == []


def test_the_page_names_areas() -> None:
    """The check would hold of a table that it cannot read."""
    found = scope.areas(scope.AREAS.read_text("utf-8"))
    assert len(found) > 20 and all((ROOT / path).exists() for path in found)
