"""Where the library is looked for, and what is said where it is missing."""

from pathlib import Path

import pytest

from tests.tools import jax_child
from xladev.errors import PluginError
from xladev.frontends.jax import library
from xladev.frontends.jax.platform_names import jax_name, jax_platform_names


def test_variable_names_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(library.VARIABLE, str(tmp_path / "mine.so"))
    with pytest.raises(PluginError, match="there is no library") as raised:
        library.library_path()
    assert raised.value.where == library.VARIABLE
    (tmp_path / "mine.so").write_bytes(b"no library")
    assert library.library_path() == tmp_path / "mine.so"
    with pytest.raises(PluginError, match="cannot be loaded"):
        library.load.__wrapped__()


def test_library_of_another_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.VARIABLE, str(jax_child.library()))
    library.load.__wrapped__()
    monkeypatch.setattr(library, "INTERFACE", 1000)
    with pytest.raises(PluginError, match="speaks interface"):
        library.load.__wrapped__()


def test_missing_package_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(library.VARIABLE, raising=False)
    monkeypatch.setitem(__import__("sys").modules, "xladev_pjrt", None)
    with pytest.raises(PluginError, match="not installed") as raised:
        library.library_path()
    assert "C compiler" in (raised.value.hint or "")


def test_names_in_jax() -> None:
    assert jax_name("cpu") == "xladev_cpu"
    assert jax_name("template_npu") == "template_npu"
    assert jax_name("xladev") == "xladev_xladev"
    names = jax_platform_names()
    assert names["xladev"] is None and names["xladev_cpu"] == "cpu"
