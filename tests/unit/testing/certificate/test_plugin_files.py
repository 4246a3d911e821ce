"""Which files a plugin consists of, and that their hash changes with any of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from xladev.testing.certificate.plugin_files import PluginFiles, plugin_files


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages with the plugin some_npu: a package, a library, and a RECORD."""
    package = tmp_path / "some_npu"
    package.mkdir()
    (package / "plugin.py").write_text("raise RuntimeError('imported')")
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "libnpu.so").write_bytes(b"driver")
    info = tmp_path / "some_npu-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-npu\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[xladev.platforms]\nsome_npu = some_npu.plugin\n")
    record(tmp_path, "some_npu/__init__.py", "some_npu/plugin.py", "some_npu/libnpu.so")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def record(site: Path, *names: str) -> None:
    """What the installer says that it wrote."""
    more = (
        "../../bin/npu-top", "some_npu/__pycache__/plugin.cpython-311.pyc",
        "some_npu-1.0.dist-info/METADATA", "some_npu-1.0.dist-info/RECORD",
    )  # fmt: skip
    lines = [f"{name},," for name in (*names, *more)]
    (site / "some_npu-1.0.dist-info" / "RECORD").write_text("\n".join(lines))


@pytest.mark.parametrize("installed", ["wheel", "working tree"])
def test_every_byte_and_name_of_the_plugin_counts(site: Path, installed: str) -> None:
    if installed == "working tree":
        record(site, "__editable__.some_npu.pth")
    before = plugin_files("some_npu")
    kind = "distribution some-npu" if installed == "wheel" else "package some_npu"
    assert before.of == f"3 files of the {kind}"
    assert len(before.sha256) == 64
    (site / "some_npu" / "libnpu.so").write_bytes(b"broken")
    broken = plugin_files("some_npu")
    assert (broken.of, broken.sha256 == before.sha256) == (before.of, False)
    (site / "some_npu" / "libnpu.so").write_bytes(b"driver")
    assert plugin_files("some_npu") == before
    (site / "some_npu" / "libnpu.so").unlink()
    assert plugin_files("some_npu").sha256 not in (before.sha256, broken.sha256)


def test_what_python_and_installers_write_does_not(site: Path) -> None:
    record(site, "__editable__.some_npu.pth")
    before = plugin_files("some_npu")
    (site / "some_npu" / "__pycache__").mkdir()
    (site / "some_npu" / "__pycache__" / "plugin.cpython-311.pyc").write_bytes(b"code")
    (site / "some_npu-1.0.dist-info" / "INSTALLER").write_text("pip")
    assert plugin_files("some_npu") == before


def test_a_plugin_of_one_module(site: Path) -> None:
    (site / "one_npu.py").write_text("")
    entry = "[xladev.platforms]\none_npu = one_npu\n"
    (site / "some_npu-1.0.dist-info" / "entry_points.txt").write_text(entry)
    record(site)
    assert plugin_files("one_npu").of == "1 file of the package one_npu"


def test_a_plugin_that_is_not_installed_has_no_files() -> None:
    assert plugin_files("nowhere") == PluginFiles()
