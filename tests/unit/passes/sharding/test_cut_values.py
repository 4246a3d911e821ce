"""Programs in which a value is cut need the partitioner; manual regions and whole values do not."""

import pytest

import xladev
from tests.unit.passes.spmd.manual_programs import shard_map
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.passes.sharding.cut_values import is_sharded, partition_count

MESHES = 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=2, "one"=1]>, alone = #sdy.mesh<[], device_ids=[1]>}}'  # noqa: E501


def program(parameter: str = "", value: str = "", root: str = "") -> HloModule:
    """Doubles f32[4,4] with annotations behind its three instructions."""
    return parse_module(f"""HloModule m, {MESHES}
ENTRY e {{
  p = f32[4,4] parameter(0){parameter}
  v = f32[4,4] custom-call(p), custom_call_target="Sharding"{value}
  ROOT r = f32[4,4] add(v, v){root}
}}""")


def sdy(text: str) -> str:
    quoted = text.replace('"', '\\"')
    return f', frontend_attributes={{xla.sdy.sharding="#sdy.sharding<{quoted}>"}}'


CUT = (
    ", sharding={devices=[2,2]<=[4]}",
    ", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}",
    ", sharding={devices=[1,2,2,1]<=[4] last_tile_dims={manual, replicated}}",
    ", sharding={devices=[1,1,4]<=[4] last_tile_dims={unreduced}}",
    ", sharding={maximal device=1}",
    ", sharding={mesh['x'=2,'y'=2], [{'x'}, {}]}",
    sdy('@mesh, [{"x"}, {}]'),
    sdy('@mesh, [{}, {"one", "y", ?}]'),
    sdy('@mesh, [{}, {}], unreduced={"x"}'),
    sdy("@alone, []"),
    sdy('mesh<["x"=4]>, [{"x"}, {}]'),
)
WHOLE = (
    "",
    ", sharding={replicated}",
    ", sharding={manual}",
    ", sharding={devices=[1,1,4]<=[4] last_tile_dim_replicate}",
    ", sharding={mesh['x'=2,'y'=2], [{}, {}]}",
    ", sharding={devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}",
    sdy("@mesh, [{}, {}]"),
    sdy("@mesh, [{?}, {?}]"),
    sdy('@mesh, [{"one"}, {}], replicated={"x"}'),
)


@pytest.mark.parametrize("place", ["parameter", "value", "root"])
@pytest.mark.parametrize("note", CUT)
def test_what_is_cut(note: str, place: str) -> None:
    module = program(**{place: note})
    assert is_sharded(module, 4)
    assert not is_sharded(module, 1), "one partition holds everything"


@pytest.mark.parametrize("note", WHOLE)
def test_what_is_whole(note: str) -> None:
    assert not is_sharded(program(note, note, note), 4)


def test_borders_say_themselves_what_is_cut() -> None:
    assert not is_sharded(parse_module(shard_map()), 4)
    tiled = "{devices=[4,1]<=[4]}"
    text = f"""HloModule m
ENTRY e {{
  x = f32[8,4] parameter(0)
  s = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={tiled}
  i = f32[2,4] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={{manual}}
  y = f32[2,4] negate(i), sharding={{manual}}
  r = f32[8,4] custom-call(y), custom_call_target="SPMDShardToFullShape", sharding={tiled}
  ROOT n = f32[8,4] negate(r)
}}"""
    module = parse_module(text)
    assert partition_count(module, 1) == 4
    assert not is_sharded(module, 4)
    assert is_sharded(parse_module(text.replace("negate(r)", "add(r, s)")), 4)


def test_compile_partitions() -> None:
    module = program(", sharding={devices=[2,2]<=[4]}")
    compiled = xladev.compile(module, "interpreter", CompileOptions(num_partitions=4))
    assert compiled.program.signature.parameter_leaves[0].dims == (2, 2)
    whole = xladev.compile(program(), "interpreter", CompileOptions(num_partitions=2))
    assert whole.program.signature.num_partitions == 2
