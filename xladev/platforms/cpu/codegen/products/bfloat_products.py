"""Two products of bf16 at once: the instruction, what it takes of a row, and the same exactly.

``vdpbf16ps`` adds the second product of each lane, rounds, adds the first one and rounds: measured
on 32 million lanes, the bits of two fused multiplications and additions in that order. It takes
denormals for zeros, though; `denormals.py` says where that makes no difference.
"""

from __future__ import annotations

from xladev.codegen.llvm import FLOAT, I32, FunctionBuilder, IrType, Value

_SUMS = IrType("float", 16)
_PAIRS = IrType("bfloat", 32)
_WORDS = IrType("i32", 16)
_HIGH = -0x10000
"""The second of two elements, as the upper half of a float; the lower half is zero."""


def spread_pair(b: FunctionBuilder, address: Value) -> Value:
    """Two elements of a row, in all lanes."""
    return b.splat(b.load(I32, address, align=2), _WORDS.lanes)


def multiply_add_pairs(b: FunctionBuilder, left: Value, right: Value, total: Value) -> Value:
    """The sums with two more products each; denormals count as zeros."""
    symbol = "llvm.x86.avx512bf16.dpbf16ps.512"
    b.module.declare_intrinsic(symbol, _SUMS, [_SUMS.text, _PAIRS.text, _PAIRS.text])
    x, y = (b.emit(_PAIRS, f"bitcast {v.type} {v.text} to {_PAIRS}") for v in (left, right))
    return b.emit(_SUMS, f"call {_SUMS} @{symbol}({total}, {x}, {y})")


def multiply_add_exact_pairs(b: FunctionBuilder, left: Value, right: Value, total: Value) -> Value:
    """The sums with two more products each, in the instruction's order."""
    words = b.bitcast(right, I32)
    for half in (_second, _first):
        total = b.fma(half(b, left), half(b, words), total)
    return total


def _second(b: FunctionBuilder, words: Value) -> Value:
    return b.bitcast(b.and_(words, _HIGH), FLOAT)


def _first(b: FunctionBuilder, words: Value) -> Value:
    return b.bitcast(b.shl(words, 16), FLOAT)
