"""`xladev run --processes`: results as in one process, one timeline, exit codes, no orphans."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xladev.profiling.timeline.check import check_trace

pytestmark = pytest.mark.long
_TEXT = """HloModule m, replica_count=2
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  p = f32[4] constant({1, 2, 3, 4})
  ROOT r = f32[4] all-reduce(p), to_apply=add, replica_groups={}
}"""


def run(path, *more):
    command = [sys.executable, "-m", "xladev", "run", str(path), "--platform", "cpu", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "m.hlo"
    path.write_text(_TEXT)
    return path


def test_one_timeline_of_all(program, tmp_path):
    trace = tmp_path / "t.json"
    done = run(program, "--processes", "2", "--trace", str(trace))
    assert done.returncode == 0, done.stderr
    assert "2.0, 4.0, 6.0, 8.0" in done.stdout
    assert sorted(os.listdir(tmp_path)) == ["m.hlo", "t.json"]
    document = json.loads(trace.read_text())
    assert check_trace(document) == []
    assert len(document["otherData"]["processes"]) == 2
    pids = {e["pid"] for e in document["traceEvents"] if e.get("cat") == "collective"}
    assert len(pids) == 2


def test_one_document_of_all(program):
    done = run(program, "--processes", "2", "--json")
    assert json.loads(done.stdout)["problems"] == {}, done.stderr


def test_a_count_that_does_not_divide_the_program(program):
    done = run(program, "--processes", "3")
    assert done.returncode != 0
    assert "cannot run in 3 processes" in done.stderr


def test_none_outlives_the_one_that_started_them(program):
    """It is killed, and cannot end them itself."""
    command = [sys.executable, "-m", "xladev", "run", str(program), "--platform", "cpu"]
    command += ["--processes", "2", "--iterations", "100000000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as parent:
        children = _until(lambda: found if len(found := _children(parent.pid)) == 2 else None)
        parent.kill()
    assert _until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def _children(pid):
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def _until(found):
    deadline = time.monotonic() + 60
    while not (value := found()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert value
    return value
