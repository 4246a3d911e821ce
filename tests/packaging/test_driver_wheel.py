"""The guide's project of a package that holds a driver builds a wheel for the machines it names."""

import subprocess
import sys
from pathlib import Path

from tests.tools.code_blocks import blocks

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "publish-and-certify.md"


def test_wheel_of_the_guide_names_its_machines(tmp_path: Path) -> None:
    for block in blocks(PAGE.read_text("utf-8")):
        if block.note[0] == "file":
            (tmp_path / block.note[1]).write_text(block.text)
    package = tmp_path / "xladev_my_npu"
    package.mkdir()
    (package / "plugin.py").write_text("")
    (package / "libnpu.so").write_bytes(b"\x7fELF")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name == "xladev_my_npu-0.1.0-py3-none-manylinux_2_28_x86_64.whl"
