"""Dot: in register tiles where that pays, else in loops along contiguous memory."""

from __future__ import annotations

from math import prod

from xladev.codegen.elemental.contraction import accumulation_type, multiply_add
from xladev.codegen.index import Index
from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import Element
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.loops import emit_loops
from xladev.platforms.cpu.codegen.products.dot import DotPlan, emit_dot_blocks, fits_target
from xladev.platforms.cpu.codegen.products.few_rows import emit_few_rows, few_rows_plan
from xladev.platforms.cpu.codegen.products.matmul import dot_way, emit_tiled_dot
from xladev.platforms.cpu.codegen.products.narrow_kernel import emit_narrow_weights
from xladev.platforms.cpu.codegen.products.narrow_weights import narrow_weights_of
from xladev.platforms.cpu.codegen.products.row_sums import emit_row_sums, row_sums_plan

FEW_ROWS = 4
"""Fewer rows than threads could want: they share columns."""
AT_ONCE = 8
"""Rows of the right operand that are read at once: memory comes in as many streams."""
PART_COLUMNS = 2048, 1024, 512
"""Least columns of a part, the best first: memory is read in long runs."""


def emit_dot(k: KernelBuild) -> None:
    """In tiles; or row by row, result[i, :] += lhs[i, k] * rhs[k, :]; or element by element."""
    row_sums = row_sums_plan(k.root)
    if row_sums is not None:
        emit_row_sums(k, row_sums)
        return
    weights = narrow_weights_of(k.root)
    if weights is not None:
        emit_narrow_weights(k, weights)
        return
    few = few_rows_plan(k.root)
    if few is not None:
        emit_few_rows(k, few)
        return
    way = dot_way(k.root, k.tactic)
    if isinstance(way, DotPlan):
        fits = fits_target(way, k.root, k.b.module.target)
        emit_dot_blocks(k, way) if fits else emit_loops(k)
    elif way is not None:
        emit_tiled_dot(k, way)
    elif is_row_wise(k.root):
        _emit_row_wise(k)
    else:
        emit_loops(k)


def _emit_row_wise(k: KernelBuild) -> None:
    """All rows, or parts of rows where these are few."""
    i = k.root
    lhs, rhs = i.operands[:2]
    result = k.results[0]
    dtype = i.shape.element_type
    batch = len(i["lhs_batch_dims"])
    depth, width = rhs.shape.dims[batch], rhs.shape.dims[batch + 1]
    zero = constant_element(dtype, 0)
    rows = lhs.shape.dims[:-1]
    step = part_columns(prod(rows), width) if k.is_shared else max(width, 1)

    def part_of_row(places: Index) -> None:
        row, first = places[:-1], k.e.at.mul(places[-1], step)
        last = k.e.at.add(first, step)
        if width % step:
            last = k.b.intrinsic("smin", k.e.at.value(last), width)
        with k.b.loop(first, last) as n:
            result.store(k.b, (*row, n), zero)
        whole = depth // AT_ONCE * AT_ONCE
        for begin, end, count in ((0, whole, AT_ONCE), (whole, depth, 1)):
            if begin == end:
                continue
            with k.b.loop(begin, end, count) as d, k.e.scope():
                steps = [k.e.at.add(d, x) for x in range(count)]
                lefts = [_converted(k, k.e.element(lhs, (*row, x)), lhs, i) for x in steps]
                with k.b.loop(first, last) as n, k.e.scope():
                    total = result.load(k.b, (*row, n))
                    for x, left in zip(steps, lefts, strict=True):
                        right = _converted(k, k.e.element(rhs, (*row[:batch], x, n)), rhs, i)
                        total = multiply_add(k.e, dtype, total, left, right)
                    result.store(k.b, (*row, n), total)

    k.split_nest((*rows, -(-width // step)), part_of_row)


def part_columns(rows: int, width: int) -> int:
    """Columns that a thread computes at once, of those that share them; all where rows are many."""
    least = next((n for n in PART_COLUMNS if width >= 2 * n), None)
    if rows >= FEW_ROWS or least is None:
        return max(width, 1)
    return max(least, -(-width // FEW_ROWS // least) * least)


def _converted(
    k: KernelBuild, element: Element, source: HloInstruction, i: HloInstruction
) -> Element:
    have, want = source.shape.element_type, i.shape.element_type
    return element if have is want else emit_convert(k.b, element, have, want)


def is_row_wise(i: HloInstruction) -> bool:
    """True for [batch..., m, k] x [batch..., k, n] with sums kept in the result's own type."""
    lhs, rhs = i.operands[:2]
    batch = len(i["lhs_batch_dims"])
    leading = tuple(range(batch))
    return (
        accumulation_type(i.shape.element_type) is i.shape.element_type
        and lhs.shape.rank == batch + 2
        and rhs.shape.rank == batch + 2
        and i["lhs_batch_dims"] == leading
        and i["rhs_batch_dims"] == leading
        and i["lhs_contracting_dims"] == (batch + 1,)
        and i["rhs_contracting_dims"] == (batch,)
        and all(
            s.minor_to_major == tuple(range(s.rank - 1, -1, -1))
            for s in (i.shape, lhs.shape, rhs.shape)
        )
    )
