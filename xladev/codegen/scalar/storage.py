"""Between memory and the compute representation: storage types, loads, stores, bit patterns.

Host memory holds sub-byte types one per byte, in the low bits, the rest zero (as ml_dtypes does).
"""

from __future__ import annotations

from xladev.codegen.llvm import (
    BFLOAT,
    FLOAT,
    HALF,
    I16,
    I32,
    FunctionBuilder,
    IrType,
    Value,
    integer,
    vector,
)
from xladev.codegen.scalar.elements import ComplexValue, Element, compute_type
from xladev.codegen.scalar.formats import emit_decode, emit_encode
from xladev.hlo.dtype import BF16, F16, F32, F64, Kind, PrimitiveType


def storage_type(dtype: PrimitiveType) -> IrType:
    """LLVM type of one element in memory; of a complex type, that of each of its two parts.

    Floats narrower than 32 bits are stored as integers. Code that only moves data should load and
    store this type directly: it keeps NaN payloads and costs nothing.
    """
    if dtype is F32 or dtype is F64:
        return compute_type(dtype)
    if dtype.is_complex:
        return compute_type(dtype)
    return integer(max(8, dtype.bits))


def load_element(
    b: FunctionBuilder,
    base: Value,
    index: Value | int,
    dtype: PrimitiveType,
    *,
    lanes: int = 1,
    align: int | None = None,
    metadata: str = "",
) -> Element:
    """Element ``index`` of a dense array at ``base``; with ``lanes``, that many from there on."""
    stored = storage_type(dtype)
    if dtype.is_complex:
        address = b.element_address(base, b.mul(_as_value(b, index), 2), stored)
        both = b.load(vector(stored, 2 * lanes), address, align=align, metadata=metadata)
        return ComplexValue(_every_other(b, both, 0), _every_other(b, both, 1))
    address = b.element_address(base, index, stored)
    loaded = b.load(vector(stored, lanes), address, align=align, metadata=metadata)
    return decode_stored(b, loaded, dtype)


def store_element(
    b: FunctionBuilder,
    base: Value,
    index: Value | int,
    dtype: PrimitiveType,
    element: Element,
    *,
    align: int | None = None,
    metadata: str = "",
) -> None:
    """Writes an element (or vector of them) at ``index`` of a dense array at ``base``."""
    stored = storage_type(dtype)
    if isinstance(element, ComplexValue):
        address = b.element_address(base, b.mul(_as_value(b, index), 2), stored)
        b.store(_interleave(b, element), address, align=align, metadata=metadata)
        return
    address = b.element_address(base, index, stored)
    b.store(encode_stored(b, element, dtype), address, align=align, metadata=metadata)


def decode_stored(b: FunctionBuilder, stored: Value, dtype: PrimitiveType) -> Value:
    """Compute representation of what memory holds; for all but complex types."""
    if dtype.kind is Kind.PRED:
        return b.icmp("ne", stored, 0)
    if dtype.is_integral:
        return b.resize(stored, compute_type(dtype), signed=False)
    if dtype is F32 or dtype is F64:
        return stored
    if dtype is BF16 and b.module.target.has_bfloat_conversion:
        return b.refloat(b.bitcast(stored, BFLOAT), FLOAT)
    if dtype is BF16:
        return b.bitcast(b.shl(b.resize(stored, I32, signed=False), 16), FLOAT)
    if dtype is F16 and b.module.target.has_half_conversion:
        return b.refloat(b.bitcast(stored, HALF), FLOAT)
    return b.call_shared(
        f"decode.{dtype}",
        stored.type.of(FLOAT),
        [b.resize(stored, I32, signed=False)],
        lambda inner, args: emit_decode(inner, args[0], dtype),
    )


def encode_stored(b: FunctionBuilder, value: Value, dtype: PrimitiveType) -> Value:
    """What memory holds for a value in compute representation; for all but complex types."""
    stored = storage_type(dtype)
    if dtype.kind is Kind.PRED or dtype.is_integral:
        return b.resize(value, stored, signed=False)
    if dtype is F32 or dtype is F64:
        return value
    if dtype is BF16 and b.module.target.has_bfloat_conversion:
        return b.bitcast(b.refloat(value, BFLOAT), I16)
    if dtype is BF16:  # the low half of a rounded value is zero
        return b.resize(b.lshr(b.bitcast(value, I32), 16), I16, signed=False)
    if dtype is F16 and b.module.target.has_half_conversion:
        return b.bitcast(b.refloat(value, HALF), I16)
    code = b.call_shared(
        f"encode.{dtype}",
        value.type.of(I32),
        [value],
        lambda inner, args: emit_encode(inner, args[0], dtype),
    )
    return b.resize(code, stored, signed=False)


