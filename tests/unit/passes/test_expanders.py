"""Bodies that look at bits: those of the types that they name, wherever the body is moved to.

XLA's own passes write `bitcast` for a `bitcast-convert` of scalars.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.passes.checks import leaves
from xladev.hlo.dtype import by_name
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array
from xladev.hlo.names import with_unique_names
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.expanders import EXPANDERS

BODY = """HloModule m
body {{ a = {f}[] parameter(0)  b = {f}[] parameter(1)
  i = {u}[] {op}(a)  j = {u}[] {op}(b)  x = {u}[] xor(i, j)  ROOT r = {f}[] {op}(x) }}
ENTRY e {{ x = {f}[4,6] parameter(0)
"""
USES = {
    "reduce": "z = {f}[] parameter(1)  ROOT r = {f}[4] reduce(x, z), dimensions={{1}},",
    "reduce-window": "z = {f}[] parameter(1)"
    "  ROOT r = {f}[4,4] reduce-window(x, z), window={{size=1x3}},",
    "map": "y = {f}[4,6] parameter(1)  ROOT r = {f}[4,6] map(x, y), dimensions={{0,1}},",
    "scatter": "i = s32[2,1] parameter(1)  u = {f}[2,6] parameter(2)"
    "  ROOT r = {f}[4,6] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},"
    " scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,",
}


def arguments_and_bits(opcode: str, x: Array) -> tuple[list[Array], Array]:
    """The operands, and the bits of the result, by NumPy on unsigned integers."""
    zero, bits = np.zeros((), x.dtype), x.view(f"u{x.itemsize}")
    if opcode == "reduce":
        return [x, zero], np.bitwise_xor.reduce(bits, 1)
    if opcode == "reduce-window":
        return [x, zero], bits[:, :4] ^ bits[:, 1:5] ^ bits[:, 2:6]
    if opcode == "map":
        return [x, x[::-1].copy()], bits ^ bits[::-1]
    last = bits[3] ^ bits[0] ^ bits[1]
    return [x, np.full((2, 1), 3, np.int32), x[:2].copy()], np.concatenate([bits[:3], last[None]])


def values(module: HloModule, operands: list[Array]) -> Iterator[Array]:
    """By the evaluator, and by each expansion."""
    yield from leaves(HloEvaluator().run(module, *operands))
    for expander in EXPANDERS[module.entry.root.opcode]:
        made = expander(module.entry.root)
        if made is not None:
            verify(with_unique_names(HloModule("expansion", made)))
            yield from leaves(HloEvaluator().call(made, operands))


@pytest.mark.parametrize("opcode", USES)
@pytest.mark.parametrize(("f", "u"), [("f32", "u32"), ("bf16", "u16"), ("f8e4m3fn", "u8")])
@pytest.mark.parametrize("op", ["bitcast", "bitcast-convert"])
def test_bits_are_those_of_the_types_named(op: str, f: str, u: str, opcode: str) -> None:
    text = (BODY + USES[opcode] + " to_apply=body }}").format(op=op, f=f, u=u)
    x = np.random.default_rng(0).uniform(1, 1.9, (4, 6)).astype(by_name(f).np)  # no NaN results
    operands, bits = arguments_and_bits(opcode, x)
    found = list(values(parse_module(text), operands))
    assert found
    for value in found:
        np.testing.assert_array_equal(value.view(bits.dtype), bits)


COMPARATOR = """HloModule m
less { a = f32[] parameter(0)  b = f32[] parameter(1)
  i = s32[] bitcast(a)  j = s32[] bitcast(b)  ROOT r = pred[] compare(i, j), direction=LT }
ENTRY e { x = f32[7] parameter(0)  ROOT r = f32[7] sort(x), dimensions={0}, to_apply=less }
"""


def test_a_comparator_may_order_by_bits() -> None:
    x = np.array([2, -1, 0.5, -0.0, np.inf, 0, -3], np.float32)
    value = HloEvaluator().run(parse_module(COMPARATOR), x)
    np.testing.assert_array_equal(value.view(np.int32), np.sort(x.view(np.int32)))


def test_scalars_that_fill_their_byte_otherwise_are_converted_one_by_one() -> None:
    text = """HloModule m
    body { a = pred[] parameter(0)  ROOT r = s8[] bitcast(a) }
    ENTRY e { x = pred[3] parameter(0)  ROOT r = s8[3] map(x), dimensions={0}, to_apply=body }
    """
    value = HloEvaluator().run(parse_module(text), np.array([True, False, True]))
    assert value.tolist() == [1, 0, 1]
