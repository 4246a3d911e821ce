"""sin, cos and tan by polynomials on [-pi/4, pi/4] after exact reduction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.math import coefficients as c
from xladev.codegen.math.argument_reduction import reduce_angle, reduce_angle_single
from xladev.codegen.math.shared import MathEmitter, horner, in_double, shared

_Args = Sequence[Value]


@dataclass(frozen=True, slots=True)
class _Tables:
    sine: Sequence[float]
    cosine: Sequence[float]


_SINGLE = _Tables(c.SIN_F32, c.COS_F32)
_DOUBLE = _Tables(c.SIN_F64, c.COS_F64)


def _sine(b: FunctionBuilder, r: Value, low: Value, table: Sequence[float]) -> Value:
    """sin(r + low) = r + (r**3 P(r**2) + low cos(r)), cos(r) to what ``low`` needs."""
    z = b.fmul(r, r)
    cosine = b.multiply_add(z, -0.5, 1.0)
    tail = b.fmul(low, cosine)
    return b.fadd(r, b.multiply_add(b.fmul(z, r), horner(b, z, table), tail))


def _cosine(b: FunctionBuilder, r: Value, low: Value, table: Sequence[float]) -> Value:
    """1 - z/2 + (z**2 P(z) - r low), with the rounding error of 1 - z/2 added back."""
    z = b.fmul(r, r)
    half = b.fmul(z, 0.5)
    lead = b.fsub(1.0, half)
    error = b.fsub(b.fsub(1.0, lead), half)
    tail = b.multiply_add(b.fmul(z, z), horner(b, z, table), error)
    return b.fadd(lead, b.multiply_add(b.fneg(r), low, tail))


def _both(b: FunctionBuilder, x: Value, tables: _Tables) -> tuple[Value, Value, Value]:
    """Sine and cosine of the reduced angle, and the quadrant."""
    r, low, quadrant = reduce_angle(b, x)
    return _sine(b, r, low, tables.sine), _cosine(b, r, low, tables.cosine), quadrant


def _turned(b: FunctionBuilder, sine: Value, cosine: Value, quadrant: Value) -> Value:
    """sin(r + quadrant pi/2)."""
    odd = b.icmp("ne", b.and_(quadrant, 1), 0)
    value = b.select(odd, cosine, sine)
    back = b.icmp("ne", b.and_(quadrant, 2), 0)
    return b.select(back, b.fneg(value), value)


def _sin(tables: _Tables) -> MathEmitter:
    def emit(b: FunctionBuilder, args: _Args) -> Value:
        sine, cosine, quadrant = _both(b, args[0], tables)
        return keep_zero(b, args[0], _turned(b, sine, cosine, quadrant))

    return emit


def _cos(tables: _Tables) -> MathEmitter:
    def emit(b: FunctionBuilder, args: _Args) -> Value:
        sine, cosine, quadrant = _both(b, args[0], tables)
        return _turned(b, sine, cosine, b.add(quadrant, 1))

    return emit


def _both_single(b: FunctionBuilder, x: Value) -> tuple[Value, Value, Value]:
    r, quadrant = reduce_angle_single(b, x)
    z = b.fmul(r, r)
    sine = b.multiply_add(b.fmul(z, r), horner(b, z, c.SIN_IN_F32), r)
    cosine = b.multiply_add(z, b.multiply_add(z, horner(b, z, c.COS_IN_F32), -0.5), 1.0)
    return sine, cosine, quadrant


def _sin_single(b: FunctionBuilder, args: _Args) -> Value:
    return keep_zero(b, args[0], _turned(b, *_both_single(b, args[0])))


def _cos_single(b: FunctionBuilder, args: _Args) -> Value:
    sine, cosine, quadrant = _both_single(b, args[0])
    return _turned(b, sine, cosine, b.add(quadrant, 1))


def _tan(tables: _Tables) -> MathEmitter:
    def emit(b: FunctionBuilder, args: _Args) -> Value:
        sine, cosine, quadrant = _both(b, args[0], tables)
        odd = b.icmp("ne", b.and_(quadrant, 1), 0)
        numerator = b.select(odd, b.fneg(cosine), sine)
        denominator = b.select(odd, sine, cosine)
        return keep_zero(b, args[0], b.fdiv(numerator, denominator))

    return emit


def keep_zero(b: FunctionBuilder, x: Value, result: Value) -> Value:
    """Zeros, with their sign, for odd functions whose code loses it."""
    return b.select(b.fcmp("oeq", x, 0.0), x, result)


emit_sin = shared("sin", _sin_single, _sin(_DOUBLE))
emit_cos = shared("cos", _cos_single, _cos(_DOUBLE))
emit_tan = shared("tan", in_double(_tan(_SINGLE)), _tan(_DOUBLE))
