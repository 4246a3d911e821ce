"""`xladev explain` on collectives: devices, axes, bytes, links, times."""

import json

import pytest

from xladev.cli.main import main
from xladev.profiling.mesh.round_times import RoundTimes, TransportTimes

_MESHES = r'frontend_attributes={xla.sdy.meshes="{mesh = #sdy.mesh<[\"x\"=4, \"y\"=2]>}"}'
_TEXT = """HloModule m, num_partitions=8{more}
ENTRY e {{
  x = f32[64,32] parameter(0), sharding={{devices=[4,2]<=[8]}}
  w = f32[32,16] parameter(1), sharding={{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}}
  ROOT p = f32[64,16] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}},
    sharding={{devices=[4,1,2]<=[8] last_tile_dim_replicate}}
}}"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "m.hlo"
    path.write_text(_TEXT.format(more=f", {_MESHES}"))
    return str(path)


def test_by_the_mesh_of_the_program(program, capsys):
    assert main(["explain", program, "--link", "1GB/s,1us"]) == 0
    shown = capsys.readouterr().out
    assert 'among devices along "y": {0,1} {2,3} {4,5} {6,7}' in shown
    assert "each sends at most 1,024 bytes over links (8 along dimension 1): 2.02 us" in shown


def test_over_measured_rounds(program, tmp_path, capsys):
    times = TransportTimes("sockets", 2, (RoundTimes(8, (1,), (1.0,), (1.0,)),))
    path = tmp_path / "rounds.json"
    path.write_text(times.to_json())
    given = ["explain", program, "--rounds", str(path), "--json"]
    for per_host, where in (("4", "within a machine"), ("1", "between machines")):
        assert main([*given, "--per-host", per_host]) == 0
        (row,) = json.loads(capsys.readouterr().out)["collectives"]
        assert row["over"] == f"sockets, {where}"
        assert row["device_nbytes"] == 1024
        assert row["seconds"] == pytest.approx(1.0, abs=1e-3)


def test_without_a_named_mesh(tmp_path, capsys):
    path = tmp_path / "m.hlo"
    path.write_text(_TEXT.format(more=""))
    assert main(["explain", str(path)]) == 0
    assert "among devices {0,1} {2,3} {4,5} {6,7}" in capsys.readouterr().out
    assert main(["explain", str(path), "--mesh", "4x2"]) == 0
    assert 'along "1": {0,1} {2,3} {4,5} {6,7}' in capsys.readouterr().out


def test_of_one_device(tmp_path, capsys):
    path = tmp_path / "m.hlo"
    path.write_text("ENTRY e { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }")
    assert main(["explain", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["collectives"] == []
