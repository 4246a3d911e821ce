"""`xladev cost --mesh`."""

import json

import pytest

from xladev.cli.main import main

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
