"""Narrow floating-point formats: exact decoding to f32, correctly rounded encoding from f32.

Both directions are integer arithmetic plus at most one float operation, free of branches, so they
serve vectors as they are. Rounding and overflow rules are those of ml_dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xladev.codegen.llvm import FLOAT, I32, FunctionBuilder, Value, constant
from xladev.hlo import dtype as t
from xladev.hlo.dtype import PrimitiveType

_INFINITY = 0x7F800000
_F32_MANTISSA = 23
_F32_BIAS = 127


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A narrow format with sign, exponent and mantissa fields.

    Attributes:
        exponent: exponent bits.
        mantissa: mantissa bits.
        bias: exponent bias.
        largest: magnitude code of the largest finite number.
        overflow: code of magnitudes above it: infinity, NaN or ``largest``.
        nan: code of NaN, with or without sign.
        specials: how codes above ``largest`` read: ``ieee`` infinity and NaNs, ``ones`` the one
            magnitude with all bits set is NaN, ``negative-zero`` that code is the only NaN and
            zero has no sign, ``none`` every code is finite.
    """

    exponent: int
    mantissa: int
    bias: int
    largest: int
    overflow: int
    nan: int
    specials: str

    @property
    def sign(self) -> int:
        """Code of the sign bit."""
        return 1 << (self.exponent + self.mantissa)

    @property
    def drop(self) -> int:
        """Mantissa bits of f32 that the format lacks."""
        return _F32_MANTISSA - self.mantissa

    @property
    def smallest_normal(self) -> int:
        """Bit pattern, as f32, of the smallest normal magnitude."""
        return (1 - self.bias + _F32_BIAS) << _F32_MANTISSA


def _ieee(exponent: int, mantissa: int, bias: int) -> FloatFormat:
    infinity = ((1 << exponent) - 1) << mantissa
    quiet = infinity | (1 << (mantissa - 1))
    return FloatFormat(exponent, mantissa, bias, infinity - 1, infinity, quiet, "ieee")


def _all_ones(exponent: int, mantissa: int, bias: int) -> FloatFormat:
    nan = (1 << (exponent + mantissa)) - 1
    return FloatFormat(exponent, mantissa, bias, nan - 1, nan, nan, "ones")


def _unsigned_zero(exponent: int, mantissa: int, bias: int) -> FloatFormat:
    nan = 1 << (exponent + mantissa)
    return FloatFormat(exponent, mantissa, bias, nan - 1, nan, nan, "negative-zero")


def _finite(exponent: int, mantissa: int, bias: int) -> FloatFormat:
    # NaN of either sign becomes -0, as in XLA and the evaluator.
    sign = 1 << (exponent + mantissa)
    return FloatFormat(exponent, mantissa, bias, sign - 1, sign - 1, sign, "none")


FORMATS: Mapping[PrimitiveType, FloatFormat] = MappingProxyType(
    {
        t.F16: _ieee(5, 10, 15),
        t.BF16: _ieee(8, 7, 127),
        t.F8E5M2: _ieee(5, 2, 15),
        t.F8E4M3: _ieee(4, 3, 7),
        t.F8E3M4: _ieee(3, 4, 3),
        t.F8E4M3FN: _all_ones(4, 3, 7),
        t.F8E4M3B11FNUZ: _unsigned_zero(4, 3, 11),
        t.F8E5M2FNUZ: _unsigned_zero(5, 2, 16),
        t.F8E4M3FNUZ: _unsigned_zero(4, 3, 8),
        t.F4E2M1FN: _finite(2, 1, 1),
        t.F6E3M2FN: _finite(3, 2, 3),
        t.F6E2M3FN: _finite(2, 3, 1),
    }
)


def emit_encode(b: FunctionBuilder, x: Value, dtype: PrimitiveType) -> Value:
    """Code, as i32, of an f32 rounded to a narrow type: nearest, ties to even."""
    if dtype is t.F8E8M0FNU:
        return _encode_scale(b, x)
    return _encode_signed(b, x, FORMATS[dtype])


def emit_decode(b: FunctionBuilder, code: Value, dtype: PrimitiveType) -> Value:
    """f32 value, exact, of a code given as i32 with zeros above it. NaN payloads are kept."""
    if dtype is t.F8E8M0FNU:
        return _decode_scale(b, code)
    return _decode_signed(b, code, FORMATS[dtype])


