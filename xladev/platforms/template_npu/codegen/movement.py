"""Stages that write parts of an array: pad, concatenate, dynamic-update-slice, scatter.

What a vendor replaces: nothing, where their DMA has strides.
"""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.index_dims import IndexDims
from xladev.platforms.template_npu.codegen.access_map import (
    AccessMap,
    Row,
    element_strides,
    identity,
)
from xladev.platforms.template_npu.codegen.expression import (
    PRED,
    S32,
    Expression,
)
from xladev.platforms.template_npu.codegen.indexing import (
    added,
    dynamic_offset,
    index_component,
    window_rows,
)
from xladev.platforms.template_npu.codegen.loops import (
    Destination,
    LoopStage,
    StoredValue,
    emit_loop,
    emit_stores,
    spread,
)
from xladev.platforms.template_npu.codegen.nodes import Array, Node
from xladev.platforms.template_npu.codegen.opcodes import COMBINERS
from xladev.platforms.template_npu.device import isa

Padding = Sequence[tuple[int, int, int]]
"""For each dimension: elements before, after (negative: removed), and between each two."""


def padded_dims(dims: tuple[int, ...], padding: Padding) -> tuple[int, ...]:
    """Dimensions after padding."""
    return tuple(
        low + high + n + max(n - 1, 0) * interior
        for n, (low, high, interior) in zip(dims, padding, strict=True)
    )


def emit_pad(stage: LoopStage, i: HloInstruction, results: Sequence[Array]) -> None:
    """The padding value around the operand, or everywhere before it if it is also within."""
    operand, value = i.operands
    padding = [(p.low, p.high, p.interior) for p in i["padding"]]
    emit_padded(stage, operand, value, padding, results[0])


def emit_padded(
    stage: LoopStage,
    operand: HloInstruction,
    value: HloInstruction | None,
    padding: Padding,
    result: Array,
) -> None:
    """An operand with padding; a value of None is zero."""
    dtype = operand.shape.element_type
    dims = padded_dims(operand.shape.dims, padding)
    for corner, sizes in _margins(operand.shape.dims, dims, padding):
        e = Expression(stage, sizes)
        filler = e.constant(0, dtype) if value is None else e.node(value, AccessMap(sizes, ()))
        place = identity(sizes).scaled(corner, [1] * len(corner), sizes)
        emit_stores(stage, sizes, [StoredValue(spread(e, filler), result, *place.position(dims))])
    first, extents = _kept(operand.shape.dims, dims, padding)
    inside = Expression(stage, extents)
    at = identity(extents)
    node = inside.node(operand, at.scaled(first, [1] * len(first), extents))
    starts = [low + f * (step + 1) for (low, _, step), f in zip(padding, first, strict=True)]
    placed = at.scaled(starts, [step + 1 for _, _, step in padding], extents)
    emit_stores(stage, extents, [StoredValue(node, result, *placed.position(dims))])


