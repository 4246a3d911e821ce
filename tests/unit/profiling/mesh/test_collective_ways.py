"""What collectives go over: axes, links by dimension, machines; bytes and times of a step."""

import pytest

import xladev
from xladev.hlo.devices import MeshAxes
from xladev.profiling.mesh.collective_ways import collective_ways
from xladev.profiling.mesh.network import FULL, Hosts, LinkRates, Network
from xladev.profiling.mesh.round_times import RoundTimes, TransportTimes

_MESH = MeshAxes((("x", 2), ("y", 2)))
_TIMES = TransportTimes("sockets", 2, (RoundTimes(4, (8,), (1.0,), (1.0,)),))


def _way(body, network, meshes=(_MESH,), header="replica_count=4"):
    text = f"""HloModule m, {header}
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}
ENTRY e {{
  p = f32[2] parameter(0)
  ROOT r = f32[2] {body}
}}"""
    (way,) = collective_ways(xladev.load(text.encode()), network, meshes)
    return way


def _reduced(groups):
    return f"all-reduce(p), to_apply=add, replica_groups={groups}"


@pytest.mark.parametrize(
    ("groups", "axes", "links"),
    [
        ("{{0,1},{2,3}}", ("y",), (("1", 4),)),
        ("{{0,2},{1,3}}", ("x",), (("0", 4),)),
        ("{{1,0,3,2}}", ("x", "y"), (("0", 4), ("1", 4))),
        ("{{0,3},{1,2}}", (), (("0", 4), ("1", 4))),
        ("{{0},{1},{2},{3}}", (), ()),
    ],
)
def test_axes_and_links(groups, axes, links):
    way = _way(_reduced(groups), Network((2, 2), LinkRates(8.0, 1.0)))
    assert (way.axes, way.links) == (axes, links)
    assert way.device_nbytes == (24 if len(way.groups) == 1 else 8 if links else 0)


def test_a_mesh_in_another_order():
    mesh = MeshAxes(_MESH.axes, (0, 3, 1, 2))
    network = Network((4,), LinkRates(8.0, 1.0), FULL)
    assert _way(_reduced("{{0,3},{1,2}}"), network, (mesh,)).axes == ("y",)
    assert _way(_reduced("{{0,3},{1,2}}"), network, (_MESH, mesh)).axes == ("y",)
    assert _way(_reduced("{}"), network, (MeshAxes((("z", 8),)),)).axes == ()


def test_machines():
    body = "collective-permute(p), source_target_pairs={{0,1},{1,0}}"
    for per_host, crosses in ((1, True), (2, False)):
        hosts = Hosts(_TIMES, per_host)
        way = _way(body, Network((4,), LinkRates(8.0, 0.5), FULL, hosts))
        assert way.crosses_machines is crosses
        assert way.seconds == 1.0 + (1.5 if crosses else 0.0)


def test_dimensions_of_links():
    network = Network((2, 3), LinkRates(1.0, 0.0), FULL)
    assert [network.dimension((0, b)) for b in (1, 2, 3, 4)] == ["1", "1", "0", ""]
