"""Partitioned programs: their interface, aliases, what is refused, and what the pass changes."""

import numpy as np
import pytest

from tests.unit.passes.spmd.manual_programs import BOTH, ROWS, border, sdy, shard_map
from tests.unit.passes.spmd.sharded_programs import check
from xladev.errors import UnsupportedError
from xladev.hlo.ir import HloModule
from xladev.hlo.multi_device import evaluate
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.spmd.program import PartitionedProgram, partition
from xladev.passes.spmd.spmd_partitioner import SpmdPartitioner

X = np.arange(32, dtype=np.float32).reshape(8, 4)
GIVEN = ", " + sdy(BOTH)
FREE = ", allow_spmd_sharding_propagation_to_parameters={true}, allow_spmd_sharding_propagation_to_output={true}"  # noqa: E501


def run(program: PartitionedProgram, *arguments: np.ndarray) -> list[np.ndarray]:
    """Whole results, in order."""
    from tests.unit.passes.spmd import sharded_programs as programs
    from xladev.hlo.shape import flattened_shapes

    found = programs.run(program, arguments)
    local = flattened_shapes(program.module.entry.root.shape)
    pairs = zip(local, program.results, strict=True)
    wholes = [
        tuple(n * c for n, c in zip(shape.dims, cut.counts, strict=True)) for shape, cut in pairs
    ]
    return [
        cut.join([row[k] for row in found], dims)
        for k, (cut, dims) in enumerate(zip(program.results, wholes, strict=True))
    ]


def opcodes(module: HloModule) -> set[str]:
    return {i.opcode for c in module.computations for i in c.instructions}


@pytest.mark.parametrize(
    ("options", "parameter", "result"),
    [
        ({"parameter": GIVEN, "result": sdy(BOTH)}, (2, 2), (2, 2)),
        ({"parameter": GIVEN}, (2, 2), (1, 1)),
        ({"parameter": ", " + sdy(ROWS), "result": sdy(BOTH)}, (2, 1), (2, 2)),
        ({"result": sdy(BOTH)}, (1, 1), (2, 2)),
        ({"parameter": GIVEN, "root": "add(out, p)"}, (2, 2), (1, 1)),
    ],
    ids=str,
)
def test_manual_regions(
    options: dict[str, str], parameter: tuple[int, ...], result: tuple[int, ...]
) -> None:
    module = parse_module(shard_map(**options))
    program = partition(module, 4, poison=True)
    verify(program.module)
    assert (program.parameters[0].counts, program.results[0].counts) == (parameter, result)
    assert program.module.header.num_partitions == 4
    np.testing.assert_array_equal(run(program, X)[0], np.asarray(evaluate(module, X)))


def test_borders_cost_nothing() -> None:
    module = parse_module(shard_map(parameter=GIVEN, result=sdy(BOTH)))
    made = partition(module, 4).module
    assert not opcodes(made) & {"custom-call", "all-gather", "dynamic-slice"}
    assert made.entry.parameters[0].shape.dims == made.entry.root.shape.dims == (4, 2)


def test_several_values_at_a_border_and_aliases() -> None:
    text = f"""HloModule m, frontend_attributes={{xla.sdy.meshes={{mesh = #sdy.mesh<["x"=2, "y"=2]>}}}}, input_output_alias={{ {{0}}: (0, {{}}, may-alias), {{1}}: (1, {{}}, may-alias), {{2}}: (0, {{}}, may-alias) }}
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
  z = f32[8,4] custom-call(a), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true, {sdy(BOTH)}
  ROOT r = (f32[8,4], f32[8,4], f32[8,4]) tuple(x, s, z)
}}"""  # noqa: E501
    text = text.replace(", {2}: (0, {}, may-alias)", "")
    program = partition(parse_module(text), 4)
    verify(program.module)
    assert [p.counts for p in program.parameters] == [(2, 2), (1, 1)]
    assert [r.counts for r in program.results] == [(1, 1), (2, 1), (2, 2)]
    assert not program.module.header.aliases
    x, y, z = run(program, X, X + 100)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, X + 100)
    np.testing.assert_array_equal(z, X)
    kept = partition(parse_module(text.replace("{0}: (0", "{2}: (0")), 4).module.header.aliases
    assert [(a.output_index, a.parameter) for a in kept] == [((2,), 0)]


SUM = """HloModule m, num_partitions=4, entry_computation_layout={(f32[5,6]{0,1})->f32[6]{0}}
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[5,6] parameter(0), sharding={devices=[4,1]<=[4]}
  z = f32[] constant(3)
  ROOT r = f32[6] reduce(x, z), dimensions={0}, to_apply=add, sharding={devices=[2,2]<=[4] last_tile_dim_replicate}
}"""  # noqa: E501


def test_uneven_parts() -> None:
    """Five rows on four devices: the last one has padding only."""
    program = check(parse_module(SUM), [np.arange(30, dtype=np.float32).reshape(5, 6)], 4)
    made = program.module
    assert made.entry_layout.parameters[0].dims == (2, 6)
    assert made.entry_layout.parameters[0].minor_to_major == (0, 1)
    assert made.entry_layout.result.dims == (3,)
    assert "reduce-scatter" in opcodes(made), "each device keeps the half that is wanted"


def test_the_pass_leaves_whole_programs_alone() -> None:
    whole = parse_module(SUM.replace("sharding={devices=[4,1]<=[4]}", "sharding={replicated}")
                         .replace("sharding={devices=[2,2]<=[4] last_tile_dim_replicate}",
                                  "sharding={replicated}"))  # fmt: skip
    assert SpmdPartitioner().run(whole) is whole
    cut = parse_module(SUM)
    assert SpmdPartitioner().run(cut) == partition(cut, 4).module
    alone = parse_module(SUM.replace("num_partitions=4", "num_partitions=1"))
    assert SpmdPartitioner().run(alone) is alone
    assert SpmdPartitioner(num_partitions=4).run(alone) == partition(cut, 4).module


def refused(text: str) -> UnsupportedError:
    with pytest.raises(UnsupportedError, match="cannot be partitioned over 4 devices") as error:
        partition(parse_module(text), 4)
    assert error.value.code == "SHARDING"
    return error.value


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("{devices=[4,1]<=[4]}", "{maximal device=1}", "one device alone"),
        ("{devices=[4,1]<=[4]}", "{devices=[2,1]<=[2]}", "not for 4 devices"),
        ("z = f32[] constant(3)", "p = u32[] partition-id()  z = f32[] convert(p)", "which device"),
        ("z = f32[] constant(3)", "y = f32[] constant(3)  z = f32[] all-reduce(y), channel_id=1, "
         "replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add", "which device"),
        ("z = f32[] constant(3)", "t = token[] after-all()  i = (f32[], token[]) infeed(t)  "
         "z = f32[] get-tuple-element(i), index=0", "which device the transfer is for"),
    ],
)  # fmt: skip
def test_what_is_refused(old: str, new: str, why: str) -> None:
    assert why in (refused(SUM.replace(old, new)).why or "")


def test_what_lies_on_one_device_within_is_computed_everywhere() -> None:
    text = SUM.replace("constant(3)", "constant(3), sharding={maximal device=2}")
    check(parse_module(text), [np.ones((5, 6), np.float32)], 4)
