"""The distribution xladev-pjrt: one wheel for every Python, and what is said without a compiler."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.tools.jax_child import PACKAGE, library


def _build(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index",
        "--wheel-dir", str(folder), str(PACKAGE),
    ]  # fmt: skip
    return subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, timeout=300
    )


@pytest.mark.long
def test_wheel_serves_every_python(tmp_path: Path) -> None:
    library()
    done = _build(tmp_path)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert "-py3-none-linux_" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert "xladev_pjrt/libxladev_pjrt.so" in names
    assert any(name.endswith("/NOTICE") for name in names)


def test_without_compiler_it_says_so(tmp_path: Path) -> None:
    if not PACKAGE.is_dir():
        pytest.skip("needs packaging/xladev-pjrt")
    done = _build(tmp_path, CC="no-such-compiler")
    assert done.returncode != 0
    assert "no C compiler 'no-such-compiler'" in done.stdout + done.stderr
