"""Numbers of bf16 by the instruction that rounds 32 of them, where none can be a denormal.

The instruction takes denormals of f32 for zeros. A whole number times a scale is zero or at least
as large as the scale, so it is no denormal where the scale is none. That is looked at once for a
run of lines that have the same scales. Sums of small whole numbers need no rounding.
"""

from __future__ import annotations

from collections.abc import Callable

from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.pieces import (
    NUMBERS,
    concatenated,
    value_in_order,
    value_side_by_side,
)
from xladev.codegen.elemental.vectors import NotInVectorsError, VectorEmitter
from xladev.codegen.index import Index
from xladev.codegen.llvm import FLOAT, I32, FunctionBuilder, IrType, Value, vector
from xladev.codegen.scalar.elements import Element, real_of
from xladev.codegen.scalar.elementwise import emit_elementwise
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction

LANES = 32
"""Numbers that are rounded at once."""
_LEAST_NORMAL = 1 << 24
"""Bits of the least normal f32, up by one place so that the sign is gone."""
_HIGH = -0x10000
"""The upper half of a word."""
_MOST_NBITS = 8
"""Bits of whole numbers that bf16 has all of."""
_MOST_EXACT = 256
"""Up to which bf16 has all whole numbers."""
_MOVES = frozenset({"broadcast", "copy", "reshape", "reverse", "slice", "transpose"})
_KEPT = _MOVES | {"convert"}
_SUMS = frozenset({"add", "negate", "subtract"})


def round_in_vectors(b: FunctionBuilder, value: Value) -> Value:
    """f32 rounded to the nearest bf16, denormals to zeros; for targets with `has_bfloat_products`.

    There are a multiple of `LANES` lanes, each `LANES` of which come in the order of their numbers
    modulo 2: so each half is one instruction more.
    """
    half = LANES // 2
    floats = IrType(FLOAT.element, half)
    kept, symbol = IrType("bfloat", LANES), "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
    words = vector(I32, half)
    b.module.declare_intrinsic(symbol, kept, (floats.text, floats.text))
    made: list[Value] = []
    for start in range(0, value.lanes, LANES):
        low, high = (
            b.shuffle(value, value, tuple(range(n, n + half))) for n in (start, start + half)
        )
        rounded = b.emit(kept, f"call {kept} @{symbol}({high}, {low})")
        pairs = b.emit(words, f"bitcast {rounded} to {words.text}")
        made += [b.bitcast(x, FLOAT) for x in (b.shl(pairs, 16), b.and_(pairs, _HIGH))]
    return concatenated(b, made)


def in_order_of_rounding(b: FunctionBuilder, value: Value) -> Value:
    """Lanes in the order in which `round_in_vectors` leaves them."""
    return _each(b, value, lambda part: value_in_order(b, part, 2))


def in_own_order(b: FunctionBuilder, value: Value) -> Value:
    """Lanes that are in that order in their own again."""
    return _each(b, value, lambda part: value_side_by_side(b, part, 2))


def _each(b: FunctionBuilder, value: Value, change: Callable[[Value], Value]) -> Value:
    starts = range(0, value.lanes, LANES)
    parts = [b.shuffle(value, value, tuple(range(n, n + LANES))) for n in starts]
    return concatenated(b, [change(part) for part in parts])


def whole_range(value: HloInstruction) -> tuple[int, int] | None:
    """The least and the largest number that a value may be, if it is whole; None if it may not."""
    dtype = value.shape.element_type
    if dtype.is_integral and dtype.bits <= _MOST_NBITS:
        return (
            (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1)
            if dtype.is_signed
            else (0, (1 << dtype.bits) - 1)
        )
    if dtype.is_integral or (value.opcode not in _KEPT and value.opcode not in _SUMS):
        return None
    found = [whole_range(o) for o in value.operands]
    ranges = [x for x in found if x is not None]
    if len(ranges) != len(found):
        return None
    (low, high), *others = ranges
    if value.opcode == "negate":
        low, high = -high, -low
    elif others:
        (least, most), is_sum = others[0], value.opcode == "add"
        low, high = (low + least, high + most) if is_sum else (low - most, high - least)
    is_exact = dtype in NUMBERS and max(-low, high) <= _MOST_EXACT
    return (low, high) if is_exact else None


def scaled_of(value: HloInstruction) -> tuple[HloInstruction, HloInstruction] | None:
    """The product of whole numbers and scales that a value of bf16 is, moved, and the scales."""
    while value.opcode in _MOVES:
        value = value.operands[0]
    if value.opcode != "multiply" or value.shape.element_type is not dt.BF16:
        return None
    left, right = value.operands
    is_left, is_right = (whole_range(o) is not None for o in value.operands)
    if is_left == is_right:
        return None
    return value, right if is_left else left


class RoundingEmitter(VectorEmitter):
    """Vectors of numbers whose product is rounded by the instruction.

    Args:
        single: emits what is the same in all lanes.
        lanes: length of the vectors.
        product, scales: what `scaled_of` gave.

    Attributes:
        found: the scales of the run, once it began.
        is_beginning: true in code for the first line of a run.
        has_normal_scales: true in code that runs only where no scale is a denormal.
    """

    def __init__(
        self,
        single: ElementalEmitter,
        lanes: int,
        product: HloInstruction,
        scales: HloInstruction,
    ) -> None:
        super().__init__(single, lanes)
        self._product, self._scales = product, scales
        self.found: list[Element] = []
        self.is_beginning = self.has_normal_scales = False

    def _elementwise(self, instruction: HloInstruction, index: Index) -> Element:
        is_product = instruction is self._product
        is_sum = instruction.opcode in _SUMS and instruction.shape.element_type.is_float
        is_sum = is_sum and whole_range(instruction) is not None
        if not is_product and not is_sum:
            return super()._elementwise(instruction, index)
        if is_product:
            self._note_scale(index)
            if not self.has_normal_scales:
                made = real_of(super()._elementwise(instruction, index), "a product")
                return in_order_of_rounding(self.b, made)
        operands = [self.element(o, self.operand_index(o, index)) for o in instruction.operands]
        types = [dt.F32] * len(operands)
        made = real_of(
            emit_elementwise(self.b, instruction.opcode, types, dt.F32, operands), "a product"
        )
        return round_in_vectors(self.b, made) if is_product else made

    def _note_scale(self, index: Index) -> None:
        scale = self.element(self._scales, self.operand_index(self._scales, index))
        if self.is_beginning:
            self.found.append(scale)
        elif not any(scale is each for each in self.found):
            raise NotInVectorsError("scales that differ within a run")

    def are_normal(self) -> Value:
        """An i1: true if none of the scales that were found is a denormal."""
        b = self.b
        small: Value | None = None
        for scale in self.found:
            bits = b.bitcast(real_of(scale, "a scale"), I32)
            each = b.icmp("ult", b.sub(b.shl(bits, 1), 1), _LEAST_NORMAL - 1)
            small = each if small is None else b.or_(small, each)
        assert small is not None
        return b.xor(b.any(small), 1)


def rounding_emitter(
    single: ElementalEmitter, lanes: int, right: HloInstruction
) -> RoundingEmitter | None:
    """An emitter for the right operand of a product; None if its numbers are rounded otherwise."""
    found = scaled_of(right)
    if found is None or not single.b.module.target.has_bfloat_products or lanes % LANES:
        return None
    return RoundingEmitter(single, lanes, *found)
