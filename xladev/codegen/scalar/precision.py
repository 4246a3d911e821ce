"""reduce-precision."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import FunctionBuilder, Value, integer
from xladev.codegen.scalar.elements import Element, real_of
from xladev.codegen.scalar.operation import ScalarOperation
from xladev.codegen.scalar.storage import from_bits, round_to, to_bits
from xladev.errors import CompileError
from xladev.hlo.dtype import F8E5M2, F8E5M2FNUZ, F16

# Mantissa and exponent bits by width of the pattern that is reduced.
_FIELDS = {16: (10, 5), 32: (23, 8), 64: (52, 11)}

# Types whose subnormals are subnormals of f16, where reduction keeps them as they are.
_AS_HALF = frozenset({F16, F8E5M2, F8E5M2FNUZ})


def emit_reduce_precision(
    b: FunctionBuilder, operation: ScalarOperation, args: Sequence[Element]
) -> Value:
    """Rounds to ``mantissa_bits`` (ties to even), then fits the exponent into ``exponent_bits``.

    Overflow gives infinity; what would be subnormal in the reduced format gives a signed zero; NaN
    stays as it is (XLA's `EmitReducePrecisionIR`, which reduces fp8 as f16).
    """
    x = real_of(args[0], "reduce-precision")
    if operation.dtype in _AS_HALF:
        reduced = from_bits(b, _reduce(b, to_bits(b, x, F16), operation), F16)
        value = real_of(reduced, "reduce-precision")
    else:
        value = b.bitcast(_reduce(b, b.bitcast(x, integer(x.type.bits)), operation), x.type)
    kept = b.select(b.fcmp("uno", x, x), x, value)
    return round_to(b, kept, operation.result)


def _reduce(b: FunctionBuilder, bits: Value, operation: ScalarOperation) -> Value:
    """The pattern of a float, reduced; meaningless for NaN."""
    exponent = _attribute(operation, "exponent_bits")
    mantissa = _attribute(operation, "mantissa_bits")
    have_mantissa, have_exponent = _FIELDS[bits.type.bits]
    if mantissa < have_mantissa:
        bits = _round_mantissa(b, bits, have_mantissa - mantissa)
    if exponent < have_exponent:
        bits = _fit_exponent(b, bits, exponent, have_mantissa, have_exponent)
    return bits


def _attribute(operation: ScalarOperation, name: str) -> int:
    value = operation.attributes.get(name)
    if not isinstance(value, int):
        raise CompileError(f"{operation.opcode} needs the integer attribute {name}")
    return value


def _round_mantissa(b: FunctionBuilder, bits: Value, drop: int) -> Value:
    """Rounds away the lowest ``drop`` bits; a carry into the exponent is the right result."""
    lowest = b.and_(b.lshr(bits, drop), 1)
    biased = b.add(bits, b.add(lowest, (1 << (drop - 1)) - 1))
    return b.and_(biased, -(1 << drop))


def _fit_exponent(
    b: FunctionBuilder, bits: Value, exponent: int, have_mantissa: int, have_exponent: int
) -> Value:
    width = bits.type.bits
    field = ((1 << have_exponent) - 1) << have_mantissa
    bias = (1 << (have_exponent - 1)) - 1
    reach = (1 << (exponent - 1)) - 1
    sign = b.and_(bits, 1 << (width - 1))
    held = b.and_(bits, field)
    overflows = b.icmp("ugt", held, (bias + reach) << have_mantissa)
    underflows = b.icmp("ule", held, (bias - reach) << have_mantissa)
    fitted = b.select(overflows, b.or_(sign, field), bits)
    return b.select(underflows, sign, fitted)