def _encode_signed(b: FunctionBuilder, x: Value, f: FloatFormat) -> Value:
    bits = b.bitcast(x, I32)
    magnitude = b.and_(bits, 0x7FFFFFFF)
    code = _round_normal(b, magnitude, f)
    if f.bias != _F32_BIAS:
        tiny = b.icmp("ult", magnitude, f.smallest_normal)
        code = b.select(tiny, _round_subnormal(b, magnitude, f), code)
    code = b.select(b.icmp("ugt", code, f.largest), f.overflow, code)
    is_nan = b.icmp("ugt", magnitude, _INFINITY)
    sign = b.and_(b.lshr(bits, 31 - f.exponent - f.mantissa), f.sign)
    if f.specials == "negative-zero":
        signed = b.select(b.icmp("eq", code, 0), code, b.or_(code, sign))
        signed = b.select(b.icmp("eq", code, f.overflow), f.nan, signed)
        return b.select(is_nan, f.nan, signed)
    if f.specials == "none":
        return b.select(is_nan, f.nan, b.or_(code, sign))
    nan = _nan_code(b, magnitude, f) if f.specials == "ieee" else f.nan
    return b.or_(b.select(is_nan, nan, code), sign)


def _nan_code(b: FunctionBuilder, magnitude: Value, f: FloatFormat) -> Value:
    """NaN with as much of the payload as there is room for; so decoding and encoding keeps bits."""
    payload = b.and_(b.lshr(magnitude, f.drop), (1 << f.mantissa) - 1)
    kept = b.or_(payload, f.largest + 1)
    return b.select(b.icmp("eq", payload, 0), f.nan, kept)


def _round_normal(b: FunctionBuilder, magnitude: Value, f: FloatFormat) -> Value:
    """Adds half of the last kept place (less one if that place is even), then shifts it down."""
    lowest = b.and_(b.lshr(magnitude, f.drop), 1)
    rounded = b.add(b.add(magnitude, (1 << (f.drop - 1)) - 1), lowest)
    return b.sub(b.lshr(rounded, f.drop), (_F32_BIAS - f.bias) << f.mantissa)


def _round_subnormal(b: FunctionBuilder, magnitude: Value, f: FloatFormat) -> Value:
    """Adds a power of two whose last place is the format's smallest number: the FPU rounds."""
    exponent = 1 - f.bias - f.mantissa + _F32_MANTISSA
    magic = (exponent + _F32_BIAS) << _F32_MANTISSA
    total = b.fadd(b.bitcast(magnitude, FLOAT), 2.0**exponent)
    return b.sub(b.bitcast(total, I32), magic)


def _decode_signed(b: FunctionBuilder, code: Value, f: FloatFormat) -> Value:
    magnitude = b.and_(code, f.sign - 1)
    shifted = b.shl(magnitude, f.drop)
    value = shifted
    if f.bias != _F32_BIAS:
        scale = 2.0 ** (_F32_BIAS - f.bias)
        value = b.bitcast(b.fmul(b.bitcast(shifted, FLOAT), scale), I32)
        value = _decode_specials(b, code, magnitude, shifted, value, f)
    # the one NaN of types without negative zero has the sign that its code has: totalOrder sees it
    sign = b.shl(b.and_(code, f.sign), 31 - f.exponent - f.mantissa)
    return b.bitcast(b.or_(value, sign), FLOAT)


def _decode_specials(
    b: FunctionBuilder, code: Value, magnitude: Value, shifted: Value, value: Value, f: FloatFormat
) -> Value:
    if f.specials == "ieee":
        special = b.icmp("ugt", magnitude, f.largest)
        return b.select(special, b.or_(shifted, _INFINITY), value)
    if f.specials == "none":
        return value
    subject = code if f.specials == "negative-zero" else magnitude
    return b.select(b.icmp("eq", subject, f.nan), 0x7FC00000, value)


def _encode_scale(b: FunctionBuilder, x: Value) -> Value:
    """f8e8m0fnu, a bare exponent: ties go up; zero, negative numbers and overflow are NaN."""
    bits = b.bitcast(x, I32)
    normal = b.lshr(b.add(bits, 0x400000), _F32_MANTISSA)
    tiny = b.select(b.icmp("ugt", bits, 0x400000), constant(normal.type, 1), 0)
    code = b.select(b.icmp("ult", bits, 0x800000), tiny, normal)
    valid = b.and_(b.icmp("sgt", bits, 0), b.icmp("ult", bits, 0x7F400000))
    return b.select(valid, code, 0xFF)


def _decode_scale(b: FunctionBuilder, code: Value) -> Value:
    """Two to the power of code - 127; code 0 is the one subnormal f32, code 255 is NaN."""
    bits = b.select(b.icmp("eq", code, 0), 0x400000, b.shl(code, _F32_MANTISSA))
    return b.bitcast(b.select(b.icmp("eq", code, 0xFF), 0x7FC00000, bits), FLOAT)
