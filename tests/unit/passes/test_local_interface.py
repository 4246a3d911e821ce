"""Programs that take and give the parts of arrays mean the same as those of whole arrays."""

from collections.abc import Sequence

import numpy as np
import pytest

from xladev.hlo.devices import Topology
from xladev.hlo.ir import HloModule
from xladev.hlo.multi_device import evaluate_replicated
from xladev.hlo.placement import Placement
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.local_interface import localize
from xladev.passes.manual_regions import ManualRegionExpander

X = np.arange(32, dtype=np.float32).reshape(8, 4)
ROWS = '{"x"}, {}'
BOTH = '{"x"}, {"y"}'


def sdy(dims: str) -> str:
    """The frontend attribute of a sharding over the mesh."""
    return f'frontend_attributes={{xla.sdy.sharding="#sdy.sharding<@mesh, [{quoted(dims)}]>"}}'


def quoted(text: str) -> str:
    return text.replace('"', '\\"')


def border(side: str, dims: Sequence[str]) -> str:
    text = ", ".join(f"<@mesh, [{quoted(d)}]>" for d in dims)
    axes = quoted('#sdy<manual_axes{"x", "y"}>')
    return (
        f'custom_call_has_side_effect=true, frontend_attributes={{xla.sdy.{side}_shardings="#sdy.'
        f'sharding_per_value<[{text}]>",xla.sdy.manual_axes="{axes}"}}'
    )


def shard_map(
    parameter: str = "",
    result: str = "",
    root: str = "get-tuple-element(t), index=0",
    more: str = "",
    header: str = "",
) -> str:
    """Adds each device's number to its part of f32[8,4], cut over a mesh of 2 by 2."""
    noted = (
        f'f32[8,4] custom-call(out), custom_call_target="xla.sdy.FuncResultSharding", '
        f"custom_call_has_side_effect=true, {result}"
        if result
        else "f32[8,4] copy(out)"
    )
    value = "noted" if result else "out"
    return f"""HloModule m, frontend_attributes={{xla.sdy.meshes={{mesh = #sdy.mesh<["x"=2, "y"=2]>}}}}{header}
body {{
  part = f32[4,2] parameter(0)
  number = u32[] partition-id()
  real = f32[] convert(number)
  everywhere = f32[4,2] broadcast(real), dimensions={{}}
  ROOT sum = f32[4,2] add(part, everywhere)
}}
ENTRY e {{
  p = f32[8,4] parameter(0){parameter}
  in = f32[4,2] custom-call(p), custom_call_target="xla.sdy.GlobalToLocalShape", {border("in", [BOTH])}
  c = f32[4,2] call(in), to_apply=body
  out = f32[8,4] custom-call(c), custom_call_target="xla.sdy.LocalToGlobalShape", {border("out", [BOTH])}
  noted = {noted}
  {more}
  t = (f32[8,4]) tuple({value})
  ROOT r = f32[8,4] {root}
}}"""  # noqa: E501


def cut(whole: np.ndarray, placement: Placement) -> list[np.ndarray]:
    """The part of each partition."""
    sizes = [n // count for n, count in zip(whole.shape, placement.counts, strict=True)]
    return [
        whole[tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, sizes, strict=True))]
        for at in placement.parts
    ]


def check_the_same(text: str, parameter: tuple[int, ...], result: tuple[int, ...]) -> HloModule:
    """Both modules give the same; counts of parts are as told. The module of parts."""
    module = parse_module(text)
    local = localize(module, 4)
    verify(local.module)
    assert (local.parameters[0].counts, local.results[0].counts) == (parameter, result)
    want = evaluate_replicated(module, [[X]] * 4, topology=Topology(1, 4))[0]
    for given in (local.module, ManualRegionExpander().run(local.module)):
        rows = [[part] for part in cut(X, local.parameters[0])]
        got = evaluate_replicated(given, rows, topology=Topology(1, 4))
        for one, expected in zip(got, cut(np.asarray(want), local.results[0]), strict=True):
            np.testing.assert_array_equal(np.asarray(one), expected)
    assert localize(local.module, 4).module == local.module
    return local.module


