"""Comparison of elements: IEEE and total order, integers by their sign, complex for equality."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import FunctionBuilder, Value, integer
from xladev.codegen.scalar.elements import ComplexValue, Element, real_of
from xladev.codegen.scalar.operation import ScalarOperation
from xladev.errors import UnsupportedError

# Direction -> (float predicate, signed predicate, unsigned predicate). NE holds for NaN.
_PREDICATES = {
    "EQ": ("oeq", "eq", "eq"),
    "NE": ("une", "ne", "ne"),
    "LT": ("olt", "slt", "ult"),
    "LE": ("ole", "sle", "ule"),
    "GT": ("ogt", "sgt", "ugt"),
    "GE": ("oge", "sge", "uge"),
}


def emit_compare(b: FunctionBuilder, operation: ScalarOperation, args: Sequence[Element]) -> Value:
    """pred of ``compare``: attribute ``direction``, and ``type`` (TOTALORDER for floats)."""
    direction = str(operation.attributes["direction"])
    ordered, signed, unsigned = _PREDICATES[direction]
    left, right = args
    if isinstance(left, ComplexValue) and isinstance(right, ComplexValue):
        return _compare_complex(b, direction, left, right)
    x, y = real_of(left, "compare"), real_of(right, "compare")
    if not operation.dtype.is_float:
        return b.icmp(signed if operation.dtype.is_signed else unsigned, x, y)
    if operation.attributes.get("type") == "TOTALORDER":
        return b.icmp(signed, total_order_key(b, x), total_order_key(b, y))
    return b.fcmp(ordered, x, y)


def total_order_key(b: FunctionBuilder, x: Value) -> Value:
    """An integer that sorts like -NaN < -inf < ... < -0 < +0 < ... < +inf < +NaN."""
    bits = b.bitcast(x, integer(x.type.bits))
    flipped = b.lshr(b.ashr(bits, x.type.bits - 1), 1)
    return b.xor(bits, flipped)


def _compare_complex(
    b: FunctionBuilder, direction: str, left: ComplexValue, right: ComplexValue
) -> Value:
    if direction not in ("EQ", "NE"):
        raise UnsupportedError(f"complex numbers have no order: compare direction {direction}")
    predicate = _PREDICATES[direction][0]
    real = b.fcmp(predicate, left.real, right.real)
    imag = b.fcmp(predicate, left.imag, right.imag)
    return b.and_(real, imag) if direction == "EQ" else b.or_(real, imag)
