"""Reductions in vectors, wherever their elements are as vectors need them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xladev.codegen.elemental.vectors import NotInVectorsError
from xladev.codegen.reductions import Reduction, reduction_of
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.reductions.column_reductions import emit_column_reductions
from xladev.platforms.cpu.codegen.reductions.reduction_space import reduction_space
from xladev.platforms.cpu.codegen.reductions.row_reductions import emit_row_reductions
from xladev.platforms.cpu.codegen.vectors import Member

LEAST_SIZE = 256
"""Elements below which single ones are as good, and compile faster."""


def emit_reductions(k: KernelBuild, reduces: Sequence[Member], stored: Sequence[Member]) -> bool:
    """Reduces over the same dimensions in one nest, which also stores elements that it comes by.

    False, and nothing is emitted, for what must be computed element by element.
    """
    reductions = [reduction for i, _ in reduces if (reduction := reduction_of(i)) is not None]
    if len(reductions) < len(reduces) or reductions[0].reduce.operands[0].shape.size < LEAST_SIZE:
        return False
    ways = [partial(_emit, k, reductions, reduces, stored, flat) for flat in (True, False)]
    return any(k.attempt(way) for way in ways)


def _emit(
    k: KernelBuild,
    reductions: Sequence[Reduction],
    reduces: Sequence[Member],
    stored: Sequence[Member],
    flat: bool,
) -> None:
    space = reduction_space(k, reductions, flat)
    results = [result for _, result in reduces]
    if space.axes[-1].reduced:
        emit_row_reductions(k, space, reductions, results, stored)
    elif stored:
        raise NotInVectorsError("what is stored would not be in order")
    else:
        emit_column_reductions(k, space, reductions, results)
