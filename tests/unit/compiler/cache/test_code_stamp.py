"""Edited code is told from what it was; installed code goes by its own file alone."""

import importlib
import os
import sys
from pathlib import Path

import pytest

from xladev.compiler.cache import code_stamp as module
from xladev.compiler.cache.code_stamp import code_stamp


def stamps_around_an_edit(
    folder: Path, edited: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """Stamps of stampedpkg.inner.code before and after a file of the package has changed."""
    inner = folder / "stampedpkg" / "inner"
    inner.mkdir(parents=True)
    for path in (inner.parent / "__init__.py", inner / "__init__.py", inner / "code.py"):
        path.write_text("")
        os.utime(path, (1, 1))
    monkeypatch.syspath_prepend(str(folder))
    importlib.import_module("stampedpkg.inner.code")
    try:
        before = code_stamp("stampedpkg.inner.code")
        os.utime(inner.parent / edited, (2, 2))
        for cached in (module._stamp, module._folder_stamp):
            cached.cache_clear()
        return before, code_stamp("stampedpkg.inner.code")
    finally:
        for name in [n for n in sys.modules if n.startswith("stampedpkg")]:
            del sys.modules[name]


@pytest.mark.parametrize("edited", ["__init__.py", "inner/code.py"])
def test_any_file_of_the_package_counts(
    tmp_path: Path, edited: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = stamps_around_an_edit(tmp_path, edited, monkeypatch)
    assert before and after and before != after


def test_of_an_installed_package_only_the_file_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = stamps_around_an_edit(tmp_path / "site-packages", "__init__.py", monkeypatch)
    assert before and before == after


def test_of_an_installed_package_the_file_itself_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = stamps_around_an_edit(tmp_path / "site-packages", "inner/code.py", monkeypatch)
    assert before and after and before != after


def test_a_module_without_a_file_has_none() -> None:
    assert code_stamp("sys") == code_stamp("not.there") == ""
