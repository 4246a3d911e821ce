"""Whether products of bf16 can meet a denormal: from the least magnitudes of both operands.

A bf16 with exponent field ``e > 0`` is a multiple of ``2**(e - 134)``, so a product is one of
``2**(e + f - 268)``, and so are all sums of products, also where they are rounded. None of them is
a denormal f32 (below ``2**-126``, and not zero) if ``e + f >= 142`` for the least fields there are.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.codegen.llvm import I16, I64, FunctionBuilder, Value, vector
from xladev.platforms.cpu.codegen.products.kinds import ProductKind

LEAST_FIELDS = 142
_MAGNITUDE, _FRACTION_BITS = 0x7FFF, 7
_LANES = 32


class LeastArguments(NamedTuple):
    """What the function is called with; strides in bytes.

    Attributes:
        lines: first element of the first line.
        stride: from one line to the next.
        number: of lines.
        length: elements of a line, neighbours in memory.
        least: where the least exponent field goes, as an i64; large if all elements are zero.
    """

    lines: Value
    stride: Value
    number: Value
    length: Value
    least: Value


def call_least_exponent(b: FunctionBuilder, kind: ProductKind, arguments: LeastArguments) -> None:
    """Calls the function, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _emit_least(inner, LeastArguments(*values))

    b.call_microkernel(f"least_exponent.bf16.{kind.nbytes}", arguments, emit)


def has_no_denormals(b: FunctionBuilder, left: Value, right: Value) -> Value:
    """Whether that follows from the least fields of both operands, which are at two addresses."""
    fields = [b.load(I64, place) for place in (left, right)]
    normal = b.and_(*(b.icmp("sgt", field, 0) for field in fields))
    return b.and_(normal, b.icmp("sge", b.add(*fields), LEAST_FIELDS))


def _emit_least(b: FunctionBuilder, a: LeastArguments) -> None:
    """Magnitudes less one: zeros become the greatest of all."""
    wide = vector(I16, _LANES)
    whole = b.mul(b.udiv(a.length, _LANES), _LANES)
    initial = [b.const(wide, -1), b.const(I16, -1)]
    with b.carried_loop(0, a.number, initial=initial) as line:
        base = b.byte_address(a.lines, b.mul(line.index, a.stride))
        with b.carried_loop(0, whole, _LANES, initial=line.values[:1]) as part:
            place = b.element_address(base, part.index, I16)
            part.carry(_lesser(b, b.load(wide, place), part.values[0]))
        with b.carried_loop(whole, a.length, initial=line.values[1:]) as rest:
            place = b.element_address(base, rest.index, I16)
            rest.carry(_lesser(b, b.load(I16, place), rest.values[0]))
        line.carry(part.values[0], rest.values[0])
    lanes, single = line.values
    least = b.intrinsic("vector.reduce.umin", lanes, result=I16)
    least = b.resize(b.intrinsic("umin", least, single), I64, signed=False)
    b.store(b.lshr(b.add(least, 1), _FRACTION_BITS), a.least)


def _lesser(b: FunctionBuilder, stored: Value, least: Value) -> Value:
    return b.intrinsic("umin", b.sub(b.and_(stored, _MAGNITUDE), 1), least)
