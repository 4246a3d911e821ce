"""Dot: in register tiles where that pays, else in loops along contiguous memory."""

from __future__ import annotations

from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.loops import emit_loops
from xladev.platforms.cpu.codegen.products.dot import DotPlan, emit_dot_blocks, fits_target
from xladev.platforms.cpu.codegen.products.few_rows import emit_few_rows, few_rows_plan
from xladev.platforms.cpu.codegen.products.matmul import dot_way, emit_tiled_dot
from xladev.platforms.cpu.codegen.products.narrow_kernel import emit_narrow_weights
from xladev.platforms.cpu.codegen.products.narrow_weights import narrow_weights_of
from xladev.platforms.cpu.codegen.products.row_sums import emit_row_sums, row_sums_plan
from xladev.platforms.cpu.codegen.products.row_wise import emit_row_wise, is_row_wise
from xladev.platforms.cpu.codegen.products.swapped import emit_swapped, swapped_plan


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
    swapped = swapped_plan(k.root)
    if swapped is not None:
        emit_swapped(k, swapped)
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
        emit_row_wise(k)
    else:
        emit_loops(k)
