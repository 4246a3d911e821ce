"""The partitioner: control flow, calls, tuples and borders of single opcodes."""

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import check
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.spmd.program import partition

X = np.arange(32, dtype=np.float32).reshape(8, 4)
W = np.arange(4, dtype=np.float32)
ROWS = "sharding={devices=[4,1]<=[4]}"
COLUMNS = "sharding={devices=[1,4]<=[4]}"
LINE = "sharding={devices=[4]<=[4]}"
KEPT = 'frontend_attributes={inlineable="false"}'
MORE = """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
turn { p = f32[8,4] parameter(0)  ROOT n = f32[8,4] negate(p) }
spread { p = f32[4] parameter(0)  ROOT n = f32[8,4] broadcast(p), dimensions={1} }
body { p = (s32[], (f32[8,4], f32[4])) parameter(0)  i = s32[] get-tuple-element(p), index=0
  t = (f32[8,4], f32[4]) get-tuple-element(p), index=1
  v = f32[8,4] get-tuple-element(t), index=0  w = f32[4] get-tuple-element(t), index=1
  b = f32[8,4] broadcast(w), dimensions={1}  s = f32[8,4] add(v, b)
  one = s32[] constant(1)  j = s32[] add(i, one)  u = (f32[8,4], f32[4]) tuple(s, w)
  ROOT r = (s32[], (f32[8,4], f32[4])) tuple(j, u) }
test { p = (s32[], (f32[8,4], f32[4])) parameter(0)  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)  ROOT c = pred[] compare(i, n), direction=LT }
"""


def program(lines: str) -> HloModule:
    return parse_module(f"HloModule m, num_partitions=4\n{MORE}\nENTRY e {{\n{lines}\n}}")


def opcodes(module: HloModule) -> set[str]:
    return {i.opcode for c in module.computations for i in c.instructions}


def test_loops_over_nested_tuples() -> None:
    """The line is joined in the loop, where the rows need it."""
    module = program(f"""x = f32[8,4] parameter(0), {ROWS}
  w = f32[4] parameter(1), {LINE}
  z = s32[] constant(0)
  t = (f32[8,4], f32[4]) tuple(x, w)
  s = (s32[], (f32[8,4], f32[4])) tuple(z, t)
  l = (s32[], (f32[8,4], f32[4])) while(s), condition=test, body=body
  q = (f32[8,4], f32[4]) get-tuple-element(l), index=1
  ROOT r = f32[8,4] get-tuple-element(q), index=0, {ROWS}""")
    made = check(module, [X, W], 4).module
    (loop,) = (i for i in made.entry.instructions if i.opcode == "while")
    assert loop.shape.tuple_shapes[1].tuple_shapes[0].dims == (2, 4)


def test_branches_of_different_arguments() -> None:
    check(program(f"""x = f32[8,4] parameter(0), {ROWS}
  w = f32[4] parameter(1), {LINE}
  z = f32[] constant(0)
  s = f32[] reduce(x, z), dimensions={{0,1}}, to_apply=add
  c = pred[] compare(s, z), direction=GT
  ROOT r = f32[8,4] conditional(c, x, w), true_computation=turn, false_computation=spread, {ROWS}
"""), [X, W], 4)  # fmt: skip


def test_calls_that_stay() -> None:
    """One computation, called with a value cut by rows and with one cut by columns."""
    module = program(f"""x = f32[8,4] parameter(0), {ROWS}
  y = f32[8,4] parameter(1), {COLUMNS}
  c = f32[8,4] call(x), to_apply=turn, {KEPT}
  d = f32[8,4] call(y), to_apply=turn, {KEPT}
  ROOT r = f32[8,4] add(c, d), {ROWS}""")
    assert "call" in opcodes(check(module, [X, X + 1], 4).module)


