"""Opcodes that compute nothing: each reads its operand under another map.

What a vendor replaces: nothing, where their DMA has strides.
"""

from __future__ import annotations

from contextlib import suppress

from xladev.hlo.ir import HloInstruction
from xladev.platforms.template_npu.codegen.access_map import AccessMap, NotAffineError
from xladev.platforms.template_npu.codegen.expression import Expression, at_zero, number_of
from xladev.platforms.template_npu.codegen.nodes import Node


def view_constant(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    """One element at every index; larger constants are in memory."""
    if i.shape.size != 1:
        raise NotAffineError
    return e.constant(i["literal"].array.reshape(-1)[0], i.shape.element_type)


def view_broadcast(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    """The operand at the dimensions that it has."""
    operand = i.operands[0]
    if operand.shape.size == 1:
        return e.node(operand, at_zero(e, operand))
    return e.node(operand, at.chosen(i["dimensions"], i.shape.dims))


def view_transpose(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    """The operand with its dimensions in their own order."""
    order = i["dimensions"]
    return e.node(
        i.operands[0], at.chosen([order.index(d) for d in range(len(order))], i.shape.dims)
    )


def view_same(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    """The operand, unchanged."""
    return e.node(i.operands[0], at)


def view_reshape(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    """The operand at the same linear position."""
    operand = i.operands[0]
    if operand.shape.dims == i.shape.dims:
        return e.node(operand, at)
    if operand.shape.size == 1:
        return e.node(operand, at_zero(e, operand))
    moved = at.reshaped(i.shape.dims)
    with suppress(NotAffineError):  # arrays in memory and elementwise opcodes need no more
        moved = moved.by_dimension(operand.shape.dims)
    return e.node(operand, moved)


def view_slice(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    """The operand from the starts on, in steps."""
    starts, steps = [s.start for s in i["slice"]], [s.stride for s in i["slice"]]
    return e.node(i.operands[0], at.scaled(starts, steps, i.shape.dims))


def view_reverse(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    """The operand with steps of -1 in some dimensions."""
    flipped = i["dimensions"]
    dims = i.shape.dims
    starts = [n - 1 if d in flipped else 0 for d, n in enumerate(dims)]
    steps = [-1 if d in flipped else 1 for d in range(len(dims))]
    return e.node(i.operands[0], at.scaled(starts, steps, dims))


def view_iota(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    """The index itself: a start and a step for each loop."""
    start, steps = at.by_dimension(i.shape.dims).rows[i["iota_dimension"]]
    return e.iota(start, steps, number_of(i.shape.element_type))


def view_bitcast(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    """A bitcast-convert: the same bits under another element type."""
    source, target = i.operands[0].shape.element_type, i.shape.element_type
    if source.bits != target.bits:  # the same bytes, with a dimension more or less
        return e.load(e.memory.array(i.operands[0]), i, at)
    return e.operation("unary", "copy", number_of(target), e.node(i.operands[0], at))


def view_bytes(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    """A bitcast: the same bytes under another shape or type."""
    if i.shape.element_type is i.operands[0].shape.element_type:
        return view_reshape(e, i, at)
    return e.load(e.memory.array(i.operands[0]), i, at)