def to_bits(b: FunctionBuilder, element: Element, dtype: PrimitiveType) -> Value:
    """The element's bit pattern as an integer of ``dtype.bits`` bits (pred: i8, 0 or 1)."""
    if isinstance(element, ComplexValue):
        half = integer(dtype.bits // 2)
        wide = integer(dtype.bits)
        low = b.resize(b.bitcast(element.real, half), wide, signed=False)
        high = b.resize(b.bitcast(element.imag, half), wide, signed=False)
        return b.or_(low, b.shl(high, dtype.bits // 2))
    pattern = integer(dtype.bits)
    stored = encode_stored(b, element, dtype)
    if stored.type.is_float:
        return b.bitcast(stored, pattern)
    return b.resize(stored, pattern, signed=False)


def from_bits(b: FunctionBuilder, bits: Value, dtype: PrimitiveType) -> Element:
    """The element with a bit pattern, given as an integer of ``dtype.bits`` bits."""
    if dtype.is_complex:
        half = integer(dtype.bits // 2)
        part = compute_type(dtype)
        low = b.resize(bits, half, signed=False)
        high = b.resize(b.lshr(bits, dtype.bits // 2), half, signed=False)
        return ComplexValue(b.bitcast(low, part), b.bitcast(high, part))
    stored = storage_type(dtype)
    if stored.is_float:
        return b.bitcast(bits, stored)
    return decode_stored(b, b.resize(bits, stored, signed=False), dtype)


def round_to(b: FunctionBuilder, value: Value, dtype: PrimitiveType) -> Value:
    """Rounds an f32 (or f64, for f64) result to the nearest value that ``dtype`` has."""
    if dtype is F32 or dtype is F64:
        return value
    if dtype is F16 and b.module.target.has_half_conversion:
        return b.refloat(b.refloat(value, HALF), FLOAT)
    if dtype is BF16 and b.module.target.has_bfloat_conversion:
        return b.refloat(b.refloat(value, BFLOAT), FLOAT)
    if dtype is BF16:
        return _round(b, value, dtype)
    return b.call_shared(
        f"round.{dtype}", value.type, [value], lambda inner, args: _round(inner, args[0], dtype)
    )


def round_to_bf16(b: FunctionBuilder, value: Value) -> Value:
    """Rounds an f32 to the nearest bf16; one that is NaN must have zeros in its low half.

    Five instructions. Results of arithmetic on bf16 values are such: their NaN is the default one,
    or has the payload of an operand.
    """
    if b.module.target.has_bfloat_conversion:
        return round_to(b, value, BF16)
    bits = b.bitcast(value, I32)
    half = b.add(b.and_(b.lshr(bits, 16), 1), 0x7FFF)
    return b.bitcast(b.and_(b.add(bits, half), -0x10000), FLOAT)


def _round(b: FunctionBuilder, value: Value, dtype: PrimitiveType) -> Value:
    return emit_decode(b, emit_encode(b, value, dtype), dtype)


def _as_value(b: FunctionBuilder, index: Value | int) -> Value:
    return index if isinstance(index, Value) else b.const(integer(64), index)


def _every_other(b: FunctionBuilder, both: Value, first: int) -> Value:
    if both.lanes == 2:
        return b.extract(both, first)
    return b.shuffle(both, both, tuple(range(first, both.lanes, 2)))


def _interleave(b: FunctionBuilder, element: ComplexValue) -> Value:
    lanes = element.lanes
    if lanes == 1:
        pair = Value("poison", vector(element.real.type, 2))
        return b.insert(b.insert(pair, element.real, 0), element.imag, 1)
    order = tuple(lane + part * lanes for lane in range(lanes) for part in (0, 1))
    return b.shuffle(element.real, element.imag, order)
