"""Opcodes on narrow types through wider ones give the same values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.passes.checks import opcodes, run
from tests.unit.passes.expansions.single import assert_exact
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.expanders import EXPANDERS
from xladev.passes.expansions.widening import expand_wider
from xladev.passes.float_normalization import FloatNormalization
from xladev.passes.sub_byte_normalization import SubByteNormalization

EXACT = {
    "add": 2, "subtract": 2, "multiply": 2, "maximum": 2, "minimum": 2, "negate": 1, "abs": 1,
    "sign": 1, "clamp": 3,
}  # fmt: skip


@pytest.mark.parametrize("opcode", EXACT)
@pytest.mark.parametrize("t", ["bf16", "f16", "f8e4m3fn", "f8e5m2", "s4", "u4", "s2"])
def test_arithmetic(t: str, opcode: str, seed: int) -> None:
    if t == "u4" and opcode in ("abs", "sign"):
        return
    operands = ", ".join(f"{t}[40] x{i}" for i in range(EXACT[opcode]))
    text = f"r = {t}[40] {opcode}({operands})"
    expander = EXPANDERS[opcode][-1]
    made = expander(parse_module(text).entry.root)
    assert made is not None
    inner = next(i for i in made.instructions if i.opcode == opcode)
    assert inner.shape.element_type.name in ("f32", "s8", "u8")
    assert_exact(text, seed)


@pytest.mark.parametrize(
    "text",
    [
        "r = pred[40] compare(bf16[40] x, bf16[40] y), direction=LT",
        "r = bf16[40] select(pred[40] p, bf16[40] x, bf16[40] y)",
        "r = bf16[3,4] broadcast(bf16[4] x), dimensions={1}",
        "r = s4[6] pad(s4[4] x, s4[] y), padding=1_1",
        "r = s4[4,3] transpose(s4[3,4] x), dimensions={1,0}",
        "r = f16[7] iota(), iota_dimension=0",
        "r = s32[3,4] dot(s4[3,5] x, s4[5,4] y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}",
    ],
)
def test_comparisons_and_movement(text: str, seed: int) -> None:
    assert_exact(text, seed)


def test_sums_are_rounded_once(seed: int) -> None:
    text = """
    HloModule m
    f { a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT c = bf16[] add(a, b) }
    ENTRY e { x = bf16[5,300] parameter(0)  z = bf16[] parameter(1)
      ROOT r = bf16[5] reduce(x, z), dimensions={1}, to_apply=f }
    """
    made = expand_wider(parse_module(text).entry.root)
    assert made is not None
    reducer = next(i for i in made.instructions if i.opcode == "reduce")["to_apply"]
    assert reducer.root.shape.element_type.name == "f32"


def test_representation_is_left_to_the_device() -> None:
    for text in (
        "r = s8[4] convert(s4[4] x)",
        "r = u16[4] bitcast-convert(bf16[4] x)",
        "r = s4[4] popcnt(s4[4] x)",
        "r = f32[4] add(f32[4] x, f32[4] y)",
    ):
        assert expand_wider(parse_module(text).entry.root) is None


PROGRAM = """
HloModule m
f { a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT c = bf16[] maximum(a, b) }
ENTRY e { x = bf16[4,6] parameter(0)  i = s4[4] parameter(1)  h = f16[4] parameter(2)
  y = bf16[4,6] multiply(x, x)  z = bf16[] constant(0)
  m.1 = bf16[4] reduce(y, z), dimensions={1}, to_apply=f
  j = s4[4] add(i, i)  k = f16[4] negate(h)
  ROOT t = (bf16[4], s4[4], f16[4]) tuple(m.1, j, k) }
"""


def test_whole_programs_are_normalised() -> None:
    module = run(FloatNormalization(), PROGRAM)
    verify(module)
    narrow = {
        i.opcode for c in module.computations for i in c.instructions
        if any(s.element_type.is_float and s.element_type.bits < 32 for _, s in i.shape.leaves())
    }  # fmt: skip
    assert narrow == {"parameter", "constant", "convert", "tuple"}
    module = run(FloatNormalization("f16"), PROGRAM)
    by_opcode = {i.opcode: i for i in module.entry.instructions}
    assert by_opcode["negate"].shape.element_type.name == "f32"
    assert by_opcode["multiply"].shape.element_type.name == "bf16"


def test_small_integers_are_normalised() -> None:
    module = run(SubByteNormalization(), PROGRAM)
    verify(module)
    assert "convert" in opcodes(module)
    adds = [i for i in module.entry.instructions if i.opcode == "add"]
    assert [i.shape.element_type.name for i in adds] == ["s8"]


def test_values_beyond_a_byte_wrap_as_in_the_narrow_type() -> None:
    values = np.arange(-8, 8).astype(parse_module("x = s4[1] parameter(0)").entry.root
                                     .shape.element_type.np)  # fmt: skip
    a, b = (np.ascontiguousarray(x).reshape(-1) for x in np.meshgrid(values, values))
    for opcode in ("multiply", "add", "subtract", "divide", "remainder", "shift-left"):
        if opcode == "shift-left":
            b = np.abs(b.astype(np.int8)).astype(values.dtype)
        assert_exact(f"r = s4[256] {opcode}(s4[256] x, s4[256] y)", 0, a, b)
