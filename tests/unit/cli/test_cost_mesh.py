"""`xladev cost --mesh`."""

import json
import subprocess
import sys

import pytest

from xladev.cli.main import main
from xladev.profiling.mesh.round_times import RoundTimes, TransportTimes

_TEXT = """HloModule m, replica_count=4
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  p = f32[1000] parameter(0)
  q = f32[1000] negate(p)
  ROOT r = f32[1000] all-reduce(q), to_apply=add, replica_groups={}
}"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "m.hlo"
    path.write_text(_TEXT)
    return str(path)


def test_as_json(program, capsys):
    assert main(["cost", program, "--mesh", "2x2", "--link", "1GB/s,1us", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["mesh"] == [2, 2]
    assert report["collectives"][0]["bytes"] == 4 * 3 * 4000
    assert report["exchange_s"] == pytest.approx(2e-6 + 8000 / 1e9)
    assert report["step_s"] is None


def test_as_text(program, capsys):
    assert main(["cost", program, "--mesh", "16x16", "--platform", "interpreter"]) == 0
    shown = capsys.readouterr().out
    assert "m on 16x16 (torus): exchange" in shown
    assert "memory of a device: at most" in shown


def test_no_mesh(program, capsys):
    assert main(["cost", program, "--mesh", "big"]) != 0
    assert "'big' is no mesh" in capsys.readouterr().err


def test_with_rounds_that_were_measured(program, tmp_path, capsys):
    times = TransportTimes("sockets", 2, (RoundTimes(4, (4000,), (1.0,), (0.5,)),))
    path = tmp_path / "rounds.json"
    path.write_text(times.to_json())
    given = ["cost", program, "--mesh", "4", "--rounds", str(path), "--per-host", "4"]
    assert main([*given, "--platform", "cpu", "--measure", "--per-host", "1", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone["exchange_s"] == pytest.approx(1.0 + 2 * 0.5, abs=1e-3)
    assert alone["step_s"] == alone["compute_s"] + alone["exchange_s"]
    assert alone["compute_s"] > 0
    assert main(given) == 0
    assert "exchange 2,000,000.00 us" in capsys.readouterr().out


@pytest.mark.parametrize("told", [False, True], ids=["alone", "in step"])
def test_a_step_is_measured_by_as_many_as_share_a_machine(program, tmp_path, told):
    given = ["cost", program, "--mesh", "4", "--platform", "cpu", "--measure", "--per-host", "2"]
    if told:
        times = TransportTimes("sockets", 2, (RoundTimes(2, (8,), (1e-9,), (0.0,)),))
        path = tmp_path / "rounds.json"
        path.write_text(times.to_json())
        given += ["--rounds", str(path)]
    command = [sys.executable, "-m", "xladev", *given, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    report = json.loads(done.stdout)
    assert report["compute_s"] > 0


def test_what_is_measured_needs_a_platform(program, capsys):
    assert main(["cost", program, "--mesh", "4", "--measure"]) != 0
    assert "a step is measured on a platform" in capsys.readouterr().err
