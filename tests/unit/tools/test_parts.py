"""Ten commits run every rotating test once, and the other tests always run."""

import argparse
from pathlib import Path

import pytest

from tests.tools import parts

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
CONFTEST = """
from tests.tools import parts

def pytest_addoption(parser):
    parts.add_options(parser)

def pytest_collection_modifyitems(config, items):
    parts.deselect(config, items)
"""
TESTS = """
import pytest

@pytest.mark.rotating
@pytest.mark.parametrize("i", range(40))
def test_many(i): pass

def test_always(): pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite of 40 rotating tests and one plain test."""
    pytester.makeini("[pytest]\nmarkers = rotating: one of many")
    pytester.syspathinsert(ROOT)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    return pytester


def names(suite: pytest.Pytester, *arguments: str) -> list[str]:
    done = suite.runpytest_inprocess("-q", "--collect-only", "-p", "no:cacheprovider", *arguments)
    return [line.partition("::")[2] for line in done.outlines if "::" in line]


def test_the_parts_cover_everything_once(suite: pytest.Pytester) -> None:
    many = [n for part in range(parts.PARTS) for n in names(suite, f"--part={part}")]
    assert many.count("test_always") == parts.PARTS
    rotating = sorted(n for n in many if n != "test_always")
    assert rotating == sorted(f"test_many[{i}]" for i in range(40))


def test_several_parts_are_run_together(suite: pytest.Pytester) -> None:
    apart = [n for part in "37" for n in names(suite, f"--part={part}", "--only-rotating")]
    assert sorted(names(suite, "--part=3,7", "--only-rotating")) == sorted(apart)
    for wrong in ("10", "3,all", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="is none of auto"):
            parts.part_option(wrong)


def test_only_rotating_leaves_the_rest_out(suite: pytest.Pytester) -> None:
    assert "test_always" not in names(suite, "--part=all", "--only-rotating")
    assert len(names(suite, "--part=all", "--only-rotating")) == 40
    assert names(suite, "--part=none") == ["test_always"]


def test_consecutive_commits_take_consecutive_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for count in range(123, 133):
        monkeypatch.setattr(parts, "commits", lambda count=count: count)
        seen.add(parts.chosen("auto"))
    assert seen == {str(part) for part in range(parts.PARTS)}
    assert parts.chosen("7") == "7"
