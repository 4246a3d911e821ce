"""Integers whose bits are those of a wider one, cut by masks and shifts, as `bitcast-convert`.

Frameworks take numbers of 4 bits out of bytes in many ways: a mask and a shift that are stacked,
shifts by an array, up and down again for a sign. Here, each bit of such a value is followed to the
bit of the wider integer that it is, or to a constant. Where all pieces are found in their order, or
the other way round, the value is a `bitcast-convert`, which kernels know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.builder import make_instruction
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.rebuild import postorder
from xladev.hlo.shape import array

Bits = tuple[int, ...]
"""Where each bit comes from, the lowest first: its number in the wider integer, or a constant."""

ZERO, ONE = -1, -2
MOST_PIECES = 16
_MOST_CONSTANT = 64
"""Elements of arrays of constants that are looked at."""
_FOLDED = frozenset({
    "add", "broadcast", "concatenate", "constant", "convert", "iota", "multiply", "reshape",
    "reverse", "subtract",
})  # fmt: skip
PIECES: Mapping[tuple[int, bool], PrimitiveType] = MappingProxyType(
    {(2, False): dt.U2, (2, True): dt.S2, (4, False): dt.U4, (4, True): dt.S4,
     (8, False): dt.U8, (8, True): dt.S8}
)  # fmt: skip
"""Types by number of bits, and whether they have a sign."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """What the elements of an array are.

    Attributes:
        source: the array of wider integers; None if all are constants.
        bits: of the element at each number of the last dimension; of all elements if one.
        is_last: true if the last dimension is one that the wider integers do not have.
    """

    source: HloInstruction | None
    bits: tuple[Bits, ...]
    is_last: bool = False

    @property
    def is_splat(self) -> bool:
        """True if all elements are one constant."""
        return self.source is None and len(self.bits) == 1


def with_bit_pieces(value: HloInstruction) -> dict[HloInstruction, HloInstruction]:
    """What is such pieces, of all that a value is made of, and what it is instead."""
    found: dict[HloInstruction, HloInstruction] = {}
    seen, waiting = set[HloInstruction](), [value]
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        made = as_bitcast(each)
        if made is None:
            waiting += each.operands
        else:
            found[each] = made
    return found


def as_bitcast(value: HloInstruction) -> HloInstruction | None:
    """A value that is all pieces of wider integers, as a `bitcast-convert` of those.

    Its last dimension numbers the pieces. None if it is anything else, or one already.
    """
    shape = value.shape
    if not shape.is_array or not shape.rank or not 2 <= shape.dims[-1] <= MOST_PIECES:
        return None
    if value.opcode in ("bitcast-convert", "convert", "parameter", "reverse"):
        return None
    if not _is_whole(shape.element_type) or not _is_row_major(value):
        return None
    lanes = lanes_of(value, {})
    if lanes is None or lanes.source is None or not lanes.is_last:
        return None
    source, count = lanes.source, len(lanes.bits)
    nbits, rest = divmod(source.shape.element_type.bits, count)
    if rest or not _is_row_major(source):
        return None
    for is_signed in (False, True):
        kept = PIECES.get((nbits, is_signed))
        if kept is None or kept.bits > shape.element_type.bits:
            continue
        pieces = [_piece(n, nbits, shape.element_type.bits, is_signed) for n in range(count)]
        for order in (pieces, pieces[::-1]):
            if lanes.bits == tuple(order):
                return _bitcast(value, source, kept, order is not pieces)
    return None


def _piece(number: int, nbits: int, width: int, is_signed: bool) -> Bits:
    own = tuple(range(number * nbits, (number + 1) * nbits))
    return own + (own[-1] if is_signed else ZERO,) * (width - nbits)


def _bitcast(
    value: HloInstruction, source: HloInstruction, kept: PrimitiveType, is_reversed: bool
) -> HloInstruction:
    shape = array(kept, value.shape.dims)
    made = make_instruction("bitcast-convert", (source,), shape=shape, name=f"{value.name}.pieces")
    if is_reversed:
        attrs = {"dimensions": (value.shape.rank - 1,)}
        made = make_instruction("reverse", (made,), attrs, name=f"{value.name}.reverse")
    if kept is value.shape.element_type:
        return made
    return make_instruction("convert", (made,), shape=value.shape, name=f"{value.name}.convert")


def _is_whole(dtype: PrimitiveType) -> bool:
    return dtype.is_integral and dtype.kind is not dt.Kind.PRED and dtype.bits >= 8


def _is_row_major(value: HloInstruction) -> bool:
    return value.shape.minor_to_major == tuple(range(value.shape.rank - 1, -1, -1))


def lanes_of(value: HloInstruction, known: dict[HloInstruction, Lanes | None]) -> Lanes | None:
    """What the elements of a value are: pieces of the wider one that it is made of, or its own.

    Args:
        value: an array.
        known: values that were looked at before.

    Returns:
        None if its elements are no integers of whole bytes.
    """
    if value in known:
        return known[value]
    known[value] = None
    if not value.shape.is_array or not _is_whole(value.shape.element_type):
        return None
    found = _constants(value)
    if found is None:
        rule = _RULES.get(value.opcode)
        found = rule(value, known) if rule else None
    if found is None:
        found = Lanes(value, (tuple(range(value.shape.element_type.bits)),))
    known[value] = found
    return found


def _constants(value: HloInstruction) -> Lanes | None:
    """Elements that are constants, and differ along the last dimension at most."""
    shape = value.shape
    if value.opcode == "broadcast" and not value["dimensions"]:
        return _constants(value.operands[0])
    if shape.size > _MOST_CONSTANT or (shape.rank and shape.size != shape.dims[-1]):
        return None
    order = tuple(postorder([value]))
    if any(i.opcode not in _FOLDED for i in order):
        return None
    computation = HloComputation("constants", order, value)
    numbers = np.asarray(HloEvaluator().call(computation, [])).reshape(-1)
    width = shape.element_type.bits
    bits = tuple(
        tuple(ONE if int(n) >> place & 1 else ZERO for place in range(width)) for n in numbers
    )
    same = len(set(bits)) == 1
    return Lanes(None, bits[:1] if same else bits, not same)


def _broadcast(value: HloInstruction, known: dict[HloInstruction, Lanes | None]) -> Lanes | None:
    operand, dims = value.operands[0], value["dimensions"]
    found, rank = lanes_of(operand, known), value.shape.rank
    if found is None:
        return None
    if found.source is None:
        is_along = found.is_splat or dims[-1:] == (rank - 1,)
        return found if is_along else None
    if found.is_last or rank != operand.shape.rank + 1 or dims != tuple(range(rank - 1)):
        return None
    return Lanes(found.source, found.bits * value.shape.dims[-1], is_last=True)


def _reshape(value: HloInstruction, known: dict[HloInstruction, Lanes | None]) -> Lanes | None:
    """One dimension of one element more, or less."""
    operand = value.operands[0]
    found = lanes_of(operand, known)
    if found is None or found.is_splat or found.source is None:
        return found if found and found.is_splat else None
    ours, theirs = value.shape.dims, operand.shape.dims
    if not found.is_last and ours == (*theirs, 1):
        return Lanes(found.source, found.bits, is_last=True)
    if found.is_last and theirs == (*ours, 1):
        return Lanes(found.source, found.bits)
    return None


def _concatenate(value: HloInstruction, known: dict[HloInstruction, Lanes | None]) -> Lanes | None:
    if value["dimensions"] != (value.shape.rank - 1,) or value.shape.dims[-1] > MOST_PIECES:
        return None
    parts = [lanes_of(o, known) for o in value.operands]
    found = [p for p in parts if p is not None and p.is_last and p.source is not None]
    if len(found) != len(parts) or len({p.source for p in found}) != 1:
        return None
    return Lanes(found[0].source, tuple(b for p in found for b in p.bits), is_last=True)


def _elementwise(value: HloInstruction, known: dict[HloInstruction, Lanes | None]) -> Lanes | None:
    parts = [lanes_of(o, known) for o in value.operands]
    found = [p for p in parts if p is not None]
    if len(found) != len(parts):
        return None
    sources = {p.source for p in found if p.source is not None}
    arrays = [p for p in found if not p.is_splat]
    if len(sources) > 1 or len({(p.is_last, len(p.bits)) for p in arrays}) > 1:
        return None
    first = arrays[0] if arrays else found[0]
    combine = _COMBINE[value.opcode]
    made: list[Bits] = []
    for n in range(len(first.bits)):
        each = combine(value, [p.bits[0 if p.is_splat else n] for p in found])
        if each is None:
            return None
        made.append(each)
    return Lanes(next(iter(sources), None), tuple(made), first.is_last)


def _logical(table: Mapping[tuple[int, int], int | None]) -> Callable[..., Bits | None]:
    """Of a constant and any bit; what the table has not is not one bit of the source."""

    def combine(_: HloInstruction, operands: list[Bits]) -> Bits | None:
        made: list[int] = []
        for pair in zip(*operands, strict=True):
            constant, other = min(pair), max(pair)
            if constant >= 0:
                return None
            kept = table.get((constant, other if other < 0 else 0))
            if kept is None:
                return None
            made.append(other if kept == _OTHER else kept)
        return tuple(made)

    return combine


_OTHER = 0
"""In tables: the bit that is no constant, or either."""
_AND = {(ZERO, 0): ZERO, (ZERO, ZERO): ZERO, (ONE, 0): _OTHER, (ONE, ZERO): ZERO, (ONE, ONE): ONE}
_OR = {(ZERO, 0): _OTHER, (ZERO, ZERO): ZERO, (ONE, 0): ONE, (ONE, ZERO): ONE, (ONE, ONE): ONE}


def _shift(i: HloInstruction, operands: list[Bits]) -> Bits | None:
    bits, by = operands
    if any(b >= 0 for b in by):
        return None
    width = len(bits)
    amount = min(sum(1 << n for n, b in enumerate(by) if b == ONE), width)
    if i.opcode == "shift-left":
        return (ZERO,) * amount + bits[: width - amount]
    filled = bits[-1] if i.opcode == "shift-right-arithmetic" else ZERO
    return bits[amount:] + (filled,) * amount


def _converted(i: HloInstruction, operands: list[Bits]) -> Bits | None:
    (bits,), width = operands, i.shape.element_type.bits
    filled = bits[-1] if i.operands[0].shape.element_type.is_signed else ZERO
    return (bits + (filled,) * max(0, width - len(bits)))[:width]


_COMBINE: Mapping[str, Callable[..., Bits | None]] = MappingProxyType(
    {
        "and": _logical(_AND),
        "or": _logical(_OR),
        "convert": _converted,
        "shift-left": _shift,
        "shift-right-logical": _shift,
        "shift-right-arithmetic": _shift,
    }
)
_RULES: Mapping[
    str, Callable[[HloInstruction, dict[HloInstruction, Lanes | None]], Lanes | None]
] = MappingProxyType(
    {
        **dict.fromkeys(_COMBINE, _elementwise),
        "broadcast": _broadcast,
        "reshape": _reshape,
        "concatenate": _concatenate,
    }
)
