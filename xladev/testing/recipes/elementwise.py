"""Recipes for elementwise opcodes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from xladev.errors import ShapeError
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import ARRAY_TYPES, FLOATS, INTEGERS, PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.opdef import OpCall
from xladev.hlo.opset import opdef
from xladev.hlo.shape import Shape, array
from xladev.testing.draw import Draw, Recipe

_WIDE_FLOATS = (dt.F32, dt.F64, dt.BF16, dt.F16)
_REAL = (*INTEGERS, *FLOATS)

Types = tuple[PrimitiveType, ...]


@cache
def _accepted(opcode: str, operands: int) -> Types:
    """Types that the opcode's shape rule takes for all of its operands."""
    return tuple(t for t in ARRAY_TYPES if _accepts(opcode, (array(t),) * operands))


def _accepts(opcode: str, operands: tuple[Shape, ...]) -> bool:
    op = opdef(opcode)
    try:
        return op.infer is not None and op.infer(OpCall(op, operands, {})).is_array
    except ShapeError:
        return False


def _unary(opcode: str, *, exact: bool = False) -> Recipe:
    def recipe(d: Draw) -> HloInstruction:
        value = d.any_value(_accepted(opcode, 1), exact=exact)
        if opcode in _CUT and value.shape.element_type.is_complex and value in d.inexact:
            value = d.new_value(value.shape.element_type, value.shape.dims)
        return d.op(opcode, value)

    return recipe


def _binary(opcode: str, *, exact: bool = False) -> Recipe:
    def recipe(d: Draw) -> HloInstruction:
        first = d.any_value(_accepted(opcode, 2), exact=exact)
        second = d.value(first.shape.element_type, first.shape.dims, exact=exact)
        return d.op(opcode, first, second)

    return recipe


def _compare(d: Draw) -> HloInstruction:
    first = d.known_bits(ARRAY_TYPES)
    dtype = first.shape.element_type
    second = d.new_value(dtype, first.shape.dims)
    directions = ("EQ", "NE") if dtype.is_complex else ("EQ", "NE", "LT", "LE", "GT", "GE")
    kind = "TOTALORDER" if dtype in _WIDE_FLOATS and d.chance(0.3) else None
    return d.op("compare", first, second, direction=d.pick(directions), type=kind)


def _select(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES)
    condition = d.value(dt.PRED, value.shape.dims, exact=True)
    return d.op("select", condition, value, d.value(value.shape.element_type, value.shape.dims))


def _clamp(d: Draw) -> HloInstruction:
    value = d.any_value(_REAL)
    dims = () if d.chance(0.5) else value.shape.dims
    low, high = (d.value(value.shape.element_type, dims) for _ in range(2))
    return d.op("clamp", low, value, high)


def _complex(d: Draw) -> HloInstruction:
    first = d.any_value((dt.F32, dt.F64))
    return d.op("complex", first, d.value(first.shape.element_type, first.shape.dims))


def _convert(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES, exact=True)
    target = d.dtype(ARRAY_TYPES)
    if value.shape.element_type.is_complex and not target.is_complex:
        value = d.op("real", value)
    return d.op("convert", value, shape=array(target, value.shape.dims))


def _bitcast_convert(d: Draw) -> HloInstruction:
    whole = [t for t in ARRAY_TYPES if t.bits >= 8 and t is not dt.PRED and not t.is_complex]
    value = d.known_bits(whole)
    have, dims = value.shape.element_type.bits, value.shape.dims
    fitting = [t for t in whole if t.bits == have]
    if d.chance(0.3):
        narrow = [t for t in whole if t.bits < have]
        if narrow:
            target = d.pick(narrow)
            return d.op("bitcast-convert", value, shape=array(target, (*dims, have // target.bits)))
    return d.op("bitcast-convert", value, shape=array(d.pick(fitting), dims))


def _reduce_precision(d: Draw) -> HloInstruction:
    value = d.any_value(_WIDE_FLOATS, exact=True)
    exponent, mantissa = d.integer(2, 10), d.integer(1, 23)
    return d.op("reduce-precision", value, exponent_bits=exponent, mantissa_bits=mantissa)


def _stochastic_convert(d: Draw) -> HloInstruction:
    value = d.any_value(_WIDE_FLOATS, exact=True)
    random = {16: dt.U16, 32: dt.U32, 64: dt.U64}[value.shape.element_type.bits]
    bits = d.value(random, value.shape.dims, exact=True)
    shape = array(d.dtype(_REAL), value.shape.dims)
    return d.op("stochastic-convert", value, bits, shape=shape)


_UNARY = (
    "abs", "negate", "not", "count-leading-zeros", "popcnt", "real", "imag",
    "acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh", "erf", "exp2", "log2", "cbrt",
    "cosine", "sine", "tan", "tanh", "exponential", "exponential-minus-one", "log",
    "log-plus-one", "logistic", "rsqrt", "sqrt",
)  # fmt: skip
_UNARY_JUMPS = ("sign", "is-finite", "ceil", "floor", "round-nearest-afz", "round-nearest-even")
_CUT = frozenset({
    "acos", "acosh", "asin", "asinh", "atanh", "cbrt", "log", "log2", "log-plus-one", "rsqrt",
    "sqrt", "sign",
})  # fmt: skip
"""They jump at branch cuts of the complex plane, and at its origin."""

_BINARY = (
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "mulhi", "and", "or", "xor",
    "shift-left", "shift-right-arithmetic", "shift-right-logical",
)  # fmt: skip
_BINARY_JUMPS = ("remainder", "power", "atan2")

ELEMENTWISE: Mapping[str, Recipe] = MappingProxyType(
    {
        **{opcode: _unary(opcode) for opcode in _UNARY},
        **{opcode: _unary(opcode, exact=True) for opcode in _UNARY_JUMPS},
        **{opcode: _binary(opcode) for opcode in _BINARY},
        **{opcode: _binary(opcode, exact=True) for opcode in _BINARY_JUMPS},
        "complex": _complex,
        "compare": _compare,
        "select": _select,
        "clamp": _clamp,
        "convert": _convert,
        "bitcast-convert": _bitcast_convert,
        "reduce-precision": _reduce_precision,
        "stochastic-convert": _stochastic_convert,
    }
)
"""Recipe by opcode."""
