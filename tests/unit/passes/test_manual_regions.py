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