def test_parameters_that_are_tuples() -> None:
    module = program("""t = (f32[8,4], f32[4]) parameter(0), sharding={{devices=[4,1]<=[4]}, {replicated}}
  x = f32[8,4] get-tuple-element(t), index=0
  y = f32[4] get-tuple-element(t), index=1
  b = f32[8,4] broadcast(y), dimensions={1}
  a = f32[8,4] add(x, b)
  ROOT r = (f32[4], f32[8,4]) tuple(y, a), sharding={{devices=[4]<=[4]}, {devices=[2,2]<=[4]}}""")  # noqa: E501
    made = partition(module, 4)
    verify(made.module)
    (parameter,) = made.module.entry.parameters
    assert [s.dims for s in parameter.shape.tuple_shapes] == [(2, 4), (4,)]
    assert [s.dims for s in made.module.entry.root.shape.tuple_shapes] == [(1,), (4, 2)]
    assert [c.counts for c in made.parameters] == [(4, 1), (1,)]


@pytest.mark.parametrize("kind", ["u8", "s32", "s64"])
def test_rows_of_a_table_in_parts(kind: str) -> None:
    """An index behind the table is that of its last row, wherever that lies."""
    module = program(f"""x = f32[8,4] parameter(0), {ROWS}
  i = {kind}[3,1] parameter(1)
  ROOT r = f32[3,4] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,4}}""")
    dtype = {"u8": np.uint8, "s32": np.int32, "s64": np.int64}[kind]
    made = check(module, [X, np.array([[120], [3], [7]], dtype)], 4).module
    assert "all-gather" not in opcodes(made)


def test_gradient_of_a_table() -> None:
    """Each device adds up its own updates: the indices are not joined."""
    module = program(f"""x = f32[8,4] parameter(0)
  i = s32[24,1] parameter(1), sharding={{devices=[4,1]<=[4]}}
  u = f32[24,4] parameter(2), {ROWS}
  ROOT r = f32[8,4] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add""")
    rng = np.random.default_rng(0)
    updates = rng.integers(0, 9, (24, 4)).astype(np.float32)
    made = check(module, [X, rng.integers(0, 9, (24, 1)).astype(np.int32), updates], 4).module
    assert "all-reduce" in opcodes(made) and "all-gather" not in opcodes(made)


def test_arrays_without_elements() -> None:
    module = program(f"x = f32[0,4] parameter(0), {ROWS}\nROOT r = f32[0,4] negate(x), {ROWS}")
    check(module, [np.zeros((0, 4), np.float32)], 4)


def test_what_acts_is_called_by_the_first_device_alone() -> None:
    module = program(f"""x = f32[8,4] parameter(0), {ROWS}
  c = f32[] custom-call(x), custom_call_target="act", custom_call_has_side_effect=true
  b = f32[8,4] broadcast(c), dimensions={{}}
  ROOT r = f32[8,4] add(x, b), {ROWS}""")
    made = partition(module, 4).module
    verify(made)
    (branch,) = (i for i in made.entry.instructions if i.opcode == "conditional")
    calls = [[j.opcode for j in c.instructions].count("custom-call") for c in branch.called]
    assert calls == [1, 0]
    assert "collective-broadcast" in opcodes(made)


def test_bitcasts_are_of_the_layout_that_the_program_says() -> None:
    """What is joined has no layout any more."""
    module = program(f"""x = f32[8,4]{{0,1}} parameter(0), {ROWS}
  ROOT r = f32[4,8]{{1,0}} bitcast(x)""")
    check(module, [X], 4)


def test_what_a_value_was_cut_from_is_not_joined_again() -> None:
    """The sort gives everything to each device; its parts are wanted, and then the whole."""
    module = parse_module("""HloModule m, num_partitions=4
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = f32[16] parameter(0), sharding={devices=[4]<=[4]}
  s = f32[16] sort(x), dimensions={0}, to_apply=less, sharding={devices=[4]<=[4]}
  c = f32[16] copy(s), sharding={replicated}
  ROOT r = (f32[16], f32[16]) tuple(s, c), sharding={{devices=[4]<=[4]}, {replicated}}
}""")
    values = np.random.default_rng(1).standard_normal(16).astype(np.float32)
    made = check(module, [values], 4).module.entry
    assert [i.opcode for i in made.instructions].count("all-gather") == 1
