"""stochastic-convert: rounds away from zero with the probability of the digits cut off."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import FunctionBuilder, Value, constant, integer
from xladev.codegen.scalar.convert import emit_convert, float_to_integer
from xladev.codegen.scalar.elements import Element, compute_type, real_of
from xladev.codegen.scalar.formats import FORMATS
from xladev.codegen.scalar.operation import ScalarOperation
from xladev.codegen.scalar.storage import from_bits, to_bits
from xladev.errors import UnsupportedError
from xladev.hlo.dtype import F8E8M0FNU, F32, F64, PrimitiveType

_LARGEST = {F32: 0x7F7FFFFF, F64: 0x7FEFFFFFFFFFFFFF, F8E8M0FNU: 0xFE}
"""Codes of the largest magnitudes of types that `FORMATS` leaves out."""


def emit_stochastic_convert(
    b: FunctionBuilder, operation: ScalarOperation, args: Sequence[Element]
) -> Value:
    """Float to integer or float: the neighbour farther from zero, if the random bits say so.

    The second operand holds random bits. They are compared with the distance from the nearer
    neighbour as a fraction of their range. NaN gives an integer 0, or NaN; beyond the range clamps.

    Raises:
        UnsupportedError: the result is neither an integer nor a real float.
    """
    random = real_of(args[1], "stochastic-convert")
    # f64 holds every float, and every fraction that matters here, exactly.
    x = real_of(emit_convert(b, args[0], operation.dtype, F64), "stochastic-convert")
    if operation.result.is_integral:
        return _to_integer(b, x, random, operation.result)
    if operation.result.is_float:
        return _to_float(b, x, random, operation.result)
    raise UnsupportedError(f"{operation}: only numbers can be rounded to")


def _to_integer(b: FunctionBuilder, x: Value, random: Value, target: PrimitiveType) -> Value:
    """Digits of the fraction beyond those of the random bits do not count.

    Source: XLA's HloEvaluator, ``kStochasticConvert``.
    """
    magnitude = b.fabs(x)
    whole = b.intrinsic("trunc", magnitude)
    up = _below(b, random, b.intrinsic("trunc", _scaled(b, b.fsub(magnitude, whole), random)))
    moved = b.fadd(whole, b.select(up, constant(whole.type, 1.0), 0.0))
    signed = b.copysign(moved, x)
    return float_to_integer(b, signed, compute_type(target), signed=target.is_signed)


def _to_float(b: FunctionBuilder, x: Value, random: Value, target: PrimitiveType) -> Value:
    """Neighbours of a float have neighbouring codes; beyond the largest there is none."""
    nearest = real_of(emit_convert(b, x, F64, target), "stochastic-convert")
    back = real_of(emit_convert(b, nearest, target, F64), "stochastic-convert")
    inexact = b.fcmp("one", back, x)
    code = _magnitude(b, nearest, target)
    outside = b.fcmp("ogt", b.fabs(back), b.fabs(x))
    inner = b.select(b.and_(outside, b.icmp("ne", code, 0)), b.sub(code, 1), code)
    largest = _largest(target)
    outer = b.select(b.icmp("ult", inner, largest), b.add(inner, 1), inner)
    low, high = (_value(b, c, target) for c in (inner, outer))
    covered = b.fdiv(b.fsub(b.fabs(x), low), b.fsub(high, low))
    away = _below(b, random, b.intrinsic("ceil", _scaled(b, covered, random)))
    moved = b.copysign(b.select(away, high, low), x)
    rounded = real_of(emit_convert(b, moved, F64, target), "stochastic-convert")
    return b.select(inexact, rounded, nearest)


def _largest(target: PrimitiveType) -> int:
    return FORMATS[target].largest if target in FORMATS else _LARGEST[target]


def _magnitude(b: FunctionBuilder, value: Value, target: PrimitiveType) -> Value:
    """Code without its sign."""
    code = to_bits(b, value, target)
    return code if target is F8E8M0FNU else b.and_(code, (1 << (target.bits - 1)) - 1)


def _value(b: FunctionBuilder, code: Value, target: PrimitiveType) -> Value:
    element = from_bits(b, code, target)
    return real_of(emit_convert(b, element, target, F64), "stochastic-convert")


def _scaled(b: FunctionBuilder, fraction: Value, random: Value) -> Value:
    """A fraction in units of the last random bit."""
    return b.fmul(fraction, 2.0**random.type.bits)


def _below(b: FunctionBuilder, random: Value, limit: Value) -> Value:
    """True where the random bits, as an integer, are less than a whole number."""
    bits = integer(random.type.bits)
    return b.icmp("ult", random, float_to_integer(b, limit, bits, signed=False))
