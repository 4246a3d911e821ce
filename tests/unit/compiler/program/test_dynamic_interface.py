"""Dynamic programs run natively in their static form, and look dynamic from outside."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.client import compile
from xladev.compiler.options import CompileOptions
from xladev.compiler.program.program_file import program_from_bytes, program_to_bytes
from xladev.hlo.text import parse_module

TEXT = """
HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[<=8] parameter(0)  w = f32[3] parameter(1)
  n = f32[<=8] negate(x)  z = f32[] constant(0)
  s = f32[] reduce(x, z), dimensions={0}, to_apply=add
  c = f32[<=11] concatenate(x, w), dimensions={0}
  k = s32[] get-dimension-size(c), dimensions={0}
  ROOT r = (f32[<=8], (f32[], f32[<=11]), s32[]) tuple(n, t, k)
  t = (f32[], f32[<=11]) tuple(s, c) }
"""


@pytest.mark.parametrize("size", [0, 1, 5, 8])
def test_live_parts_go_in_and_come_out(size: int) -> None:
    program = compile(parse_module(TEXT), "cpu", CompileOptions(strict=True, verify_passes=True))
    x, w = np.arange(size, dtype=np.float32), np.ones(3, np.float32)
    negated, (total, joined), count = program(x, w)  # type: ignore[misc]
    np.testing.assert_array_equal(negated.numpy(), -x)
    np.testing.assert_array_equal(joined.numpy(), [*x, *w])
    assert total.numpy() == x.sum()
    assert count.numpy() == size + 3


def test_the_signature_is_dynamic_and_survives_a_file() -> None:
    program = compile(parse_module(TEXT), "cpu").program
    again = program_from_bytes(program_to_bytes(program))
    for each in (program, again):
        assert [str(s.without_layout()) for s in each.signature.parameters] == [
            "f32[<=8]", "f32[3]",
        ]  # fmt: skip
        assert len(each.signature.argument_shapes) == 3
        assert str(each.signature.result.without_layout()) == (
            "(f32[<=8], (f32[], f32[<=11]), s32[])"
        )
