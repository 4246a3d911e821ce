"""Convolutions whose result is one pixel and whose window is one: a matrix times a vector.

So is what squeeze-and-excitation does between a mean over pixels and a sigmoid. Filters are read
once, as they are in memory; to pack them would take longer than the products.
"""

from __future__ import annotations

from math import prod

from xladev.codegen.index import IndexValue
from xladev.codegen.llvm import I64
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.orders import Order
from xladev.platforms.cpu.codegen.products.row_sums import (
    BLOCK_ROWS,
    RowSumsArguments,
    call_row_sums,
)
from xladev.platforms.cpu.codegen.products.windows import WindowPlan


def is_single_pixel(plan: WindowPlan) -> bool:
    """True if a filter of each feature and the only pixel lie along memory, and the base begins
    with that."""
    is_one = prod(plan.pixels) == plan.positions == plan.groups == 1 and not plan.is_padded
    is_first = all(axis.window.pad_low == 0 for axis in plan.axes)
    is_along = plan.order is Order.COLUMNS and plan.channel == 1
    return is_one and is_first and is_along and plan.total.is_float


def emit_single_pixel(k: KernelBuild, plan: WindowPlan) -> None:
    """Writes the kernel: blocks of features, for threads to share."""
    b, at = k.b, k.e.at
    kind = plan.kind(b.module.target.vector_nbytes)
    base, filters = (k.e.arrays[operand][0].base for operand in k.root.operands[:2])
    row, size = plan.right[2] * plan.sides[1].host_nbytes, kind.size

    def part(begin: IndexValue, end: IndexValue) -> None:
        first = at.value(at.mul(begin, BLOCK_ROWS))
        stop = b.intrinsic("smin", at.value(at.mul(end, BLOCK_ROWS)), plan.features)
        arguments = RowSumsArguments(
            matrix=b.byte_address(filters, b.mul(first, row)),
            row=b.const(I64, row),
            rows=b.sub(stop, first),
            vector=base,
            depth=b.const(I64, plan.channels),
            result=b.byte_address(k.results[0].base, b.mul(first, size)),
        )
        call_row_sums(b, kind, arguments)

    k.split(-(-plan.features // BLOCK_ROWS), part)
