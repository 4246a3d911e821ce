"""Elements of opcodes that move data by rules known now: each is an index mapping."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.codegen.elemental.choose import choose
from xladev.codegen.elemental.emitter import ElementalEmitter, ElementRule
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import I32, I64, Value, integer
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import Element
from xladev.codegen.scalar.storage import from_bits, to_bits
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction


def _broadcast(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    source = i.operands[0].shape.dims
    mapped = tuple(
        0 if size == 1 else index[d] for d, size in zip(i["dimensions"], source, strict=True)
    )
    return e.operand(i, 0, mapped)


def _transpose(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    mapped: list[IndexValue] = [0] * len(index)
    for result_dim, operand_dim in enumerate(i["dimensions"]):
        mapped[operand_dim] = index[result_dim]
    return e.operand(i, 0, tuple(mapped))


def _reshape(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    return e.operand(i, 0, reshaped_index(e, index, i.shape.dims, i.operands[0].shape.dims))


def reshaped_index(
    e: ElementalEmitter, index: Index, dims: tuple[int, ...], source: tuple[int, ...]
) -> Index:
    """Coordinates in ``source`` dimensions of the element at ``index`` of ``dims``.

    Dimensions are matched in groups of equal product, so that those that stay cost nothing.
    """
    mapped: list[IndexValue] = []
    a = b = 0
    while a < len(dims) or b < len(source):
        a_end, b_end = _next_group(dims, source, a, b)
        ours = [d for d in range(a, a_end) if dims[d] != 1]
        theirs = [d for d in range(b, b_end) if source[d] != 1]
        group: Index
        if len(ours) == len(theirs) == 1:
            group = (index[ours[0]],)
        else:
            position = e.at.linear([index[d] for d in ours], [dims[d] for d in ours])
            group = e.at.delinear(position, [source[d] for d in theirs])
        at = dict(zip(theirs, group, strict=True))
        mapped.extend(at.get(d, 0) for d in range(b, b_end))
        a, b = a_end, b_end
    return tuple(mapped)


def _next_group(dims: tuple[int, ...], source: tuple[int, ...], a: int, b: int) -> tuple[int, int]:
    """Ends of the shortest groups from ``a`` and ``b`` whose products are equal."""
    left = right = 1
    a_end, b_end = a, b
    while True:
        if a_end < len(dims) and (left <= right or b_end == len(source)):
            left *= dims[a_end]
            a_end += 1
        elif b_end < len(source):
            right *= source[b_end]
            b_end += 1
        done = left == right and (a_end > a or b_end > b)
        if done or (a_end == len(dims) and b_end == len(source)):
            return a_end, b_end


def _same_index(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    return e.operand(i, 0, index)


def _reverse(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    flipped = i["dimensions"]
    return e.operand(
        i,
        0,
        tuple(e.at.sub(i.shape.dims[d] - 1, x) if d in flipped else x for d, x in enumerate(index)),
    )


def _slice(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    return e.operand(
        i,
        0,
        tuple(
            e.at.add(e.at.mul(x, s.stride), s.start) for x, s in zip(index, i["slice"], strict=True)
        ),
    )


def _pad(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    inside: list[Value | bool] = []
    mapped: list[IndexValue] = []
    for x, size, p in zip(index, i.operands[0].shape.dims, i["padding"], strict=True):
        if not (p.low or p.high or p.interior):
            mapped.append(x)
            continue
        step = p.interior + 1
        shifted = e.at.sub(x, p.low)
        extent = (size - 1) * step + 1 if size else 0
        inside.append(e.at.within(shifted, 0, extent))
        if step > 1:
            hole = e.at.uniform(e.at.rem(shifted, step))
            inside.append(hole == 0 if isinstance(hole, int) else e.b.icmp("eq", hole, 0))
            shifted = e.at.div(shifted, step)
        mapped.append(shifted)
    return choose(
        e,
        e.at.all_of(inside),
        lambda: e.operand(i, 0, tuple(mapped)),
        lambda: e.operand(i, 1, ()),
    )


def _concatenate(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    (axis,) = i["dimensions"]
    parts: list[tuple[int, int]] = []
    start = 0
    for operand in i.operands:
        parts.append((start, start + operand.shape.dims[axis]))
        start = parts[-1][1]

    def read(number: int) -> Element:
        local = e.at.sub(index[axis], parts[number][0])
        return e.operand(i, number, (*index[:axis], local, *index[axis + 1 :]))

    def among(low: int, high: int) -> Element:
        """The element, known to come from one of the operands low..high-1; halves each time."""
        if high - low == 1:
            return read(low)
        middle = (low + high) // 2
        before = e.at.within(index[axis], 0, parts[middle][0])
        return choose(e, before, lambda: among(low, middle), lambda: among(middle, high))

    return among(0, len(parts))


def _iota(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    x = e.at.value(index[i["iota_dimension"]])
    dtype = i.shape.element_type
    if dtype.is_integral and dtype.bits == 64:
        return x
    if i.shape.dims[i["iota_dimension"]] < 2**31 and dtype is not dt.F64:
        narrow = e.b.resize(x, I32, signed=True)
        return narrow if dtype is dt.S32 else emit_convert(e.b, narrow, dt.S32, dtype)
    return emit_convert(e.b, e.b.resize(x, I64, signed=True), dt.S64, dtype)


def _bitcast_convert(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    """Same width: bits of the element; wider or narrower: the minor dimension holds the pieces."""
    source, target = i.operands[0].shape.element_type, i.shape.element_type
    if source.bits == target.bits:
        return from_bits(e.b, to_bits(e.b, e.operand(i, 0, index), source), target)
    if source.bits > target.bits:
        whole = to_bits(e.b, e.operand(i, 0, index[:-1]), source)
        shift = e.at.mul(index[-1], target.bits)
        amount: Value | int = shift
        if isinstance(shift, Value):
            amount = e.b.resize(shift, whole.type, signed=False)
        piece = e.b.resize(e.b.lshr(whole, amount), integer(target.bits), signed=False)
        return from_bits(e.b, piece, target)
    wide = integer(target.bits)
    total = e.b.const(wide, 0)
    for number in range(target.bits // source.bits):
        piece = to_bits(e.b, e.operand(i, 0, (*index, number)), source)
        shifted = e.b.shl(e.b.resize(piece, wide, signed=False), number * source.bits)
        total = e.b.or_(total, shifted)
    return from_bits(e.b, total, target)


def _bitcast(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    """The same bytes under another shape: linear positions in memory order agree."""
    operand = i.operands[0].shape
    ours = [i.shape.dims[d] for d in reversed(i.shape.minor_to_major)]
    theirs = [operand.dims[d] for d in reversed(operand.minor_to_major)]
    physical = tuple(index[d] for d in reversed(i.shape.minor_to_major))
    found = reshaped_index(e, physical, tuple(ours), tuple(theirs))
    mapped: list[IndexValue] = [0] * operand.rank
    for x, d in zip(found, reversed(operand.minor_to_major), strict=True):
        mapped[d] = x
    return e.operand(i, 0, tuple(mapped))


MOVEMENT_RULES: Mapping[str, ElementRule] = MappingProxyType(
    {
        "broadcast": _broadcast,
        "transpose": _transpose,
        "reshape": _reshape,
        "copy": _same_index,
        "opt-barrier": _same_index,
        "reverse": _reverse,
        "slice": _slice,
        "pad": _pad,
        "concatenate": _concatenate,
        "iota": _iota,
        "bitcast-convert": _bitcast_convert,
        "bitcast": _bitcast,
    }
)
"""Code by opcode."""
