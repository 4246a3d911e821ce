"""Recipes for elementwise opcodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import ARRAY_TYPES, COMPLEXES, FLOATS, INTEGERS, PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import array
from xladev.testing.random_program import Draw, Recipe

_WIDE_FLOATS = (dt.F32, dt.F64, dt.BF16, dt.F16)
_REAL = (*INTEGERS, *FLOATS)
_NUMBERS = (*INTEGERS, *FLOATS, *COMPLEXES)
_BITS = (dt.PRED, *INTEGERS)
_SIGNED = tuple(t for t in _NUMBERS if not (t.is_integral and not t.is_signed))
_WITH_PRED = (dt.PRED, *_NUMBERS)

Types = Sequence[PrimitiveType]


def _unary(opcode: str, allowed: Types, *, exact: bool = False) -> Recipe:
    def recipe(d: Draw) -> HloInstruction:
        return d.op(opcode, d.any_value(allowed, exact=exact))

    return recipe


def _binary(opcode: str, allowed: Types, *, exact: bool = False) -> Recipe:
    def recipe(d: Draw) -> HloInstruction:
        first = d.any_value(allowed, exact=exact)
        second = d.value(first.shape.element_type, first.shape.dims, exact=exact)
        return d.op(opcode, first, second)

    return recipe


def _compare(d: Draw) -> HloInstruction:
    first = d.any_value(ARRAY_TYPES, exact=True)
    dtype = first.shape.element_type
    second = d.value(dtype, first.shape.dims, exact=True)
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
    value = d.any_value(whole, exact=True)
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
    return d.op(
        "reduce-precision",
        value,
        exponent_bits=d.integer(2, 10),
        mantissa_bits=d.integer(1, 23),
    )


_FUNCTIONS = (
    "acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh", "erf", "exp2", "log2", "cbrt",
    "cosine", "sine", "tan", "tanh", "exponential", "exponential-minus-one", "log",
    "log-plus-one", "logistic", "rsqrt", "sqrt",
)  # fmt: skip
_COMPLEX_FUNCTIONS = frozenset({
    "cosine", "sine", "tanh", "exponential", "log", "sqrt", "rsqrt", "log-plus-one",
    "exponential-minus-one",
})  # fmt: skip


def _function(opcode: str) -> Recipe:
    allowed = (*_WIDE_FLOATS, *COMPLEXES) if opcode in _COMPLEX_FUNCTIONS else _WIDE_FLOATS
    return _unary(opcode, allowed)


ELEMENTWISE: Mapping[str, Recipe] = MappingProxyType(
    {
        "abs": _unary("abs", _SIGNED),
        "negate": _unary("negate", _NUMBERS),
        "sign": _unary("sign", _SIGNED, exact=True),
        "not": _unary("not", _BITS),
        "is-finite": _unary("is-finite", _WIDE_FLOATS, exact=True),
        "count-leading-zeros": _unary("count-leading-zeros", INTEGERS),
        "popcnt": _unary("popcnt", INTEGERS),
        "real": _unary("real", COMPLEXES),
        "imag": _unary("imag", COMPLEXES),
        **{
            opcode: _unary(opcode, _WIDE_FLOATS, exact=True)
            for opcode in ("ceil", "floor", "round-nearest-afz", "round-nearest-even")
        },
        **{opcode: _function(opcode) for opcode in _FUNCTIONS},
        "add": _binary("add", _WITH_PRED),
        "subtract": _binary("subtract", _NUMBERS),
        "multiply": _binary("multiply", _WITH_PRED),
        "divide": _binary("divide", _NUMBERS),
        "remainder": _binary("remainder", (*INTEGERS, *_WIDE_FLOATS), exact=True),
        "maximum": _binary("maximum", (dt.PRED, *_REAL)),
        "minimum": _binary("minimum", (dt.PRED, *_REAL)),
        "power": _binary("power", (*INTEGERS, *_WIDE_FLOATS), exact=True),
        "atan2": _binary("atan2", _WIDE_FLOATS, exact=True),
        "mulhi": _binary("mulhi", (dt.S32, dt.U32, dt.S64, dt.U64, dt.S8, dt.U16)),
        "and": _binary("and", _BITS),
        "or": _binary("or", _BITS),
        "xor": _binary("xor", _BITS),
        "shift-left": _binary("shift-left", INTEGERS),
        "shift-right-arithmetic": _binary("shift-right-arithmetic", INTEGERS),
        "shift-right-logical": _binary("shift-right-logical", INTEGERS),
        "complex": _complex,
        "compare": _compare,
        "select": _select,
        "clamp": _clamp,
        "convert": _convert,
        "bitcast-convert": _bitcast_convert,
        "reduce-precision": _reduce_precision,
    }
)
"""Recipe by opcode."""
