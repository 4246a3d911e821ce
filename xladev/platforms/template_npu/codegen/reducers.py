"""Reducers on tiles: one instruction where the vector unit has it; and windows reduced with them.

What a vendor replaces: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.platforms.template_npu.codegen.access_map import AccessMap, NotAffineError
from xladev.platforms.template_npu.codegen.expression import F32, Expression, at_zero, number_of
from xladev.platforms.template_npu.codegen.nodes import Node
from xladev.platforms.template_npu.codegen.opcodes import BINARY


def reduce_window(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    """A reduce-window: the places of the window, combined one after the other."""
    if len(i.operands) != 2:
        raise NotAffineError
    array, dims = e.memory.window_array(i)
    window = i["window"]
    rows = at.by_dimension(i.shape.dims).rows
    total = e.node(i.operands[1], at_zero(e, i.operands[1]))
    dtype = i.shape.element_type
    wide = accumulates_in_f32(i["to_apply"], dtype)
    total = e.converted(total, F32) if wide else total
    for offsets in np.ndindex(*(w.size for w in window)):
        placed = tuple(
            (start * w.stride + o * w.window_dilation, tuple(c * w.stride for c in coefficients))
            for (start, coefficients), w, o in zip(rows, window, offsets, strict=True)
        )
        position, steps = AccessMap(e.extents, placed).position(dims)
        element = e.load_at(array, dtype, position, steps)
        total = combine(e, i["to_apply"], [total], [e.converted(element, total.type)])[0]
    return e.converted(total, number_of(dtype))


def accumulates_in_f32(reducer: HloComputation, dtype: PrimitiveType) -> bool:
    """True for sums and products of bf16, which are kept wide until the end."""
    return dtype is dt.BF16 and reducer.root.opcode in ("add", "multiply")


def combine(
    e: Expression, reducer: HloComputation, left: Sequence[Node], right: Sequence[Node]
) -> list[Node]:
    """A reducer on two sets of values; one instruction on f32 where it keeps bf16 wide."""
    declared = number_of(reducer.parameters[0].shape.element_type)
    if len(left) == 1 and left[0].type != declared:
        return [e.operation("binary", BINARY[reducer.root.opcode], left[0].type, *left, *right)]
    return e.called(reducer, [*left, *right])
