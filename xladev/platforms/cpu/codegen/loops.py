"""Kernels whose results are computed element by element: the default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.reduction import (
    reduce_elements,
    reduce_together,
    reduce_window_elements,
)
from xladev.codegen.elemental.vectors import is_row_major
from xladev.codegen.index import Index
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.reductions.reduction import emit_reductions
from xladev.platforms.cpu.codegen.reductions.variadic_columns import emit_variadic_columns
from xladev.platforms.cpu.codegen.scan import emit_scan, scan_of
from xladev.platforms.cpu.codegen.tactics import Crossing
from xladev.platforms.cpu.codegen.tiling import tile_of
from xladev.platforms.cpu.codegen.transposing import emit_transposed
from xladev.platforms.cpu.codegen.vectors import emit_in_vectors


def emit_loops(k: KernelBuild) -> None:
    """Computes each result in a loop nest of its own; those of equal dimensions share one."""
    roots = k.root.operands if k.root.opcode == "tuple" else (k.root,)
    groups: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[HloInstruction, IrArray]]] = {}
    for root, result in zip(roots, k.results, strict=True):
        key = (result.shape.dims, result.shape.minor_to_major)
        groups.setdefault(key, []).append((root, result))
    for members in groups.values():
        _emit_group(k, members)


def _emit_group(k: KernelBuild, members: Sequence[tuple[HloInstruction, IrArray]]) -> None:
    def body(index: Index) -> None:
        elements = [k.e.element(root, index) for root, _ in members]
        for (_, result), element in zip(members, elements, strict=True):
            result.store(k.b, index, element)

    array = members[0][1]
    crossing, tile = k.tactic.crossing, None
    if crossing is None and len(members) == 1 and _emit_across(k, *members[0]):
        return
    if crossing is not Crossing.ROWS:
        always = crossing is Crossing.TILES
        tile = tile_of([root for root, _ in members], array.shape, always=always)
    if tile is not None:
        k.nest_in_tiles(array, tile, body)
    elif not emit_in_vectors(k, members):
        k.nest_in_layout(array, body)


def _emit_across(k: KernelBuild, root: HloInstruction, result: IrArray) -> bool:
    """Transposes in registers, if that is what a kernel does; its result may be reshaped."""
    while root.opcode == "reshape" and is_row_major(result.shape):
        root = root.operands[0]
        dtype = result.shape.element_type  # integers, where narrow floats are only moved
        shape = root.shape.without_layout().with_element_type(dtype)
        result = replace(result, shape=shape)
    tile = tile_of([root], result.shape, always=True)
    return tile is not None and emit_transposed(k, root, result, tile)


def emit_reduce(k: KernelBuild) -> None:
    """Reduce with any number of operands: in vectors, or element by element."""
    if emit_reductions(k, [(k.root, k.results[0])], []):
        return
    if len(k.results) > 1 and k.attempt(lambda: emit_variadic_columns(k)):
        return

    def body(index: Index) -> None:
        for result, element in zip(k.results, reduce_elements(k.e, k.root, index), strict=True):
            result.store(k.b, index, element)

    k.nest_in_layout(k.results[0], body)


def emit_results(k: KernelBuild) -> None:
    """A tuple of results: in one nest with the reduces among them, or as `emit_loops`.

    In one nest, results that are not reduced are stored as the reduction comes by.
    """
    parts = list(zip(k.root.operands, k.results, strict=True))
    reductions = [part for part in parts if part[0].opcode == "reduce"]
    stored = [part for part in parts if part[0].opcode != "reduce"]
    if not _are_one_nest([i for i, _ in reductions], [i for i, _ in stored]):
        emit_loops(k)
        return
    if emit_reductions(k, reductions, stored):
        return

    def visit(full: Index) -> None:
        elements = [k.e.element(root, full) for root, _ in stored]
        for (_, result), element in zip(stored, elements, strict=True):
            result.store(k.b, full, element)

    def body(index: Index) -> None:
        elements = reduce_together(k.e, [root for root, _ in reductions], index, visit)
        for (_, result), element in zip(reductions, elements, strict=True):
            result.store(k.b, index, element)

    k.nest_in_layout(reductions[0][1], body)


def _are_one_nest(reductions: Sequence[HloInstruction], stored: Sequence[HloInstruction]) -> bool:
    """True if there are reduces of one result each, and one loop nest goes over all."""
    if not reductions or any(len(i.operands) != 2 for i in reductions):
        return False
    spaces = {(i.operands[0].shape.dims, tuple(sorted(i["dimensions"]))) for i in reductions}
    return len(spaces) == 1 and {i.shape.dims for i in stored} <= {d for d, _ in spaces}


def emit_reduce_window(k: KernelBuild) -> None:
    """Reduce-window with any number of operands: in vectors, or element by element."""
    scan = scan_of(k.root)
    if scan is not None:
        emit_scan(k, scan)
        return
    if len(k.results) == 1 and emit_in_vectors(k, [(k.root, k.results[0])]):
        return

    def body(index: Index) -> None:
        elements = reduce_window_elements(k.e, k.root, index)
        for result, element in zip(k.results, elements, strict=True):
            result.store(k.b, index, element)

    k.nest_in_layout(k.results[0], body)
