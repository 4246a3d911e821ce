"""Floating-point work: products count two, elements one, integers and moves none."""

import pytest

from xladev.hlo.opdef import Cost
from xladev.hlo.text import parse_module
from xladev.hlo.work import floating_point_work, total_cost

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
