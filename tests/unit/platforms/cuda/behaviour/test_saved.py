"""Programs for the emulated GPU are saved and loaded like those of every other platform."""

from pathlib import Path

import numpy as np
import pytest

import xladev
from xladev.errors import FormatError

TEXT = """
ENTRY e {
  x = f32[4,8] parameter(0)
  y = f32[4,8] exponential(x)
  z = f32[8,4] transpose(y), dimensions={1,0}
  ROOT t = (f32[4,8], f32[8,4]) tuple(y, z)
}
"""


def test_saved_programs_run_and_damage_is_found(emulated: str, tmp_path: Path) -> None:
    compiled = xladev.compile(xladev.parse(TEXT), emulated)
    path = tmp_path / "program.xladev"
    compiled.save(path)
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    for got, want in zip(xladev.load_executable(path)(x), compiled(x), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError):
        xladev.load_executable(path)
