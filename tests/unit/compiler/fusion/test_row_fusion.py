"""Which reductions of rows become one kernel with what goes on with the rows."""

from __future__ import annotations

import pytest

from xladev.codegen.row_program import row_program
from xladev.compiler.buffers.in_place import in_place_pairs
from xladev.compiler.fusion.row_fusion import RowFusion
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.opdef import Tolerance
from xladev.hlo.opset import OPSET
from xladev.hlo.text import parse_module

HEAD = """HloModule rows
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
"""
SOFTMAX = """ENTRY e { x = f32[6,64] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[6] reduce(x, low), dimensions={1}, to_apply=max
  mb = f32[6,64] broadcast(m), dimensions={0}
  d = f32[6,64] subtract(x, mb)
  e = f32[6,64] exponential(d)
  s = f32[6] reduce(e, zero), dimensions={1}, to_apply=add
  sb = f32[6,64] broadcast(s), dimensions={0}
  ROOT r = f32[6,64] divide(e, sb) }"""


def rows(body: str) -> HloModule:
    return RowFusion().run(parse_module(HEAD + body))


def fusions(module: HloModule) -> list[HloInstruction]:
    return [i for i in module.entry.instructions if i.opcode == "fusion"]


def test_a_softmax_is_one_kernel() -> None:
    (kernel,) = fusions(rows(SOFTMAX))
    program = row_program(kernel["calls"])
    assert program is not None
    assert [len(phase.reductions) for phase in program.phases] == [1, 1]
    assert [[i.opcode for i in phase.stores] for phase in program.phases] == [[], ["exponential"]]
    assert in_place_pairs(kernel["calls"]) == {(0, 0)}


FUNCTIONS = [n for n, op in OPSET.items() if op.elementwise and op.tolerance is Tolerance.FUNCTION]


@pytest.mark.parametrize("opcode", ["remainder", *FUNCTIONS])
def test_functions_are_kept_for_the_next_pass_over_the_row(opcode: str) -> None:
    operands = ", ".join(["d"] * OPSET[opcode].arity_range[0])
    (kernel,) = fusions(rows(SOFTMAX.replace("exponential(d)", f"{opcode}({operands})")))
    program = row_program(kernel["calls"])
    assert program is not None
    kept = [] if opcode in ("sqrt", "rsqrt") else [opcode]
    assert [[i.opcode for i in phase.stores] for phase in program.phases] == [[], kept]


def test_values_that_others_read_are_left_out() -> None:
    body = SOFTMAX.replace("ROOT r", "r") + "x"
    body = body.replace(" }x", "\n  ROOT t = (f32[6,64], f32[6]) tuple(r, m) }")
    (kernel,) = fusions(rows(body))
    assert sum(i.opcode == "reduce" for i in kernel["calls"].instructions) == 1


@pytest.mark.parametrize("row", ["6,8", "6,64000"])
def test_short_and_long_rows_are_left_alone(row: str) -> None:
    assert not fusions(rows(SOFTMAX.replace("6,64", row)))


def test_columns_are_left_alone() -> None:
    body = SOFTMAX.replace("f32[6]", "f32[64]").replace("dimensions={0}", "dimensions={X}")
    body = body.replace("dimensions={1}", "dimensions={0}").replace("{X}", "{1}")
    assert not fusions(rows(body))


def test_a_reduction_without_more_is_left_to_other_fusions() -> None:
    body = """ENTRY e { x = f32[6,64] parameter(0)
  zero = f32[] constant(0)
  y = f32[6,64] multiply(x, x)
  ROOT s = f32[6] reduce(y, zero), dimensions={1}, to_apply=add }"""
    assert not fusions(rows(body))


def test_what_is_read_beside_rows_is_not_overwritten() -> None:
    body = SOFTMAX.replace("x = f32[6,64] parameter(0)", """y = f32[6,6] parameter(0)
  p = f32[6] parameter(1)
  x = f32[6,64] broadcast(p), dimensions={0}""")  # fmt: skip
    (kernel,) = fusions(rows(body))
    assert not in_place_pairs(kernel["calls"])