GIVEN = ", " + sdy(BOTH)
FREE = ", allow_spmd_sharding_propagation_to_parameters={true}, allow_spmd_sharding_propagation_to_output={true}"  # noqa: E501


@pytest.mark.parametrize(
    ("options", "parameter", "result"),
    [
        ({}, (1, 1), (1, 1)),
        ({"parameter": GIVEN}, (2, 2), (1, 1)),
        ({"parameter": GIVEN, "result": sdy(BOTH)}, (2, 2), (2, 2)),
        ({"result": sdy(BOTH)}, (1, 1), (2, 2)),
        ({"result": sdy("{}, {}"), "header": FREE}, (2, 2), (1, 1)),
        ({"header": FREE}, (2, 2), (2, 2)),
        ({"parameter": ", " + sdy("{}, {}"), "header": FREE}, (1, 1), (2, 2)),
        ({"more": "q = f32[8,4] negate(p)", "header": FREE}, (1, 1), (2, 2)),
        ({"root": "add(out, p)", "header": FREE}, (1, 1), (1, 1)),
    ],
    ids=str,
)
def test_parts_in_and_out(
    options: dict[str, str], parameter: tuple[int, ...], result: tuple[int, ...]
) -> None:
    check_the_same(shard_map(**options), parameter, result)


def test_nothing_of_the_borders_is_left() -> None:
    module = check_the_same(shard_map(header=FREE), (2, 2), (2, 2))
    assert "custom-call" not in {i.opcode for c in module.computations for i in c.instructions}
    assert module.entry.parameters[0].shape.dims == module.entry.root.shape.dims == (4, 2)
    assert module.header.num_partitions == 4


def test_a_parameter_cut_otherwise_stays() -> None:
    """It is for the check of shardings to refuse it."""
    module = parse_module(shard_map(parameter=", " + sdy(ROWS)))
    local = localize(module, 4)
    assert local.module == module
    assert local.parameters[0].counts == (2, 1)


def test_one_of_several_enters_as_it_is() -> None:
    text = f"""HloModule m, frontend_attributes={{xla.sdy.meshes={{mesh = #sdy.mesh<["x"=2, "y"=2]>}}}}, input_output_alias={{ {{0}}: (0, {{}}, may-alias), {{1}}: (1, {{}}, may-alias) }}
ENTRY e {{
  a = f32[8,4] parameter(0), sharding={{devices=[2,2]<=[4]}}
  b = f32[8,4] parameter(1)
  in = (f32[4,2], f32[4,4]) custom-call(a, b), custom_call_target="xla.sdy.GlobalToLocalShape", {border("in", [BOTH, ROWS])}
  i = f32[4,2] get-tuple-element(in), index=0
  j = f32[4,4] get-tuple-element(in), index=1
  out = (f32[8,4], f32[8,4]) custom-call(i, j), custom_call_target="xla.sdy.LocalToGlobalShape", {border("out", [BOTH, ROWS])}
  x = f32[8,4] get-tuple-element(out), index=0
  y = f32[8,4] get-tuple-element(out), index=1
  s = f32[8,4] custom-call(y), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true, {sdy(ROWS)}
  ROOT r = (f32[8,4], f32[8,4], f32[8,4]) tuple(x, s, a)
}}"""  # noqa: E501
    local = localize(parse_module(text), 4)
    verify(local.module)
    assert [p.counts for p in local.parameters] == [(2, 2), (1, 1)]
    assert [r.counts for r in local.results] == [(1, 1), (2, 1), (2, 2)]
    assert not local.module.header.aliases
    rows = [[part, X + 100] for part in cut(X, local.parameters[0])]
    got = evaluate_replicated(local.module, rows, topology=Topology(1, 4))
    for partition, (x, y, a) in enumerate(got):
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(y, cut(X + 100, local.results[1])[partition])
        np.testing.assert_array_equal(a, rows[partition][0])


def test_shardings_are_told_as_tiles() -> None:
    local = localize(parse_module(shard_map(parameter=", " + sdy(ROWS))), 4)
    told = local.parameters[0].sharding
    assert (told.tile_dims, told.devices) == ((2, 1, 2), (0, 1, 2, 3))
    assert told.last_tile_dims == ("replicated",)
    assert local.results[0].sharding.kind == "replicated"
