"""The distribution xladev-cuda: a wheel with the platform alone, from the sdist as from here."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "packaging" / "xladev-cuda"
PLATFORM = ROOT / "xladev" / "platforms" / "cuda"


def _wheel(source: Path, folder: Path) -> set[str]:
    """Names in the wheel built from a folder or an sdist."""
    command = [
        sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index",
        "--wheel-dir", str(folder), str(source),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def _sdist(folder: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)],
        cwd=PACKAGE, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = folder.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module", autouse=True)
def _needs_the_repository() -> None:
    if not PACKAGE.is_dir():
        pytest.skip("needs packaging/xladev-cuda")


def test_the_wheel_holds_the_platform_and_its_entry_point(tmp_path: Path) -> None:
    names = _wheel(PACKAGE, tmp_path)
    modules = {name for name in names if name.endswith(".py")}
    source = {p.relative_to(ROOT).as_posix() for p in PLATFORM.rglob("*.py")}
    assert modules == source
    assert any(name.endswith(".dist-info/entry_points.txt") for name in names)
    assert any(name.endswith("/NOTICE") for name in names)


@pytest.mark.long
def test_the_wheel_of_the_sdist_is_the_same(tmp_path: Path) -> None:
    archive = _sdist(tmp_path / "sdist")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "apart", filter="data")
    (unpacked,) = (tmp_path / "apart").iterdir()
    assert _wheel(unpacked, tmp_path / "b") == _wheel(PACKAGE, tmp_path / "a")
