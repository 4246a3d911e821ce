"""The distribution xladev-tensorflow: its wheel, and what it shares with xladev and xladev-pjrt."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.tools.pjrt_table import slots
from tests.tools.tensorflow_child import PACKAGE, library
from xladev.frontends.tensorflow import diagnosis, environment


def _build(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index",
        "--wheel-dir", str(folder), str(PACKAGE),
    ]  # fmt: skip
    return subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, timeout=300
    )


def _source(name: str) -> str:
    if not PACKAGE.is_dir():
        pytest.skip("needs packaging/xladev-tensorflow")
    return (PACKAGE / "src" / name).read_text("utf-8")


@pytest.mark.long
def test_wheel_lies_where_tensorflow_looks(tmp_path: Path) -> None:
    library()
    done = _build(tmp_path)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert "-py3-none-linux_" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert diagnosis.PLUGIN in names
    assert any(name.endswith("/NOTICE") for name in names)


def test_without_compiler_it_says_so(tmp_path: Path) -> None:
    if not PACKAGE.is_dir():
        pytest.skip("needs packaging/xladev-tensorflow")
    done = _build(tmp_path, CC="no-such-compiler")
    assert done.returncode != 0
    assert "no C compiler 'no-such-compiler'" in done.stdout + done.stderr


def test_slots_are_those_of_the_pjrt_library() -> None:
    told = dict(re.findall(r"\bSLOT_(\w+) = (\d+)", _source("pjrt.h")))
    names = [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper() for name in slots()]
    assert len(told) == 15
    assert {name: int(number) for name, number in told.items()} == {
        name: names.index(name) for name in told
    }


def test_c_and_python_read_the_same_variables() -> None:
    variables = set(re.findall(r'"(XLADEV_TF_\w+)"', _source("options.c")))
    told = {environment.DEVICE, environment.PLATFORM, environment.COUNT, environment.DEFAULT}
    told.add(environment.REPLAY)
    assert variables == told


def test_c_and_python_name_the_same_releases() -> None:
    first, last = re.search(
        r"FIRST_MINOR = (\d+), LAST_MINOR = (\d+)", _source("symbols.c")
    ).groups()  # type: ignore[union-attr]
    assert (int(first), int(last)) == (diagnosis.FIRST_MINOR, diagnosis.LAST_MINOR)
    assert diagnosis.SUPPORTED in _source("symbols.c")
