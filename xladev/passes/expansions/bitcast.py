"""bitcast of tiled or packed layouts as movement of elements and a bitcast of plain bytes.

Tiles as in `hlo.physical`, whose `pack` and `unpack` say the same in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xladev.errors import UnsupportedError
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.physical import (
    dims_by_tile,
    major_to_minor,
    packed_bits,
    split_order,
    tiles_of,
)
from xladev.hlo.shape import Shape, array
from xladev.passes.expansions.emit import Emitter, begin


def expand_bitcast(instruction: HloInstruction) -> HloComputation | None:
    """Laid out as a vector, taken for another vector, and back; None where both are plain."""
    source, target = instruction.operands[0].shape, instruction.shape
    if not (_is_cut(source) or _is_cut(target)) or source.is_dynamic or target.is_dynamic:
        return None
    try:
        is_one = _stored(source) == _stored(target)
    except UnsupportedError:
        return None
    if not is_one and not (_has_bytes(source) and _has_bytes(target)):
        return None
    e, (x,) = begin(instruction)
    flat = _laid_out(e, x, source)
    if not is_one:
        flat = _of_bytes(e, _to_bytes(e, flat, source), target)
    return e.build(_put_back(e, flat, target))


def _is_cut(shape: Shape) -> bool:
    return shape.layout is not None and bool(shape.layout.tiles or shape.layout.element_bits)


def _stored(shape: Shape) -> tuple[PrimitiveType, int, int]:
    """Of what a vector of the layout is, in how many bits, and its length."""
    return shape.element_type, packed_bits(shape), prod(dims_by_tile(shape)[-1])


def _has_bytes(shape: Shape) -> bool:
    """True if bitcasts without tiles make bytes of the elements and elements of bytes."""
    dtype = shape.element_type
    return (dtype.is_float or dtype.is_integral) and dtype.bits == packed_bits(shape)


def _laid_out(e: Emitter, x: HloInstruction, shape: Shape) -> HloInstruction:
    """The vector of elements in the order of memory, tiles filled up with zeros."""
    x = e.transpose(x, major_to_minor(shape))
    for tile in tiles_of(shape):
        rank = max(len(tile), x.shape.rank)
        dims = (1,) * (rank - x.shape.rank) + x.shape.dims
        first = rank - len(tile)
        filling = [-d % t for d, t in zip(dims[first:], tile, strict=True)]
        padding = [*(first * [(0, 0, 0)]), *((0, high, 0) for high in filling)]
        x = e.pad(e.reshape(x, dims), padding)
        cut = [n for d, t in zip(x.shape.dims[first:], tile, strict=True) for n in (d // t, t)]
        x = e.transpose(e.reshape(x, (*dims[:first], *cut)), split_order(first, len(tile)))
    return e.reshape(x, (x.shape.size,))


def _put_back(e: Emitter, flat: HloInstruction, shape: Shape) -> HloInstruction:
    """The array whose vector it is: `_laid_out` undone."""
    dims_after = dims_by_tile(shape)
    x = e.reshape(flat, dims_after[-1])
    for tile, dims in zip(reversed(tiles_of(shape)), reversed(dims_after[:-1]), strict=True):
        first = x.shape.rank - 2 * len(tile)
        whole = x.shape.dims[:first]
        counts = x.shape.dims[first : first + len(tile)]
        x = e.transpose(x, _inverse(split_order(first, len(tile))))
        x = e.reshape(x, (*whole, *(n * t for n, t in zip(counts, tile, strict=True))))
        kept = (1,) * (x.shape.rank - len(dims)) + dims
        for dimension, size in enumerate(kept):
            x = e.slice_in(x, dimension, 0, size)
        x = e.reshape(x, dims)
    return e.transpose(x, _inverse(major_to_minor(shape)))


def _to_bytes(e: Emitter, flat: HloInstruction, shape: Shape) -> HloInstruction:
    """The bytes of a vector, the first element in the low bits of the first one."""
    per_byte = 8 // packed_bits(shape)
    if per_byte <= 1:
        nbytes = flat.shape.size * packed_bits(shape) // 8
        return e.op("bitcast", flat, shape=array(dt.U8, (nbytes,)))
    whole = e.pad(flat, [(0, -flat.shape.size % per_byte, 0)])
    nbytes = whole.shape.size // per_byte
    groups = e.reshape(whole, (nbytes, per_byte))
    return e.op("bitcast-convert", groups, shape=array(dt.U8, (nbytes,)))


def _of_bytes(e: Emitter, octets: HloInstruction, shape: Shape) -> HloInstruction:
    """The vector that the bytes are, those that fill up the last byte cut off."""
    dtype, bits, count = _stored(shape)
    if bits >= 8:
        return e.op("bitcast", octets, shape=array(dtype, (count,)))
    parts = e.op("bitcast-convert", octets, shape=array(dtype, (octets.shape.size, 8 // bits)))
    return e.slice_in(e.reshape(parts, (parts.shape.size,)), 0, 0, count)


def _inverse(order: Sequence[int]) -> list[int]:
    return [order.index(i) for i in range(len(order))]
