"""gather and scatter as loops over index vectors, with dynamic slices and updates."""

from __future__ import annotations

from math import prod

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.nested_values import flattened
from xladev.hlo.ops.index_dims import IndexDims
from xladev.passes.expansions.emit import Emitter, Operand, Values, begin
from xladev.passes.scalar_bodies import can_write_out, write_out


def expand_gather(instruction: HloInstruction) -> HloComputation:
    """One dynamic slice per index vector; a start is moved so that its window is inside."""
    e, (operand, indices) = begin(instruction)
    dims, sizes = IndexDims.of_gather(instruction), tuple(instruction["slice_sizes"])
    shape = instruction.shape
    if not shape.size:
        return e.build(e.full(0, shape.element_type, shape.dims))
    starts, batch = _starts(e, indices, dims, operand.shape.rank)
    window = [sizes[d] for d in dims.windowed(operand.shape.rank)]
    rows = e.full(0, shape.element_type, (prod(batch), *window))

    def step(e: Emitter, number: HloInstruction, state: list[HloInstruction]) -> Values:
        rows, operand, starts = state
        block = e.dynamic_slice(operand, _start(e, starts, number), sizes)
        row = e.reshape(block, (1, *window))
        at: list[Operand] = [number, *([0] * len(window))]
        return e.dynamic_update_slice(rows, row, at), operand, starts

    rows = e.repeat(prod(batch), (rows, operand, starts), step)[0]
    apart = e.reshape(rows, (*batch, *window))
    return e.build(e.transpose(apart, _order(dims, len(batch), shape.rank)))


def _order(dims: IndexDims, batch: int, rank: int) -> list[int]:
    """For each result dimension, its place behind (batch..., window...)."""
    vectors, windows = iter(range(batch)), iter(range(batch, rank))
    return [next(windows) if d in dims.window else next(vectors) for d in range(rank)]


def expand_scatter(instruction: HloInstruction) -> HloComputation | None:
    """One dynamic update per index vector; windows partly outside are dropped.

    None if the combiner is no composition of elementwise opcodes.
    """
    body: HloComputation = instruction["to_apply"]
    if not can_write_out(body):
        return None
    e, operands = begin(instruction)
    count = len(operands) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    if not updates[0].shape.size:
        return e.build(e.op("tuple", *inputs) if instruction.shape.is_tuple else inputs[0])
    dims, rank = IndexDims.of_scatter(instruction), inputs[0].shape.rank
    starts, batch = _starts(e, indices, dims, rank)
    axes = dims.batch_axes(updates[0].shape.rank)
    sizes = [updates[0].shape.dims[d] for d in dims.window]
    lines = [
        e.reshape(e.transpose(u, (*axes, *dims.window)), (prod(batch), *sizes)) for u in updates
    ]
    extents = [1] * rank
    for d, size in zip(dims.windowed(rank), sizes, strict=True):
        extents[d] = size
    limits = e.table(
        [n - m for n, m in zip(inputs[0].shape.dims, extents, strict=True)],
        starts.shape.element_type,
    )

    def step(e: Emitter, number: HloInstruction, state: list[HloInstruction]) -> Values:
        values, (starts, limits, *lines) = state[:count], state[count:]
        inside = _is_inside(e, starts, limits, number)
        at = _start(e, starts, number)
        first: list[Operand] = [number, *([0] * len(sizes))]
        new = [e.reshape(e.dynamic_slice(x, first, (1, *sizes)), extents) for x in lines]
        old = [e.dynamic_slice(x, at, extents) for x in values]
        made = flattened(write_out(e, body, [*old, *new], extents))
        flags = e.broadcast(inside, extents, ())
        chosen = [e.select(flags, a, b) for a, b in zip(made, old, strict=True)]
        after = [
            e.dynamic_update_slice(x, block, at) for x, block in zip(values, chosen, strict=True)
        ]
        return *after, starts, limits, *lines

    final = e.repeat(prod(batch), (*inputs, starts, limits, *lines), step)[:count]
    return e.build(e.op("tuple", *final) if instruction.shape.is_tuple else final[0])


def _is_inside(
    e: Emitter, starts: HloInstruction, limits: HloInstruction, number: HloInstruction
) -> HloInstruction:
    rank = limits.shape.dims[0]
    row = e.reshape(e.dynamic_slice(starts, [number, 0], (1, rank)), (rank,))
    fits = e.op("and", e.compare("GE", row, 0), e.compare("LE", row, limits))
    return e.reduce(fits, (0,), "and", True)


def _start(e: Emitter, starts: HloInstruction, number: HloInstruction) -> list[HloInstruction]:
    """The scalars of one row."""
    rank = starts.shape.dims[1]
    row = e.dynamic_slice(starts, [number, 0], (1, rank))
    return [e.reshape(e.slice_in(row, 1, d, d + 1), ()) for d in range(rank)]


def _starts(
    e: Emitter, indices: HloInstruction, dims: IndexDims, rank: int
) -> tuple[HloInstruction, tuple[int, ...]]:
    """Window starts ``[index vectors, rank]`` in all dimensions, and the batch they fill."""
    wide = _index_type(indices.shape.element_type)
    if indices.shape.element_type is dt.U64:
        indices = e.elementwise("minimum", indices, 2**63 - 1)
    vectors = e.convert(indices, wide)
    if dims.vector_dim == vectors.shape.rank:
        vectors = e.reshape(vectors, (*vectors.shape.dims, 1))
    others = [d for d in range(vectors.shape.rank) if d != dims.vector_dim]
    vectors = e.transpose(vectors, (*others, dims.vector_dim))
    batch = vectors.shape.dims[:-1]
    count = prod(batch)
    flat = e.reshape(vectors, (count, vectors.shape.dims[-1]))
    columns = [e.full(0, wide, (count, 1)) for _ in range(rank)]
    for component, d in enumerate(dims.index_map):
        columns[d] = e.slice_in(flat, 1, component, component + 1)
    for d, source in zip(dims.batching, dims.indices_batching, strict=True):
        axis = source - (source > dims.vector_dim)
        columns[d] = e.reshape(e.iota(wide, batch, axis), (count, 1))
    if not columns:
        return e.full(0, wide, (count, 0)), batch
    return e.concatenate(columns, 1), batch


def _index_type(element_type: PrimitiveType) -> PrimitiveType:
    small = element_type.bits < 32 or element_type is dt.S32
    return dt.S32 if small else dt.S64
