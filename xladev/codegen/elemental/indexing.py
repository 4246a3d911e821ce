"""Elements of opcodes that read at indices known at run time."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.codegen.elemental.choose import choose
from xladev.codegen.elemental.emitter import ElementalEmitter, ElementRule
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import I64, Value
from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.elements import Element, real_of
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.index_dims import IndexDims


def signed_index(e: ElementalEmitter, element: Element, dtype: PrimitiveType) -> Value:
    """An integer element as i64; unsigned 64-bit values over the range become its maximum."""
    value = real_of(element, "an index")
    wide = e.b.resize(value, I64, signed=dtype.is_signed)
    if dtype.is_signed or dtype.bits < 64:
        return wide
    return e.b.intrinsic("umin", wide, 2**63 - 1)


def clamped_starts(
    e: ElementalEmitter,
    starts: tuple[HloInstruction, ...],
    dims: tuple[int, ...],
    window: tuple[int, ...],
) -> Index:
    """Start indices limited so that the window fits; given as scalars or as one vector."""
    return tuple(
        e.at.clamp(_start(e, starts, d) if size > width else 0, 0, size - width)
        for d, (size, width) in enumerate(zip(dims, window, strict=True))
    )


def _start(e: ElementalEmitter, starts: tuple[HloInstruction, ...], dimension: int) -> Value:
    if len(starts) == 1 and starts[0].shape.rank == 1:
        element = e.single(starts[0], (dimension,))
        return signed_index(e, element, starts[0].shape.element_type)
    start = starts[dimension]
    return signed_index(e, e.single(start, ()), start.shape.element_type)


def _dynamic_slice(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    starts = clamped_starts(e, i.operands[1:], i.operands[0].shape.dims, i.shape.dims)
    mapped = tuple(e.at.add(x, s) for x, s in zip(index, starts, strict=True))
    return e.operand(i, 0, mapped)


def _dynamic_update_slice(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    update = i.operands[1].shape.dims
    starts = clamped_starts(e, i.operands[2:], i.shape.dims, update)
    local = tuple(e.at.sub(x, s) for x, s in zip(index, starts, strict=True))
    inside = [e.at.within(x, 0, size) for x, size in zip(local, update, strict=True)]
    return choose(
        e,
        e.at.all_of(inside),
        lambda: e.operand(i, 1, local),
        lambda: e.operand(i, 0, index),
    )


def _gather(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    operand = i.operands[0]
    if not operand.shape.size:
        return constant_element(operand.shape.element_type, 0)
    return e.operand(i, 0, gathered_from(e, i, index))


def gathered_from(e: ElementalEmitter, i: HloInstruction, index: Index) -> Index:
    """Where in its operand, which has elements, a gather finds the element at an index."""
    operand, indices = i.operands
    dims = IndexDims.of_gather(i)
    batch = tuple(x for d, x in enumerate(index) if d not in dims.window)
    starts = index_vector(e, indices, batch, dims)
    batching, hidden = dims.batch_numbers, dims.hidden
    offsets = iter(dims.window)
    mapped: list[IndexValue] = []
    for d, (size, width) in enumerate(zip(operand.shape.dims, i["slice_sizes"], strict=True)):
        within: IndexValue = 0 if d in hidden else index[next(offsets)]
        if d in batching:
            within = batch[batching[d]]
        start = starts.get(d)
        base: IndexValue = 0 if start is None else e.at.clamp(start, 0, size - width)
        mapped.append(e.at.add(base, within))
    return tuple(mapped)


def index_vector(
    e: ElementalEmitter, indices: HloInstruction, batch: Index, dims: IndexDims
) -> dict[int, Value]:
    """The index vector at ``batch``, as operand dimension -> i64; not clamped."""
    found: dict[int, Value] = {}
    for number, dimension in enumerate(dims.index_map):
        at = (*batch[: dims.vector_dim], number, *batch[dims.vector_dim :])
        element = e.single(indices, at[: indices.shape.rank])
        found[dimension] = signed_index(e, element, indices.shape.element_type)
    return found


INDEXING_RULES: Mapping[str, ElementRule] = MappingProxyType(
    {
        "dynamic-slice": _dynamic_slice,
        "dynamic-update-slice": _dynamic_update_slice,
        "gather": _gather,
    }
)
"""Code by opcode."""
