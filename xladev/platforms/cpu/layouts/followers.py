"""What can take and give arrays whose channels are their last dimension, opcode by opcode.

A way says of an instruction which dimension of its result, and of each operand, is moved behind all
others; None is an operand that stays as it is. A dimension that is the last one anyway moves
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import array
from xladev.passes.expansions.emit import Emitter
from xladev.platforms.cpu.layouts.orders import Span, order_with_last, place_of, with_last


@dataclass(frozen=True, slots=True)
class Way:
    """Dimensions that are moved.

    Attributes:
        result: of the result.
        operands: of each operand.
    """

    result: Span
    operands: tuple[Span | None, ...]


def following(i: HloInstruction, number: int, channels: Span) -> Way | None:
    """How an instruction takes an operand with dimensions moved; None if it cannot.

    Args:
        i: the instruction.
        number: of the operand.
        channels: the operand's dimensions.
    """
    if i.op.elementwise:
        return _elementwise(i, channels)
    known = _WAYS.get(i.opcode)
    return None if known is None or number else known(i, channels)


def written(
    way: Way, e: Emitter, i: HloInstruction, operands: Sequence[HloInstruction]
) -> HloInstruction:
    """The instruction on operands whose dimensions are moved."""
    dims = with_last(i.shape.dims, way.result)
    if i.opcode == "reshape":
        return e.reshape(operands[0], dims)
    if i.opcode == "transpose":
        return e.transpose(operands[0], _moves(i, way))
    change = _ATTRS.get(i.opcode)
    attrs = dict(i.attrs) if change is None else {**i.attrs, **change(i, way)}
    shape = array(i.shape.element_type, dims)
    return e.op(i.opcode, *operands, shape=shape, name=i.name, note=i.note, **attrs)


def _elementwise(i: HloInstruction, channels: Span) -> Way | None:
    dims = i.shape.dims
    if any(o.shape.dims not in (dims, ()) for o in i.operands):
        return None
    return Way(channels, tuple(channels if o.shape.rank else None for o in i.operands))


def _alike(i: HloInstruction, channels: Span) -> Way | None:
    """Dimensions of the result are those of the operand; what else there is are scalars."""
    if any(o.shape.rank for o in i.operands[1:]):
        return None
    return Way(channels, (channels, *(None for _ in i.operands[1:])))


def _concatenated(i: HloInstruction, channels: Span) -> Way:
    return Way(channels, tuple(channels for _ in i.operands))


def _reduced(i: HloInstruction, channels: Span) -> Way | None:
    """Of one array: the others that are left keep their order, and so do those that are moved."""
    if len(i.operands) != 2:
        return None
    kept = [d for d in range(i.operands[0].shape.rank) if d not in i["dimensions"]]
    first = sum(d < channels.first for d in kept)
    return Way(Span(first, sum(d < channels.end for d in kept)), (channels, None))


def _transposed(i: HloInstruction, channels: Span) -> Way | None:
    """If they stay neighbours."""
    found = [n for n, d in enumerate(i["dimensions"]) if channels.holds(d)]
    span = Span(found[0], found[0] + channels.width)
    kept = tuple(i["dimensions"][d] for d in range(*span))
    return Way(span, (channels,)) if kept == tuple(range(*channels)) else None


def _reshaped(i: HloInstruction, channels: Span) -> Way | None:
    """If as many elements are before them, and of them, in as many or more or fewer dimensions."""
    operand, dims = i.operands[0].shape.dims, i.shape.dims
    before, count = prod(operand[: channels.first]), prod(operand[channels.first : channels.end])
    ends = [prod(dims[:d]) for d in range(len(dims) + 1)]
    if count < 2 or before not in ends or before * count not in ends:
        return None
    first = len(ends) - 1 - ends[::-1].index(before)
    return Way(Span(first, ends.index(before * count)), (channels,))


_WAYS: Mapping[str, Callable[[HloInstruction, Span], Way | None]] = MappingProxyType(
    {
        "concatenate": _concatenated,
        "copy": _alike,
        "pad": _alike,
        "reduce": _reduced,
        "reduce-window": _alike,
        "reshape": _reshaped,
        "reverse": _alike,
        "slice": _alike,
        "transpose": _transposed,
    }
)


def _moves(i: HloInstruction, way: Way) -> tuple[int, ...]:
    (channels,) = way.operands
    assert channels is not None
    rank = i.shape.rank
    kept = order_with_last(rank, way.result)
    return tuple(place_of(i["dimensions"][d], channels, rank) for d in kept)


def _moved_parts(name: str) -> Callable[[HloInstruction, Way], dict[str, Any]]:
    """An attribute with a part for each dimension."""
    return lambda i, way: {name: with_last(i[name], way.result)}


def _moved_numbers(i: HloInstruction, way: Way) -> dict[str, Any]:
    """An attribute of numbers of the operand's dimensions."""
    channels, rank = way.operands[0], i.operands[0].shape.rank
    assert channels is not None
    return {"dimensions": tuple(sorted(place_of(d, channels, rank) for d in i["dimensions"]))}


_ATTRS: Mapping[str, Callable[[HloInstruction, Way], dict[str, Any]]] = MappingProxyType(
    {
        "concatenate": _moved_numbers,
        "pad": _moved_parts("padding"),
        "reduce": _moved_numbers,
        "reduce-window": _moved_parts("window"),
        "reverse": _moved_numbers,
        "slice": _moved_parts("slice"),
    }
)
