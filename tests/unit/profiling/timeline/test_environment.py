"""`XLADEV_TRACE`: of a process, of those that it forks and starts, and of commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xladev.profiling.timeline.check import check_trace
from xladev.profiling.timeline.file import read_trace

WORK = """
import multiprocessing, os, subprocess, sys
import numpy as np
TEXT = b"HloModule m\\nENTRY e { x = f32[4] parameter(0)\\n ROOT y = f32[4] add(x, x) }"
def work(count):
    import xladev
    program = xladev.compile(TEXT, "cpu")
    for _ in range(count):
        program(np.ones(4, "f"))
"""
FORK = """
work(1)
if not os.fork():
    work(2)
    sys.exit()
os.wait()
"""
START = """
if __name__ == "__main__":
    work(1)
    if len(sys.argv) < 2:
        subprocess.run([sys.executable, __file__, "child"], check=True)
"""
MULTIPROCESSING = """
if __name__ == "__main__":
    work(1)
    for kind in ("fork", "spawn"):
        child = multiprocessing.get_context(kind).Process(target=work, args=(2,))
        child.start()
        child.join()
"""


def run(text: str, folder: Path, target: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(WORK + text)
    environment = os.environ | {"XLADEV_TRACE": str(target)}
    environment.pop("XLADEV_TRACE_OWNER", None)
    return subprocess.run(
        [sys.executable, str(script)], env=environment, check=True, timeout=120,
        capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "files"),
    [("work(3)", 1), (FORK, 2), (START, 2), (MULTIPROCESSING, 3)],
    ids=["alone", "fork", "start", "multiprocessing"],
)
def test_each_process_has_a_file(text: str, files: int, tmp_path: Path) -> None:
    target = tmp_path / "t.json"
    run(text, tmp_path, target)
    found = sorted(tmp_path.glob("t*.json"))
    assert len(found) == files
    assert target in found
    for path in found:
        document = read_trace(path)
        assert check_trace(document) == []
        assert any(e.get("cat") == "kernel" for e in document["traceEvents"])


def test_a_variable_that_cannot_be_honoured_is_told_and_the_work_done(tmp_path: Path) -> None:
    done = run("work(1); print('done')", tmp_path, tmp_path / "none" / "t.json")
    assert done.stdout == "done\n"
    assert "XLADEV_TRACE is not honoured" in done.stderr


def test_a_process_may_change_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    run("import xladev; os.chdir('other')" + FORK, tmp_path, Path("t.json"))
    assert len(list(tmp_path.glob("t*.json"))) == 2
    assert not list((tmp_path / "other").iterdir())


def test_a_name_that_no_file_can_have_is_said(tmp_path: Path) -> None:
    done = run("work(1)", tmp_path, tmp_path / ("t" * 300))
    assert "XLADEV_TRACE is not honoured" in done.stderr
