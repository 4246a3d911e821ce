"""Borders of manual regions, by named meshes and by tile assignments."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.errors import EvaluationError
from xladev.hlo.custom_calls.manual import has_manual_region, manual_device_count, module_meshes
from xladev.hlo.devices import MeshAxes
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.multi_device import evaluate
from xladev.hlo.text import parse_module

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def tiled(sharding: str, local: str) -> HloModule:
    """Doubles each device's part of f32[8,4] and adds the device's number."""
    return parse_module(f"""HloModule m
ENTRY e {{
  x = f32[8,4] parameter(0)
  s = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={sharding}
  i = f32[{local}] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={{manual}}
  p = u32[] partition-id()
  f = f32[] convert(p)
  b = f32[{local}] broadcast(f), dimensions={{}}
  y = f32[{local}] add(i, b)
  z = f32[{local}] custom-call(y), custom_call_target="Sharding", sharding={{manual}}
  ROOT r = f32[8,4] custom-call(z), custom_call_target="SPMDShardToFullShape", sharding={sharding}
}}""")


@pytest.mark.parametrize(
    ("sharding", "local", "owners"),
    [
        ("{devices=[4,1]<=[4]}", "2,4", [[0], [1], [2], [3]]),
        ("{devices=[2,2]<=[4]}", "4,2", [[0, 1], [2, 3]]),
        ("{devices=[2,2]<=[2,2]T(1,0)}", "4,2", [[0, 2], [1, 3]]),
        ("{devices=[2,2]3,1,0,2}", "4,2", [[3, 1], [0, 2]]),
        ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "4,4", [[0], [2]]),
    ],
)
def test_tile_assignments(sharding: str, local: str, owners: list[list[int]]) -> None:
    module = tiled(sharding, local)
    assert has_manual_region(module) and manual_device_count(module) == 4
    rows, columns = (int(n) for n in local.split(","))
    want = X + np.kron(np.array(owners), np.ones((rows, columns)))
    np.testing.assert_array_equal(evaluate(module, X), want)


def named(inside: str, local: str, axes: str = '\\"a\\",\\"b\\"') -> HloModule:
    """The identity through a manual region over a mesh a=4, b=2."""
    return parse_module(f"""HloModule m, frontend_attributes={{xla.sdy.meshes={{mesh = #sdy.mesh<["a"=4, "b"=2]>}}}}
ENTRY e {{
  x = f32[8,4] parameter(0)
  i = f32[{local}] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape", frontend_attributes={{xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{inside}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{{{axes}}}>"}}
  ROOT r = f32[8,4] custom-call(i), custom_call_target="xla.sdy.LocalToGlobalShape", frontend_attributes={{xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{inside}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{{{axes}}}>"}}
}}""")  # noqa: E501


@pytest.mark.parametrize(
    ("inside", "local"),
    [
        ('{\\"a\\"}, {\\"b\\"}', "2,2"),
        ('{\\"b\\", \\"a\\"}, {}', "1,4"),
        ('{\\"a\\":(1)2}, {}', "4,4"),
        ('{\\"a\\":(2)2}, {\\"a\\":(1)2}', "4,2"),
        ("{}, {}", "8,4"),
    ],
)
def test_named_meshes(inside: str, local: str) -> None:
    module = named(inside, local)
    assert module_meshes(module) == {"mesh": MeshAxes((("a", 4), ("b", 2)))}
    np.testing.assert_array_equal(evaluate(module, X), X)


def test_axes_that_are_not_manual_do_not_cut() -> None:
    module = named('{\\"a\\"}, {\\"b\\"}', "2,4", '\\"a\\"')
    np.testing.assert_array_equal(evaluate(module, X), X)


def test_one_device_is_not_a_mesh() -> None:
    with pytest.raises(EvaluationError, match="4 devices hold parts"):
        HloEvaluator().run(tiled("{devices=[4,1]<=[4]}", "2,4"), X)


def test_a_mesh_that_is_not_there() -> None:
    module = named('{\\"a\\"}, {}', "2,4")
    with pytest.raises(EvaluationError, match="no mesh 'mesh'"):
        HloEvaluator().run(module, X)


def test_coordinates_follow_the_listed_devices() -> None:
    mesh = MeshAxes((("a", 2), ("b", 2)), (2, 0, 3, 1))
    assert mesh.size == 4
    assert [mesh.coordinates(i) for i in (2, 0, 3, 1)] == [
        {"b": b, "a": a} for a in range(2) for b in range(2)
    ]


def test_plain_modules_have_no_manual_region() -> None:
    module = parse_module("HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }")
    assert not has_manual_region(module) and manual_device_count(module) == 1
