"""Microkernels that bring the elements of a matrix near 1, and values back: by powers of two.

As LAPACK's dgeev does where the largest element is so large or so small that products of elements
would overflow or vanish. A power of two costs no bit.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.codegen.llvm import (
    DOUBLE,
    FLOAT,
    I32,
    I64,
    PTR,
    VOID,
    FunctionBuilder,
    IrType,
    ModuleBuilder,
    Value,
)


class _Format(NamedTuple):
    """Where a number has its exponent, and between which largest elements nothing is scaled.

    Attributes:
        bits: type of a number's bits.
        mantissa: bits of them below the exponent.
        bias: the exponent of 1.
        least, most: dgeev's smlnum, which is sqrt(dlamch('S')) / dlamch('P'), and 1 / smlnum.
    """

    bits: IrType
    mantissa: int
    bias: int
    least: float
    most: float


def _format(bits: IrType, mantissa: int, bias: int) -> _Format:
    least = 2.0 ** ((1 - bias) / 2 + mantissa)
    return _Format(bits, mantissa, bias, least, 1 / least)


_FORMATS = {FLOAT: _format(I32, 23, 127), DOUBLE: _format(I64, 52, 1023)}


def call_find_scale(
    b: FunctionBuilder, element: IrType, source: Value, count: int, factors: Value
) -> None:
    """Writes what to multiply numbers by, so that the largest is near 1, and the inverse of that.

    Both are 1 where the largest number is neither huge nor tiny. Numbers are finite.

    Args:
        b: writes the kernel.
        element: float or double.
        source: the first number.
        count: how many there are.
        factors: where to write two numbers.
    """

    def emit(inner: FunctionBuilder, a: tuple[Value, ...]) -> None:
        _emit_find(inner, element, *a)

    arguments = (source, b.const(I64, count), factors)
    b.call_microkernel(f"lapack.find_scale.{element.mangled}", arguments, emit, is_long=False)


def _emit_find(
    b: FunctionBuilder, element: IrType, source: Value, count: Value, factors: Value
) -> None:
    with b.carried_loop(0, count, initial=(b.const(element, 0.0),)) as loop:
        number = b.load(element, b.element_address(source, loop.index, element))
        size = b.intrinsic("fabs", number)
        (largest,) = loop.values
        loop.carry(b.select(b.fcmp("ogt", size, largest), size, largest))
    (largest,) = loop.values
    f = _FORMATS[element]
    one = b.const(f.bits, f.bias)
    exponent = b.lshr(b.bitcast(largest, f.bits), f.mantissa)
    exponent = b.intrinsic("smin", b.intrinsic("smax", exponent, 1), 2 * f.bias - 1)
    is_odd = b.or_(b.fcmp("olt", largest, f.least), b.fcmp("ogt", largest, f.most))
    exponent = b.select(is_odd, exponent, one)
    for n, each in enumerate((b.sub(b.const(f.bits, 2 * f.bias), exponent), exponent)):
        power = b.bitcast(b.shl(each, f.mantissa), element)
        b.store(power, b.element_address(factors, n, element))


def call_scale(
    b: FunctionBuilder, element: IrType, place: Value, count: int, factors: Value, which: int
) -> None:
    """Multiplies numbers by a factor of `call_find_scale`, or by the inverse: ``which`` is 0 or 1.

    Nothing is written where that is 1.
    """

    def emit(inner: FunctionBuilder, a: tuple[Value, ...]) -> None:
        _emit_scale(inner, element, *a)

    arguments = (place, b.const(I64, count), b.element_address(factors, which, element))
    b.call_microkernel(f"lapack.scale.{element.mangled}", arguments, emit, is_long=False)


def _emit_scale(
    b: FunctionBuilder, element: IrType, place: Value, count: Value, factor: Value
) -> None:
    by = b.load(element, factor)
    with b.when(b.fcmp("une", by, 1.0)), b.loop(0, count) as n:
        at = b.element_address(place, n, element)
        b.store(b.fmul(b.load(element, at), by), at)


def call_all_scalings(module: ModuleBuilder) -> None:
    """Adds a function that calls each microkernel; nobody is meant to run it."""
    b = module.function("scalings", VOID)
    null = Value("null", PTR)
    for element in _FORMATS:
        call_find_scale(b, element, null, 1, null)
        call_scale(b, element, null, 1, null, 0)
    b.ret()
