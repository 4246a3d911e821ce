"""Four products of bytes at once: the instruction, and the bytes of a row that it takes."""

from __future__ import annotations

from xladev.codegen.llvm import I32, FunctionBuilder, IrType, Value

SIGNS = -0x7F7F7F80
"""The sign bit of each of four bytes: exclusive or with it adds 128."""
_WORDS = IrType("i32", 16)


def spread_quad(b: FunctionBuilder, address: Value) -> Value:
    """Four bytes of a row, plus 128 each, in all lanes."""
    quad = b.xor(b.load(I32, address, align=1), SIGNS)
    return b.splat(quad, _WORDS.lanes)


def multiply_add_quads(b: FunctionBuilder, left: Value, right: Value, total: Value) -> Value:
    """The sums with four more products each, of ``left`` without signs and ``right`` with them."""
    symbol = "llvm.x86.avx512.vpdpbusd.512"
    b.module.declare_intrinsic(symbol, _WORDS, [_WORDS.text] * 3)
    return b.emit(_WORDS, f"call {_WORDS} @{symbol}({total}, {left}, {right})")
