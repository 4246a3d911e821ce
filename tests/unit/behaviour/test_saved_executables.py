"""A compiled program is saved, and runs in another process without being compiled again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xladev
from xladev.compiler.cache.whole_file import write_whole
from xladev.errors import DeviceError, FileError, FormatError

TEXT = """HloModule scale
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[4,8] parameter(0)
  y = f32[4,8] sort(x), dimensions={1}, to_apply=less
  z = f32[] constant(0)
  s = f32[4] reduce(y, z), dimensions={1}, to_apply=add
  ROOT t = (f32[4,8], f32[4]) tuple(y, s)
}
""".replace(
    "ENTRY",
    """less { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT l = pred[] compare(p, q), direction=LT }
ENTRY""",
)
X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
CHILD = """
import sys, numpy as np, xladev
from xladev.passes import pipeline
def refuse(*_): raise AssertionError("compiled")
pipeline.HloPassPipeline.run_instrumented = refuse
made = xladev.load_executable(sys.argv[1])
np.savez(sys.argv[3], *[np.asarray(r) for r in made(np.load(sys.argv[2]))])
print(made)
"""


@pytest.mark.long
@pytest.mark.parametrize("platform", ["cpu", "interpreter", "template_npu"])
def test_runs_in_another_process_with_the_same_bits(platform: str, tmp_path: Path) -> None:
    compiled = xladev.compile(xladev.parse(TEXT), platform)
    compiled.save(tmp_path / "scale.xladev")
    np.save(tmp_path / "x.npy", X)
    names = [str(tmp_path / n) for n in ("scale.xladev", "x.npy", "r.npz")]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *names], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"<compiled scale on {platform}:0>\n"
    with np.load(tmp_path / "r.npz") as found:
        for name, want in zip(found, compiled(X), strict=True):
            np.testing.assert_array_equal(found[name], np.asarray(want))


def test_damage_other_platforms_and_no_file_are_clear_errors(tmp_path: Path) -> None:
    path = tmp_path / "scale.xladev"
    xladev.compile(xladev.parse(TEXT), "cpu").save(path)
    with pytest.raises(FormatError, match="another platform|made for|compiled for"):
        xladev.load_executable(path, "interpreter")
    with pytest.raises(DeviceError):
        xladev.load_executable(path, "no_such_platform")
    data = path.read_bytes()
    path.write_bytes(data[:-3])
    with pytest.raises(FormatError) as caught:
        xladev.load_executable(path)
    assert str(path) in str(caught.value)
    with pytest.raises(FileError, match="cannot read"):
        xladev.load_executable(tmp_path / "none")


def test_files_are_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_whole(path, b"first")
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FileError, match="cannot write"):
        write_whole(path, b"second")
    assert path.read_bytes() == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    with pytest.raises(FileError, match="cannot write"):
        write_whole(tmp_path / "no" / "folder", b"")
    write_whole(Path("/dev/null"), b"gone")
    assert not Path("/dev/null").is_file()
