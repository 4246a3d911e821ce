"""Kernels whose results are computed element by element: the default."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.reduction import reduce_elements, reduce_window_elements
from xladev.codegen.index import Index
from xladev.codegen.kernels.build import KernelBuild
from xladev.hlo.ir import HloInstruction


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

    k.nest_in_layout(members[0][1], body)


def emit_reduce(k: KernelBuild) -> None:
    """Reduce with any number of operands."""

    def body(index: Index) -> None:
        for result, element in zip(k.results, reduce_elements(k.e, k.root, index), strict=True):
            result.store(k.b, index, element)

    k.nest_in_layout(k.results[0], body)


def emit_reduce_window(k: KernelBuild) -> None:
    """Reduce-window with any number of operands."""

    def body(index: Index) -> None:
        elements = reduce_window_elements(k.e, k.root, index)
        for result, element in zip(k.results, elements, strict=True):
            result.store(k.b, index, element)

    k.nest_in_layout(k.results[0], body)