def _margins(
    source: tuple[int, ...], dims: tuple[int, ...], padding: Padding
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Starts and sizes of the boxes around an operand; one box of everything if it has holes."""
    rank = len(dims)
    if any(low < 0 or high < 0 or step for low, high, step in padding):
        return [((0,) * rank, dims)]
    made: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    lows = tuple(low for low, _, _ in padding)
    for d, (low, high, _) in enumerate(padding):
        for start, size in ((0, low), (low + source[d], high)):
            starts = (*lows[:d], start, *(0,) * (rank - d - 1))
            made.append((starts, (*source[:d], size, *dims[d + 1 :])))
    return [box for box in made if 0 not in box[1]]


def _kept(
    source: tuple[int, ...], dims: tuple[int, ...], padding: Padding
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First element and number of elements of each dimension that negative padding leaves."""
    first: list[int] = []
    count: list[int] = []
    for n, size, (low, _, interior) in zip(source, dims, padding, strict=True):
        step = interior + 1
        start = max(0, -(low // step)) if low < 0 else 0
        end = min(n, -(-(size - low) // step)) if size > low else 0
        first.append(start)
        count.append(max(0, end - start))
    return tuple(first), tuple(count)


def window_padding(i: HloInstruction) -> list[tuple[int, int, int]]:
    """The padding that a reduce-window asks for."""
    return [(w.pad_low, w.pad_high, w.base_dilation - 1) for w in i["window"]]


def emit_concatenate(stage: LoopStage, i: HloInstruction, results: Sequence[Array]) -> None:
    """One operand after the other, each to its place."""
    (axis,) = i["dimensions"]
    start = 0
    for operand in i.operands:
        extents = operand.shape.dims
        e = Expression(stage, extents)
        at = identity(extents)
        starts = [start if d == axis else 0 for d in range(len(extents))]
        placed = at.scaled(starts, [1] * len(extents), extents)
        store = StoredValue(e.node(operand, at), results[0], *placed.position(i.shape.dims))
        emit_stores(stage, extents, [store])
        start += extents[axis]


def emit_dynamic_update_slice(
    stage: LoopStage, i: HloInstruction, results: Sequence[Array]
) -> None:
    """The operand, unless it is there already, then the update at its clamped place."""
    operand, update, *starts = i.operands
    _copy_unless_shared(stage, operand, results[0], 0)
    extents, dims = update.shape.dims, i.shape.dims
    e = Expression(stage, extents)
    at = identity(extents)
    index = dynamic_offset(e, starts, dims, extents)
    position, steps = at.position(dims)
    emit_stores(
        stage, extents, [StoredValue(e.node(update, at), results[0], position, steps, index)]
    )


def _copy_unless_shared(
    stage: LoopStage, operand: HloInstruction, result: Array, number: int
) -> None:
    if not stage.shares(number, operand):
        emit_loop(stage, [Destination(operand, result)])


def emit_scatter(stage: LoopStage, i: HloInstruction, results: Sequence[Array]) -> None:
    """The operand, then each update combined with what is there, unless its window sticks out."""
    operand, _, updates = i.operands
    _copy_unless_shared(stage, operand, results[0], 0)
    extents = updates.shape.dims
    e = Expression(stage, extents)
    rows = identity(extents).rows
    dims = IndexDims.of_scatter(i)
    batch = [rows[d] for d in dims.batch_axes(len(extents))]
    place = window_rows(e, dims, operand.shape.rank, rows, batch)
    index = _checked_index(e, i, dims, batch)
    position, steps = AccessMap(extents, place).position(operand.shape.dims)
    node = e.node(updates, identity(extents))
    function = scatter_function(i)
    emit_stores(stage, extents, [StoredValue(node, results[0], position, steps, index, function)])


def _checked_index(e: Expression, i: HloInstruction, dims: IndexDims, batch: Sequence[Row]) -> Node:
    """Where the window starts, in elements; -1 if it does not fit."""
    operand, indices, updates = i.operands
    whole = operand.shape.dims
    sizes = dict.fromkeys(range(len(whole)), 1)
    shown = dims.windowed(len(whole))
    sizes |= {d: updates.shape.dims[u] for d, u in zip(shown, dims.window, strict=True)}
    strides = element_strides(whole)
    parts: list[Node] = []
    fits: Node | None = None
    for n, d in enumerate(dims.index_map):
        index = index_component(e, indices, batch, dims, n)
        here = _within(e, index, whole[d] - sizes[d])
        fits = here if fits is None else e.operation("binary", "and", PRED, fits, here)
        stride = e.constant(strides[d], dt.S32)
        parts.append(e.operation("binary", "mul", S32, e.converted(index, S32), stride))
    place = added(e, parts)
    return (
        place
        if fits is None
        else e.operation("select", "", S32, fits, place, e.constant(-1, dt.S32))
    )


def _within(e: Expression, index: Node, most: int) -> Node:
    """Whether 0 <= index <= most."""
    type_ = isa.TYPES[index.type]
    dtype = dt.by_name(type_.name)
    largest = (1 << (8 * type_.nbytes - type_.is_signed)) - 1
    high = e.constant(min(most, largest), dtype)
    below = e.operation("compare", "le", PRED, index, high)
    if most < 0:
        return e.operation("binary", "and", PRED, below, e.constant(False, dt.PRED))
    if not type_.is_signed:
        return below
    above = e.operation("compare", "ge", PRED, index, e.constant(0, dtype))
    return e.operation("binary", "and", PRED, above, below)


def scatter_function(i: HloInstruction) -> str:
    """How updates are combined: empty to overwrite, or a function of `scatter`."""
    computation = i["to_apply"]
    root = computation.root
    if root is computation.parameters[1]:
        return ""
    return COMBINERS[root.opcode]


def is_known_combiner(i: HloInstruction) -> bool:
    """True if the DMA engine combines as a scatter wants it."""
    computation = i["to_apply"]
    root, parameters = computation.root, computation.parameters
    if root is parameters[1]:
        return True
    return root.opcode in COMBINERS and set(root.operands) == set(parameters)
