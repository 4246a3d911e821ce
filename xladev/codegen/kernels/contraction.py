"""Dot: in register tiles where that pays, else in loops along contiguous memory."""

from __future__ import annotations

from xladev.codegen.elemental.contraction import accumulation_type, multiply_add
from xladev.codegen.index import Index
from xladev.codegen.kernels.build import KernelBuild
from xladev.codegen.kernels.loops import emit_loops
from xladev.codegen.kernels.matmul import emit_tiled_dot, product_of
from xladev.codegen.kernels.products.dot import dot_plan, emit_dot_blocks
from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import Element
from xladev.hlo.ir import HloInstruction


def emit_dot(k: KernelBuild) -> None:
    """In tiles; or row by row, result[i, :] += lhs[i, k] * rhs[k, :]; or element by element."""
    plan = dot_plan(k.root)
    if plan is not None:
        emit_dot_blocks(k, plan)
        return
    product = product_of(k.root)
    if product is not None:
        emit_tiled_dot(k, product)
        return
    if not _is_row_wise(k.root):
        emit_loops(k)
        return
    i = k.root
    lhs, rhs = i.operands[:2]
    result = k.results[0]
    dtype = i.shape.element_type
    batch = len(i["lhs_batch_dims"])
    depth, width = rhs.shape.dims[batch], rhs.shape.dims[batch + 1]
    zero = constant_element(dtype, 0)

    def per_row(row: Index) -> None:
        with k.b.loop(0, width) as n:
            result.store(k.b, (*row, n), zero)
        with k.b.loop(0, depth) as d, k.e.scope():
            left = _converted(k, k.e.element(lhs, (*row, d)), lhs, i)
            with k.b.loop(0, width) as n, k.e.scope():
                right = _converted(k, k.e.element(rhs, (*row[:batch], d, n)), rhs, i)
                before = result.load(k.b, (*row, n))
                result.store(k.b, (*row, n), multiply_add(k.e, dtype, before, left, right))

    k.split_nest(lhs.shape.dims[:-1], per_row)


def _converted(
    k: KernelBuild, element: Element, source: HloInstruction, i: HloInstruction
) -> Element:
    have, want = source.shape.element_type, i.shape.element_type
    return element if have is want else emit_convert(k.b, element, have, want)


def _is_row_wise(i: HloInstruction) -> bool:
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
