"""Powers of two: splitting floats into exponent and mantissa, and scaling by 2**n."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xladev.codegen.llvm import (
    DOUBLE,
    FLOAT,
    I32,
    I64,
    FunctionBuilder,
    IrType,
    Operand,
    Value,
    vector,
)


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a float type is laid out in its bits.

    Attributes:
        float, integer: LLVM types of the float and of its bit pattern.
        mantissa: bits of the fraction.
        bias: of the exponent.
        root_half: bit pattern of sqrt(1/2).
    """

    float: IrType
    integer: IrType
    mantissa: int
    bias: int
    root_half: int

    @property
    def magic(self) -> int:
        """Three halves of the first power of two whose last place is one."""
        return 3 << (self.mantissa - 1)

    @property
    def magic_bits(self) -> int:
        """Bit pattern of `magic`."""
        return (self.bias + self.mantissa) << self.mantissa | 1 << (self.mantissa - 1)


_LAYOUTS: Mapping[str, _Layout] = MappingProxyType(
    {
        "float": _Layout(FLOAT, I32, 23, 127, 0x3F3504F3),
        "double": _Layout(DOUBLE, I64, 52, 1023, 0x3FE6A09E667F3BCD),
    }
)


def nearest_integer(
    b: FunctionBuilder, x: Value, factor: Operand | None = None
) -> tuple[Value, Value]:
    """``x * factor`` rounded to an integer, as float and as integer of its width.

    For magnitudes below 2**51 in f64, 2**22 in f32. Adding 1.5 * 2**52 (1.5 * 2**23) leaves the
    integer in the low mantissa bits: no conversion instruction, and no undefined result for NaN
    (whose integer is arbitrary).
    """
    layout = _LAYOUTS[x.type.element]
    magic = float(layout.magic)
    shifted = b.fadd(x, magic) if factor is None else b.multiply_add(x, factor, magic)
    return b.fsub(shifted, magic), b.sub(b.bitcast(shifted, layout.integer), layout.magic_bits)


def power_of_two(b: FunctionBuilder, n: Value) -> Value:
    """2**n as f64 for an i64, as f32 for an i32, in the range of normal exponents."""
    layout = _LAYOUTS["float" if n.type.bits == 32 else "double"]
    return b.bitcast(b.shl(b.add(n, layout.bias), layout.mantissa), layout.float)


def scale(b: FunctionBuilder, x: Value, n: Value) -> Value:
    """``x * 2**n`` for |n| < 2044 (252 in f32), rounded once: the first of two steps is exact."""
    first = b.ashr(n, 1)
    return b.fmul(b.fmul(x, power_of_two(b, first)), power_of_two(b, b.sub(n, first)))


def scaled_at_once(b: FunctionBuilder, x: Value, n: Value) -> Value | None:
    """``x * 2**n`` for any float n, rounded once; None if the target has no instruction for it."""
    if b.module.target.has_scaling and x.type == vector(FLOAT, 16):
        return b.scaled(x, n)
    return None


def split_mantissa(b: FunctionBuilder, x: Value) -> tuple[Value, Value]:
    """(m, k) with x = m * 2**k and m in [sqrt(1/2), sqrt(2)), for finite x > 0; k is a float.

    Subnormals are first scaled to normal numbers.
    """
    layout = _LAYOUTS[x.type.element]
    bits_up = layout.mantissa + 2
    tiny = b.fcmp("olt", x, 2.0 ** (1 - layout.bias))
    normal = b.select(tiny, b.fmul(x, 2.0**bits_up), x)
    bits = b.bitcast(normal, layout.integer)
    exponent = b.ashr(b.sub(bits, layout.root_half), layout.mantissa)
    mantissa = b.bitcast(b.sub(bits, b.shl(exponent, layout.mantissa)), layout.float)
    whole = b.cast("sitofp", exponent, layout.float)
    return mantissa, b.fadd(whole, b.select(tiny, b.const(x.type, -float(bits_up)), 0.0))
