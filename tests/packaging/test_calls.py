"""The distribution xladev-calls: one wheel for all Pythons, and what is said without a compiler."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.tools.calls_extension import PACKAGE, is_possible
from xladev.platforms.cpu.native_fast_call import INTERFACE

needs_compiler = pytest.mark.skipif(not is_possible(), reason="needs sources and a C compiler")


def _build(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index",
        "--wheel-dir", str(folder), str(PACKAGE),
    ]  # fmt: skip
    return subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, timeout=300
    )


@needs_compiler
@pytest.mark.long
def test_wheel_serves_every_python(tmp_path: Path) -> None:
    done = _build(tmp_path)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert "-cp311-abi3-linux_" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert {"xladev_calls/__init__.py", "xladev_calls/_native.abi3.so"} <= set(names)
    assert any(name.endswith("/NOTICE") for name in names)


@needs_compiler
def test_the_compiler_does_not_warn(tmp_path: Path) -> None:
    build = [sys.executable, str(PACKAGE / "hatch_build.py"), str(tmp_path)]
    done = subprocess.run(build, capture_output=True, text=True, check=True)
    assert not done.stderr


@needs_compiler
def test_without_compiler_it_says_so(tmp_path: Path) -> None:
    done = _build(tmp_path, CC="no-such-compiler")
    assert done.returncode != 0
    assert "no C compiler 'no-such-compiler'" in done.stdout + done.stderr


@needs_compiler
def test_both_sides_name_one_interface() -> None:
    text = (PACKAGE / "src/calls.h").read_text()
    assert re.search(r"#define INTERFACE (\d+)", text)[1] == str(INTERFACE)  # type: ignore[index]
