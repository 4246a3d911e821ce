"""Value casts between every pair of element types.

Float to integer truncates, clamps to the range and takes NaN to 0. What is narrower than f32 is
reached through f32, in such a way that it is rounded once.
"""

from __future__ import annotations

from xladev.codegen.llvm import DOUBLE, FLOAT, I32, FunctionBuilder, IrType, Value
from xladev.codegen.scalar.elements import ComplexValue, Element, compute_type
from xladev.codegen.scalar.storage import round_to
from xladev.errors import UnsupportedError
from xladev.hlo.dtype import BF16, F16, F32, Kind, PrimitiveType

_FLOAT_DIGITS, _DOUBLE_DIGITS = 24, 53
"""Bits of an integer that f32 and f64 hold."""
_FEWEST_DIGITS = {BF16: 8, F16: 11}
"""Bits of an integer that narrower floats hold, so that nothing is rounded."""
_TWO_TO_23 = 0x4B000000
"""Bits of that number in f32."""


def emit_convert(
    b: FunctionBuilder, element: Element, source: PrimitiveType, target: PrimitiveType
) -> Element:
    """``element`` of type ``source`` as ``target``; complex to real keeps the real part."""
    if source is target:
        return element
    if isinstance(element, ComplexValue):
        return _from_complex(b, element, source, target)
    if target.is_complex:
        real = _convert_real(b, element, source, target.component)
        return ComplexValue(real, b.const(real.type, 0.0))
    return _convert_real(b, element, source, target)


def _from_complex(
    b: FunctionBuilder, element: ComplexValue, source: PrimitiveType, target: PrimitiveType
) -> Element:
    part = source.component
    if not target.is_complex:
        if target.kind is Kind.PRED:
            nonzero = [b.fcmp("une", x, 0.0) for x in (element.real, element.imag)]
            return b.or_(nonzero[0], nonzero[1])
        return _convert_real(b, element.real, part, target)
    parts = [_convert_real(b, x, part, target.component) for x in (element.real, element.imag)]
    return ComplexValue(parts[0], parts[1])


def _convert_real(
    b: FunctionBuilder, value: Value, source: PrimitiveType, target: PrimitiveType
) -> Value:
    if source is target:
        return value
    if source.is_float:
        return _from_float(b, value, target)
    if target.kind is Kind.PRED:
        return b.icmp("ne", value, 0)
    if target.is_integral:
        return b.resize(value, compute_type(target), signed=source.is_signed)
    if target.is_float:
        cast = "sitofp" if source.is_signed else "uitofp"
        if source.bits == 1:  # some targets make 1 of a set bit, signed or not
            real = value.type.of(compute_type(target))
            numbers = [b.const(real, x) for x in (-1.0 if source.is_signed else 1.0, 0.0)]
            return round_to(b, b.select(value, *numbers), target)
        if source.bits == 4 and source.is_signed and value.lanes > 1:
            held = b.refloat(_from_four_bits(b, value), compute_type(target))
            return held if target in _FEWEST_DIGITS else round_to(b, held, target)
        if source.bits <= _FEWEST_DIGITS.get(target, 0):
            return b.cast(cast, value, compute_type(target))
        if target is BF16 and source.bits > _FLOAT_DIGITS:
            wide = b.cast(cast, _sticky(b, value, source), DOUBLE)
            return round_to(b, _to_odd_float(b, wide), target)
        return round_to(b, b.cast(cast, value, compute_type(target)), target)
    raise UnsupportedError(f"convert {source} to {target}")


def _from_four_bits(b: FunctionBuilder, value: Value) -> Value:
    """Numbers of 4 bits with signs, plus 8, as the last places of 2^23, which is then subtracted.

    Two instructions, where extending a sign takes two and converting another.
    """
    place = b.xor(b.resize(value, I32, signed=False), _TWO_TO_23 | 8)
    return b.fsub(b.bitcast(place, FLOAT), 2.0**23 + 8)


def _from_float(b: FunctionBuilder, value: Value, target: PrimitiveType) -> Value:
    if target.kind is Kind.PRED:
        return b.fcmp("une", value, 0.0)
    if target.is_integral:
        return float_to_integer(b, value, compute_type(target), signed=target.is_signed)
    wanted = compute_type(target)
    twice = wanted.element == FLOAT.element and target is not F32
    if twice and value.type.element == DOUBLE.element:
        value = _to_odd_float(b, value)
    return round_to(b, b.refloat(value, wanted), target)


def float_to_integer(b: FunctionBuilder, value: Value, type_: IrType, *, signed: bool) -> Value:
    """Truncates toward zero, clamps to the range of ``type_``; NaN gives 0."""
    if type_.bits == 1:  # the ranges are -1..0 and 0..1; LLVM's targets differ in such casts
        return b.fcmp("ole", value, -1.0) if signed else b.fcmp("oge", value, 1.0)
    if value.lanes > 1:
        return _to_integers(b, value, type_, signed)
    return b.intrinsic("fptosi.sat" if signed else "fptoui.sat", value, result=type_)


def _to_integers(b: FunctionBuilder, value: Value, type_: IrType, signed: bool) -> Value:
    """The same of a vector, whose saturating casts LLVM takes apart into those of its elements.

    What a plain cast makes of numbers beyond its range is not defined, and is not selected.
    """
    wide = I32 if type_.bits < I32.bits else type_
    cast = "fptoui" if not signed and wide is type_ else "fptosi"
    found = b.cast(cast, value, wide)
    largest = (1 << (type_.bits - signed)) - 1
    found = b.select(b.fcmp("oge", value, float(largest + 1)), b.const(found.type, largest), found)
    if signed:
        least = -largest - 1
        found = b.select(b.fcmp("olt", value, float(least)), b.const(found.type, least), found)
        found = b.select(b.fcmp("uno", value, value), b.const(found.type, 0), found)
    else:
        found = b.select(b.fcmp("ogt", value, 0.0), found, b.const(found.type, 0))
    return b.resize(found, type_, signed=signed)


def _sticky(b: FunctionBuilder, value: Value, source: PrimitiveType) -> Value:
    """The integer, or one beside it that f64 holds and that rounds to the same bf16.

    Of 64 bits the last 12 are too far from the 8 that stay to matter, but for breaking a tie: any
    that are set become the highest of them.
    """
    if source.bits <= _DOUBLE_DIGITS:
        return value
    lost = b.icmp("ne", b.and_(value, 0xFFF), 0)
    whole = b.and_(value, -0x1000)
    near = b.select(lost, b.or_(whole, 0x800), whole)
    small = b.icmp("ult", b.add(value, 1 << _DOUBLE_DIGITS), 1 << (_DOUBLE_DIGITS + 1))
    return b.select(small, value, near)


def _to_odd_float(b: FunctionBuilder, value: Value) -> Value:
    """f64 to f32, rounding inexact results to an odd last place, so a second rounding is right.

    Truncation and a sticky last bit is "round to odd": f32's mantissa exceeds that of f16 by more
    than two bits, so the second rounding sees on which side of a tie the f64 was.
    """
    nearest = b.refloat(value, FLOAT)
    back = b.refloat(nearest, DOUBLE)
    inexact = b.fcmp("one", back, value)
    away = b.fcmp("ogt", b.fabs(back), b.fabs(value))
    bits = b.bitcast(nearest, I32)
    truncated = b.sub(bits, b.resize(away, I32, signed=False))
    odd = b.or_(truncated, b.resize(inexact, I32, signed=False))
    return b.bitcast(b.select(inexact, odd, bits), FLOAT)
