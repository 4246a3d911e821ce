"""Floating-point work: products count two, elements one, integers and moves none."""

import pytest

from xladev.hlo.opdef import Cost
from xladev.hlo.ops import moved
from xladev.hlo.opset import OPSET
from xladev.hlo.text import parse_module
from xladev.hlo.work import floating_point_work, own_cost, total_cost

BODY = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
body { p = f32[8] parameter(0)  ROOT n = f32[8] sine(p) }
cond { p = f32[8] parameter(0)  ROOT t = pred[] constant(true) }
ENTRY e {
  x = f32[8] parameter(0)  w = f32[8,4] parameter(1)  n = s32[8] parameter(2)
  z = f32[] constant(0)
  ROOT r = LINE
}
"""


@pytest.mark.parametrize(
    ("line", "work"),
    [
        ("f32[8] add(x, x)", 8),
        ("f32[8] tanh(x)", 8),
        ("pred[8] compare(x, x), direction=LT", 8),
        ("s32[8] add(n, n)", 0),
        ("f32[4] dot(x, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}", 64),
        ("f32[] reduce(x, z), dimensions={0}, to_apply=add", 8),
        ("f32[4,8] transpose(w), dimensions={1,0}", 0),
        ("f32[8] while(x), condition=cond, body=body", 8),
        ("f32[8] call(x), to_apply=body", 8),
        ("(f32[8], f32[8]) tuple(x, x)", 0),
    ],
)
def test_work_of_an_instruction(line: str, work: int) -> None:
    module = parse_module(BODY.replace("LINE", line))
    assert floating_point_work(module.entry.instructions) == work


def test_the_cost_of_all_tells_functions_and_bytes_apart() -> None:
    module = parse_module(BODY.replace("LINE", "f32[8] while(x), condition=cond, body=body"))
    assert total_cost(module.entry.instructions) == Cost(0, 8, 64)
    twice = parse_module(BODY.replace("LINE", "f32[8] add(x, x)"))
    assert total_cost(twice.entry.instructions) == Cost(8, 0, 64)


MOVES = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[8] parameter(0)  w = f32[8,4] parameter(1)  n = s32[] parameter(2)
  u = f32[2] parameter(3)  i = s32[3,1] parameter(4)  v = f32[3] parameter(5)
  f = f32[] parameter(6)
  ROOT r = LINE
}
"""


@pytest.mark.parametrize(
    ("line", "nbytes"),
    [
        ("f32[8] add(x, x)", 64),
        ("f32[8,4] broadcast(x), dimensions={0}", 160),
        ("f32[2] slice(x), slice={[3:5]}", 16),
        ("f32[2] dynamic-slice(x, n), dynamic_slice_sizes={2}", 20),
        ("f32[8] dynamic-update-slice(x, u, n)", 20),
        ("f32[3] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
         "index_vector_dim=1, slice_sizes={1}", 36),
        ("f32[8] scatter(x, i, v), update_window_dims={}, inserted_window_dims={0}, "
         "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add", 48),
        ("f32[32] reshape(w)", 0),
        ("f32[32] bitcast(w)", 0),
        ("f32[] call(f, f), to_apply=add", 0),
        ("(f32[8], f32[2]) tuple(x, u)", 0),
    ],
)  # fmt: skip
def test_bytes_that_an_instruction_moves(line: str, nbytes: int) -> None:
    module = parse_module(MOVES.replace("LINE", line))
    assert own_cost(module.entry.root).bytes_accessed == nbytes


def test_what_moves_nothing_is_named_or_runs_a_program() -> None:
    still = {name for name, op in OPSET.items() if op.moved is moved.nothing}
    assert still == {
        "add-dependency", "after-all", "async-start", "bitcast", "call", "conditional", "constant",
        "domain", "fusion", "get-tuple-element", "opt-barrier", "parameter", "partition-id",
        "replica-id", "tuple", "while",
    }  # fmt: skip
