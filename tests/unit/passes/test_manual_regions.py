"""Manual regions mean the same expanded, whatever the mesh and the shardings."""

import numpy as np
import pytest

from tests.unit.passes.checks import assert_unchanged, leaves, opcodes
from xladev.errors import PassError
from xladev.hlo.devices import Topology
from xladev.hlo.multi_device import evaluate, evaluate_replicated
from xladev.hlo.text import parse_module
from xladev.passes.manual_regions import ManualRegionExpander

# name, mesh, manual axes, in sharding, out sharding, whole dims, local dims
REGIONS = [
    ("rows", '"d"=4', '"d"', '{"d"}, {}', '{"d"}, {}', (8, 6), (2, 6)),
    ("columns", '"d"=2', '"d"', '{}, {"d"}', '{}, {"d"}', (8, 6), (8, 3)),
    ("both", '"a"=2, "b"=3', '"a", "b"', '{"b"}, {"a"}', '{"b"}, {"a"}', (6, 4), (2, 2)),
    ("nested", '"a"=2, "b"=3', '"a", "b"', '{"a", "b"}, {}', '{"a", "b"}, {}', (6, 4), (1, 4)),
    ("turned", '"a"=2, "b"=3', '"a", "b"', '{"b", "a"}, {}', '{"b", "a"}, {}', (6, 4), (1, 4)),
    ("some", '"a"=2, "b"=3', '"a", "b"', '{"b"}, {}', '{"b"}, {}', (6, 4), (2, 4)),
    ("none", '"a"=2', '"a"', "{}, {}", "{}, {}", (3, 4), (3, 4)),
    ("ids", '"d"=4], device_ids=[2, 0, 3, 1', '"d"', '{"d"}, {}', '{"d"}, {}', (8, 6), (2, 6)),
]


def region(mesh: str, manual: str, inside: str, outside: str, whole: str, local: str) -> str:
    def quoted(text: str) -> str:
        return text.replace('"', '\\"')

    return f"""
HloModule m, frontend_attributes={{xla.sdy.meshes={{mesh = #sdy.mesh<[{mesh}]>}}}}
body {{
  x = f32[{local}] parameter(0)
  id = u32[] partition-id()
  f = f32[] convert(id)
  b = f32[{local}] broadcast(f), dimensions={{}}
  ROOT y = f32[{local}] add(x, b)
}}
ENTRY main {{
  x = f32[{whole}] parameter(0)
  in = f32[{local}] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape", custom_call_has_side_effect=true, frontend_attributes={{xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{quoted(inside)}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{{{quoted(manual)}}}>"}}
  c = f32[{local}] call(in), to_apply=body
  ROOT out = f32[{whole}] custom-call(c), custom_call_target="xla.sdy.LocalToGlobalShape", custom_call_has_side_effect=true, frontend_attributes={{xla.sdy.manual_axes="#sdy<manual_axes{{{quoted(manual)}}}>",xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{quoted(outside)}]>]>"}}
}}
"""  # noqa: E501


@pytest.mark.parametrize("case", REGIONS, ids=lambda case: case[0])
def test_expanded_regions_mean_the_same(case: tuple) -> None:
    _, mesh, manual, inside, outside, whole, local = case
    sizes = [",".join(map(str, dims)) for dims in (whole, local)]
    module = parse_module(region(mesh, manual, inside, outside, *sizes))
    expanded = ManualRegionExpander().run(module)
    assert "custom-call" not in opcodes(expanded)
    x = np.arange(np.prod(whole), dtype=np.float32).reshape(whole)
    count = expanded.header.num_partitions
    want = evaluate(module, x)
    rows = evaluate_replicated(expanded, [[x]] * count, topology=Topology(1, count))
    for row in rows:
        np.testing.assert_array_equal(leaves(row)[0], want)


# Within a region that is manual along x, one that is manual along y gathers device numbers.
NESTED = r"""
HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=2], device_ids=[2, 0, 3, 1]>}}
inner {
  id = u32[] partition-id()
  f = f32[] convert(id)
  ROOT r = f32[1] reshape(f)
}
outer {
  x = f32[1] parameter(0)
  c = f32[1] call(), to_apply=inner
  all = f32[2] custom-call(c), custom_call_target="xla.sdy.LocalToGlobalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.manual_axes="#sdy<manual_axes{\"y\"}>",xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\"y\"}]>]>"}
  b = f32[2] concatenate(x, x), dimensions={0}
  ROOT s = f32[2] add(all, b)
}
ENTRY main {
  x = f32[2] parameter(0)
  in = f32[1] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\", ?}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\"x\"}>"}
  c = f32[2] call(in), to_apply=outer
  ROOT out = f32[4] custom-call(c), custom_call_target="xla.sdy.LocalToGlobalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.manual_axes="#sdy<manual_axes{\"x\"}>",xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\", ?}]>]>"}
}
"""  # noqa: E501


def test_a_region_within_a_region_gathers_within_its_part() -> None:
    module = parse_module(NESTED)
    x = np.array([10, 20], np.float32)
    want = [2 + 10, 0 + 10, 3 + 20, 1 + 20]
    assert evaluate(module, x).tolist() == want
    expanded = ManualRegionExpander().run(module)
    for row in evaluate_replicated(expanded, [[x]] * 4, topology=Topology(1, 4)):
        assert leaves(row)[0].tolist() == want


def test_a_module_for_other_partitions_is_refused() -> None:
    text = region('"d"=4', '"d"', '{"d"}, {}', '{"d"}, {}', "8,6", "2,6")
    module = parse_module(text.replace("HloModule m,", "HloModule m, num_partitions=3,"))
    with pytest.raises(PassError, match="3 partitions"):
        ManualRegionExpander().run(module)


def test_plain_programs_are_left_alone() -> None:
    assert_unchanged(
        ManualRegionExpander(),
        "HloModule m\nENTRY main { x = f32[4] parameter(0)  ROOT r = f32[4] negate(x) }",
    )
