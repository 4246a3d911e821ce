"""A compiler that makes no programs is told from one that does, and says why."""

import shutil
from pathlib import Path

import pytest

from tests.tools.compilers import lacks

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not here")


def test_a_command_that_is_not_there() -> None:
    assert lacks("no-such-gcc") == "no-such-gcc is not here"


@needs_gcc
def test_one_that_works() -> None:
    assert lacks("gcc") == ""


@needs_gcc
@pytest.mark.parametrize(
    ("flag", "why"), [("-lno_such_library", "no_such_library"), ("-nostdinc", "stdint.h")]
)
def test_one_without_its_libraries_or_headers(flag: str, why: str) -> None:
    found = lacks("gcc", flag)
    assert found.startswith(f"gcc {flag} makes no programs: ") and why in found


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lacks("gcc", "-O0")
    assert list(tmp_path.iterdir()) == []
