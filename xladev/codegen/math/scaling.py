"""Powers of two: splitting f64 into exponent and mantissa, and scaling by 2**n."""

from __future__ import annotations

from xladev.codegen.llvm import DOUBLE, I64, FunctionBuilder, Operand, Value

_MAGIC = 6755399441055744.0
_MAGIC_BITS = 0x4338000000000000
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD


def nearest_integer(
    b: FunctionBuilder, x: Value, factor: Operand | None = None
) -> tuple[Value, Value]:
    """``x * factor`` rounded to an integer, as f64 and as i64, for magnitudes below 2**51.

    Adding 1.5 * 2**52 leaves the integer in the low mantissa bits: no conversion instruction, and
    no undefined result for NaN (whose integer is arbitrary).
    """
    shifted = b.fadd(x, _MAGIC) if factor is None else b.fma(x, factor, _MAGIC)
    whole = b.fsub(shifted, _MAGIC)
    return whole, b.sub(b.bitcast(shifted, I64), _MAGIC_BITS)


def power_of_two(b: FunctionBuilder, n: Value) -> Value:
    """2**n as f64 for an i64 in the range of normal exponents."""
    return b.bitcast(b.shl(b.add(n, 1023), 52), DOUBLE)


def scale(b: FunctionBuilder, x: Value, n: Value) -> Value:
    """``x * 2**n`` for |n| < 2044, rounded once: the first of two steps is exact."""
    first = b.ashr(n, 1)
    return b.fmul(b.fmul(x, power_of_two(b, first)), power_of_two(b, b.sub(n, first)))


def split_mantissa(b: FunctionBuilder, x: Value) -> tuple[Value, Value]:
    """(m, k) with x = m * 2**k and m in [sqrt(1/2), sqrt(2)), for finite x > 0; k is f64.

    Subnormals are first scaled to normal numbers.
    """
    tiny = b.fcmp("olt", x, 2.0**-1022)
    normal = b.select(tiny, b.fmul(x, 2.0**54), x)
    bits = b.bitcast(normal, I64)
    exponent = b.ashr(b.sub(bits, _SQRT_HALF_BITS), 52)
    mantissa = b.bitcast(b.sub(bits, b.shl(exponent, 52)), DOUBLE)
    whole = b.cast("sitofp", exponent, DOUBLE)
    return mantissa, b.fadd(whole, b.select(tiny, b.const(x.type, -54.0), 0.0))
